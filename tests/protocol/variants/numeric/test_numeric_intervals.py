"""Intervals of means: how often they hold the true one, by the law of the reports."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from protocol import Attribute, MeanRandomizer, OneBitMean, PiecewiseMean, Survey
from protocol.estimators.inference.cumulants import CumulantLaw, Cumulants
from protocol.estimators.inference.laws import About
from protocol.variants.numeric.estimate import NumericMeans, mean_law
from protocol.variants.numeric.scales import attribute_scale
from tests.tiers import thinned

SIZE = 9
VALUES = np.linspace(-1, 1, SIZE)
ENDS = np.eye(SIZE)[0] * 0.5 + np.eye(SIZE)[-1] * 0.5
ANSWERS = {"all at an end": np.eye(SIZE)[0], "even": np.full(SIZE, 1 / SIZE), "two ends": ENDS}


def rows(randomizer: MeanRandomizer) -> NDArray[np.float64]:
    return np.array([[float(p) for p in randomizer.row(code)] for code in range(SIZE)])


def coverage(
    randomizer: MeanRandomizer, law: Any, n: int, about: About, *, factor: float = 1.0
) -> float:
    """How often the interval holds the mean, in 300 surveys.

    Args:
        factor: of the variance, for a law that is wrong.
    """
    generator, matrix = np.random.default_rng(7), rows(randomizer)
    counts, laws, truths = generator.multinomial(n, law), [], []
    for _ in range(300):
        if about == "population":
            counts = generator.multinomial(n, law)
        truths.append(law @ VALUES if about == "population" else counts @ VALUES / n)
        reports = np.sum(
            [generator.multinomial(k, row) for k, row in zip(counts, matrix, strict=True)], axis=0
        )
        one: Any = mean_law(randomizer, reports)
        assert isinstance(one, CumulantLaw)
        laws.append(one)
    # The laws of all surveys as one, which is quicker.
    known = [one.cumulants[about] for one in laws]
    both = Cumulants(
        factor * np.stack([part.variance for part in known], axis=1),
        np.stack([part.third for part in known], axis=1),
    )
    low, high = CumulantLaw(
        values=np.stack([one.values for one in laws]),
        cumulants={about: both},
        steps=np.stack([one.steps for one in laws]),
        least=-1.0,
        most=1.0,
    ).interval(0.95, about)
    truth = np.array(truths)
    return float(((low <= truth + 1e-12) & (truth - 1e-12 <= high)).mean())


@pytest.mark.parametrize(
    ("name", "about", "epsilon", "n"),
    thinned(product(ANSWERS, ["respondents", "population"], [1.0, 6.0], [6, 400]), 4),
)
def test_intervals_of_piecewise_reports_cover(
    name: str, about: About, epsilon: float, n: int
) -> None:
    found = coverage(PiecewiseMean.with_epsilon(SIZE, epsilon=epsilon), ANSWERS[name], n, about)
    assert found > 0.93 - 3 * math.sqrt(0.05 * 0.95 / 300)


def test_a_variance_that_is_too_small_is_seen() -> None:
    randomizer = PiecewiseMean.with_epsilon(SIZE, epsilon=1.0)
    assert coverage(randomizer, ANSWERS["even"], 400, "population", factor=0.5) < 0.88


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
