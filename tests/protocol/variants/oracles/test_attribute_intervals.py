"""Intervals of attributes on which a random part of the respondents reported."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import (
    Attribute,
    KeepElseTable,
    KeepUniform,
    LinearEstimate,
    Randomizer,
    Survey,
    UnaryEncoding,
)
from protocol.estimators.inference.cumulants import CumulantLaw
from protocol.estimators.inference.laws import About
from protocol.variants.oracles.estimate import AttributeShares
from tests.protocol.estimators.inference.test_cumulants import law_of_count
from tests.tiers import slow

SURVEY = Survey("two", tuple(Attribute(name=n, categories=("x", "y", "z")) for n in "ab"))
KEEP = KeepUniform.with_epsilon(3, epsilon=2.0)
UNARY = UnaryEncoding.optimized(3, epsilon=2.0)
SKEWED = KeepElseTable(threshold=2**63, weights=(2**63, 2**62, 2**62))


def estimate_of(
    totals: list[int], asked: int, people: int, randomizer: Randomizer = KEEP
) -> LinearEstimate[AttributeShares]:
    counts = np.array(totals)
    nobody = np.zeros(3, np.int64)
    return LinearEstimate(
        AttributeShares(
            SURVEY, (randomizer, randomizer), (counts, nobody), np.array([asked, 0]), people
        )
    )


@pytest.mark.parametrize("about", ["respondents", "population"])
@pytest.mark.parametrize(("asked", "people"), [(4, 9), (12, 20), (30, 33)])
def test_intervals_cover_by_every_outcome(about: About, asked: int, people: int) -> None:
    hit, other = float(KEEP.support.hit), float(KEEP.support.other)
    ends = [
        estimate_of([k, asked - k, 0], asked, people).table("a").interval(0.95, about)
        for k in range(asked + 1)
    ]
    low, high = (np.array([each[side][0] for each in ends]) for side in (0, 1))
    for inside in range(people + 1):
        law = law_of_count(about, asked, people, inside, hit, other)
        share = inside / people
        assert law[(low <= share + 1e-12) & (share - 1e-12 <= high)].sum() >= 0.93


def test_the_more_have_reported_the_narrower_and_all_have_no_sampling() -> None:
    widths = []
    for people in (1000, 60, 40):
        low, high = estimate_of([20, 12, 8], 40, people).table("a").interval()
        widths.append(high - low)
    assert (widths[0] > widths[1]).all()
    assert (widths[1] > widths[2]).all()
    alone = CumulantLaw.of_counts(
        estimate_of([20, 12, 8], 40, 40).table("a").values,
        40,
        other=float(KEEP.support.other),
        gain=float(KEEP.support.gain),
    )
    np.testing.assert_allclose(np.ptp(alone.interval(0.95, "respondents"), axis=0), widths[2])


@pytest.mark.parametrize("randomizer", [KEEP, UNARY, SKEWED], ids=lambda one: type(one).__name__)
def test_covariances_have_the_squares_of_the_standard_errors(randomizer: Randomizer) -> None:
    table = estimate_of([200, 150, 50], 400, 900, randomizer).table("a")
    for about, errors in (
        ("respondents", table.standard_errors),
        ("population", table.population_errors),
    ):
        assert errors is not None
        found = np.diagonal(table.covariance(about))
        np.testing.assert_allclose(found, errors**2, rtol=1e-9)


@pytest.mark.parametrize("randomizer", [KEEP, UNARY, SKEWED], ids=lambda one: type(one).__name__)
def test_queries_of_a_cell_are_those_of_the_table(randomizer: Randomizer) -> None:
    estimate = estimate_of([20, 12, 8], 40, 90, randomizer)
    for about in ("respondents", "population"):
        low, high = estimate.table("a").interval(0.9, about)
        for place, weights in enumerate(np.eye(3)):
            found = estimate.query(["a"], 2 * weights + 1).interval(0.9, about)
            np.testing.assert_allclose(found, [1 + 2 * low[place], 1 + 2 * high[place]], atol=1e-8)
    low, high = estimate.query(["a"], [1, 2, 5]).interval()
    assert 1 <= low < high <= 5


def coverage(about: About, *, level: float = 0.95) -> NDArray[np.float64]:
    """How often intervals hold each share, of reports whose fakes have a table."""
    generator, matrix = np.random.default_rng(5), SKEWED.matrix()
    people, asked, law = 90, 40, np.array([0.15, 0.6, 0.25])
    numbers = np.rint(people * law).astype(np.int64)
    held = []
    for _ in range(200):
        if about == "respondents":
            true = generator.multivariate_hypergeometric(numbers, asked)
        else:
            true = generator.multinomial(asked, law)
        truth = numbers / people if about == "respondents" else law
        totals = np.sum(
            [generator.multinomial(k, row) for k, row in zip(true, matrix, strict=True)], axis=0
        )
        estimate = estimate_of(totals.tolist(), asked, people, SKEWED)
        low, high = estimate.table("a").interval(level, about)
        held.append((low <= truth) & (truth <= high))
    return np.mean(held, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("about", [slow("respondents"), "population"])
def test_intervals_of_reports_by_a_table_cover(about: About) -> None:
    assert coverage(about).min() > 0.93 - 3 * math.sqrt(0.05 * 0.95 / 200)


@pytest.mark.slow
def test_intervals_of_a_lower_level_are_seen() -> None:
    assert coverage("respondents", level=0.7).mean() < 0.85


def test_what_nobody_reported_on_is_unknown() -> None:
    estimate = estimate_of([20, 12, 8], 40, 90)
    assert np.isnan(estimate.table("b").interval()).all()
    assert np.isnan(estimate.query(["b"], [0, 0, 1]).interval()).all()
    assert estimate.query(["b"], [2, 2, 2]).interval() == (2.0, 2.0)
