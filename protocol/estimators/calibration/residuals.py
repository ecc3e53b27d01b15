"""Errors of calibrated estimates about the population: those of the residuals of scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from protocol.estimators.calibration.scores import Moments
from protocol.estimators.inference.laws import ErrorLaw, NormalLaw, Variance

Floats = NDArray[np.float64]


def residual_errors(raw: Moments, left: Floats) -> Floats:
    """The standard errors that residuals leave; NaN where the reports are too few to tell.

    Args:
        raw: of the scores before.
        left: the estimated variances of the calibrated cells, of the table's shape.
    """
    return np.sqrt(np.where(raw.variances > 0, left, np.nan))


def residual_law(raw: Moments, values: Floats, left: Floats) -> ErrorLaw:
    """The law of a calibrated table's errors, about the population alone.

    Before calibration the variance of a cell depends on its true share in a known way
    (``Moments.slopes``). The part of it that is left is taken for the same whatever the share is.

    Args:
        raw, left: as for ``residual_errors``.
        values: the calibrated shares.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(raw.variances > 0, left / raw.variances, np.nan)
    base = raw.squares - raw.slopes * raw.values
    variance = Variance(part * base, part * raw.slopes, -part)
    return NormalLaw(values=values, variances={"population": variance})
