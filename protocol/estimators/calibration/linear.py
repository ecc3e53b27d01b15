"""Linear calibration: estimates move by their regression on margins that are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from protocol.estimators.calibration.calibrated import Calibrated, FarShare
from protocol.estimators.calibration.margins import Margin, checked_margins
from protocol.estimators.calibration.residuals import Residual
from protocol.estimators.calibration.sources import (
    Sums,
    Varying,
    VaryingReports,
    far_shares,
    varying,
)
from protocol.estimators.counts import effective_number
from protocol.estimators.estimate import Estimate
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey

ENOUGH = 50
"""The fewest reports for each free cell of the margins, or errors are unknown.

With fewer, the margins explain a rare cell by chance alone.
"""

_MET = 1e-6
# Eigenvalues below this part of the largest are 0 but for rounding, as shares add up to 1.
_ROUNDING = 1e-9


class Regression(NamedTuple):
    """Regression of estimates on known margins.

    Attributes:
        inverse: the pseudo-inverse of n times the covariance of the margins' cells, shape (d, d).
        change: this times the known margins less the estimated ones, shape (d,); the factor of
            covariances with the margins.
        weights: of all occurrences of every distinct report together, shape (u,), with a total of
            1, some perhaps negative; None without reports of single respondents.
    """

    inverse: Floats
    change: Floats
    weights: Floats | None


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class LinearCalibration(Residual):
    """Estimates for a population with known margins.

    Every table t becomes ``t + C V^-1 (M - m)``: m are the estimated margins and V their
    covariance, C is that of the table with them, and M are the known margins. For reports it is the
    linear calibration of Deville and Sarndal (Calibration Estimators in Survey Sampling, JASA 87,
    1992, section 1) with unmixed reports for auxiliary variables: report y has the weight
    ``(1 + (M - m)' V^-1 (h(y) - m)) / n`` with h(y) its scores of the margins' cells. All tables
    agree with the margins and with each other, and are signed.

    The variance about the population is that of the residuals of scores, times n/(n - rank of V).
    Errors about the respondents are unknown, as their own margins are. Errors about the population
    are unknown with fewer than ``ENOUGH`` reports for each free cell of the margins, and of a table
    that no release has together with each margin, as its covariances are then guessed.

    All errors are unknown where the reports contradict the margins (``far_shares``). The
    respondents are then no random sample of the population, and calibration corrects only a part of
    the bias. ``PostStratification`` is right there.

    Args:
        survey: the survey that was asked.
        before: the estimate to calibrate.
        known: the margins.
        regression: ``of`` makes it.
        far: the known shares that the reports contradict.
    """

    survey: Survey
    before: Varying
    known: tuple[Margin, ...]
    regression: Regression
    far: tuple[FarShare, ...] = ()

    @classmethod
    def of(cls, estimate: Estimate, known: Sequence[Margin]) -> LinearCalibration:
        """Calibrate.

        Raises:
            SurveyError, ValueError: as ``checked_margins`` and ``varying``, or the margins cannot
                be met.
        """
        given = checked_margins(estimate.survey, known)
        before = varying(estimate, given)
        covariance = before.margin_covariances()
        inverse = np.asarray(np.linalg.pinv(covariance, rcond=_ROUNDING, hermitian=True))
        wanted = np.concatenate([margin.shares.ravel() for margin in given]) - before.estimated()
        change = inverse @ wanted
        missed = float(np.abs(covariance @ change - wanted).max())
        if not missed <= _MET:
            raise ValueError(
                f"{estimate!r} cannot be made to agree with the margins: one is {missed:.3g} off"
            )
        weights = None
        if isinstance(before, VaryingReports):
            joint = before.source
            weights = (1 + before.centred @ change) * joint.counts.counts / joint.n
            weights.flags.writeable = False
        regression = Regression(inverse, change, weights)
        return cls(estimate.survey, before, given, regression, tuple(far_shares(estimate, given)))

    def __repr__(self) -> str:
        known = ", ".join(" x ".join(margin.names) for margin in self.known)
        number = self.effective_n
        effective = "" if number is None else f" effective n={number:.6g},"
        return f"<LinearCalibration: n={self.n},{effective} to {known}>"

    @property
    def calibration(self) -> Calibrated:
        """Linear."""
        return Calibrated("linear", self.known, self.far, self.clear, self.effective_n)

    @property
    def clear(self) -> bool:
        """True if errors are known: enough reports, which do not contradict the margins."""
        return bool(np.isfinite(self._factor)) and not self.far

    @property
    def effective_n(self) -> float | None:
        """Kish's effective sample size of the weights (``effective_number``), if there are any."""
        weights = self.regression.weights
        if weights is None or not isinstance(self.before, VaryingReports):
            return None
        return effective_number(weights, self.before.source.counts.counts)

    def residual(self, names: tuple[str, ...], weights: Floats | None) -> tuple[Floats, Floats]:
        """Residual as in ``Residual.residual``; a cell that the margins determine has no error."""
        if weights is None:
            raw, together = self.before.cells(names), self.before.covariances(names)
        else:
            raw = self.before.sums(names, weights)
            together = self.before.sum_covariances(names, weights)
        values: Floats = raw.values + together @ self.regression.change
        return values, self._variances_left(raw, together, names)

    def _variances_left(self, raw: Sums, together: Floats, names: Sequence[str]) -> Floats:
        """Rest of the variances of some sums about the population."""
        if any(set(names) <= set(margin.names) for margin in self.known):
            return np.zeros(raw.variances.shape)
        if not (self.clear and self.before.together(names)):
            return np.full(raw.variances.shape, np.nan)
        explained = np.sum(together @ self.regression.inverse * together, axis=1)
        left = raw.variances - explained
        # Sums that the margins determine in other ways have no error, up to rounding.
        return np.where(left > _ROUNDING * raw.scales, left * self._factor, 0.0)

    @property
    def _factor(self) -> float:
        """Factor from the mean square of residuals to the variance of an estimate."""
        rank = int(np.linalg.matrix_rank(self.regression.inverse, hermitian=True))
        return 1 / (self.n - rank) if self.n >= ENOUGH * rank else float("nan")
