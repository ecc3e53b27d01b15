"""A secure sum with dropouts, sketched to see whether the kernel carries it unchanged."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from protocol.accounting.events import (
    Composed,
    Derived,
    Masked,
    Plain,
    PrivacyEvent,
)
from protocol.errors import QuorumError
from protocol.messages import AGGREGATOR, DONE, Envelope, Message, PartyId
from protocol.session.fates import PASS, Fate, FateRule, Verdict
from protocol.session.roles import Me, Seen
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from protocol.transcript.entries import Sent
from protocol.wire.arrays import Array, ArraySpec
from protocol.wire.codec import Kind, decode_envelope
from tests.protocol.sessions import (
    SURVEY,
    Outcome,
    answers,
    charter_of,
    everywhere,
    holdings_of,
    locally,
)

ONE, TWO, THREE = (PartyId(f"party-{i}") for i in (1, 2, 3))


class Share(Message, frozen=True):
    """One party's share for another."""

    round: int
    values: Array

    def __repr__(self) -> str:
        return f"Share(round={self.round})"


class Partial(Message, frozen=True):
    """The sum of the shares that a party holds."""

    round: int
    values: Array


class Next(Message, frozen=True):
    """What comes after a round: another with these participants, or the end."""

    round: int
    participants: bytes
    done: bool


class Total(Message, frozen=True):
    """The result: exact counts, and over whom."""

    participants: bytes
    counts: Array


class SecureSum(Variant, frozen=True):
    """Counts of the second attribute, by additive shares modulo 2**64 among all participants."""

    name = "sketch-sum"

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        values = ArraySpec(dtype="u8", shape=(self.survey.sizes[1],))
        return (
            Kind(Share, values=values),
            Kind(Partial, values=values),
            Kind(Next, scalar_bytes=64 + parties),
            Kind(Total, counts=values, scalar_bytes=64 + parties),
        )

    async def share_out(
        self, me: Me, values: Array, peers: Sequence[PartyId], *, round_: int
    ) -> Array:
        """A dialogue of its own: deal out shares, add up what comes back."""
        held = values.copy()
        for peer in peers:
            mask = me.stream.words(len(values))
            held -= mask
            await me.send(peer, Share(round_, mask))
        shares = await me.gather(Share, peers, round=round_, within=self.patience)
        for share in shares.values():
            held += share.values
        return held

    async def party(self, me: Me, records: Records) -> None:
        values = records.counts(self.survey.names[1:2]).astype(np.uint64)
        for round_ in itertools.count():
            after = await me.receive(Next, AGGREGATOR, round=round_)
            if after.done:
                return
            participants = me.roster.members_in(after.participants)
            peers = [name for name in participants if name != me.id]
            held = await self.share_out(me, values, peers, round_=round_)
            await me.send(AGGREGATOR, Partial(round_, held))

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Total:
        # The aggregator opens: a party that spoke first might find its peers not yet there.
        participants = tuple(parties)
        for round_ in itertools.count():
            bitmap = me.roster.bitmap(participants)
            await me.broadcast(participants, Next(round_, bitmap, False))
            partials = await me.gather(
                Partial,
                participants,
                round=round_,
                within=self.patience,
                at_least=self.quorum_of(len(parties)),
            )
            if len(partials) == len(participants):
                break
            participants = tuple(partials)
        await me.broadcast(participants, Next(round_ + 1, bitmap, True))
        summed = np.stack([p.values for p in partials.values()]).sum(axis=0, dtype="u8")
        return Total(bitmap, summed)

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        names = self.survey.names[1:2]
        match message:
            case Next() | Total():
                return Derived()
            case Partial():
                return Masked(names)
            case _:
                # In the clear the switch sees every share, and all of them give the answer.
                return Composed((Plain(names),))


def counts_of(outcome: Outcome, records: Records, *, without: Sequence[int] = ()) -> None:
    """The published counts are the exact ones of everybody but some."""
    result = outcome.run.result
    assert isinstance(result, Total)
    present = [i for i in range(len(records)) if i not in without]
    expected = np.bincount(records.codes[present, 1], minlength=3)
    assert result.counts.tolist() == expected.tolist()
    names = outcome.charter.roster.members_in(result.participants)
    assert list(names) == [outcome.charter.roster.parties[i] for i in present]
    assert outcome.follows()


