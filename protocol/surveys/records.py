"""The true answers of respondents, encoded, and their exact counts."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.errors import SurveyError
from protocol.surveys.dataframes import Frame, cell_text, is_missing
from protocol.surveys.formulas import escape_formula, unescape_formula
from protocol.surveys.survey import Attribute, Survey, listed, shown
from protocol.wire.arrays import MAX_TABLE_CELLS, Array

_BLOCK = 2**16
"""The number of rows held as text at one time while records are read."""

_UNKNOWN = -1

_TEXTS = {str, type(None)}

_FILE_NAME = re.compile(r"[^,;\t|]\.(csv|tsv|txt|dat|parquet)$", re.IGNORECASE)

Cells = tuple[str | None, ...]
"""A row or a column of text, not yet encoded."""


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Records:
    """The true answers of k respondents to the m attributes of a survey, k at least 1.

    Args:
        survey: the survey that was asked.
        codes: shape (k, m), of any integer type; kept as a read-only, C-contiguous copy of type
            ``survey.dtype``. Row i is respondent i, column j is the code of attribute j.

    Attributes:
        weights: design weights, shape (k,); None if all respondents count alike (``weighted``).

    Raises:
        SurveyError: not an integer array, another shape, no row, or a code without a category,
            named by row and column.
    """

    survey: Survey
    codes: NDArray[np.unsignedinteger]
    weights: NDArray[np.float64] | None

    def __init__(self, survey: Survey, codes: NDArray[np.generic]) -> None:
        object.__setattr__(self, "survey", survey)
        object.__setattr__(self, "codes", _checked(survey, codes))
        object.__setattr__(self, "weights", None)

    def __len__(self) -> int:
        """The number of respondents, k."""
        return len(self.codes)

    def __repr__(self) -> str:
        return f"<Records: k={len(self.codes)}, m={len(self.survey.attributes)}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Records):
            return NotImplemented
        return self.survey == other.survey and np.array_equal(self.codes, other.codes)

    @classmethod
    def from_rows(
        cls, survey: Survey, rows: Iterable[Mapping[str, str | None] | Sequence[str | None]]
    ) -> Records:
        """Encode one row per respondent: a mapping by name, or a sequence in the survey's order.

        ``None``, NaN and blank text mean the attribute's missing category. Blanks around a category
        and further keys of a mapping are ignored.

        Raises:
            SurveyError: no row, a row of another kind or length, an attribute that a row lacks,
                an unknown category, or a missing answer where nothing may be missing.
        """
        _check_survey(survey, "rows")
        if hasattr(rows, "columns") or hasattr(rows, "column_names"):
            raise SurveyError(f"a {type(rows).__name__} has columns; expected Records.from_frame")
        return _encoded(survey, _tuples(survey, rows))

    @classmethod
    def from_csv(cls, survey: Survey, lines: Iterable[str], *, delimiter: str = ",") -> Records:
        """Encode a table whose first row names its columns.

        Columns are found by name, in any order; further columns are ignored. Blanks around a
        field are dropped, an empty field means the attribute's missing category, and fields are
        quoted as Python's ``csv`` module has it. Blank lines may only stand at the end.

        Args:
            survey: the survey that was asked.
            lines: an open text file, lines, or the whole text.
            delimiter: one character between two fields; neither a blank (a tab may be) nor a quote.

        Raises:
            SurveyError: an empty table or one without records, a column that is missing or named
                twice, a row of another length than the header, an unknown category, a missing
                answer where nothing may be missing, or text that is not a table.
        """
        _check_survey(survey, "lines")
        if hasattr(lines, "__fspath__") or (isinstance(lines, str) and _may_be_a_path(lines)):
            raise SurveyError(
                f"{shown(str(lines))} is a path; expected an open text file, lines, or the whole "
                "text (scenarios.read_records takes a path)"
            )
        if len(delimiter) != 1 or delimiter in ' "\r\n\0':
            raise SurveyError(f"delimiter {shown(delimiter)}: expected one character")
        return _encoded(survey, _picked(survey.names, lines, delimiter))

    @classmethod
    def from_frame(cls, survey: Survey, frame: object) -> Records:
        """Encode a table in memory.

        Columns are found by name, in any order; further columns are ignored. Blanks around a
        category are ignored. ``None``, NaN, ``pandas.NA`` and blank text mean the attribute's
        missing category. A number is the category that is written like it, 3.0 like 3, and a
        boolean is ``True`` or ``False``.

        Args:
            survey: the survey that was asked.
            frame: of pandas, polars or Arrow, or a mapping from names to columns (``Frame.of``).

        Raises:
            SurveyError: not such a table, one without records, a column that is missing or there
                twice, an unknown category, or a missing answer where nothing may be missing.
        """
        _check_survey(survey, "frame")
        table = Frame.of(frame)
        places = [table.place(name) for name in survey.names]
        rows = (
            (*map(cell_text, row),)
            for block in table.blocks(places, _BLOCK)
            for row in zip(*block, strict=True)
        )
        return _encoded(survey, rows)

    @classmethod
    def from_counts(cls, survey: Survey, counts: NDArray[np.integer]) -> Records:
        """Records with a given number of respondents for every combination of answers, in cell
        order.

        Args:
            survey: the survey that was asked.
            counts: shape ``survey.sizes``.

        Raises:
            SurveyError: another shape, or nobody.
        """
        if counts.shape != survey.sizes:
            raise SurveyError(f"counts have shape {counts.shape}, expected {survey.sizes}")
        return cls(survey, np.repeat(np.argwhere(np.ones_like(counts)), counts.ravel(), axis=0))

    @classmethod
    def joined(cls, parts: Sequence[Records]) -> Records:
        """The records of several lists after each other.

        Raises:
            SurveyError: no list, or not all of one survey.
        """
        if not parts:
            raise SurveyError("no records to join")
        survey = parts[0].survey
        if any(part.survey != survey for part in parts):
            raise SurveyError("records of different surveys cannot be joined")
        return _trusted(survey, np.concatenate([part.codes for part in parts]))

    def to_rows(self) -> list[dict[str, str]]:
        """One mapping from attribute name to category per respondent."""
        names = self.survey.names
        return [dict(zip(names, row, strict=True)) for row in self._texts()]

    def to_csv(self) -> str:
        """The records as comma-separated text with a header; ``from_csv`` reads it back.

        An apostrophe stands before names that a spreadsheet would take for formulas.
        """
        text = _Text()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(map(escape_formula, self.survey.names))
        writer.writerows(self._texts(escape_formula))
        return "".join(text.parts)

    def _texts(self, shown: Callable[[str], str] = str) -> Iterator[tuple[str, ...]]:
        columns = (
            np.array([*map(shown, attribute.categories)], dtype=object)[
                self.codes[:, place]
            ].tolist()
            for place, attribute in enumerate(self.survey.attributes)
        )
        return zip(*columns, strict=True)

    def counts(self, names: Sequence[str]) -> NDArray[np.int64]:
        """The exact contingency table of some attributes, one axis each, in the order given.

        Its sum is k. Without any name it is the single number k.

        Raises:
            SurveyError: an unknown or repeated name, or more than ``MAX_TABLE_CELLS`` cells.
        """
        cell, sizes = self._cells(names)
        cells = math.prod(sizes)
        return np.bincount(cell, minlength=cells).astype(np.int64, copy=False).reshape(sizes)

    def _cells(self, names: Sequence[str]) -> tuple[NDArray[np.int64], tuple[int, ...]]:
        """The combination of each respondent, and the sizes of the attributes.

        Raises:
            SurveyError: as ``counts``.
        """
        axes = self.survey.axes(names)
        sizes = tuple(self.survey.sizes[axis] for axis in axes)
        cells = math.prod(sizes)
        if cells > MAX_TABLE_CELLS:
            raise SurveyError(
                f"a table of {listed(names)} has {cells} cells, more than {MAX_TABLE_CELLS}"
            )
        cell = np.zeros(len(self.codes), np.int64)
        for axis, size in zip(axes, sizes, strict=True):
            cell *= size
            cell += self.codes[:, axis]
        return cell, sizes

    def distribution(self, names: Sequence[str]) -> NDArray[np.float64]:
        """The relative frequencies of some attributes, ``counts(names) / k``, or weighted ones.

        Raises:
            SurveyError: as ``counts``.
        """
        if self.weights is None:
            return self.counts(names) / len(self.codes)
        cell, sizes = self._cells(names)
        sums = np.bincount(cell, weights=self.weights, minlength=math.prod(sizes))
        shares: NDArray[np.float64] = (sums / self.weights.sum()).reshape(sizes)
        return shares

    def weighted(self, weights: ArrayLike) -> Records:
        """The same records with design weights; parts and selections of them have none.

        Args:
            weights: positive numbers, shape (k,).

        Raises:
            SurveyError: another shape, or a weight that is not a positive number.
        """
        given = np.array(weights, np.float64)
        if given.shape != (len(self),) or not ((given > 0) & np.isfinite(given)).all():
            raise SurveyError(f"weights: expected {len(self)} numbers above 0")
        given.flags.writeable = False
        found = _trusted(self.survey, self.codes)
        object.__setattr__(found, "weights", given)
        return found

    def split(self, parts: int) -> list[Records]:
        """Cut into runs of neighbours whose lengths differ by at most 1, the longer ones first.

        The parts share the memory of the whole.

        Raises:
            SurveyError: fewer than 1 part or more than k.
        """
        if not 1 <= parts <= len(self.codes):
            raise SurveyError(f"{len(self.codes)} records cannot be split into {parts} parts")
        length, longer = divmod(len(self.codes), parts)
        starts = [part * length + min(part, longer) for part in range(parts + 1)]
        return [_trusted(self.survey, self.codes[start:stop]) for start, stop in pairwise(starts)]

    def project(self, names: Sequence[str]) -> Records:
        """The answers to some questions alone, in the order given.

        Raises:
            SurveyError: as ``Survey.project``.
        """
        return Records(self.survey.project(names), self.codes[:, list(self.survey.axes(names))])

    def pick(self, rows: NDArray[np.integer]) -> Records:
        """The records in some places from 0, in this order; a place may come more than once.

        Raises:
            SurveyError: no place.
            IndexError: a place without a record.
        """
        if not len(rows):
            raise SurveyError("no records")
        return _trusted(self.survey, self.codes.take(rows, axis=0))

    def take(self, k: int) -> Records:
        """The first k records; they share the memory of the whole.

        Raises:
            SurveyError: fewer than 1 or more than there are.
        """
        if not 1 <= k <= len(self.codes):
            raise SurveyError(f"cannot take {k} of {len(self.codes)} records")
        return _trusted(self.survey, self.codes[:k])


class _Text:
    """The target of ``csv.writer``."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def write(self, part: str) -> None:
        self.parts.append(part)


