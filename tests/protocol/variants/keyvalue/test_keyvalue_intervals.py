"""Intervals of keys' frequencies and means, by every outcome and by the law of the reports."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from protocol import PrivKV, key_survey
from protocol.estimators.inference.laws import About
from protocol.randomizers.keyvalue import ABSENT, MINUS, PLUS
from protocol.variants.keyvalue.estimate import Estimator, KeyValueTables
from protocol.variants.keyvalue.intervals import mean_intervals
from tests.tiers import thinned

Floats = NDArray[np.float64]

ONE = PrivKV.with_budget(1, epsilon=4.0)


def outcomes(n: int) -> NDArray[np.int64]:
    """All counts of three symbols that n reports can have."""
    pairs = product(range(n + 1), repeat=2)
    return np.array([(a, b, n - a - b) for a, b in pairs if a + b <= n])


def states(frequency: float, mean: float) -> Floats:
    """The shares of respondents who miss a key, hold it with 1, and with -1."""
    found = np.zeros(3)
    found[ABSENT] = 1 - frequency
    found[PLUS], found[MINUS] = frequency * (1 + mean) / 2, frequency * (1 - mean) / 2
    return found


def reported(numbers: list[int]) -> Floats:
    """The law of the counts of what so many in each state report, (n+1, n+1) by two symbols."""
    n = sum(numbers)
    found = np.zeros((n + 1, n + 1))
    found[0, 0] = 1.0
    for number, law in zip(numbers, ONE.matrix(), strict=True):
        for _ in range(number):
            absent = np.pad(found, ((1, 0), (0, 0)))[:-1]
            plus = np.pad(found, ((0, 0), (1, 0)))[:, :-1]
            found = law[ABSENT] * absent + law[PLUS] * plus + law[MINUS] * found
    return found


@pytest.mark.parametrize("n", thinned([1, 4, 15, 40], 3))
def test_intervals_of_means_cover_by_every_outcome(n: int) -> None:
    counts = outcomes(n)
    low, high = mean_intervals(counts, ONE, level=0.95)
    assert (low <= high).all()
    for frequency, mean in product([0.02, 0.3, 0.7, 1.0], [-1.0, -0.5, 0.0, 0.8]):
        law = stats.multinomial.pmf(counts, n, states(frequency, mean) @ ONE.matrix())
        assert law[(low <= mean) & (mean <= high)].sum() >= 0.93, (frequency, mean)


@pytest.mark.slow
def test_a_law_of_less_noise_is_seen() -> None:
    counts = outcomes(40)
    low, high = mean_intervals(counts, PrivKV.with_budget(1, epsilon=6.0), level=0.95)
    law = stats.multinomial.pmf(counts, 40, states(0.7, 0.8) @ ONE.matrix())
    assert law[(low <= 0.8) & (high >= 0.8)].sum() < 0.9


@pytest.mark.slow
def test_intervals_of_means_of_the_respondents_where_values_are_extremes() -> None:
    n = 24
    counts = outcomes(n)
    of_all = mean_intervals(counts, ONE, level=0.95, of=float(n))
    of_sample = mean_intervals(counts, ONE, level=0.95)
    widths = [(ends.high - ends.low).mean() for ends in (of_all, of_sample)]
    assert widths[0] < 0.95 * widths[1]
    for numbers in ([0, 24, 0], [0, 12, 12], [6, 14, 4], [18, 3, 3], [23, 1, 0]):
        law = reported(numbers)[counts[:, 0], counts[:, 1]]
        assert law.sum() == pytest.approx(1)
        mean = (numbers[1] - numbers[2]) / (numbers[1] + numbers[2])
        assert law[(of_all.low <= mean) & (mean <= of_all.high)].sum() >= 0.93, numbers


def test_a_key_that_seems_held_by_nobody_may_have_any_mean() -> None:
    low, high = mean_intervals([[30, 1, 1], [0, 0, 0], [0, 0, 1]], ONE, level=0.95)
    assert low[[0, 2]].tolist() == [-1, -1]
    assert high[[0, 2]] == pytest.approx([1, 1])
    assert math.isnan(low[1])
    assert math.isnan(high[1])


@pytest.mark.parametrize("n", [10**4, 10**5, 10**6, 10**8])
@pytest.mark.parametrize("mean", [-1.0, -0.3, 0.1234, 0.994, 1.0])
def test_intervals_of_many_reports_hold_the_mean_and_shrink(mean: float, n: int) -> None:
    """At a million reports an interval is far narrower than the means that are tried first."""
    law = states(0.5, mean) @ ONE.matrix()
    low, high = mean_intervals([np.round(n * law)], ONE, level=0.95)
    assert low[0] < mean + 1e-9
    assert high[0] > mean - 1e-9
    assert 1.5 / math.sqrt(n) < high[0] - low[0] < 15 / math.sqrt(n)


def test_many_reports_give_the_interval_of_the_delta_method() -> None:
    shares = states(0.6, 0.25) @ ONE.matrix()
    tables = of_counts(np.rint(2_000_000 * shares).astype(np.int64)[np.newaxis], "debiased")
    low, high = tables.mean_intervals(0.95, "population")
    [mean], [error] = tables.means, tables.mean_errors
    assert (high[0] + low[0]) / 2 == pytest.approx(mean, abs=1e-3 * error)
    assert (high[0] - low[0]) / 2 == pytest.approx(1.959964 * error, rel=1e-3)


def of_counts(
    counts: NDArray[np.int64], estimator: Estimator, levels: Any = (-1.0, 0.0, 1.0)
) -> KeyValueTables:
    keys = len(counts)
    survey = key_survey("keys", [f"k{i}" for i in range(keys)], [levels] * keys)
    randomizer = PrivKV.with_budget(keys, epsilon=4.0)
    return KeyValueTables(
        asked=survey, randomizer=randomizer, estimator=estimator, counts=counts[np.newaxis]
    )


COUNTS = np.array([[40, 25, 5], [0, 0, 0], [60, 10, 20]])


@pytest.mark.parametrize("about", ["respondents", "population"])
def test_intervals_are_the_same_for_all_estimators(about: About) -> None:
    found = []
    for estimator in ("moment", "debiased", "em", "likelihood"):
        tables = of_counts(COUNTS, estimator)
        found.append(
            [
                tables.frequency_intervals(0.9, about),
                tables.mean_intervals(0.9, about),
                tables.table("k2").interval(0.9, about),
            ]
        )
    for one in found[1:]:
        for ends, expected in zip(one, found[0], strict=True):
            np.testing.assert_array_equal(ends, expected)
    frequencies, _, table = found[0]
    np.testing.assert_allclose(table.low, [1 - frequencies.high[2], frequencies.low[2]], atol=1e-9)
    assert np.isnan(frequencies.low).tolist() == [False, True, False]


def test_frequencies_of_the_respondents_know_how_many_have_reported() -> None:
    tables = of_counts(COUNTS, "moment")
    of_respondents, of_population = (
        tables.frequency_intervals(about=about) for about in ("respondents", "population")
    )
    narrower = (of_respondents.high - of_respondents.low)[[0, 2]]
    assert (narrower < (of_population.high - of_population.low)[[0, 2]]).all()


def test_the_mean_of_the_respondents_is_known_better_where_values_are_extremes() -> None:
    extremes, between = (
        of_counts(COUNTS, "moment", levels).mean_intervals()
        for levels in ((-1.0, 1.0), (-1.0, 0.5, 1.0))
    )
    assert ((extremes.high - extremes.low) < (between.high - between.low))[[0, 2]].all()
    unknown = of_counts(COUNTS, "moment").mean_intervals(about="population")
    np.testing.assert_array_equal(between, unknown)
