"""Intervals of marginals: the variances of their laws, and how often they hold the true shares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import Attribute, LinearEstimate, Survey
from protocol.estimators.inference.cumulants import CumulantLaw
from protocol.estimators.inference.laws import About
from protocol.randomizers.marginals import METHODS, MarginalPlan, Method, Unary
from protocol.variants.marginals.counts import MarginalCounts
from protocol.variants.marginals.encoding import DecodedBits, binary_encoding
from protocol.variants.marginals.estimate import ReleasedMarginals
from protocol.variants.marginals.laws import _one_hot_cumulants

D = 3
SURVEY = Survey("bits", tuple(Attribute(name=name, categories=("no", "yes")) for name in "abc"[:D]))
LAW = np.random.default_rng(8).dirichlet(np.full(1 << D, 0.6))

Floats = NDArray[np.float64]


def estimated(
    plan: MarginalPlan, cells: NDArray[np.uint32], generator: np.random.Generator
) -> LinearEstimate[ReleasedMarginals]:
    """From reports of respondents with these records, drawn by their law."""
    choices = generator.integers(plan.choices, size=len(cells)).astype(np.uint32)
    size = plan.randomizer.size
    true = plan.true_answers(cells, choices).astype(np.int64)
    table = np.bincount(choices * size + true, minlength=plan.choices * size)
    table = table.reshape(plan.choices, size)
    reports, keep = table.sum(axis=1), float(plan.randomizer.support.gain)
    if plan.one_hot:
        support = plan.randomizer.support
        totals = generator.binomial(table, float(support.hit))
        totals += generator.binomial(reports[:, np.newaxis] - table, float(support.other))
    else:
        kept = generator.binomial(table, keep)
        rest = generator.multinomial(reports - kept.sum(axis=1), np.full(size, 1 / size))
        totals = (kept + rest)[:, 1:] if plan.transformed else kept + rest
    counts = MarginalCounts(plan=plan, reports=reports, totals=totals.astype(np.int64))
    return LinearEstimate(ReleasedMarginals(survey=SURVEY, counts=counts))


def drawn(n: int, generator: np.random.Generator) -> NDArray[np.uint32]:
    return generator.choice(1 << D, n, p=LAW).astype(np.uint32)


@pytest.mark.parametrize("unary", ["sue", "oue"])
def test_the_cumulants_of_a_set_from_one_hot_bits_are_those_of_every_outcome(unary: Unary) -> None:
    plan = MarginalPlan.with_epsilon("InpRR", d=2, k=2, epsilon=1.5, unary=unary)
    p, q = float(plan.randomizer.support.hit), float(plan.randomizer.support.other)
    law, chosen = np.array([0.5, 0.1, 0.3, 0.1]), np.array([1.0, 1.0, 1.0, 0.0])
    weights = (chosen - chosen.mean()) / (p - q)
    bits = np.array(list(np.ndindex(2, 2, 2, 2)))
    for people, left in (("known", (0.0, 1.0)), ("sampled", (1.0, 1.0))):
        second, third, mean = 0.0, 0.0, float(law @ chosen)
        for cell, share in enumerate(law):
            ones = np.where(np.arange(4) == cell, p, q)
            chances = np.where(bits == 1, ones, 1 - ones).prod(axis=1)
            off = chosen.mean() + (bits - q) @ weights - mean
            off -= 0 if people == "sampled" else chances @ off
            second, third = second + share * chances @ off**2, third + share * chances @ off**3
        found = _one_hot_cumulants(
            plan,
            np.array([chosen.mean()]),
            np.ones(1),
            left=(np.array([left[0]]), np.array([left[1]])),
        ).at(np.array([mean]))
        np.testing.assert_allclose(np.ravel(found), [second, third])


@pytest.mark.parametrize(
    ("method", "unary"),
    [*((method, "sue") for method in METHODS), ("InpRR", "oue"), ("MargRR", "oue")],
)
@pytest.mark.parametrize("consistent", [False, True])
def test_the_variance_at_the_estimate_is_that_of_the_standard_error(
    method: Method, unary: Unary, consistent: bool
) -> None:
    generator = np.random.default_rng(4)
    plan = MarginalPlan.with_epsilon(method, d=D, k=2, epsilon=3.0, unary=unary)
    estimate = estimated(plan, drawn(60_000, generator), generator)
    if consistent:
        estimate = estimate.consistent()
    for names in (("b",), ("c", "a")):
        table: Any = estimate.table(*names)
        law = estimate.source._law(names)
        assert isinstance(law, CumulantLaw)
        np.testing.assert_allclose(law.values, table.values, atol=1e-12)
        sides: list[tuple[About, Floats]] = [
            ("respondents", table.standard_errors),
            ("population", table.population_errors),
        ]
        for about, errors in sides:
            variance, _ = law.cumulants[about].at(table.values)
            # Where coefficients have reports of their own, it may be larger.
            np.testing.assert_allclose(variance, errors**2, rtol=0.35 if consistent else 0.02)
            assert (variance > 0.98 * errors**2).all()
            low, high = table.interval(about=about)
            np.testing.assert_allclose(high - low, 2 * 1.96 * np.sqrt(variance), rtol=0.05)


def test_a_table_of_cells_reported_as_they_are_has_the_law_of_counts() -> None:
    generator = np.random.default_rng(4)
    plan = MarginalPlan.with_epsilon("InpPS", d=D, k=2, epsilon=2.0)
    estimate = estimated(plan, drawn(80, generator), generator)
    table, keep = estimate.table("b", "c"), float(plan.randomizer.support.gain)
    expected = CumulantLaw.of_counts(table.values, 80, other=(1 - keep) / 4, gain=keep)
    for about in ("respondents", "population"):
        for found, ends in zip(
            table.interval(0.9, about), expected.interval(0.9, about), strict=True
        ):
            np.testing.assert_allclose(found, ends, atol=1e-9)


@pytest.mark.parametrize("method", ["MargPS", "MargHT", "InpHT"])
def test_a_mean_of_weights_is_wider_from_a_few_reports(method: Method) -> None:
    generator = np.random.default_rng(4)
    plan = MarginalPlan.with_epsilon(method, d=D, k=2, epsilon=2.0)
    weights = np.array([[0.0, 1.0], [4.0, 2.0]])
    wider = []
    for n in (60, 60_000):
        estimate = estimated(plan, drawn(n, generator), generator)
        found = estimate.query(("c", "a"), weights)
        assert found.standard_error is not None
        # At a low level, whose ends are within the range.
        low, high = found.interval(0.2)
        wider.append(float(high - low) / found.standard_error / (2 * 0.2533471))
    assert wider[0] > 1.05
    assert wider[1] == pytest.approx(1.0, abs=0.01)


def test_what_nobody_reported_on_is_unknown() -> None:
    plan = MarginalPlan.with_epsilon("MargPS", d=D, k=2, epsilon=2.0)
    counts = MarginalCounts(
        plan=plan,
        reports=np.array([5, 0, 0]),
        totals=np.array([[2, 1, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]),
    )
    estimate = LinearEstimate(ReleasedMarginals(survey=SURVEY, counts=counts))
    assert np.isnan(estimate.table("a", "c").interval()).all()
    assert np.isfinite(estimate.table("a", "b").interval()).all()


def test_categories_have_the_intervals_of_their_codes() -> None:
    survey = Survey("three", (Attribute(name="x", categories=("p", "q", "r")),))
    binary = binary_encoding(survey).binary
    plan = MarginalPlan.with_epsilon("InpPS", d=2, k=2, epsilon=2.0)
    counts = MarginalCounts(plan=plan, reports=np.array([40]), totals=np.array([[10, 15, 9, 6]]))
    bits = LinearEstimate(ReleasedMarginals(survey=binary, counts=counts))
    found = LinearEstimate(DecodedBits(survey, bits)).table("x")
    for about in ("respondents", "population"):
        for ends, expected in zip(
            found.interval(about=about),
            bits.table(*binary.names).interval(about=about),
            strict=True,
        ):
            np.testing.assert_array_equal(ends, expected.ravel()[:3])
        np.testing.assert_array_equal(
            found.covariance(about), bits.table(*binary.names).covariance(about)[:3, :3]
        )
