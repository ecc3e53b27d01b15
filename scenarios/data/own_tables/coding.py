"""Coding of the cells of a person's table as categories of a survey."""

from __future__ import annotations

import contextlib
import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.errors import SurveyError, UsageError
from protocol.surveys.dataframes import Cell, cell_text
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey, listed, shown
from scenarios.data.own_tables.dates import date_in
from scenarios.data.own_tables.opening import open_sheet, reading
from scenarios.data.own_tables.question import Question, edge_number, normalize
from scenarios.data.own_tables.sheets import Format, Source, tidied
from scenarios.files.collecting import collector_paused
from scenarios.wording.hints import did_you_mean

_THOUSANDS = {
    ".": re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?"),
    ",": re.compile(r"[+-]?[0-9]{1,3}(\.[0-9]{3})+(,[0-9]+)?"),
}
_SHOWN = 8
_REFUSED = -1
_NAN = float("nan")

_KNOWN = 1 << 16
"""Maximum number of distinct cells of a column that are kept with their codes."""


def number_in(cell: str, decimal: str) -> float | None:
    """The number in a tidied cell; None if it has something else, or one that is not finite.

    Args:
        cell: a number, possibly with thousands set apart by the sign that is not the decimal sign.
        decimal: the decimal sign, a point or a comma.
    """
    apart = "." if decimal == "," else ","
    if apart in cell:
        if not _THOUSANDS[decimal].fullmatch(cell):
            return None
        cell = cell.replace(apart, "")
    try:
        number = float(cell.replace(decimal, "."))
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in cell else None


