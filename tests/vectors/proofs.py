"""Makes the vectors of what is shown beside a transcript: receipts, consistency, evidence."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tests.vectors.make import (
    based,
    flipped,
    inclusion_path_at,
    packed,
    proof_of,
    sha256,
    some,
    tree_hash,
)
from tests.vectors.recording import (
    AGGREGATOR,
    ANN,
    BOB,
    HEAD,
    ORDER,
    WITNESS,
    Member,
    OddMember,
    Transcript,
    cosignature,
    head_statement,
    note_of,
    padded,
    roster_leaves,
    terms_of,
    verifier_key,
)

Case = dict[str, Any]

ORDER_4 = (1, 0)


def case(name: str, holds: bool, **given: Any) -> Case:
    return {"name": name, "holds": holds, **given}


def survey() -> Transcript:
    """Asked, answered, counted, with a result, and ended."""
    record = Transcript()
    for party in (ANN, BOB):
        record.tell("aggregator", party.name, "Ask", b"\x90")
    for party in (ANN, BOB):
        record.tell(party.name, "aggregator", "Report", b"\x91\x01")
    record.close("Report", b"\x06")
    record.say("aggregator", "record", "Result", b"\x91\x93\xa2u8\x91\x02\xc4\x10" + bytes(16))
    record.head(ANN)
    record.head(BOB)
    record.end()
    return record


# --- witnesses


def witness_keys() -> Iterator[Case]:
    key = verifier_key(WITNESS)
    name, number, content = key.split("+", 2)
    plain = b"\1" + WITNESS.key
    plain_id = sha256(name.encode() + b"\n" + plain)[:4].hex()
    low = OddMember("low", turn=ORDER_4)
    assert low.key

    def of(content: bytes, name: str = name) -> str:
        return f"{name}+{sha256(name.encode() + bytes([10]) + content)[:4].hex()}+{based(content)}"

    for shown, text, holds in (
        ("as it is", key, True),
        ("of a name of 255 characters", of(b"\4" + WITNESS.key, "w" * 255), True),
        ("of a name of 256 characters", of(b"\4" + WITNESS.key, "w" * 256), False),
        ("of a name that is not ASCII", of(b"\4" + WITNESS.key, "z\u00fcrich"), True),
        ("of an empty name", of(b"\4" + WITNESS.key, ""), False),
        ("of a name with a space", of(b"\4" + WITNESS.key, "a b"), False),
        ("of a note's key, type 1", f"{name}+{plain_id}+{based(plain)}", False),
        ("of another name", f"other+{number}+{content}", False),
        ("of another number", f"{name}+{'0' * 8}+{content}", False),
        ("of a number in capitals", f"{name}+{number.upper()}+{content}", False),
        ("of 31 bytes", of(b"\4" + WITNESS.key[:31]), False),
        ("of low order", of(b"\4" + bytes(32)), False),
        ("that is not canonical", of(b"\4" + b"\xff" * 32), False),
        ("with more padding", f"{key}=", False),
        ("without its number", f"{name}+{content}", False),
        ("of nothing", "", False),
    ):
        yield case(f"a witness's key {shown}", holds, key=text)


# --- consistency


def consistency() -> Iterator[Case]:
    record = survey()
    size = len(record.leaves)
    last = record.note()

    def of(name: str, holds: bool, proof: str, earlier: str) -> Case:
        return case(name, holds, earlier=earlier, proof=proof)

    for first in (0, 1, 2, 3, 7, 8, size - 1, size):
        early = record.note(size=first)
        yield of(f"from {first} to {size}", True, record.consistency(first, last), early)
    early, proof = record.note(size=5), record.consistency(5, last)
    four = record.note(size=4)
    none, odd = record.note(size=0), record.note(size=0, root=sha256(b"fork"))
    yield of("from 0 to 0", True, record.consistency(0, none), none)
    first = record.note(size=1)
    yield of("from 1 to 1", True, record.consistency(1, first, 1), first)
    long = padded(early, 16_384)
    yield of("an earlier checkpoint of 16,384 characters", True, proof, long)
    long = record.consistency(5, padded(last, 16_384))
    yield of("a later checkpoint of 16,384 characters", True, long, early)
    lines = proof.split("\n")
    hashes = lines.index("") - 1
    witnessed = proof + cosignature(record.text(), WITNESS)
    yield of("a later checkpoint with a cosignature", True, witnessed, early)
    yield of(
        "an earlier one with a cosignature",
        True,
        proof,
        early + cosignature(record.text(size=5), WITNESS),
    )
    another = Transcript(nonce=bytes(16))

    def without(*places: int) -> str:
        return "\n".join(text for place, text in enumerate(lines) if place not in places)

    def changed(place: int, text: str) -> str:
        return "\n".join([*lines[:place], text, *lines[place + 1 :]])

    for name, text, note in (
        ("a fork", proof, record.note(size=5, root=sha256(b"fork"))),
        (
            "an earlier checkpoint of another session",
            proof,
            record.note(size=5, session=another.session),
        ),
        (
            "an earlier checkpoint by another key",
            proof,
            note_of(record.text(size=5, key=ANN.key), ANN),
        ),
        (
            "an earlier checkpoint that is not signed",
            proof,
            note_of(record.text(size=5), signature=bytes(64)),
        ),
        (
            "a later checkpoint that is not signed",
            record.consistency(5, note_of(record.text(), signature=bytes(64))),
            early,
        ),
        (
            "a later checkpoint of another root",
            record.consistency(5, record.note(root=sha256(b"fork"))),
            early,
        ),
        (
            "a later checkpoint of another size",
            record.consistency(5, record.note(size=16 * size, root=record.root)),
            early,
        ),
        ("an earlier checkpoint of another size", proof, four),
        ("another old size", changed(0, "old 4"), four),
        (
            "the later one first",
            record.consistency(5, last).replace(last, early).replace("old 5", f"old {size}"),
            last,
        ),
        ("a hash less", without(1), early),
        ("no hash", without(*range(1, hashes + 1)), early),
        ("a hash more", changed(1, f"{lines[1]}\n{lines[1]}"), early),
        ("another hash", changed(1, based(sha256(b"other"))), early),
        (
            "hashes in another order",
            changed(1, lines[2]).replace(f"\n{lines[2]}\n{lines[2]}", f"\n{lines[2]}\n{lines[1]}"),
            early,
        ),
        ("a hash of 31 bytes", changed(1, based(bytes(31))), early),
        ("a hash without padding", changed(1, lines[1].rstrip("=")), early),
        ("64 hashes", changed(1, "\n".join([lines[1]] * (65 - hashes))), early),
        ("a zero before the old size", changed(0, "old 05"), early),
        ("a sign before the old size", changed(0, "old +5"), early),
        ("no old size", changed(0, "old "), early),
        ("an old size in capitals", changed(0, "OLD 5"), early),
        ("an old size of 2**64 and more", changed(0, f"old {2**64 + 5}"), early),
        ("no first line", without(0), early),
        ("no empty line", without(hashes + 1), early),
        ("no checkpoint", "\n".join(lines[: hashes + 2]), early),
        ("line ends of two bytes", proof.replace("\n", "\r\n"), early),
        (
            "equal sizes and a hash",
            record.consistency(size, last).replace("\n", f"\n{lines[1]}\n", 1),
            last,
        ),
        (
            "equal sizes and other roots",
            record.consistency(size, last),
            record.note(root=sha256(b"fork")),
        ),
        (
            "equal sizes of 1 and other roots",
            record.consistency(1, record.note(size=1, root=sha256(b"fork")), 1),
            record.note(size=1),
        ),
        ("size 0 of another root", record.consistency(0, last), odd),
        ("size 0 twice, of another root", record.consistency(0, odd), odd),
        ("size 0 twice, the later of another root", record.consistency(0, odd), none),
        ("size 0 twice, the earlier of another root", record.consistency(0, none), odd),
        ("size 0 and a hash", changed(0, "old 0"), none),
        ("an earlier checkpoint of 16,385 characters", proof, padded(early, 16_385)),
        (
            "a later checkpoint of 16,385 characters",
            record.consistency(5, padded(last, 16_385)),
            early,
        ),
    ):
        yield of(name, False, text, note)


# --- evidence


def evidence() -> Iterator[Case]:
    record = survey()
    key, session = AGGREGATOR.key, record.session
    again = Transcript(attempt=2).session

    def of(
        name: str, holds: bool, /, one: bytes, two: bytes, by: Member = AGGREGATOR, **other: Any
    ) -> Case:
        signatures = by.sign(one), by.sign(two)
        fields = {
            "format": "sottovoce evidence 1",
            "key": by.key.hex(),
            "first": one.hex(),
            "first_signature": signatures[0].hex(),
            "second": two.hex(),
            "second_signature": signatures[1].hex(),
        } | other
        text = json.dumps({name: value for name, value in fields.items() if value is not None})
        return case(name, holds, evidence=text)

    one = record.text().encode()
    fork = record.text(root=sha256(b"fork")).encode()
    roots = sha256(b"said"), sha256(b"heard"), sha256(b"other")

    def head(
        sender: str = "ann", count: int = 3, said: bytes = roots[0], heard: bytes = roots[1]
    ) -> bytes:
        return head_statement(session, sender, count, said, heard)

    yield of("two checkpoints of one size", True, one, fork)
    nothing = (record.text(size=0, root=root).encode() for root in (sha256(b""), roots[2]))
    yield of("two checkpoints of size 0", True, *nothing)
    hers = (record.text(key=ANN.key, root=root).encode() for root in (record.root, roots[2]))
    yield of("two checkpoints of one size, by another origin's key", True, *hers, ANN)
    yield of("two heads of other words", True, head(), head(said=roots[2]), ANN)
    yield of("two heads of other waits", True, head(), head(heard=roots[2]), ANN)
    small = OddMember("low", turn=ORDER_4)
    odd = [record.text(key=small.key, root=root).encode() for root in roots[:2]]
    short = record.text(root=bytes(31)).encode()
    zeros = [text.replace(b"\n", b"\n0", 1) for text in (one, fork)]
    larger = (int.from_bytes(AGGREGATOR.sign(fork)[32:], "little") + ORDER).to_bytes(32, "little")
    for name, first, second, by in (
        ("two checkpoints, signed by another than their origin's key", one, fork, ANN),
        ("the same checkpoint twice", one, one, AGGREGATOR),
        ("checkpoints of different sizes", one, record.text(size=3).encode(), AGGREGATOR),
        (
            "checkpoints of different sessions",
            one,
            record.text(session=bytes(32), root=bytes(32)).encode(),
            AGGREGATOR,
        ),
        (
            "checkpoints of different origins",
            one,
            record.text(key=ANN.key, root=bytes(32)).encode(),
            AGGREGATOR,
        ),
        ("a checkpoint and a head", one, head("aggregator"), AGGREGATOR),
        ("the same head twice", head(), head(), ANN),
        ("heads of different counts", head(), head(count=4), ANN),
        ("heads of different senders", head(), head("bob", said=roots[2]), ANN),
        (
            "heads of different sessions",
            head(),
            head_statement(bytes(32), "ann", 3, roots[2], roots[1]),
            ANN,
        ),
        (
            "checkpoints of two attempts",
            one,
            record.text(session=again, root=sha256(b"fork")).encode(),
            AGGREGATOR,
        ),
        (
            "heads of two attempts",
            head(),
            head_statement(again, "ann", 3, roots[2], roots[1]),
            ANN,
        ),
        *malformed_heads(session, roots),
        ("a head with a byte more", head(), head() + b"\0", ANN),
        (
            "a head in a longer form",
            head(),
            head().replace(b"\x03\xc4\x20" + roots[0], b"\xcc\x03\xc4\x20" + roots[0]),
            ANN,
        ),
        ("texts that are neither", b"one", b"other", ANN),
        ("a head and the same without its purpose", head(), head()[17:], ANN),
        ("checkpoints without their last line end", one[:-1], fork[:-1], AGGREGATOR),
        ("notes for checkpoints", note_of(one.decode()).encode(), fork, AGGREGATOR),
        ("a checkpoint with a root of 31 bytes", one, short, AGGREGATOR),
        ("checkpoints of a size with a zero before it", *zeros, AGGREGATOR),
        ("a checkpoint with a line more", one, fork + b"more\n", AGGREGATOR),
        ("nothing", b"", b"", ANN),
        ("signatures right with a cofactor alone", *odd, small),
    ):
        yield of(name, False, first, second, by)
    fine = AGGREGATOR.sign(one).hex()
    for name, changes in (
        ("a first signature that is wrong", {"first_signature": fine[2:] + "00"}),
        ("a second signature that is wrong", {"second_signature": fine}),
        (
            "a signature of S + L",
            {"second_signature": AGGREGATOR.sign(fork)[:32].hex() + larger.hex()},
        ),
        ("another key", {"key": BOB.key.hex()}),
        ("a key of low order", {"key": bytes(32).hex()}),
        ("another format", {"format": "sottovoce evidence 2"}),
        ("no format", {"format": None}),
        ("no key", {"key": None}),
        ("digits in capitals", {"key": key.hex().upper()}),
        ("an odd number of digits", {"key": key.hex()[:-1]}),
        ("a number for text", {"first": 5}),
        ("a name more", {"third": ""}),
    ):
        yield of(name, False, one, fork, **changes)
    whole = of("whole", True, one, fork)["evidence"]
    yield case("a name twice", False, evidence=whole[:-1] + f', "key": "{key.hex()}"}}')
    yield case("a list", False, evidence=f"[{whole}]")
    yield case("cut short", False, evidence=whole[:-1])


def malformed_heads(
    session: bytes, roots: Sequence[bytes]
) -> Iterator[tuple[str, bytes, bytes, Member]]:
    """Pairs of what Ann has signed, alike in their topic, of which not both are a head's."""
    said, heard, other = roots
    fine = [session, "ann", 3, said, heard]

    def of(fields: Any) -> bytes:
        return HEAD + packed(fields)

    for name, place, wrong in (
        ("a session in text", 0, "s" * 32),
        ("a session of 31 bytes", 0, session[:31]),
        ("a sender in bytes", 1, b"ann"),
        ("nil for its sender", 1, None),
        ("a negative count", 2, -1),
        ("a count of 2**63", 2, 2**63),
        ("a count that is a float", 2, 3.0),
        ("true for its count", 2, True),
        ("text for what was said", 3, "said"),
        ("31 bytes for what was said", 3, said[:31]),
        ("text for what was heard", 4, "heard"),
        ("33 bytes for what was heard", 4, heard + b"\0"),
        ("nil for what was heard", 4, None),
    ):
        both = replaced(fine, place, wrong)
        yield f"a head with {name}", of(both), of(replaced(both, 7 - max(place, 3), other)), ANN
        if place > 2:
            yield f"a head, and one with {name}", of(fine), of(both), ANN
    yield "heads with an item less", of(fine[:4]), of([*fine[:3], other]), ANN
    yield "heads with an item more", of([*fine, 0]), of([*fine, 1]), ANN
    yield "heads in a map", of({"session": session, "said": said}), of({"said": other}), ANN
    yield "heads of version 1", OLD + packed(fine), OLD + packed(replaced(fine, 3, other)), ANN


