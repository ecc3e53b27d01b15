"""Input of calibration: cells and sums of an estimate, with covariances about a population.

All variances and covariances are n times those of the estimates: for reports, those of the scores
of one respondent.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from protocol.estimators.calibration.calibrated import FarShare
from protocol.estimators.calibration.margins import TOLERANCE, Margin
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.cumulants import Cumulants, cumulant_law
from protocol.estimators.inference.laws import ErrorLaw
from protocol.estimators.joint import JointReports
from protocol.estimators.linear import LinearEstimate, Source
from protocol.estimators.releases.combined import CombinedReleases
from protocol.estimators.releases.noisy import NoisyTables
from protocol.estimators.releases.tallies import Tallies
from protocol.estimators.tables import marginal
from protocol.randomizers.exact import Floats

MAX_MARGIN_SCORES = 2**27
"""The most scores of margins that are kept: distinct reports times cells."""

FAR = 0.99
"""The simultaneous level of the intervals that known shares are compared with."""


class Sums(NamedTuple):
    """Some estimated sums of shares.

    Attributes:
        values: the estimates, shape (s,).
        variances: about the population.
        scales: the size of the terms that they are differences of.
    """

    values: Floats
    variances: Floats
    scales: Floats


class Skewed(NamedTuple):
    """The cumulants of a table's cells about the population, by the shares, and their steps."""

    cumulants: Cumulants
    steps: Floats


class Varying(ABC):
    """A source, with the covariances of its sums of cells with some margins.

    Attributes:
        source: as it is before it is calibrated.
        margins: may be none.
    """

    source: Source
    margins: tuple[Margin, ...]

    @abstractmethod
    def table(self, names: Sequence[str]) -> Floats:
        """The estimated shares."""

    def cells(self, names: Sequence[str]) -> Sums:
        """The cells of a table, in row-major order."""
        return self.sums(names, each_cell(self.source.survey.sizes_of(names)))

    @abstractmethod
    def sums(self, names: Sequence[str], weights: Floats) -> Sums:
        """Weighted sums of a table's cells.

        Args:
            names: the attributes.
            weights: shape ``(s, size of the first, size of the second, ...)``.
        """

    @abstractmethod
    def covariances(self, names: Sequence[str]) -> Floats:
        """Covariances of a table's cells with the cells of all margins, (cells, d)."""

    def sum_covariances(self, names: Sequence[str], weights: Floats) -> Floats:
        """Covariances of weighted sums with the cells of the margins, shape (s, d)."""
        found: Floats = weights.reshape(len(weights), -1) @ self.covariances(names)
        return found

    def margin_covariances(self) -> Floats:
        """Covariances of the cells of the margins, shape (d, d)."""
        found = np.concatenate([self.covariances(margin.names) for margin in self.margins])
        symmetric: Floats = (found + found.T) / 2
        return symmetric

    def estimated(self) -> Floats:
        """The estimated margins, shape (d,)."""
        return np.concatenate([self.table(margin.names).ravel() for margin in self.margins])

    def together(self, names: Sequence[str]) -> bool:
        """True if the covariances of a table with the margins are known, without guesses."""
        del names
        return True

    def count_reports(self, names: Sequence[str]) -> int:
        """Number of different reports that a sum depends on."""
        return math.prod(self.source.survey.sizes_of(names))

    def skewed(self, names: Sequence[str]) -> Skewed | None:
        """The cumulants of a table's cells; None if their errors are taken to be normal."""
        return _skewed_by(self.source.cells(tuple(names)).law)

    def skewed_mean(self, names: Sequence[str], weights: Floats) -> Skewed | None:
        """Those of the mean of a weight; None if it is the same for all."""
        if np.ptp(weights) == 0:
            return None
        return _skewed_by(self.source.mean(tuple(names), weights).law)


