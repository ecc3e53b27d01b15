"""Tables of estimated proportions with their standard errors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.estimators.inference.intervals import USUAL, interval_figures
from protocol.estimators.inference.laws import LEVEL, About, ErrorLaw, Interval, NormalLaw, critical
from protocol.estimators.inference.notebooks import ROWS, html_table
from protocol.estimators.likelihood import Fit
from protocol.estimators.projection import Projection, project

Number = TypeVar("Number", np.float64, np.int64)

# Variances below this part of the terms that they are differences of are 0 but for rounding.
_ROUNDING = 1e-12

# Two reports are two up to rounding.
_SLACK = 1e-9

FIGURES = ("value", "standard_error", "low", "high")
"""The columns of a table of estimates after those of its attributes."""


FEWEST = 2
"""The fewest reports for an error: a variance smaller than theirs is unknown."""


def standard_errors(
    variances: NDArray[np.float64], scale: NDArray[np.float64], each: ArrayLike
) -> NDArray[np.float64]:
    """The roots of estimated variances, NaN where there are too few reports.

    The variance of a rare cell is estimated from the reports that count for it. Where none came in,
    the estimate is that of an empty cell, many times smaller than that of a cell with one expected
    report. So a variance is unknown if it is less than ``FEWEST`` times what one report adds to it.
    It is unknown too where it is estimated at 0 or below, as randomized and sampled data have an
    error.

    Args:
        variances: as estimated.
        scale: the size of the terms that they are differences of, of the same shape.
        each: the most that one report can change them (``change_by_one``), spread over that shape.
    """
    least = np.maximum(_ROUNDING * scale, (FEWEST - _SLACK) * np.asarray(each))
    errors = np.full(variances.shape, np.nan)
    return np.sqrt(variances, out=errors, where=variances > least)


def standard_error(variance: float, scale: float, each: float) -> float | None:
    """The root of one estimated variance; None where ``standard_errors`` has NaN."""
    found = float(standard_errors(np.array(variance), np.array(scale), each))
    return _known(found)


def change_by_one(
    values: NDArray[np.float64], scores: Sequence[ArrayLike], n: int, *, sampled: ArrayLike = 0.0
) -> NDArray[np.float64]:
    """The most that one of n reports adds to the estimated variances of means of scores.

    A score is unbiased for being in a cell, so given the answers the variance of their mean is
    estimated as ``(mean of h**2 - value) / n``; sampling adds ``(value - value**2) / n``.

    Args:
        values: the estimated shares.
        scores: the least and the largest score of a report for each, spread over that shape.
        n: the number of reports.
        sampled: the part of the variance of sampling from a population that is counted.
    """
    found = [
        h**2 - h + np.asarray(sampled) * (h - 2 * h * values + values**2)
        for h in map(np.asarray, scores)
    ]
    most: NDArray[np.float64] = np.maximum.reduce([np.broadcast_to(f, values.shape) for f in found])
    return most / n**2


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def marginal(table: NDArray[Number], known: Sequence[str], names: Sequence[str]) -> NDArray[Number]:
    """The table of some of the attributes ``known``, in the order given."""
    kept = [name for name in known if name in names]
    summed = table.sum(axis=tuple(axis for axis, name in enumerate(known) if name not in names))
    return np.asarray(summed).transpose([kept.index(name) for name in names])


@dataclass(frozen=True, slots=True)
class Estimated:
    """An estimate of one number, and its standard error given the data; None where it is unknown.

    With a standard error the value is unbiased.

    Attributes:
        value: the estimate.
        standard_error: from randomization alone.
        law: of its error. By default a normal one with this standard error, about the respondents
            alone, of a number that may be anything.
        span: the width of the range of the truth; infinite where the number may be anything.
    """

    value: float
    standard_error: float | None
    law: ErrorLaw | None = field(default=None, compare=False, repr=False)
    span: float = field(default=math.inf, compare=False, repr=False)

    def interval(self, level: float = LEVEL, about: About = "respondents") -> Interval:
        """The truths that the estimate does not contradict; NaN where that is unknown.

        Raises:
            ValueError: the level is not above 0 and below 1, or an unknown ``about``.
        """
        low, high = self._law().interval(level, about)
        return Interval(low[()], high[()])

    def times(self, factor: float) -> Estimated:
        """A positive multiple of it."""
        error = self.standard_error
        return Estimated(
            self.value * factor,
            None if error is None else error * factor,
            self._law().times(factor),
            self.span * factor,
        )

    def _law(self) -> ErrorLaw:
        if self.law is not None:
            return self.law
        return NormalLaw.of_errors(
            self.value, self.standard_error, None, least=-math.inf, most=math.inf
        )


class Cells(NamedTuple):
    """Estimated cells of a table, one axis per attribute.

    Attributes:
        values: the shares, raw and signed.
        standard_errors, population_errors, law: as in ``Table``.
        n: the number of reports; that of the estimate if None.
    """

    values: NDArray[np.float64]
    standard_errors: NDArray[np.float64] | None = None
    population_errors: NDArray[np.float64] | None = None
    law: ErrorLaw | None = None
    n: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Table:
    """Estimated proportions of every combination of categories of some attributes.

    Attributes:
        names: the attributes, one per axis.
        categories: the categories of each.
        values: proportions; raw and signed unless ``projection`` says otherwise.
        standard_errors: of the raw values given the data, so from randomization alone; None where
            no formula is known. NaN where the reports are too few or too similar: an error of 0 is
            that of an exact value.
        population_errors: of the raw values when the respondents are themselves a random sample
            of a population, so from sampling and randomization; None and NaN likewise.
        n: the number of reports.
        projection: of the values. A projection makes them biased and mostly
            more accurate; both kinds of errors stay those of the raw values.
        law: of the errors of the raw values. By default a normal one with the errors above, as if
            they were the same whatever the true shares are.
        fit: where EM stopped, if the values are fitted by it; else None.
    """

    names: tuple[str, ...]
    categories: tuple[tuple[str, ...], ...]
    values: NDArray[np.float64]
    standard_errors: NDArray[np.float64] | None
    population_errors: NDArray[np.float64] | None
    n: int
    projection: Projection = "none"
    law: ErrorLaw | None = None
    fit: Fit | None = None

    def __post_init__(self) -> None:
        shape = tuple(map(len, self.categories))
        if len(shape) != len(self.names):
            raise ValueError(
                f"{len(self.names)} names, but the categories of {len(shape)} attributes"
            )
        for array in (self.values, self.standard_errors, self.population_errors):
            if array is None:
                continue
            if array.shape != shape:
                raise ValueError(f"array of shape {array.shape}, expected {shape}")
            array.flags.writeable = False

    def __repr__(self) -> str:
        cells = " x ".join(
            f"{name}[{len(categories)}]"
            for name, categories in zip(self.names, self.categories, strict=True)
        )
        return f"<Table: {cells}, n={self.n}, projection={self.projection}>"

    def projected(self, projection: Projection) -> Table:
        """This table with its values projected; the standard errors stay those of the raw values.

        Values that are unknown stay so.

        Raises:
            ValueError: an unknown projection, or this table was projected in another way before.
        """
        if projection == self.projection:
            return self
        if self.projection != "none":
            raise ValueError(f"already projected by {self.projection!r}: project the raw table")
        unknown = np.isnan(self.values).all()
        return replace(
            self,
            values=self.values if unknown else project(self.values, projection),
            law=self._law(),
            projection=projection,
        )

    def fitted(self, values: NDArray[np.float64], fit: Fit) -> Table:
        """This raw table with the shares that EM found; all errors stay those of the raw values."""
        return replace(self, values=values, law=self._law(), projection="em", fit=fit)

    def interval(
        self,
        level: float = LEVEL,
        about: About = "respondents",
        *,
        simultaneous: bool = False,
    ) -> Interval:
        """Confidence intervals of every cell's share, within 0 and 1, from the raw estimate.

        Each covers its true share with probability ``level``. A projection does not change the
        intervals, and a projected value may lie outside.

        Args:
            level: the confidence level, above 0 and below 1.
            about: the subject of the shares: the respondents, or a population.
            simultaneous: whether all cells hold their shares at once with this probability. Each
                is then at the level ``1 - (1 - level) / cells`` (Bonferroni), which needs nothing
                of how the cells depend on each other.

        Returns:
            Arrays of the table's shape; NaN if unknown.

        Raises:
            ValueError: the level is not above 0 and below 1, or an unknown ``about``.
        """
        critical(level)
        each = 1 - (1 - level) / self.values.size if simultaneous else level
        return self._law().interval(each, about)

    def covariance(self, about: About = "respondents") -> NDArray[np.float64]:
        """The covariances of the raw cells, shape (cells, cells), cells in row-major order.

        Raises:
            ValueError: no formula is known, too many cells, or an unknown ``about``.
        """
        return self._law().covariance(about)

    @property
    def exact(self) -> bool:
        """True if it is without error about the respondents."""
        return self.standard_errors is not None and not self.standard_errors.any()

    def reach(self, about: About = "respondents") -> NDArray[np.float64]:
        """Largest change of each raw cell by one report; 0 where it is exact, or not known."""
        return np.broadcast_to(self._law().reach(about), self.values.shape)

    def _law(self) -> ErrorLaw:
        if self.law is not None:
            return self.law
        return NormalLaw.of_errors(self.values, self.standard_errors, self.population_errors)

    def columns(
        self, level: float = LEVEL, about: About = "respondents"
    ) -> dict[str, NDArray[np.object_] | NDArray[np.float64]]:
        """The table with a row for each cell, in row-major order, as one array for each column.

        ``pandas.DataFrame``, ``polars.DataFrame`` and ``pyarrow.table`` take it as it is.

        Args:
            level, about: as of ``interval``.

        Returns:
            For each attribute the categories, of texts. Then ``value``, ``standard_error``, and
            ``low`` and ``high``, the ends of the interval, of numbers: NaN where an error or an
            interval is unknown. All have shape (cells,); errors and intervals are about ``about``.

        Raises:
            ValueError: an attribute has the name of one of these columns, or as ``interval``.
        """
        for name in FIGURES:
            if name in self.names:
                raise ValueError(f"attribute {name!r} has the name of another column")
        found = self.interval(level, about)
        errors = self.standard_errors if about == "respondents" else self.population_errors
        if errors is None:
            errors = np.full(self.values.shape, np.nan)
        figures = (self.values, errors, found.low, found.high)
        return {
            **dict(zip(self.names, self._categories(), strict=True)),
            **{
                name: np.array(each, np.float64).ravel()
                for name, each in zip(FIGURES, figures, strict=True)
            },
        }

    def _categories(self) -> Iterator[NDArray[np.object_]]:
        """The category of every cell, attribute by attribute."""
        for axis, categories in enumerate(self.categories):
            texts = np.array(categories, np.object_)
            along = texts.reshape([-1 if axis == other else 1 for other in range(len(self.names))])
            yield np.broadcast_to(along, self.values.shape).flatten()

    def rows(
        self, level: float = LEVEL, about: About = "respondents"
    ) -> list[dict[str, str | float | None]]:
        """``columns`` as one mapping for each cell; None where an error or an end is unknown.

        Args:
            level, about: as of ``interval``.

        Raises:
            ValueError: as ``columns``.
        """
        columns = self.columns(level, about)
        known = [
            list(map(_known, column.tolist())) if name in FIGURES else column.tolist()
            for name, column in columns.items()
        ]
        return [dict(zip(columns, row, strict=True)) for row in zip(*known, strict=True)]

    def _repr_html_(self) -> str:
        """The first cells as an HTML table, with every text escaped."""
        first = (each.ravel()[:ROWS] for each in (self.values, *USUAL.of(self)))
        values, *ends = first
        figures = interval_figures(values, Interval(*ends))
        return html_table(
            repr(self),
            self.names,
            zip(product(*self.categories), figures, strict=False),
            self.values.size,
            projection=self.projection,
            fits=[self.fit],
        )
