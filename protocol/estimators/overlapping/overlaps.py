"""What tables of overlapping attributes have in common."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol.surveys.survey import Survey
from protocol.wire.arrays import MAX_TABLE_CELLS

Floats: TypeAlias = NDArray[np.float64]
Names: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shared:
    """Tables that have the same attributes in common: t of them, with a marginal of c cells.

    Attributes:
        places: where the cells of these tables are in the vector of all cells.
        cells: for each of these, its table's row times c plus its cell in the marginal.
        outside: how many cells of each table add up to a cell of the marginal, (t, 1).
        weights: of each table, (t, 1).
    """

    places: NDArray[np.intp]
    cells: NDArray[np.intp]
    outside: Floats
    weights: Floats

    def marginals(self, values: Floats) -> Floats:
        """The common marginal as each table has it, (t, c)."""
        summed: Floats = np.bincount(self.cells, values[self.places]).astype(np.float64, copy=False)
        return summed.reshape(len(self.weights), -1)

    def spread(self, values: Floats) -> float:
        """The largest range of a cell of the marginal over the tables."""
        return float(np.ptp(self.marginals(values), axis=0).max())


class Overlaps:
    """Tables in one vector, and what they have in common."""

    def __init__(
        self,
        named: Iterable[tuple[Names, Floats]],
        survey: Survey,
        weights: Sequence[float] | None = None,
    ) -> None:
        given = list(named)
        if not given:
            raise ValueError("expected at least one table")
        for names, table in given:
            check_table(names, table, survey)
        if sum(table.size * 2**table.ndim for _, table in given) > MAX_TABLE_CELLS:
            raise ValueError(
                "tables too large: cells times sets of attributes, expected at most "
                f"{MAX_TABLE_CELLS}"
            )
        pulls = np.ones(len(given)) if weights is None else np.asarray(weights, np.float64)
        if not (np.isfinite(pulls).all() and pulls.min() > 0):
            raise ValueError("a weight is not a positive finite number")
        self._shapes = [table.shape for _, table in given]
        self._ends = np.cumsum([table.size for _, table in given])
        self.values = np.concatenate([np.asarray(t, np.float64).ravel() for _, t in given])
        members: dict[tuple[int, ...], list[int]] = {}
        places = [survey.axes(names) for names, _ in given]
        for number, axes in enumerate(places):
            for common in subsets(sorted(axes)):
                members.setdefault(common, []).append(number)
        # What exactly the same tables have in common with one more attribute follows from that.
        implied = {
            smaller
            for common, numbers in members.items()
            for smaller in combinations(common, max(len(common) - 1, 0))
            if len(smaller) < len(common) and len(members[smaller]) == len(numbers)
        }
        every = members.pop(())
        common_to_some = [c for c, ns in members.items() if len(ns) > 1 and c not in implied]
        self.totals = self._sharing((), every, places, pulls)
        # From few attributes to many: see ``agreeing``.
        self.shared = [
            self._sharing(common, members[common], places, pulls)
            for common in sorted(common_to_some, key=lambda common: (len(common), common))
        ]

    def _sharing(
        self,
        common: tuple[int, ...],
        numbers: Sequence[int],
        places: Sequence[tuple[int, ...]],
        pulls: Floats,
    ) -> Shared:
        where, cells, outside = [], [], []
        for row, number in enumerate(numbers):
            shape, end = self._shapes[number], self._ends[number]
            axes = [places[number].index(place) for place in common]
            within = _cells_along(shape, axes)
            size = math.prod(shape[axis] for axis in axes)
            where.append(np.arange(end - within.size, end))
            cells.append(within + row * size)
            outside.append(within.size / size)
        return Shared(
            places=np.concatenate(where),
            cells=np.concatenate(cells),
            outside=np.array(outside)[:, np.newaxis],
            weights=pulls[list(numbers), np.newaxis],
        )

    def tables(self) -> list[Floats]:
        """The tables as they were given, read-only."""
        tables = []
        for shape, part in zip(self._shapes, np.split(self.values, self._ends[:-1]), strict=True):
            table = part.reshape(shape).copy()
            table.flags.writeable = False
            tables.append(table)
        return tables

    def agreeing(self, values: Floats) -> Floats:
        """The nearest tables of total 1 that agree, signed.

        A marginal changes at least if the change is spread evenly over the cells that add up to it.
        Once the marginals of fewer attributes agree, such a change leaves them as they are, for it
        sums to 0 along each attribute, and it is orthogonal to all changes before; so one pass is
        the projection. A table in which many cells add up to one is cheaper to change.
        """
        total = self.totals
        agreed = values + ((1 - total.marginals(values)) / total.outside).ravel()[total.cells]
        for shared in self.shared:
            marginals = shared.marginals(agreed)
            pulls = shared.weights / shared.outside
            mean = (pulls * marginals).sum(axis=0) / pulls.sum()
            change = (mean - marginals) / shared.outside
            agreed[shared.places] += change.ravel()[shared.cells]
        return agreed

    def mixed(self, values: Floats) -> Floats:
        """Mix as much of the uniform in as all tables need to be non-negative; they still agree."""
        uniform = (1 / self.totals.outside).ravel()[self.totals.cells]
        below = np.maximum(-values, 0.0)
        share = float((below / (uniform + below)).max())
        return np.maximum((1 - share) * values + share * uniform, 0.0)

    def disagreement(self) -> float:
        """The largest difference of two tables in a cell of a marginal that both have."""
        return max(shared.spread(self.values) for shared in (self.totals, *self.shared))


def subsets(axes: Sequence[int]) -> Iterable[tuple[int, ...]]:
    """Every subset of some places, from the empty one to all, each in their order."""
    return chain.from_iterable(combinations(axes, size) for size in range(len(axes) + 1))


def check_table(names: Names, table: Floats, survey: Survey) -> None:
    """Refuse all but a table of finite entries, shape ``(size of the first, ...)``.

    Raises:
        SurveyError: an unknown or repeated name.
        ValueError: no name, another shape, or an entry that is not finite.
    """
    shape = tuple(survey.sizes[axis] for axis in survey.axes(names))
    if not names or table.shape != shape:
        raise ValueError(f"the table of {names} has shape {table.shape}, expected {shape}")
    if not np.isfinite(table).all():
        raise ValueError(f"the table of {names} has an entry that is not finite")


def _cells_along(shape: Sequence[int], axes: Sequence[int]) -> NDArray[np.intp]:
    """For every cell of a table, its place in the marginal of some axes, in row-major order."""
    grid = np.indices(shape, np.intp, sparse=True)
    cells = np.zeros((), np.intp)
    for axis in axes:
        cells = cells * shape[axis] + grid[axis]
    return np.broadcast_to(cells, shape).ravel()
