"""Cohorts: what is counted of them is what a live run of the same people publishes."""

from __future__ import annotations

from collections.abc import Generator, Iterable

import numpy as np
import pytest
from msgspec.structs import fields, replace

from protocol import (
    AGGREGATOR,
    Attribute,
    CannotTabulateError,
    Estimate,
    Me,
    Message,
    Noise,
    PartyId,
    PrivacyEvent,
    Records,
    Resampled,
    Respondents,
    SecureSum,
    Seen,
    Stage,
    Survey,
    TableLaw,
    Variant,
)
from protocol.accounting.events import FAIR
from protocol.session.tabulation import Totals
from protocol.simulation.populations import cohorts
from protocol.simulation.populations.cohorts import (
    Counted,
    Job,
    cohort_parts,
    count_cohort,
    count_parties,
    respondent_loss,
)
from protocol.simulation.populations.tally import Tally
from protocol.testing.cohorts import (
    check_alike,
    check_cohorts,
    counted_by_law,
    published_live,
)
from protocol.variants import (
    RRBA,
    NumericMean,
    PairCounts,
    PairRR,
    RRIndependent,
    RRIndJoint,
    RRJoint,
    Smp,
    Spl,
)
from protocol.variants.sums.tallies import Tallied
from tests.every_variant import BITS, Example, examples
from tests.recorded.runs import answers
from tests.statistical import ALPHA, WRONG

SEED, COHORT, PART = 4, 120, 50
BY_LAW = [example for example in examples() if example.variant.untabulated == Variant.untabulated]
REFUSED = [example for example in examples() if example.variant.untabulated != Variant.untabulated]


@pytest.mark.parametrize("example", BY_LAW, ids=lambda example: example.name)
def test_counts_are_those_of_a_live_run_of_the_same_people(
    example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cohorts, "PART", PART)
    job, n, cohort = Job(example.variant, Resampled(example.records), SEED), 275, COHORT
    if isinstance(job.variant, RRBA):
        # A live block is of parties, one by law of respondents: here each block is one party.
        n, cohort = 120, PART
        object.__setattr__(job, "variant", replace(job.variant, block=40, mode="blocked"))
    stages, result = counted_by_law(job, people=n, cohort=cohort)
    if isinstance(job.variant, RRBA):
        object.__setattr__(job, "variant", replace(job.variant, mode="sequential"))
    live = published_live(job, stages, cohort=cohort)
    check_alike(result, live)
    assert job.variant.estimate(result).n == job.variant.estimate(live).n
    last = fields(result)[-1].name
    other = replace(result, **{last: getattr(result, last) + 1})
    with pytest.raises(AssertionError, match="is not that of a live run of the same people"):
        check_alike(other, live)


def test_the_contract_counts_cohorts() -> None:
    class Doubled(RRIndependent, frozen=True):
        """Counts everybody twice."""

        def count(self, stage: Stage, parties: Iterable[Respondents]) -> Totals:
            return 2 * super().count(stage, parties)

    check_cohorts(RRIndependent.with_keep(BITS, 0.6), answers(BITS, 5))
    with pytest.raises(AssertionError, match="field 'counts' of the result is not that of a live"):
        check_cohorts(Doubled.with_keep(BITS, 0.6), answers(BITS, 5))
    for example in REFUSED:
        check_cohorts(example.variant, example.records)


@pytest.mark.parametrize("chance", [FAIR, 20_000])
def test_coins_are_those_of_the_parties_of_a_live_run(
    chance: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cohorts, "PART", PART)
    sums = SecureSum(noise=Noise(trials=7, chance=chance))
    variant = PairCounts(survey=BITS, sums=sums)
    check_cohorts(variant, answers(BITS, 9))
    job = Job(variant, Resampled(answers(BITS, 9)), SEED)
    stages, result = counted_by_law(job, people=275, cohort=COHORT)
    check_alike(result, published_live(job, stages, cohort=COHORT))
    # Everybody is one party, or so many are.
    for parties, known in ((None, 275), (40, 40), (0, 0)):
        shares = [count_parties(parties, start, start + 55, 275) for start in range(0, 275, 55)]
        counted = sum(
            job.variant.count(stages[0], cohort_parts(job, stages[0], place, 55, share))
            for place, share in enumerate(shares)
        )
        assert counted[0] == known
        coins = counted[1:5].sum() - 275
        assert 0 <= coins <= 4 * 7 * known
        assert abs(coins - 4 * 7 * known * chance / 2**16) <= 5 * (4 * 7 * known / 4) ** 0.5