@dataclass(frozen=True, eq=False, repr=False)
class VaryingReports(Varying):
    """The reports of single respondents: covariances are those of their scores."""

    source: JointReports
    margins: tuple[Margin, ...]

    @cached_property
    def _shares(self) -> Floats:
        return self.source.counts.counts / self.source.n

    def table(self, names: Sequence[str]) -> Floats:
        asked = self.source.asked(names)
        return asked.by_name(asked.values())

    def cells(self, names: Sequence[str]) -> Sums:
        asked = self.source.asked(names)
        values, squares = (asked.by_name(each).ravel() for each in asked.mean_squares())
        return Sums(values, squares - values**2, squares)

    def sums(self, names: Sequence[str], weights: Floats) -> Sums:
        asked = self.source.asked(names)
        scores = asked.per_report(weights, lead=1).reshape(len(weights), -1)
        reports = asked.shares.reshape(-1)
        values, squares = scores @ reports, scores**2 @ reports
        return Sums(values, squares - values**2, squares)

    def covariances(self, names: Sequence[str]) -> Floats:
        columns = []
        for column in self.centred.T:
            asked = self.source.asked(names, self._shares * column)
            columns.append(asked.by_name(asked.values()).ravel())
        return np.stack(columns, axis=1)

    def sum_covariances(self, names: Sequence[str], weights: Floats) -> Floats:
        scores = self.source.scored(names, weights)
        return (scores * self._shares[:, np.newaxis]).T @ self.centred

    def margin_covariances(self) -> Floats:
        return (self.centred * self._shares[:, np.newaxis]).T @ self.centred

    @cached_property
    def centred(self) -> Floats:
        """The scores of the margins' cells less their means, of every distinct report, (u, d).

        Raises:
            ValueError: more than ``MAX_MARGIN_SCORES`` of them.
        """
        cells = sum(margin.shares.size for margin in self.margins)
        distinct = len(self._shares)
        if distinct * cells > MAX_MARGIN_SCORES:
            raise ValueError(
                f"{distinct:,} distinct reports times {cells:,} cells of margins: expected at most "
                f"{MAX_MARGIN_SCORES:,}"
            )
        scores = np.concatenate(
            [
                self.source.scored(margin.names, each_cell(margin.shares.shape))
                for margin in self.margins
            ],
            axis=1,
        )
        found: Floats = scores - self._shares @ scores
        return found

    def count_reports(self, names: Sequence[str]) -> int:
        return self.source.asked(names).shares.size


@dataclass(frozen=True, eq=False, repr=False)
class VaryingReleases(Varying):
    """Several releases of the same answers: covariances follow from their designs."""

    source: CombinedReleases
    margins: tuple[Margin, ...]

    def table(self, names: Sequence[str]) -> Floats:
        return self.source.combination(names).values

    def cells(self, names: Sequence[str]) -> Sums:
        found, n = self.source.combination(names), self.source.n
        given, scale = found.variances()
        sampled = found.values - found.values**2
        return Sums(
            found.values.ravel(),
            (n * given + sampled).ravel(),
            (n * scale + np.abs(found.values)).ravel(),
        )

    def sums(self, names: Sequence[str], weights: Floats) -> Sums:
        found, n = self.source.combination(names), self.source.n
        values = np.tensordot(weights, found.values, axes=found.values.ndim)
        squares = np.tensordot(weights**2, found.values, axes=found.values.ndim)
        given, scales = np.array([found.sum_variance(one) for one in weights]).T
        return Sums(values, n * given + squares - values**2, n * scales + np.abs(squares))

    def covariances(self, names: Sequence[str]) -> Floats:
        columns = []
        for margin in self.margins:
            whole = (*names, *(name for name in margin.names if name not in names))
            found = self.source.combination(whole, guessed=True)
            others = tuple(range(len(names), len(whole)))
            for cell in each_cell(margin.shares.shape):
                inside = along(cell, margin.names, whole)
                weights = np.broadcast_to(inside, found.values.shape)
                columns.append(found.covariance_with(weights).sum(axis=others).ravel())
        return self.source.n * np.stack(columns, axis=1)

    def together(self, names: Sequence[str]) -> bool:
        return all(self.source.knows({*names, *margin.names}) for margin in self.margins)


