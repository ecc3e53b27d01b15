"""Errors of calibrated estimates about the population: those of the residuals of scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from protocol.estimators.calibration.sources import Skewed, Source
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.cumulants import CumulantLaw
from protocol.estimators.inference.laws import ErrorLaw, NormalLaw, Variance
from protocol.estimators.tables import Cells, Estimated
from protocol.randomizers.exact import Floats


def residual_cells(
    estimate: Estimate, source: Source, names: Sequence[str], values: Floats, left: Floats
) -> Cells:
    """A calibrated table, with errors about the population alone.

    Before calibration the variance and skewness of a cell depend on its true share in a known way
    (``Source.skewed``). The part of the variance that is left is taken for the same whatever the
    share is, as if all errors had become so much smaller. Errors are NaN where the reports are too
    few to tell.

    Args:
        estimate: calibrated.
        source: before.
        names: the table's attributes.
        values: the calibrated shares, in row-major order.
        left: their estimated variances.
    """
    shape = estimate.sizes_of(names)
    raw = source.cells(names)
    values, left = values.reshape(shape), left.reshape(shape)
    before = np.where(raw.variances > 0, raw.variances, np.nan).reshape(shape)
    errors = np.sqrt(np.where(np.isnan(before), np.nan, left))
    told = source.estimate.table(*names).population_errors
    if told is not None:
        # What the margins determine is exact, however few reports there are.
        errors = np.where(np.isnan(told) & (errors > 0), np.nan, errors)
    return Cells(
        values,
        population_errors=errors,
        law=_residual_law(source.skewed(names), values, left, np.sqrt(estimate.n * left / before)),
    )


def residual_mean(
    estimate: Estimate,
    source: Source,
    names: Sequence[str],
    weights: Floats,
    value: float,
    left: float,
) -> Estimated:
    """The calibrated mean of a weight, with an error about the population alone.

    Its law follows from that before calibration, as that of a table's cells does.

    Args:
        estimate, source, names: as for ``residual_cells``.
        weights: of the table's cells.
        value: the mean.
        left: its estimated variance.
    """
    [before] = source.sums(names, weights[np.newaxis]).variances
    part = np.sqrt(estimate.n * left / before) if before > 0 else np.nan
    law = _residual_law(
        source.skewed_mean(names, weights),
        np.asarray(value),
        np.asarray(left),
        np.asarray(part),
        least=float(weights.min()),
        most=float(weights.max()),
    )
    return Estimated(value, None, law)


def _residual_law(
    skewed: Skewed | None,
    values: Floats,
    left: Floats,
    part: Floats,
    *,
    least: float = 0.0,
    most: float = 1.0,
) -> ErrorLaw:
    # What the margins determine is within the range but for rounding.
    values = np.where(part == 0, np.clip(values, least, most), values)
    if skewed is None:
        variance = Variance(left)
        return NormalLaw(values=values, variances={"population": variance}, least=least, most=most)
    return CumulantLaw(
        values=values,
        cumulants={"population": skewed.cumulants.times(part)},
        steps=skewed.steps * np.where(part == 0, 1.0, part),
        least=least,
        most=most,
    )
