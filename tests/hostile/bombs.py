"""Files of up to 10 MB that ask for far more than their length."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import zstandard

from protocol import AGGREGATOR, RECORD, PartyId, ProtocolError
from protocol.crypto.merkle import Tree
from protocol.messages import MAX_NUMBER, Envelope
from protocol.session.charter import Charter
from protocol.session.heads import head_statement
from protocol.session.roster import Identity, Roster
from protocol.session.variant import build, plain_parameters
from protocol.surveys.limits import MAX_RECORDS
from protocol.transcript.entries import (
    Checkpoint,
    Delivered,
    Departed,
    Header,
    Refused,
    Sent,
    encode_header,
    encode_item,
)
from protocol.transcript.header import make_header
from protocol.variants import BUILT_IN
from protocol.wire.codec import encode_envelope
from tests.every_variant import examples
from tests.hostile.judging import Case
from tests.recorded.forgeries import plain, record_of
from tests.recorded.hostile import ROSTER, asked, header, hostile_header, small_variant
from tests.recorded.transcripts import agreed

MOST = 10 * 2**20
"""The longest file, in bytes."""

PARTY = PartyId("party-1")
_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("verify",),
    ("audit",),
    ("audit", "--observer", "aggregator,party-1", "--worst", "0", "--json"),
    ("show",),
    ("query", "SELECT count(*) FROM sent"),
    ("prove", "party-1", "--out", "@/receipt"),
    ("export", "--to", "@/tables"),
)
MAX_CONTENT = 1 << 23
_frame = zstandard.ZstdCompressor(level=1, write_checksum=True).compress
pack = msgspec.msgpack.encode


def bombs(pattern: str) -> Iterator[Case]:
    """Each whose name has the pattern in it, with the commands that read it."""
    for number, (name, make) in enumerate(_TRANSCRIPTS.items()):
        if not re.search(pattern, name):
            continue
        content = make()
        assert len(content) <= MOST, (name, len(content))
        for command, *options in _commands(name, number):
            yield Case(
                f"{name} ({len(content):,} B)", {"t.svt": content}, (command, "@/t.svt", *options)
            )
    yield from (case for case in _texts() if re.search(pattern, case.what))


def _commands(name: str, number: int) -> Sequence[tuple[str, ...]]:
    """What reads a bomb; of a header all begin with the same."""
    verify, audit, coalition, *others = _COMMANDS
    if name in _HEADERS:
        return (verify, audit) if name.startswith(("header", "kinds")) else (audit,)
    return verify, coalition, others[number % len(others)]


def _wrapped(parts: Iterable[bytes], end: bytes = b"") -> bytes:
    """Frames of these parts, as many as fit."""
    found, size = [], 0
    for part in parts:
        for i in range(0, len(part), MAX_CONTENT):
            # As long as it was made, its memory is.
            frame = bytes(bytearray(_frame(part[i : i + MAX_CONTENT])))
            if size + len(frame) > MOST - len(end):
                return b"".join(found) + end
            found.append(frame)
            size += len(frame)
    return b"".join(found) + end


def _start(head: Header | bytes) -> bytes:
    return plain([head if isinstance(head, bytes) else encode_header(head)])


def _entries(
    entries: Iterable[Any], *, each: int = 4096, head: Header | None = None, limit: int = 1_500_000
) -> bytes:
    """A file of these entries, so many in a frame, as many as fit."""
    source = (
        e if isinstance(e, bytes) else encode_item(e) for e in itertools.islice(entries, limit)
    )

    def parts() -> Iterator[bytes]:
        yield _start(head or hostile_header(small_variant()))
        while part := b"".join(map(record_of, itertools.islice(source, each))):
            yield part

    return _wrapped(parts())


def _plain_entries(entries: Iterable[bytes], head: Header) -> bytes:
    found = [_start(head)]
    size = len(found[0])
    for entry in map(record_of, entries):
        size += len(entry)
        if size > MOST:
            break
        found.append(entry)
    return b"".join(found)


def sent(
    head: Header,
    kind: str,
    body: bytes,
    seq: int,
    *,
    sender: PartyId = PARTY,
    to: PartyId = AGGREGATOR,
) -> bytes:
    envelope = Envelope(head.session, sender, to, seq, kind, body)
    return encode_item(Sent(at=0, envelope=encode_envelope(envelope)))


def _delivered(seq: int, *, sender: PartyId = PARTY, to: PartyId = AGGREGATOR) -> bytes:
    return encode_item(Delivered(at=0, sender=sender, recipient=to, seq=seq, repeat=False))


def _many(one: bytes, count: int) -> bytes:
    return b"\xdd" + count.to_bytes(4) + one * count


def _in_header(field: bytes, value: bytes, *, wrap: bool) -> bytes:
    """A file whose header has this where an empty list was."""
    options = {"parameters": {"x": []}, "survey": {"y": []}}
    encoded = encode_header(header("rr-joint", options["survey"], options["parameters"]))
    assert encoded.count(field + b"\x90") == 1
    content = _start(encoded.replace(field + b"\x90", field + value))
    return _wrapped([content]) if wrap else content


def _header_with(field: str, value: bytes) -> bytes:
    """A file whose header has this in place of a field."""
    head = header("rr-joint", {}, {})
    fields = Header.__struct_fields__
    parts = [b"\xde" + len(fields).to_bytes(2)]
    for name in fields:
        held = getattr(head, name)
        parts += [pack(name), value if name == field else pack(held, order="deterministic")]
    return _start(b"".join(parts))


def _terms(variant: str, survey: dict[str, Any], **parameters: Any) -> bytes:
    """A file of a header that a variant has for these terms, if it has one."""
    example = next(e for e in examples() if e.variant.name == variant)
    values = {**plain_parameters(example.variant), **parameters}
    try:
        made = build(BUILT_IN[variant], parameters=values, survey=survey)
        others = tuple((PartyId(f"party-{i}"), i.to_bytes(32)) for i in range(1, 4))
        head = make_header(Charter(variant=made, roster=Roster((ROSTER[0], *others))))
    except (ProtocolError, ValueError):
        head = header(variant, survey, values)
    return _wrapped([_start(head)])


def undelivered(sizes: int, count: int, *, late: bool = False, heads: bool = False) -> bytes:
    """Reports of the largest size, which arrive after the last was sent, or not at all."""
    variant = small_variant(sizes, max_records=MAX_RECORDS)
    key = Identity(PARTY, bytes(32))
    base = hostile_header(variant)
    head = agreed(msgspec.structs.replace(base, roster=(base.roster[0], (PARTY, key.public))))
    body = pack([["u1", [MAX_RECORDS, sizes], bytes(sizes * MAX_RECORDS)]])
    tree = Tree()

    def entries() -> Iterator[bytes]:
        for i in range(count):
            envelope = Envelope(head.session, PARTY, AGGREGATOR, i, "Report", body)
            encoded = encode_envelope(envelope)
            tree.append(encoded)
            yield encode_item(Sent(at=0, envelope=encoded))
        if heads:
            statement = head_statement(
                session=head.session,
                sender=PARTY,
                count=count,
                said=tree.root(),
                heard=Tree().root(),
            )
            yield sent(head, "Head", pack([[], key.sign(statement)]), count, to=RECORD)
        if late:
            yield from map(_delivered, range(count))

    return _entries(entries(), each=1, head=head)


def _seqs(numbers: Iterable[int]) -> bytes:
    head = hostile_header(small_variant())
    return _entries((sent(head, "Report", b"\x90", i) for i in numbers), head=head)


def _heads() -> bytes:
    """Thousands of heads, each of thousands of waits that returned nothing."""
    head = hostile_header(small_variant(), 4000)
    waits = pack([[[0, "Ask", -1, []]] * 12_000, bytes(64)])
    parties = (PartyId(f"party-{i}") for i in range(1, 4001))
    return _entries(
        (sent(head, "Head", waits, 0, sender=party, to=RECORD) for party in parties),
        head=head,
        each=60,
    )


def closings(count: int) -> bytes:
    """Closings that await 61,439 parties, in 15 ranges each, and count nobody."""
    head = hostile_header(small_variant(), 15 * 4096 - 1)
    everybody = b"\xff" * 512

    def ranges() -> Iterator[bytes]:
        for i in range(15 * count):
            first = i % 15 * 4096
            awaited = everybody if first else b"\xfe" + everybody[1:]
            body = pack(["Report", -1, first, awaited, bytes(512)])
            yield sent(head, "Closed", body, i, sender=AGGREGATOR, to=RECORD)

    return _entries(ranges(), head=head, each=500)


def alike(count: int, *, each: int) -> bytes:
    """Entries of one kind, which take no room in the file."""
    entry = encode_item(Refused(at=0, link=PARTY, reason="", excerpt=b""))
    return _entries(itertools.repeat(entry, count), each=each, limit=count)


def refusals(count: int) -> bytes:
    """Refusals, each for another reason."""
    return _entries(Refused(at=i, link="", reason=f"{i:01000x}", excerpt=b"") for i in range(count))


def departures(count: int) -> bytes:
    """Departures of parties that are not on the roster."""
    return _entries(
        Departed(at=i, party=PartyId(f"{i:0200x}"), reason=f"{i:0300x}") for i in range(count)
    )


def questions(*, late: bool) -> bytes:
    """Thousands of parties are asked, each with other randomizers for 2,000 attributes."""
    variant = small_variant(2000)
    head = hostile_header(variant, 4000)
    blocks = msgspec.to_builtins(variant.blocks)

    def asks() -> Iterator[bytes]:
        for i in range(4000):
            body = pack([i.to_bytes(32), blocks])
            to = PartyId(f"party-{i + 1}")
            yield sent(head, "Ask", body, i, sender=AGGREGATOR, to=to)
        for i in range(4000 if late else 0):
            yield _delivered(i, sender=AGGREGATOR, to=PartyId(f"party-{i + 1}"))

    return _entries(asks(), head=head, each=50)


def _long_body(kind: str, body: bytes) -> bytes:
    """An envelope as long as a header can allow."""
    head = hostile_header(small_variant())
    kinds = tuple(msgspec.structs.replace(k, max_bytes=(1 << 26) + (1 << 16)) for k in head.kinds)
    head = agreed(msgspec.structs.replace(head, kinds=kinds))
    return _entries((sent(head, kind, body, i) for i in range(20)), head=head, each=1)


def _nested() -> bytes:
    content = _start(hostile_header(small_variant())) + bytes(2**23 - 9999)
    for _ in range(20):
        content = _frame(content)
    return content


def _graphs() -> bytes:
    """A secure sum in which everybody is told of other neighbours again and again."""
    variant = BUILT_IN["secure-sum"](survey=small_variant(40).survey)
    parties = 500
    head = hostile_header(variant, parties)
    codec = Charter(variant=variant, roster=Roster(head.roster)).codec
    joins = []
    from tests.recorded.runs import recorded

    run = recorded(variant, 60)
    said = [run.said("Graph"), run.said("Dealt"), run.said("Survivors")]
    join = run.said("Join")[0].body
    for i in range(1, parties + 1):
        joins.append(sent(head, "Join", join, 0, sender=PartyId(f"party-{i}")))
    assert codec.names

    def entries() -> Iterator[bytes]:
        yield from joins
        for i in range(400_000):
            each = said[i % 3]
            envelope = each[i % len(each)] if each else said[0][0]
            to = PartyId(f"party-{1 + i % parties}")
            yield sent(head, envelope.kind, envelope.body, i, sender=AGGREGATOR, to=to)

    return _entries(entries(), head=head)


def _members(count: int, name: Callable[[int], str]) -> bytes:
    roster = (ROSTER[0], *((PartyId(name(i)), i.to_bytes(32, "little")) for i in range(count)))
    return _start(msgspec.structs.replace(header("rr-joint", asked(1), {}), roster=roster))


_BIG = 9_900_000
_FRAMES = _frame(bytes(MAX_CONTENT))
_HEADERS: dict[str, Callable[[], bytes]] = {
    **{
        f"header of {name}{' in frames' if wrap else ''}": (
            lambda value=value, times=times, wrap=wrap: _in_header(
                b"\xa1x", _many(value, times * (4 if wrap else 1)), wrap=wrap
            )
        )
        for wrap in (False, True)
        for name, value, times in (
            ("empty lists", b"\x90", 1_000_000 if wrap else _BIG),
            ("empty maps", b"\x80", 1_000_000 if wrap else _BIG),
            ("numbers", b"\xcd\x01\x01", 300_000 if wrap else _BIG // 3),
            ("floats", b"\xcb" + bytes(8), 110_000 if wrap else _BIG // 9),
            ("lists of one", b"\x91\xc0", 500_000 if wrap else _BIG // 2),
            ("maps of one", b"\x81\xa1a\xc0", 250_000 if wrap else _BIG // 4),
            ("short texts", b"\xa2ab", 330_000 if wrap else _BIG // 3),
        )
    },
    "header of a million values": lambda: _in_header(
        b"\xa1y", _many(b"\x80", 1_100_000), wrap=True
    ),
    "header of zeros": lambda: _wrapped(itertools.repeat(plain([]) + bytes(2**23 - 99), 5)),
    "header that never comes": lambda: _wrapped(
        [plain([]) + (2**26).to_bytes(4)], _FRAMES * (9_000_000 // len(_FRAMES))
    ),
    "header of empty members": lambda: _header_with("roster", _many(b"\x92\xa0\xc4\0", _BIG // 4)),
    "header of kinds": lambda: _header_with("kinds", _many(b"\x93\xa0\0\x90", _BIG // 4)),
    "kinds of many fields": lambda: _header_with(
        "kinds", b"\x91\x93\xa1a\x01" + _many(b"\x92\xa0\x91\xa3nil", _BIG // 7)
    ),
    "kinds of values": lambda: _header_with(
        "kinds", b"\x91\x93\xa1a\x01\x91\x92\xa1a\x92\xa4enum" + _many(b"\xc0", _BIG)
    ),
    "header nested": lambda: _in_header(b"\xa1x", b"\x91" * _BIG + b"\xc0", wrap=False),
    "header of a long text": lambda: _in_header(
        b"\xa1x", b"\xdb" + _BIG.to_bytes(4) + b"a" * _BIG, wrap=False
    ),
    "many members": lambda: _members(220_000, lambda i: f"party-{i}"),
    "members of long names": lambda: _members(100_000, lambda i: f"{i:060x}"),
    **{
        f"{variant.name} of {what}": (lambda name=variant.name, ask=ask: _terms(name, ask()))
        for variant in {e.variant.name: e.variant for e in examples()}.values()
        for what, ask in (
            ("16,384 attributes", lambda: asked(16_384)),
            ("300 attributes", lambda: asked(300, 5)),
            ("a long attribute", lambda: asked(1, 1_000_000)),
            ("two long attributes", lambda: asked(2, 2_800)),
            ("a long attribute of many", lambda: _uneven(100, 60_000)),
        )
    },
    **{
        f"{variant.name} with {name} = {value}": (
            lambda v=variant.name, n=name, w=value: _terms(v, asked(3, 4), **{n: w})
        )
        for variant in {e.variant.name: e.variant for e in examples()}.values()
        for name in plain_parameters(variant)
        for value in (2**20, 2**63 - 1, 1e-300, 1e300)
        if isinstance(plain_parameters(variant)[name], int | float)
    },
}
_TRANSCRIPTS: dict[str, Callable[[], bytes]] = {
    **_HEADERS,
    "zeros": lambda: _wrapped([_start(hostile_header(small_variant()))], _FRAMES * 9000),
    "tiny frames": lambda: _wrapped(
        bytes([b]) for b in _start(hostile_header(small_variant())) + bytes(2_000_000)
    ),
    "skippable frames": lambda: (
        _wrapped([_start(hostile_header(small_variant()))])
        + b"\x50\x2a\x4d\x18\xff\xff\xff\xff" * 1_000_000
    ),
    "nested frames": _nested,
    "a wide window": lambda: b"\x28\xb5\x2f\xfd\x04\xf8" + b"\x03\0\0" * 3_000_000,
    "blocks of runs": lambda: b"\x28\xb5\x2f\xfd\x24\xff" + b"\x02\0\x10\0" * 2_500_000,
    "long bodies": lambda: _long_body("Report", bytes(1 << 26)),
    "long heads": lambda: _long_body("Head", _many(b"\x94\0\xa0\0\x90", 13_000_000)),
    "empty entries": lambda: _entries(itertools.repeat(b"")),
    "alike": lambda: _entries(
        itertools.repeat(encode_item(Refused(at=0, link="x", reason="", excerpt=b""))), each=100_000
    ),
    "small entries": lambda: _plain_entries(
        itertools.repeat(b"\x93\xa8Departed\0\xa0"), hostile_header(small_variant())
    ),
    "checkpoints": lambda: _entries(itertools.repeat(encode_item(Checkpoint(note="x\n" * 999)))),
    "refusals of a party": lambda: alike(1_500_000, each=100_000),
    "refusals": lambda: refusals(900_000),
    "departures": lambda: departures(2_000_000),
    "strangers": lambda: _strangers(),
    "seqs rising": lambda: _seqs(range(900_000)),
    "seqs with gaps": lambda: _seqs(2 * i for i in range(900_000)),
    "seqs falling": lambda: _seqs(itertools.chain((MAX_NUMBER,), range(1_800_000, 0, -2))),
    "seqs alike": lambda: _seqs(itertools.repeat(5, 900_000)),
    "undelivered": lambda: undelivered(40, 20),
    "undelivered, signed": lambda: undelivered(20, 20, heads=True),
    "undelivered, small": lambda: undelivered(1, 400, heads=True),
    "delivered late": lambda: undelivered(40, 20, late=True),
    "deliveries": lambda: _entries((_delivered(i) for i in range(2_000_000)), each=50_000),
    "heads": _heads,
    "closings": lambda: closings(40_000),
    "questions": lambda: questions(late=False),
    "questions, delivered late": lambda: questions(late=True),
    "graphs": _graphs,
}


def _uneven(attributes: int, categories: int) -> dict[str, Any]:
    survey = asked(attributes)
    survey["attributes"][0]["categories"] = [f"{i:x}" for i in range(categories)]
    return survey


def _strangers() -> bytes:
    head = hostile_header(small_variant())
    names = (PartyId(f"{i:x}") for i in range(900_000))
    return _entries((sent(head, "Report", b"\x90", 0, sender=n) for n in names), head=head)


def _texts() -> Iterator[Case]:
    """Receipts, notes, evidence, charters, plans, surveys and records of 10 MB."""
    true = "@/../true"
    big = _BIG
    receipt = b"sottovoce receipt 4\n"
    checked = "--checkpoint", f"{true}/last"
    for what, content in (
        (
            "a receipt of hashes",
            receipt
            + b"\x99\xa1a\xc4\x20"
            + bytes(32)
            + b"\0\0"
            + _many(b"\xc4\x20" + bytes(32), big // 34),
        ),
        ("a receipt of lists", receipt + _many(b"\x90", big)),
        ("a receipt nested", receipt + b"\x91" * big),
        ("evidence of lists", b'{"a":[' + b"[]," * (big // 3) + b"[]]}"),
        ("evidence nested", b'{"a":' + b"[" * big),
        (
            "evidence of digits",
            b'{"format":"sottovoce evidence 1","key":"' + b"ab" * (big // 2) + b'"}',
        ),
        ("evidence of numbers", b"9" * big),
        ("evidence of names", b"{" + b",".join(b'"%d":"a"' % i for i in range(big // 13)) + b"}"),
    ):
        is_receipt = content.startswith(receipt)
        command = ("check", "@/file", *checked) if is_receipt else ("evidence", "@/file")
        yield Case(what, {"file": content}, command)
    for what, content in (
        ("a proof of hashes", b"old 1\n" + (b"A" * 43 + b"=\n") * (big // 45)),
        ("a proof of signatures", b"old 1\n\n\n" + "\u2014 a AAAAAA==\n".encode() * (big // 20)),
    ):
        given = "--since", f"{true}/early", "--checkpoint", f"{true}/late"
        yield Case(what, {"file": content}, ("consistency", "@/file", *given))
    yield Case(
        "a note of lines",
        {"note": b"a\n" * (big // 2)},
        ("check", f"{true}/receipt", "--checkpoint", "@/note"),
    )
    charter = (
        b'{"variant":"rr-joint","parameters":{"a":%s},"survey":{},"analysis":null,'
        b'"pin":null,"enrolled":"folder","nonce":"AAAAAAAAAAAAAAAAAAAAAA==","members":3,'
        b'"roster":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}'
    )
    for what, content in (
        ("a charter of lists", charter % (b"[" + b"[]," * (big // 3) + b"[]]")),
        ("a charter of maps", charter % (b"[" + b"{}," * (big // 3) + b"[]]")),
        ("a charter nested", charter % (b"[" * (big // 2) + b"]" * (big // 2))),
        ("a charter of digits", charter % (b"9" * big)),
    ):
        for command in (
            ("check", f"{true}/receipt", *checked, "--member", "@"),
            ("answer", "@", "--connect", "127.0.0.1:1", "--records", f"{true}/records.csv"),
            ("aggregate", "@", "--listen", "127.0.0.1:0", "--out", "@/out", "--joining", "0"),
        ):
            yield Case(what, {"charter.json": content}, command)
    for what, content in (
        ("a plan nested", b"a = " + b"[" * big),
        ("a plan nested and closed", b"a = " + b"[" * 100_000 + b"]" * 100_000),
        ("a plan of lists", b"a = [" + b"[]," * (big // 3) + b"]"),
        ("a plan of tables", b"".join(b"[t%d]\n" % i for i in range(big // 10))),
        ("a plan of dots", b".".join([b"a"] * (big // 2)) + b" = 1"),
        (
            "a plan of attributes",
            b'title="t"\np=0.5\n'
            + b'[[attributes]]\nname="a"\ncategories=["b","c"]\n' * (big // 50),
        ),
        ("a plan of digits", b"title = " + b"9" * big),
        ("a plan of spaces", b" " * big),
        (
            "a plan of categories",
            b'title="t"\np=0.5\nvariant="rr-joint"\n[[attributes]]\nname="a"\ncategories=['
            + b",".join(b'"%x"' % i for i in range(big // 9))
            + b"]",
        ),
    ):
        yield Case(what, {"f.toml": content}, ("keys", "@/f.toml", "--count", "2", "--out", "@/k"))
        yield Case(
            what, {"f.toml": content}, ("test", "rr-joint", "--survey", "@/f.toml", "--rare", "X")
        )
    for what, content in (
        ("records of commas", b"smokes,drinks\n" + b"," * big),
        ("records of quotes", b'smokes,drinks\n"' + b"a" * big),
        ("records of lines", b"smokes,drinks\n" * (big // 14)),
        ("many records", b"smokes,drinks\n" + b"no,never\n" * (big // 9)),
        ("records of columns", b",".join(b"%d" % i for i in range(big // 8)) + b"\n"),
        ("records of nothing", b"\n" * big),
    ):
        command = "audit", f"{true}/run.svt", "--records", "@/r.csv"
        yield Case(what, {"r.csv": content}, command)
