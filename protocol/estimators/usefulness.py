"""Usefulness: the margin of error of a table, and its scale.

The margin of error of a table is the most that any of its shares may be off: the largest distance
of a value from the farther end of its interval. The intervals of all cells hold at once
(Bonferroni), so shares that are ranked by their values are ranked as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from protocol.errors import ProtocolError
from protocol.estimators.estimate import Estimate, Keyed
from protocol.estimators.inference.laws import LEVEL, About, Interval
from protocol.estimators.projection import Projection
from protocol.estimators.tables import Estimated, Table
from protocol.randomizers.exact import Floats

Usefulness: TypeAlias = Literal["good", "fair", "poor", "none", "unknown"]
"""Usefulness of estimates; ``unknown`` without a formula for the error, or with too few reports."""

ORDER: tuple[Usefulness, ...] = ("good", "fair", "poor", "unknown", "none")
"""The best first."""


class Grade(NamedTuple):
    """A step of the scale of usefulness.

    Args:
        name: of the step.
        points: the largest margin of error, as a share.
        average: the same as a multiple of the average share of a cell, ``1 / cells``.
    """

    name: Usefulness
    points: float
    average: float

    def edge(self, cells: int) -> float:
        """The largest margin of error of a table with this many cells, as a share."""
        return min(self.points, self.average / cells)


GRADES = (Grade("good", 0.03, 0.25), Grade("fair", 0.1, 1.0))
"""The steps that end at a margin, the best first; ``poor`` ends at that of an even guess."""

SCALE_SAYS = (
    "In 95 of 100 such surveys no share of an attribute or table is off by more than its margin of "
    "error. Good: a margin of at most 3 percentage points, and a quarter of the average share. "
    "Fair: at most 10 points, and the average share. Poor: more than that. None: a guess without "
    "any answers would be as close."
)
"""Meaning of the steps, in sentences."""

MEANS_SAY = (
    "The margin of a mean or a count is a part of its range: good up to 3 %, fair up to 10 %."
)
"""The same for numbers, which are judged as one of two shares."""

Subject: TypeAlias = Literal["shares", "mean", "count"]
"""The shares of a table, the mean of an attribute's values, or the count of a set of answers."""


class MarginOfError(NamedTuple):
    """The margin of error of a table, or of a number as a share of its range.

    Args:
        names: the attributes.
        cells: the number of shares; 2 for a number, which lies between the ends of its range.
        margin: the most that any share may be off; NaN where that is unknown. Above 1 the estimate
            is useless.
        of: the subject of the margin.
    """

    names: tuple[str, ...]
    cells: int
    margin: float
    of: Subject = "shares"

    @property
    def word(self) -> Usefulness:
        """The usefulness of the table."""
        if math.isnan(self.margin):
            return "unknown"
        for grade in GRADES:
            if self.margin <= grade.edge(self.cells):
                return grade.name
        return "poor" if self.margin < even_guess(self.cells) else "none"

    @property
    def excess(self) -> float:
        """The margin as a multiple of the largest that is good; NaN where it is unknown."""
        return self.margin / GRADES[0].edge(self.cells)

    @property
    def says_nothing(self) -> bool:
        """True if every share, or every value of the range, is possible."""
        return self.margin >= 1


def least_exact(of: Iterable[MarginOfError]) -> MarginOfError:
    """The least useful of some margins, and of equally useful ones the largest relative to good."""
    return max(of, key=lambda one: (ORDER.index(one.word), one.excess))


def even_guess(cells: int) -> float:
    """The margin of error of the guess that all shares are equal, without any answers.

    All shares are within it with probability ``LEVEL`` if every table is equally likely: a share is
    then above ``t`` with probability ``(1 - t)**(cells - 1)``.

    Args:
        cells: the number of cells, at least 2.
    """
    highest: float = 1 - ((1 - LEVEL) / cells) ** (1 / (cells - 1))
    return highest - 1 / cells


def level_of_each(cells: int) -> float:
    """The level of the interval of each cell at which all hold at once at ``LEVEL``."""
    return 1 - (1 - LEVEL) / cells


def margin_of_error(table: Table, about: About = "respondents") -> MarginOfError:
    """The margin of error of a table's values, projected or not.

    It is infinite for unknown values, and NaN where only the error is unknown.

    Args:
        table: of shares.
        about: the subject of the shares.
    """
    if np.isnan(table.values).any():
        return MarginOfError(table.names, table.values.size, math.inf)
    interval = table.interval(about=about, simultaneous=True)
    return MarginOfError(table.names, table.values.size, _farthest(table.values, interval))


def margin_of_number(
    names: tuple[str, ...], found: Estimated, about: About, of: Subject = "mean"
) -> MarginOfError:
    """The margin of error of one number as a share of its range; NaN if it has no bounds.

    Args:
        names: the attributes that it is about.
        found: the estimate.
        about: the subject of the number.
        of: a mean or a count.
    """
    if math.isnan(found.value):
        return MarginOfError(names, 2, math.inf, of)
    margin = _farthest(np.asarray(found.value), found.interval(about=about))
    if margin:
        margin = margin / found.span if math.isfinite(found.span) else math.nan
    return MarginOfError(names, 2, margin, of)


def margins_of_error(
    estimate: Estimate,
    about: About,
    projection: Projection = "none",
    tables: Iterable[Sequence[str]] = (),
) -> tuple[MarginOfError, ...]:
    """The margins of error of every attribute, then of some tables, where the result has them.

    An attribute has shares, a mean, or both: the share of respondents with a key, and the mean of
    its values, with a range from -1 to 1.

    Args:
        estimate: of shares, or of means that have a range.
        about: the subject of the margins.
        projection: applied to the tables.
        tables: the attributes of each.
    """
    means = estimate.attribute_means()
    if means:
        return tuple(margin_of_number((name,), mean, about) for name, mean in means.items())
    own: list[tuple[str, ...]] = [(name,) for name in estimate.survey.names]
    names = dict.fromkeys((*own, *(tuple(each) for each in tables)))
    valued = () if estimate.keyed is None else _margins_of_values(estimate.keyed, about)
    return (*_margins(estimate, names, about, projection), *valued)


def _margins(
    estimate: Estimate, tables: Iterable[tuple[str, ...]], about: About, projection: Projection
) -> Iterator[MarginOfError]:
    for names in tables:
        try:
            table = estimate.table(*names, projection=projection)
        except (ProtocolError, ValueError):
            continue  # The result does not have this table.
        yield margin_of_error(table, about)


def _margins_of_values(keyed: Keyed, about: About) -> Iterator[MarginOfError]:
    low, high = keyed.mean_intervals(about=about)
    off = np.maximum(high - keyed.means, keyed.means - low) / 2
    margins = np.where(np.isnan(keyed.means), np.inf, off)
    for name, margin in zip(keyed.survey.names, margins.tolist(), strict=True):
        yield MarginOfError((name,), 2, margin, "mean")


def _farthest(values: Floats, ends: Interval) -> float:
    """The largest distance of a value from an end of its interval; NaN if an end is unknown."""
    return float(np.max(np.maximum(ends.high - values, values - ends.low)))