def test_what_is_told_in_a_sum_is_no_message_and_is_charged() -> None:
    coins = SecureSum(noise=Noise(trials=7))
    for variant, record in (
        (PairCounts(survey=BITS, sums=coins), np.inf),
        (PairCounts(survey=BITS), np.inf),
        (PairRR.with_keep(BITS, 0.6), PairRR.with_keep(BITS, 0.6).most()),
    ):
        job = Job(variant, Resampled(answers(BITS, 9)), SEED)
        assert respondent_loss(job, next(variant.stages(9))).record == record


@pytest.mark.parametrize("example", REFUSED, ids=lambda example: example.name)
def test_variants_whose_parties_need_each_other_are_refused(example: Example) -> None:
    said = f"variant '{example.variant.name}' cannot be tabulated: its parties "
    with pytest.raises(CannotTabulateError, match=said):
        next(example.variant.stages(100))


def test_some_variants_are_counted_and_some_refused() -> None:
    assert len({e.variant.name for e in BY_LAW}) == 19
    assert {e.variant.name for e in REFUSED} == {"rr-clusters"}


PEOPLE = 300_000
LAW = np.array([4, 1, 2, 3, 1, 5, 2, 2]) / 20


@pytest.mark.parametrize(
    "variant",
    [
        RRIndependent.with_keep(BITS, 0.6),
        RRJoint.with_keep(BITS, 0.6),
        RRIndJoint.with_keep(BITS, 0.6),
        Spl(survey=BITS, epsilon=3.0, oracle="oue"),
        Smp(survey=BITS, epsilon=2.0),
        RRBA(survey=BITS, p=0.5, k=1, mix=0.5, block=100_000),
    ],
    ids=lambda variant: variant.name,
)
def test_estimates_are_those_of_the_law(variant: Variant) -> None:
    job = Job(variant, TableLaw(BITS, LAW), SEED)
    _, result = counted_by_law(job, people=PEOPLE, cohort=100_000)
    estimate = variant.estimate(result)
    assert estimate.n == PEOPLE
    assert most_deviant(estimate, LAW) < QUANTILE
    wrong = LAW.copy()
    wrong[:4] *= WRONG
    assert most_deviant(estimate, wrong / wrong.sum()) > QUANTILE


QUANTILE = 6.5
"""Of a normal law: a deviation beyond it has a probability below ``ALPHA`` for some cells."""


def most_deviant(estimate: Estimate, law: np.ndarray) -> float:
    """The largest deviation of a share from a law, in standard errors."""
    found = []
    for place, name in enumerate(BITS.names):
        table = estimate.table(name)
        others = tuple(axis for axis in range(3) if axis != place)
        errors = table.population_errors
        if errors is None:
            errors = table.standard_errors
        assert errors is not None
        found += (np.abs(table.values - law.reshape(2, 2, 2).sum(axis=others)) / errors).tolist()
    return max(found)


def test_the_quantile_is_that_of_the_level() -> None:
    from scipy import stats

    assert 6 * 2 * stats.norm.sf(QUANTILE) < ALPHA < 6 * 2 * stats.norm.sf(QUANTILE - 0.5)


def test_means_are_those_of_the_law() -> None:
    survey = Survey("n", (Attribute(name="a", categories=("0", "1", "2", "3", "4")),))
    variant = NumericMean(survey=survey, epsilon=1.0)
    job = Job(variant, TableLaw(survey, [0.1, 0.2, 0.3, 0.3, 0.1]), SEED)
    _, result = counted_by_law(job, people=PEOPLE, cohort=100_000)
    mean = variant.estimate(result).attribute_means()["a"]
    assert mean.standard_error is not None
    assert abs(mean.value - 2.1) < QUANTILE * mean.standard_error
    assert abs(mean.value - 2.1 * WRONG) > QUANTILE * mean.standard_error


def test_counts_may_exceed_their_type_on_the_wire() -> None:
    for example in BY_LAW:
        variant = example.variant
        # RRBA asks blocks of people; of sums, as many parties as there are people cannot be.
        if isinstance(variant, RRBA | Tallied):
            continue
        job = Job(variant, Resampled(example.records), SEED)
        asking = job.variant.stages(100)
        stage = next(asking)
        counts = job.variant.count(stage, cohort_parts(job, stage, 0, 100))
        result = None
        while result is None:
            try:
                asking.send(counts * 10**10)
            except StopIteration as end:
                result = end.value
        assert variant.estimate(result).n == 10**12, example.name


