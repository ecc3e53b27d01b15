"""Errors of calibrated estimates about the population: those of the residuals of scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from protocol.estimators.calibration.scores import ScoreMoments
from protocol.estimators.inference.cumulants import CumulantLaw
from protocol.estimators.inference.laws import ErrorLaw, NormalLaw, Variance
from protocol.estimators.joint import JointEstimate
from protocol.estimators.tables import Estimated
from protocol.randomizers.exact import Floats


def residual_errors(raw: ScoreMoments, left: Floats) -> Floats:
    """The standard errors that residuals leave; NaN where the reports are too few to tell.

    Args:
        raw: of the scores before.
        left: the estimated variances of the calibrated cells, of the table's shape.
    """
    return np.sqrt(np.where(raw.variances > 0, left, np.nan))


def residual_law(
    joint: JointEstimate, names: Sequence[str], raw: ScoreMoments, values: Floats, left: Floats
) -> ErrorLaw:
    """The law of a calibrated table's errors, about the population alone.

    Before calibration the variance and skewness of a cell depend on its true share in a known way
    (``JointEstimate.scores``). The part of the variance that is left is taken for the same whatever
    the share is, as if all errors had become so much smaller.

    Args:
        joint: of the reports.
        names: the table's attributes.
        raw, left: as for ``residual_errors``.
        values: the calibrated shares.
    """
    before = joint.scores(names)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.sqrt(np.where(raw.variances > 0, joint.n * left / raw.variances, np.nan))
    return CumulantLaw(
        # What the margins determine is a share but for rounding.
        values=np.where(part == 0, np.clip(values, 0.0, 1.0), values),
        cumulants={"population": before.cumulants(joint.n, "population").times(part)},
        steps=before.step / joint.n * np.where(part == 0, 1.0, part),
    )


def residual_mean(value: float, left: float, weights: Floats) -> Estimated:
    """The calibrated mean of a weight, with a normal error about the population alone.

    Args:
        value: the mean.
        left: its estimated variance.
        weights: between the least and the largest of which the mean is.
    """
    law = NormalLaw(
        values=np.asarray(value),
        variances={"population": Variance(left)},
        least=float(weights.min()),
        most=float(weights.max()),
    )
    return Estimated(value, None, law)
