"""Errors of calibrated estimates about the population: those of the residuals of scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from protocol.estimators.calibration.sources import Skewed, Varying
from protocol.estimators.inference.cumulants import CumulantLaw
from protocol.estimators.inference.laws import ErrorLaw, NormalLaw, Variance
from protocol.estimators.linear import Source
from protocol.estimators.tables import Cells, Estimated
from protocol.randomizers.exact import Floats


class Residual(Source):
    """Calibrated shares, with errors about the population only.

    Before calibration the variance and skewness of a share are known functions of the true share
    (``Varying.skewed``). The part of the variance that is left is taken to be the same for every
    share, as if all errors had become smaller by one factor. Errors are NaN with too few reports.

    Attributes:
        before: to be calibrated.
    """

    __slots__ = ()

    before: Varying

    @abstractmethod
    def residual(self, names: tuple[str, ...], weights: Floats | None) -> tuple[Floats, Floats]:
        """Calibrated sums of a table's cells, and their estimated variances, shape (s,) each.

        Args:
            names: the attributes.
            weights: shape ``(s, size of the first, size of the second, ...)``; None for the cells.
        """

    @property
    def n(self) -> int:
        """The number of respondents."""
        return self.before.source.n

    @property
    def clusters(self) -> Sequence[tuple[str, ...]]:
        """The clusters before calibration."""
        return self.before.source.clusters

    def cells(self, names: tuple[str, ...]) -> Cells:
        """The calibrated joint distribution of some attributes."""
        shape = self.survey.sizes_of(names)
        values, left = (each.reshape(shape) for each in self.residual(names, None))
        variances = self.before.cells(names).variances
        before = np.where(variances > 0, variances, np.nan).reshape(shape)
        errors = np.sqrt(np.where(np.isnan(before), np.nan, left))
        uncalibrated = self.before.source.cells(names).population_errors
        if uncalibrated is not None:
            # Cells that the margins determine are exact, even with few reports.
            errors = np.where(np.isnan(uncalibrated) & (errors > 0), np.nan, errors)
        part = np.sqrt(self.n * left / before)
        law = _residual_law(self.before.skewed(names), values, left, part)
        return Cells(values, population_errors=errors, law=law)

    def mean(self, names: tuple[str, ...], weights: Floats) -> Estimated:
        """The calibrated mean of a weight; the standard error given the data is unknown."""
        [value], [left] = self.residual(names, weights[np.newaxis])
        [before] = self.before.sums(names, weights[np.newaxis]).variances
        part = np.sqrt(self.n * left / before) if before > 0 else np.nan
        law = _residual_law(
            self.before.skewed_mean(names, weights),
            np.asarray(value),
            np.asarray(left),
            np.asarray(part),
            least=float(weights.min()),
            most=float(weights.max()),
        )
        return Estimated(float(value), None, law)


def _residual_law(
    skewed: Skewed | None,
    values: Floats,
    left: Floats,
    part: Floats,
    *,
    least: float = 0.0,
    most: float = 1.0,
) -> ErrorLaw:
    # Values that the margins determine are out of range by rounding alone.
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
