"""Post-stratification of unmixed reports: shares within strata, weighted by their known sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from protocol.estimators.calibration.margins import Margin, checked_margins
from protocol.estimators.calibration.residuals import (
    residual_errors,
    residual_law,
    residual_mean,
)
from protocol.estimators.calibration.scores import functional_table, moments, unmixed
from protocol.estimators.estimate import Estimate
from protocol.estimators.joint import JointEstimate
from protocol.estimators.projection import Projection
from protocol.estimators.tables import Estimated, Table
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey, listed

CLEAR = 4.0
"""The number of standard errors that every stratum's share is above 0, or errors are unknown.

The estimate is a ratio of what was estimated in the stratum, whose error has a law of its own where
the stratum may be empty.
"""

_HELD = 2**22
"""The most scores that are held at once."""

MAX_TABLE_SCORES = 2**28
"""The most scores of a table, its cells times the reports that they depend on, that have errors."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PostStratifiedEstimate(Estimate):
    """Estimates within strata, weighted by the known sizes of these: ``sum_a M_a pi_va / pi_a``.

    ``pi_va`` and ``pi_a`` are unbiased estimates from randomized reports, so it is signed. It is
    right where strata respond differently, as long as those who respond in a stratum are like the
    rest of it. The variance about the population is that of the linearized scores
    ``sum_a M_a / pi_a (h_va(y) - pi_va / pi_a h_a(y))``, times n/(n - strata) (Sarndal, Swensson
    and Wretman, Model Assisted Survey Sampling, 1992, section 7.6). About the respondents errors
    are unknown.

    Args:
        survey: what was asked.
        joint: of the reports.
        known: the sizes of the strata.
        factors: ``M_a / pi_a`` of each, of the shape of its shares; ``of`` makes them.
    """

    survey: Survey
    joint: JointEstimate
    known: Margin
    factors: Floats

    @classmethod
    def of(cls, joint: JointEstimate, known: Margin) -> PostStratifiedEstimate:
        """Weigh strata.

        Raises:
            SurveyError, ValueError: as ``checked_margins``, or nobody is estimated to be in a
                stratum that is known not to be empty.
        """
        checked_margins(joint.survey, [known])
        estimated = unmixed(joint, known.names)
        empty = np.argwhere((known.shares > 0) & ~(estimated > 0))
        if len(empty):
            attributes = map(joint.survey.attribute, known.names)
            cell = [a.categories[code] for a, code in zip(attributes, empty[0], strict=True)]
            raise ValueError(
                f"stratum {listed(cell)}: its estimated share is not above 0, so it cannot be "
                "weighted; join it with another"
            )
        factors = np.divide(
            known.shares, estimated, out=np.zeros(estimated.shape), where=known.shares > 0
        )
        factors.flags.writeable = False
        return cls(joint.survey, joint, known, factors)

    def __repr__(self) -> str:
        strata = " x ".join(self.known.names)
        return f"<PostStratifiedEstimate: n={self.n}, {self.factors.size} strata of {strata}>"

    @property
    def n(self) -> int:
        """The number of reports."""
        return self.joint.n

    @property
    def clear(self) -> bool:
        """Whether every stratum is estimated well enough to tell errors (``CLEAR``)."""
        errors = np.sqrt(moments(self.joint, self.known.names).variances / self.n)
        needed = self.known.shares > 0
        return bool((unmixed(self.joint, self.known.names) >= CLEAR * errors)[needed].all())

    def table(self, *names: str, projection: Projection = "none") -> Table:
        """The post-stratified joint distribution of some attributes, in any order."""
        raw = moments(self.joint, names)
        cells = np.eye(raw.values.size).reshape(-1, *raw.values.shape)
        values, left = self._sums(names, cells)
        values = values.reshape(raw.values.shape)
        left = left.reshape(values.shape)
        return self._table(
            names,
            projection,
            values,
            population_errors=residual_errors(raw, left),
            law=residual_law(self.joint, names, raw, values, left),
        )

    def query(self, names: Sequence[str], weights: ArrayLike) -> Estimated:
        """The post-stratified mean of a weight; the standard error given the data is unknown."""
        given = self.checked_weights(names, weights)
        [value], [left] = self._sums(names, given[np.newaxis])
        return residual_mean(float(value), float(left), given)

    def _sums(self, names: Sequence[str], weights: Floats) -> tuple[Floats, Floats]:
        """Weighted sums of a table's cells, and their variances.

        Args:
            names: the attributes of the table.
            weights: shape ``(sums, size of the first, size of the second, ...)``.
        """
        strata = self.known.names
        together = (*names, *(name for name in strata if name not in names))
        sizes = self.sizes_of(together)
        factors = self._along(self.factors, together)
        table = unmixed(self.joint, together)
        others = tuple(1 + axis for axis, name in enumerate(together) if name not in strata)
        estimated = unmixed(self.joint, strata)
        present = np.divide(1, estimated, out=np.zeros(estimated.shape), where=self.factors > 0)
        asked = self.joint.asked(together)
        reports = asked.shares.reshape(-1)
        known = self.clear and len(weights) * len(reports) <= MAX_TABLE_SCORES
        rows = max(1, _HELD // max(len(reports), math.prod(sizes)))
        values, left = np.empty(len(weights)), np.full(len(weights), np.nan)
        free = self.n - self.factors.size
        for start in range(0, len(weights), rows):
            part = slice(start, start + rows)
            some = weights[part].reshape(-1, *sizes[: len(names)], *[1] * (len(sizes) - len(names)))
            inside = (some * table).sum(axis=others, keepdims=True)
            values[part] = (inside * factors).reshape(len(some), -1).sum(axis=1)
            if known and free > 0:
                linear = factors * (some - inside * self._along(present, together))
                scores = functional_table(asked, together, linear).reshape(len(some), -1)
                left[part] = scores**2 @ reports / free
        return values, left

    def _along(self, of_strata: Floats, names: Sequence[str]) -> Floats:
        """One number for each stratum, along its axes of a table of these attributes."""
        strata = self.known.names
        order = [strata.index(name) for name in names if name in strata]
        sizes = [self.sizes_of([name])[0] if name in strata else 1 for name in names]
        return of_strata.transpose(order).reshape(sizes)
