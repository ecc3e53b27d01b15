"""Makes the vectors of transcripts: true and broken files, and what a verifier has to say of them.

``python -m tests.vectors.transcripts`` writes the files of ``tests/vectors/transcript`` anew.
``docs/vectors.md`` says how to read them, ``recording`` writes the transcripts.
"""

from __future__ import annotations

import base64
import itertools
import json
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.vectors.annotating import annotated
from tests.vectors.make import Raw, based, packed, sha256, some, tree_hash, written
from tests.vectors.proofs import proofs
from tests.vectors.recording import (
    AGGREGATOR,
    ANN,
    BASE,
    BOB,
    EIGHTH,
    KINDS,
    LAST,
    MAGIC,
    MAX_BLOCK,
    MOST,
    ORDER,
    OTHER_WITNESS,
    PRIME,
    RAW,
    RUN,
    WITNESS,
    ZSTD,
    Member,
    OddMember,
    Transcript,
    block,
    checksum_of,
    cosignature,
    encoded_point,
    frame,
    frame_header,
    framed,
    multiplied,
    note_of,
    origin,
    point_of,
    raw_block,
    repeat_block,
    session_of,
    signature_line,
    verifier_key,
)

FOLDER = Path(__file__).parent / "transcript"

SOUND, BROKEN = "sound", "broken"
INCOMPLETE, UNFINISHED = "incomplete", "unfinished"

Chunk = bytes | tuple[bytes, int]
"""Bytes, and how many times they are written."""

Case = dict[str, Any]


def sound(name: str, record: Transcript, **given: Any) -> Case:
    found = {"size": len(record.leaves), "root": record.root, "digest": record.digest}
    return {**verdict(name, shrunk(record), SOUND, **given), "found": found}


def broken(name: str, record: Transcript | Sequence[Chunk], *rules: str, **given: Any) -> Case:
    chunks = shrunk(record) if isinstance(record, Transcript) else record
    return verdict(name, chunks, BROKEN, *rules, **given)


def incomplete(name: str, record: Transcript | Sequence[Chunk], **given: Any) -> Case:
    chunks = record.chunks if isinstance(record, Transcript) else record
    return verdict(name, chunks, INCOMPLETE, **given)


def verdict(name: str, chunks: Sequence[Chunk], says: str, *rules: str, **given: Any) -> Case:
    case: Case = {"name": name, "file": list(chunks), "verdict": says, "rules": list(rules)}
    return case | ({"given": given} if given else {})


# --- the records that the cases begin with


def opened(**fields: Any) -> Transcript:
    """A header alone."""
    return Transcript(**fields)


def asked(**fields: Any) -> Transcript:
    """Both parties have been asked, and one has answered."""
    record = opened(**fields)
    for party in (ANN, BOB):
        record.tell("aggregator", party.name, "Ask", b"\x90")
    record.tell("ann", "aggregator", "Report", b"\x91\x01")
    return record


def counted() -> Transcript:
    """Both have answered and were counted."""
    record = asked()
    record.tell("bob", "aggregator", "Report", b"\x91\0")
    record.close("Report", b"\x06")
    return record


def survey() -> Transcript:
    """A whole survey, up to its last entry: result, heads, checkpoints on the way."""
    record = opened()
    record.check()
    record.records += counted().records[1:]
    record.said = counted().said
    record.check()
    record.say("aggregator", "record", "Result", b"\x92\x01\x01")
    for party in (ANN, BOB):
        record.head(party)
    return record


def ended(record: Transcript, **other: Any) -> Transcript:
    """The record with its last entry; ``other`` replaces what is in that."""
    record.end(**other)
    return record


def sealed(record: Transcript) -> Transcript:
    """The record with its last entry and a checkpoint over all of it."""
    record.end()
    record.check()
    return record


# --- layout


def layout() -> Iterator[Case]:
    yield sound("a whole survey", sealed(survey()))
    yield sound("the annotated file", example())
    yield sound("without a checkpoint", ended(asked()))
    yield sound("a header and an ending", ended(opened()))
    whole = sealed(survey())
    chunks = whole.chunks
    places = [len(whole.start)]
    for content, _ in whole.records:
        places.append(places[-1] + len(framed(content)))
    for name, at in (
        ("no byte", 0),
        ("a byte", 1),
        ("inside the magic", 22),
        ("before the secret", 23),
        ("inside the secret", 54),
        ("before the header", 55),
        ("inside the length of the header", 58),
        ("between the length of the header and the header", 59),
        ("inside the header", places[1] - 1),
        ("after the header", places[1]),
        ("after a checkpoint", places[2]),
        ("inside the length of an entry", places[2] + 3),
        ("inside an entry", places[3] - 1),
        ("after an entry", places[3]),
        ("before the ending", places[-3]),
        ("inside the ending", places[-2] - 1),
    ):
        yield incomplete(f"cut: {name}", upto(chunks, at))
    yield broken("cut: after the ending, which checkpoints precede", [*chunks[:-1]], "checkpoint")
    short = [*chunks[:-1], chunks[-1][:-1]]
    yield broken("cut: in the last checkpoint", short, "ending", "checkpoint")
    yield incomplete("a run that failed", ended(asked(), complete=False, reason="time ran out"))
    failed = survey()
    failed.end(complete=False, reason="r" * 1024)
    failed.check()
    yield incomplete("a run that failed, signed", failed)
    for name, start in (
        ("of version 1", MAGIC.replace(b"2", b"1")),
        ("of version 3", MAGIC.replace(b"2", b"3")),
        ("with a capital", MAGIC.replace(b"s", b"S", 1)),
        ("without a line end", MAGIC.replace(b"\n", b" ")),
        ("with another line end", MAGIC.replace(b"\n", b"\r")),
        ("after a byte order mark", b"\xef\xbb\xbf" + MAGIC),
    ):
        yield broken(f"magic {name}", [start, ended(opened()).log[23:]], "magic")
    for name, start in (
        ("a zero byte", b"\0"),
        ("another file's", b"\x1f\x8b\x08\0"),
        ("a letter", b"sotto voce"),
    ):
        yield broken(f"magic: {name}, and nothing more", [start], "magic")
    start = opened().start
    for name, length, rule in (
        ("67,108,864 bytes, cut", 1 << 26, None),
        ("67,108,865 bytes", (1 << 26) + 1, "length"),
        ("2**32 - 1 bytes", (1 << 32) - 1, "length"),
    ):
        chunks = [start, struct.pack(">I", length)]
        given = f"a header of {name}"
        yield broken(given, chunks, rule) if rule else incomplete(given, chunks)
    chunks = opened().chunks
    for name, length, rule in (
        ("66,560 bytes, cut", 66_560, None),
        ("66,561 bytes", 66_561, "length"),
        ("2**32 - 1 bytes", (1 << 32) - 1, "length"),
    ):
        given = f"an entry of {name}"
        cut = [*chunks, struct.pack(">I", length)]
        yield broken(given, cut, rule) if rule else incomplete(given, cut)
    yield broken("a header of no byte", [start, framed(b"")], "header")
    record = opened()
    record.add(b"")
    yield broken("an entry of no byte", ended(record), "entries")
    record = asked()
    record.say("ann", "aggregator", "Report", bytes(65_536))
    yield broken("an entry as long as one may be", ended(record), "body-size")


def upto(chunks: Sequence[bytes], size: int) -> list[bytes]:
    """So many bytes of them."""
    parts = []
    for chunk in chunks:
        parts.append(chunk[:size])
        size -= len(parts[-1])
    return [part for part in parts if part]


def shrunk(record: Transcript) -> list[Chunk]:
    """Its chunks, long stretches of one byte written as such."""
    chunks: list[Chunk] = []
    for chunk in record.chunks:
        at = 0
        for octet, run in itertools.groupby(chunk):
            end = at + len(list(run))
            if end - at >= 100:
                chunks += [chunk[:at], (bytes([octet]), end - at)]
                chunk, end = chunk[end:], 0
            at = end
        chunks.append(chunk)
    return chunks


# --- the header


def without(fields: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != name}


def rewritten(header: Any) -> Transcript:
    """A record with another header, of these fields or bytes."""
    record = opened()
    record.records[0] = (header if isinstance(header, bytes) else packed(header), True)
    if isinstance(header, dict):
        record.fields = header
    return record


def nested(depth: int, inner: Any = 0, kind: type = list) -> Any:
    for _ in range(depth):
        inner = [inner] if kind is list else {"a": inner}
    return inner


WRONG_TYPES: dict[str, list[Any]] = {
    "variant": [None, 1, b"Sample"],
    "parameters": [None, [], "x", 1],
    "survey": [None, []],
    "analysis": [[], "x", False],
    "nonce": [None, "x" * 16, [0] * 16],
    "attempt": [None, "1", 1.0, True, [], 0, -1, 101, 2**63],
    "session": [None, "x" * 32],
    "roster": [None, {"aggregator": AGGREGATOR.key}],
    "kinds": [None, "Closed", {}, [], ["Closed", "Declined", "Left", "Head"]],
    "recording": [None, True, 0],
    "seed": ["1", 1.0, True, [], -1],
    "transport": [1, b"memory", False],
    "program": [None, 1],
}


def headers() -> Iterator[Case]:
    fields = opened().fields
    for name in fields:
        yield broken(f"header without {name}", rewritten(without(fields, name)), "header")
    for name, values in WRONG_TYPES.items():
        for value in values:
            shown = f"{value!r:.20}" if not isinstance(value, dict) else "a map"
            record = rewritten(fields | {name: value})
            yield broken(f"header with {name} = {shown}", record, "header")
    pairs = list(fields.items())
    swapped = dict([*pairs[:-2], *pairs[:-3:-1]])
    head = bytes([0x80 + len(fields) + 1])
    once_more = packed(fields)[1:] + packed("seed") + packed(None)
    for name, content in (
        ("with a field more", packed(fields | {"format": 2})),
        ("with a field twice", head + once_more),
        ("in another order", packed(swapped)),
        ("as an array", packed(list(fields.values()))),
        ("that is nil", packed(None)),
        ("in a map with a longer head", b"\xde\0" + bytes([len(fields)]) + packed(fields)[1:]),
        ("with a byte after it", packed(fields) + b"\0"),
        ("cut short by its length", packed(fields)[:-1]),
        ("that is an entry", packed(["Departed", 0, "ann", ""])),
    ):
        yield broken(f"header {name}", rewritten(content), "header")
    yield from sessions()
    yield from rosters()
    yield from other_fields()
    yield from kinds()
    yield from plain_values()


