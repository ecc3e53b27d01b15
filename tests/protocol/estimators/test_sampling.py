"""Nonresponse and design effects: bounds by hand, and clusters drawn many times."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import Attribute, Block, Counts, JointReports, KeepUniform, LinearEstimate, Survey
from protocol.estimators.counts import effective_number
from protocol.estimators.design_effects import PartMargins, design_effects
from protocol.estimators.response import Response

P = 0.6
SURVEY = Survey("one", (Attribute(name="a", categories=("x", "y")),))
BLOCKS = (Block(("a",), KeepUniform.with_keep(2, p=P)),)


def estimate_of(reports: NDArray[np.int64]) -> LinearEstimate[JointReports]:
    return LinearEstimate(JointReports(SURVEY, BLOCKS, Counts.from_table(reports)))


def test_bounds_are_what_the_others_could_say() -> None:
    response = Response(asked=100, answered=80)
    assert response.rate == 0.8
    assert response.widest == pytest.approx(0.2)
    low, high = response.bounds([0.25, 0.75])
    # 20 of 80 in the first cell: 20 of 100 if none of the others is, 40 of 100 if all are.
    np.testing.assert_allclose(low, [0.2, 0.6])
    np.testing.assert_allclose(high, [0.4, 0.8])
    assert math.isnan(Response(0, 0).rate)


def test_the_effective_number_is_kishs() -> None:
    assert effective_number(np.full(7, 0.3), np.ones(7, np.int64)) == pytest.approx(7)
    # Three records of weight 1 and two of weight 2.
    found = effective_number(np.array([3.0, 4.0]), np.array([3, 2]))
    assert found == pytest.approx(7**2 / (3 + 2 * 4))


def clustered(
    seed: int, rho: float, *, parties: int = 40, size: int = 25
) -> list[LinearEstimate[JointReports]]:
    """Parties whose own shares vary so that the correlation inside is rho, about a mean of .3."""
    draw = np.random.default_rng(seed)
    both = 1 / rho - 1 if rho else math.inf
    shares = draw.beta(0.3 * both, 0.7 * both, parties) if rho else np.full(parties, 0.3)
    sizes = draw.integers(size // 2, 3 * size // 2, parties)
    ones = draw.binomial(sizes, P * shares + (1 - P) / 2)
    return [estimate_of(np.array([k, n - k])) for k, n in zip(ones, sizes, strict=True)]


def whole_of(parts: list[LinearEstimate[JointReports]]) -> LinearEstimate[JointReports]:
    return estimate_of(np.sum([part.source.counts.table([0]) for part in parts], axis=0))


def effects(rho: float, runs: int) -> tuple[float, float, float]:
    """The mean effect and variance that are estimated, and the variance between runs."""
    values, variances, found = [], [], []
    for seed in range(runs):
        parts = clustered(seed, rho)
        whole = whole_of(parts)
        design = design_effects(whole, [PartMargins.of(part) for part in parts])
        assert design is not None
        values.append(whole.table("a").values[0])
        variances.append(design.errors["a"][0] ** 2)
        found.append(design.effects["a"][0])
    return float(np.mean(found)), float(np.mean(variances)), float(np.var(values))


@pytest.mark.slow
def test_the_variance_between_parties_is_that_between_samples() -> None:
    alone, estimated, true = effects(0.0, 200)
    assert alone == pytest.approx(1, abs=0.05)
    assert estimated == pytest.approx(true, rel=0.3)
    alike, estimated, true = effects(0.2, 200)
    assert estimated == pytest.approx(true, rel=0.3)
    assert alike > 1.8


def test_by_hand() -> None:
    parts = [estimate_of(np.array(counts)) for counts in ([8, 2], [3, 7], [11, 9])]
    whole = whole_of(parts)
    design = design_effects(whole, [PartMargins.of(part) for part in parts])
    assert design is not None
    shares = [(k / n - (1 - P) / 2) / P for k, n in ((8, 10), (3, 10), (11, 20))]
    mean = (22 / 40 - (1 - P) / 2) / P
    squares = sum((n * (s - mean)) ** 2 for s, n in zip(shares, (10, 10, 20), strict=True))
    assert design.errors["a"][0] ** 2 == pytest.approx(3 / 2 * squares / 40**2)
    single = 22 / 40 * 18 / 40 / P**2 / 40
    assert design.effects["a"][0] == pytest.approx(design.errors["a"][0] ** 2 / single)
    assert design.extremes == pytest.approx((design.effects["a"].min(), design.effects["a"].max()))


def test_parts_that_are_not_those_of_the_whole() -> None:
    parts = clustered(0, 0.2)
    margins = [PartMargins.of(part) for part in parts]
    assert design_effects(whole_of(parts[1:]), margins) is None
    assert design_effects(parts[0], margins[:1]) is None
    swapped = [margins[0]._replace(n=margins[1].n), margins[1]._replace(n=margins[0].n)]
    assert margins[0].n != margins[1].n
    assert design_effects(whole_of(parts[:2]), swapped) is None