OLD = b"sottovoce head 1\0"


# --- receipts

RECEIPT = b"sottovoce receipt 4\n"


def shown(record: Transcript, index: int, size: int) -> list[Any]:
    """An entry of the log, proved to be in it when it had so many leaves."""
    contents = [content for content, leaf in record.records if leaf]
    leaves = record.leaves[:size]
    return [index, leaves[index][:16], contents[index], inclusion_path_at(index, leaves)]


class Receipt:
    """A receipt of Ann's; every part of it can be replaced.

    Args:
        record: what it is of.
        counted: the leaves of her reports and of the closings that counted them.
        late: the leaves of her reports and of the closings that left them out, and the sizes of
            the checkpoints that show that.
        size: of the checkpoint's log.
        headed: whether it has her head.
        ended: the leaf of her head, to show it.
        waiting: how many more reports of hers there are, as it says.
    """

    def __init__(
        self,
        record: Transcript,
        counted: Sequence[tuple[int, int]],
        *,
        size: int | None = None,
        place: int = 1,
        headed: bool = True,
        ended: int | None = None,
        late: Sequence[tuple[int, int, int]] = (),
        waiting: int = 0,
    ) -> None:
        self.record = record
        self.size = len(record.leaves) if size is None else size
        name, key = record.roster[place]

        def said(report: int) -> list[bytes]:
            """The proof of what the party has said, the head itself left out."""
            return (
                inclusion_path_at(record.sequence[report], record.said[name][:-1]) if headed else []
            )

        self.fields: dict[str, Any] = {
            "party": name,
            "key": key,
            "place": place,
            "members": len(record.roster),
            "roster": inclusion_path_at(place, roster_leaves(record.roster)),
            "terms": terms_of(record.fields),
            "attempt": record.fields["attempt"],
            "counted": [
                [shown(record, mine, self.size), shown(record, shut, self.size), said(mine)]
                for mine, shut in counted
            ],
            "late": [
                [
                    shown(record, mine, self.size),
                    shown(record, shut, size),
                    said(mine),
                    self.before(size),
                ]
                for mine, shut, size in late
            ],
            "waiting": waiting,
            "head": record.heads[name] if headed else None,
            "ended": None if ended is None else shown(record, ended, self.size),
        }

    def before(self, size: int, **other: Any) -> list[Any]:
        """A checkpoint of an earlier size, and the proof that the log goes on from it."""
        leaves = self.record.leaves[: self.size]
        signature = AGGREGATOR.sign(self.record.text(size=size, **other).encode())
        return [size, tree_hash(leaves[:size]), signature, proof_of(size, leaves)]

    def chunks(self, **other: Any) -> list[bytes]:
        """The receipt in pieces: the entries shown, and what is between them."""
        chunks = [RECEIPT + packed([None] * len(self.fields))[:1]]
        for name, value in (self.fields | other).items():
            if name not in ("counted", "late"):
                chunks.append(packed(value))
                continue
            chunks.append(packed([None] * len(value))[:1])
            for pair in value:
                chunks += [packed([None] * len(pair))[:1], *map(packed, pair)]
        return chunks

    def case(self, name: str, holds: bool, note: str | None = None, **other: Any) -> Case:
        note = self.record.note(size=self.size) if note is None else note
        said = {"word": self.word(self.fields | other)} if holds else {}
        return case(name, holds, receipt=self.chunks(**other), checkpoint=note, **said)

    @staticmethod
    def word(fields: dict[str, Any]) -> str:
        """What a receipt that holds says of its party in the end."""
        if fields["late"]:
            return "late"
        return "counted" if fields["counted"] and not fields["waiting"] else "not yet known"


