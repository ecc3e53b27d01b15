"""Known margins: shares of a population that come from elsewhere, such as a census."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from protocol.errors import SurveyError
from protocol.estimators.tables import marginal
from protocol.randomizers.exact import Floats
from protocol.surveys.survey import Survey, listed, shown

MAX_CELLS = 1_000
"""The most cells of all margins together."""

TOLERANCE = 1e-6
"""The largest distance of a total of shares from 1, and of two margins from each other."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Margin:
    """The joint distribution of some attributes in a population, known without error.

    Args:
        names: the attributes.
        shares: of every combination of their categories, shape ``(size of the first, size of the
            second, ...)``: at least 0, with a total of 1.

    Raises:
        ValueError: not one axis for each name, or not a probability distribution.
    """

    names: tuple[str, ...]
    shares: Floats

    def __post_init__(self) -> None:
        shares = np.array(self.shares, np.float64)
        about = f"margin of {listed(self.names)}"
        if shares.ndim != len(self.names) or not self.names:
            raise ValueError(f"{about}: shares of shape {shares.shape}, expected one axis a name")
        if not (np.isfinite(shares).all() and (shares >= 0).all()):
            raise ValueError(f"{about}: expected shares of at least 0")
        total = float(shares.sum())
        if abs(total - 1) > TOLERANCE:
            raise ValueError(f"{about}: the shares add up to {total:.7g}, expected 1")
        shares /= total
        shares.flags.writeable = False
        object.__setattr__(self, "shares", shares)

    def __repr__(self) -> str:
        return f"<Margin: {' x '.join(self.names)}, {self.shares.size} cells>"

    @classmethod
    def of_counts(cls, names: Sequence[str], counts: ArrayLike) -> Margin:
        """A margin from the number of people in every cell.

        Raises:
            ValueError: a count below 0, or none above it.
        """
        given = np.asarray(counts, np.float64)
        if not (np.isfinite(given).all() and (given >= 0).all() and given.any()):
            raise ValueError(f"margin of {listed(names)}: expected counts of at least 0, not all 0")
        return cls(tuple(names), given / given.sum())

    @classmethod
    def of_cells(
        cls, survey: Survey, names: Sequence[str], cells: Mapping[tuple[str, ...], float]
    ) -> Margin:
        """A margin from the number of people, or the share, of every combination of categories.

        Raises:
            SurveyError: an unknown or repeated attribute, an unknown category, or a combination
                that is missing.
            ValueError: more than ``MAX_CELLS`` combinations, or as ``of_counts``.
        """
        axes = survey.axes(names)
        attributes = [survey.attributes[axis] for axis in axes]
        sizes = tuple(attribute.size for attribute in attributes)
        if math.prod(sizes) > MAX_CELLS:
            raise ValueError(f"margin of {listed(names)}: more than {MAX_CELLS:,} cells")
        table = np.full(sizes, np.nan)
        for cell, value in cells.items():
            codes = [a.code(category) for a, category in zip(attributes, cell, strict=True)]
            table[tuple(codes)] = value
        absent = np.argwhere(np.isnan(table))
        if len(absent):
            cell = tuple(
                attribute.categories[code]
                for attribute, code in zip(attributes, absent[0].tolist(), strict=True)
            )
            raise SurveyError(f"margin of {listed(names)}: {listed(cell)} is missing")
        return cls.of_counts(names, table)

    def on(self, names: Sequence[str]) -> Floats:
        """The distribution of some of its attributes."""
        return marginal(self.shares, self.names, names)


