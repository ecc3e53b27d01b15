"""Every rule of verification against planted violations, with the last entry made to fit."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from protocol.messages import AGGREGATOR, PartyId
from protocol.transcript import verification
from protocol.transcript.reader import RULES
from protocol.transcript.verification import verify
from protocol.transcript.wrapper import Unwrapped
from protocol.wire.schemas import MAX_NESTING
from tests.recorded.forgeries import Forgery, pack, rules
from tests.recorded.runs import written
from tests.recorded.transcripts import HEADER, SESSION, agreed, delivered, envelope, sample, sent

# Each takes a sound forgery and breaks it; the rules named are all that may and must be found.
Plant = Callable[[Forgery], object]


def set_sent(i: int, field: int, value: object) -> Plant:
    return lambda f: f.sent(i).__setitem__(field, value)


def set_header(**changes: object) -> Plant:
    return lambda f: f.header.update(changes)


def set_kind(place: int, field: int, value: object) -> Plant:
    """Change a kind's name, the most bytes of its bodies, or its fields."""
    return lambda f: f.header["kinds"][place].__setitem__(field, value)


def nested(depth: int) -> list[object]:
    return ["nil"] if depth == 1 else ["list", nested(depth - 1), 0, None]


def drop(sender: str, seq: int) -> Plant:
    return lambda f: f.entries.pop(f.place(sender, seq))


def insert(*entry: object, at: int = 13) -> Plant:
    return lambda f: f.entries.insert(at, list(entry))


def repeat_first(f: Forgery) -> None:
    place = next(i for i, entry in enumerate(f.entries) if entry[0] == "Delivered")
    f.entries[place][5] = True


def swap_reports(f: Forgery) -> None:
    i, j = f.place("anna", 0), f.place("anna", 1)
    f.entries[i][2], f.entries[j][2] = f.entries[j][2], f.entries[i][2]


def repeat_report(f: Forgery) -> None:
    f.entries.append(copy.deepcopy(f.entries[f.place("anna", 1)]))


def send(sender: str, seq: int) -> Plant:
    return insert("Sent", 9, [SESSION, sender, "aggregator", seq, "Report", b"x"])


def add(content: bytes, *, where: str = "records") -> Plant:
    return lambda f: getattr(f, where).append(content)


def end(**changes: object) -> Plant:
    return lambda f: f.ending.update(changes)


LATE = pack(["Refused", 1, "link", "late", b""])