def _checked(survey: Survey, array: Array) -> NDArray[np.unsignedinteger]:
    if not isinstance(array, np.ndarray):
        raise SurveyError(f"codes must be a numpy array, not {type(array).__name__}")
    if array.dtype.kind not in "iu":
        raise SurveyError(f"codes must be integers, not {array.dtype}")
    m = len(survey.attributes)
    if array.ndim != 2 or array.shape[1] != m:
        raise SurveyError(f"codes have shape {array.shape}, expected (k, {m})")
    if not len(array):
        raise SurveyError("no records")
    if (array.min(axis=0) < 0).any() or (array.max(axis=0) >= np.array(survey.sizes)).any():
        wrong = np.argwhere((array < 0) | (array >= np.array(survey.sizes, np.int64)))
        row, place = wrong[0].tolist()
        attribute = survey.attributes[place]
        raise SurveyError(
            f"code {array[row, place]} is not in 0..{attribute.size - 1}",
            row=row + 1,
            column=attribute.name,
        )
    codes = np.array(array, dtype=survey.dtype, order="C")
    codes.flags.writeable = False
    return codes


def _check_survey(survey: object, other: str) -> None:
    if not isinstance(survey, Survey):
        raise SurveyError(
            f"the first argument is a {type(survey).__name__}; expected the survey, then the "
            f"{other}"
        )