def replaced(items: Sequence[Any], place: int, item: Any) -> list[Any]:
    return [*items[:place], item, *items[place + 1 :]]


def closing(record: Transcript, kind: str, counted: bytes, **other: Any) -> int:
    """The leaf of a closing that is said here."""
    at = record.size
    record.close(kind, counted, **other)
    return at


def reporting(party: str, record: Transcript, kind: str = "Report", **other: Any) -> int:
    """The leaf of a report that is said here."""
    at = record.size
    record.say(party, other.pop("to", "aggregator"), kind, b"\x91\x01", **other)
    return at


def rounds() -> tuple[Transcript, list[tuple[int, int]], int, int]:
    """Ann and Bob are asked and report, twice.

    Also the size of the log after the first closing, and the leaf of Ann's head.
    """
    record = Transcript()
    for party in (ANN, BOB):
        record.tell("aggregator", party.name, "Ask", b"\x90")
    record.tell("ann", "bob", "Report", b"\x91\0")
    counted, sizes = [], []
    for number in range(2):
        mine = reporting("ann", record)
        reporting("bob", record)
        counted.append((mine, closing(record, "Report", b"\x06", round=number)))
        sizes.append(record.size)
    record.say("aggregator", "record", "Result", b"\xc0")
    head = record.size
    record.head(ANN)
    record.end()
    return record, counted, sizes[0], head


