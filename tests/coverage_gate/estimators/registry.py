"""All estimators that are measured."""

from __future__ import annotations

from tests.coverage_gate.cases import Estimator
from tests.coverage_gate.estimators import (
    calibrated,
    clusters,
    comparisons,
    keyvalues,
    marginals,
    numeric,
    oracles,
    reports,
    rrba,
    sums,
)

ESTIMATORS: tuple[Estimator, ...] = (
    *reports.ESTIMATORS,
    *sums.ESTIMATORS,
    *clusters.ESTIMATORS,
    *rrba.ESTIMATORS,
    *marginals.ESTIMATORS,
    *keyvalues.ESTIMATORS,
    *oracles.ESTIMATORS,
    *numeric.ESTIMATORS,
    *comparisons.ESTIMATORS,
    *calibrated.ESTIMATORS,
)
