"""Figures over runs: how far means, medians and shares can be trusted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from scenarios.papers.statistics import CHANCE, Figure, mean, median, share

Floats = NDArray[np.float64]


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_a_median_may_have_infinite_values_beside_it() -> None:
    values = np.concatenate([np.arange(60.0), np.full(20, math.inf)])
    found = median(generator().permutation(values))
    assert found.value == 39.5
    # Ranks 31 and 50 of 80 hold 30 and 49.
    assert found.error == pytest.approx((49 - 30) / (2 * 1.96), rel=1e-3)
    most = median(np.array([1.0, math.inf, math.inf]))
    assert most.value == math.inf
    assert math.isnan(most.error)
    for few in (np.array([3.0, 1.0]), np.array([[3.0, 1.0, 2.0]])):
        assert median(few).value == 2.0
        assert math.isnan(median(few).error)


def spread(draw: Floats) -> tuple[float, float]:
    """How medians really vary over repetitions, and what each says of itself on average."""
    found = [median(values) for values in draw]
    real = float(np.std([one.value for one in found], ddof=1))
    return real, float(np.mean([one.error for one in found]))


def test_the_standard_error_is_how_medians_vary() -> None:
    real, said = spread(generator(3).exponential(size=(3_000, 401)))
    # A standard deviation of 3,000 values is known to 1.3 %; six times that is beyond ALPHA.
    assert said == pytest.approx(real, rel=0.08)
    assert said == pytest.approx(1 / math.sqrt(401), rel=0.08)


def test_the_standard_error_knows_that_values_of_one_run_depend_on_each_other() -> None:
    draw = generator(4)
    values = draw.normal(size=(3_000, 100, 1)) + draw.normal(size=(3_000, 100, 4))
    real, said = spread(values)
    assert said == pytest.approx(real, rel=0.08)
    # The power arm: taken as independent they would seem far better known.
    assert spread(values.reshape(3_000, 400))[1] < 0.9 * real


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_share_of_runs_that_came_out_alike_has_an_error(value: float) -> None:
    found = share(np.full(50, bool(value)))
    assert (found.value, found.error) == (value, pytest.approx(1 / 52, rel=0.02))
    assert math.isnan(share(np.array([True])).error)


def starred(ours: list[Figure], theirs: list[Figure], runs: int | None) -> int:
    """How many figures of one law are said to differ from others of it."""
    pairs = zip(ours, theirs, strict=True)
    return sum(abs(one.value - other.value) > one.tolerance(runs) for one, other in pairs)


@pytest.mark.parametrize(
    ("statistic", "runs"), [(mean, 10), (mean, 1000), (median, 1000), (share, 400)]
)
def test_the_product_is_rarely_said_to_differ_from_itself(statistic: object, runs: int) -> None:
    """2,000 cells against others of the same law: three standard errors promise 5.4 of them."""
    assert callable(statistic)
    draw = generator(6).exponential if statistic is not share else generator(6).random
    if statistic is mean:
        draw = generator(6).normal
    drawn = draw(size=(2, 2000, runs))
    values = drawn < 0.3 if statistic is share else drawn
    ours, theirs = ([statistic(of_cell) for of_cell in side] for side in values)
    assert starred(ours, theirs, runs) <= 16
    # The power arm: as if the others were exact.
    assert starred(ours, theirs, None) > 40 * (CHANCE / 0.0027)
