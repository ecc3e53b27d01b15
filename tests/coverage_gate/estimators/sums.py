"""Secure sums: exact counts, and counts of randomized pairs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from protocol.estimators.linear import LinearEstimate
from protocol.estimators.releases.exact import ExactTables
from protocol.variants.sums.pair_rr import PairRR
from protocol.variants.sums.tallies import all_pairs
from tests.coverage_gate.cases import Counted, Drawn, Estimator, Said
from tests.coverage_gate.estimators.surveys import (
    filled,
    first_cell,
    numbers,
    said_of,
    survey_of,
    two_valued,
)
from tests.coverage_gate.grid import Point, between, fraction, grid
from tests.coverage_gate.laws import drawn, kept_together, uneven


def exact(point: Point) -> Iterator[Counted]:
    """True counts of an attribute."""
    r = point.categories
    survey, n = survey_of((r,)), point.respondents(point.share)

    def said(count: int) -> list[Said]:
        return said_of(
            LinearEstimate(ExactTables(survey, {("a",): filled(count, n, r)})), "a", count=True
        )

    return two_valued(n, point.share, hit=1.0, other=0.0, said=said)


def exact_pair(point: Point, rng: np.random.Generator) -> Iterator[Drawn]:
    """True counts of two attributes."""
    r = point.categories
    survey, law = survey_of((r, r)), uneven((r, r), point.share)
    truth = drawn(rng, point.respondents(point.share), law)
    yield from numbers(
        LinearEstimate(ExactTables(survey, {("a", "b"): truth})), ("a", "b"), truth, law
    )


def pairs(point: Point, rng: np.random.Generator) -> Iterator[Drawn]:
    """Three attributes, every pair randomized by itself: a pair, and an attribute of two pairs."""
    r, p = point.categories, point.keep
    survey, law = survey_of((r, r, r)), uneven((r, r, r), point.share)
    pair = law.sum(axis=2)
    chance = p * float(pair[0, 0]) + (1 - p) / r**2
    truth = drawn(rng, point.respondents(chance), law)
    tables = {
        names: kept_together(rng, truth.sum(axis=rest), p)
        for names, rest in zip(all_pairs(survey), (2, 1, 0), strict=True)
    }
    everybody = int(truth.sum())
    estimate = PairRR.with_keep(survey, p).estimate_of(tables, everybody, everybody)
    yield from numbers(estimate, ("a", "b"), truth.sum(axis=2), pair, prefix="pair: ")
    yield from first_cell(estimate, "a", truth.sum(axis=(1, 2)), pair.sum(axis=1))


ESTIMATORS = (
    Estimator("secure-sum", grid(keeps=(0.5,), categories=(2, 10)), counted=exact),
    Estimator("secure-sum, between the points", between((2,)), counted=exact),
    Estimator("pair-counts", fraction((2, 3, 10)), drawn=exact_pair),
    Estimator("pair-rr", fraction((2, 3)), drawn=pairs),
)
