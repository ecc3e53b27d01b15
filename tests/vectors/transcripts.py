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
    BOUND,
    EIGHTH,
    KINDS,
    MAGIC,
    MOST,
    NEIGHBOURS,
    ORDER,
    OTHER_WITNESS,
    PRIME,
    WITNESS,
    Member,
    OddMember,
    Transcript,
    cosignature,
    encoded_point,
    framed,
    multiplied,
    note_of,
    origin,
    padded,
    point_of,
    session_of,
    signature_line,
    verifier_key,
)

FOLDER = Path(__file__).parent / "transcript"

SOUND, BROKEN, INCOMPLETE = "sound", "broken", "incomplete"

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
    last = chunks[-1]
    yield incomplete("cut: after the ending, which checkpoints precede", chunks[:-1])
    for name, size in (("its length", 2), ("it", 100), ("it, before its last byte", len(last) - 1)):
        short = [*chunks[:-1], last[:size]]
        yield incomplete(f"cut: in the last checkpoint, inside {name}", short)
    yield incomplete("a run that failed", ended(asked(), complete=False, reason="time ran out"))
    failed = survey()
    failed.end(complete=False, reason="r" * 1024)
    failed.check()
    yield incomplete("a run that failed, signed", failed)
    for name, start in (
        ("of version 2", MAGIC.replace(b"3", b"2")),
        ("of version 4", MAGIC.replace(b"3", b"4")),
        ("with a capital", MAGIC.replace(b"s", b"S", 1)),
        ("without a line end", MAGIC.replace(b"\n", b" ")),
        ("with another line end", MAGIC.replace(b"\n", b"\r")),
        ("after a byte order mark", b"\xef\xbb\xbf" + MAGIC),
    ):
        yield broken(f"magic {name}", [start, ended(opened()).log[23:]], "magic")
    for name, start in (
        ("a zero byte", b"\0"),
        ("another file's", b"\x1f\x8b\x08\0"),
        ("a file's that Zstandard has compressed", ZSTANDARD),
        ("a byte of such a file's", ZSTANDARD[:1]),
        ("a letter", b"sotto voce"),
    ):
        yield broken(f"magic: {name}, and nothing more", [start], "magic")
    chunks = [ZSTANDARD, ended(opened()).log]
    yield broken("magic: four bytes of Zstandard's before it", chunks, "magic")
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
        ("2**32 - 1 bytes", (1 << 32) - 1, "length"),
        ("66,561 bytes", 66_561, "length"),
    ):
        given = f"an entry of {name}"
        cut = [*chunks, struct.pack(">I", length)]
        yield broken(given, cut, rule) if rule else incomplete(given, cut)
    yield broken("an entry of 66,561 bytes, of which one is there", [*cut, b"\x93"], "length")
    yield broken("a header of no byte", [start, framed(b"")], "header")
    record = opened()
    record.add(b"")
    yield broken("an entry of no byte", ended(record), "entries")
    record = asked()
    record.say("ann", "aggregator", "Report", bytes(65_536))
    yield broken("an entry as long as one may be", ended(record), "body-size")
    yield sound("a header of more than 4 MiB", ended(opened(program=" " * (1 << 22))))
    most = 1 << 23
    record = opened(kinds=[*KINDS, ["Long", most, []]])
    record.say("ann", "aggregator", "Long", bytes(most))
    yield sound("a body of 8 MiB", ended(record))


