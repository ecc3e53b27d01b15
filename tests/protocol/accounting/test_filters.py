"""Filters: what exceeds a budget is refused before it is told."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.accounting.composition import exact_epsilon
from protocol.accounting.dominating import dominating
from protocol.accounting.events import Composed, OneOf, Plain, PrivacyEvent, Public, Randomized
from protocol.accounting.filters import Filter
from protocol.accounting.losses import ThreePoint
from protocol.errors import PrivacyError, UnsupportedEventError
from protocol.randomizers import KeepUniform


def keep(size: int, epsilon: float) -> Randomized:
    return Randomized(KeepUniform.with_epsilon(size, epsilon=epsilon), ("a",))


def pair_of(event: Randomized) -> ThreePoint:
    (pair,) = dominating(event.randomizer).pairs or ()
    return pair


def test_a_pure_budget() -> None:
    budget = Filter(1.0)
    event = keep(5, 0.3)
    assert budget.times(event) == 3
    for spent in range(3):
        assert budget.left == pytest.approx(1 - 0.3 * spent)
        budget.spend(event)
    assert not budget.affords(event)
    with pytest.raises(PrivacyError, match=r"costs 30\.000% .* epsilon 1 .* 10\.000% is left"):
        budget.spend(event)
    # A refusal costs nothing, and what still fits may be told.
    assert budget.left == pytest.approx(0.1)
    budget.spend(keep(5, 0.09))
    assert repr(budget) == "Filter(1, delta=0, left=0.01)"


def test_it_is_full_to_the_brim() -> None:
    event = keep(2, 0.1)
    budget = Filter(math.fsum([event.randomizer.epsilon] * 10))
    for _ in range(10):
        budget.spend(event)
    assert budget.times(event) == 0
    assert budget.left == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_what_nothing_protects_never_fits(delta: float) -> None:
    budget = Filter(1e6, delta=delta)
    for event in (Plain(("a",)), OneOf((Public(), Plain(("a",))))):
        with pytest.raises(PrivacyError, match="left"):
            budget.spend(event)
        assert budget.times(event) == 0
    budget.spend(Public())
    assert budget.left == 1.0
    assert budget.times(Public()) == math.inf


class Novel(PrivacyEvent, frozen=True):
    """An event that no accountant knows."""


def test_unknown_events_are_refused() -> None:
    with pytest.raises(UnsupportedEventError, match="Novel"):
        Filter(1.0).spend(Novel())


def test_the_worst_alternative_and_all_parts_count() -> None:
    for delta in (0.0, 1e-5):
        small, large = keep(9, 0.1), keep(9, 0.4)
        costs = []
        for event in (small, large, OneOf((small, large)), Composed((small, large))):
            budget = Filter(5.0, delta=delta)
            budget.spend(event)
            costs.append(1 - budget.left)
        assert costs[2] == costs[1]
        assert costs[3] == pytest.approx(costs[0] + costs[1])


@pytest.mark.parametrize("order", [1.01, 2.0, 5.5, 40.0, 3000.0])
@pytest.mark.parametrize(("size", "epsilon"), [(2, 0.2), (2, 3.0), (16, 1.0), (100, 0.05)])
def test_renyi_divergences(size: int, epsilon: float, order: float) -> None:
    """By the definition, of the laws of two answers."""
    randomizer = KeepUniform.with_epsilon(size, epsilon=epsilon)
    p, q = np.log(randomizer.matrix()[:2])
    expected = float(np.logaddexp.reduce(order * p + (1 - order) * q)) / (order - 1)
    found = pair_of(keep(size, epsilon)).renyi(order)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert found <= randomizer.epsilon * (1 + 1e-12)


@settings(deadline=None, max_examples=40)
@given(
    epsilon=st.floats(0.3, 20.0),
    delta=st.floats(1e-12, 1e-2),
    asked=st.lists(
        st.tuples(st.integers(2, 40), st.floats(0.01, 2.0), st.integers(1, 300)), max_size=6
    ),
)
def test_what_was_told_stays_within_the_budget(
    epsilon: float, delta: float, asked: list[tuple[int, float, int]]
) -> None:
    """The settled composition of what a filter let through never exceeds it."""
    budget = Filter(epsilon, delta=delta)
    told: list[PrivacyEvent] = []
    for size, each, times in asked:
        event = keep(size, each)
        allowed = int(min(times, budget.times(event)))
        for _ in range(allowed):
            if budget.affords(event):
                budget.spend(event)
                told.append(event)
    assert exact_epsilon(told, delta).epsilon <= epsilon * (1 + 1e-9)
    assert 0 <= budget.left <= 1


def test_a_delta_pays_for_many_small_draws() -> None:
    event = keep(16, 0.1)
    assert Filter(10.0, delta=1e-6).times(event) > 20 * Filter(10.0).times(event)
    budget = Filter(10.0, delta=1e-6)
    times = int(budget.times(event))
    for _ in range(times):
        budget.spend(event)
    with pytest.raises(PrivacyError, match=r"at delta 1e-06; 0\.0"):
        budget.spend(event)
    # And is not wasteful: what was told is nearly the whole budget.
    assert exact_epsilon([event] * times, 1e-6).epsilon > 9.0


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(-1.0, 0.0), (math.nan, 0.0), (math.inf, 0.0), (1.0, 1.0), (1.0, -0.1)]
)
def test_bad_budgets(epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match=r"budget|delta"):
        Filter(epsilon, delta=delta)


def test_no_budget() -> None:
    for delta in (0.0, 1e-6):
        budget = Filter(0.0, delta=delta)
        assert budget.left == 0.0
        assert not budget.affords(keep(2, 0.01))
        budget.spend(Public())
        with pytest.raises(PrivacyError):
            budget.spend(keep(2, 0.01))
