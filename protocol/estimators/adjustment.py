"""RR-Adjustment: weights that give randomized records the estimated margins.

Algorithm 2 of Domingo-Ferrer and Soria-Comas, section 5, which is iterative proportional fitting
on the randomized records, and the estimate that consists of the records and their weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.estimators.counts import Counts
from protocol.estimators.estimate import Estimate
from protocol.estimators.joint import JointEstimate
from protocol.estimators.projection import Projection
from protocol.estimators.tables import Estimated, Table
from protocol.randomizers import join_codes
from protocol.surveys.survey import Survey
from protocol.wire.arrays import MAX_TABLE_CELLS

Floats = NDArray[np.float64]
Entry = TypeVar("Entry", bound=np.generic)

SWEEPS = 100
"""The most sweeps by default. Margins that are compatible with the reports need about ten."""

TOLERANCE = 1e-6
"""The margin error at which sweeps stop by default."""

# How far the total of a target may be from 1: far more than rounding leaves.
_TOTAL_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Target:
    """A distribution that the weighted records are to have on a group of attributes.

    Attributes:
        axes: the places of the attributes among the columns of the records, each at most once.
        proportions: shape ``(size of the first, size of the second, ...)``: at least 0, with a
            total of 1. An estimate that is negative somewhere has to be projected before.
    """

    axes: tuple[int, ...]
    proportions: Floats

    def __post_init__(self) -> None:
        if not self.axes or len(set(self.axes)) < len(self.axes) or min(self.axes) < 0:
            raise ValueError(f"axes {self.axes}: expected at least one, and none repeated")
        if self.proportions.ndim != len(self.axes):
            raise ValueError(
                f"target of shape {self.proportions.shape}: expected {len(self.axes)} axes"
            )
        _check_target(self.proportions)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Adjusted:
    """Weights, and how well they fit.

    Attributes:
        weights: at least 0, with a total of 1 (but for rounding): one per record, per distinct
            record or per cell, as the records were given.
        sweeps: how often every group was adjusted.
        margin_error: the largest ``|weighted margin - target|`` over all groups and cells, after
            the last sweep; targets as rescaled where a part of them could not be placed.
        converged: whether the margin error is within the tolerance.
        unplaced: the largest share of a group's target that lies on cells in which no record can
            have a weight. 0 unless a category is missing from the reports.
    """

    weights: Floats
    sweeps: int
    margin_error: float
    converged: bool
    unplaced: float

    def __post_init__(self) -> None:
        self.weights.flags.writeable = False


def adjust_records(
    records: Counts | NDArray[np.unsignedinteger],
    targets: Sequence[Target],
    *,
    sweeps: int = SWEEPS,
    tolerance: float = TOLERANCE,
) -> Adjusted:
    """Weigh randomized records so that every group of attributes has its target distribution.

    Every record begins with the weight 1/n. A sweep takes one group after the other and multiplies
    each record's weight by ``target_v / s_v``, where v is the record's cell in the group and s_v
    the weight of all records in that cell. Records that are equal keep equal weights, so working
    on ``Counts`` gives the same result in less time.

    What the paper leaves open: a record in a cell whose target is 0 (a clipped estimate has such)
    gets the weight 0 at once, as the first sweep would give it. A cell with a positive target that
    no remaining record is in has s_v = 0: its mass can be placed nowhere, the group's other
    targets are scaled up to a total of 1, and the share that was lost is reported. Sweeps stop as
    soon as the margin error is at most ``tolerance``; weights that must tend to 0 get there only
    like 1/sweeps (the paper's Example 1), so there is a limit.

    Args:
        records: codes of shape (n, m), n at least 1, or the counts of distinct records.
        targets: at least one; attributes outside all of them are left as they are.
        sweeps: the most sweeps, at least 1.
        tolerance: the margin error at which to stop, at least 0.

    Returns:
        Weights of shape (n,), or (u,) for the u distinct records of ``Counts``: then each is the
        weight of all occurrences together.

    Raises:
        ValueError: no record or target, an attribute that the records do not have, a code outside
            its target, a limit out of range, or targets that leave no record a weight.
    """
    if isinstance(records, Counts):
        codes, start = records.codes, records.counts / max(records.n, 1)
    else:
        codes, start = records, np.full(len(records), 1 / max(len(records), 1))
    if codes.ndim != 2 or not len(codes):
        raise ValueError(f"records of shape {codes.shape}: expected (n, m), n >= 1")
    cells = [_cells_of(codes, target) for target in targets]
    wanted = [target.proportions.reshape(-1) for target in targets]
    alive = np.ones(len(codes), np.bool_)
    for cell, target in zip(cells, wanted, strict=True):
        alive &= (target > 0)[cell]
    if not alive.any():
        raise ValueError("every record is in a cell whose target is 0")
    everyone = bool(alive.all())
    places: list[NDArray[np.intp]] = []
    shares: list[Floats] = []
    for cell, target in zip(cells, wanted, strict=True):
        kept = cell if everyone else cell[alive]
        # Cells that nobody is in are left out, so that a sweep costs what the records cost.
        present = np.zeros(len(target), np.bool_)
        present[kept] = True
        places.append((np.cumsum(present) - 1)[kept])
        shares.append(target[present])
    weighted = _Records(start if everyone else start[alive], places)
    fitted = _fit(weighted, shares, sweeps=sweeps, tolerance=tolerance)
    weights = np.zeros(len(codes))
    weights[alive] = fitted.weights
    return replace(fitted, weights=weights)


def adjust_table(
    table: ArrayLike,
    targets: Sequence[ArrayLike],
    *,
    sweeps: int = SWEEPS,
    tolerance: float = TOLERANCE,
) -> Adjusted:
    """The same adjustment on a contingency table with one axis per group.

    It gives the cells the weights that ``adjust_records`` gives to all records in them together.

    Args:
        table: non-negative counts or shares of any number of axes, not all 0.
        targets: one distribution per axis, of the axis's length.
        sweeps: the most sweeps, at least 1.
        tolerance: the margin error at which to stop, at least 0.

    Returns:
        Weights of the table's shape.

    Raises:
        ValueError: a table or targets of another kind, a limit out of range, or targets that leave
            no cell a weight.
    """
    counts = np.asarray(table, np.float64)
    if not counts.ndim or not np.isfinite(counts).all() or counts.min(initial=0) < 0:
        raise ValueError("table: expected finite non-negative entries and at least one axis")
    wanted = [np.asarray(target, np.float64) for target in targets]
    if tuple(target.shape for target in wanted) != tuple((size,) for size in counts.shape):
        raise ValueError(
            f"targets of shapes {[target.shape for target in wanted]} for a table of "
            f"shape {counts.shape}"
        )
    for target in wanted:
        _check_target(target)
    alive = counts > 0
    for axis, target in enumerate(wanted):
        alive &= _along(target > 0, axis, counts.ndim)
    if not alive.any():
        raise ValueError("every cell that is not empty has a target of 0")
    grid = _Grid(np.where(alive, counts, 0.0) / counts.sum())
    shares = [np.where(alive.any(axis=grid.others(a)), t, 0.0) for a, t in enumerate(wanted)]
    return _fit(grid, shares, sweeps=sweeps, tolerance=tolerance)


class _Weighted(Protocol):
    """Weights that can be summed up and scaled group by group, in place."""

    weights: Floats

    def margin(self, group: int) -> Floats: ...

    def scale(self, group: int, factors: Floats) -> None: ...


class _Records:
    """A weight per record; ``places`` has every record's cell in each group."""

    __slots__ = ("places", "weights")

    def __init__(self, start: Floats, places: Sequence[NDArray[np.intp]]) -> None:
        self.weights = start.copy()
        self.places = places

    def margin(self, group: int) -> Floats:
        summed = np.bincount(self.places[group], weights=self.weights)
        return summed.astype(np.float64, copy=False)

    def scale(self, group: int, factors: Floats) -> None:
        self.weights *= factors.take(self.places[group])


class _Grid:
    """A weight per cell of a table whose axes are the groups."""

    __slots__ = ("weights",)

    def __init__(self, start: Floats) -> None:
        self.weights = start

    def others(self, axis: int) -> tuple[int, ...]:
        return tuple(other for other in range(self.weights.ndim) if other != axis)

    def margin(self, group: int) -> Floats:
        summed: Floats = self.weights.sum(axis=self.others(group))
        return summed

    def scale(self, group: int, factors: Floats) -> None:
        self.weights *= _along(factors, group, self.weights.ndim)


def _fit(
    weighted: _Weighted, shares: Sequence[Floats], *, sweeps: int, tolerance: float
) -> Adjusted:
    """Sweep over all groups until their margins are the shares, each rescaled to a total of 1."""
    if sweeps < 1 or not tolerance >= 0:
        raise ValueError(f"{sweeps} sweeps, tolerance {tolerance}: expected at least 1 and 0")
    if not shares:
        raise ValueError("no target")
    wanted = [share / share.sum() for share in shares]
    margin = weighted.margin(0)
    for sweep in range(1, sweeps + 1):
        for group, target in enumerate(wanted):
            if group:
                margin = weighted.margin(group)
            # Nothing to divide where a weight has become too small for a float, or never was one.
            factors = np.divide(target, margin, out=np.zeros_like(target), where=margin > 0)
            weighted.scale(group, factors)
        margin = weighted.margin(0)
        error = float(np.abs(margin - wanted[0]).max())
        # The other margins are only looked at when they may decide.
        if error > tolerance and sweep < sweeps:
            continue
        for group, target in enumerate(wanted[1:], 1):
            error = max(error, float(np.abs(weighted.margin(group) - target).max()))
        if error <= tolerance:
            break
    unplaced = 1 - min(float(share.sum()) for share in shares)
    return Adjusted(
        weights=weighted.weights,
        sweeps=sweep,
        margin_error=error,
        converged=error <= tolerance,
        # A total that only rounding keeps from 1 lacks nothing.
        unplaced=unplaced if unplaced > _TOTAL_TOLERANCE else 0.0,
    )


def _check_target(proportions: Floats) -> None:
    if not np.isfinite(proportions).all() or proportions.min(initial=0) < 0:
        raise ValueError("a target has an entry that is negative or not finite: project it first")
    if abs(proportions.sum() - 1) > _TOTAL_TOLERANCE:
        raise ValueError(f"a target has a total of {proportions.sum()}, expected 1")


def _cells_of(codes: NDArray[np.unsignedinteger], target: Target) -> NDArray[np.intp]:
    if max(target.axes) >= codes.shape[1]:
        raise ValueError(f"axes {target.axes}: the records have {codes.shape[1]} attributes")
    return join_codes(codes[:, target.axes], target.proportions.shape).astype(np.intp)


def _along(vector: NDArray[Entry], axis: int, axes: int) -> NDArray[Entry]:
    return vector.reshape([-1 if other == axis else 1 for other in range(axes)])


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class AdjustedEstimate(Estimate):
    """The randomized records with weights that give them the estimated margins.

    It relies on what is left in the reports of the relations between attributes, which
    randomization has attenuated; so it is biased towards independence, and there is no closed form
    for its standard errors: tables and queries have None in their place. Its proportions are
    non-negative with a total of 1, so a projection leaves them as they are.

    Args:
        survey: what was asked.
        counts: the distinct randomized records, columns in the survey's order.
        adjusted: their weights, of ``adjust_records`` on these counts.

    Raises:
        ValueError: counts of other attributes than the survey's, or not one weight per record.
    """

    survey: Survey
    counts: Counts
    adjusted: Adjusted

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
        fit = f"{self.adjusted.sweeps} sweeps, margin error {self.adjusted.margin_error:.3g}"
        return f"<AdjustedEstimate: n={self.n}, {fit}>"

    @classmethod
    def of(
        cls, joint: JointEstimate, *, sweeps: int = SWEEPS, tolerance: float = TOLERANCE
    ) -> AdjustedEstimate:
        """Adjust the reports of RR-Independent or RR-Clusters to the estimates of their blocks.

        The targets are the blocks' tables, projected by ``clip`` as in section 6.4.

        Raises:
            ValueError: a block of more than 2**27 cells, or as ``adjust_records``.
        """
        targets = [
            Target(
                axes=joint.survey.axes(block.attributes),
                proportions=joint.table(*block.attributes, projection="clip").values,
            )
            for block in joint.blocks
        ]
        adjusted = adjust_records(joint.counts, targets, sweeps=sweeps, tolerance=tolerance)
        return cls(joint.survey, joint.counts, adjusted)

    @property
    def n(self) -> int:
        """The number of reports."""
        return self.counts.n

    def table(self, *names: str, projection: Projection = "none") -> Table:
        """The weight of the records in every combination of categories, without standard errors.

        Raises:
            SurveyError: an unknown or repeated name.
            ValueError: no name, more than 2**27 cells, or an unknown projection.
        """
        raw = Table(
            names=names,
            categories=tuple(self.survey.attribute(name).categories for name in names),
            values=self._weighted(names),
            standard_errors=None,
            population_errors=None,
            n=self.n,
        )
        return raw.projected(projection)

    def query(self, names: Sequence[str], weights: ArrayLike) -> Estimated:
        """The weighted mean of a weight that depends on some attributes; no standard error.

        Raises:
            SurveyError, ValueError: as for every estimate.
        """
        given = self.checked_weights(names, weights)
        return Estimated(float(np.sum(self._weighted(names) * given)), None)

    def _weighted(self, names: Sequence[str]) -> Floats:
        if not names:
            raise ValueError("expected at least one attribute")
        axes = self.survey.axes(names)
        shape = tuple(self.survey.sizes[axis] for axis in axes)
        cells = math.prod(shape)
        if cells > MAX_TABLE_CELLS:
            raise ValueError(f"a table of {cells} cells, more than {MAX_TABLE_CELLS}")
        joint = join_codes(self.counts.codes[:, axes], shape).astype(np.intp)
        summed = np.bincount(joint, weights=self.adjusted.weights, minlength=cells)
        return summed.astype(np.float64, copy=False).reshape(shape)
