"""Post-stratification of unmixed reports: shares within strata, weighted by their known sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from protocol.estimators.calibration.calibrated import Calibrated
from protocol.estimators.calibration.margins import Margin, checked_margins
from protocol.estimators.calibration.residuals import Residual
from protocol.estimators.calibration.sources import Varying, along, each_cell, far_shares, varying
from protocol.estimators.estimate import Estimate
from protocol.estimators.linear import LinearEstimate
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey, listed

CLEAR = 4.0
"""The fewest standard errors of every stratum's share above 0; else errors are unknown.

The estimate is a ratio. Where the stratum may be empty, its error has another law.
"""

_HELD = 2**22
"""The most scores that are held at once."""

_MOST_SCORES = 2**28
"""The most scores of a table with errors: its cells times the reports that they depend on."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PostStratification(Residual):
    """Estimates within strata, weighted by their known sizes: ``sum_a M_a pi_va / pi_a``.

    ``pi_va`` and ``pi_a`` are unbiased estimates from randomized reports, so it is signed. It is
    right where strata have different response rates, if those who respond in a stratum are like the
    rest of it. The variance about the population is that of the linearized scores
    ``sum_a M_a / pi_a (h_va(y) - pi_va / pi_a h_a(y))``, times n/(n - strata) (Sarndal, Swensson
    and Wretman, Model Assisted Survey Sampling, 1992, section 7.6). About the respondents errors
    are unknown.

    Args:
        survey: the survey that was asked.
        before: the estimate to calibrate.
        known: the sizes of the strata.
        factors: ``M_a / pi_a`` of each, of the shape of its shares; ``of`` makes them.
    """

    survey: Survey
    before: Varying
    known: Margin
    factors: Floats

    @classmethod
    def of(cls, estimate: Estimate, known: Margin) -> PostStratification:
        """Calibrate by strata.

        Raises:
            SurveyError, ValueError: as ``checked_margins`` and ``varying``, or nobody is
                estimated to be in a stratum that is known not to be empty.
        """
        checked_margins(estimate.survey, [known])
        before = varying(estimate)
        estimated = before.table(known.names)
        empty = np.argwhere((known.shares > 0) & ~(estimated > 0))
        if len(empty):
            attributes = map(estimate.survey.attribute, known.names)
            cell = [a.categories[code] for a, code in zip(attributes, empty[0], strict=True)]
            raise ValueError(
                f"stratum {listed(cell)}: its estimated share is not above 0, so it cannot be "
                "weighted; join it with another"
            )
        factors = np.divide(
            known.shares, estimated, out=np.zeros(estimated.shape), where=known.shares > 0
        )
        factors.flags.writeable = False
        return cls(estimate.survey, before, known, factors)

    def __repr__(self) -> str:
        strata = " x ".join(self.known.names)
        return f"<PostStratification: n={self.n}, {self.factors.size} strata of {strata}>"

    @property
    def calibration(self) -> Calibrated:
        """Calibration by strata."""
        far = far_shares(LinearEstimate(self.before.source), [self.known])
        return Calibrated("post-stratified", (self.known,), far, self.clear)

    @property
    def clear(self) -> bool:
        """True if every stratum is estimated well enough for errors (``CLEAR``)."""
        found = self.before.cells(self.known.names)
        needed = self.known.shares.ravel() > 0
        return bool((found.values >= CLEAR * np.sqrt(found.variances / self.n))[needed].all())

    def residual(self, names: tuple[str, ...], weights: Floats | None) -> tuple[Floats, Floats]:
        """Residual as in ``Residual.residual``."""
        if weights is None:
            weights = each_cell(self.survey.sizes_of(names))
        strata = self.known.names
        together = (*names, *(name for name in strata if name not in names))
        sizes = self.survey.sizes_of(together)
        factors = along(self.factors, strata, together)
        table = self.before.table(together)
        others = tuple(1 + axis for axis, name in enumerate(together) if name not in strata)
        estimated = self.before.table(strata)
        present = np.divide(1, estimated, out=np.zeros(estimated.shape), where=self.factors > 0)
        reports = self.before.count_reports(together)
        known = self.clear and len(weights) * reports <= _MOST_SCORES
        rows = max(1, _HELD // max(reports, math.prod(sizes)))
        values, left = np.empty(len(weights)), np.full(len(weights), np.nan)
        free = self.n - self.factors.size
        for start in range(0, len(weights), rows):
            part = slice(start, start + rows)
            some = weights[part].reshape(-1, *sizes[: len(names)], *[1] * (len(sizes) - len(names)))
            inside = (some * table).sum(axis=others, keepdims=True)
            values[part] = (inside * factors).reshape(len(some), -1).sum(axis=1)
            if known and free > 0:
                linear = factors * (some - inside * along(present, strata, together))
                left[part] = np.maximum(self.before.sums(together, linear).variances, 0.0) / free
        return values, left
