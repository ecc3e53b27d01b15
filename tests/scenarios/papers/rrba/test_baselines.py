"""Laplace baselines: the noise's scale and law, and MCIndep's size and power."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from protocol.estimators.dependence.association import naive_test
from scenarios.papers.rrba.association import (
    laplace_scale,
    laplace_tables,
    mcindep,
    sampled_counts,
)
from tests.scenarios.papers.rrba.test_association_mc import rate_of
from tests.statistical import ALPHA, WRONG, mean_p_value

LEVEL = 0.05
TABLES = 2000
FOUR_ERRORS = 4 * math.sqrt(LEVEL * (1 - LEVEL) / TABLES)
LAW = np.multiply.outer([0.4, 0.6], [0.3, 0.7])
EPSILON = 0.1


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def noisy_tables(law: NDArray[np.float64], *, n: int, epsilon: float) -> NDArray[np.float64]:
    true = sampled_counts(law, n, generator(2), runs=TABLES)
    return laplace_tables(true, epsilon, generator(3), ways=law.ndim)


def test_scales() -> None:
    assert laplace_scale(0.5, ways=2) == 4.0
    assert laplace_scale(0.5, ways=7) == 4.0
    assert [laplace_scale(0.5, ways=k, scale="paper") for k in (2, 3, 4)] == [19.4, 32.2, 50.6]


def test_the_paper_s_scale_is_about_what_its_tables_fit() -> None:
    """Mean l2 distances of the two-way tables of survey, printed for epsilon 0.35 and 0.5."""
    sizes = (3, 2, 2, 2, 2, 3)
    pairs = [(a, b) for i, a in enumerate(sizes) for b in sizes[i + 1 :]]
    for epsilon, printed in ((0.35, 59.58), (0.5, 109.60)):
        b = laplace_scale(epsilon, ways=2, scale="paper")
        mean = np.mean([b * math.sqrt(2 * x * y) for x, y in pairs])
        assert 1 / 1.8 < mean / printed < 1.8
        central = np.mean([laplace_scale(epsilon, ways=2) * math.sqrt(2 * x * y) for x, y in pairs])
        assert central < printed / 3


@pytest.mark.parametrize("scale", ["central", "paper"])
def test_the_noise_has_its_law(scale: Any) -> None:
    counts = np.array([[5, 0], [7, 1000]])
    repeated = np.broadcast_to(counts, (20_000, 2, 2))
    noise = laplace_tables(repeated, 0.5, generator(), scale=scale, ways=2) - counts
    b = laplace_scale(0.5, ways=2, scale=scale)
    assert mean_p_value(noise, 0.0) > ALPHA
    assert mean_p_value(np.abs(noise), b) > ALPHA
    assert mean_p_value(np.abs(noise), b * WRONG) < ALPHA
    assert stats.kstest(noise.reshape(-1) / b, "laplace").pvalue > ALPHA
    assert abs(np.corrcoef(noise.reshape(-1, 4).T) - np.eye(4)).max() < 0.05
    assert laplace_tables(counts, 0.5, generator()).shape == (2, 2)


def test_mcindep_has_its_size_where_the_naive_test_has_not() -> None:
    noisy = noisy_tables(LAW, n=2000, epsilon=EPSILON)
    test = functools.partial(mcindep, noisy, 2000, EPSILON, generator(4), ways=2, draws=99)
    assert abs(rate_of(test()) - LEVEL) < FOUR_ERRORS
    assert rate_of(naive_test(noisy, 2000, ways=2)) > 3 * LEVEL
    # Compared with less noise than there is, tables look dependent.
    quiet = mcindep(noisy, 2000, 10 * EPSILON, generator(4), ways=2, draws=99)
    assert rate_of(quiet) > LEVEL + 2 * FOUR_ERRORS


def test_mcindep_finds_dependence() -> None:
    dependent = LAW + 0.05 * np.array([[1, -1], [-1, 1]])
    noisy = noisy_tables(dependent, n=2000, epsilon=EPSILON)[:300]
    found = mcindep(noisy, 2000, EPSILON, generator(4), ways=2, draws=99)
    assert rate_of(found) > 0.9
    assert found.test == "mcindep"


def test_mcindep_of_three_attributes() -> None:
    law = np.multiply.outer(LAW, [0.5, 0.5])
    noisy = noisy_tables(law, n=4000, epsilon=EPSILON)
    found = mcindep(noisy, 4000, EPSILON, generator(5), ways=3, draws=99)
    assert abs(rate_of(found) - LEVEL) < FOUR_ERRORS


def test_small_tables_are_accepted_by_the_rule_alone() -> None:
    table = np.array([[60.0, 1.0], [2.0, 60.0]])
    test = functools.partial(mcindep, table, 123, 5.0, draws=99)
    assert test(generator()).p_value == 0.01
    assert test(generator(), rule="fewer-than-5").p_value == 1