def rule(
    verdict: Fate, *, sender: PartyId, kind: str, recipient: PartyId | None = None
) -> FateRule:
    """A fate for one party's envelopes of a kind."""

    def decide(item: Envelope) -> Fate:
        concerned = (item.sender, item.kind) == (sender, kind)
        return verdict if concerned and recipient in (None, item.recipient) else PASS

    return decide


RECORDS = answers(SURVEY, 6)
SUM = charter_of(SecureSum(survey=SURVEY, quorum=2, patience=60.0), parties=6)
HOLDINGS = holdings_of(SUM, RECORDS)


def rounds(outcome: Outcome) -> int:
    """How many rounds of shares were dealt."""
    envelopes = [decode_envelope(e.envelope) for e in outcome.entries() if isinstance(e, Sent)]
    return len({e.body[1] for e in envelopes if e.kind == "Share"})


def test_a_secure_sum_is_exact() -> None:
    outcome = everywhere(SUM, HOLDINGS)
    counts_of(outcome, RECORDS)
    assert rounds(outcome) == 1
    assert set(outcome.run.endings.values()) == {DONE}


@pytest.mark.parametrize("verdict", [Verdict.CRASH, Verdict.CUT])
@pytest.mark.parametrize(
    ("kind", "recipient"),
    [("Partial", None), ("Share", ONE), ("Share", THREE)],
    ids=["after its shares", "before its shares", "between its shares"],
)
def test_the_survivors_try_again_without_who_has_vanished(
    verdict: Verdict, kind: str, recipient: PartyId | None
) -> None:
    fate = rule(Fate(verdict), sender=TWO, kind=kind, recipient=recipient)
    outcome = everywhere(SUM, HOLDINGS, fate=fate)
    counts_of(outcome, RECORDS, without=[1])
    assert rounds(outcome) == 2
    assert all(end == DONE for name, end in outcome.run.endings.items() if name != TWO)


def test_two_vanish_one_after_the_other() -> None:
    def fate(item: Envelope) -> Fate:
        first = (item.sender, item.kind) == (TWO, "Partial")
        second = (item.sender, item.kind, item.body[1]) == (THREE, "Partial", 1)
        return Fate(Verdict.CRASH) if first or second else PASS

    outcome = everywhere(SUM, HOLDINGS, fate=fate)
    counts_of(outcome, RECORDS, without=[1, 2])
    assert rounds(outcome) == 3


def test_who_is_too_late_is_left_out_and_ends_with_the_session() -> None:
    fate = rule(Fate(delay=100.0), sender=TWO, kind="Partial")
    outcome = everywhere(SUM, HOLDINGS, fate=fate)
    counts_of(outcome, RECORDS, without=[1])
    assert "aggregator" in outcome.run.endings[TWO]


def test_a_lost_share_makes_the_sum_wrong_and_the_sketch_does_not_notice() -> None:
    """What a real secure sum must add: the participants have to agree on whose shares came."""
    fate = rule(Fate(Verdict.DROP), sender=TWO, kind="Share", recipient=ONE)
    outcome = locally(SUM, HOLDINGS, fate=fate)
    assert isinstance(outcome.run.result, Total)
    assert int(outcome.run.result.counts.astype(object).sum()) % 2**64 != 6


def test_too_few_survivors_give_no_sum() -> None:
    def fate(item: Envelope) -> Fate:
        kept = item.sender in (ONE, AGGREGATOR)
        return PASS if kept or item.kind != "Partial" else Fate(Verdict.CRASH)

    with pytest.raises(QuorumError, match="1 of 6"):
        locally(SUM, HOLDINGS, fate=fate)


def test_shares_in_the_clear_are_judged_as_what_they_are() -> None:
    outcome = everywhere(SUM, HOLDINGS)
    ledgers = outcome.ledgers(AGGREGATOR, ONE)
    for observer in (AGGREGATOR, ONE):
        loss = ledgers.ledger(observer).accounts[TWO].loss
        assert loss.record == math.inf
    assert "the true answers to drinks" in ledgers.ledger(AGGREGATOR).unbounded
    assert repr(Share(0, np.ones(3, np.uint64))) == "Share(round=0)"
