"""Privacy: what accountants say of events, and ledgers of runs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import (
    AGGREGATOR,
    RECORD,
    Composed,
    Derived,
    ExactCounts,
    KeepUniform,
    Masked,
    MatrixRandomizer,
    Me,
    Message,
    PartyId,
    Plain,
    PrivacyError,
    PrivacyEvent,
    Public,
    Randomized,
    UnsupportedEventError,
)
from protocol.accounting.accountants import NOTHING, Loss, PureAccountant, total
from protocol.variants import RRIndependent, RRJoint
from tests.protocol.sessions import SURVEY, Turn, Word, answers, charter_of, rehearsed, talk
from tests.recorded.runs import recorded

ONE, TWO, THREE = (PartyId(f"party-{i}") for i in (1, 2, 3))
SMOKES = KeepUniform.with_keep(2, p=0.7)
DRINKS = KeepUniform.with_keep(3, p=0.6)


def judge(event: PrivacyEvent) -> Loss:
    return PureAccountant().judge(event)


def epsilon(size: int, p: float) -> float:
    """``ln(1 + r p / (1 - p))``, written out."""
    return math.log1p(size * p / (1 - p))


def test_nothing_is_told() -> None:
    for event in (Public(), Derived(), Composed(()), Composed((Public(), Derived()))):
        loss = judge(event)
        assert (loss.record, dict(loss.attributes), loss.unbounded) == (0.0, {}, ())


def test_one_randomizer() -> None:
    loss = judge(Randomized(DRINKS, ("drinks",)))
    assert loss.record == pytest.approx(epsilon(3, 0.6), abs=1e-12)
    assert dict(loss.attributes) == {"drinks": loss.record}


def test_attributes_randomized_together_bear_the_whole_cost_each() -> None:
    joint = KeepUniform.with_keep(6, p=0.5)
    loss = judge(Randomized(joint, ("smokes", "drinks")))
    assert loss.record == pytest.approx(epsilon(6, 0.5), abs=1e-12)
    assert dict(loss.attributes) == {"smokes": loss.record, "drinks": loss.record}


def test_a_matrix_with_a_zero_can_rule_an_answer_out() -> None:
    matrix = MatrixRandomizer.from_probabilities([[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])
    loss = judge(Randomized(matrix, ("drinks",)))
    assert loss.record == math.inf
    assert loss.unbounded == ("a report on drinks can rule an answer out",)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (Plain(("smokes",)), "true answers"),
        (ExactCounts(("smokes",)), "exact counts"),
        (Masked(ExactCounts(("smokes",))), "exact counts of smokes"),
    ],
)
def test_what_is_not_private_costs_infinity(event: PrivacyEvent, why: str) -> None:
    loss = judge(Composed((Randomized(DRINKS, ("drinks",)), event)))
    assert loss.record == math.inf
    assert loss.attributes["smokes"] == math.inf
    assert loss.attributes["drinks"] == DRINKS.epsilon
    assert why in loss.unbounded[0]


class Novel(PrivacyEvent, frozen=True):
    """An event that no accountant knows."""


@pytest.mark.parametrize("event", [Novel(), Composed((Public(), Novel()))])
def test_unknown_events_are_refused(event: PrivacyEvent) -> None:
    with pytest.raises(UnsupportedEventError, match="Novel"):
        judge(event)
    assert issubclass(UnsupportedEventError, PrivacyError)


costs = st.floats(0.0, 20.0)
losses = st.lists(
    st.builds(
        lambda a, b: Loss(a + b, {"smokes": a, "drinks": b}),
        costs,
        costs,
    ),
    max_size=8,
)


@settings(deadline=None)
@given(parts=losses)
def test_losses_add_up_in_any_order(parts: list[Loss]) -> None:
    whole = total(parts)
    assert whole.record == math.fsum(p.record for p in parts)
    for name in ("smokes", "drinks"):
        assert whole.attributes.get(name, 0.0) == math.fsum(p.attributes[name] for p in parts)
    assert total(reversed(parts)) == whole
    assert total([NOTHING, *parts, NOTHING]) == whole
    assert whole.record >= max((p.record for p in parts), default=0.0)


def test_the_reasons_add_up_too() -> None:
    plain, counts = judge(Plain(("smokes",))), judge(ExactCounts(("drinks",)))
    whole = total([plain, counts, plain])
    assert whole.unbounded == plain.unbounded + counts.unbounded
    assert whole.record == math.inf


@settings(deadline=None, max_examples=50)
@given(
    sizes=st.lists(st.integers(2, 1000), min_size=1, max_size=8),
    thresholds=st.lists(st.integers(1, 2**64 - 1), min_size=8, max_size=8),
)
def test_a_composition_costs_the_sum(sizes: list[int], thresholds: list[int]) -> None:
    keeps = [KeepUniform(r, t) for r, t in zip(sizes, thresholds, strict=False)]
    event = Composed(tuple(Randomized(k, (f"a{i}",)) for i, k in enumerate(keeps)))
    expected = math.fsum(math.log1p(k.size * k.threshold / (2**64 - k.threshold)) for k in keeps)
    assert judge(event).record == pytest.approx(expected, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.7, 0.95])
@pytest.mark.parametrize("cls", [RRIndependent, RRJoint])
def test_the_ledger_of_a_run(cls: type[RRIndependent | RRJoint], p: float) -> None:
    outcome = recorded(cls.with_keep(SURVEY, p), 5)
    parts = (epsilon(2, p), epsilon(3, p)) if cls is RRIndependent else (epsilon(6, p),)
    for observer in (AGGREGATOR, RECORD):
        ledger = outcome.ledger(observer)
        assert ledger.record_epsilon == pytest.approx(math.fsum(parts), abs=1e-9)
        by_attribute = [ledger.attribute_epsilon[name] for name in SURVEY.names]
        assert by_attribute == pytest.approx(parts * (2 // len(parts)), abs=1e-9)
        assert set(ledger.accounts) == set(outcome.charter.roster.parties)
        assert ledger.unbounded == ()
        (charge,) = ledger.accounts[ONE].trail
        assert (charge.seq, charge.kind) == (0, "Report")
    # A party gets nothing from the others, but what is published tells what everything told.
    others = set(outcome.charter.roster.parties) - {ONE}
    assert set(outcome.ledger(ONE).accounts) == others
    assert outcome.ledger(ONE).record_epsilon == pytest.approx(math.fsum(parts), abs=1e-9)


def test_who_observes_what() -> None:
    async def tell_two(me: Me) -> None:
        if me.id == ONE:
            await me.send(TWO, Turn(0, "x"))
            await me.send(AGGREGATOR, Turn(0, "x"))
            await me.note(Turn(0, "x"))

    async def publish(me: Me) -> Message:
        await me.gather(Turn, (ONE,), round=0)
        return Word("done")

    event = Randomized(SMOKES, ("smokes",))
    charter = charter_of(talk(party=tell_two, aggregator=publish, event=event))
    outcome = rehearsed(charter, {name: answers(SURVEY, 1) for name in charter.roster.parties})
    heard = {o: len(outcome.ledger(o).accounts[ONE].trail) for o in (AGGREGATOR, RECORD, TWO)}
    # The aggregator hosts the switch: it sees what passes between parties, and the record.
    # What the aggregator publishes may tell everybody all that it knows.
    assert heard == {AGGREGATOR: 3, RECORD: 3, TWO: 3}
    assert len(outcome.ledger(THREE).accounts[ONE].trail) == 3
    assert dict(outcome.ledger(ONE).accounts) == {}
    assert outcome.ledger(AGGREGATOR).record_epsilon == pytest.approx(3 * epsilon(2, 0.7))
    assert outcome.ledger(AGGREGATOR).attribute_epsilon["drinks"] == 0.0
