"""Tests of independence: against dense algebra and scipy, then their law under H0."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from protocol import KeepUniform, exact_test, noise_aware_test
from protocol.estimators.dependence.association import (
    naive_test,
    two_step_estimate,
    two_step_statistic,
    unmixed_counts,
)
from protocol.estimators.projection import project_simplex
from tests.statistical import ALPHA, WRONG, mean_p_value

Floats = NDArray[np.float64]
FIRST, SECOND, THIRD = np.array([0.3, 0.7]), np.array([0.15, 0.35, 0.5]), np.array([0.2, 0.8])
KEEP = 0.4


def independent(*margins: ArrayLike) -> Floats:
    """The distribution of independent attributes."""
    return np.asarray(functools.reduce(np.multiply.outer, map(np.asarray, margins)), np.float64)


def skewed(*shape: int) -> Floats:
    """A table of fakes that is neither uniform nor a product."""
    rising = np.arange(1.0, math.prod(shape) + 1).reshape(shape)
    fakes: Floats = rising / rising.sum()
    return fakes


def dense_wald(reports: Floats, keep: float, fakes: Floats) -> float:
    """``d^T (H Cov H^T)^- d`` with every matrix written out."""
    shape, n = reports.shape, float(reports.sum())
    raw = (reports / n - (1 - keep) * fakes) / keep
    axes = range(len(shape))

    def margin(table: Floats, axis: int) -> Floats:
        return np.asarray(table.sum(axis=tuple(a for a in axes if a != axis)))

    margins = [margin(raw, axis) for axis in axes]
    null = independent(*margins)
    contrast = np.zeros((raw.size, raw.size))
    for place in range(raw.size):
        unit = np.zeros(raw.size)
        unit[place] = 1.0
        moved = unit.reshape(shape)
        for axis in axes:
            parts = list(margins)
            parts[axis] = margin(unit.reshape(shape), axis)
            moved = moved - independent(*parts)
        contrast[:, place] = moved.reshape(-1)
    # On errors of total 0, which alone occur, this is the derivative of table less product.
    law = (keep * null + (1 - keep) * fakes).reshape(-1)
    covariance = (np.diag(law) - np.outer(law, law)) / (n * keep**2)
    d = (raw - null).reshape(-1)
    inverse = np.linalg.pinv(contrast @ covariance @ contrast.T, rcond=1e-9, hermitian=True)
    return float(d @ inverse @ d)


@pytest.mark.parametrize(
    ("margins", "keep"),
    [
        ((FIRST, SECOND), 0.4),
        ((FIRST, SECOND), 1.0),
        ((SECOND, FIRST, THIRD), 0.6),
        ((FIRST, THIRD, FIRST, THIRD), 0.5),
    ],
)
def test_the_closed_form_is_the_wald_statistic_with_every_matrix_written_out(
    margins: tuple[Floats, ...], keep: float
) -> None:
    law = independent(*margins)
    for fakes in (skewed(*law.shape), np.full(law.shape, 1 / law.size), law):
        mixed = (keep * law + (1 - keep) * fakes).reshape(-1)
        reports = np.random.default_rng(3).multinomial(4000, mixed).reshape(law.shape)
        result = noise_aware_test(reports, keep=keep, fakes=fakes)
        expected = dense_wald(reports.astype(np.float64), keep, fakes)
        assert result.statistic == pytest.approx(expected, rel=1e-8)
        assert result.degrees == law.size - 1 - sum(len(margin) - 1 for margin in margins)
        assert result.p_value == pytest.approx(
            stats.chi2.sf(expected, float(np.asarray(result.degrees))), rel=1e-6
        )
        assert result.test == "noise-aware"


def test_without_noise_it_is_pearson_s() -> None:
    counts = np.random.default_rng(1).multinomial(900, skewed(3, 4).reshape(-1)).reshape(3, 4)
    exact, result = exact_test(counts), noise_aware_test(counts, keep=1.0)
    assert result.statistic == pytest.approx(float(exact.statistic), rel=1e-10)
    assert result.degrees == exact.degrees


def test_p_squared_x_squared_is_right_where_the_fakes_are_the_table_of_h0() -> None:
    null = independent(FIRST, SECOND)
    dependent = null + 0.03 * np.array([[1, -1, 0], [-1, 1, 0]])
    n = 5000.0
    reports = n * (KEEP * dependent + (1 - KEEP) * null)
    pearson = n * ((dependent - null) ** 2 / null).sum()
    found = noise_aware_test(reports, keep=KEEP, fakes=null)
    assert found.statistic == pytest.approx(KEEP**2 * pearson, rel=1e-10)
    # With other fakes the noise is elsewhere, and the two differ.
    uniform = n * (KEEP * dependent + (1 - KEEP) / 6)
    assert noise_aware_test(uniform, keep=KEEP).statistic < 0.8 * KEEP**2 * pearson


@pytest.mark.parametrize("shape", [(2, 2), (3, 5), (2, 3, 4)])
def test_exact_counts_are_tested_as_by_scipy(shape: tuple[int, ...]) -> None:
    counts = np.random.default_rng(2).integers(1, 90, shape)
    found = exact_test(counts)
    expected = stats.chi2_contingency(counts, correction=False)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert found.degrees == expected.dof
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    assert found.rejects(float(found.p_value))
    assert not found.rejects(float(found.p_value) * 0.99)


def test_empty_categories_are_dropped() -> None:
    counts = np.array([[12, 0, 30], [0, 0, 0], [25, 0, 9]])
    left = counts[[0, 2]][:, [0, 2]]
    fakes = np.zeros((3, 3))
    fakes[np.ix_([0, 2], [0, 2])] = skewed(2, 2)
    pairs = [
        (exact_test(counts), exact_test(left)),
        (
            noise_aware_test(counts, keep=0.7, fakes=fakes),
            noise_aware_test(left, keep=0.7, fakes=skewed(2, 2)),
        ),
    ]
    for with_empty, without in pairs:
        assert with_empty.degrees == without.degrees == 1
        assert with_empty.statistic == pytest.approx(float(without.statistic), rel=1e-10)
    constant = exact_test([[3, 4], [0, 0]])
    assert constant.degrees == constant.statistic == 0
    assert constant.p_value == 1
    # What can be reported is not empty: fakes fall on all of it.
    assert noise_aware_test(counts, keep=0.7).degrees == 4


def test_a_report_where_neither_fakes_nor_estimates_are_is_no_infinite_surprise() -> None:
    # Fakes alone would give the first row more than it has: its estimated share is 0.
    fakes = np.array([[0.0, 0.0, 0.4], [0.2, 0.2, 0.2]])
    without = noise_aware_test([[0, 0, 90], [70, 70, 70]], keep=0.2, fakes=fakes)
    result = noise_aware_test([[2, 1, 87], [70, 70, 70]], keep=0.2, fakes=fakes)
    assert result.degrees == without.degrees == 2
    # Neither ignored nor impossible.
    assert 5 + without.statistic < result.statistic < 100


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 60), min_size=24, max_size=24).filter(any),
    st.floats(0.05, 1),
    st.permutations(range(3)),
    st.integers(0, 3),
)
def test_the_order_of_attributes_and_categories_does_not_matter(
    cells: list[int], keep: float, order: list[int], turn: int
) -> None:
    reports = np.array(cells).reshape(2, 3, 4)
    fakes = skewed(2, 3, 4)
    moved = np.roll(reports, turn, axis=2).transpose(order)
    moved_fakes = np.roll(fakes, turn, axis=2).transpose(order)
    one = noise_aware_test(reports, keep=keep, fakes=fakes)
    other = noise_aware_test(moved, keep=keep, fakes=moved_fakes)
    assert one.statistic >= 0
    assert one.degrees == other.degrees
    assert one.statistic == pytest.approx(float(other.statistic), rel=1e-6, abs=1e-6)


TESTS: list[Callable[..., Any]] = [
    exact_test,
    functools.partial(noise_aware_test, keep=KEEP, fakes=skewed(2, 3)),
    functools.partial(naive_test, n=50),
]


@pytest.mark.parametrize("test", TESTS)
def test_many_tables_are_tested_one_by_one(test: Callable[..., Any]) -> None:
    reports = np.random.default_rng(4).multinomial(50, skewed(2, 3).reshape(-1), size=(2, 5))
    reports = reports.reshape(2, 5, 2, 3)
    reports[1, 3, 1] = 0
    together = test(reports, ways=2)
    assert together.statistic.shape == together.degrees.shape == together.p_value.shape == (2, 5)
    for place in np.ndindex(2, 5):
        alone = test(reports[place])
        assert together.statistic[place] == pytest.approx(float(alone.statistic), rel=1e-10)
        assert together.degrees[place] == alone.degrees
        assert together.p_value[place] == pytest.approx(float(alone.p_value), rel=1e-10)


def test_every_table_may_have_fakes_of_its_own() -> None:
    reports = np.array([[30, 20], [25, 60]])
    fakes = np.stack([skewed(2, 2), np.full((2, 2), 0.25)])
    together = noise_aware_test(reports, keep=KEEP, fakes=fakes, ways=2)
    for place, alone in enumerate(fakes):
        assert (
            together.statistic[place] == noise_aware_test(reports, keep=KEEP, fakes=alone).statistic
        )
    assert unmixed_counts(reports, keep=KEEP, fakes=fakes, ways=2).shape == (2, 2, 2)


def test_a_table_of_many_cells_needs_no_matrix_of_its_size() -> None:
    """Of 40,000 cells: their covariance matrix would take 12.8 GB."""
    reports = np.random.default_rng(5).poisson(50, (200, 200))
    result = noise_aware_test(reports, keep=KEEP)
    assert result.degrees == 199 * 199
    assert result.p_value > ALPHA


def test_raw_counts_are_unbiased() -> None:
    true = np.array([[40.0, 3, 0], [0, 25, 12]])
    uniform = true.reshape(-1) @ KeepUniform.with_keep(6, p=KEEP).matrix()
    np.testing.assert_allclose(unmixed_counts(uniform.reshape(2, 3), keep=KEEP), true, atol=1e-12)
    fakes = skewed(2, 3)
    mean = KEEP * true + (1 - KEEP) * true.sum() * fakes
    np.testing.assert_allclose(unmixed_counts(mean, keep=KEEP, fakes=fakes), true, atol=1e-12)


noisy_tables = st.lists(st.floats(-50, 100), min_size=6, max_size=6).map(
    lambda cells: np.array(cells).reshape(2, 3)
)


@settings(deadline=None, max_examples=80)
@given(noisy_tables, st.integers(1, 300))
def test_the_two_steps(noisy: Floats, n: int) -> None:
    estimate = two_step_estimate(noisy, n)
    np.testing.assert_allclose(estimate.nearest, n * project_simplex(noisy / n), atol=1e-10)
    rows, columns = estimate.nearest.sum(axis=1), estimate.nearest.sum(axis=0)
    np.testing.assert_allclose(estimate.expected, np.outer(rows, columns) / n, atol=1e-9)
    least = min(estimate.nearest.min(), estimate.expected.min())
    assert bool(estimate.sparse) == (least < 5)
    filled = estimate.expected > 0
    by_hand = ((noisy - estimate.expected) ** 2)[filled] / estimate.expected[filled]
    assert two_step_statistic(noisy, estimate) == pytest.approx(by_hand.sum(), rel=1e-10)


@settings(deadline=None, max_examples=60)
@given(noisy_tables, st.lists(st.floats(0.01, 1), min_size=6, max_size=6), st.floats(0, 1))
def test_no_elastic_net_finds_a_nearer_table(
    noisy: Floats, other: list[float], gamma: float
) -> None:
    """Equation 7: both of its norms are least at the Euclidean projection."""
    nearest = two_step_estimate(noisy, 100).nearest
    rival = 100 * np.array(other).reshape(2, 3) / sum(other)

    def objective(table: Floats) -> float:
        apart = noisy - table
        return float(gamma * np.abs(apart).sum() + (1 - gamma) * (apart**2).sum())

    assert objective(nearest) <= objective(rival) + 1e-9
    assert objective(nearest) <= objective(0.99 * nearest + 0.01 * rival) + 1e-9


def test_a_small_expected_count_is_sparse_as_well() -> None:
    assert two_step_estimate([[6, 6], [6, 982]], 1000).sparse
    sparse = two_step_estimate([[[50, 50], [50, 50]], [[4, 50], [50, 96]]], [200, 200], ways=2)
    assert sparse.sparse.tolist() == [False, True]


def drawn(keep: float, fakes: Floats, tables: int, n: int = 40_000) -> NDArray[np.int64]:
    """Reports of respondents with independent answers, from a population."""
    law = keep * independent(FIRST, SECOND) + (1 - keep) * fakes
    counts = np.random.default_rng(6).multinomial(n, law.reshape(-1), size=tables)
    return np.asarray(counts.reshape(tables, 2, 3), np.int64)


@pytest.mark.parametrize("fakes", [np.full((2, 3), 1 / 6), skewed(2, 3)], ids=["uniform", "skewed"])
def test_the_statistic_has_its_law_under_h0(fakes: Floats) -> None:
    reports = drawn(KEEP, fakes, 40_000)
    result = noise_aware_test(reports, keep=KEEP, fakes=fakes, ways=2)
    assert mean_p_value(result.statistic, 2.0) > ALPHA
    # Chi-squared: the p-values are uniform.
    assert stats.kstest(result.p_value, "uniform").pvalue > ALPHA
    # The power arm: a degree of freedom that is wrong, and a keep probability that is.
    assert mean_p_value(result.statistic, 2.0 * WRONG) < ALPHA
    wrong = noise_aware_test(reports, keep=KEEP * WRONG, fakes=fakes, ways=2)
    assert mean_p_value(wrong.statistic, 2.0) < ALPHA
    assert stats.kstest(wrong.p_value, "uniform").pvalue < ALPHA
    # The naive test rejects most of what it should accept.
    raw = unmixed_counts(reports, keep=KEEP, fakes=fakes, ways=2)
    assert naive_test(raw, 40_000, ways=2).rejects().mean() > 0.6


def test_the_naive_test_takes_the_noise_for_dependence() -> None:
    """With the fakes of H0, X**2 is chi-squared over p**2: its size is known exactly."""
    null = independent(FIRST, SECOND)
    raw = unmixed_counts(drawn(KEEP, null, 20_000), keep=KEEP, fakes=null, ways=2)
    size = stats.chi2.sf(KEEP**2 * stats.chi2.isf(0.05, 2), 2)
    assert size > 0.6
    assert mean_p_value(naive_test(raw, 40_000, ways=2).rejects(), size) > ALPHA
    assert mean_p_value(naive_test(raw, 40_000, ways=2).rejects(), size / WRONG) < ALPHA


@pytest.mark.parametrize(
    ("counts", "ways", "message"),
    [
        ([1, 2], None, "at least 2 attributes"),
        ([[1, 2], [3, 4]], 1, "at least 2 attributes"),
        ([[1, 2], [3, 4]], 3, "3 ways"),
        ([[1, -2], [3, 4]], None, "no negative one"),
        ([[0, 0], [0, 0]], None, "positive total"),
        ([[1, math.nan], [3, 4]], None, "finite"),
    ],
)
def test_what_are_no_counts_is_refused(counts: Any, ways: int | None, message: str) -> None:
    for test in (exact_test, functools.partial(noise_aware_test, keep=0.5)):
        with pytest.raises(ValueError, match=message):
            test(counts, ways=ways)


@pytest.mark.parametrize(
    ("keep", "fakes", "message"),
    [
        (0.0, None, "keep probability"),
        (1.1, None, "keep probability"),
        (math.nan, None, "keep probability"),
        (0.5, [[0.5, 0.5]], "shape"),
        (0.5, [0.25] * 4, "ways"),
        (0.5, [[0.5, 0.6], [-0.1, 0.0]], "probability distribution"),
        (0.5, [[0.5, 0.5], [0.5, 0.5]], "probability distribution"),
    ],
)
def test_what_are_no_fakes_is_refused(keep: float, fakes: Any, message: str) -> None:
    for test in (noise_aware_test, unmixed_counts):
        with pytest.raises(ValueError, match=message):
            test([[1, 2], [3, 4]], keep=keep, fakes=fakes)


@pytest.mark.parametrize("n", [0, -1, math.nan, math.inf])
def test_a_table_of_nobody_has_no_estimate(n: float) -> None:
    with pytest.raises(ValueError, match="respondents"):
        two_step_estimate([[1.0, 2.0]], n)