def receipts() -> Iterator[Case]:
    record, both, between, head = rounds()
    whole = Receipt(record, both)
    yield whole.case("of two reports, at the end", True)
    yield Receipt(record, both[1:]).case("of one report, at the end", True)
    early = Receipt(record, both[:1], size=between, headed=False)
    yield early.case("of the first report, while the survey runs, without a head", True)
    yield Receipt(record, both[:1], size=between).case("of an early checkpoint, with a head", True)
    note = record.note()
    yield whole.case(
        "with a checkpoint that is cosigned", True, note + cosignature(record.text(), WITNESS)
    )
    last = Receipt(record, [], size=head + 1, ended=head)
    yield last.case("of the head, when it is the last entry", True)
    yield Receipt(record, [], ended=head).case("of the head, at the end", True)
    yield Receipt(record, both, ended=head).case("of two reports and the head", True)
    mine = both[0][0]
    twice = Receipt(record, [both[0], (mine, both[1][1])])
    yield twice.case("of one report that two closings have counted", False)
    yield from forged(record, whole, early)
    yield from wrong_heads(record, last)
    yield from wrong_reports()
    yield from late_reports()
    yield from wide_rosters()


def forged(record: Transcript, whole: Receipt, early: Receipt) -> Iterator[Case]:
    fields, size, note = whole.fields, whole.size, record.note()
    wrong = sha256(b"wrong")
    text = record.text()
    for name, other in (
        ("of another session", record.note(session=wrong)),
        ("of another root", record.note(root=wrong)),
        ("of an earlier log", record.note(size=size - 1)),
        ("that is not signed", note_of(text, signature=bytes(64))),
        ("that a party has signed", note_of(text, signature=ANN.sign(text.encode()))),
        ("by another key", note_of(record.text(key=ANN.key), ANN)),
    ):
        # A key is not part of the session's id: whose checkpoints to trust, people know otherwise.
        yield whole.case(f"a checkpoint {name}", name == "by another key", other)
    first, second = fields["counted"]
    path = second[2]
    for name, changes in (
        ("another party", {"party": "bob"}),
        ("an unknown party", {"party": "carl"}),
        ("another key", {"key": BOB.key}),
        ("a key of 31 bytes", {"key": ANN.key[:31]}),
        ("another place", {"place": 2}),
        ("the aggregator's place", {"place": 0}),
        ("a place beyond the roster", {"place": 3}),
        ("a place of 2**63", {"place": 2**63}),
        ("more members", {"members": 4}),
        ("fewer members", {"members": 2}),
        ("no members", {"members": 0}),
        ("another roster's proof", {"roster": [wrong, *fields["roster"][1:]]}),
        ("a roster's proof too short", {"roster": fields["roster"][:1]}),
        ("a roster's proof too long", {"roster": [*fields["roster"], wrong]}),
        ("other terms", {"terms": wrong}),
        ("terms of 31 bytes", {"terms": wrong[:31]}),
        ("another attempt", {"attempt": 2}),
        ("attempt 0", {"attempt": 0}),
        ("attempt 101", {"attempt": 101}),
        ("attempt 2**63", {"attempt": 2**63}),
        ("no attempt", {"attempt": None}),
        ("no report", {"counted": [], "head": None}),
        ("no report, and a head", {"counted": []}),
        ("a report twice", {"counted": [first, first]}),
        ("reports of one closing", {"counted": [first, replaced(second, 1, first[1])]}),
        ("a closing before the report", {"counted": [replaced(second, 1, first[1])]}),
        ("a closing for a report", {"counted": [replaced(first, 0, first[1])]}),
        ("a report for a closing", {"counted": [replaced(first, 1, second[0])]}),
        ("a report alone", {"counted": [first[:1]]}),
        ("a report and a closing alone", {"counted": [first[:2], second]}),
        ("a report with an item more", {"counted": [[*first, 0], second]}),
        ("no head, but paths to it", {"head": None}),
        ("a head, and no path to it", {"counted": [replaced(first, 2, []), second]}),
        ("a path with a hash more", {"counted": [first, replaced(second, 2, [*path, wrong])]}),
        ("a path with a hash less", {"counted": [first, replaced(second, 2, path[:-1])]}),
        ("a path with another hash", {"counted": [first, replaced(second, 2, [wrong, *path[1:]])]}),
        ("a path with a hash of 31 bytes", {"counted": [first, replaced(second, 2, [wrong[:31]])]}),
        ("the path of another report", {"counted": [first, replaced(second, 2, first[2])]}),
        ("a head of fewer envelopes", {"head": replaced(fields["head"], 0, 2)}),
        ("a head of more envelopes", {"head": replaced(fields["head"], 0, 4)}),
        ("a head of 2**63 envelopes", {"head": replaced(fields["head"], 0, 2**63)}),
        ("a head of other words", {"head": replaced(fields["head"], 1, wrong)}),
        ("a head of other waits", {"head": replaced(fields["head"], 2, wrong)}),
        ("a head that is not signed", {"head": replaced(fields["head"], 3, bytes(64))}),
        ("a head with an item more", {"head": [*fields["head"], 0]}),
        ("a head with an item less", {"head": [*fields["head"][:1], *fields["head"][2:]]}),
        ("a head with a signature of 63 bytes", {"head": replaced(fields["head"], 3, bytes(63))}),
    ):
        yield whole.case(f"a receipt with {name}", False, **changes)
    for part, which in (("report", 0), ("closing", 1)):
        item = first[which]
        for name, place, value in (
            ("another place", 0, item[0] + 1),
            ("a place beyond the log", 0, size),
            ("a place of 2**63", 0, 2**63),
            ("another salt", 1, flipped(item[1])),
            ("a salt of 15 bytes", 1, item[1][:15]),
            ("another content", 2, item[2][:-1] + bytes([item[2][-1] ^ 1])),
            ("no content", 2, b""),
            ("another path", 3, [wrong, *item[3][1:]]),
            ("a path too short", 3, item[3][:-1]),
            ("a path too long", 3, [*item[3], wrong]),
        ):
            pair = replaced(first, which, replaced(item, place, value))
            name = f"a {part} with {name}"
            yield whole.case(name, False, counted=[pair, second])
    encoded = b"".join(whole.chunks())
    body = encoded[len(RECEIPT) :]
    for name, content in (
        ("of version 3", encoded.replace(b"receipt 4", b"receipt 3")),
        ("of another name", encoded.replace(b"receipt", b"voucher")),
        ("without its first line", body),
        ("with a byte after it", encoded + b"\0"),
        ("cut short", encoded[:-1]),
        ("with an item more", RECEIPT + packed([*fields.values(), 0])),
        ("with an item less", RECEIPT + packed(list(fields.values())[:-1])),
        ("in an array with a longer head", RECEIPT + b"\xdc\0\x0c" + body[1:]),
        ("with a place in a longer form", encoded.replace(ANN.key + b"\1", ANN.key + b"\xcc\1")),
        ("of nothing", b""),
    ):
        yield case(f"a receipt {name}", False, receipt=[content], checkpoint=note)
    [only] = early.fields["counted"]
    yield early.case("a path without a head", False, counted=[replaced(only, 2, [wrong])])
    for name, size, holds in (("16,384", 16_384, True), ("16,385", 16_385, False)):
        yield whole.case(f"with a checkpoint of {name} characters", holds, padded(note, size))