PLANTED: dict[str, tuple[Plant, set[str]]] = {
    "removed": (drop("anna", 0), {"seq-gap", "delivery"}),
    "removed last": (drop("anna", 1), set()),
    "gap": (set_sent(4, 3, 5), {"seq-gap"}),
    "added elsewhere": (send("anna", 9), {"seq-gap"}),
    "swapped": (swap_reports, {"seq-order"}),
    "repeated": (repeat_report, {"seq-repeat"}),
    "wrong session": (set_sent(0, 0, bytes(16)), {"session"}),
    "foreign sender": (send("carl", 0), {"sender"}),
    "foreign recipient": (set_sent(4, 2, "carl"), {"recipient"}),
    "foreign kind": (set_sent(4, 4, "Confession"), {"kind"}),
    "oversize body": (set_sent(4, 5, bytes(65)), {"body-size"}),
    "negative seq": (set_sent(4, 3, -1), {"entries"}),
    "envelope of a wrong type": (set_sent(4, 3, "1"), {"entries", "ending"}),
    "sent after departing": (send("bert", 1), {"departed"}),
    "foreign departing": (insert("Departed", 9, "carl", "gone"), {"departed"}),
    "delivered without sent": (
        insert("Delivered", 9, "anna", "aggregator", 2, False),
        {"delivery"},
    ),
    "repeat without sent": (insert("Delivered", 9, "anna", "aggregator", 2, True), {"delivery"}),
    "delivered too early": (
        insert("Delivered", 9, "anna", "aggregator", 1, False, at=0),
        {"delivery"},
    ),
    "repeated before delivered": (repeat_first, {"delivered-twice"}),
    "delivered to another": (insert("Delivered", 9, "anna", "bert", 1, False), {"delivery"}),
    "repeat to another": (insert("Delivered", 9, "anna", "bert", 0, True), {"delivery"}),
    "record delivered": (insert("Delivered", 9, "aggregator", "record", 2, False), {"delivery"}),
    "delivered by a stranger": (
        insert("Delivered", 9, "carl", "aggregator", 0, False),
        {"delivery"},
    ),
    "delivered twice": (
        insert("Delivered", 9, "anna", "aggregator", 0, False),
        {"delivered-twice"},
    ),
    "unknown entry": (insert("Whisper", 9), {"entries"}),
    "entry with too many fields": (insert("Departed", 9, "bert", "gone", 1), {"entries"}),
    "negative time": (insert("Departed", -9, "bert", "gone"), {"entries"}),
    "long excerpt": (insert("Refused", 9, "link", "why", bytes(257)), {"entries"}),
    "uncanonical entry": (add(LATE.replace(b"\x01\xa4link", b"\xcc\x01\xa4link")), {"entries"}),
    "empty entry": (add(b""), {"entries"}),
    "time beyond reading": (insert("Departed", 1 << 63, "bert", "gone"), {"entries"}),
    "seq beyond reading": (set_sent(4, 3, 1 << 63), {"entries"}),
    "long entry": (add(bytes((1 << 16) + 65)), {"length"}),
    "entry after the last": (add(LATE, where="after"), {"ending"}),
    "second last entry": (
        lambda f: f.after.append(f.contents()[-1]),
        {"ending"},
    ),
    "malformed last entry": (end(log=bytes(31)), {"entries"}),
    "long reason": (end(complete=False, reason="x" * 1025), {"entries"}),
    "wrong log": (end(log=bytes(32)), {"ending"}),
    "wrong roster": (end(roster=bytes(32)), {"ending"}),
    "wrong digest": (end(digest=bytes(32)), {"ending"}),
    "wrong result": (end(result=bytes(32)), {"ending"}),
    "no note": (add(pack(["Checkpoint", "hello"]), where="after"), {"checkpoint"}),
    "short session": (set_header(session=b"short"), {"header", "session"}),
    "no aggregator": (
        lambda f: f.header["roster"].pop(0),
        {"header", "sender", "recipient", "delivery"},
    ),
    "aggregator not first": (lambda f: f.header["roster"].reverse(), {"header"}),
    "short key": (lambda f: f.header["roster"][1].__setitem__(1, b"k"), {"header"}),
    "invalid id": (lambda f: f.header["roster"].append(["Carl", bytes(32)]), {"header"}),
    "reserved id": (lambda f: f.header["roster"].append(["switch", bytes(32)]), {"header"}),
    "kind twice": (lambda f: f.header["kinds"].append(f.header["kinds"][0]), {"header"}),
    "kernel kind missing": (lambda f: f.header["kinds"].pop(4), {"header"}),
    "kernel kind of other fields": (set_kind(5, 2, []), {"header"}),
    "no cap": (set_kind(1, 1, 0), {"header", "body-size"}),
    "vast cap": (set_kind(0, 1, 1 << 62), {"header"}),
    "deep type": (set_kind(0, 2, [["text", nested(MAX_NESTING + 1)]]), {"header"}),
    "bounds of other positions": (
        set_kind(0, 2, [["codes", ["array", "u1", [[0, 2]], 0, [1, 1]]]]),
        {"header"},
    ),
    "unknown profile": (set_header(recording="some"), {"header"}),
    "negative seed": (set_header(seed=-1), {"header"}),
    "no kernel": (lambda f: f.header["kinds"].__delitem__(slice(2, None)), {"header", "kind"}),
}


