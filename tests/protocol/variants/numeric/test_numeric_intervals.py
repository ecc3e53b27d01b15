"""Intervals of means: how often they hold the true one, by the law of the reports."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from protocol import Attribute, OneBitMean, PiecewiseMean, Survey
from protocol.variants.numeric.estimate import NumericMeans, mean_law
from protocol.variants.numeric.scales import attribute_scale
from tests.tiers import thinned

SIZE = 9


@pytest.mark.parametrize("n", thinned([3, 20, 200], 2))
def test_intervals_of_one_bit_cover_by_every_outcome(n: int) -> None:
    randomizer = OneBitMean.with_epsilon(SIZE, epsilon=2.0)
    ones, gain = np.arange(n + 1), float(randomizer.gain)
    ends = [mean_law(randomizer, np.array([n - k, k])).interval(0.95, "population") for k in ones]
    low, high = np.array(ends).T
    for mean in np.linspace(-1, 1, 21):
        law = stats.binom.pmf(ones, n, (1 + gain * mean) / 2)
        assert law[(low <= mean + 1e-12) & (mean - 1e-12 <= high)].sum() >= 0.93


def test_one_bit_does_not_tell_the_spread_of_more_than_two_answers() -> None:
    reports = np.array([40, 60])
    many, two = (OneBitMean.with_epsilon(size, epsilon=2.0) for size in (SIZE, 2))
    widths = {
        (size, about): np.diff(mean_law(one, reports).interval(0.95, about))[0]
        for size, one in (("many", many), ("two", two))
        for about in ("respondents", "population")
    }
    assert widths["many", "respondents"] == widths["many", "population"]
    assert widths["two", "respondents"] < 0.95 * widths["two", "population"]


def test_intervals_are_on_the_scale_of_the_attribute() -> None:
    attribute = Attribute(name="age", categories=tuple(str(10 + 5 * i) for i in range(SIZE)))
    randomizer = PiecewiseMean.with_epsilon(SIZE, epsilon=2.0)
    totals = np.zeros(randomizer.outcomes, np.int64)
    totals[::40] = 3
    means = NumericMeans(
        Survey("ages", (attribute,)),
        (attribute_scale(attribute),),
        (randomizer,),
        (totals,),
        int(totals.sum()),
    )
    low, high = mean_law(randomizer, totals).interval(0.9, "population")
    found = means.attribute_means()["age"].interval(0.9, "population")
    np.testing.assert_allclose(found, [30 + 20 * low, 30 + 20 * high])
    assert found.low < means.attribute_means()["age"].value < found.high