@pytest.mark.parametrize("noise", [None, Noise(trials=3)])
def test_ten_thousand_million_people_of_ten_parties_are_summed(noise: Noise | None) -> None:
    variant = PairCounts(survey=BITS, sums=SecureSum(noise=noise))
    job, people, parties = Job(variant, Resampled(answers(BITS, 9)), SEED), 10**10, 10
    asking = job.variant.stages(people)
    counts = job.variant.count(next(asking), cohort_parts(job, Stage(None, 100), 0, 100, parties))
    counts[1:] += np.where(np.arange(12) % 4, 0, people - 100)
    with pytest.raises(StopIteration) as end:
        asking.send(counts)
    assert variant.estimate(end.value.value).n == people


def test_a_sum_that_cannot_be_is_refused() -> None:
    variant = PairCounts(survey=BITS)
    for parties, says in (
        (1, "parties 1: expected"),
        (2, "2 parties"),
        (10**8, f"{10**8} parties"),
    ):
        asking = variant.stages(10**9)
        next(asking)
        with pytest.raises(CannotTabulateError, match=says):
            asking.send(np.array([parties, *[0] * 12]))


def test_rounds_ask_the_same_people_and_blocks_others() -> None:
    job = Job(RRIndependent.with_keep(BITS, 0.5), TableLaw(BITS, LAW), SEED)

    def people(stage: Stage, cohort: int = 0) -> np.ndarray:
        [party] = cohort_parts(job, stage, cohort, 1000)
        return party.records.codes

    first = people(Stage("a", 1000))
    assert np.array_equal(first, people(Stage("b", 1000)))
    assert not np.array_equal(first, people(Stage("a", 1000, group=1)))
    assert not np.array_equal(first, people(Stage("a", 1000), cohort=1))


def test_no_two_parts_have_the_same_people_or_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cohorts, "PART", PART)
    job = Job(RRIndependent.with_keep(BITS, 0.5), TableLaw(BITS, LAW), SEED)
    parts = [
        part
        for group in range(2)
        for cohort in range(2)
        for part in cohort_parts(job, Stage("a", 1000, group=group), cohort, 3 * PART)
    ]
    assert len(parts) == 12
    for alike in (
        {part.me.id for part in parts},
        {part.records.codes.tobytes() for part in parts},
        {part.me.stream.bytes(32) for part in parts},
    ):
        assert len(alike) == len(parts)


