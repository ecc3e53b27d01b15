"""RRBA at equal true epsilon: keep probabilities, expected errors, and what is found."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import KeepElseTable
from protocol.crypto.randomness import WORDS
from protocol.variants import RRBA
from scenarios.papers.laws import expected_inverse
from scenarios.papers.rrba import honest as rrba_honest
from scenarios.papers.rrba.accuracy import choose_tables
from scenarios.papers.rrba.honest import (
    EXTENTS,
    errors_of_groups,
    expected_of_groups,
    plan_groups,
)
from scenarios.papers.rrba.shared import (
    Blocks,
    expected_squared_error,
    keep_at,
    mixed,
    true_epsilon,
)
from tests.enumeration import survey_of
from tests.statistical import ALPHA, WRONG, mean_p_value

SKEWED = np.array([0.8, 0.1, 0.04, 0.03, 0.02, 0.01])


# Costs


@settings(deadline=None, max_examples=50)
@given(st.floats(0.05, 6), st.integers(2, 40), st.floats(0.01, 1))
def test_the_keep_probability_is_the_variant_s_at_that_epsilon(
    epsilon: float, size: int, mix: float
) -> None:
    p = keep_at(epsilon, size, mix=mix)
    assert true_epsilon(p, size, mix=mix) == pytest.approx(epsilon)
    plan = RRBA(survey=survey_of(size), k=1, epsilon=epsilon, mix=mix).plan
    assert plan.thresholds[0] / WORDS == pytest.approx(p, rel=1e-9)


def test_the_true_epsilon_is_that_of_the_worst_table_of_a_mix() -> None:
    worst = KeepElseTable.with_table(p=0.4, table=[1, 0, 0, 0, 0], mix=0.1)
    assert true_epsilon(0.4, 5, mix=0.1) == pytest.approx(worst.epsilon)


# Tables of fakes


@pytest.mark.parametrize("mix", [1.0, 0.2])
def test_the_expected_error_is_exact(mix: float) -> None:
    """Given the tables that were used, also of a last block that is not full."""
    parameters, draws = Blocks(n=170, block=50), np.random.default_rng(1)
    found, expected = rrba_honest.errors_of_mix(SKEWED, 0.4, mix, parameters, draws, runs=12_000)
    assert mean_p_value(found - expected, 0.0) > ALPHA
    assert mean_p_value(found - WRONG * expected, 0.0) < ALPHA
    if mix == 1.0:
        best = expected_squared_error(SKEWED, mixed(SKEWED, 1.0), 0.4, 170)
        assert expected == pytest.approx(np.full(12_000, best))
        reported = 0.4 * SKEWED + 0.6 / 6
        assert best == pytest.approx((reported * (1 - reported)).sum() / (170 * 0.16))


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.floats(0.001, 1), min_size=5, max_size=5),
    st.lists(st.floats(0.001, 1), min_size=5, max_size=5),
    st.floats(0.05, 5),
)
def test_no_table_of_fakes_beats_the_uniform_one_at_equal_epsilon(
    answers: list[float], weights: list[float], epsilon: float
) -> None:
    law = np.array(answers) / sum(answers)
    table = np.array(weights) / sum(weights)
    odds = math.expm1(epsilon) * table.min()
    of_table = expected_squared_error(law, table, odds / (1 + odds), 1)
    uniform = expected_squared_error(law, mixed(law, 1.0), keep_at(epsilon, 5), 1)
    assert uniform <= of_table * (1 + 1e-9)


def test_fakes_from_the_truth_cost_what_its_least_cell_costs() -> None:
    assert rrba_honest.times_of_truth(np.full(4, 0.25), 1.0) == pytest.approx(1.0)
    assert rrba_honest.times_of_truth(SKEWED, 1.0) > 10
    assert rrba_honest.times_of_truth(np.array([0.5, 0.5, 0.0]), 1.0) == math.inf


# Groups


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 60), st.floats(0.01, 0.99))
def test_the_expected_inverse_of_a_binomial(n: int, share: float) -> None:
    law = [math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(n + 1)]
    expected = sum(p / k for k, p in enumerate(law) if k) / sum(law[1:])
    assert expected_inverse(n, share) == pytest.approx(expected)


def test_groups_are_asked_as_the_variant_asks() -> None:
    survey = survey_of(3, 2, 2, 4)
    generator = np.random.default_rng(1)
    one, view = (plan_groups(survey, 2.0, extent) for extent in EXTENTS)
    assert one.names == view.names
    assert len(one.names) == 6
    assert one.shares == pytest.approx(np.full(6, 1 / 6))
    # Three views of two pairs each.
    assert view.shares == pytest.approx(np.full(6, 1 / 3))
    assert np.all(one.draw(90, 5, generator).sum(axis=1) == 90)
    assert np.all(view.draw(90, 5, generator).sum(axis=1) == 180)
    for names, whole, half in zip(one.names, one.keeps, view.keeps, strict=True):
        size = math.prod(survey.attribute(name).size for name in names)
        assert true_epsilon(whole, size) == pytest.approx(2.0)
        assert true_epsilon(half, size) == pytest.approx(1.0)


@pytest.mark.parametrize("extent", EXTENTS)
def test_the_expected_error_of_groups_is_exact(extent: Any) -> None:
    how = plan_groups(survey_of(3, 2, 2, 4), 2.0, extent)
    generator = np.random.default_rng(2)
    laws = [generator.dirichlet(np.ones(size)) for size in (6, 6, 12, 4, 8, 8)]
    errors = errors_of_groups(laws, how, generator, n=240, runs=6000)
    expected = expected_of_groups(laws, how, 240)
    assert mean_p_value(errors, expected) > ALPHA
    assert mean_p_value(errors, WRONG * expected) < ALPHA


# Tables


def test_tables_are_all_or_some_at_random() -> None:
    survey = survey_of(*[2] * 7)
    assert len(choose_tables(survey, 3, most=35, seed=1)) == 35
    some = choose_tables(survey, 3, most=10, seed=1)
    assert len(set(some)) == 10
    assert set(some) < set(choose_tables(survey, 3, most=35, seed=1))
    assert some != choose_tables(survey, 3, most=10, seed=2)
