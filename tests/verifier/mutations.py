"""Seeded damage to transcripts: to their bytes, and to their values, with or without what follows.

A transcript is taken apart, its members are given keys that are known here, a value is changed,
and what follows from the values is made anew or left as it was: session, heads, ending and
checkpoints. So a change is met by the very rule that is about it, and not by a signature.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tests.vectors.formats import (
    MAGIC,
    Member,
    Raw,
    checkpoint_text,
    cosignature,
    framed,
    head_statement,
    log_leaves,
    note_of,
    packed,
    session_of,
    sha256,
    tree_hash,
)

WITNESS = Member("witness.example/one")
SMALL = (0, 1, -1, 31, 32, 127, 128, 255, 256, 65_535, 65_536, 2**32, 2**53, 2**63 - 1, 2**63)
VALUES: tuple[Any, ...] = (
    *SMALL,
    "",
    "record",
    "aggregator",
    "Head",
    b"",
    bytes(32),
    b"x" * 300,
    None,
    True,
    1.0,
    float("inf"),
    [],
    [[[]]],
    {},
    {"b": 0, "a": [{}]},
    Raw(b"\xcc\1"),
    "withheld",
    ["mixer"],
    [["request", 2]],
)


# --- bytes


def _flip(draw: random.Random, data: bytearray) -> None:
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _set(draw: random.Random, data: bytearray) -> None:
    data[draw.randrange(len(data))] = draw.choice((0, 1, 0x7F, 0x80, 0xC0, 0xC1, 0xC4, 0xFF))


def _cut(draw: random.Random, data: bytearray) -> None:
    del data[draw.randrange(len(data)) :]


def _drop(draw: random.Random, data: bytearray) -> None:
    start = draw.randrange(len(data))
    del data[start : start + draw.choice((1, 1, 2, 4, 50))]


def _double(draw: random.Random, data: bytearray) -> None:
    start = draw.randrange(len(data))
    data[start:start] = data[start : start + draw.choice((1, 2, 4, 50, 10_000))]


def _add(draw: random.Random, data: bytearray) -> None:
    start = draw.choice((len(data), draw.randrange(len(data))))
    data[start:start] = draw.randbytes(draw.choice((1, 3, 4, 9)))


DAMAGED: tuple[Callable[[random.Random, bytearray], None], ...]
DAMAGED = (_flip, _flip, _set, _cut, _drop, _double, _add)


def damaged(draw: random.Random, file: bytes) -> bytes:
    """The bytes with one change, and now and then more."""
    data = bytearray(file)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        if data:
            draw.choice(DAMAGED)(draw, data)
    return bytes(data)


# --- text

ODD = (
    *(
        "",
        "x",
        "A",
        "a",
        "G",
        "0",
        "9",
        "+",
        "-",
        "/",
        "=",
        ":",
        ",",
        '"',
        "\\",
        "{",
        "}",
        "\u2014",
    ),
    *(" ", "\t", "\n", "\n\n", "\r", "\r\n", "\0", "\x0b", "\x1c", "\x1f", "\x7f", "\x85"),
    *("\u00a0", "\u180e", "\u2003", "\u200b", "\u2028", "\u3000", "\ufeff"),
    *("\u00e9", "\u0661", "\U0001f600", "\\u0061"),
)
"""Characters, among them all sorts of white space."""


def respelled(draw: random.Random, text: str) -> str:
    """The text with a few characters changed, or a line moved or said twice."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        at = draw.randrange(len(text) + 1)
        match draw.choice(("in", "instead", "out", "moved", "twice")):
            case "in":
                text = text[:at] + draw.choice(ODD) + text[at:]
            case "instead":
                text = text[:at] + draw.choice(ODD) + text[at + 1 :]
            case "out":
                text = text[:at] + text[at + draw.choice((1, 2, 8, 44)) :]
            case way:
                lines = text.split("\n")
                place = draw.randrange(len(lines))
                line = lines.pop(place) if way == "moved" else lines[place]
                lines.insert(draw.randrange(len(lines) + 1), line)
                text = "\n".join(lines)
    return text


# --- values