def sessions() -> Iterator[Case]:
    fields = opened().fields
    for name, value in (
        ("variant", "Other"),
        ("parameters", {"epsilon": 1.5}),
        ("survey", {}),
        ("analysis", {}),
        ("nonce", bytes(16)),
        ("attempt", 2),
        ("kinds", [*KINDS, ["More", 1, []]]),
        ("roster", fields["roster"][:-1]),
    ):
        record = opened(**{name: value, "session": fields["session"]})
        yield broken(f"session of another {name}", record, "header")
    for name, value in (("seed", 7), ("transport", None), ("program", "")):
        record = opened(**{name: value, "session": fields["session"]})
        yield sound(f"session of another {name}, which it does not bind", ended(record))
    for attempt in (2, 100):
        yield sound(f"of attempt {attempt}", sealed(opened(attempt=attempt)))
    for name, session in (
        ("that is the first attempt's", fields["session"]),
        ("of another attempt", session_of(fields | {"attempt": 3})),
    ):
        record = opened(attempt=2, session=session)
        yield broken(f"attempt 2 with a session {name}", record, "header")
    turned = [fields["roster"][0], *fields["roster"][:0:-1]]
    record = opened(roster=turned, session=fields["session"])
    yield broken("session of another order of the roster", record, "header")
    for name, session in (
        ("of 16 bytes", fields["session"][:16]),
        ("of 33 bytes", fields["session"] + b"\0"),
        ("of zeros", bytes(32)),
        ("that is the nonce", fields["nonce"] * 2),
    ):
        yield broken(f"session {name}", opened(session=session), "header")
    for size in (0, 15, 17, 32):
        record = opened(nonce=bytes(size))
        yield broken(f"nonce of {size} bytes", record, "header")


def point(y: int, odd: bool = False) -> bytes:
    return (y | odd << 255).to_bytes(32, "little")


def rosters() -> Iterator[Case]:
    first, ann, bob = opened().fields["roster"]

    def of(*members: Any) -> Transcript:
        return ended(Transcript([Member(m[0]) for m in members if m], roster=list(members)))

    for name, record in (
        ("without a party", of(first)),
        ("with an id of 63 characters", of(first, ["a" * 63, ann[1]])),
        ("with an id of one digit", of(first, ["0", ann[1]])),
        ("with an id of inner hyphens", of(first, ["a--b-c", ann[1]])),
        ("with a key that is not on the curve", of(first, ["ann", point(2)])),
    ):
        yield sound(f"roster {name}", record)
    for name, record in (
        ("without a member", of()),
        ("with the aggregator second", of(ann, first)),
        ("without the aggregator", of(ann, bob)),
        ("with the aggregator twice", of(first, ["aggregator", ann[1]])),
        ("with an id twice", of(first, ann, ["ann", bob[1]])),
        ("with a key twice", of(first, ann, ["bob", ann[1]])),
        ("with the aggregator's key twice", of(first, ann, ["bob", first[1]])),
        ("with a key and its negative", of(first, ann, ["bob", negative(ann[1])])),
    ):
        yield broken(f"roster {name}", record, "header")
    for id_ in (
        "",
        "a" * 64,
        "record",
        "switch",
        "Ann",
        "-ann",
        "ann-",
        "-",
        "ann bob",
        "ann.bob",
        "ann_1",
        "ann\n",
        "\u00e4nn",
        "\u0661",
    ):
        yield broken(f"roster with the id {id_!a}", of(first, [id_, ann[1]]), "header")
    for name, key in (
        ("of 31 bytes", ann[1][:31]),
        ("of 33 bytes", ann[1] + b"\0"),
        ("of no byte", b""),
        ("of zeros: order 4", point(0)),
        ("of order 4, odd", point(0, True)),
        ("of order 1", point(1)),
        ("of order 1, odd", point(1, True)),
        ("of order 2", point(PRIME - 1)),
        ("of order 2, odd", point(PRIME - 1, True)),
        ("of order 8", point(EIGHTH)),
        ("of order 8, odd", point(EIGHTH, True)),
        ("of order 8, the negative", point(PRIME - EIGHTH)),
        ("of order 8, the negative, odd", point(PRIME - EIGHTH, True)),
        ("with y = p", point(PRIME)),
        ("with y = p, odd", point(PRIME, True)),
        ("with y = p + 1", point(PRIME + 1)),
        ("with y = p + 3, not canonical", point(PRIME + 3)),
        ("of ones", b"\xff" * 32),
    ):
        yield broken(f"a party's key {name}", of(first, ["ann", key]), "header")
    yield broken("the aggregator's key of zeros", of(["aggregator", bytes(32)], ann), "header")
    fields = opened().fields
    for name, member in (
        ("of one item", ["ann"]),
        ("of three items", ["ann", ann[1], 0]),
        ("as a map", {"ann": ann[1]}),
        ("with a key in text", ["ann", "k" * 32]),
        ("with an id in bytes", [b"ann", ann[1]]),
    ):
        record = rewritten(fields | {"roster": [first, member]})
        yield broken(f"roster with a member {name}", record, "header")


def negative(key: bytes) -> bytes:
    return key[:31] + bytes([key[31] ^ 0x80]) + key[32:]


def other_fields() -> Iterator[Case]:
    for recording in ("", "Full", "brief"):
        record = ended(opened(recording=recording))
        yield broken(f"recording of {recording!r}", record, "header")
    for seed in (0, 1, 2**63, 2**64 - 1):
        yield sound(f"seed {seed}", ended(opened(seed=seed)))
    yield sound("a seed that is withheld", ended(opened(seed="withheld")))
    yield broken("a seed that is another text", ended(opened(seed="hidden")), "header")
    yield sound("texts that are empty", ended(opened(variant="", transport="", program="")))
    yield sound("text that is not ASCII", ended(opened(program="Gr\u00fc\u00dfe \U0001f600 \0")))


def nested_type(depth: int) -> Any:
    return ["nil"] if depth == 1 else ["list", nested_type(depth - 1), 0, None]


TYPES: list[Any] = [
    ["nil"],
    ["bool"],
    ["int", None, None],
    ["int", -(2**63), 2**64 - 1],
    ["float", None, None],
    ["float", -0.5, 1e300],
    ["str", 0, None],
    ["str", 1, 2**63 - 1],
    ["bytes", 32, 32],
    ["enum", ["a", 1, None]],
    ["enum", []],
    ["list", ["bool"], 0, None],
    ["struct", []],
    ["struct", [["a", ["nil"]], ["", ["bool"]]]],
    ["map", [["a", ["nil"]], ["b", ["bool"]]]],
    ["union", [["nil"], ["int", 0, None]]],
    ["array", "u1", [[1, 3], [2, 2]], 0, [1, 4]],
    ["array", "f8", [], 0.5, None],
    ["array", "i8", [[0, 1]] * 8, -5, 5],
    nested_type(16),
]
WRONG_KINDS: list[tuple[str, Any]] = [
    ("without a name", [1, []]),
    ("with an item more", ["More", 1, [], None]),
    ("as a map", {"More": 1}),
    ("of nil", None),
    ("with bytes for its name", [b"More", 1, []]),
    ("of at most 0 bytes", ["More", 0, []]),
    ("of at most -1 byte", ["More", -1, []]),
    ("of at most 67,174,401 bytes", ["More", 67_174_401, []]),
    ("of at most 1.0 bytes", ["More", 1.0, []]),
    ("of at most true bytes", ["More", True, []]),
    ("with its bytes in a longer form", ["More", Raw(b"\xcc\1"), []]),
    ("with a map of fields", ["More", 1, {}]),
    ("with a field without a type", ["More", 1, [["a"]]]),
    ("with a field without a name", ["More", 1, [[["nil"]]]]),
    ("with a field as text", ["More", 1, ["a"]]),
    ("that is there twice", ["Ask", MOST, []]),
]
WRONG_TYPES_OF_FIELDS: list[Any] = [
    [],
    "nil",
    ["Nil"],
    ["date"],
    ["nil", None],
    ["int", 0],
    ["int", 0.0, None],
    ["int", 0, 1, 2],
    ["int", False, True],
    ["float", 0, 1],
    ["float", "0", None],
    ["float", Raw(b"\xca\0\0\0\0"), None],
    ["float", float("nan"), None],
    ["array", "f8", [], 0, float("nan")],
    ["array", "f8", [[2, 2]], 0, [1.0, float("nan")]],
    ["str", None, None],
    ["str", -1, None],
    ["str", 2**63, None],
    ["bytes", 0, 2**63],
    ["bytes", 0],
    ["enum", [1.5]],
    ["enum", [True]],
    ["enum", None],
    ["list", "nil", 0, None],
    ["list", ["nil"], 0],
    ["struct", {}],
    ["map", [["a", ["nil"], 0]]],
    ["union", ["nil"]],
    ["array", "u3", [], 0, None],
    ["array", "u1", [[1]], 0, None],
    ["array", "u1", [1], 0, None],
    ["array", "u1", [[0, 1]] * 9, 0, None],
    ["array", "u1", [[-1, 1]], 0, None],
    ["array", "u1", [[1, None]], 0, None],
    ["array", "u1", [[1, 2]], 0, [1, 2]],
    ["array", "u1", [[2, 2]], 0, [1, 2, 3]],
    ["array", "u1", [], 0, [1]],
    ["array", "u1", [], None, 1],
    ["array", "u1", [], 0],
    ["array", "u1", [], 0, "1"],
    nested_type(17),
]


def kinds() -> Iterator[Case]:
    def of(*more: Any) -> Transcript:
        return ended(opened(kinds=[*KINDS, *more]))

    for type_ in TYPES:
        yield sound(f"a kind with a {shown_type(type_)}", of(["More", 100, [["a", type_]]]))
    yield sound("a kind with all types", of(["More", 5, [["a", type_] for type_ in TYPES]]))
    yield sound("a kind with an empty name", of(["", 1, []]))
    yield sound("a kind of at most 67,174,400 bytes", of(["More", 67_174_400, []]))
    many = [[f"{place:04}", 1, []] for place in range(1025 - len(KINDS))]
    yield sound("1,024 kinds", of(*many[1:]))
    yield broken("1,025 kinds", of(*many), "header")
    for name, kind in WRONG_KINDS:
        yield broken(f"a kind {name}", of(kind), "header")
    for type_ in WRONG_TYPES_OF_FIELDS:
        kind = ["More", 100, [["a", type_]]]
        yield broken(f"a kind with a wrong {shown_type(type_)}", of(kind), "header")
    for place, (name, most, fields) in enumerate(KINDS[3:], 3):
        others = [*KINDS[:place], *KINDS[place + 1 :]]
        yield broken(f"kinds without {name}", opened(kinds=others), "header")
        yield sound(f"kinds with {name} first", ended(opened(kinds=[KINDS[place], *others])))
        for shown, wrong in (
            ("another field", [*fields[:-1], ["other", fields[-1][1]]]),
            ("a field less", fields[:-1]),
            ("a field more", [*fields, ["more", ["nil"]]]),
            ("another type", [[fields[0][0], ["nil"]], *fields[1:]]),
        ):
            record = ended(opened(kinds=[*others, [name, most, wrong]]))
            yield broken(f"kinds with {name} that has {shown}", record, "header")


def shown_type(type_: Any) -> str:
    text = json.dumps(type_, default=bytes.hex)
    return text if len(text) < 60 else f"{text[:50]}... ({len(text)})"


