"""Estimates that agree with a known margin, about the population that it is of.

About the respondents they say nothing, so that is not measured.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np

from protocol import (
    CombinedReleases,
    Estimate,
    Estimated,
    JointReports,
    LinearEstimate,
    Margin,
    Release,
    calibrate,
)
from protocol import Counts as Histogram
from protocol.estimators.calibration.calibrated import Method
from protocol.variants import RRIndJoint
from tests.coverage_gate.cases import Drawn, Estimator, Said
from tests.coverage_gate.estimators.reports import chance_apart
from tests.coverage_gate.estimators.surveys import first_cell, numbers, survey_of
from tests.coverage_gate.grid import Point, fraction
from tests.coverage_gate.laws import drawn, kept_apart, uneven

HALF = (1.0, 0.5)
"""How likely somebody responds, by her code of the second attribute, in turn."""


def known_second(
    method: Method, releases: int, point: Point, rng: np.random.Generator
) -> Iterator[Drawn]:
    """Two attributes that were randomized apart, of which the margin of the second is known.

    Where strata are weighted, they respond differently.
    """
    r, p = point.categories, point.keep
    survey, law = survey_of((r, r)), uneven((r, r), point.share)
    n = point.respondents(chance_apart(point))
    responding = law
    if method == "post-stratified":
        responding = law * np.resize(HALF, r)
        responding /= responding.sum()
    truth, blocks = drawn(rng, n, responding), RRIndJoint.with_keep(survey, p).blocks
    joints = [
        LinearEstimate(
            JointReports(survey, blocks, Histogram.from_table(kept_apart(rng, truth, p)))
        )
        for _ in range(releases)
    ]
    estimate: Estimate = joints[0]
    if releases > 1:
        estimate = LinearEstimate(
            CombinedReleases(
                survey, tuple(Release.of_reports(one.source) for one in joints), joints[0].source
            )
        )
    try:
        found = calibrate(estimate, [Margin(("b",), law.sum(axis=0))], method=method)
    except ValueError:
        # A stratum seems to be empty, or all reports are alike.
        for target in ("cell", "set", "scores", "attribute: cell"):
            yield Drawn(Said(target, Estimated(math.nan, None), unbiased=False), math.nan, 0.5)
        return
    shares, margin = truth.sum(axis=1), law.sum(axis=1)
    yield from map(_of_population, numbers(found, ("a", "b"), truth, law))
    yield from map(_of_population, first_cell(found, "a", shares, margin))


def _of_population(one: Drawn) -> Drawn:
    return one._replace(respondents=math.nan)


ESTIMATORS = (
    Estimator(
        "calibrated, linear",
        fraction((2, 3)),
        drawn=functools.partial(known_second, "linear", 1),
    ),
    Estimator(
        "calibrated, linear, two releases",
        fraction((2, 3)),
        drawn=functools.partial(known_second, "linear", 2),
    ),
    Estimator(
        "calibrated, post-stratified",
        fraction((2, 3)),
        drawn=functools.partial(known_second, "post-stratified", 1),
    ),
)