def test_the_sound_forgery_is_what_the_recorder_writes() -> None:
    file, digest = sample().content, sample().digest
    forgery = Forgery()
    assert forgery.digest() == digest
    assert verify(forgery.write(), digest=digest).intact
    assert b"".join(Unwrapped(file)) == forgery.plain()


@pytest.mark.parametrize("name", PLANTED)
def test_planted_violation_is_named(name: str) -> None:
    plant, expected = PLANTED[name]
    forgery = Forgery()
    plant(forgery)
    found = verify(forgery.write())
    assert rules(found) == expected
    assert found.intact == (not expected)
    assert not found.torn


@pytest.mark.parametrize(
    ("name", "entry"),
    [("wrong session", 0), ("oversize body", 10), ("delivered too early", 0), ("gap", 10)],
)
def test_faults_say_where(name: str, entry: int) -> None:
    forgery = Forgery()
    PLANTED[name][0](forgery)
    found = verify(forgery.write())
    assert found.faults[0].entry == entry
    assert f"entry {entry}" in str(found.faults[0])


def test_faults_of_one_file_are_all_found() -> None:
    forgery = Forgery()
    for name in ("wrong session", "oversize body", "sent after departing", "wrong digest"):
        PLANTED[name][0](forgery)
    expected = {"session", "body-size", "departed", "ending"}
    assert rules(verify(forgery.write())) == expected


@pytest.mark.parametrize("seen", [True, False])
def test_only_a_digest_from_outside_shows_a_consistent_rewrite(seen: bool) -> None:
    digest = sample().digest
    forgery = Forgery()
    forgery.sent(2)[5] = b"another answer"
    forgery.entries.pop(forgery.place("anna", 1))
    if seen:
        found = verify(forgery.write(), digest=digest)
        assert rules(found) == {"digest"}
        assert not found.intact
    else:
        assert verify(forgery.write()).intact


def test_many_faults_are_counted_but_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "MAX_FAULTS", 3)
    forgery = Forgery()
    for _ in range(10):
        repeat_report(forgery)
    found = verify(forgery.write())
    assert (len(found.faults), found.faults_left_out) == (3, 7)


def test_repeats_are_judged_by_recipient_whatever_the_pattern() -> None:
    """The aggregator writes to its parties in runs of every kind; all is delivered twice over."""
    names = [PartyId(f"p{i}") for i in range(7)]
    roster = (HEADER.roster[0], *((name, bytes([i]) * 32) for i, name in enumerate(names, 1)))
    header = agreed(msgspec.structs.replace(HEADER, roster=roster))
    order = [0, 1, 2, 3, 4, 5, 6, 6, 6, 6, 0, 2, 4, 6, 5, 4, 3, 0, 6, 1, 1, 5]
    for wrong in (False, True):
        asked = [envelope(AGGREGATOR, names[p], i, kind="Ask") for i, p in enumerate(order)]
        repeated = [
            msgspec.structs.replace(item, recipient=names[(p + wrong) % 7])
            for item, p in zip(asked, order, strict=True)
        ]
        entries = [
            *(sent(0, item) for item in asked),
            *(delivered(0, item) for item in asked),
            *(delivered(0, item, repeat=True) for item in repeated),
        ]
        found = verify(written(header, entries).content)
        assert rules(found) == ({"delivery"} if wrong else set())
        assert len(found.faults) == (len(order) if wrong else 0)
        assert found.undelivered == 0


def test_every_rule_is_listed_and_has_a_planted_violation() -> None:
    page = Path(__file__).parents[3] / "docs" / "transcript-format.md"
    described = re.findall(r"^\| \d+ +\| `([a-z-]+)`", page.read_text("utf-8"), re.MULTILINE)
    assert tuple(described) == RULES
    by_bytes = {"magic", "digest"}
    # Of a signed record: test_tampering_signed and test_checkpoints.
    by_bytes |= {"head", "published"}
    assert by_bytes.union(*(expected for _, expected in PLANTED.values())) == set(RULES)