def wrong_heads(record: Transcript, last: Receipt) -> Iterator[Case]:
    """What does not show that all of Ann's words are on record."""
    wrong, fields = sha256(b"wrong"), last.fields
    head, ended = fields["head"], fields["ended"]
    for name, changes in (
        ("no root of her words", {"head": replaced(head, 1, None)}),
        ("another root of her words", {"head": replaced(head, 1, wrong)}),
        ("a head shown, and none of it known", {"head": None}),
        ("a head shown, and another number", {"head": replaced(head, 0, head[0] + 1)}),
        ("a head shown, and other waits", {"head": replaced(head, 2, wrong)}),
        ("a head shown, and another signature", {"head": replaced(head, 3, bytes(64))}),
        ("the header for the head", {"ended": shown(record, 0, last.size)}),
        ("a report for the head", {"ended": shown(record, 1, last.size)}),
        ("a head at another place", {"ended": replaced(ended, 0, ended[0] - 1)}),
        ("a head with another salt", {"ended": replaced(ended, 1, flipped(ended[1]))}),
        ("a head with another content", {"ended": replaced(ended, 2, flipped(ended[2]))}),
        ("a head with another path", {"ended": replaced(ended, 3, [wrong, *ended[3][1:]])}),
        ("an entry that is cut short", {"ended": ended[:3]}),
    ):
        yield last.case(f"a receipt with {name}", False, **changes)
    yield headed("of a head as it should be", True)
    for name, other in (
        ("said by another", {"sender": "bob"}),
        ("said to the aggregator", {"recipient": "aggregator"}),
        ("of another kind", {"kind": "Report"}),
        ("of another session", {"session": wrong}),
        ("of another number", {"seq": 2}),
        ("of another signature", {"body": packed([[], bytes(64)])}),
        ("without waits", {"body": packed([bytes(64)])}),
    ):
        yield headed(f"a receipt of a head {name}", False, **other)


