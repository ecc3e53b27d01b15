"""From the cells of a person's table to the categories of a survey."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import SurveyError
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey, listed, shown
from scenarios.errors import UsageError
from scenarios.own_data.sheets import Format, open_sheet, tidied

_THOUSANDS = {
    ".": re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?"),
    ",": re.compile(r"[+-]?[0-9]{1,3}(\.[0-9]{3})+(,[0-9]+)?"),
}
_SHOWN = 8
_REFUSED = -1


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attribute, and how the cells of a column become its categories.

    Args:
        name, categories, ordinal, missing: of the ``Attribute``. With edges, categories may be left
            out: they are named by what they hold.
        column: of the table; by default the name.
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
        return Attribute(name=name, categories=categories, ordinal=self.ordinal, missing=missing)


def named_bins(edges: tuple[float, ...]) -> tuple[str, ...]:
    """What the ranges between edges are called, in order."""
    texts = [number_text(edge) for edge in edges]
    between = (f"{low} to below {high}" for low, high in pairwise(texts))
    return (f"below {texts[0]}", *between, f"{texts[-1]} or more")


def number_text(number: float) -> str:
    """A number as a person writes it."""
    return f"{number:.0f}" if number == int(number) and abs(number) < 1e15 else repr(number)


def number_in(cell: str, decimal: str) -> float | None:
    """The number in a tidied cell; None if it is none, or not a finite one.

    Args:
        cell: its thousands may be set apart, by a comma or by a point, whichever is not the other.
        decimal: what stands before the decimals, a point or a comma.
    """
    if _THOUSANDS[decimal].fullmatch(cell):
        cell = cell.replace("." if decimal == "," else ",", "")
    elif decimal == "," and "." in cell:
        return None
    try:
        number = float(cell.replace(decimal, "."))
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in cell else None


class Coding(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """How tables with the answers to a survey are read.

    Args:
        survey: what is asked.
        questions: one for each of its attributes, in their order.
        format: how tables are written.
    """

    survey: Survey
    questions: tuple[Question, ...]
    format: Format

    @classmethod
    def of(
        cls, survey: Survey, questions: Sequence[Question] = (), given: Format | None = None
    ) -> Coding:
        """How tables are read for a survey.

        Args:
            survey: what is asked.
            questions: one for each attribute; by default cells are the categories themselves.
            given: how tables are written.

        Raises:
            UsageError: they cannot be written so.
        """
        given = given or Format()
        given.check()
        asked = questions or [
            Question(name=a.name, categories=a.categories, ordinal=a.ordinal, missing=a.missing)
            for a in survey.attributes
        ]
        return cls(survey=survey, questions=tuple(asked), format=given)

    def records(self, path: Path) -> Records:
        """The records in a table.

        Raises:
            UsageError: the file cannot be read, its rows do not make a table, a column is missing,
                or a cell has no category; says in which row and column.
        """
        sheet = open_sheet(path, self.format)
        columns = [tidied(each.column or each.name) for each in self.questions]
        for column in columns:
            if column not in sheet.names:
                raise UsageError(
                    f"{path}: no column {shown(column)}; the first row has {listed(sheet.names)}"
                )
        coders = [
            _Coder(question, attribute, self.format)
            for question, attribute in zip(self.questions, self.survey.attributes, strict=True)
        ]
        blocks: list[NDArray[np.unsignedinteger]] = []
        before = 0
        for block in sheet.blocks(columns):
            codes = np.stack(
                [coder.codes(cells) for coder, cells in zip(coders, block, strict=True)]
            )
            if (codes == _REFUSED).any():
                row, place = map(int, np.argwhere(codes.T == _REFUSED)[0])
                why = coders[place].why(block[place][row])
                error = SurveyError(why, row=before + row + 1, column=columns[place])
                raise UsageError(f"{path}: {error}")
            blocks.append(codes.T.astype(self.survey.dtype))
            before += codes.shape[1]
        if not blocks:
            raise UsageError(f"{path}: has a header and no records")
        return Records(self.survey, np.concatenate(blocks))


class _Coder:
    """The codes of a column's cells. Each distinct cell is judged once."""

    def __init__(self, question: Question, attribute: Attribute, given: Format) -> None:
        self._question = question
        self._attribute = attribute
        self._decimal = given.decimal
        self._missing = {"", *map(tidied, given.missing)}
        self._other = None if question.other is None else tidied(question.other)
        self._known: dict[str, int] = {}

    def codes(self, cells: tuple[str, ...]) -> NDArray[np.int64]:
        """The code of each cell, ``_REFUSED`` where it has none."""
        known = self._known
        for cell in set(cells).difference(known):
            known[cell] = self._code(tidied(cell))
        return np.fromiter(map(known.__getitem__, cells), np.int64, len(cells))

    def _code(self, cell: str) -> int:
        attribute, edges = self._attribute, self._question.edges
        # A category may be called like a token for no answer.
        if cell in self._missing and (edges or cell not in attribute.categories):
            return _REFUSED if attribute.missing is None else attribute.code(attribute.missing)
        if edges:
            number = number_in(cell, self._decimal)
            if number is not None:
                return bisect_right(edges, number)
        elif cell in attribute.categories:
            return attribute.code(cell)
        return _REFUSED if self._other is None else attribute.code(self._other)

    def why(self, cell: str) -> str:
        """Why a cell has no code."""
        cell = tidied(cell)
        if cell in self._missing:
            return "the answer is missing, and this attribute has no missing category"
        if self._question.edges:
            return f"{shown(cell)}: expected a number"
        return (
            f"unknown category {shown(cell)}; allowed: {listed(self._attribute.categories, _SHOWN)}"
        )
