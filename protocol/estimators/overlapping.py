"""Overlapping tables made to agree: Randomized Response Block Aggregation (RRBA), section 4.3.

Tables estimated from different groups of respondents have different marginals of common attributes.
The nearest tables that agree have a closed form for any pattern of overlaps
(``Overlaps.agreeing``). Only non-negativity takes iterations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey
from protocol.wire.arrays import MAX_TABLE_CELLS

Names: TypeAlias = tuple[str, ...]

ITERATIONS = 10_000
"""The most projections: noisy tables need a few hundred at most."""

TOLERANCE = 1e-12
"""Largest share of a table, on average, that would still have to move for the optimum."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Shared:
    """Tables with common attributes: t tables, with a common marginal of c cells.

    Attributes:
        places: the places of the cells of these tables in the vector of all cells.
        cells: for each of these, the row of its table times c, plus its cell in the marginal.
        outside: the number of cells of each table that add up to a cell of the marginal, (t, 1).
        weights: the weight of each table, (t, 1).
    """

    places: NDArray[np.intp]
    cells: NDArray[np.intp]
    outside: Floats
    weights: Floats

    def marginals(self, values: Floats) -> Floats:
        """The common marginal as each table has it, (t, c)."""
        summed: Floats = np.bincount(self.cells, values[self.places]).astype(np.float64, copy=False)
        return summed.reshape(len(self.weights), -1)


class Overlaps:
    """Common parts of some tables.

    Args:
        tables: finite, by the names of their attributes, of shape ``(size of the first, ...)``.
        survey: the survey that was asked.
        weights: of each table, positive: its number of reports.

    Raises:
        ValueError: tables of more than 2**27 cells in all, each times its sets of attributes.
    """

    def __init__(
        self, tables: Mapping[Names, Floats], survey: Survey, weights: Mapping[Names, float]
    ) -> None:
        if sum(table.size * 2**table.ndim for table in tables.values()) > MAX_TABLE_CELLS:
            raise ValueError(
                "tables too large to be made to agree: cells times sets of attributes, expected at "
                f"most {MAX_TABLE_CELLS}"
            )
        self._tables, self._survey, self._weights = tables, survey, weights
        self._ends = np.cumsum([table.size for table in tables.values()])
        self.values = np.concatenate([table.ravel() for table in tables.values()])
        members: dict[Names, list[int]] = {}
        for number, names in enumerate(tables):
            for common in _subsets(sorted(names, key=survey.index)):
                members.setdefault(common, []).append(number)
        # If the same tables share one more attribute, agreement on the fewer follows.
        implied: set[Names] = set()
        for common, numbers in members.items():
            if common:
                fewer = combinations(common, len(common) - 1)
                implied.update(names for names in fewer if len(members[names]) == len(numbers))
        self._totals = self._sharing((), members.pop(()))
        # From few attributes to many: see ``agreeing``.
        self._shared = [
            self._sharing(common, numbers)
            for common, numbers in sorted(members.items(), key=lambda item: len(item[0]))
            if len(numbers) > 1 and common not in implied
        ]

    def _sharing(self, common: Names, numbers: Sequence[int]) -> _Shared:
        given = list(self._tables.items())
        size = math.prod(self._survey.attribute(name).size for name in common)
        where, cells, outside = [], [], []
        for row, number in enumerate(numbers):
            names, table = given[number]
            where.append(np.arange(self._ends[number] - table.size, self._ends[number]))
            cells.append(_cells_along(table.shape, [names.index(n) for n in common]) + row * size)
            outside.append(table.size / size)
        return _Shared(
            places=np.concatenate(where),
            cells=np.concatenate(cells),
            outside=np.array(outside)[:, np.newaxis],
            weights=np.array([[self._weights[given[number][0]]] for number in numbers]),
        )

    def disagreement(self) -> float:
        """The largest difference between the common marginals of two tables, in any cell."""
        spreads = (np.ptp(shared.marginals(self.values), axis=0).max() for shared in self._shared)
        return float(max(spreads, default=0.0))

    def agreeing(self, values: Floats) -> Floats:
        """The nearest signed tables of total 1 that agree.

        A marginal changes at least if the change is spread evenly over the cells that add up to it.
        Once the marginals of fewer attributes agree, such a change leaves them as they are, for it
        sums to 0 along each attribute, and it is orthogonal to all changes before; so one pass is
        the projection. A table in which many cells add up to one is cheaper to change.
        """
        total = self._totals
        agreed = values + ((1 - total.marginals(values)) / total.outside).ravel()[total.cells]
        for shared in self._shared:
            marginals = shared.marginals(agreed)
            pulls = shared.weights / shared.outside
            mean = (pulls * marginals).sum(axis=0) / pulls.sum()
            change = (mean - marginals) / shared.outside
            agreed[shared.places] += change.ravel()[shared.cells]
        return agreed

    def nearest(self) -> dict[Names, Floats]:
        """The tables of total 1 that agree, have no negative entry and are nearest to these.

        They minimize ``sum_t w_t ||X_t - T_t||**2``. Dykstra's corrections for non-negativity are
        multipliers: with them added to the tables, the result is a projection alone. It is optimal
        where in every entry it or its multiplier is 0 and both are at least 0. The corrections are
        gradient steps on the dual problem, so they are taken with Nesterov's momentum, restarted
        when it leads astray. At the end a trace of the uniform table, which agrees with everything,
        is mixed in until no entry is negative; so the tables agree up to rounding, however early
        the iterations stop.

        In this norm the result is no farther from the truth than the given tables.
        """
        multipliers = ahead = np.zeros(len(self.values))
        pace = 1.0
        for _ in range(ITERATIONS):
            values = self.agreeing(self.values + ahead)
            corrected = np.maximum(ahead - values, 0.0)
            missing = ahead - corrected
            if float(np.abs(missing).sum()) <= TOLERANCE * len(self._tables):
                break
            step = corrected - multipliers
            if np.vdot(missing, step) > 0:
                pace = 1.0
            following = (1 + math.sqrt(1 + 4 * pace**2)) / 2
            ahead = corrected + (pace - 1) / following * step
            multipliers, pace = corrected, following
        uniform = (1 / self._totals.outside).ravel()[self._totals.cells]
        below = np.maximum(-values, 0.0)
        share = float((below / (uniform + below)).max())
        mixed = np.maximum((1 - share) * values + share * uniform, 0.0)
        parts = np.split(mixed, self._ends[:-1])
        return {
            names: part.reshape(table.shape)
            for (names, table), part in zip(self._tables.items(), parts, strict=True)
        }


def _subsets(names: Sequence[str]) -> chain[Names]:
    """Every subset of some names, from the empty one to all, each in their order."""
    return chain.from_iterable(combinations(names, size) for size in range(len(names) + 1))


def _cells_along(shape: Sequence[int], axes: Sequence[int]) -> NDArray[np.intp]:
    """Place of every cell of a table in a marginal, in row-major order."""
    grid = np.indices(shape, np.intp, sparse=True)
    cells = np.zeros((), np.intp)
    for axis in axes:
        cells = cells * shape[axis] + grid[axis]
    return np.broadcast_to(cells, shape).ravel()
