"""RR-Independent, RR-Joint and RR-Ind-Joint: reports of single respondents."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from protocol import Block, JointReports, KeepUniform, LinearEstimate, ProductEstimate
from protocol import Counts as Histogram
from protocol.variants import RRIndependent, RRIndJoint, RRJoint
from tests.coverage_gate.cases import Counted, Drawn, Estimator, Said
from tests.coverage_gate.estimators.surveys import (
    filled,
    numbers,
    said_of,
    scores_of,
    subset_of,
    survey_of,
    two_valued,
)
from tests.coverage_gate.grid import Point, between, fraction, grid
from tests.coverage_gate.laws import Floats, drawn, kept_apart, kept_together, uneven


def one_attribute(point: Point) -> Iterator[Counted]:
    """An attribute that was randomized by itself."""
    r, p = point.categories, point.keep
    survey = survey_of((r,))
    blocks = RRIndependent.with_keep(survey, p).blocks
    other = (1 - p) / r
    n = point.respondents(point.share * p + other)

    def said(count: int) -> list[Said]:
        counts = Histogram.from_table(filled(count, n, r))
        return said_of(LinearEstimate(JointReports(survey, blocks, counts)), "a", count=True)

    return two_valued(n, point.share, hit=p + other, other=other, said=said)


def margin_of_joint(point: Point) -> Iterator[Counted]:
    """An attribute of two that were randomized together."""
    r, p = point.categories, point.keep
    survey = survey_of((r, 3))
    blocks = RRJoint.with_keep(survey, p).blocks
    other = (1 - p) / r
    n = point.respondents(point.share * p + other)

    def said(count: int) -> list[Said]:
        table = np.stack([filled(int(part), int(all_), r) for part, all_ in _thirds(count, n)])
        counts = Histogram.from_table(table.T)
        return said_of(LinearEstimate(JointReports(survey, blocks, counts)), "a")

    return two_valued(n, point.share, hit=p + other, other=other, said=said)


def _thirds(count: int, n: int) -> list[tuple[int, int]]:
    """A count and n, spread over three columns."""
    rest = n - count
    parts = [(count // 3 + (i < count % 3), rest // 3 + (i < rest % 3)) for i in range(3)]
    return [(some, some + others) for some, others in parts]


def chance_apart(point: Point) -> float:
    """The chance that a report counts for the first cell of two attributes randomized apart."""
    r, p = point.categories, point.keep
    law = uneven((r, r), point.share)
    spread = np.full((r, r), (1 - p) / r) + p * np.eye(r)
    return float((spread.T @ law @ spread)[0, 0])


def two_apart(point: Point, rng: np.random.Generator) -> Iterator[Drawn]:
    """Two attributes that were randomized by themselves, and estimated jointly."""
    r, p = point.categories, point.keep
    survey, law = survey_of((r, r)), uneven((r, r), point.share)
    truth = drawn(rng, point.respondents(chance_apart(point)), law)
    reports = kept_apart(rng, truth, p)
    blocks = RRIndJoint.with_keep(survey, p).blocks
    estimate = LinearEstimate(JointReports(survey, blocks, Histogram.from_table(reports)))
    yield from numbers(estimate, ("a", "b"), truth, law)


def two_together(point: Point, rng: np.random.Generator) -> Iterator[Drawn]:
    """Two attributes that were randomized as one."""
    r, p = point.categories, point.keep
    survey, law = survey_of((r, r)), uneven((r, r), point.share)
    chance = p * point.share + (1 - p) / r**2
    truth = drawn(rng, point.respondents(chance), law)
    reports = kept_together(rng, truth, p)
    blocks = (Block(survey.names, KeepUniform.with_keep(r * r, p=p)),)
    estimate = LinearEstimate(JointReports(survey, blocks, Histogram.from_table(reports)))
    yield from numbers(estimate, ("a", "b"), truth, law)


def product(point: Point, rng: np.random.Generator) -> Iterator[Drawn]:
    """The product of the margins, about that of the true margins."""
    r, p = point.categories, point.keep
    survey, law = survey_of((r, r)), uneven((r, r), point.share)
    truth = drawn(rng, point.respondents(chance_apart(point)), law)
    reports = kept_apart(rng, truth, p)
    blocks = RRIndependent.with_keep(survey, p).blocks
    estimate = ProductEstimate(
        LinearEstimate(JointReports(survey, blocks, Histogram.from_table(reports)))
    )
    n = int(truth.sum())
    shares = np.outer(truth.sum(axis=1), truth.sum(axis=0)) / n**2
    margins = np.outer(law.sum(axis=1), law.sum(axis=0))
    for one in numbers(estimate, ("a", "b"), truth, margins):
        weights = _WEIGHTS[one.said.target](margins.shape)
        yield one._replace(respondents=float((shares * weights).sum()))


def first_of(shape: tuple[int, ...]) -> Floats:
    """The weights of the first cell."""
    weights = np.zeros(shape)
    weights[(0,) * len(shape)] = 1.0
    return weights


_WEIGHTS = {"cell": first_of, "set": subset_of, "scores": scores_of}

ESTIMATORS = (
    Estimator("rr-independent, an attribute", grid(), counted=one_attribute),
    Estimator(
        "rr-independent, an attribute, between the points",
        between((2, 10)),
        counted=one_attribute,
    ),
    Estimator("rr-joint, an attribute of two", grid(categories=(2, 10)), counted=margin_of_joint),
    Estimator("rr-joint, two attributes", fraction((2, 3, 10)), drawn=two_together),
    Estimator("rr-ind-joint, two attributes", fraction((2, 3, 10)), drawn=two_apart),
    Estimator("product of margins", fraction((2, 3, 10)), drawn=product),
)
