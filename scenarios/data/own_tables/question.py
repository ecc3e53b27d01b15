"""A question on a person's own table: an attribute, and how cells become its categories."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from protocol.errors import SurveyError
from protocol.surveys.dataframes import number_text
from protocol.surveys.survey import Attribute, shown
from scenarios.data.own_tables.sheets import tidied


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attribute, and how the cells of a column become its categories.

    Args:
        name, categories, ordinal, missing: of the ``Attribute``. With edges, categories may be left
            out: they are named by what they hold.
        column: of the table; by default the name.
        missing_cells: cells of this column that stand for no answer, beside those of the table.
        ignore_case: a cell that is not a category is taken for the one from which it differs by
            case and blanks alone.
        edges: rising numbers, where the column is numbers. The first category is everything below
            the first edge; every other one begins at an edge, which belongs to it.
        other: the category of every answer that is not among ``categories``; with edges, of
            whatever is not a number. Without it such an answer is refused.
    """

    name: str
    categories: tuple[str, ...] = ()
    ordinal: bool = False
    missing: str | None = None
    column: str | None = None
    missing_cells: tuple[str, ...] = ()
    ignore_case: bool = False
    edges: tuple[float, ...] = ()
    other: str | None = None

    def attribute(self) -> Attribute:
        """What the survey asks.

        Raises:
            SurveyError: as ``Attribute``, or the edges do not rise or do not fit the categories.
        """
        name = tidied(self.name)
        categories = tuple(map(tidied, self.categories))
        missing = None if self.missing is None else tidied(self.missing)
        if self.edges:
            if any(not low < high for low, high in pairwise((-math.inf, *self.edges, math.inf))):
                raise SurveyError("edges: expected finite numbers that rise", column=name)
            bins = len(self.edges) + 1
            if not categories:
                further = (each for each in (missing, self.other) if each is not None)
                categories = (*named_bins(self.edges), *further)
            if len(categories) < bins:
                raise SurveyError(
                    f"{len(categories)} categories for {bins} ranges between edges", column=name
                )
            allowed = {missing, self.other}
            for category in categories[bins:]:
                if category not in allowed:
                    raise SurveyError(
                        f"category {shown(category)} after the {bins} ranges between edges: "
                        "expected missing or other",
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


def alike(text: str) -> str:
    """What texts have in common that differ by case and blanks alone."""
    return "".join(text.split()).casefold()


def _check_apart(name: str, categories: Sequence[str]) -> None:
    first: dict[str, str] = {}
    for category in categories:
        other = first.setdefault(alike(category), category)
        if other != category:
            raise SurveyError(
                f"ignore_case: categories {shown(other)} and {shown(category)} differ by case or "
                "blanks alone",
                column=name,
            )


def named_bins(edges: tuple[float, ...]) -> tuple[str, ...]:
    """What the ranges between edges are called, in order."""
    texts = [number_text(edge) for edge in edges]
    between = (f"{low} to below {high}" for low, high in pairwise(texts))
    return (f"below {texts[0]}", *between, f"{texts[-1]} or more")