def _may_be_a_path(text: str) -> bool:
    """Check whether a one-line text names a file, by its ending, rather than columns."""
    return "\n" not in text and _FILE_NAME.search(text) is not None


def _trusted(survey: Survey, codes: NDArray[np.unsignedinteger]) -> Records:
    """Records from valid codes, without copying or checking 10^5 parts."""
    codes.flags.writeable = False
    records = object.__new__(Records)
    object.__setattr__(records, "survey", survey)
    object.__setattr__(records, "codes", codes)
    object.__setattr__(records, "weights", None)
    return records


def _encoded(survey: Survey, rows: Iterator[Cells]) -> Records:
    """Encode rows of m cells each, block by block, so that not all text is held at once."""
    blocks: list[NDArray[np.unsignedinteger]] = []
    before = 0
    while block := list(islice(rows, _BLOCK)):
        blocks.append(_encoded_block(survey, block, before))
        before += len(block)
    if not blocks:
        raise SurveyError("no records")
    return _trusted(survey, np.concatenate(blocks))


def _encoded_block(survey: Survey, block: list[Cells], before: int) -> NDArray[np.unsignedinteger]:
    codes = np.empty((len(block), len(survey.attributes)), np.int64)
    columns = zip(*block, strict=True)
    for place, (attribute, cells) in enumerate(zip(survey.attributes, columns, strict=True)):
        codes[:, place] = _encoded_column(attribute, cells)
    unknown = np.argwhere(codes == _UNKNOWN)
    if len(unknown):
        row, place = unknown[0].tolist()
        _code(survey.attributes[place], block[row][place], row=before + row + 1)
    return codes.astype(survey.dtype)