def retold(draw: random.Random, value: Any) -> None:
    """Change something somewhere in a list or map, in place."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return
    key = draw.choice(keys)
    inside = value[key]
    if isinstance(inside, list | dict) and inside and draw.random() < 0.8:
        retold(draw, inside)
    elif isinstance(value, list) and draw.random() < 0.2:
        draw.choice((value.pop, lambda i: value.insert(i, copy.deepcopy(value[i]))))(key)
    elif isinstance(inside, int) and not isinstance(inside, bool) and draw.random() < 0.6:
        value[key] = inside + draw.choice((-1, 1, 2))
    elif isinstance(inside, bytes) and inside and draw.random() < 0.7:
        value[key] = damaged(draw, inside)
    elif isinstance(inside, str) and inside and draw.random() < 0.6:
        value[key] = respelled(draw, inside)
    else:
        value[key] = draw.choice(VALUES)


class Rewriting:
    """A transcript taken apart, whose members have keys that are known here.

    ``header`` is its map; ``records`` are lists, the envelope of a ``Sent`` a list too, and the
    body of a ``Head``. ``fitting`` says what is made anew when it is written.
    """

    def __init__(self, file: bytes) -> None:
        start = len(MAGIC)
        self.secret, at = file[start : start + 32], start + 32
        contents = []
        while at < len(file):
            end = at + 4 + int.from_bytes(file[at : at + 4], "big")
            contents.append(file[at + 4 : end])
            at = end
        self.header: dict[str, Any] = msgspec.msgpack.decode(contents[0])
        self.records: list[Any] = [msgspec.msgpack.decode(content) for content in contents[1:]]
        for member in self.header["roster"]:
            member[1] = Member(member[0]).key
        for record in self.records:
            if record[0] == "Sent":
                record[2] = msgspec.msgpack.decode(record[2])
                if record[2][4] == "Head":
                    record[2][5] = msgspec.msgpack.decode(record[2][5])
        self.fitting = {"session", "heads", "ending", "checkpoints"}

    def written(self) -> bytes:
        """The file."""
        if "session" in self.fitting:
            self.header["session"] = session_of(self.header)
        contents = [packed(self.header)]
        said: dict[str, list[bytes]] = {name: [] for name, _ in self.header["roster"]}
        file = [MAGIC, self.secret, framed(contents[0])]
        for record in self.records:
            if record[0] == "Checkpoint":
                file.append(framed(packed([*record[:1], self.checkpoint(record[1], contents)])))
                continue
            content = packed(self.entry(record, said, contents))
            contents.append(content)
            file.append(framed(content))
        return b"".join(file)

    def entry(self, record: Any, said: dict[str, list[bytes]], contents: list[bytes]) -> Any:
        """An entry as it is written; what it sends is added to what was said."""
        if record[0] == "Ending" and "ending" in self.fitting:
            return ["Ending", self.root(contents), *record[2:]]
        if record[0] != "Sent" or not isinstance(record[2], list):
            return record
        session, sender, recipient, seq, kind, body = record[2]
        if "session" in self.fitting:
            session = self.header["session"]
        if isinstance(body, list):
            waits, signature = body
            if "heads" in self.fitting:
                heard = tree_hash([packed(self.heard(wait, said)) for wait in waits])
                words = tree_hash(said[sender])
                statement = head_statement(session, sender, seq, words, heard)
                signature = Member(sender).sign(statement)
            body = packed([waits, signature])
        envelope = packed([session, sender, recipient, seq, kind, body])
        said.setdefault(sender, []).append(envelope)
        return [*record[:2], envelope]

    def heard(self, wait: list[Any], said: dict[str, list[bytes]]) -> list[Any]:
        """A wait with the hashes of what it heard."""
        *about, pairs = wait
        names = [name for name, _ in self.header["roster"]]
        found = []
        for place, seq in pairs:
            words = said[names[place]] if 0 <= place < len(names) else []
            envelope = words[seq] if 0 <= seq < len(words) else b""
            found.append([place, seq, sha256(b"\0" + envelope)])
        return [*about, found]

    def checkpoint(self, note: Any, contents: list[bytes]) -> Any:
        """The note; made anew if it is to fit, with the lines of others that it had."""
        if "checkpoints" not in self.fitting:
            return note
        session, key = self.header["session"], self.header["roster"][0][1]
        text = checkpoint_text(session, key, len(contents), self.root(contents))
        others = [line for line in note.split("\n")[4:-1] if "sottovoce/" not in line]
        signed = note_of(text, Member(self.header["roster"][0][0]))
        return signed + "".join(f"{line}\n" for line in others)

    def root(self, contents: Sequence[bytes]) -> bytes:
        return tree_hash(log_leaves(self.secret, contents))


# --- both


def rewritten(draw: random.Random, original: Rewriting) -> bytes:
    """The file with a value changed, or a record moved, and all, some or none of it made to fit."""
    rewriting = copy.deepcopy(original)
    header, records = rewriting.header, rewriting.records
    if draw.random() < 0.5:
        kept = (name for name in sorted(rewriting.fitting) if draw.random() < 0.5)
        rewriting.fitting = set(kept)
    if draw.random() < 0.3:
        records[:] = [record for record in records if record[0] != "Checkpoint"]
    at = draw.randrange(len(records))
    match draw.choice(("header", "value", "value", "value", "out", "twice", "moved", "new")):
        case "header":
            retold(draw, header)
        case "value":
            signed = [record for record in records if is_signed(record)]
            retold(draw, draw.choice(signed) if signed and draw.random() < 0.3 else records[at])
        case "out":
            del records[at]
        case "twice":
            records.insert(draw.randrange(at, len(records) + 1), copy.deepcopy(records[at]))
        case "moved":
            records.insert(draw.randrange(len(records)), records.pop(at))
        case "new":
            records.insert(at, added(draw, header, records))
    file = rewriting.written()
    return damaged(draw, file) if draw.random() < 0.1 else file


def is_signed(record: list[Any]) -> bool:
    """Whether a record is a checkpoint, or a head."""
    return record[0] == "Checkpoint" or (record[0] == "Sent" and record[2][4] == "Head")


def added(draw: random.Random, header: Any, records: Sequence[Any]) -> list[Any]:
    """An entry or a checkpoint that may well be in the file, but is not."""
    names = [name for name, _ in header["roster"]]
    sent = [record[2] for record in records if record[0] == "Sent"]
    sender, recipient, seq = draw.choice(sent)[1:4] if sent else ("aggregator", names[-1], 0)
    number = len([envelope for envelope in sent if envelope[1] == sender])
    size = draw.randrange(1, len(records) + 2)
    text = checkpoint_text(header["session"], header["roster"][0][1], size, bytes(32))
    return draw.choice(
        (
            ["Delivered", 0, sender, recipient, seq, draw.random() < 0.5],
            ["Hindered", 0, sender, recipient, seq],
            ["Departed", 0, draw.choice((*names, "nobody")), ""],
            ["Restored", 0, [draw.choice((*names, "nobody"))]],
            ["Refused", 0, "link", "reason", draw.randbytes(draw.choice((0, 256, 257)))],
            ["Sent", 0, [header["session"], sender, recipient, number, "Closed", b"\x90"]],
            ["Sent", 0, [header["session"], sender, "record", number, "Head", [[], bytes(64)]]],
            ["Checkpoint", note_of(text, Member(draw.choice(names)))],
            [
                "Checkpoint",
                note_of(text, Member(names[0])) + cosignature(text, WITNESS),
            ],
            ["Ending", bytes(32), True, ""],
        )
    )


def mutations(files: Sequence[bytes], count: int, seed: int) -> list[bytes]:
    """So many damaged files, made from the given ones, which are sound."""
    draw = random.Random(seed)
    rewritings = [Rewriting(file) for file in files]
    made: list[bytes] = []
    while len(made) < count:
        place = draw.randrange(len(files))
        if draw.random() < 0.2:
            made.append(damaged(draw, files[place]))
            continue
        try:
            made.append(rewritten(draw, rewritings[place]))
        except (TypeError, ValueError, OverflowError, AttributeError, LookupError):
            continue  # a value from which nothing follows
    return made
