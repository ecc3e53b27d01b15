"""Estimates in blocks: reports with fakes from tables that change.

Block by block, group by group of attributes: with n reports, observed counts o, keep probability p
and fakes from T, the raw estimate is ``(o/n - (1-p) T) / p``, negatives kept (RRBA, equation 4 as
corrected). The mean over all reports is released.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import WORDS
from protocol.randomizers.exact import Floats

Release: TypeAlias = Literal["pooled", "last-two"]
"""``pooled`` is the mean over all reports, ``last-two`` that of the last two blocks (section 5)."""

Update: TypeAlias = Literal["pooled", "last", "average"]
"""Source of the next table of fakes: the mean over all reports; the ``last`` block's own estimate
(Algorithm 1); or the ``average`` of that and of the source of the last table (section 5, step 4).
"""

_MANTISSA = 53


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Groups of cells in one vector, each a table of its own.

    Attributes:
        sizes: (g,) the number of cells of each group.
        starts: (g,) where each begins.
        group: (c,) the group of every cell.
    """

    sizes: NDArray[np.int64]
    starts: NDArray[np.int64]
    group: NDArray[np.int64]

    @classmethod
    def of(cls, sizes: tuple[int, ...]) -> Cells:
        """Groups of these sizes, in order.

        Raises:
            ValueError: no group, or one with fewer than 2 cells.
        """
        if not sizes or min(sizes) < 2:
            raise ValueError(f"groups of {sizes} cells: expected at least one, of at least 2")
        lengths = np.array(sizes, np.int64)
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        return cls(lengths, starts, np.repeat(np.arange(len(lengths)), lengths))

    def summed(self, values: Floats) -> Floats:
        """The sum of every group, (..., g)."""
        sums: Floats = np.add.reduceat(values, self.starts, axis=-1)
        return sums

    def uniform(self) -> Floats:
        """Every group's uniform distribution."""
        uniform: Floats = 1.0 / self.sizes[self.group]
        return uniform

    def largest(self, values: Floats) -> NDArray[np.int64]:
        """Place of every group's largest value, the first of them, (g,)."""
        tops = np.maximum.reduceat(values, self.starts)[self.group]
        places = np.flatnonzero(values == tops)
        _, first = np.unique(self.group[places], return_index=True)
        return places[first]

    def projected(self, values: Floats) -> Floats:
        """Every group's nearest distribution in Euclidean distance, (c,)."""
        projected = np.empty_like(values)
        for size in np.unique(self.sizes).tolist():
            places = self.starts[self.sizes == size][:, np.newaxis] + np.arange(size)
            rows = values[places] - values[places].max(axis=1, keepdims=True)
            falling = -np.sort(-rows, axis=1)
            excess = np.cumsum(falling, axis=1) - 1.0
            ranks = np.arange(1, size + 1)
            positive = (falling * ranks > excess).sum(axis=1)
            last = np.take_along_axis(excess, positive[:, np.newaxis] - 1, axis=1)
            projected[places] = np.maximum(rows - last / positive[:, np.newaxis], 0.0)
        return projected


def integer_weights(cells: Cells, tables: Floats) -> NDArray[np.uint64]:
    """Every group's probabilities as integers with a sum of 2**64, (c,).

    They are rounded down to multiples of 2**-53; the rest goes to the group's largest. A group with
    one category alone has 2**64 - 1 there and 1 at another, which is the nearest that fits.
    """
    weights = np.floor(np.minimum(tables, 1.0) * 2.0**_MANTISSA).astype(np.uint64)
    weights <<= np.uint64(64 - _MANTISSA)
    largest = cells.largest(tables)
    # Sums are modulo 2**64, and so is the rest.
    weights[largest] -= np.add.reduceat(weights, cells.starts)
    alone = np.add.reduceat(weights > 0, cells.starts, dtype=np.int64) == 0
    places, starts = largest[alone], cells.starts[alone]
    weights[places] = WORDS - 1
    weights[np.where(places > starts, places - 1, starts + 1)] = 1
    return weights


def least_weight(size: int, mix: float) -> int:
    """The smallest weight of a category where fakes are mixed with the uniform distribution."""
    return int(np.floor(mix / size * 2.0**_MANTISSA)) << (64 - _MANTISSA)