ZSTANDARD = b"\x28\xb5\x2f\xfd"
"""What a file begins with that Zstandard has compressed."""


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
    "code": [0, False, "c" * 32, b"", [0] * 32],
    "parameters": [None, [], "x", 1],
    "survey": [None, []],
    "analysis": [[], "x", False],
    "neighbours": [None, 1, "", NEIGHBOURS.encode(), "another text"],
    "nonce": [None, "x" * 16, [0] * 16],
    "roles": ["mixer", 1, {}, [], [1], [None], [b"mixer"], ["mixer", 1], [["mixer"]]],
    "enrolled": [2, "request", {"request": 2}, [], [2], ["request", 2], [["request"]]],
    "attempt": [None, "1", 1.0, True, [], 0, -1, 101, 2**63],
    "session": [None, "x" * 32],
    "roster": [None, {"aggregator": AGGREGATOR.key}],
    "kinds": [None, "Closed", {}, [], ["Closed", "Declined", "Left", "Head"]],
    "seed": ["", "1", "hidden", "Withheld", b"withheld", 1.0, True, [], -1],
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
            other = {name: value}
            record = opened(**other) if name in BOUND else rewritten(fields | other)
            yield broken(f"header with {name} = {shown}", record, "header")
    pairs = list(fields.items())
    swapped = dict([*pairs[:-2], *pairs[:-3:-1]])
    body = packed(fields)[3:]
    once_more = packed("seed") + packed(None)
    for name, content in (
        ("with a field more", packed(fields | {"format": 3})),
        ("with a field twice", b"\xde\0\x11" + body + once_more),
        ("in another order", packed(swapped)),
        ("as an array", packed(list(fields.values()))),
        ("that is nil", packed(None)),
        ("in a map with a longer head", b"\xdf\0\0\0\x10" + body),
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
        ("code", sha256(b"code")),
        ("parameters", {"epsilon": 1.5}),
        ("survey", {}),
        ("analysis", {}),
        ("nonce", bytes(16)),
        ("roles", ["mixer"]),
        ("enrolled", [["request", 2]]),
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
    second = session_of(fields | {"attempt": 2})
    for name, session in (
        ("that is the first attempt's", fields["session"]),
        ("of another attempt", session_of(fields | {"attempt": 3})),
        ("whose last byte is 0", second[:31] + b"\0"),
        ("whose first byte is another", bytes([second[0] ^ 1]) + second[1:]),
        ("whose last byte comes first", second[31:] + second[:31]),
        ("without its last byte", second[:31]),
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
    code = sha256(b"code")
    yield sound("code of a file", ended(opened(code=code)))
    for size in (31, 33):
        record = ended(opened(code=(code + code)[:size]))
        yield broken(f"code of {size} bytes", record, "header")
    for name, text in (
        ("without its last letter", NEIGHBOURS[:-1]),
        ("with a full stop", f"{NEIGHBOURS}."),
        ("with a capital", f"O{NEIGHBOURS[1:]}"),
    ):
        yield broken(f"neighbours {name}", ended(opened(neighbours=text)), "header")
    yield from services()
    for seed in (0, 1, 2**63, 2**64 - 1):
        yield sound(f"seed {seed}", ended(opened(seed=seed)))
    yield sound("a seed that is withheld", ended(opened(seed="withheld")))
    yield sound("texts that are empty", ended(opened(variant="", transport="", program="")))
    yield sound("text that is not ASCII", ended(opened(program="Gr\u00fc\u00dfe \U0001f600 \0")))


def services() -> Iterator[Case]:
    """Roles, and how members came by their keys: the aggregator, Ann and Bob."""
    for name, roles in (
        ("one", ["mixer"]),
        ("two of three members", ["mixer", "tallier"]),
        ("one twice", ["mixer", "mixer"]),
        ("an empty one", [""]),
    ):
        yield sound(f"roles: {name}", ended(opened(roles=roles)))
    for count in (3, 4, 1000):
        record = ended(opened(roles=["mixer"] * count))
        yield broken(f"roles: {count} of three members", record, "header")
    alone = Transcript((AGGREGATOR,), roles=["mixer"])
    yield broken("roles: one, and the aggregator is the only member", ended(alone), "header")
    for name, enrolled in (
        ("in one way", [["request", 2]]),
        ("in two ways", [["folder", 1], ["request", 1]]),
        ("in one way, said twice", [["seed", 1], ["seed", 1]]),
        ("in a way of somebody else's", [["", 1], ["by post", 1]]),
    ):
        yield sound(f"enrolled {name}", ended(opened(enrolled=enrolled)))
    alone = Transcript((AGGREGATOR,), enrolled=[])
    yield sound("enrolled in no way, and the aggregator is the only member", ended(alone))
    for name, enrolled in (
        ("one too few", [["request", 1]]),
        ("one too many", [["request", 3]]),
        ("one too many in two ways", [["request", 2], ["folder", 1]]),
        ("2**64 - 1 members", [["request", 2**64 - 1]]),
        ("2**64 - 1 members and three", [["request", 2**64 - 1], ["folder", 3]]),
        ("no member in one way", [["request", 2], ["folder", 0]]),
        ("-1 members in one way", [["request", 3], ["folder", -1]]),
        ("a count that is a float", [["request", 2.0]]),
        ("a count that is true", [["request", 1], ["folder", True]]),
        ("a count that is nil", [["request", None]]),
        ("a count that is text", [["request", "2"]]),
        ("a count in a longer form", [["request", Raw(b"\xcc\2")]]),
        ("a way that is nil", [[None, 2]]),
        ("a way in bytes", [[b"request", 2]]),
        ("an item more", [["request", 2, 0]]),
        ("a count before its way", [[2, "request"]]),
    ):
        yield broken(f"enrolled: {name}", ended(opened(enrolled=enrolled)), "header")


DESCRIPTIONS: list[tuple[str, list[Any]]] = [
    ("no field", []),
    ("a field", [["a", ["int", 0, None]]]),
    ("a field of a type that does not exist", [["a", ["date"]]]),
    ("a field of a type with too few items", [["a", ["list"]]]),
    ("a field without a type", [["a"]]),
    ("a field as text", ["a"]),
    ("nil", [None]),
    ("a map", [{"a": 1, "b": [{"": None}]}]),
    ("numbers of all kinds", [0, 2**64 - 1, -(2**63), 1.5, float("inf"), True]),
    ("bytes", [b"\0\xff"]),
    ("lists, nested 64 deep in all", nested(62)),
]
"""Of a kind's third item: any array that a canonical value may be."""

WRONG_DESCRIPTIONS: list[tuple[str, Any]] = [
    ("a map", {}),
    ("nil", None),
    ("text", "fields"),
    ("bytes", b"\x90"),
    ("a number", 0),
    ("lists, nested 65 deep in all", nested(63)),
    ("keys that are not sorted", [{"b": 0, "a": 1}]),
    ("a key that is an integer", [Raw(b"\x81\1\1")]),
    ("a float that is not a number", [float("nan")]),
    ("a float of 32 bits", [Raw(b"\xca\0\0\0\0")]),
    ("a number in a longer form", [Raw(b"\xcc\1")]),
    ("text that is not UTF-8", [Raw(b"\xa1\xff")]),
    ("an extension", [Raw(b"\xd4\1\0")]),
]

WRONG_KINDS: list[tuple[str, Any]] = [
    ("without a name", [1, []]),
    ("without a description", ["More", 1]),
    ("with an item more", ["More", 1, [], None]),
    ("as a map", {"More": 1}),
    ("of nil", None),
    ("with bytes for its name", [b"More", 1, []]),
    ("of at most 0 bytes", ["More", 0, []]),
    ("of at most -1 byte", ["More", -1, []]),
    ("of at most 67,174,401 bytes", ["More", 67_174_401, []]),
    ("of at most 2**64 - 1 bytes", ["More", 2**64 - 1, []]),
    ("of at most 1.0 bytes", ["More", 1.0, []]),
    ("of at most true bytes", ["More", True, []]),
    ("of at most nil bytes", ["More", None, []]),
    ("with its bytes in a longer form", ["More", Raw(b"\xcc\1"), []]),
    ("that is there twice", ["Ask", MOST, []]),
    ("that is there twice, of another description", ["Ask", MOST, [None]]),
]


def kinds() -> Iterator[Case]:
    def of(*more: Any) -> Transcript:
        return ended(opened(kinds=[*KINDS, *more]))

    for shown, fields in DESCRIPTIONS:
        yield sound(f"a kind described by an array of {shown}", of(["More", 1, fields]))
    for shown, wrong in WRONG_DESCRIPTIONS:
        yield broken(f"a kind described wrongly by {shown}", of(["More", 1, wrong]), "header")
    yield sound("a kind with an empty name", of(["", 1, []]))
    yield sound("a kind with a name of 1,000 letters", of(["k" * 1000, 1, []]))
    yield sound("a kind of at most 67,174,400 bytes", of(["More", 67_174_400, []]))
    many = [[f"{place:04}", 1, []] for place in range(1025 - len(KINDS))]
    yield sound("1,024 kinds", of(*many[1:]))
    yield broken("1,025 kinds", of(*many), "header")
    for name, kind in WRONG_KINDS:
        yield broken(f"a kind {name}", of(kind), "header")
    for place, (name, _, fields) in enumerate(KINDS[3:], 3):
        others = [*KINDS[:place], *KINDS[place + 1 :]]
        yield broken(f"kinds without {name}", opened(kinds=others), "header")
        yield sound(f"kinds with {name} first", ended(opened(kinds=[KINDS[place], *others])))
        other = [name, 1, fields[:-1]]
        shown = f"kinds with {name} of another size and description"
        yield sound(shown, ended(opened(kinds=[*others, other])))


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
        ("a list of 300,000", [None] * 300_000),
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
    for name in ("variant", "transport", "program"):
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
        ("an array for its name", [["Departed"], 0, "ann", ""]),
        ("a name that a language may know", ["constructor", 0, "ann", ""]),
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
    yield from restored()
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
    record.say("bob", "aggregator", "Report", b"\x91\0")
    record.check()
    record.entry("Hindered", 0, "bob", "aggregator", 0)
    yield sound("hindered: a checkpoint, which is no entry, stands between", sealed(record))
    record = asked(seed=1)
    record.say("aggregator", "record", "Result", b"")
    record.entry("Hindered", 0, "aggregator", "record", 2)
    yield broken("hindered: what was said to the record", ended(record), "delivery")
    record = asked(seed=1)
    record.say("ann", "carl", "Report", b"")
    record.entry("Hindered", 0, "ann", "carl", 0)
    yield broken("hindered: what was said to nobody", ended(record), "recipient", "delivery")


def restored() -> Iterator[Case]:
    for without in ([], ["bob"], ["ann", "bob"], ["bob", "bob"], ["aggregator"]):
        yield sound(f"restored, without {without}", with_entry("Restored", 0, without))
    for name in ("carl", "record", ""):
        entry = with_entry("Restored", 0, ["bob", name])
        yield broken(f"restored: without {name!r}", entry, "departed")
    for what, fields in (
        ("a name that is none", ([0],)),
        ("a name that is too long", (["a" * 256],)),
        ("no names", ("bob",)),
        ("an item too many", ([], 0)),
        ("an item too few", ()),
    ):
        yield broken(f"restored: {what}", with_entry("Restored", 0, *fields), "entries")


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
    whole = of(waits).heads["ann"][3]
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
    yield incomplete("no checkpoint over all, but one before", ended(record))
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
    before = survey_without_checks()
    for shown, value in (
        ("another root", wrong),
        ("zeros", bytes(32)),
        ("the root of no leaf", sha256(b"")),
        ("the root of one leaf less", tree_hash(before.leaves[:-1])),
        ("the canonical digest", before.digest),
    ):
        record = ended(survey_without_checks(), log=value)
        yield broken(f"an ending with {shown} for its log", record, "ending")
    yield sound("an ending with a reason, of a run that is complete", ended(asked(), reason="why"))
    fine: list[Any] = [before.root, True, ""]
    for name, place, value in (
        ("a log of 31 bytes", 0, bytes(31)),
        ("a log in text", 0, "l" * 32),
        ("nil for its log", 0, None),
        ("1 for true", 1, 1),
        ("nil for true", 1, None),
        ("a reason of 1,025 characters", 2, "r" * 1025),
        ("nil for a reason", 2, None),
    ):
        record = asked()
        record.entry("Ending", *[*fine[:place], value, *fine[place + 1 :]])
        yield broken(f"an ending with {name}", record, "entries")
    record = asked()
    record.entry("Ending", record.root, sha256(b"digest"), None, True, "")
    yield broken("an ending of version 2", record, "entries")
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
    for name, tail, rule in (
        ("a byte", b"\0", None),
        ("three bytes", b"\0\0\1", None),
        ("the length of a record", struct.pack(">I", 100), None),
        ("a part of a checkpoint", framed(packed(["Checkpoint", "x" * 200]))[:-1], None),
        ("a part of an entry", REFUSED[:-1], None),
        ("an entry", REFUSED, "ending"),
        ("a record of no byte", bytes(4), "entries"),
        ("a length that no record may have", struct.pack(">I", 66_561), "length"),
        ("text", b"and so on\n", "length"),
        ("the magic", MAGIC, "length"),
    ):
        for place, record in (("ending", ended(asked())), ("last checkpoint", sealed(asked()))):
            chunks = [*record.chunks, tail]
            shown = f"after the {place}: {name}"
            yield broken(shown, chunks, rule) if rule else incomplete(shown, chunks)


REFUSED = framed(packed(["Refused", 0, "", "", b""]))


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
    for name, other in (
        ("of version 2", whole.digest_of([2, whole.session, None])),
        ("of another seed", whole.digest_of([whole.session, 0])),
        ("of another session", whole.digest_of([wrong.encode()[:32], None])),
        ("that is the log's root", whole.root),
        ("of one byte less", whole.digest[:31]),
    ):
        yield broken(f"a digest {name}", whole, "digest", digest=other.hex())
    cut = survey()
    yield incomplete("a file without its ending, the right digest", cut, digest=cut.digest.hex())
    yield broken("a file without its ending, another digest", cut, "digest", digest=wrong)
    fork = asked().digest.hex()
    yield broken("the digest of what it begins with", whole, "digest", digest=fork)
    yield from unread(digest, whole.note(size=7))
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
    long = padded(final, 16_384)
    yield sound("a published checkpoint of 16,384 characters", whole, checkpoint=long)
    yield from witnessed(whole)


def unread(digest: str, checkpoint: str) -> Iterator[Case]:
    """What is given from outside says nothing of a file without a header."""
    whole = opened()
    other = rewritten(whole.fields | {"nonce": b""})
    for given in ({"digest": digest}, {"checkpoint": checkpoint}):
        [shown] = given
        yield incomplete(f"no byte, but a {shown}", [b""], **given)
        yield incomplete(f"no header, but a {shown}", [whole.start], **given)
        cut = upto(whole.chunks, len(whole.log) - 1)
        yield incomplete(f"a part of a header, but a {shown}", cut, **given)
        yield broken(f"a wrong header, and a {shown}", other, "header", **given)
        yield broken(f"a wrong magic, and a {shown}", [ZSTANDARD], "magic", **given)


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
    again = Member("witness.example/again", of=WITNESS.name)
    both = one + cosignature(text, again)
    twice = {"witnesses": [keys[0], verifier_key(again)], "checkpoint": note + both}
    yield sound("cosigned under two names of one key, one demanded", whole, **twice, needed=1)
    yield broken(
        "cosigned under two names of one key, two demanded", whole, "published", **twice, needed=2
    )
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
