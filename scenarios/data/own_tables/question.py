"""A question about a user's table: an attribute, and the coding of cells into categories."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from protocol.errors import SurveyError
from protocol.surveys.dataframes import number_text
from protocol.surveys.survey import Attribute, shown
from scenarios.data.own_tables.dates import USUAL_ORDER, is_order
from scenarios.data.own_tables.sheets import tidied

NOT_TICKED_OR_TICKED = ("no", "yes")
"""The categories of one answer of a list, where a plan names none."""


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attribute, and the coding of a column's cells into its categories.

    Args:
        name, categories, ordinal, missing: of the ``Attribute``. With edges, categories may be left
            out: they are named by what they hold. So they may with ``ticked``: ``no`` and ``yes``.
        column: column of the table; by default the name. Questions may share a column.
        missing_cells: cells of this column that stand for no answer, beside those of the table.
        ignore_case: a cell that is not a category is taken for the one from which it differs by
            case and blanks alone.
        edges: rising numbers, where the column is numbers, or dates, where it is dates. The first
            category is everything below the first edge; every other one begins at an edge, which
            belongs to it.
        dates: with edges that are dates, how the column writes them, such as ``d.m.y`` or
            ``m/d/y``; by default ``y-m-d``.
        other: the category of every answer that is not among ``categories``; with edges, of
            whatever is not a number, or not a date. Without it such an answer is refused.
        ticked: one of the answers that a cell may list: the second category is of cells that list
            it, the first of all others. An empty cell lists nothing, unless ``missing_cells`` has
            the empty text.
        separator: with ``ticked``, what is between the answers in a cell; a blank stands for any
            number of them.
    """

    name: str
    categories: tuple[str, ...] = ()
    ordinal: bool = False
    missing: str | None = None
    column: str | None = None
    missing_cells: tuple[str, ...] = ()
    ignore_case: bool = False
    edges: tuple[float | datetime.date, ...] = ()
    dates: str | None = None
    other: str | None = None
    ticked: str | None = None
    separator: str | None = None

    @property
    def order(self) -> str | None:
        """The order in which dates are written, where edges are dates; None for numbers."""
        if not self.edges or not isinstance(self.edges[0], datetime.date):
            return None
        return self.dates or USUAL_ORDER

    def attribute(self) -> Attribute:
        """Attribute of the survey.

        Raises:
            SurveyError: as ``Attribute``, the edges do not rise or do not fit the categories, or
                fields that do not go together.
        """
        name = tidied(self.name)
        categories = tuple(map(tidied, self.categories))
        missing = None if self.missing is None else tidied(self.missing)
        self._check_fields(name)
        if self.edges:
            categories = self._ranges(name, categories, missing)
        elif self.ticked is not None:
            further = () if missing is None else (missing,)
            categories = categories or (*NOT_TICKED_OR_TICKED, *further)
            if len([each for each in categories if each != missing]) != 2:
                raise SurveyError(
                    "categories: expected two with ticked, for what is not ticked and for what is",
                    column=name,
                )
        if self.other is not None and tidied(self.other) not in categories:
            raise SurveyError(f"other {shown(self.other)} is not a category", column=name)
        if self.missing_cells and missing is None:
            raise SurveyError(
                "missing_cells: expected missing too, the category that they stand for",
                column=name,
            )
        if self.ignore_case:
            _check_apart(name, categories)
        return Attribute(name=name, categories=categories, ordinal=self.ordinal, missing=missing)

    def _check_fields(self, name: str) -> None:
        """Refuse fields without effect and meaningless values."""
        if self.dates is not None:
            if not is_order(self.dates):
                raise SurveyError(
                    f"dates {shown(self.dates)}: expected d, m and y with one of . / - between "
                    "them, such as 'd.m.y'",
                    column=name,
                )
            if self.order is None:
                raise SurveyError("dates: expected edges that are dates", column=name)
        if (self.ticked is None) != (self.separator is None):
            given = "separator" if self.ticked is None else "ticked"
            raise SurveyError(
                f"{given}: expected ticked and separator, both or neither", column=name
            )
        if self.ticked is not None:
            if not tidied(self.ticked) or not self.separator:
                raise SurveyError("ticked: expected a text, and so for separator", column=name)
            if not self.separator.strip() and len(self.ticked.split()) > 1:
                raise SurveyError(
                    f"ticked: {shown(self.ticked)} has a blank, which separates answers",
                    column=name,
                )
            if self.edges or self.other is not None:
                raise SurveyError("ticked: expected neither edges nor other with it", column=name)

    def _ranges(
        self, name: str, categories: tuple[str, ...], missing: str | None
    ) -> tuple[str, ...]:
        """Categories of ranges between edges, followed by those of other cells."""
        kinds = {isinstance(edge, datetime.date) for edge in self.edges}
        numbers = (-math.inf, *map(edge_number, self.edges), math.inf)
        if len(kinds) > 1 or any(not low < high for low, high in pairwise(numbers)):
            raise SurveyError(
                "edges: expected finite numbers that rise, or dates that do", column=name
            )
        bins = len(self.edges) + 1
        if not categories:
            further = (each for each in (missing, self.other) if each is not None)
            categories = (*named_bins(self.edges), *further)
        if len(categories) < bins:
            raise SurveyError(
                f"{len(categories)} categories for {bins} ranges between edges", column=name
            )
        allowed = {missing, None if self.other is None else tidied(self.other)}
        for category in categories[bins:]:
            if category not in allowed:
                raise SurveyError(
                    f"category {shown(category)} after the {bins} ranges between edges: "
                    "expected missing or other",
                    column=name,
                )
        return categories


def edge_number(edge: float | datetime.date) -> float:
    """An edge as a number: of a date, the days up to it."""
    return edge.toordinal() if isinstance(edge, datetime.date) else edge


def normalize(text: str) -> str:
    """Common form of texts that differ by case and blanks alone."""
    return "".join(text.split()).casefold()


def _check_apart(name: str, categories: Sequence[str]) -> None:
    first: dict[str, str] = {}
    for category in categories:
        other = first.setdefault(normalize(category), category)
        if other != category:
            raise SurveyError(
                f"ignore_case: categories {shown(other)} and {shown(category)} differ by case or "
                "blanks alone",
                column=name,
            )


def named_bins(edges: tuple[float | datetime.date, ...]) -> tuple[str, ...]:
    """Names of the ranges between edges, in order."""
    texts = [edge_text(edge) for edge in edges]
    below, more = ("before", "later") if isinstance(edges[0], datetime.date) else ("below", "more")
    between = (f"{low} to {below} {high}" for low, high in pairwise(texts))
    return (f"{below} {texts[0]}", *between, f"{texts[-1]} or {more}")


def edge_text(edge: float | datetime.date) -> str:
    """An edge as a person writes it, and TOML."""
    return edge.isoformat() if isinstance(edge, datetime.date) else number_text(edge)
