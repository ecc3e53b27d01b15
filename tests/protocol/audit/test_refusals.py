"""Refusals: nothing but a head may follow one, on a link, in a count and in a replay."""

from __future__ import annotations

import pytest

from protocol import AGGREGATOR, RECORD, PartyId, Plain, PrivacyEvent, RemoteProtocolError, Seen
from protocol.accounting.accountants import PureAccountant
from protocol.audit.completeness import CompletenessWriter
from protocol.audit.disclosure import disclosed_by_seed
from protocol.audit.ledger import LedgerWriter
from protocol.audit.walk import steps
from protocol.messages import Declined, Envelope
from protocol.session.exchange import Exchange
from protocol.simulation.setting import make_setting
from protocol.transcript.entries import Delivered, Entry, Sent
from protocol.variants import RRIndependent
from protocol.wire.codec import decode_envelope, encode_envelope
from tests.protocol.sessions import SURVEY, answers, charter_of, envelope
from tests.recorded.runs import recorded, replay_member
from tests.recorded.signed import finished_run

ONE, TWO = PartyId("party-1"), PartyId("party-2")
VARIANT = RRIndependent.with_keep(SURVEY, 0.6)


@pytest.mark.parametrize("to", [RECORD, TWO])
def test_a_refusal_is_for_the_aggregator(to: PartyId) -> None:
    charter = charter_of(VARIANT)
    exchange = Exchange(charter)
    exchange.attach(ONE)
    with pytest.raises(RemoteProtocolError, match="a refusal is sent to the aggregator"):
        exchange.accept(ONE, [envelope(charter, ONE, 0, Declined("terms"), to=to)], now=0.0)


def test_nothing_comes_after_a_refusal() -> None:
    charter = charter_of(VARIANT)
    exchange = Exchange(charter)
    exchange.attach(ONE)
    exchange.accept(ONE, [envelope(charter, ONE, 0, Declined("terms"))], now=0.0)
    with pytest.raises(RemoteProtocolError, match="an envelope other than a head after a refusal"):
        exchange.accept(ONE, [envelope(charter, ONE, 1, Declined("terms"))], now=0.0)


def refusing_first(entries: list[Entry], charter: object, *, to: PartyId) -> list[Entry]:
    """The same record, but party-1 declines before it says what it said."""
    found: list[Entry] = []
    for entry in entries:
        if isinstance(entry, Sent):
            item = decode_envelope(entry.envelope)
            if item.sender == ONE:
                if item.seq == 0:
                    refusal = envelope(charter, ONE, 0, Declined("terms"), to=to)
                    found.append(Sent(at=entry.at, envelope=encode_envelope(refusal)))
                later = Envelope(
                    item.session, ONE, item.recipient, item.seq + 1, item.kind, item.body
                )
                found.append(Sent(at=entry.at, envelope=encode_envelope(later)))
                continue
        if isinstance(entry, Delivered) and entry.sender == ONE:
            entry = Delivered(
                at=entry.at, sender=ONE, recipient=entry.recipient, seq=entry.seq + 1, repeat=False
            )
        found.append(entry)
    return found


@pytest.mark.parametrize("to", [AGGREGATOR, RECORD, TWO])
def test_who_declines_and_goes_on_is_found(to: PartyId) -> None:
    records = answers(SURVEY, 5)
    setting = make_setting(VARIANT, records, seed=1)
    charter = setting.charter
    entries = refusing_first(finished_run(setting).entries, charter, to=to)
    known = next(d for d in disclosed_by_seed(charter, 1, records) if d.member == ONE)
    replay = replay_member(charter, known, entries)
    assert replay.follows is False
    writer = CompletenessWriter(charter)
    for step in steps(charter.codec, entries):
        writer.add(step)
    (closing,) = writer.completeness().closings
    assert closing.unheard == (ONE,)


def test_a_variant_that_cannot_judge_what_is_on_record() -> None:
    class Puzzled(RRIndependent, frozen=True):
        """Breaks on what it has not reckoned with."""

        name = "puzzled"

        def reveals(self, message: object, seen: Seen) -> PrivacyEvent:
            raise IndexError("no such place")

    outcome = recorded(VARIANT, 3)
    puzzled = charter_of(Puzzled.with_keep(SURVEY, 0.6))
    writer = LedgerWriter(puzzled)
    for step in steps(puzzled.codec, outcome.entries):
        writer.add(step)
    account = writer.ledger(AGGREGATOR).unsigned[ONE]
    assert account.trail[0].event == Plain(SURVEY.names)
    assert account.loss == PureAccountant().judge(Plain(SURVEY.names))
    assert any("what it reveals is unknown (IndexError)" in text for text in writer.malformed)