def plain_values() -> Iterator[Case]:
    """What may stand in parameters, survey and analysis."""
    for name in ("parameters", "survey", "analysis"):
        for shown, value in (("lists", nested(63)), ("maps", nested(63, kind=dict))):
            value = {"a": value}
            record = ended(opened(**{name: value}))
            yield sound(f"{name}: {shown}, nested 64 deep", record)
            record = ended(opened(**{name: {"a": value}}))
            yield broken(f"{name}: {shown}, nested 65 deep", record, "header")
        record = ended(opened(**{name: {"b": 0, "a": 0}}))
        yield broken(f"{name}: keys that are not sorted", record, "header")
    deep = Raw(b"\x91" * 5000 + b"\0")
    yield broken("survey: lists, nested 5,000 deep", opened(survey={"a": deep}), "header")
    yield sound("survey: empty", ended(opened(survey={})))
    for shown, value in (
        ("nil", None),
        ("true and false", [True, False]),
        ("bytes", b"\0\xff"),
        ("2**64 - 1", 2**64 - 1),
        ("2**63", 2**63),
        ("-2**63", -(2**63)),
        ("integers", [n for k in range(1, 64) for n in (2**k - 1, 2**k, -(2**k), 1 - 2**k)]),
        ("floats", [0.0, -0.0, 0.1, 1e308, 5e-324, 2.0, float("inf"), float("-inf")]),
        ("texts of many lengths", ["x" * n for n in (0, 31, 32, 255, 256)]),
        ("bytes of many lengths", [b"x" * n for n in (0, 31, 32, 255, 256)]),
        ("a list of 15 and one of 16", [[0] * 15, [0] * 16]),
        ("a map of 16", {f"{i:02}": i for i in range(16)}),
        ("an empty key", {"": 0, "\0": 1, "a": 2}),
        ("a key that is another's beginning", {"a": 0, "aa": 1, "b": 2}),
        ("keys by code points", {"\uffff": 0, "\U00010000": 1}),
        ("text that is not normalized", ["\u00e9", "e\u0301"]),
    ):
        yield sound(f"a value: {shown}", ended(opened(parameters={"a": value})))
    for shown, value in (
        ("keys by UTF-16 code units", {"\U00010000": 0, "\uffff": 1}),
        ("keys that are not sorted", {"b": 0, "a": 1}),
        ("keys that are not sorted, further in", [{"a": {"c": 0, "b": 1}}]),
        ("a longer key first", {"aa": 0, "a": 1}),
        ("a key twice", Raw(b"\x82" + packed("a") * 4)),
        ("a key that is an integer", Raw(b"\x81\1\1")),
        ("a key that is nil", Raw(b"\x81\xc0\1")),
        ("a key that is bytes", Raw(b"\x81" + packed(b"a") + b"\1")),
        ("keys of several types", Raw(b"\x82\1\1" + packed("a") + b"\1")),
        ("a float of 32 bits", Raw(b"\xca\x3f\x80\0\0")),
        ("a float that is not a number", Raw(b"\xcb\x7f\xf8" + bytes(6))),
        ("a float that is not a number, with bits", Raw(b"\xcb\xff\xf0\0\0\0\0\0\1")),
        ("an extension", Raw(b"\xd4\1\0")),
        ("an extension of 8 bytes and more", Raw(b"\xc7\1\5\0")),
        ("a time of 32 bits", Raw(b"\xd6\xff\0\0\0\0")),
        ("a time of 64 bits", Raw(b"\xd7\xff" + bytes(8))),
        ("a time of 96 bits", Raw(b"\xc7\x0c\xff" + bytes(12))),
        ("a byte that msgpack does not use", Raw(b"\xc1")),
        *LONG_FORMS,
        *BAD_TEXT,
    ):
        yield broken(f"a value: {shown}", opened(parameters={"a": value}), "header")
    for name in ("variant", "recording", "program"):
        long = Raw(b"\xd9" + packed(opened().fields[name]).replace(b"\xa0", b"\xa0", 1))
        text = opened().fields[name].encode()
        long = Raw(b"\xd9" + bytes([len(text)]) + text)
        record = rewritten(opened().fields | {name: long})
        yield broken(f"{name} in a longer form", record, "header")


LONG_FORMS = [
    (f"{what} in {width} bytes", Raw(bytes.fromhex(form)))
    for what, width, form in (
        ("0", 2, "cc00"),
        ("127", 2, "cc7f"),
        ("127, signed,", 2, "d07f"),
        ("128, signed,", 3, "d10080"),
        ("255", 3, "cd00ff"),
        ("65,535", 5, "ce0000ffff"),
        ("2**32 - 1", 9, "cf00000000ffffffff"),
        ("1, signed,", 9, "d30000000000000001"),
        ("2**62, signed,", 9, "d34000000000000000"),
        ("-1", 2, "d0ff"),
        ("-32", 2, "d0e0"),
        ("-33", 3, "d1ffdf"),
        ("-129", 5, "d2ffffff7f"),
        ("-2**31", 9, "d3ffffffff80000000"),
        ("an empty text", 2, "d900"),
        ("an empty text", 3, "da0000"),
        ("an empty text", 5, "db00000000"),
        ("31 letters", 33, "d91f" + "61" * 31),
        ("no bytes", 3, "c50000"),
        ("no bytes", 5, "c600000000"),
        ("an empty list", 3, "dc0000"),
        ("an empty list", 5, "dd00000000"),
        ("an empty map", 3, "de0000"),
        ("an empty map", 5, "df00000000"),
    )
]
BAD_TEXT = [
    (f"text that is not UTF-8: {what}", Raw(b"\xd9\x20" + some + b"a" * (32 - len(some))))
    for what, some in (
        ("a byte FF", b"\xff"),
        ("a stray continuation", b"\x80"),
        ("too few continuations", b"\xe2\x82"),
        ("an overlong slash", b"\xc0\xaf"),
        ("an overlong zero", b"\xc0\x80"),
        ("an overlong form of three bytes", b"\xe0\x80\xaf"),
        ("a surrogate", b"\xed\xa0\x80"),
        ("a pair of surrogates", b"\xed\xa0\x80\xed\xb0\x80"),
        ("a code point above 10FFFF", b"\xf4\x90\x80\x80"),
        ("five bytes", b"\xf8\x88\x80\x80\x80"),
    )
]


# --- entries


def with_entry(*parts: Any) -> Transcript:
    record = opened()
    record.entry(*parts)
    return ended(record)


def with_content(content: bytes) -> Transcript:
    record = opened()
    record.add(content)
    return ended(record)


LARGEST = 2**63 - 1


def entries() -> Iterator[Case]:
    for name, parts in (
        ("at 2**63 - 1", ["Departed", LARGEST, "ann", ""]),
        ("a party's reason of 1,024 characters", ["Departed", 0, "ann", "r" * 1024]),
        ("nothing in it", ["Refused", 0, "", "", b""]),
        ("a link of 255 characters", ["Refused", 0, "l" * 255, "", b""]),
        ("a link of 255 astral characters", ["Refused", 0, "\U0001f600" * 255, "", b""]),
        ("a reason of 1,024 characters", ["Refused", 0, "", "r" * 1024, b""]),
        ("a reason of 1,024 astral characters", ["Refused", 0, "", "\U0001f600" * 1024, b""]),
        ("an excerpt of 256 bytes", ["Refused", 0, "", "", bytes(256)]),
    ):
        yield sound(f"an entry with {name}", with_entry(*parts))
    for name, parts in (
        ("an unknown name", ["Received", 0, "ann", ""]),
        ("a name in lower case", ["departed", 0, "ann", ""]),
        ("a number for its name", [1, 0, "ann", ""]),
        ("bytes for its name", [b"Departed", 0, "ann", ""]),
        ("no item", []),
        ("a name alone", ["Departed"]),
        ("an item too few", ["Departed", 0, "ann"]),
        ("an item too many", ["Departed", 0, "ann", "", None]),
        ("a negative time", ["Departed", -1, "ann", ""]),
        ("a time of 2**63", ["Departed", 2**63, "ann", ""]),
        ("a time of 2**64 - 1", ["Departed", 2**64 - 1, "ann", ""]),
        ("a float for a time", ["Departed", 0.0, "ann", ""]),
        ("false for a time", ["Departed", False, "ann", ""]),
        ("nil for a time", ["Departed", None, "ann", ""]),
        ("nil for a reason", ["Departed", 0, "ann", None]),
        ("bytes for a party", ["Departed", 0, b"ann", ""]),
        ("a party of 256 characters", ["Departed", 0, "a" * 256, ""]),
        ("a party's reason of 1,025 characters", ["Departed", 0, "ann", "r" * 1025]),
        ("a link of 256 characters", ["Refused", 0, "l" * 256, "", b""]),
        ("a reason of 1,025 characters", ["Refused", 0, "", "r" * 1025, b""]),
        ("an excerpt of 257 bytes", ["Refused", 0, "", "", bytes(257)]),
        ("text for an excerpt", ["Refused", 0, "", "", ""]),
        ("an item too many in a refusal", ["Refused", 0, "", "", b"", 0]),
        ("text for an envelope", ["Sent", 0, "x"]),
        ("no envelope", ["Sent", 0]),
        ("no bytes for an envelope", ["Sent", 0, b""]),
        ("a negative number", ["Delivered", 0, "ann", "bob", -1, False]),
        ("the number 2**63", ["Delivered", 0, "ann", "bob", 2**63, False]),
        ("0 for false", ["Delivered", 0, "ann", "bob", 0, 0]),
        ("nil for a sender", ["Delivered", 0, None, "bob", 0, False]),
        ("a recipient of 256 characters", ["Delivered", 0, "ann", "b" * 256, 0, False]),
        ("an item too few where one is hindered", ["Hindered", 0, "ann", "bob"]),
        ("an item too many where one is hindered", ["Hindered", 0, "ann", "bob", 0, False]),
        ("an unsigned time in a longer form", ["Departed", Raw(b"\xcc\1"), "ann", ""]),
        ("a signed time", ["Departed", Raw(b"\xd0\1"), "ann", ""]),
        ("a reason that is not UTF-8", ["Departed", 0, "ann", Raw(b"\xa1\xff")]),
        ("a surrogate in a reason", ["Departed", 0, "ann", Raw(b"\xa3\xed\xa0\x80")]),
        ("a name in a longer form", [Raw(b"\xd9\x08Departed"), 0, "ann", ""]),
        ("an extension", ["Departed", 0, "ann", Raw(b"\xd4\1\0")]),
    ):
        yield broken(f"an entry with {name}", with_entry(*parts), "entries")
    departed = packed(["Departed", 0, "ann", ""])
    for name, content in (
        ("that is a map", packed({"Departed": 0})),
        ("that is text", packed("Departed")),
        ("that is a number", b"\0"),
        ("in an array with a longer head", b"\xdc\0\4" + departed[1:]),
        ("with a byte after it", departed + b"\xc0"),
        ("cut short by its length", departed[:-1]),
        ("nested 100,000 deep", b"\x91" * 100_000),
    ):
        if len(content) < 65_536:
            yield broken(f"an entry {name}", with_content(content), "entries")
    record = opened()
    record.entry("Received", 0)
    record.say("ann", "aggregator", "Report", b"", session=bytes(32))
    yield broken(
        "reading goes on after an entry that is wrong", ended(record), "entries", "session"
    )
    yield from envelopes()
    yield from many()