def headed(name: str, holds: bool, **changes: Any) -> Case:
    """A log of Ann's report and, as her head, an envelope with something changed in it."""
    record, right = Transcript(), Transcript()
    for each in (record, right):
        each.tell("ann", "aggregator", "Report", b"\x91\x01")
    right.head(ANN)
    head = right.heads["ann"]
    parts = {"sender": "ann", "recipient": "record", "kind": "Head"}
    said: dict[str, Any] = parts | {"body": packed([[], head[3]]), "seq": head[0]} | changes
    at = record.size
    record.say(**said)
    receipt = Receipt(record, [], headed=False, ended=at)
    return receipt.case(name, holds, head=head)


def wrong_reports() -> Iterator[Case]:
    """Entries that are in the log, and do not show that a report was counted."""

    def of(name: str, report: Any = None, close: Any = None, holds: bool = False) -> Case:
        record = Transcript()
        mine = (report or (lambda r: reporting("ann", r)))(record)
        record.say("ann", "aggregator", "Report", b"\x91\0")
        shut = (close or (lambda r: closing(r, "Report", b"\x06")))(record)
        return Receipt(record, [(mine, shut)], headed=False).case(name, holds)

    def told(record: Transcript) -> int:
        record.tell("ann", "aggregator", "Report", b"")
        return record.size - 1

    def other_closing(**parts: Any) -> Any:
        def close(record: Transcript) -> int:
            at = record.size
            sender, to = parts.get("sender", "aggregator"), parts.get("to", "record")
            body = parts.get("body", packed(["Report", -1, 0, b"\6", b"\6"]))
            session = parts.get("session", record.session)
            record.say(sender, to, parts.get("kind", "Closed"), body, session=session)
            return at

        return close

    yield of("a report that was counted", holds=True)
    for name, report in (
        ("to another party", lambda r: reporting("ann", r, to="bob")),
        ("to the record", lambda r: reporting("ann", r, to="record")),
        ("of another party", lambda r: reporting("bob", r)),
        ("of another kind", lambda r: reporting("ann", r, "Result")),
        ("of another session", lambda r: reporting("ann", r, session=bytes(32))),
        ("that is a delivery", told),
    ):
        yield of(f"a report {name}", report)
    for kind in ("Closed", "Declined", "Left", "Head"):
        shut = other_closing(body=packed([kind, -1, 0, b"\6", b"\6"]))
        yield of(f"a report of kind {kind}", lambda r, k=kind: reporting("ann", r, k), shut)
    for name, values in (
        ("of another kind of message", ["Result", -1, 0, b"\6", b"\6"]),
        ("that did not count her", ["Report", -1, 0, b"\6", b"\4"]),
        ("that counted nobody", ["Report", -1, 0, b"\6", b"\0"]),
        ("that counts her and did not await her", ["Report", -1, 0, b"\4", b"\6"]),
        ("of a range that is not hers", ["Report", -1, 4096, b"\6", b"\6"]),
        ("of a range from place 1", ["Report", -1, 1, b"\3", b"\3"]),
        ("with a bit beyond the roster", ["Report", -1, 0, b"\6", b"\x0e"]),
        ("with a byte too many", ["Report", -1, 0, b"\6\0", b"\6\0"]),
        ("with no bits", ["Report", -1, 0, b"", b""]),
        ("of round -2", ["Report", -2, 0, b"\6", b"\6"]),
        ("of round 2**63", ["Report", 2**63, 0, b"\6", b"\6"]),
        ("of a first place of 2**63", ["Report", -1, 2**63, b"\6", b"\6"]),
        ("without a range", ["Report", -1, b"\6", b"\6"]),
        ("with an item more", ["Report", -1, 0, b"\6", b"\6", 0]),
        ("with bits as text", ["Report", -1, 0, "6", "6"]),
    ):
        yield of(f"a closing {name}", close=other_closing(body=packed(values)))
    for name, parts in (
        ("of a party", {"sender": "bob"}),
        ("to a party", {"to": "bob"}),
        ("of another kind", {"kind": "Result"}),
        ("of another session", {"session": bytes(32)}),
        ("that is empty", {"body": b""}),
        ("with a byte after it", {"body": packed(["Report", -1, 0, b"\6", b"\6"]) + b"\0"}),
        ("with a round in a longer form", {"body": b"\x95\xa6Report\xd0\xff\0\xc4\1\6\xc4\1\6"}),
    ):
        yield of(f"a closing {name}", close=other_closing(**parts))
    yield of(
        "a closing of round 2**63 - 1",
        None,
        other_closing(body=packed(["Report", 2**63 - 1, 0, b"\6", b"\6"])),
        True,
    )