class Coding(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Coding of tables with the answers to a survey.

    Args:
        survey: the survey.
        questions: a question for each attribute, in order.
        format: format of tables.
    """

    survey: Survey
    questions: tuple[Question, ...]
    format: Format

    @classmethod
    def of(
        cls, survey: Survey, questions: Sequence[Question] = (), given: Format | None = None
    ) -> Coding:
        """Coding of tables for a survey.

        Args:
            questions: a question for each attribute; by default cells are the categories.
            given: format of tables.

        Raises:
            UsageError: the format is impossible.
        """
        given = given or Format()
        given.check()
        asked = questions or [
            Question(name=a.name, categories=a.categories, ordinal=a.ordinal, missing=a.missing)
            for a in survey.attributes
        ]
        return cls(survey=survey, questions=tuple(asked), format=given)

    def records(self, source: Source) -> Records:
        """The records in a table.

        Args:
            source: the path of a CSV or Parquet file, or a table in memory (``Frame.of``).

        Raises:
            UsageError: it cannot be read, its rows do not make a table, a column is missing, or a
                cell has no category; says in which row and column.
            CannotFinishError: it takes more than is given to a file of its length.
        """
        return self.records_beside(source, None)[0]

    def records_beside(self, source: Source, beside: str | None) -> tuple[Records, list[str]]:
        """The records in a table, and the cells of one more column, read together.

        Args:
            source: as in ``records``.
            beside: the column; None for no other.

        Returns:
            The records, and the cells as they are written.

        Raises:
            UsageError: as ``records``.
        """
        with reading(source):
            return self._read(source, beside)

    def _read(self, source: Source, beside: str | None) -> tuple[Records, list[str]]:
        sheet = open_sheet(source, self.format)
        columns = [tidied(each.column or each.name) for each in self.questions]
        wanted = columns if beside is None else [*columns, tidied(beside)]
        for column in wanted:
            if column not in sheet.names:
                raise UsageError(_missing_column(sheet.source, column, sheet.names))
        coders = [
            _Coder(question, attribute, self.format)
            for question, attribute in zip(self.questions, self.survey.attributes, strict=True)
        ]
        blocks: list[NDArray[np.unsignedinteger]] = []
        further: list[str] = []
        before = 0
        with collector_paused():
            for block in sheet.blocks(wanted):
                codes = np.stack(
                    [coder.codes(cells) for coder, cells in zip(coders, block, strict=False)]
                )
                if codes.min() == _REFUSED:
                    row, place = map(int, np.argwhere(codes.T == _REFUSED)[0])
                    why = coders[place].why(block[place][row], sheet.encoding)
                    error = SurveyError(why, row=before + row + 1, column=columns[place])
                    raise UsageError(f"{sheet.source}: {error}")
                blocks.append(np.ascontiguousarray(codes.T, self.survey.dtype))
                if beside is not None:
                    further += [cell_text(cell) or "" for cell in block[-1]]
                before += codes.shape[1]
        if not blocks:
            raise UsageError(f"{sheet.source}: has no records")
        return Records(self.survey, np.concatenate(blocks)), further


def _missing_column(source: str, column: str, names: Sequence[str]) -> str:
    near = did_you_mean(column, names) or "."
    return f"{source}: no column {shown(column)}{near} The table has {listed(names)}"


class _Coder(dict[Cell, int]):
    """Codes of a column's cells; each distinct cell is judged once."""

    def __init__(self, question: Question, attribute: Attribute, given: Format) -> None:
        super().__init__()
        self._question = question
        self._attribute = attribute
        self._decimal = given.decimal
        self._own_missing = {*map(tidied, question.missing_cells)}
        self._missing = {"", *map(tidied, given.missing_cells)}
        self._no_answer: set[Cell] = {None, *self._missing, *self._own_missing}
        found = (number_in(cell, given.decimal) for cell in self._missing | self._own_missing)
        self._numbers_for_none = [number for number in found if number is not None]
        codes = {category: code for code, category in enumerate(attribute.categories)}
        self._unanswered = _REFUSED if attribute.missing is None else codes[attribute.missing]
        self._else = _REFUSED if question.other is None else codes[tidied(question.other)]
        self._edges = [*map(edge_number, question.edges)]
        self._order = question.order
        self._ticked = None if question.ticked is None else self._comparable(question.ticked)
        self._exact = {} if question.edges or question.ticked is not None else codes
        # Their places among the categories, which need not be adjacent.
        self._whether = [codes[each] for each in attribute.categories if each != attribute.missing]
        self._alike = {}
        if question.ignore_case:
            self._alike = {normalize(category): code for category, code in self._exact.items()}

    def codes(self, cells: Sequence[Cell]) -> NDArray[np.int64]:
        if self._edges and self._order is None:
            numbers = self._plain_numbers(cells)
            if numbers is not None:
                return self._ranges(cells, numbers)
        if len(self) > _KNOWN:
            self.clear()
        return np.fromiter(map(self.__getitem__, cells), np.int64, len(cells))

    def _plain_numbers(self, cells: Sequence[Cell]) -> NDArray[np.float64] | None:
        """The numbers in cells, NaN for no answer; None if others are among them.

        They are judged together: one by one takes ten times as long.
        """
        written: Sequence[Any] = cells
        with contextlib.suppress(TypeError):  # They are not text.
            together = "\n".join(cast("Sequence[str]", cells))
            if "_" in together or (self._decimal == "," and "." in together):
                return None
            if self._decimal == ",":
                written = together.replace(",", ".").split("\n")
        if len(written) != len(cells):
            return None
        for numbers in (written, (_NAN if cell in self._no_answer else cell for cell in written)):
            with contextlib.suppress(TypeError, ValueError):
                return np.fromiter(map(float, numbers), np.float64, len(cells))
        return None

    def _ranges(self, cells: Sequence[Cell], numbers: NDArray[np.float64]) -> NDArray[np.int64]:
        codes = np.searchsorted(self._edges, numbers, side="right")
        # Missing answers and texts are NaN here, infinity is refused, a number can mean missing.
        single = ~np.isfinite(numbers) | np.isin(numbers, self._numbers_for_none)
        for place in np.flatnonzero(single).tolist():
            codes[place] = self[cells[place]]
        return codes

    def __missing__(self, cell: Cell) -> int:
        code = self[cell] = self._code(self._text(cell))
        return code

    def _text(self, cell: Cell) -> str:
        text = cell_text(cell, self._decimal)
        return "" if text is None else tidied(text)

    def _code(self, cell: str) -> int:
        if self._is_missing(cell):
            return self._unanswered
        if self._edges:
            number = self._number(cell)
            return self._else if number is None else bisect_right(self._edges, number)
        if self._ticked is not None:
            return self._whether[self._ticked in self._listed_answers(cell)]
        code = self._exact.get(cell)
        if code is None and self._alike:
            code = self._alike.get(normalize(cell))
        return self._else if code is None else code

    def _number(self, cell: str) -> float | None:
        """The number in a cell, or the days up to the date in it; None if it has neither."""
        if self._order is None:
            return number_in(cell, self._decimal)
        day = date_in(cell, self._order)
        return None if day is None else day.toordinal()

    def _listed_answers(self, cell: str) -> set[str]:
        """Answers listed in a cell, normalized for comparison."""
        separator = (self._question.separator or "").strip() or None  # None cuts at blanks.
        return {self._comparable(part) for part in cell.split(separator)}

    def _comparable(self, answer: str) -> str:
        return normalize(answer) if self._question.ignore_case else tidied(answer)

    def _is_missing(self, cell: str) -> bool:
        if self._ticked is not None and not cell:
            return cell in self._own_missing
        # A category may have the name of a cell for no answer.
        return cell in self._own_missing or (cell in self._missing and cell not in self._exact)

    def why(self, cell: Cell, encoding: str | None = None) -> str:
        """Reason why a cell has no code, and which setting of the plan would give it one.

        Args:
            encoding: the text file's encoding; None for other tables.
        """
        text = self._text(cell)
        if self._is_missing(text):
            return "the answer is missing, and this attribute has no missing category"
        if self._order is not None:
            return f"{shown(text)}: expected a date, written {self._order}"
        if self._edges:
            return f"{shown(text)}: expected a number"
        categories = self._attribute.categories
        near = did_you_mean(text, categories)
        allowed = f"{f'{near} Allowed' if near else '; allowed'}: {listed(categories, _SHOWN)}"
        said = f"unknown category {shown(text)}{allowed}"
        meant = _as_utf8(text, encoding)
        if meant is not None and meant in categories:
            return (
                f"{said}. Read as UTF-8 it is {shown(meant)}: the file does not seem to be in "
                f'{encoding}, set encoding = "utf-8" in [records]'
            )
        same = [category for category in categories if normalize(category) == normalize(text)]
        if len(same) == 1 and len(set(map(normalize, categories))) == len(categories):
            return f"{said}. With ignore_case = true in its [[attributes]] it is {shown(same[0])}"
        return said


def _as_utf8(text: str, encoding: str | None) -> str | None:
    """The text if it was UTF-8 read in this encoding; None otherwise."""
    if encoding is None or text.isascii():
        return None
    try:
        return tidied(text.encode(encoding).decode())
    except UnicodeError:
        return None