def envelopes() -> Iterator[Case]:
    session = opened().session
    fine = [session, "ann", "aggregator", 0, "Report", b"\x91\x01"]

    def of(**changes: Any) -> bytes:
        names = "session", "sender", "recipient", "seq", "kind", "body"
        return packed(list((dict(zip(names, fine, strict=True)) | changes).values()))

    whole = packed(fine)
    for name, envelope in (
        ("of five items", packed(fine[:5])),
        ("of seven items", packed([*fine, 0])),
        ("as a map", b"\x80"),
        ("that is cut short", whole[:-1]),
        ("with a byte after it", whole + b"\0"),
        ("in an array with a longer head", b"\xdc\0\6" + whole[1:]),
        ("with text for a session", of(session="s" * 32)),
        ("with a session of 256 bytes", of(session=bytes(256))),
        ("with a sender of 256 characters", of(sender="a" * 256)),
        ("with bytes for a sender", of(sender=b"ann")),
        ("with a recipient of 256 characters", of(recipient="a" * 256)),
        ("with nil for a recipient", of(recipient=None)),
        ("with text for a number", of(seq="0")),
        ("with a float for a number", of(seq=0.0)),
        ("with a number in a longer form", of(seq=Raw(b"\xcc\0"))),
        ("with a signed number", of(seq=Raw(b"\xd0\0"))),
        ("with a kind of 256 characters", of(kind="k" * 256)),
        ("with text for a body", of(body="")),
        ("with a list for a body", of(body=[1])),
        ("with a body in a longer form", of(body=Raw(b"\xc5\0\1\0"))),
        ("with a kind that is not UTF-8", of(kind=Raw(b"\xa1\xff"))),
    ):
        record = opened()
        record.sent(envelope)
        yield broken(f"an envelope {name}", ended(record), "entries")
    for number, rules in (
        (-1, ["entries"]),
        (-(2**63), ["entries"]),
        (2**63, ["entries"]),
        (2**64 - 1, ["entries"]),
        (LARGEST, ["seq-gap"]),
    ):
        record = opened()
        record.say("ann", "aggregator", "Report", b"", seq=number)
        yield broken(f"an envelope with the number {number}", ended(record), *rules)


REFUSED = framed(packed(["Refused", 0, "", "", b""]))
FREE = 65_536


def many() -> Iterator[Case]:
    """Entries that are all alike take no room in a wrapped file."""
    for name, extra, says in (
        ("as many entries as a file may have", 0, SOUND),
        ("an entry more than a file may have", 1, BROKEN),
    ):
        yield verdict(name, crowded(extra), says, *(["entries"] if says == BROKEN else []))