def late_reports() -> Iterator[Case]:
    """Reports that came after the waits for them were over, and what does not show it."""

    def late(shut: Any = None, *, first: bool = False, size: int | None = None) -> Receipt:
        """A log of Bob's report, a closing and Ann's report, or the last two in the other order."""
        record = Transcript()
        reporting("bob", record)
        mine = reporting("ann", record) if first else 0
        over = (shut or (lambda r: closing(r, "Report", b"\4", awaited=b"\6")))(record)
        mine = mine or reporting("ann", record)
        record.head(ANN)
        at = over + 1 if size is None else size
        if first:
            at = max(at, over + 1)
        return Receipt(record, [], late=[(mine, over, at)], ended=record.size - 1)

    right = late()
    [[mine, shut, path, before]] = right.fields["late"]
    wrong, record = sha256(b"wrong"), right.record
    yield right.case("of a report that came too late", True)
    record_of_two, both, _, _ = rounds()
    yield Receipt(record_of_two, both, waiting=1).case("of two reports, and one not named", True)

    def other(place: int, value: Any) -> dict[str, Any]:
        return {"late": [[mine, shut, path, replaced(before, place, value)]]}

    for name, changes in (
        ("a size less", other(0, before[0] - 1)),
        ("a size more", other(0, before[0] + 1)),
        ("size 0", other(0, 0)),
        ("another root", other(1, wrong)),
        ("no signature", other(2, bytes(64))),
        ("a signature of a party", other(2, ANN.sign(record.text(size=before[0]).encode()))),
        (
            "a signature of another session",
            other(2, right.before(before[0], session=wrong)[2]),
        ),
        ("no proof that the log goes on from it", other(3, [])),
        ("a hash more in that proof", other(3, [*before[3], wrong])),
        ("64 hashes in that proof", other(3, [wrong] * 64)),
        ("an item less", {"late": [[mine, shut, path, before[:3]]]}),
        ("no earlier checkpoint", {"late": [[mine, shut, path]]}),
        ("no path", {"late": [[mine, shut, before]]}),
        ("a wrong path", {"late": [[mine, shut, [wrong], before]]}),
    ):
        yield right.case(f"a late report with {name}", False, **changes)
    for name, size in (("before the closing", shut[0]), ("after the report", mine[0] + 1)):
        early = right.before(size)
        leaf = shown(record, shut[0], size) if size > shut[0] else shut
        yield right.case(
            f"a late report and a checkpoint from {name}", False, late=[[mine, leaf, path, early]]
        )
    yield late(first=True).case("a late report that came before the closing", False)
    for name, bits in (("counts her", (b"\6", b"\6")), ("did not await her", (b"\4", b"\4"))):

        def close(record: Transcript, bits: tuple[bytes, bytes] = bits) -> int:
            at = record.size
            record.say("aggregator", "record", "Closed", packed(["Report", -1, 0, *bits]))
            return at

        yield late(close).case(f"a late report and a closing that {name}", False)
    yield late(lambda r: closing(r, "Result", b"\4", awaited=b"\6")).case(
        "a late report and a closing of another kind of message", False
    )
    yield right.case("a report twice late", False, late=[[mine, shut, path, before]] * 2)
    whole = shown(record, shut[0], right.size)
    yield right.case("a report late and counted", False, counted=[[mine, whole, path]])
    yield right.case("a late report, and -1 not named", False, waiting=-1)
    yield right.case("a late report, and 2**63 not named", False, waiting=2**63)
    # Of those that are not named nothing is shown.
    yield right.case("a late report, and 9 not named", True, waiting=9)
    yield right.case("a late report that is left out, and the head", True, late=[])
    yield right.case("a late report that is left out, and no head", False, late=[], ended=None)


def wide_rosters() -> Iterator[Case]:
    """A roster whose closings come in two ranges."""
    names = [AGGREGATOR.name, *(f"p{place}" for place in range(1, 5000))]
    roster = [[name, some(name, 32)] for name in names]
    roster[0][1] = AGGREGATOR.key
    for place in (4095, 4096, 4999):
        record = Transcript(roster=roster)
        name = names[place]
        mine = reporting(name, record)
        bits = bytearray(512), bytearray(113)
        bits[place // 4096][place % 4096 // 8] |= 1 << place % 8
        shut = [closing(record, "Report", bytes(b), first=4096 * i) for i, b in enumerate(bits)]
        hers, others = (shut[place // 4096], shut[1 - place // 4096])
        about = f"place {place} of 5,000 members"
        right = Receipt(record, [(mine, hers)], place=place, headed=False)
        yield right.case(about, True)
        wrong = Receipt(record, [(mine, others)], place=place, headed=False)
        yield wrong.case(f"{about}, the other range's closing", False)


def proofs() -> list[Case]:
    groups = {
        "witness keys": witness_keys(),
        "consistency": consistency(),
        "receipts": receipts(),
        "evidence": evidence(),
    }
    return [{"group": group, **case} for group, cases in groups.items() for case in cases]