def steepest(size: int, mix: float) -> tuple[int, ...]:
    """The weights of a table that costs the most: the least, but for one category."""
    least = least_weight(size, mix)
    return (*[least] * (size - 1), WORDS - least * (size - 1))


class Running:
    """State of an aggregator after some blocks.

    Args:
        cells: the groups.
        keeps: (g,) the keep probability of each.
        update: the way that tables of fakes are made.
    """

    def __init__(self, cells: Cells, keeps: Floats, update: Update = "pooled") -> None:
        self.cells = cells
        self.blocks = 0
        self.counts = np.zeros(len(cells.group), np.int64)
        self.reports = np.zeros(len(cells.sizes), np.int64)
        self.keeps = keeps[cells.group]
        self._kept = np.zeros(len(cells.group))
        self._fakes = np.zeros(len(cells.group))
        self._fakes_squared = np.zeros(len(cells.group))
        self._recent: list[Floats] = []
        self._recent_law: list[tuple[Floats, Floats]] = []
        self._update: Update = update
        self.compared: list[Floats] = []

    def add(self, counts: NDArray[np.int64], tables: Floats) -> None:
        """Add a block's counts of reports.

        Args:
            counts: (c,) the number of reports of each cell.
            tables: (c,) the law of the fakes.
        """
        cells = self.cells
        reports = cells.summed(counts.astype(np.float64))
        n = reports[cells.group]
        kept = (counts - n * (1 - self.keeps) * tables) / self.keeps
        self.blocks += 1
        self.counts += counts
        self.reports += reports.astype(np.int64)
        self._kept += kept
        self._fakes += n * tables
        self._fakes_squared += n * tables**2
        raw = np.divide(kept, n, out=cells.uniform(), where=n > 0)
        self._recent = [*self._recent[-1:], raw]
        self._recent_law = [*self._recent_law[-1:], (n, tables)]
        if self._update == "average" and self.compared:
            raw = (self.compared[-1] + raw) / 2
        self.compared = [*self.compared[-1:], raw]

    def raw(self, release: Release = "pooled") -> Floats:
        """The raw estimate of every cell, signed; uniform without a report."""
        if release == "last-two" and self._recent:
            recent: Floats = np.mean(self._recent, axis=0)
            return recent
        n = self.reports[self.cells.group]
        return np.divide(self._kept, n, out=self.cells.uniform(), where=n > 0)

    def errors(self, release: Release = "pooled") -> Floats:
        """The standard errors of the raw estimate; infinite without a report.

        The respondents of a group count as a random sample. The variance of a block's counts is
        computed with the pooled estimate as the truth, so that blocks of a single report are no
        worse than others.
        """
        n = self.reports[self.cells.group].astype(np.float64)
        if release == "last-two" and self._recent_law:
            variances = [
                self._variance(m, m * table, m * table**2) for m, table in self._recent_law
            ]
            squares: Floats = np.sum(
                [
                    np.divide(variance, m**2, out=np.full(len(m), np.inf), where=m > 0)
                    for variance, (m, _) in zip(variances, self._recent_law, strict=True)
                ],
                axis=0,
            )
            return np.sqrt(squares) / len(self._recent_law)
        errors = np.full(len(n), np.inf)
        total = self._variance(n, self._fakes, self._fakes_squared)
        np.divide(np.sqrt(total), n, out=errors, where=n > 0)
        return errors

    def _variance(self, n: Floats, fakes: Floats, fakes_squared: Floats) -> Floats:
        """``sum_b n_b l_b (1 - l_b) / p**2``, with ``l_b = p pi + (1 - p) T_b``, by moments."""
        p, shares = self.keeps, np.clip(self.raw(), 0.0, 1.0)
        first = p * shares * n + (1 - p) * fakes
        second = (p * shares) ** 2 * n + 2 * p * (1 - p) * shares * fakes
        second += (1 - p) ** 2 * fakes_squared
        variance: Floats = np.maximum(first - second, 0.0) / p**2
        return variance

    def tables(self, mix: float) -> Floats:
        """Tables of the next fakes: a projected estimate, mixed with uniform."""
        uniform: Floats = self.cells.uniform()
        if mix == 1.0:
            return uniform
        known = self.raw() if self._update == "pooled" or not self.compared else self.compared[-1]
        return (1 - mix) * self.cells.projected(known) + mix * uniform