def checked_margins(survey: Survey, margins: Sequence[Margin]) -> tuple[Margin, ...]:
    """Margins that estimates of a survey can agree with.

    Raises:
        SurveyError: an unknown or repeated attribute.
        ValueError: no margin, one of another shape than its attributes', two of the same
            attributes, two that disagree on the attributes that they share, or more
            than ``MAX_CELLS`` cells.
    """
    if not margins:
        raise ValueError("expected at least one margin")
    for margin in margins:
        sizes = tuple(survey.sizes[axis] for axis in survey.axes(margin.names))
        if margin.shares.shape != sizes:
            raise ValueError(
                f"margin of {listed(margin.names)}: shares of shape {margin.shares.shape}, "
                f"expected {sizes}"
            )
    if sum(margin.shares.size for margin in margins) > MAX_CELLS:
        raise ValueError(f"the margins have more than {MAX_CELLS:,} cells together")
    for one, other in combinations(margins, 2):
        if set(one.names) == set(other.names):
            raise ValueError(f"the margin of {listed(one.names)} is given twice")
        common = [name for name in survey.names if name in one.names and name in other.names]
        if common and np.abs(one.on(common) - other.on(common)).max() > TOLERANCE:
            raise ValueError(
                f"the margins of {listed(one.names)} and {listed(other.names)} disagree on the "
                f"shares of {listed(common)}"
            )
    return tuple(margins)


def margins_of_rows(survey: Survey, rows: Sequence[Sequence[str]]) -> Iterator[Margin]:
    """Margins from a table of text, its first row the names of its columns.

    The columns are either ``attribute``, ``category`` and ``share`` or ``count``, for one or more
    attributes each by itself; or the names of attributes, then ``share`` or ``count``, for the
    combinations of their categories.

    Raises:
        SurveyError: another header, a row of another length, a value that is not a number or out of
            range, an unknown attribute or category, or a combination that is missing or given
            twice.
        ValueError: shares that do not add up to 1, or counts that are all 0.
    """
    if not rows:
        raise SurveyError("the table of margins is empty")
    *header, kind = (name.strip() for name in rows[0])
    if kind not in ("share", "count") or not header:
        raise SurveyError(
            f"columns {listed((*header, kind))}: expected attribute,category,share, or names of "
            "attributes and then share; count may stand for share"
        )
    plain = header == ["attribute", "category"] and "attribute" not in survey.names
    found: dict[tuple[str, ...], dict[tuple[str, ...], float]] = {}
    for number, row in enumerate(rows[1:], 1):
        if len(row) != len(header) + 1:
            raise SurveyError(
                f"{len(row)} fields, but the header has {len(header) + 1}", row=number
            )
        *cells, text = (field.strip() for field in row)
        names, cell = ((cells[0],), (cells[1],)) if plain else (tuple(header), tuple(cells))
        for name, category in zip(names, cell, strict=True):
            attribute = survey.attribute(name)
            if plain and category not in attribute.categories:
                raise SurveyError(
                    f"{shown(category)} is not a category of {shown(name)}; "
                    f"allowed: {listed(attribute.categories)}",
                    row=number,
                    column=header[1],
                )
            attribute.code(category, row=number)
        given = found.setdefault(names, {})
        if cell in given:
            raise SurveyError(f"{listed((*names, *cell))} is given twice", row=number)
        given[cell] = _number(text, number, kind)
    if not found:
        raise SurveyError("the table of margins has a header and no rows")
    for names, given in found.items():
        counted = Margin.of_cells(survey, names, given)
        if kind == "share":
            total = sum(given.values())
            if abs(total - 1) > TOLERANCE:
                raise ValueError(
                    f"margin of {listed(names)}: the shares add up to {total:.7g}, expected 1 "
                    "(a column named count takes any total)"
                )
        yield counted


def _number(text: str, row: int, column: str) -> float:
    """A number with a decimal point or comma."""
    whole, _, decimals = text.partition(",")
    if len(decimals) == 3 and column == "count":
        raise SurveyError(
            f"{shown(text)}: expected a number without a sign between thousands",
            row=row,
            column=column,
        )
    try:
        value = float(text if "." in text or not decimals else f"{whole}.{decimals}")
    except ValueError:
        value = float("nan")
    if not 0 <= value < float("inf"):
        raise SurveyError(f"{shown(text)}: expected a number of at least 0", row=row, column=column)
    return value