def test_what_people_tell_is_what_the_ledger_says() -> None:
    for example in BY_LAW:
        job = Job(example.variant, Resampled(example.records), SEED)
        parties = 6 if isinstance(job.variant, Tallied) else 2
        stages, _ = counted_by_law(job, people=6, cohort=6 // parties)
        found = max(respondent_loss(job, stage).record for stage in stages)
        assert 0 < found <= example.variant.most() * (1 + 1e-12), example.name
        if not isinstance(example.variant, RRBA | RRIndependent):
            assert found == pytest.approx(example.variant.most()), example.name


def test_people_who_are_not_judged_may_have_been_asked_what_costs_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for example in BY_LAW:
        job = Job(example.variant, Resampled(example.records), SEED)
        stage = next(job.variant.stages(500))
        whole = respondent_loss(job, stage)
        monkeypatch.setattr(cohorts, "JUDGED", 8)
        some = respondent_loss(job, stage)
        monkeypatch.undo()
        assert some.record >= whole.record, example.name
        assert all(some.attributes.get(n, 0.0) >= e for n, e in whole.attributes.items()), (
            example.name
        )


def test_what_nobody_can_judge_is_taken_for_the_answers() -> None:
    class Odd(RRIndependent, frozen=True):
        def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
            raise KeyError("never thought of it")

    job = Job(Odd.with_keep(BITS, 0.5), TableLaw(BITS, LAW), SEED)
    loss = respondent_loss(job, next(job.variant.stages(10)))
    assert loss.unbounded == (f"the true answers to {', '.join(BITS.names)}",)


@pytest.mark.parametrize(
    "counts",
    [
        np.arange(10),
        np.zeros(3, np.int64),
        np.zeros(0, np.int64),
        np.array([2**40, 0, 3]),
        np.where(np.arange(5000) % 7 == 3, np.arange(5000), 0),
        np.where(np.arange(5000) % 7 == 3, 0, np.arange(5000)),
        np.where(np.arange(5000) == 3, 2**33, 0),
    ],
    ids=len,
)
def test_counts_are_packed_and_added(counts: np.ndarray) -> None:
    packed = Counted.of(counts.astype(np.int64))
    assert packed == Counted.of(counts.astype(np.int64))
    totals = np.ones(len(counts), np.int64)
    packed.add_to(totals)
    packed.add_to(totals)
    assert np.array_equal(totals, 1 + 2 * counts)
    leaf = packed.leaf(stage=1, cohort=2, k=3)
    assert leaf != packed.leaf(stage=2, cohort=1, k=3)
    assert leaf != packed.leaf(stage=1, cohort=2, k=4)
    if counts.any():
        assert leaf != Counted.of(2 * counts.astype(np.int64)).leaf(stage=1, cohort=2, k=3)
    with pytest.raises(ValueError, match="expected"):
        packed.add_to(np.zeros(len(counts) + 1, np.int64))
    with pytest.raises(ValueError, match="negative"):
        Counted.of(np.array([-1]))


def test_few_counts_of_many_take_little_room() -> None:
    counts = np.zeros(10**6, np.int64)
    counts[::1000] = 200
    assert len(Counted.of(counts).packed) < 6000


def test_a_cohort_is_added_once() -> None:
    tally = Tally(0, people=250, cohort=100)
    assert len(tally) == 3
    assert [tally.cohort_size(cohort) for cohort in range(3)] == [100, 100, 50]
    one = Counted.of(np.array([1, 2]))
    tally.add(2, one)
    assert (tally.people, list(tally.missing())) == (50, [0, 1])
    for cohort in (2, 3, -1):
        with pytest.raises(ValueError, match="not added yet"):
            tally.add(cohort, one)
    again = Tally(0, people=250, cohort=100)
    again.restore(*tally.state())
    assert list(again.missing()) == [0, 1]
    for each in (tally, again):
        each.add(0, one)
        each.add(1, one)
        assert each.added == len(each)
        assert (each.people, each.totals.tolist()) == (250, [3, 6])
    assert list(tally.leaves()) == list(again.leaves())
    assert len(set(tally.leaves())) == 3


@pytest.mark.parametrize(
    "state",
    [
        (b"", b"", b""),
        (b"\x80", bytes(95), bytes(16)),
        (b"\x90", bytes(96), bytes(16)),
        (b"\x80", bytes(96), bytes(15)),
        (b"\x80", bytes(96), b""),
        (b"\x00", bytes(96), bytes(16)),
    ],
)
def test_a_state_of_something_else_is_refused(state: tuple[bytes, bytes, bytes]) -> None:
    with pytest.raises(ValueError, match="state"):
        Tally(0, people=250, cohort=100).restore(*state)


class Chatty(RRIndependent, frozen=True):
    """Its parties wait for each other."""

    name = "chatty"

    async def party(self, me: Me, records: Records) -> None:
        await me.gather(self.messages[1], (PartyId("party-1"),))


class Silent(RRIndependent, frozen=True):
    """Its parties hear the question and say nothing."""

    name = "silent"

    async def party(self, me: Me, records: Records) -> None:
        await me.receive(self.messages[0], AGGREGATOR)


class Twice(RRIndependent, frozen=True):
    """Its parties answer twice."""

    name = "twice"

    async def party(self, me: Me, records: Records) -> None:
        await super().party(me, records)
        await me.send(AGGREGATOR, self.answer(records, self.question(), me.stream))


class Gossip(RRIndependent, frozen=True):
    """Its parties tell each other."""

    name = "gossip"

    async def party(self, me: Me, records: Records) -> None:
        question = await me.receive(self.messages[0], AGGREGATOR)
        await me.send(PartyId("party-1"), question)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Chatty, "its party waits for others than the aggregator"),
        (Silent, "its party answers 'Ask' with nothing, not one 'Report'"),
        (Twice, "its party answers 'Ask' with Report, Report, not one 'Report'"),
        (Gossip, "its party speaks to others than the aggregator"),
    ],
)
def test_roles_that_do_not_answer_by_themselves_are_refused(
    kind: type[RRIndependent], said: str
) -> None:
    job = Job(kind.with_keep(BITS, 0.5), Resampled(answers(BITS, 5)), SEED)
    asking: Generator[Stage, Totals, Message] = job.variant.stages(10)
    with pytest.raises(CannotTabulateError, match=f"variant '{kind.name}' .*: {said}"):
        count_cohort(job, next(asking), 0, 10)
