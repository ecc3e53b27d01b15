"""Targets of an estimate: the tables that a person wants, and the error over their cells."""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

from protocol.errors import SurveyError, UsageError
from protocol.surveys.survey import Survey, shown
from scenarios.wording.hints import name_hint

Names = tuple[str, ...]

MOST_CELLS = 2**22
"""Maximum number of cells of a target's tables together."""


class Target(NamedTuple):
    """Tables of attributes. The error of a target is the root of the mean square over all cells.

    Args:
        says: the target as written: ``margins``, ``pairs``, or the attributes of one table.
        tables: the attributes of each table.
    """

    says: str
    tables: tuple[Names, ...]

    @property
    def ways(self) -> int:
        """Number of attributes of the largest table."""
        return max(map(len, self.tables))


def parse_target(survey: Survey, text: str) -> Target:
    """The target of a text: ``margins``, ``pairs``, or names of attributes with commas between.

    Raises:
        UsageError: an unknown or repeated attribute, pairs of a single attribute, or too many
            cells.
    """
    if text == "margins":
        tables: tuple[Names, ...] = tuple((name,) for name in survey.names)
    elif text == "pairs":
        tables = tuple(combinations(survey.names, 2))
        if not tables:
            raise UsageError("target pairs: the plan has one attribute; expected margins")
    else:
        names = (text,) if text in survey.names else tuple(map(str.strip, text.split(",")))
        known = survey.names if len(names) > 1 else (*survey.names, "margins", "pairs")
        for name in names:
            hint = "" if name in survey.names else name_hint(name, known)
            if hint:
                raise UsageError(f"target {shown(text)}: no attribute {shown(name)}{hint}")
        try:
            survey.axes(names)
        except SurveyError as error:
            raise UsageError(
                f"target {text!r}: {error}; expected margins, pairs, or attributes with commas "
                "between them"
            ) from error
        tables = (names,)
    cells = sum(count_cells(survey, names) for names in tables)
    if cells > MOST_CELLS:
        raise UsageError(
            f"target {text}: its tables have {cells:,} cells, expected at most {MOST_CELLS:,}"
        )
    return Target(text, tables)


def count_cells(survey: Survey, names: Names) -> int:
    """Number of cells of the table of some attributes."""
    return math.prod(survey.sizes[axis] for axis in survey.axes(names))


def mostly_one(survey: Survey, target: Target) -> str:
    """A sentence on the one of several tables that has more than half of the cells; empty if none.

    The error of a target is mostly that of such a table.
    """
    cells = {names: count_cells(survey, names) for names in target.tables}
    largest, total = max(cells, key=lambda names: cells[names]), sum(cells.values())
    if len(cells) == 1 or 2 * cells[largest] <= total:
        return ""
    text = ",".join(largest)
    return (
        f"{text} has {cells[largest]:,} of the {total:,} cells, so the error is mostly its own; "
        "--target NAME takes one attribute alone, and --target A,B one table."
    )
