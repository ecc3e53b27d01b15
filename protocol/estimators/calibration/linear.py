"""Linear calibration: signed weights of reports with which estimates agree with known margins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from protocol.estimators.calibration.margins import Margin, checked_margins
from protocol.estimators.calibration.residuals import (
    residual_errors,
    residual_law,
    residual_mean,
)
from protocol.estimators.calibration.scores import (
    MarginScores,
    covariances,
    functional_scores,
    margin_scores,
    moments,
    unmixed,
)
from protocol.estimators.counts import effective_number
from protocol.estimators.estimate import Estimate
from protocol.estimators.joint import JointEstimate
from protocol.estimators.projection import Projection
from protocol.estimators.tables import Estimated, Table
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey

ENOUGH = 50
"""The fewest reports for each free cell of the margins, or errors are unknown.

With fewer, what the margins seem to explain of a rare cell is chance.
"""

_MET = 1e-6
# An eigenvalue that is smaller beside the largest is the rounding of 0: shares add up to 1.
_ROUNDING = 1e-9


class Weighting(NamedTuple):
    """How reports were weighted to meet known margins.

    Attributes:
        margins: their scores.
        inverse: the pseudo-inverse of the covariance of these, shape (d, d).
        weights: of all occurrences of every distinct report together, shape (u,), with a total of
            1. Some may be negative.
    """

    margins: MarginScores
    inverse: Floats
    weights: Floats


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class CalibratedEstimate(Estimate):
    """Estimates for a population whose margins are known.

    Every report has the weight ``(1 + (M - m)' V^-1 (h(y) - m)) / n``: h(y) are its scores of the
    margins' cells, m their mean and V their covariance over the reports, and M is what is known. It
    is the linear calibration of Deville and Sarndal (Calibration Estimators in Survey Sampling,
    JASA 87, 1992, section 1) with unmixed reports for auxiliary variables. All tables agree with
    the margins and with each other, and are signed.

    The variance about the population is that of the residuals of scores, times n/(n - rank of V).
    About the respondents errors are unknown: their own margins are. They are unknown too with fewer
    than ``ENOUGH`` reports for each free cell of the margins.

    Args:
        survey: what was asked.
        joint: of the reports.
        known: the margins.
        weighting: the weights; ``of`` makes them.
    """

    survey: Survey
    joint: JointEstimate
    known: tuple[Margin, ...]
    weighting: Weighting

    @classmethod
    def of(cls, joint: JointEstimate, known: Sequence[Margin]) -> CalibratedEstimate:
        """Weigh reports.

        Raises:
            SurveyError, ValueError: as ``checked_margins`` and ``margin_scores``, or no weights
                meet the margins.
        """
        given = checked_margins(joint.survey, known)
        found = margin_scores(joint, given)
        inverse = np.asarray(
            np.linalg.pinv(found.covariance, rcond=_ROUNDING, hermitian=True), np.float64
        )
        change = inverse @ (found.known - found.estimated)
        weights = (1 + (found.scores - found.estimated) @ change) * joint.counts.counts / joint.n
        missed = float(np.abs(weights @ found.scores - found.known).max())
        if not missed <= _MET:
            raise ValueError(f"no weights of the reports meet the margins: one is {missed:.3g} off")
        weights.flags.writeable = False
        return cls(joint.survey, joint, given, Weighting(found, inverse, weights))

    def __repr__(self) -> str:
        known = ", ".join(" x ".join(margin.names) for margin in self.known)
        return f"<CalibratedEstimate: n={self.n}, effective n={self.effective_n:.6g}, to {known}>"

    @property
    def n(self) -> int:
        """The number of reports."""
        return self.joint.n

    @property
    def effective_n(self) -> float:
        """Kish's effective sample size of the weights (``effective_number``)."""
        return effective_number(self.weighting.weights, self.joint.counts.counts)

    def table(self, *names: str, projection: Projection = "none") -> Table:
        """The calibrated joint distribution of some attributes, in any order.

        A cell that the margins determine has an error of 0 about the population.
        """
        raw = moments(self.joint, names)
        values = unmixed(self.joint, names, self.weighting.weights)
        together = covariances(self.joint, names, self.weighting.margins)
        left = raw.variances - self._explained(together).reshape(values.shape)
        # What the margins determine has no error, up to rounding.
        left = np.where(left > _ROUNDING * raw.squares, left * self._factor, 0.0)
        return self._table(
            names,
            projection,
            values,
            population_errors=residual_errors(raw, left),
            law=residual_law(self.joint, names, raw, values, left),
        )

    def query(self, names: Sequence[str], weights: ArrayLike) -> Estimated:
        """The calibrated mean of a weight; the standard error given the data is unknown."""
        given = self.checked_weights(names, weights)
        scores = functional_scores(self.joint, names, given[np.newaxis])[:, 0]
        shares = self.joint.counts.counts / self.n
        centred = scores - shares @ scores
        found = self.weighting.margins
        together = ((shares * centred) @ (found.scores - found.estimated))[np.newaxis]
        left = shares @ centred**2 - self._explained(together)[0]
        left = float(left) * self._factor if left > _ROUNDING * (shares @ scores**2) else 0.0
        value = self.weighting.weights @ scores
        return residual_mean(float(value), float(left), given)

    @property
    def _factor(self) -> float:
        """What the mean square of residuals is multiplied by to be the variance of an estimate."""
        rank = int(np.linalg.matrix_rank(self.weighting.inverse, hermitian=True))
        return 1 / (self.n - rank) if self.n >= ENOUGH * rank else float("nan")

    def _explained(self, together: Floats) -> Floats:
        """The part of variances that the margins' scores explain, by covariances with them."""
        explained: Floats = np.sum(together @ self.weighting.inverse * together, axis=1)
        return explained
