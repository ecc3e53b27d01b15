"""A survey of more members than one closing is about: who was counted is said in ranges."""

from __future__ import annotations

import functools
from collections.abc import Callable

import msgspec
import pytest

from parties.keeping.packing import Packer, Unpacked
from protocol import AGGREGATOR, PartyId
from protocol.audit import audit as judging
from protocol.audit.audit import audit
from protocol.audit.completeness import Completeness, CompletenessWriter
from protocol.audit.disclosure import Disclosure
from protocol.audit.proofs.making_receipts import prove
from protocol.audit.walk import steps
from protocol.surveys.limits import FREE_BYTES, Held
from protocol.transcript.entries import Entry, Sent
from protocol.transcript.receipts import Counted, encode_receipt, receipt_problems
from protocol.variants import RRIndependent
from protocol.wire.codec import decode_envelope, encode_envelope
from scenarios.surveys.watching.rounds import split_rounds
from tests.recorded.runs import Run, replay_member
from tests.recorded.signed import finished_run, setting

PARTIES = 4100
EARLY, LATE = PartyId("party-0007"), PartyId("party-4099")
Change = Callable[[list[Entry]], list[Entry]]


@pytest.fixture(scope="module")
def run() -> Run:
    return finished_run(setting(parties=PARTIES))


def closings(entries: list[Entry]) -> list[int]:
    """Where the ranges of the closing stand."""
    return [
        i
        for i, entry in enumerate(entries)
        if isinstance(entry, Sent) and decode_envelope(entry.envelope).kind == "Closed"
    ]


def completeness(run: Run, entries: list[Entry]) -> Completeness:
    writer = CompletenessWriter(run.charter)
    for step in steps(run.charter.codec, entries):
        writer.add(step)
    return writer.completeness()


@pytest.mark.slow
def test_a_closing_in_ranges_is_one_closing(run: Run) -> None:
    assert [(c.first, len(c.counted)) for c in run.messages("Closed")] == [(0, 512), (4096, 1)]
    found = completeness(run, run.entries)
    [closing] = found.closings
    assert (closing.awaited, closing.counted, found.counted) == (PARTIES, PARTIES, PARTIES)
    assert run.follows()
    first, _ = split_rounds(run.charter.roster, run.entries)
    assert first.notes[-1] == "closed: Report of 4,100 of 4,100 parties counted"


def left_out(which: int) -> Change:
    def change(entries: list[Entry]) -> list[Entry]:
        gone = closings(entries)[which]
        return [entry for i, entry in enumerate(entries) if i != gone]

    return change


def swapped(entries: list[Entry]) -> list[Entry]:
    first, second = closings(entries)
    entries[first], entries[second] = entries[second], entries[first]
    return entries


def nobody_in_the_second(entries: list[Entry]) -> list[Entry]:
    _, place = closings(entries)
    entry = entries[place]
    assert isinstance(entry, Sent)
    envelope = decode_envelope(entry.envelope)
    values = msgspec.msgpack.decode(envelope.body)
    body = msgspec.msgpack.encode([*values[:-1], b"\0"])
    changed = msgspec.structs.replace(envelope, body=body)
    entries[place] = msgspec.structs.replace(entry, envelope=encode_envelope(changed))
    return entries


@pytest.mark.parametrize(
    ("change", "counted", "says"),
    [
        (left_out(0), 0, "closing of 'Report': closing from place 8 on: expected place 0"),
        (left_out(1), 0, "closing of 'Report': not all of its ranges are on record"),
        (swapped, 0, "closing of 'Report': closing from place 8 on: expected place 0"),
        (nobody_in_the_second, 7, "the record has another 'Pooled'"),
    ],
)
def test_ranges_that_do_not_follow_are_found(
    change: Change, counted: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In ranges of eight places each."""
    monkeypatch.setattr("protocol.session.closings.CLOSING_MEMBERS", 8)
    monkeypatch.setattr("protocol.session.closings._BYTES", 1)
    run = finished_run(setting(parties=9))
    entries = change(list(run.entries))
    assert completeness(run, entries).counted == counted
    replay = replay_member(run.charter, Disclosure(member=AGGREGATOR), entries)
    assert replay.follows is False
    assert says in str(replay.differences[0])


@pytest.mark.slow
def test_a_receipt_shows_the_range_of_its_party(run: Run) -> None:
    found = [prove(lambda: (run.content,), RRIndependent, party)[0] for party in (EARLY, LATE)]
    for receipt in found:
        assert receipt_problems(receipt, run.checkpoint) == ()
    (early,), (late,) = (receipt.counted for receipt in found)
    assert early.closing.index != late.closing.index
    assert early.topic == late.topic
    for receipt, own, others in ((found[0], early, late), (found[1], late, early)):
        forged = msgspec.structs.replace(
            receipt, counted=(Counted(own.report, others.closing, own.path),)
        )
        assert receipt_problems(forged, run.checkpoint) == ("a report was not counted",)


@pytest.mark.slow
def test_a_receipt_of_32_561_parties_has_at_most_4_kb() -> None:
    run = finished_run(setting(parties=32_561))
    for party in ("party-00001", "party-20000"):
        receipt, checkpoint = prove(lambda: (run.content,), RRIndependent, PartyId(party))
        assert receipt_problems(receipt, checkpoint) == ()
        assert receipt.head is not None
        assert len(encode_receipt(receipt)) <= 4000


@pytest.mark.slow
def test_there_is_room_for_a_million_who_are_all_asked_at_once(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So much is free for as many of a million.
    free = FREE_BYTES * PARTIES // 1_000_000
    file = Packer().pack(run.content)
    monkeypatch.setattr(judging, "Held", functools.partial(Held, free=free))
    assert audit(lambda: Unpacked(file), RRIndependent).verdict == "sound"
    monkeypatch.setattr(judging, "Held", functools.partial(Held, free=free // 4))
    assert "could not finish" in audit(lambda: Unpacked(file), RRIndependent).findings[0].text
