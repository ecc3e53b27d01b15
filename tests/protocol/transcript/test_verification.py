"""What verification says of faults: where they are, and all of them.

Which rule is broken by what, the vectors of transcripts have.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from protocol import AGGREGATOR, PartyId
from protocol.transcript import verification
from protocol.transcript.reader import RULES
from protocol.transcript.spoken import Handed, Words
from protocol.transcript.verification import verify
from tests.recorded.forgeries import Forgery, rules
from tests.recorded.runs import written
from tests.recorded.transcripts import HEADER, SESSION, agreed, delivered, envelope, sample, sent

# Takes a sound forgery and breaks it.
Plant = Callable[[Forgery], object]


def set_sent(i: int, field: int, value: object) -> Plant:
    return lambda f: f.sent(i).__setitem__(field, value)


def insert(*entry: object, at: int) -> Plant:
    return lambda f: f.entries.insert(at, list(entry))


PLANTED: dict[str, Plant] = {
    "wrong session": set_sent(0, 0, bytes(16)),
    "oversize body": set_sent(4, 5, bytes(65)),
    "gap": set_sent(4, 3, 5),
    "delivered too early": insert("Delivered", 9, "anna", "aggregator", 1, False, at=0),
    "sent after departing": insert(
        "Sent", 9, [SESSION, "bert", "aggregator", 1, "Report", b"x"], at=13
    ),
    "wrong log": lambda f: f.ending.update(log=bytes(32)),
}


def test_the_sound_forgery_is_what_the_recorder_writes() -> None:
    file, digest = sample().content, sample().digest
    forgery = Forgery()
    assert forgery.digest() == digest
    assert verify(forgery.write(), digest=digest).intact
    assert file == forgery.write()


@pytest.mark.parametrize(
    ("name", "entry"),
    [("wrong session", 0), ("oversize body", 10), ("delivered too early", 0), ("gap", 10)],
)
def test_faults_say_where(name: str, entry: int) -> None:
    forgery = Forgery()
    PLANTED[name](forgery)
    found = verify(forgery.write())
    assert found.faults[0].entry == entry
    assert f"entry {entry}" in str(found.faults[0])


def test_faults_of_one_file_are_all_found() -> None:
    forgery = Forgery()
    for name in ("wrong session", "oversize body", "sent after departing", "wrong log"):
        PLANTED[name](forgery)
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
        forgery.entries.append(copy.deepcopy(forgery.entries[forgery.place("anna", 1)]))
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


def test_every_rule_is_listed() -> None:
    page = Path(__file__).parents[3] / "docs" / "transcript-format.md"
    described = re.findall(r"^\| \d+ +\| `([a-z-]+)`", page.read_text("utf-8"), re.MULTILINE)
    assert tuple(described) == RULES


def test_what_was_handed_on_is_known_by_sender_and_number() -> None:
    words = Words()
    for seq in (0, 1, 2, 9, 7, 1):
        words.put(seq, bytes(32), 1, 1)
    for seq in (0, 9, 5):
        words.hand(seq)
    handed = Handed({"anna": words.handed()})
    assert [seq for seq in range(-1, 12) if ("anna", seq) in handed] == [0, 9]
    assert ("bert", 0) not in handed
    # Who repeats a number that was handed on has not taken that back.
    words.put(0, bytes(32), 1, 1)
    assert words.get(0) == (bytes(32), 1, 1, False)
    assert ("anna", 0) in Handed({"anna": words.handed()})