@dataclass(frozen=True, eq=False, repr=False)
class VaryingTable(Varying):
    """One table, with all others as its margins."""

    source: Source
    margins: tuple[Margin, ...]
    names: tuple[str, ...]

    @cached_property
    def _covariance(self) -> Floats:
        return self.source.n * LinearEstimate(self.source).table(*self.names).covariance(
            "population"
        )

    def table(self, names: Sequence[str]) -> Floats:
        return self.source.cells(tuple(names)).values

    def sums(self, names: Sequence[str], weights: Floats) -> Sums:
        rows = self._spread_weights(names, weights)
        whole = self.source.cells(self.names).values.ravel()
        values, variances = rows @ whole, np.sum(rows @ self._covariance * rows, axis=1)
        return Sums(values, variances, rows**2 @ self._covariance.diagonal() + values**2)

    def covariances(self, names: Sequence[str]) -> Floats:
        cells = self._spread_weights(names, each_cell(self.source.survey.sizes_of(names)))
        others = [self._spread_weights(m.names, each_cell(m.shares.shape)) for m in self.margins]
        return cells @ self._covariance @ np.concatenate(others).T

    def _spread_weights(self, names: Sequence[str], weights: Floats) -> Floats:
        """Weights of a table's cells as weights of the whole table, in row-major order."""
        shape = self.source.survey.sizes_of(self.names)
        rows = [np.broadcast_to(along(one, names, self.names), shape) for one in weights]
        return np.stack(rows).reshape(len(weights), -1)


def _skewed_by(law: ErrorLaw | None) -> Skewed | None:
    known = cumulant_law(law)
    return None if known is None else Skewed(known.cumulants["population"], known.steps)


def varying(estimate: Estimate, margins: Sequence[Margin] = ()) -> Varying:
    """Cells and sums of an estimate, as calibration takes them.

    Args:
        estimate: to be calibrated.
        margins: with which covariances are needed.

    Raises:
        ValueError: the covariances of its tables are not known.
    """
    given = tuple(margins)
    source = estimate.source if isinstance(estimate, LinearEstimate) else None
    match source:
        case JointReports():
            return VaryingReports(source, given)
        case CombinedReleases():
            return VaryingReleases(source, given)
        case Tallies():
            return VaryingTable(source, given, source.names)
        case NoisyTables(counts=counts):
            largest = max(counts, key=len)
            if all(set(names) <= set(largest) for names in counts):
                return VaryingTable(source, given, largest)
    raise ValueError(
        f"{estimate!r} cannot be calibrated: expected an estimate from the reports of single "
        "respondents, from releases of them or of one table"
    )


def far_shares(
    estimate: Estimate, margins: Sequence[Margin], *, level: float = FAR
) -> list[FarShare]:
    """Known shares outside the intervals of an estimate before calibration.

    If the respondents are a random sample of the population of the margins, there are none with
    probability ``level``: the intervals hold all shares at once (Bonferroni).

    Args:
        estimate: before calibration.
        margins: of attributes that it gives tables of.
        level: of all intervals together.
    """
    each = 1 - (1 - level) / max(sum(margin.shares.size for margin in margins), 1)
    found = []
    for margin in margins:
        table = estimate.table(*margin.names)
        low, high = table.interval(each, "population")
        # A share exactly on an end may be outside by rounding.
        outside = (margin.shares < low - TOLERANCE) | (margin.shares > high + TOLERANCE)
        for place in map(tuple, np.argwhere(outside)):
            cell = tuple(names[code] for names, code in zip(table.categories, place, strict=True))
            share, ends = float(margin.shares[place]), (float(low[place]), float(high[place]))
            found.append(FarShare(margin.names, cell, share, *ends))
    return found


def along(cells: Floats, names: Sequence[str], whole: Sequence[str]) -> Floats:
    """A table with an axis for each attribute of a larger one, of length 1 for the others."""
    kept = [name for name in whole if name in names]
    sizes = iter(marginal(cells, names, kept).shape)
    shape = [next(sizes) if name in names else 1 for name in whole]
    return marginal(cells, names, kept).reshape(shape)


def each_cell(shape: tuple[int, ...]) -> Floats:
    """Weights of every single cell of a table, shape ``(cells, *shape)``."""
    cells = math.prod(shape)
    return np.eye(cells).reshape(cells, *shape)