def _encoded_column(attribute: Attribute, cells: Cells) -> NDArray[np.int64]:
    """The codes of one column, ``_UNKNOWN`` for none; each distinct cell is looked up once."""
    table: dict[str | None, int] = {}
    for cell in set(cells):
        try:
            table[cell] = _code(attribute, cell)
        except SurveyError:
            table[cell] = _UNKNOWN
    return np.fromiter(map(table.__getitem__, cells), np.int64, len(cells))


def _code(attribute: Attribute, cell: str | None, *, row: int | None = None) -> int:
    return attribute.code(cell.strip() if isinstance(cell, str) else cell, row=row)


def _tuples(survey: Survey, rows: Iterable[object]) -> Iterator[Cells]:
    names = survey.names
    for number, row in enumerate(rows, 1):
        if isinstance(row, np.ndarray):
            row = row.tolist()
        if isinstance(row, Mapping):
            lacking = next((name for name in names if name not in row), None)
            if lacking is not None:
                raise SurveyError(
                    f"missing; the row has {listed(tuple(row))}", row=number, column=lacking
                )
            cells = tuple([row[name] for name in names])
        elif isinstance(row, Sequence) and not isinstance(row, str | bytes):
            if len(row) != len(names):
                raise SurveyError(f"{len(row)} cells, expected {len(names)}", row=number)
            cells = tuple(row)
        else:
            raise SurveyError(
                f"expected a mapping or a sequence, got {type(row).__name__}", row=number
            )
        if not _TEXTS.issuperset(map(type, cells)):
            cells = tuple([None if is_missing(cell) else cell for cell in cells])
        for attribute, cell in zip(survey.attributes, cells, strict=True):
            if not isinstance(cell, str | None):
                attribute.code(cell, row=number)
        yield cells


def _picked(
    names: tuple[str, ...], lines: Iterable[str], delimiter: str
) -> Iterator[tuple[str, ...]]:
    """The named columns of a table, row by row; foreign exceptions are converted here."""
    # The number of the row that is being read; the header is row 0.
    number = 0
    try:
        reader = csv.reader(_text(lines), delimiter=delimiter, skipinitialspace=True, strict=True)
        header = next(reader, None)
        if header is None:
            raise SurveyError("the table is empty")
        places = _places(names, [unescape_formula(name.strip()) for name in header])
        blank = None
        number = 1
        for fields in reader:
            if not fields or (len(fields) == 1 < len(header) and not fields[0].strip()):
                blank = blank or number
            elif blank is not None:
                raise SurveyError("a blank line before further records", row=blank)
            elif len(fields) != len(header):
                raise SurveyError(
                    f"{len(fields)} fields, but the header has {len(header)}", row=number
                )
            else:
                yield tuple([unescape_formula(fields[place]) for place in places])
            number += 1
    except csv.Error as error:
        raise SurveyError(f"not a table: {error}", row=number or None) from error
    except UnicodeError as error:
        # Files are decoded in large pieces, so the row is not known.
        raise SurveyError(f"not text: {error}") from error
    if number == 1 or blank == 1:
        raise SurveyError("the table has a header and no records")


def _text(lines: Iterable[str]) -> Iterator[str]:
    first = True
    if isinstance(lines, str):
        lines = lines.split("\n") if lines else []
    for line in lines:
        # Lines of bytes pass, since the reader has a clear message about them.
        if isinstance(line, str):
            # The reader lets NUL through, though no table that is meant as text has one.
            if "\0" in line:
                raise csv.Error("NUL character")
            # Spreadsheets put a byte order mark in front.
            yield line.removeprefix("\ufeff") if first else line
        else:
            yield line
        first = False


def _places(names: tuple[str, ...], header: list[str]) -> list[int]:
    if not any(header):
        raise SurveyError("the first line is blank, expected the names of the columns")
    for name in names:
        if name not in header:
            raise SurveyError(f"no such column; the header has {listed(header)}", column=name)
        if header.count(name) > 1:
            raise SurveyError("the header names this column more than once", column=name)
    return [header.index(name) for name in names]
