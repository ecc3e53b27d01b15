"""Fault schedules: what they do, the project's variants under them, planted faults found."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    Me,
    Message,
    PartyId,
    PrivacyEvent,
    ProtocolError,
    Public,
    Records,
    Seen,
    Variant,
)
from protocol.messages import Envelope
from protocol.session.fates import Verdict
from protocol.testing import Schedule, check_under_faults, make_schedules, under_faults
from protocol.variants import BUILT_IN, RRIndependent
from protocol.variants.reports.reports import Ask, Pooled, Report, randomized
from scenarios.cli.example_variants import example
from tests.protocol.leaks import TWO, AskedTwice, some
from tests.scenarios.own_variants import RollCall
from tests.tiers import slow, thinned

RECORDS = some(TWO, 8)


def envelopes(n: int = 2000) -> list[Envelope]:
    parties = [AGGREGATOR, *(PartyId(f"party-{i}") for i in range(1, 201))]
    return [
        Envelope(bytes(16), parties[i % 201], AGGREGATOR, i // 201, "Report", b"") for i in range(n)
    ]


def test_a_schedule_deals_out_its_shares() -> None:
    fates = Counter(Schedule(seed=1, drop=0.1, duplicate=0.3)(e).verdict for e in envelopes())
    assert fates[Verdict.DROP] == pytest.approx(200, abs=60)
    assert fates[Verdict.DUPLICATE] == pytest.approx(600, abs=100)
    late = [Schedule(seed=1, delay=0.5, late=8.0)(e).delay for e in envelopes()]
    assert np.mean(np.array(late) > 0) == pytest.approx(0.5, abs=0.05)
    assert 7.0 < max(late) <= 8.0


def test_parties_crash_once_and_the_aggregator_never() -> None:
    schedule = Schedule(seed=3, crash=0.5, cut=0.5)
    doomed = [e for e in envelopes() if schedule(e).verdict in (Verdict.CRASH, Verdict.CUT)]
    assert len(doomed) == len({e.sender for e in doomed}) == 200
    assert AGGREGATOR not in {e.sender for e in doomed}
    assert len({e.seq for e in doomed}) > 1


def test_a_decision_depends_on_seed_and_envelope_alone() -> None:
    schedule, again = Schedule(seed=5, drop=0.5), Schedule(seed=5, drop=0.5)
    assert [schedule(e) for e in envelopes()] == [again(e) for e in reversed(envelopes())][::-1]
    other = Schedule(seed=6, drop=0.5)
    assert [schedule(e) for e in envelopes()] != [other(e) for e in envelopes()]
    assert str(schedule) == "schedule 5 (drop 0.5)"
    assert str(Schedule(seed=7)) == "schedule 7 (no faults)"


@pytest.mark.slow
def test_a_patient_variant_loses_no_single_envelope() -> None:
    patient = msgspec.structs.replace(RRIndependent.with_keep(TWO, 0.5), patience=None)
    assert all(s.drop == 0 for s in make_schedules(patient, 40, seed=1))
    assert any(s.drop for s in make_schedules(RRIndependent.with_keep(TWO, 0.5), 40, seed=1))
    check_under_faults(patient, RECORDS)


@pytest.mark.parametrize(
    ("name", "schedules"),
    [*thinned(itertools.product(BUILT_IN, [2]), 10), *map(slow, BUILT_IN, itertools.repeat(12))],
)
def test_the_projects_variants_hold(name: str, schedules: int) -> None:
    variant, records = example(BUILT_IN[name], {})
    twice = Records(records.survey, np.tile(records.codes, (2, 1)))
    check_under_faults(variant, twice, schedules=schedules)


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize("seed", [100, 200, 300])
def test_the_projects_variants_hold_under_many_schedules(name: str, seed: int) -> None:
    variant, records = example(BUILT_IN[name], {})
    twice = Records(records.survey, np.tile(records.codes, (2, 1)))
    check_under_faults(variant, twice, schedules=60, seed=seed)


test_in_one_line = under_faults(RollCall.with_keep(TWO, 0.6), RECORDS)
test_cohorts = under_faults(AskedTwice.with_keep(TWO, 0.6), RECORDS, parties=4)


def broken(variant: Variant, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check_under_faults(variant, RECORDS)


class Base(RRIndependent, frozen=True):
    """What the violations change a part of."""

    name = "violated"


def test_a_wait_without_an_end() -> None:
    class Endless(Base, frozen=True):
        async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Pooled:
            await me.broadcast(parties, Ask(self.survey.digest, self.blocks))
            await me.gather(Report, parties)
            raise ProtocolError("nothing to say")

    broken(Endless.with_keep(TWO, 0.5), r"\(drop .*all members wait for each other.*says `within`")


@pytest.mark.slow
def test_a_role_that_counts_on_everybody() -> None:
    class Trusting(Base, frozen=True):
        async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Pooled:
            await me.broadcast(parties, Ask(self.survey.digest, self.blocks))
            reports = await me.gather(Report, parties, within=self.patience)
            codes = np.concatenate([reports[party].codes for party in parties])
            unique, counts = np.unique(codes, axis=0, return_counts=True)
            return Pooled(unique, counts.astype(np.uint32))

    broken(Trusting.with_keep(TWO, 0.5), "the aggregator's role fails under faults: .*KeyError")


@pytest.mark.slow
def test_a_party_that_counts_on_the_aggregator() -> None:
    class Clinging(Base, frozen=True):
        async def party(self, me: Me, records: Records) -> None:
            try:
                ask = await me.receive(Ask, AGGREGATOR, within=5.0)
            except ProtocolError as error:
                raise KeyError("what now?") from error
            await me.send(AGGREGATOR, Report(randomized(records, self.blocks, me.stream_for(ask))))

    broken(Clinging.with_keep(TWO, 0.5), r"party-\d fails under faults: .*KeyError")


@pytest.mark.slow
def test_a_result_that_nobody_can_read() -> None:
    class Emptied(Base, frozen=True):
        async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Pooled:
            pooled = await super().aggregator(me, parties)
            if pooled.counts.sum() == len(parties):
                return pooled
            return Pooled(pooled.codes, pooled.counts[:1])

    broken(Emptied.with_keep(TWO, 0.5), "the result: ")


@pytest.mark.slow
def test_a_result_that_does_not_follow() -> None:
    drawn: list[int] = []

    class Moody(Base, frozen=True):
        async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Pooled:
            pooled = await super().aggregator(me, parties)
            drawn.append(1)
            counts = pooled.counts.copy()
            counts[0] += len(drawn) % 2
            return Pooled(pooled.codes, counts)

    broken(Moody.with_keep(TWO, 0.5), "the audit does not accept the record")


def test_an_event_that_no_accountant_knows() -> None:
    class Whim(PrivacyEvent, frozen=True):
        pass

    class Whimsical(Base, frozen=True):
        def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
            return Whim() if isinstance(message, Pooled) else Public()

    broken(Whimsical.with_keep(TWO, 0.5), "does not know 'Whim'")