def crowded(extra: int) -> list[Chunk]:
    """A wrapped file of as many entries as it may have, and some more."""
    each = len(REFUSED)
    start = opened().log

    def wrapped(count: int, ending: bytes, checksum: bytes = bytes(4)) -> list[Chunk]:
        most = (1 << 17) // each
        sizes = [most] * (count // most) + [count % most]
        return [
            frame_header(len(start) + each * count + len(ending), window=WINDOW, flags=4),
            raw_block(start),
            repeat_block(REFUSED, each, each * (sizes[0] - 1)),
            *(repeat_block(b"", each, each * size) for size in sizes[1:]),
            raw_block(ending, last=True),
            checksum,
        ]

    [*_, ending] = ended(opened()).chunks
    most = FREE
    for _ in range(3):
        most = FREE + stored(wrapped(most, ending)) // 2
    # Beside the header there are these and the ending.
    count = most + extra - 1
    record = opened()
    record.records += [(REFUSED[4:], True)] * count
    record.end()
    ending = record.chunks[-1]
    return wrapped(count, ending, checksum_of(start + REFUSED * count + ending))


# --- what was said, delivered, and by whom


def said() -> Iterator[Case]:
    other = some("another session", 32)
    for name, session in (
        ("another session", other),
        ("no session", b""),
        ("a session of 31 bytes", opened().session[:31]),
        ("a session of 255 bytes", opened().session + bytes(223)),
    ):
        record = asked()
        record.say("ann", "aggregator", "Report", b"", session=session)
        yield broken(f"an envelope of {name}", ended(record), "session")
    for name in ("carl", "record", "switch", "", "Ann", "ann ", "a" * 255):
        record = asked()
        record.say(name, "aggregator", "Report", b"")
        yield broken(f"an envelope from {name[:20]!r}", ended(record), "sender")
    for name in ("carl", "switch", "", "Record", "b" * 255):
        record = asked()
        record.say("ann", name, "Report", b"")
        yield broken(f"an envelope to {name[:20]!r}", ended(record), "recipient")
    for name in ("Other", "", "report", "Sent", "k" * 255):
        record = asked()
        record.say("ann", "aggregator", name, b"")
        yield broken(f"an envelope of kind {name[:20]!r}", ended(record), "kind")
    for size, fine in ((0, True), (256, True), (257, False)):
        record = asked()
        record.tell("ann", "bob", "Report", bytes(size))
        name = f"a body of {size} bytes where 256 are allowed"
        yield sound(name, ended(record)) if fine else broken(name, ended(record), "body-size")
    for kind, size in (("Small", 1), ("Small", 2), ("Large", 2)):
        record = opened(kinds=[*KINDS, ["Small", 1, []], ["Large", 1000, []]])
        record.tell("ann", "aggregator", kind, bytes(size))
        name = f"a body of {size} bytes of kind {kind}, one kind having at most 1 and one 1,000"
        fine = (kind, size) != ("Small", 2)
        yield sound(name, ended(record)) if fine else broken(name, ended(record), "body-size")
    record = asked()
    record.tell("ann", "ann", "Report", b"")
    yield sound("an envelope to oneself", ended(record))
    record = asked()
    record.say("ann", "record", "Report", b"")
    yield sound("an envelope to the record", ended(record))
    record = opened()
    record.say("carl", "dora", "Gift", bytes(257), session=b"", seq=1)
    rules = "session", "sender", "recipient", "kind", "seq-gap"
    yield broken("an envelope with which all is wrong", ended(record), *rules)
    yield from numbered()
    yield from delivered()
    yield from hindered()
    yield from departed()


def numbered() -> Iterator[Case]:
    def of(*numbers: int, body: bool = False) -> Transcript:
        record = opened()
        for place, number in enumerate(numbers):
            content = packed([place if body else 0])
            record.say("ann", "aggregator", "Report", content, seq=number)
        return ended(record)

    yield sound("numbers 0, 1, 2", of(0, 1, 2))
    for name, record, rules in (
        ("1", of(1), ["seq-gap"]),
        ("0, 2", of(0, 2), ["seq-gap"]),
        ("0, 1, 3, 4, 6", of(0, 1, 3, 4, 6), ["seq-gap"]),
        ("0, 0, the same twice", of(0, 0), ["seq-repeat"]),
        ("0, 0, different", of(0, 0, body=True), ["seq-repeat"]),
        ("0, 1, 2, 1", of(0, 1, 2, 1), ["seq-repeat"]),
        ("1, 0", of(1, 0), ["seq-order"]),
        ("0, 2, 1", of(0, 2, 1), ["seq-order"]),
        ("2, 1, 0", of(2, 1, 0), ["seq-order"]),
        ("0, 3, 1", of(0, 3, 1), ["seq-gap", "seq-order"]),
        ("2, 2", of(2, 2), ["seq-gap", "seq-repeat"]),
        ("0, 2, 2, 1, 1", of(0, 2, 2, 1, 1), ["seq-repeat", "seq-order"]),
    ):
        yield broken(f"numbers {name}", record, *rules)
    record = opened()
    record.say("ann", "aggregator", "Report", b"", seq=1)
    yield broken("a number that is missing in a file that breaks off", record, "seq-gap")


def delivered() -> Iterator[Case]:
    def of(*steps: tuple[Any, ...], late: bool = False) -> Transcript:
        """Ann says something to the aggregator, then it is delivered as the steps have it."""
        record = asked()
        first = record.say("bob", "aggregator", "Report", b"\x91\0")
        for step in steps:
            record.got(*step)
        if late:
            record.say("bob", "ann", "Report", b"\x91\0")
        assert first == 0
        return ended(record)

    once, again = ("bob", "aggregator", 0), ("bob", "aggregator", 0, True)
    yield sound("sent and lost", of())
    yield sound("delivered", of(once))
    yield sound("delivered, and repeated by the network twice", of(once, again, again))
    for name, steps in (
        ("what was not sent", [("bob", "aggregator", 1)]),
        ("what another sent", [("ann", "aggregator", 1)]),
        ("the number 2**63 - 1", [("bob", "aggregator", LARGEST)]),
        ("to another recipient", [("bob", "ann", 0)]),
        ("to its sender", [("bob", "bob", 0)]),
        ("to the record", [("bob", "record", 0)]),
        ("to nobody", [("bob", "carl", 0)]),
        ("from nobody", [("carl", "aggregator", 0)]),
        ("a repetition of what was not sent", [("bob", "aggregator", 1, True)]),
    ):
        yield broken(f"delivered: {name}", of(*steps), "delivery")
    yield broken("delivered before it is sent", of(("bob", "ann", 1), late=True), "delivery")
    record = asked()
    record.got("aggregator", "record", record.say("aggregator", "record", "Result", b""))
    yield broken("delivered: what was said to the record", ended(record), "delivery")
    record = asked()
    record.tell("ann", "carl", "Report", b"")
    yield broken("delivered: what was said to nobody", ended(record), "recipient", "delivery")
    for name, steps in (
        ("twice", [once, once]),
        ("a repetition first", [again]),
        ("a repetition first, then by itself", [again, once]),
        ("again after a repetition", [once, again, once]),
    ):
        yield broken(f"delivered: {name}", of(*steps), "delivered-twice")


def hindered() -> Iterator[Case]:
    def of(*held: tuple[Any, ...], between: bool = False, seed: Any = 1) -> Transcript:
        """Bob says something to the aggregator, and what holds it back comes after it."""
        record = asked(seed=seed)
        record.say("bob", "aggregator", "Report", b"\x91\0")
        if between:
            record.entry("Refused", 0, "", "", b"")
        for sender, recipient, seq in held:
            record.entry("Hindered", 0, sender, recipient, seq)
        return ended(record)

    held = ("bob", "aggregator", 0)
    for seed in (1, "withheld"):
        yield sound(f"an envelope is hindered, of seed {seed!r}", of(held, seed=seed))
    yield broken("hindered: in no simulation", of(held, seed=None), "delivery")
    for name, other in (
        ("another number", ("bob", "aggregator", 1)),
        ("another sender", ("ann", "aggregator", 0)),
        ("another recipient", ("bob", "ann", 0)),
        ("from nobody", ("carl", "aggregator", 0)),
    ):
        yield broken(f"hindered: {name}", of(other), "delivery")
    yield broken("hindered: twice", of(held, held), "delivery")
    yield broken("hindered: not right after it is sent", of(held, between=True), "delivery")
    record = asked(seed=1)
    record.say("aggregator", "record", "Result", b"")
    record.entry("Hindered", 0, "aggregator", "record", 2)
    yield broken("hindered: what was said to the record", ended(record), "delivery")
    record = asked(seed=1)
    record.say("ann", "carl", "Report", b"")
    record.entry("Hindered", 0, "ann", "carl", 0)
    yield broken("hindered: what was said to nobody", ended(record), "recipient", "delivery")


def departed() -> Iterator[Case]:
    for name in ("carl", "record", "switch", "", "a" * 255):
        yield broken(f"departed: {name[:20]!r}", with_entry("Departed", 0, name, ""), "departed")
    record = asked()
    record.entry("Departed", 0, "bob", "closed its link")
    yield sound("a party departs", ended(record))
    record = asked()
    record.entry("Departed", 0, "bob", "closed its link")
    record.tell("ann", "bob", "Report", b"")
    yield sound("delivered to a party that has departed", ended(record))
    record = asked()
    for _ in range(2):
        record.entry("Departed", 0, "bob", "")
    yield sound("a party departs twice", ended(record))
    record = asked()
    record.entry("Departed", 0, "aggregator", "")
    yield sound("the aggregator departs", ended(record))
    for name in ("bob", "aggregator"):
        record = asked()
        record.entry("Departed", 0, name, "")
        record.say(name, "ann", "Report", b"")
        yield broken(f"{name} departs and says something", ended(record), "departed")


# --- heads


def heads() -> Iterator[Case]:
    def of(waits: Any = None, record: Transcript | None = None, **other: Any) -> Transcript:
        """What is said up to here, and Ann's head."""
        record = spoken() if record is None else record
        record.head(ANN, waits, **other)
        return record

    ask, news = [0, "Ask", -1, [[0, 0]]], [1, "News", 3, [[0, 2], [2, 1]]]
    late, silent = [2, "News", 4, []], [2, "Nothing", 0, []]
    yield sound("a head", ended(of()))
    for name, waits in (
        ("without waits", []),
        ("with a wait that heard two", [ask, news]),
        ("with waits that heard nothing", [ask, news, late, silent]),
        ("with waits in another order", [[0, *news[1:]], [0, *ask[1:]]]),
        ("with a wait before anything was said", [[0, "News", 3, [[0, 2]]]]),
        ("with a wait after everything was said", [[2, "News", 3, [[2, 1]]]]),
        ("with a round of 2**63 - 1", [[0, "News", LARGEST, [[0, 2]]]]),
        ("with a kind that is not declared, and nothing heard", [[0, "k" * 255, -1, []]]),
        (
            "with two waits for one message's kind",
            [[1, "News", 3, [[0, 2]]], [1, "News", 3, [[2, 1]]]],
        ),
    ):
        yield sound(f"a head {name}", ended(of(waits)))
    record = opened()
    record.head(BOB)
    yield sound("a head of who has said and heard nothing", ended(record))
    record = spoken()
    record.say("ann", "record", "Declined", packed(["terms"]))
    yield sound("a head of who has declined", ended(of(None, record)))
    record = of([ask, news])
    record.head(BOB)
    yield sound("heads of two", ended(record))
    record = of([ask, news])
    record.tell("bob", "ann", "News", b"\x90")
    yield sound("a head, and more is delivered to its sender", ended(record))
    record = of([ask])
    yield incomplete("a head, and the file ends", record)
    yield from wrong_waits(of, ask, news)
    yield from wrong_heads(of, [ask, news])


def spoken() -> Transcript:
    """Ann has heard a question, and news of the aggregator and of Bob; she has said two things."""
    record = opened(kinds=[*KINDS, ["News", MOST, []]])
    for party in (ANN, BOB):
        record.tell("aggregator", party.name, "Ask", b"\x90")
    record.tell("ann", "aggregator", "Report", b"\x91\x01")
    record.tell("bob", "aggregator", "Report", b"\x91\0")
    record.tell("aggregator", "ann", "News", b"\x90")
    record.tell("bob", "ann", "News", b"\x90")
    record.tell("ann", "bob", "News", b"\x90")
    record.say("bob", "ann", "News", b"\x90")
    return record


def wrong_waits(of: Callable[..., Transcript], ask: Any, news: Any) -> Iterator[Case]:
    for name, waits in (
        ("of what was not sent", [[0, "News", 3, [[0, 3]]]]),
        ("of the number 2**63 - 1", [[0, "News", 3, [[0, LARGEST]]]]),
        ("of what was sent and not delivered", [[0, "News", 3, [[2, 2]]]]),
        ("of what went to another", [[0, "Ask", -1, [[0, 1]]]]),
        ("of what she has said herself", [[0, "News", 3, [[1, 1]]]]),
        ("of another kind", [[0, "Ask", -1, [[0, 2]]]]),
        ("of a kind that is not declared", [[0, "Other", -1, [[0, 0]]]]),
        ("of a place beyond the roster", [[0, "News", 3, [[3, 0]]]]),
        ("of places that fall", [[1, "News", 3, [[2, 1], [0, 2]]]]),
        ("of a place twice", [[1, "News", 3, [[0, 2], [0, 2]]]]),
        ("of one message in two waits", [ask, ask]),
        ("of one message in two waits, not side by side", [ask, news, [2, *ask[1:]]]),
        ("before one that had said less", [[1, *ask[1:]], [0, *news[1:]]]),
        ("after more than was said", [ask, [3, *news[1:]]]),
        ("after 2**63 - 1 things were said", [[LARGEST, *ask[1:]]]),
        ("after 2**63 things were said", [[2**63, *ask[1:]]]),
        ("after -1 things were said", [[-1, *ask[1:]]]),
        ("for round -2", [[0, "News", -2, [[0, 2]]]]),
        ("for round 2**63", [[0, "News", 2**63, [[0, 2]]]]),
        ("for a kind of 256 characters", [[0, "k" * 256, -1, []]]),
        ("with bytes for its kind", [[0, b"Ask", -1, []]]),
        ("with an item more", [[*ask, 0]]),
        ("with an item less", [ask[:3]]),
        ("with a map", [[0, "Ask", -1, {0: 0}]]),
        ("of a number below 0", [[0, "News", 3, [[0, -1]]]]),
        ("of the number 2**63", [[0, "News", 3, [[0, 2**63]]]]),
        ("of three numbers", [[0, "Ask", -1, [[0, 0, 0]]]]),
        ("of a number in a longer form", [[0, "Ask", -1, [[0, Raw(b"\xcc\0")]]]]),
        ("that is nil", [None]),
    ):
        heard = [wait for wait in waits if well_formed(wait)]
        record = of()
        leaves = tree_hash([record.heard_leaf(wait) for wait in heard])
        yield broken(f"a head with a wait {name}", ended(of(waits, heard=leaves)), "head")
    record = spoken()
    of([[0, "News", 3, [[2, 2]]]], record)
    record.got("bob", "ann", 2)
    yield broken("a head with a wait of what was delivered after it", ended(record), "head")
    record = spoken()
    _, envelope = record.envelopes["aggregator", 0]
    told = packed([record.session, "aggregator", "ann", 0, "Ask", b"\xc0"])
    record.envelopes["aggregator", 0] = "Ask", told
    of([ask, news], record)
    assert told != envelope
    yield broken("a head of something else than was recorded as delivered", ended(record), "head")


def well_formed(wait: Any) -> bool:
    if not isinstance(wait, list) or len(wait) != 4 or not isinstance(wait[3], list):
        return False
    return all(len(pair) == 2 and not isinstance(pair[1], Raw) for pair in wait[3])


def wrong_heads(of: Callable[..., Transcript], waits: Any) -> Iterator[Case]:
    wrong = sha256(b"wrong")
    whole = of(waits).heads["ann"][2]
    for name, changes in (
        ("signed by another", {"signer": BOB}),
        ("signed by the aggregator", {"signer": AGGREGATOR}),
        ("signed by nobody", {"signature": bytes(64)}),
        ("with a signature of 63 bytes", {"signature": whole[:63]}),
        ("with a signature of 65 bytes", {"signature": whole + b"\0"}),
        ("with a signature of S + L", {"signature": beyond(whole)}),
        ("of version 1", {"purpose": b"sottovoce head 1\0"}),
        ("of no purpose", {"purpose": b""}),
        ("of another session", {"session": wrong}),
        ("of another sender", {"sender": "bob"}),
        ("of fewer envelopes", {"count": 1}),
        ("of more envelopes", {"count": 3}),
        ("of other words", {"said": wrong}),
        ("of other waits", {"heard": wrong}),
        ("of no waits, but it lists some", {"heard": sha256(b"")}),
        ("to the aggregator", {"recipient": "aggregator"}),
        ("that is empty", {"body": b""}),
        ("that is nil", {"body": b"\xc0"}),
        ("that is an empty array", {"body": b"\x90"}),
        ("without a signature", {"body": packed([waits])}),
        ("with an item more", {"body": packed([waits, whole, 0])}),
        ("with a byte after it", {"body": packed([waits, whole]) + b"\0"}),
        ("in an array with a longer head", {"body": b"\xdc\0\2" + packed([waits, whole])[1:]}),
        ("with its signature as text", {"body": packed([waits, "s" * 64])}),
        ("that leaves a wait out", {"body": packed([waits[:1], whole])}),
        ("that turns its waits round", {"body": packed([waits[::-1], whole])}),
        ("of version 1's form", {"body": packed([2, wrong, whole])}),
    ):
        yield broken(f"a head {name}", ended(of(waits, **changes)), "head")
    record = spoken()
    record.head(AGGREGATOR)
    yield broken("a head of the aggregator", ended(record), "head")
    record = of(waits)
    record.say("ann", "aggregator", "Report", b"")
    yield broken("an envelope after a head", ended(record), "head")
    record = of(waits)
    record.head(ANN, waits)
    yield broken("a head after a head", ended(record), "head")
    low = OddMember("ann", turn=point_of(EIGHTH))
    record = Transcript((AGGREGATOR, low, BOB))
    record.head(low)
    yield broken("a head signed right with a cofactor alone", ended(record), "head")


# --- checkpoints and endings


def checkpoints() -> Iterator[Case]:
    def of(note: str, *before: str) -> Transcript:
        """A survey that ends, and a checkpoint of it."""
        record = ended(asked())
        for each in (*before, note):
            record.check(each)
        return record

    whole = ended(asked())
    text, right = whole.text(), whole.note()
    yield sound("a checkpoint over all", of(right))
    yield sound("a checkpoint over all, twice", of(right, right))
    record = asked()
    record.check()
    record.check()
    yield sound("checkpoints at one place and over all", sealed(record))
    line = cosignature(text, WITNESS)
    forged = signature_line("elsewhere.example", 4, WITNESS.key, bytes(72))
    short = f"\u2014 x {based(bytes(4))}\n"
    head, _, own = right.partition("\n\n")
    first = head + "\n\n"
    for name, note in (
        ("with a witness's line after", right + line),
        ("with a witness's line before", first + line + own),
        ("with a wrong line of somebody else", right + forged),
        ("with 64 lines", right + short * 63),
        ("with the same name and another type", right + own_line(text, 2)),
        ("with a line of four bytes", right + short),
        ("with a name that is not ASCII", right + line_by("z\u00fcrich.example/\U0001f600")),
        ("with a zero-width space in a name", right + line_by("x\u200by")),
        ("with the character 127 in a name", right + line_by("x\x7fy")),
        ("of 16,384 characters", padded(right, 16_384)),
    ):
        yield sound(f"a checkpoint {name}", of(note))
    size = len(whole.leaves)
    changed = (
        ("of a leaf fewer", whole.note(size=size - 1)),
        ("of a leaf more", whole.note(size=size + 1, root=whole.root)),
        ("of no leaf", whole.note(size=0)),
        ("of 2**63 - 1 leaves", whole.note(size=LARGEST, root=whole.root)),
        ("of another root", whole.note(root=sha256(b"another"))),
        ("of another session", whole.note(session=some("another session", 32))),
        ("that a party has signed", note_of(whole.text(key=ANN.key), ANN)),
        ("with a party's signature", note_of(text, signature=ANN.sign(text.encode()))),
        ("with a signature of zeros", note_of(text, signature=bytes(64))),
        ("with the signature of another", note_of(text, signature=signature_of(asked()))),
        ("with a signature of S + L", note_of(text, signature=larger(text))),
    )
    for name, note in (*changed, *malformed_notes(right, line)):
        yield broken(f"a checkpoint {name}", of(note), "checkpoint")
        if name == "of another root":
            yield broken("a wrong checkpoint, then a right one", of(right, note), "checkpoint")
    for name, note in (
        ("of 16,385 characters", padded(right, 16_385)),
        ("that is not text", right.encode()),
    ):
        record = ended(asked())
        record.add(packed(["Checkpoint", note]), leaf=False)
        yield broken(f"a checkpoint {name}", record, "entries")
    record = asked()
    late = record.note()
    record.tell("bob", "aggregator", "Report", b"")
    record.check(late)
    yield broken("a checkpoint that comes late", ended(record), "checkpoint")
    record = asked()
    record.check()
    yield broken("no checkpoint over all, but one before", ended(record), "checkpoint")
    record = asked()
    record.check()
    yield incomplete("a checkpoint, and the file ends", record)


def line_by(name: str) -> str:
    """A line of somebody else."""
    return f"\u2014 {name} {based(bytes(68))}\n"


def own_line(text: str, kind: int) -> str:
    return signature_line(text.split("\n")[0], kind, AGGREGATOR.key, bytes(64))


def signature_of(record: Transcript) -> bytes:
    return AGGREGATOR.sign(record.text().encode())


def larger(text: str) -> bytes:
    return beyond(AGGREGATOR.sign(text.encode()))


def beyond(signature: bytes) -> bytes:
    """The signature with the order of the curve added to its second half."""
    s = int.from_bytes(signature[32:], "little") + ORDER
    return signature[:32] + s.to_bytes(32, "little")


def padded(note: str, characters: int) -> str:
    """The note with lines of others up to so many characters."""
    missing = characters - len(note)
    lines = []
    while missing:
        bare = len(signature_line("", 4, WITNESS.key, bytes(72)))
        size = missing if missing < 600 else 300
        lines.append(signature_line("x" * (size - bare), 4, WITNESS.key, bytes(72)))
        missing -= size
    return note + "".join(lines)


def malformed_notes(note: str, line: str) -> list[tuple[str, str]]:
    head, _, own = note.partition("\n\n")
    first = head + "\n\n"
    name, size, root = head.split("\n")
    key = name.split("/")[2]
    return [
        ("of no character", ""),
        ("without a signature", first),
        ("with a witness's line alone", first + line),
        ("with its line twice", note + own),
        ("with another line of its own before", first + own_line(head + "\n", 1) + own),
        ("without its last line end", note[:-1]),
        ("with two empty lines", note.replace("\n\n", "\n\n\n")),
        ("with an empty line at its end", note + "\n"),
        ("without an empty line", note.replace("\n\n", "\n")),
        ("with line ends of two bytes", note.replace("\n", "\r\n")),
        ("with a line more", note.replace("\n\n", "\nmore\n\n")),
        ("with a line less", note.replace(f"{root}\n", "")),
        ("with 65 lines", note + f"\u2014 x {based(bytes(4))}\n" * 64),
        ("with a zero before its size", note.replace(f"\n{size}\n", f"\n0{size}\n")),
        ("with a sign before its size", note.replace(f"\n{size}\n", f"\n+{size}\n")),
        ("with a space after its size", note.replace(f"\n{size}\n", f"\n{size} \n")),
        ("with no size", note.replace(f"\n{size}\n", "\n\n")),
        ("with a size in hexadecimal", note.replace(f"\n{size}\n", f"\n0x{int(size):x}\n")),
        ("with a size in Arabic digits", note.replace(f"\n{size}\n", "\n\u0667\n")),
        ("with a size of 2**63", note.replace(f"\n{size}\n", f"\n{2**63}\n")),
        ("with a root without padding", note.replace(root, root.rstrip("="))),
        (
            "with a root of URLs' base64",
            note.replace(root, base64.urlsafe_b64encode(b"\xfb\xff" * 16).decode()),
        ),
        (
            "with a root whose last bits are set",
            note.replace(root, root[:-2] + after(root[-2]) + "="),
        ),
        ("with a root of 31 bytes", note.replace(root, based(bytes(31)))),
        ("with a root of 33 bytes", note.replace(root, based(bytes(33)))),
        ("of another program's origin", note.replace("sottovoce/", "elsewhere/")),
        ("with capitals in its origin", note.replace(key, key.upper())),
        ("with a key of 31 bytes in its origin", note.replace(key, key[2:])),
        ("with a part more in its origin", note.replace(key, f"{key}/")),
        ("with a hyphen for the dash", note.replace("\u2014", "-")),
        ("with two spaces after the dash", note.replace("\u2014 ", "\u2014  ")),
        ("without a space after the dash", note.replace("\u2014 ", "\u2014")),
        ("with other bytes for its key", note.replace(own.split()[2][:5], "AAAAA")),
        ("with a signature of 63 bytes", shorter(note)),
        ("with a malformed line of somebody else", note + "\u2014 x y\n"),
        ("with a name of somebody else that has a plus", note + f"\u2014 x+y {based(bytes(68))}\n"),
        ("with a name of somebody else that is empty", note + f"\u2014  {based(bytes(68))}\n"),
        ("with a line of somebody else without bytes", note + "\u2014 x \n"),
        ("with a line of three bytes", note + f"\u2014 x {based(bytes(3))}\n"),
        ("with a no-break space in a name", note + line_by("x\u00a0y")),
        ("with an em space in a name", note + line_by("x\u2003y")),
        ("with a next-line character in a name", note + line_by("x\u0085y")),
        ("with a tabulator in a name", note + line_by("x\ty")),
        ("with control characters in a name", note + f"\u2014 x\x01y {based(bytes(68))}\n"),
        ("after a byte order mark", "\ufeff" + note),
    ]


def after(letter: str) -> str:
    """The next letter of base64: it has other bits that are not used."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return letters[letters.index(letter) + 1]


def shorter(note: str) -> str:
    head, _, own = note.partition("\n\n")
    dash, name, signature = own.split()
    return f"{head}\n\n{dash} {name} {based(base64.b64decode(signature)[:-1])}\n"


def signatures() -> Iterator[Case]:
    """Signatures that implementations of Ed25519 judge differently."""
    low, order4 = point_of(EIGHTH), point_of(0)

    def of(signer: Member) -> Transcript:
        return sealed(Transcript((signer, ANN, BOB)))

    name = AGGREGATOR.name
    yield sound("signed by hand", of(OddMember(name)))
    yield sound(
        "a key with a part of order 8, a hash that keeps it out", of(OddMember(name, low, fits=0))
    )
    yield sound(
        "a key with a part of order 4, a hash that keeps it out",
        of(OddMember(name, order4, fits=4)),
    )
    one = b"\1" + bytes(31)
    for shown, signer in (
        ("a key with a part of order 8, right with a cofactor alone", OddMember(name, low, fits=1)),
        (
            "a key with a part of order 4, right with a cofactor alone",
            OddMember(name, order4, fits=2),
        ),
        ("a point with a part of order 8, right with a cofactor alone", OddMember(name, turn=low)),
        (
            "a point with a part of order 2, right with a cofactor alone",
            OddMember(name, turn=(0, PRIME - 1)),
        ),
        ("a point of order 1", OddMember(name, nonce=0)),
        ("a point of order 8, right with a cofactor alone", OddMember(name, nonce=0, turn=low)),
        ("a point of order 1, not canonical", OddMember(name, nonce=0, written=point(PRIME + 1))),
        ("a point of order 1, odd", OddMember(name, nonce=0, written=point(1, True))),
        ("a key and a point of low order beside each other", OddMember(name, low, 0, low, fits=7)),
        (
            "a point that is written otherwise",
            OddMember(name, nonce=7, written=negative(encoded_point(multiplied(7, BASE)))),
        ),
        ("a point that is not on the curve", OddMember(name, written=point(2))),
    ):
        yield broken(f"signed with {shown}", of(signer), "checkpoint")
    record = ended(opened())
    text = record.text()
    right = AGGREGATOR.sign(text.encode())
    s = int.from_bytes(right[32:], "little")
    for shown, signature in (
        ("S + L", right[:32] + (s + ORDER).to_bytes(32, "little")),
        ("S + 8 L", right[:32] + (s + 8 * ORDER).to_bytes(32, "little")),
        ("S = L", right[:32] + ORDER.to_bytes(32, "little")),
        ("S with its top bit", right[:63] + bytes([right[63] | 0x80])),
        ("-S", right[:32] + (ORDER - s).to_bytes(32, "little")),
        ("the point's negative", negative(right)),
        ("R and S exchanged", right[32:] + right[:32]),
        ("zeros", bytes(64)),
        ("a point of order 1 and zero", one + bytes(32)),
        ("the text without its last line end", AGGREGATOR.sign(text[:-1].encode())),
        ("the text and the empty line", AGGREGATOR.sign(text.encode() + b"\n")),
    ):
        record = ended(opened())
        record.check(note_of(text, signature=signature))
        yield broken(f"a signature: {shown}", record, "checkpoint")
    off_curve = [[name, point(2)], *opened().roster[1:]]
    record = ended(opened(roster=off_curve))
    record.check(note_of(record.text(), OddMember(name)))
    yield broken("a key that is not on the curve signs nothing", record, "checkpoint")


def endings() -> Iterator[Case]:
    wrong = sha256(b"wrong")
    for name in ("log", "digest"):
        for shown, value in (("another", wrong), ("zeros", bytes(32))):
            record = ended(survey_without_checks(), **{name: value})
            yield broken(f"an ending with {shown} for its {name}", record, "ending")
    for name, record, value in (
        ("no result, where there is one", survey_without_checks(), None),
        ("another result", survey_without_checks(), wrong),
        ("a result, where there is none", asked(), wrong),
        ("a closing as a result", counted(), sha256(b"\0" + counted().said["aggregator"][-1])),
        ("a question as a result", asked(), sha256(b"\0" + asked().said["aggregator"][-1])),
    ):
        yield broken(f"an ending with {name}", ended(record, result=value), "ending")
    fine: list[Any] = [wrong, wrong, None, True, ""]
    for name, place, value in (
        ("a log of 31 bytes", 0, bytes(31)),
        ("a digest in text", 1, "d" * 32),
        ("a result of 31 bytes", 2, bytes(31)),
        ("a result that is false", 2, False),
        ("1 for true", 3, 1),
        ("nil for true", 3, None),
        ("a reason of 1,025 characters", 4, "r" * 1025),
        ("nil for a reason", 4, None),
    ):
        record = asked()
        record.entry("Ending", *[*fine[:place], value, *fine[place + 1 :]])
        yield broken(f"an ending with {name}", record, "entries")
    record = asked()
    record.entry("Ending", *fine[:-1])
    yield broken("an ending with an item too few", record, "entries")
    yield broken("an ending twice", ended(ended(asked())), "ending")
    record = ended(asked())
    record.tell("bob", "aggregator", "Report", b"")
    yield broken("entries after the ending", record, "ending")
    record = ended(asked())
    record.entry("Received", 0)
    yield broken("a malformed entry after the ending", record, "entries")
    for name, tail in (
        ("a byte", b"\0"),
        ("the length of a record", struct.pack(">I", 100)),
        ("a record of no byte", bytes(4)),
        ("a part of a checkpoint", framed(packed(["Checkpoint", "x" * 200]))[:-1]),
        ("text", b"and so on\n"),
        ("the magic", MAGIC),
    ):
        rules = {"a record of no byte": ["entries"], "text": ["length"], "the magic": ["length"]}
        chunks = [*ended(asked()).chunks, tail]
        yield broken(f"after the ending: {name}", chunks, *rules.get(name, ["ending"]))


def survey_without_checks() -> Transcript:
    record = counted()
    record.say("aggregator", "record", "Result", b"\x92\x01\x01")
    return record


# --- what was published elsewhere


def published() -> Iterator[Case]:
    whole = sealed(survey())
    digest = whole.digest.hex()
    wrong = sha256(b"wrong").hex()
    yield sound("the right digest", whole, digest=digest)
    yield broken("another digest", whole, "digest", digest=wrong)
    cut = survey()
    yield incomplete("a file without its ending, the right digest", cut, digest=cut.digest.hex())
    yield broken("a file without its ending, another digest", cut, "digest", digest=wrong)
    yield broken("no header, but a digest", [whole.start], "digest", digest=digest)
    final = whole.note()
    leaves = len(whole.leaves)
    yield sound("the checkpoint over all", whole, checkpoint=final)
    for size in (1, 2, 7, leaves - 1):
        yield sound(f"a checkpoint of size {size}", whole, checkpoint=whole.note(size=size))
    for name, note in (
        ("of another root", whole.note(root=sha256(b"fork"))),
        ("of another root, earlier", whole.note(size=5, root=sha256(b"fork"))),
        ("of another size", whole.note(size=leaves - 1, root=whole.root)),
        ("of a longer record", whole.note(size=leaves + 1, root=whole.root)),
        ("of no leaf", whole.note(size=0, root=sha256(b""))),
        ("of another session", whole.note(session=some("another session", 32))),
        ("of another aggregator", note_of(whole.text(key=ANN.key), ANN)),
        ("that is not signed", note_of(whole.text(), signature=bytes(64))),
        ("signed by a party", note_of(whole.text(), signature=ANN.sign(whole.text().encode()))),
        ("with a signature of S + L", note_of(whole.text(), signature=larger(whole.text()))),
    ):
        yield broken(f"a published checkpoint {name}", whole, "published", checkpoint=note)
    early = whole.note(size=7)
    yield incomplete("a file cut after a published checkpoint", cut, checkpoint=early)
    before = opened()
    yield broken("a file cut before a published checkpoint", before, "published", checkpoint=early)
    yield broken("no header, but a checkpoint", [b""], "published", checkpoint=early)
    fork = ended(asked())
    fork.check(fork.note(root=sha256(b"fork")))
    rules = "checkpoint", "published"
    yield broken("a checkpoint on record forks the published", fork, *rules, checkpoint=fork.note())
    fork = asked()
    forged = note_of(fork.text(root=sha256(b"fork")), signature=bytes(64))
    right = fork.note()
    fork.check(forged)
    fork = sealed(fork)
    yield broken("a forged checkpoint on record", fork, "checkpoint", checkpoint=right)
    yield from witnessed(whole)


def witnessed(whole: Transcript) -> Iterator[Case]:
    text, note = whole.text(), whole.note()
    one, two = cosignature(text, WITNESS), cosignature(text, OTHER_WITNESS)
    keys = [verifier_key(WITNESS), verifier_key(OTHER_WITNESS)]
    early = cosignature(text, WITNESS, time=0)
    forged = signature_line(WITNESS.name, 4, WITNESS.key, struct.pack(">Q", 0) + bytes(64))
    beyond = cosignature(text, WITNESS, time=2**63)
    another = cosignature(whole.text(size=1), WITNESS)
    plain = signature_line(WITNESS.name, 4, WITNESS.key, WITNESS.sign(text.encode()))
    renamed = cosignature(text, WITNESS, name="witness.example/three")
    for name, lines, needed, fine in (
        ("both of two", one + two, 2, True),
        ("one of two, one demanded", one, 1, True),
        ("one of two, two demanded", one, 2, False),
        ("none", "", 1, False),
        ("one of them twice, two demanded", one + early, 2, False),
        ("one of them twice", one + early, 1, True),
        ("one twice the same", one + one, 1, True),
        ("one, and a forged line of the other's name", two + forged, 1, False),
        ("one right and one forged line", one + forged, 1, False),
        ("at time 2**63 - 1", cosignature(text, WITNESS, time=LARGEST), 1, True),
        ("at time 2**63", beyond, 1, False),
        ("of another checkpoint", another, 1, False),
        ("of the text alone", plain, 1, False),
        ("by another name", renamed, 1, False),
        ("and a line of nobody we know", one + renamed, 1, True),
    ):
        given = {"checkpoint": note + lines, "witnesses": keys, "needed": needed}
        shown = f"cosigned by witnesses: {name}"
        yield sound(shown, whole, **given) if fine else broken(shown, whole, "published", **given)


# --- the wrapper


WINDOW = 13 << 3
"""The descriptor of a window of 8 MiB."""


def wrapper() -> Iterator[Case]:
    whole = ended(opened())
    log, chunks = whole.log, whole.chunks
    found = {"size": len(whole.leaves), "root": whole.root, "digest": whole.digest}
    size = len(log)
    half = size // 2

    def fine(name: str, *parts: bytes) -> Case:
        return {**verdict(f"wrapped: {name}", parts, SOUND), "found": found}

    yield fine("in a frame", frame(log))
    yield fine("in a frame with a window of 8 MiB", frame(log, window=WINDOW))
    yield fine("in a frame with a checksum", frame(log, checksum=checksum_of(log)))
    yield fine("a frame for every record", *map(frame, chunks))
    yield fine(
        "a frame for every byte at first",
        *(frame(log[i : i + 1]) for i in range(70)),
        frame(log[70:]),
    )
    yield fine("frames that begin inside records", frame(log[:half]), frame(log[half:]))
    yield fine(
        "a size of two bytes",
        ZSTD + b"\x60" + struct.pack("<H", size - 256) + raw_block(log, last=True),
    )
    yield fine(
        "a size of eight bytes",
        ZSTD + b"\xe0" + struct.pack("<Q", size) + raw_block(log, last=True),
    )
    yield fine("empty blocks", frame_header(size) + raw_block(b"") * 3 + raw_block(log) + LAST)
    for name, tail in (
        ("another file's start", b"\x1f\x8b\x08\0"),
        ("a byte", b"\0"),
        ("a skippable frame", b"\x50\x2a\x4d\x18\1\0\0\0x"),
        ("text", b"text that is not a frame"),
        ("the log", log[:60]),
        ("a frame of version 0.7", b"\x27\xb5\x2f\xfd\0\0\0\0"),
    ):
        yield verdict(f"wrapped: then {name}", [frame(log), tail], UNFINISHED)
    yield verdict(
        "wrapped: then a part of a frame's magic", [frame(log), ZSTD[:3]], BROKEN, "ending"
    )
    for name, parts in (
        ("a wrong checksum", [frame(log, checksum=b"\0\0\0\0")]),
        (
            "a wrong checksum in the second frame",
            [frame(log[:half]), frame(log[half:], checksum=b"abcd")],
        ),
        ("a window of 9 MiB", [frame(log, window=WINDOW + 1)]),
        ("a window of 2**41 bytes", [frame(log, window=0xFF)]),
        ("no size of the content", [frame_header(None, window=WINDOW) + raw_block(log, last=True)]),
        ("a size of 0", [frame(log), frame_header(0) + LAST]),
        ("a size too small", [frame_header(size - 1) + raw_block(log, last=True)]),
        ("a size too large", [frame_header(size + 1) + raw_block(log, last=True)]),
        (
            "a size of 8,388,609",
            [frame_header((1 << 23) + 1, window=WINDOW) + raw_block(log, last=True)],
        ),
        ("a size of 2**64 - 1", [ZSTD + b"\xe0" + b"\xff" * 8 + raw_block(log, last=True)]),
        ("a reserved bit of the frame", [frame_header(size, flags=8) + raw_block(log, last=True)]),
        ("a reserved block", [frame_header(size) + block(3, size, log, last=True)]),
        (
            "a dictionary",
            [ZSTD + b"\xa1" + b"\7" + struct.pack("<I", size) + raw_block(log, last=True)],
        ),
        (
            "a malformed Huffman table",
            [frame_header(size) + block(2, len(HUFFMAN), HUFFMAN, last=True)],
        ),
        (
            "a compressed block of no byte",
            [frame_header(size) + raw_block(log) + block(2, 0, b"", last=True)],
        ),
        (
            "a block that repeats what is not there",
            [frame_header(24) + repeat_block(b"abc", 9, 131) + LAST],
        ),
    ):
        yield verdict(f"wrapped: {name}", parts, UNFINISHED)
    alike = frame_header(3 * len(REFUSED)) + repeat_block(REFUSED, len(REFUSED), 2 * len(REFUSED))
    chunks = [frame(opened().log), alike + LAST]
    yield verdict("wrapped: a compressed block and no checksum", chunks, UNFINISHED)
    first, second = frame(log[:half]), frame(log[half:])
    for name, parts in (
        ("in the magic of a frame", [first, second[:3]]),
        ("in the header of a frame", [first, second[:6]]),
        ("in the header of a block", [first, second[:11]]),
        ("in a block", [first, second[:-1]]),
        ("in a checksum", [first, frame(log[half:], checksum=checksum_of(log[half:]))[:-1]]),
        ("between frames", [first]),
        ("in the first frame", [first[:-1]]),
        ("after the magic of a frame", [ZSTD]),
    ):
        yield verdict(f"wrapped and cut: {name}", parts, INCOMPLETE)
    broken_frame = frame(b"x", checksum=bytes(4))
    long = opened().log + struct.pack(">I", 1 << 30)
    for name, content, rule in (
        ("a wrong magic, cut", b"sotvo", "magic"),
        ("a header of another form", opened().start + framed(b"\xc0"), "header"),
        ("too long a record", long, "length"),
    ):
        yield verdict(
            f"wrapped: {name}, then a wrong frame", [frame(content), broken_frame], BROKEN, rule
        )
    yield verdict(
        "wrapped: a cut magic, then a wrong frame", [frame(MAGIC[:5]), broken_frame], UNFINISHED
    )
    yield verdict("wrapped: no log", [frame(b"sotto voce")], BROKEN, "magic")
    faulty = opened()
    faulty.entry("Received", 0)
    chunks = [frame(faulty.log), frame(b"", checksum=bytes(4))]
    yield verdict("wrapped: a faulty entry, then a wrong frame", chunks, UNFINISHED, "entries")
    whole = sealed(survey())
    chunks = [frame(b"".join(whole.chunks[:-1])), frame(whole.chunks[-1], checksum=bytes(4))]
    yield verdict("wrapped: the last checkpoint in a wrong frame", chunks, UNFINISHED)
    yield verdict("wrapped twice", [frame(frame(log))], BROKEN, "magic")
    yield from wide()


HUFFMAN = bytes([0x8E, 0x40, 0x00]) + b"\x83" + bytes(8)


MOST_CONTENT, MOST_STORED = 1 << 23, 8_422_400


def wide() -> Iterator[Case]:
    """Sizes at their bounds, in few bytes."""
    yield long_body("a frame of 8,388,608 bytes", MOST_CONTENT, SOUND)
    yield long_body("a frame of 8,388,609 bytes", MOST_CONTENT + 1, UNFINISHED)
    for name, window, says in (
        ("a frame of 8,422,400 bytes, stored", None, SOUND),
        ("a frame of 8,422,401 bytes, stored", WINDOW, UNFINISHED),
    ):
        zeros, record = long_record(MOST_CONTENT)
        *start, entry, ending = record.chunks
        # 11,261 blocks of 3 bytes each beside their content, and a header of 9 bytes or 10.
        full, rest = divmod(zeros, 800)
        blocks: list[Chunk] = [
            frame_header(MOST_CONTENT, window=window),
            raw_block(entry[: MOST_CONTENT - zeros]),
            (raw_block(bytes(800)), full),
            raw_block(bytes(rest)),
            (raw_block(b""), 11_261 - full - 3),
            LAST,
        ]
        assert stored(blocks) == MOST_STORED + (window is not None)
        yield verdict(name, [frame(b"".join(start)), *blocks, frame(ending)], says)
    for name, size, says, rules in (
        ("a header in 4,194,304 bytes of log, wrapped", 1 << 22, SOUND, []),
        ("a header in 4,194,305 bytes of log, wrapped", (1 << 22) + 1, BROKEN, ["length"]),
    ):
        before, spaces, after, ending = long_header(size)
        head = frame_header(size, window=WINDOW)
        chunks = [head, raw_block(before), *blocks_of(b" ", spaces), raw_block(after, last=True)]
        yield verdict(name, [*chunks, frame(ending)], says, *rules)
    for name, less, says, rules in (
        ("a header in 8 times the bytes of a wrapped file", 0, SOUND, []),
        ("a header in more than 8 times the bytes of a wrapped file", 1, BROKEN, ["length"]),
    ):
        size = 4_800_000
        before, spaces, after, ending = long_header(size)
        start = [frame_header(size, window=WINDOW), raw_block(before)]
        last = raw_block(after, last=True)
        bare = stored([*start, last, *(blocks_of(b" ", spaces - 500_000)), bytes(6 * 3)])
        raw = size // 8 - bare - less
        chunks = list(start)
        for part in (*[100_000] * (raw // 100_000), raw % 100_000):
            chunks += [block(RAW, part, b""), (b" ", part)]
        chunks += [*blocks_of(b" ", spaces - raw), last]
        assert stored(chunks) == size // 8 - less
        yield verdict(name, [*chunks, frame(ending)], says, *rules)
    before, spaces, after, ending = long_header((1 << 22) + 1)
    name = "a header in 4,194,305 bytes of log, not wrapped"
    yield verdict(name, [before, (b" ", spaces), after, ending], SOUND)


def stored(chunks: Sequence[Chunk]) -> int:
    """How many bytes they are."""
    return sum(len(c) if isinstance(c, bytes) else len(c[0]) * c[1] for c in chunks)


def blocks_of(octet: bytes, size: int) -> list[Chunk]:
    """Blocks of one byte repeated."""
    full, rest = divmod(size, MAX_BLOCK)
    return [(block(RUN, MAX_BLOCK, octet), full), block(RUN, rest, octet)]


def long_record(size: int) -> tuple[int, Transcript]:
    """A record whose first entry takes so many bytes, and how many zeros are in it."""
    zeros = size - 200
    for _ in range(2):
        record = opened(kinds=[*KINDS, ["Long", MOST_CONTENT, []]])
        record.say("ann", "aggregator", "Long", bytes(zeros))
        zeros += size - len(record.chunks[-1])
    return zeros, ended(record)


def long_body(name: str, size: int, says: str) -> Case:
    zeros, record = long_record(size)
    *start, entry, ending = record.chunks
    head = [frame_header(size, window=WINDOW), raw_block(entry[: size - zeros])]
    chunks = [frame(b"".join(start)), *head, *blocks_of(b"\0", zeros), LAST, frame(ending)]
    return verdict(name, chunks, says)


def long_header(size: int) -> tuple[bytes, int, bytes, bytes]:
    """A log of so many bytes up to its header's end: before the spaces, their number, after."""
    spaces = size - len(opened(program=" " * 70_000).log) + 70_000
    record = ended(opened(program=" " * spaces))
    before, _, after = record.log[:size].partition(b" " * spaces)
    return before, spaces, after, record.chunks[-1]


# --- the files


def listed() -> dict[str, Iterator[Case]]:
    return {
        "layout": layout(),
        "headers": headers(),
        "entries": entries(),
        "said": said(),
        "heads": heads(),
        "checkpoints": checkpoints(),
        "signatures": signatures(),
        "endings": endings(),
        "published": published(),
        "wrapper": wrapper(),
    }


def parts_of(chunks: Sequence[Chunk], pieces: dict[bytes, str]) -> list[str]:
    """A file's bytes in hexadecimal, pieces by their names, and stretches of repeated bytes."""
    parts: list[str] = []
    run = b""
    for chunk in [*chunks, b""]:
        if isinstance(chunk, bytes) and chunk:
            run += chunk
            continue
        parts += cut(run, list(pieces.items()))
        run = b""
        if chunk and chunk[1]:
            content = chunk[0]
            parts.append(f"{content.hex()}*{chunk[1]}")
    return parts


def cut(content: bytes, pieces: Sequence[tuple[bytes, str]]) -> list[str]:
    """The content with the pieces that are in it, the longest first, by their names."""
    for place, (piece, name) in enumerate(pieces):
        if piece in content:
            before, _, after = content.partition(piece)
            return [*cut(before, pieces[place + 1 :]), name, *cut(after, pieces[place:])]
    return [content.hex()] if content else []


def content_of(parts: Sequence[str], pieces: dict[str, str]) -> bytes:
    """The bytes of which a file consists."""
    content = []
    for part in parts:
        text, _, times = part.partition("*")
        content.append(bytes.fromhex(pieces.get(text, text)) * int(times or 1))
    return b"".join(content)


def pieced(cases: list[Case], name: str, more: Iterable[bytes] = ()) -> dict[str, Any]:
    """The cases, and the pieces that several of their files, of this name, have in common."""
    files = [case[name] for case in cases if name in case]
    uses = Counter(chunk for file in files for chunk in dict.fromkeys(file) if len(chunk) >= 24)
    common = {chunk for chunk, count in uses.items() if count > 2 and isinstance(chunk, bytes)}
    ordered = sorted(common.union(more), key=lambda chunk: (-len(chunk), chunk))
    pieces = {chunk: f"${place}" for place, chunk in enumerate(ordered)}
    for file in files:
        file[:] = parts_of(file, pieces)
    return {"pieces": {name: chunk.hex() for chunk, name in pieces.items()}, "cases": cases}


def transcripts() -> dict[str, Any]:
    cases = [{"group": group, **case} for group, some in listed().items() for case in some]
    header = opened()
    long = (packed(name) + packed(header.fields[name]) for name in ("roster", "kinds"))
    name = origin(header.session, AGGREGATOR.key).encode()
    return pieced(cases, "file", [header.log, *long, packed(header.session), name])


def written_out(content: dict[str, Any]) -> str:
    """JSON with a line for every piece and every case."""
    parts = []
    for name, value in written(content).items():
        start, end = "{}" if isinstance(value, dict) else "[]"
        lines = (
            [f"{json.dumps(key)}: {dumped(item)}" for key, item in value.items()]
            if isinstance(value, dict)
            else map(dumped, value)
        )
        parts.append(f"{json.dumps(name)}: {start}\n" + ",\n".join(lines) + f"\n{end}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def example() -> Transcript:
    """A whole survey of one party, as small as one can be."""
    record = Transcript((AGGREGATOR, ANN))
    record.check()
    record.tell("aggregator", "ann", "Ask", b"\x90")
    record.tell("ann", "aggregator", "Report", b"\x91\x01")
    record.close("Report", b"\x02")
    record.check()
    counts = struct.pack("<2Q", 0, 1)
    record.say("aggregator", "record", "Result", packed([["u8", [2], counts]]))
    record.head(ANN)
    return sealed(record)


def files() -> dict[str, str]:
    """The text of every file, by its name."""
    return {
        "example.txt": annotated(example().log),
        "proofs.json": written_out(pieced(proofs(), "receipt")),
        "transcripts.json": written_out(transcripts()),
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