class ReportLaw(NamedTuple):
    """Law of the reports on one group, from the published result.

    Attributes:
        fakes: the mean over the reports of the probability of each cell under fakes, of the group's
            shape.
        fakes_squared: the mean of the squares, of the same shape.
        reported: the expected shares of the reports, of the same shape.
        worth: the number of equally weighted reports with the same errors; 0 if these are unknown.
    """

    fakes: Floats
    fakes_squared: Floats
    reported: Floats
    worth: float

    @classmethod
    def of(
        cls,
        counts: NDArray[np.integer],
        raw: Floats,
        errors: Floats,
        *,
        keep: float,
        mix: float,
        pooled: bool,
    ) -> ReportLaw:
        """Law from the counts of all blocks, the raw estimate and its errors, 0 where unknown."""
        n, uniform = int(counts.sum()), np.full(raw.shape, 1 / raw.size)
        if not n:
            return cls(uniform, uniform**2, uniform, 0.0)
        seen = counts / n
        if not pooled:
            return cls._from_last_two(seen, raw, errors, keep=keep, mix=mix)
        if mix == 1.0:
            return cls(uniform, uniform**2, seen, float(n))
        # The rest of the reports, without the kept ones.
        fakes = np.clip((seen - keep * raw) / (1 - keep), 0.0, 1.0)
        kept, rest = keep * np.clip(raw, 0.0, 1.0), (1 - keep) * fakes
        squares = kept + rest - kept**2 - 2 * kept * rest - n * (keep * errors) ** 2
        squared = np.where(errors > 0, squares / (1 - keep) ** 2, 0.0)
        return cls(fakes, np.clip(squared, fakes**2, fakes), seen, float(n))

    @classmethod
    def _from_last_two(
        cls, seen: Floats, raw: Floats, errors: Floats, *, keep: float, mix: float
    ) -> ReportLaw:
        """Law of the last two blocks, whose numbers of reports and tables are not published.

        The likely reports are found from the published errors. The truth and the table that was
        mixed for the fakes are both taken to be the estimate from all blocks, which is nearly so.

        Args:
            seen: the shares of the reports in all blocks.
        """
        uniform = np.full(raw.shape, 1 / raw.size)
        if mix == 1.0:
            reported = keep * np.clip((seen - (1 - keep) * uniform) / keep, 0.0, 1.0)
            reported += (1 - keep) * uniform
        else:
            found = _likely((keep * errors) ** 2)
            reported = seen if found is None else found
        known = errors > 0
        if not known.any():
            return cls(uniform, uniform**2, reported, 0.0)
        worth = reported[known] * (1 - reported[known]) / (keep * errors[known]) ** 2
        even = (1 - keep) * mix
        shares = np.clip((reported - even * uniform) / (1 - even), 0.0, 1.0)
        fakes = (1 - mix) * shares + mix * uniform
        return cls(fakes, fakes**2, reported, float(np.median(worth)))


def _likely(variances: Floats) -> Floats | None:
    """The shares of reports with these variances of means, for an unknown number of reports.

    A share l of n reports has the variance ``l (1 - l) / n``. The shares add up to 1 for one n.
    None if there is no such n or more than one, as for two cells.

    Args:
        variances: of all cells of a group.
    """
    largest = float(variances.max())
    if variances.size < 3 or not largest:
        return None
    relative = variances / largest / 4

    def shares(number: float) -> Floats:
        """The smaller roots, for a fraction of the largest possible number of reports."""
        found: Floats = (1 - np.sqrt(np.maximum(1 - 4 * number * relative, 0.0))) / 2
        return found

    def turned(number: float) -> Floats:
        """Solution with the larger root for the largest share."""
        found = shares(number)
        found.flat[variances.argmax()] = 1 - found.flat[variances.argmax()]
        return found

    # The sum rises to the most there can be, and from there falls, with the larger root.
    of, low, high = shares, 0.0, 1.0
    if shares(1.0).sum() < 1:
        # With the larger root it is 1 at none, more at a few, and less at the most.
        of, low, high = turned, 1.0, 0.0
        few = 2.0**-20
        if turned(few).sum() <= 1:
            return None
        high = few
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if of(middle).sum() < 1 else (low, middle)
    return of(high)
