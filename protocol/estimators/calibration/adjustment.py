"""Raking: weights that give randomized records some margins, estimated or known.

RR-Adjustment, Algorithm 2 of Domingo-Ferrer and Soria-Comas, section 5, is iterative proportional
fitting of the randomized records to their estimated margins. With known margins it calibrates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from protocol.errors import NoLikelihoodError
from protocol.estimators.calibration.calibrated import Adjusted, Calibrated
from protocol.estimators.calibration.linear import LinearCalibration
from protocol.estimators.calibration.margins import Margin
from protocol.estimators.calibration.sources import far_shares
from protocol.estimators.counts import Counts, effective_number
from protocol.estimators.estimate import Estimate
from protocol.estimators.linear import LinearEstimate
from protocol.estimators.tables import Cells, Estimated
from protocol.randomizers import join_codes, split_codes
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey

SWEEPS = 100
"""The most sweeps by default. Margins that are compatible with the reports need about ten."""

TOLERANCE = 1e-6
"""The margin error at which sweeps stop by default."""

# How far the total of a target may be from 1: far more than rounding leaves.
_TOTAL_TOLERANCE = 1e-9


class Target(NamedTuple):
    """A distribution that the weighted records are to have on a group of attributes.

    Attributes:
        axes: the places of the attributes among the columns of the records.
        proportions: shape ``(size of the first, size of the second, ...)``: at least 0, with a
            total of 1. An estimate that is negative somewhere has to be projected before.
    """

    axes: tuple[int, ...]
    proportions: Floats


def adjust_records(
    records: Counts | NDArray[np.unsignedinteger],
    targets: Sequence[Target],
    *,
    start: Floats | None = None,
    sweeps: int = SWEEPS,
    tolerance: float = TOLERANCE,
) -> Adjusted:
    """Weigh randomized records so that every group of attributes has its target distribution.

    Every record begins with the weight 1/n. A sweep takes one group after the other and multiplies
    each record's weight by ``target_v / s_v``, where v is the record's cell in the group and s_v
    the weight of all records in that cell. Equal records keep equal weights, so ``Counts`` give the
    same result in less time.

    The paper leaves three cases open:

    - A record in a cell with the target 0, as in a clipped estimate, gets the weight 0 at once. The
      first sweep would give it the same.
    - A cell with a positive target may have no remaining record. Its share cannot be placed: it is
      reported, and the group's other targets are scaled up to a total of 1.
    - Weights that must tend to 0 do so only like 1/sweeps (the paper's Example 1). Sweeps stop once
      the margin error is at most ``tolerance``, or at a limit.

    Args:
        records: codes of shape (n, m), n at least 1, or the counts of distinct records.
        targets: at least one; attributes outside all of them are left as they are.
        start: the weights to begin with, at least 0, shape (n,) or (u,), if not equal ones.
        sweeps: the most sweeps, at least 1.
        tolerance: the margin error at which to stop, at least 0.

    Returns:
        Weights of shape (n,), or (u,) for the u distinct records of ``Counts``: then each is the
        weight of all occurrences together.

    Raises:
        ValueError: no record or target, a limit out of range, or targets that leave no record a
            weight.
    """
    if isinstance(records, Counts):
        codes, counts = records.codes, records.counts
    else:
        codes, counts = records, np.ones(len(records), np.int64)
    if not len(codes) or not targets:
        raise ValueError(f"{len(codes)} records, {len(targets)} targets: expected at least 1 each")
    if sweeps < 1 or not tolerance >= 0:
        raise ValueError(f"{sweeps} sweeps, tolerance {tolerance}: expected at least 1 and 0")
    cells = [
        join_codes(codes[:, target.axes], target.proportions.shape).astype(np.intp)
        for target in targets
    ]
    wanted = [target.proportions.reshape(-1) for target in targets]
    begin = counts if start is None else start
    alive = begin > 0
    for cell, target in zip(cells, wanted, strict=True):
        alive &= (target > 0)[cell]
    if not alive.any():
        raise ValueError("every record is in a cell whose target is 0")
    margins = [_Margin.of(cell[alive], target) for cell, target in zip(cells, wanted, strict=True)]
    unplaced = max(margin.unplaced for margin in margins)
    fitted = _rake(margins, begin[alive] / begin.sum(), sweeps=sweeps, tolerance=tolerance)
    weights = np.zeros(len(codes))
    weights[alive] = fitted.weights
    return Adjusted(
        weights=weights,
        sweeps=fitted.sweeps,
        margin_error=fitted.error,
        converged=fitted.error <= tolerance,
        # A total that only rounding keeps from 1 lacks nothing.
        unplaced=unplaced if unplaced > _TOTAL_TOLERANCE else 0.0,
        effective_n=effective_number(weights, counts),
    )


class _Margin(NamedTuple):
    """A target on the cells that have a record.

    Attributes:
        places: the cell of every record, shape (records,).
        shares: the target of every cell, scaled to a total of 1.
        unplaced: the share of the target in cells without a record.
    """

    places: NDArray[np.intp]
    shares: Floats
    unplaced: float

    @classmethod
    def of(cls, cells: NDArray[np.intp], target: Floats) -> _Margin:
        present = np.zeros(len(target), np.bool_)
        present[cells] = True
        shares = target[present]
        placed = float(shares.sum())
        return cls((np.cumsum(present) - 1)[cells], shares / placed, 1 - placed)

    def found(self, weights: Floats) -> Floats:
        """The weight of the records in every cell."""
        summed = np.bincount(self.places, weights=weights)
        return summed.astype(np.float64, copy=False)

    def factors(self, found: Floats) -> Floats:
        """Ratios of the targets to weights found; 0 where a weight is too small for a float."""
        return np.divide(self.shares, found, out=np.zeros_like(found), where=found > 0)

    def error(self, found: Floats) -> float:
        return float(np.abs(found - self.shares).max())


class _Fitted(NamedTuple):
    weights: Floats
    sweeps: int
    error: float


def _rake(margins: Sequence[_Margin], weights: Floats, *, sweeps: int, tolerance: float) -> _Fitted:
    """Sweep until no margin is further than ``tolerance`` from its target."""
    first, others = margins[0], margins[1:]
    found = first.found(weights)
    for sweep in range(1, sweeps + 1):
        weights = weights * first.factors(found).take(first.places)
        for margin in others:
            weights *= margin.factors(margin.found(weights)).take(margin.places)
        found = first.found(weights)
        error = first.error(found)
        # The other margins are computed only when they may decide.
        if error > tolerance and sweep < sweeps:
            continue
        error = max([error, *(margin.error(margin.found(weights)) for margin in others)])
        if error <= tolerance:
            break
    return _Fitted(weights, sweep, error)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class AdjustedEstimate(Estimate):
    """The randomized records with weights that give them the estimated margins.

    It relies on the dependence between attributes in the reports, which randomization has
    attenuated, so it is biased towards independence. Its standard errors have no closed form and
    are None. Its proportions are non-negative with a total of 1, so a projection leaves them as
    they are.

    Args:
        survey: the survey that was asked.
        counts: the distinct randomized records, columns in the survey's order.
        adjusted: their weights, of ``adjust_records`` on these counts.
        known: margins of the population that were among the targets.
        before: the estimate that was made to agree with them.

    Raises:
        ValueError: counts of other attributes than the survey's, or not one weight per record.
    """

    survey: Survey
    counts: Counts
    adjusted: Adjusted
    known: tuple[Margin, ...] = ()
    before: Estimate | None = None

    def __post_init__(self) -> None:
        if self.counts.sizes != self.survey.sizes:
            raise ValueError(
                f"counts of sizes {self.counts.sizes}, expected {self.survey.sizes} by the survey"
            )
        if self.adjusted.weights.shape != self.counts.counts.shape:
            raise ValueError(
                f"weights of shape {self.adjusted.weights.shape} for {len(self.counts.counts)} "
                "distinct records"
            )

    def __repr__(self) -> str:
        found = self.adjusted
        fit = f"{found.sweeps} sweeps, margin error {found.margin_error:.3g}"
        not_met = "" if found.converged else ", not converged"
        return (
            f"<AdjustedEstimate: n={self.n}, effective n={found.effective_n:.6g}, {fit}{not_met}>"
        )

    @classmethod
    def of(
        cls,
        before: Estimate,
        known: Sequence[Margin] = (),
        *,
        sweeps: int = SWEEPS,
        tolerance: float = TOLERANCE,
    ) -> AdjustedEstimate:
        """Adjust the reports of RR-Independent or RR-Clusters to the estimates of their blocks.

        The targets are the blocks' tables, projected by ``clip`` as in section 6.4. Known margins
        are targets too. The blocks' tables are then calibrated first: linearly, then clipped and
        raked, so that no two targets contradict each other.

        Args:
            before: gives the reports, and the tables of their blocks.
            known: margins of the population.
            sweeps, tolerance: as of ``adjust_records``.

        Raises:
            SurveyError: a margin of an unknown attribute.
            ValueError: no reports of whole records, a block of more than 2**27 cells, as
                ``adjust_records``, or as ``LinearCalibration.of`` if there are margins.
        """
        survey, counts = before.survey, before.whole_reports
        if counts is None:
            raise ValueError(f"{before!r} cannot be raked: expected reports of whole records")
        estimate = LinearEstimate(LinearCalibration.of(before, known)) if known else before
        targets = []
        for names in before.clusters:
            proportions = estimate.table(*names, projection="clip").values
            targets.append(Target(survey.axes(names), _raked(proportions, names, known)))
        # Last, since the last ones of a sweep are met exactly.
        targets += [Target(survey.axes(margin.names), margin.shares) for margin in known]
        adjusted = adjust_records(counts, targets, sweeps=sweeps, tolerance=tolerance)
        return cls(survey, counts, adjusted, tuple(known), before)

    @property
    def n(self) -> int:
        """The number of reports."""
        return self.counts.n

    @property
    def calibration(self) -> Calibrated:
        """Calibration by raking; errors are unknown."""
        far = [] if self.before is None else far_shares(self.before, self.known)
        fit = self.adjusted
        return Calibrated("raking", self.known, far, False, fit.effective_n, fit)

    def cells(self, names: tuple[str, ...]) -> Cells:
        """The weight of the records in every combination of categories, without standard errors."""
        return Cells(self._weighted(names))

    def reported(self, names: Sequence[str]) -> NoReturn:
        raise NoLikelihoodError("RR-Adjustment weighs reports and has no likelihood")

    def mean(self, names: tuple[str, ...], weights: Floats) -> Estimated:
        """The weighted mean of a weight that depends on some attributes, without standard error."""
        return Estimated(float(np.sum(self._weighted(names) * weights)), None)

    def _weighted(self, names: Sequence[str]) -> Floats:
        return self.counts.weighted_table(self.survey.axes(names), self.adjusted.weights)


def _raked(proportions: Floats, names: Sequence[str], known: Sequence[Margin]) -> Floats:
    """A table raked to the known distributions of its attributes."""
    targets = []
    for margin in known:
        common = [name for name in names if name in margin.names]
        if common:
            axes = tuple(names.index(name) for name in common)
            targets.append(Target(axes, margin.on(common)))
    if not targets:
        return proportions
    shape = proportions.shape
    cells = split_codes(np.arange(proportions.size, dtype=np.uint64), shape, np.dtype(np.uint64))
    fitted = adjust_records(cells, targets, start=proportions.reshape(-1))
    return fitted.weights.reshape(shape)
