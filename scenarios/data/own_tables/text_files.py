"""Tables in text files, whatever their encoding and the sign between their fields."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from protocol.errors import UsageError
from protocol.surveys.dataframes import Cell
from protocol.surveys.formulas import unescape_formula
from scenarios.data.own_tables.sheets import BLOCK, Format, Sheet, named_sheet
from scenarios.files.kinds import detect_kind
from scenarios.wording.formatting import count

DELIMITERS = (",", ";", "\t", "|")
"""Delimiters to try, in order."""

ENCODINGS = ("utf-8", "cp1252", "latin-1")
"""Encodings to try without a byte order mark. The last fits any bytes."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_TEXTS = ("a table", "a text")
"""Kinds of files, by their names, that may be tables."""

_TRIED_ROWS = 200
_TRIED_CHARACTERS = 1 << 20


def text_sheet(path: Path, given: Format) -> Sheet:
    """Detect the format of a text table, and read its header.

    Raises:
        UsageError: the file is not text, is empty, or has a header with a name that is missing or
            there twice.
        OSError: it cannot be read.
    """
    with path.open("rb") as content:
        begins = content.read(16)
    kind = detect_kind(path)
    if kind is not None and kind.what not in _TEXTS:
        raise UsageError(f"{path}: {kind.what}; {kind.advice or 'expected a table'}")
    encoding = given.encoding or _guess_encoding(path, begins)
    try:
        with path.open(encoding=encoding, newline="") as file:
            start = file.read(_TRIED_CHARACTERS)
    except UnicodeError as error:
        raise UsageError(f"{path}: not text in {encoding}: {error}") from error
    if not start.strip():
        raise UsageError(f"{path}: is empty; expected a table whose first row names its columns")
    if "\0" in start:
        raise UsageError(f"{path}: has NUL characters; expected a table as text")
    delimiter = given.delimiter or _guess_delimiter(start)
    try:
        header = next(_first_rows(start, delimiter))
    except csv.Error as error:
        raise UsageError(f"{path}: the first row: not a table: {_in_words(error)}") from error
    if not any(map(str.strip, header)):
        raise UsageError(f"{path}: the first row is blank; expected the names of the columns")
    names = [*map(unescape_formula, header)]
    if not given.header:
        names = [f"column {place}" for place in range(1, len(header) + 1)]

    def read(places: Sequence[int]) -> Iterator[list[Sequence[Cell]]]:
        for block in _rows(path, encoding, delimiter, len(names), header=given.header):
            cells = list(zip(*block, strict=True))
            yield [[*map(unescape_formula, cells[place])] for place in places]

    sheet = named_sheet(str(path), names, read, where="the first row")
    return sheet._replace(delimiter=delimiter, encoding=encoding)


def _rows(
    path: Path, encoding: str, delimiter: str, width: int, *, header: bool
) -> Iterator[list[list[str]]]:
    """The rows of a file below its header, in blocks.

    Raises:
        UsageError: a row of another length than the first one, a quote that is never closed, text
            in another encoding, or a blank line before further rows; says in which row.
    """
    before, blank = 0, 0
    with path.open(encoding=encoding, newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
        try:
            if header:
                next(reader)
            while block := list(islice(reader, BLOCK)):
                if blank or {*map(len, block)} != {width}:
                    blank, block = _check_widths(path, block, width, before, blank)
                before += len(block)
                if block:
                    yield block
        except csv.Error as error:
            line = _broken_line(path, encoding, delimiter)
            raise UsageError(f"{path}: line {line}: not a table: {_in_words(error)}") from error
        except UnicodeError as error:
            raise UsageError(
                f"{path}: not text in {encoding}: {error}; expected another encoding"
            ) from error


_BROKEN = {
    "unexpected end of data": "a quote that begins here is never closed",
    "' expected after '": "text after a closing quote; a quote in a quoted cell is written twice",
    "field larger than": "a cell that begins here is too long; a quote may never be closed",
}


def _in_words(error: csv.Error) -> str:
    said = str(error)
    return next((words for part, words in _BROKEN.items() if part in said), said)


def _broken_line(path: Path, encoding: str, delimiter: str) -> int:
    """The line, from 1, where the first unreadable row starts."""
    line = 1
    with path.open(encoding=encoding, newline="") as file:
        reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True, strict=True)
        with suppress(csv.Error):
            for _ in reader:
                line = reader.line_num + 1
    return line


def _check_widths(
    path: Path, block: list[list[str]], width: int, before: int, blank: int
) -> tuple[int, list[list[str]]]:
    """Check the widths of rows; return the first blank row, or 0, and the rows before it."""
    for number, row in enumerate(block, before + 1):
        if not row or (len(row) == 1 < width and not row[0].strip()):
            blank = blank or number
        elif blank:
            raise UsageError(f"{path}: row {blank}: blank, before further rows")
        elif len(row) != width:
            raise UsageError(
                f"{path}: row {number}: {count(len(row), 'field')}, but the first row has {width}"
            )
    return blank, block[: max(0, blank - before - 1)] if blank else block


def _guess_encoding(path: Path, begins: bytes) -> str:
    for mark, encoding in _MARKS:
        if begins.startswith(mark):
            return encoding
    for encoding in ENCODINGS:
        try:
            with path.open(encoding=encoding, newline="") as file:
                while file.read(_TRIED_CHARACTERS):
                    pass
        except UnicodeError:
            continue
        return encoding
    raise AssertionError("latin-1 fits any bytes")


def _first_rows(start: str, delimiter: str) -> Iterator[list[str]]:
    """The first rows; the last may be cut short."""
    return csv.reader(
        start.splitlines(keepends=True), delimiter=delimiter, skipinitialspace=True, strict=True
    )


def _guess_delimiter(start: str) -> str:
    """The delimiter that gives most of the first rows as many fields as the header."""
    best, most = DELIMITERS[0], 0.0
    for delimiter in DELIMITERS:
        rows: list[list[str]] = []
        try:
            rows.extend(islice(_first_rows(start, delimiter), _TRIED_ROWS))
        except csv.Error:
            if len(rows) < 2:
                continue
        if len(rows[0]) < 2:
            continue
        alike = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
        fits = alike**4 * len(rows[0])
        if fits > most:
            best, most = delimiter, fits
    return best
