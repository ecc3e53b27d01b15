"""A table in a text file, whatever its encoding and the sign between its fields."""

from __future__ import annotations

import codecs
import csv
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from protocol.surveys.survey import listed, shown
from scenarios.errors import UsageError

DELIMITERS = (",", ";", "\t", "|")
"""What is tried between fields, in this order."""

ENCODINGS = ("utf-8", "cp1252", "latin-1")
"""What is tried where there is no byte order mark. The last one fits any bytes."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

BLOCK = 1 << 16
"""How many rows are held as text at one time."""

_TRIED_ROWS = 200
_TRIED_CHARACTERS = 1 << 20


class Format(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a table is written down; what is None is found in the file.

    Args:
        delimiter: one character between two fields.
        encoding: of the text, by a name that Python knows.
        decimal: what stands before the decimals of a number: a point or a comma.
        missing: cells that stand for no answer, as an empty one does.
    """

    delimiter: str | None = None
    encoding: str | None = None
    decimal: str = "."
    missing: tuple[str, ...] = ()

    def check(self) -> None:
        """Make sure that a table can be written so.

        Raises:
            UsageError: names the field.
        """
        if self.delimiter is not None and (
            len(self.delimiter) != 1 or self.delimiter in ' "\r\n\0'
        ):
            raise UsageError(
                f"records: delimiter {shown(self.delimiter)}: expected one character, neither a "
                "blank nor a quote"
            )
        if self.decimal not in (".", ","):
            raise UsageError(f"records: decimal {shown(self.decimal)}: expected '.' or ','")
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except (LookupError, ValueError) as error:
                raise UsageError(
                    f"records: encoding {shown(self.encoding)}: unknown; expected a name such as "
                    "utf-8, cp1252 or latin-1"
                ) from error


class Sheet(NamedTuple):
    """A table in a file, of which nothing but the header has been kept.

    Args:
        path: of the file.
        names: of its columns, tidied.
        delimiter, encoding: how it is written, given or found.
    """

    path: Path
    names: tuple[str, ...]
    delimiter: str
    encoding: str

    def blocks(self, columns: Sequence[str]) -> Iterator[list[tuple[str, ...]]]:
        """The cells of some columns, as they are written, ``BLOCK`` rows at a time.

        Yields:
            Of each column the cells of as many rows.

        Raises:
            UsageError: a row of another length than the header, a quote that is never closed, text
                in another encoding, or a blank line before further rows; says in which row.
        """
        places = [self.names.index(column) for column in columns]
        rows = self._rows()
        while block := list(islice(rows, BLOCK)):
            cells = list(zip(*block, strict=True))
            yield [cells[place] for place in places]

    def _rows(self) -> Iterator[list[str]]:
        number, blank = 0, 0
        try:
            with self.path.open(encoding=self.encoding, newline="") as file:
                reader = csv.reader(
                    file, delimiter=self.delimiter, skipinitialspace=True, strict=True
                )
                next(reader)
                for number, row in enumerate(reader, 1):
                    if not row or (len(row) == 1 < len(self.names) and not row[0].strip()):
                        blank = blank or number
                    elif blank:
                        raise UsageError(f"{self.path}: row {blank}: blank, before further rows")
                    elif len(row) != len(self.names):
                        raise UsageError(
                            f"{self.path}: row {number}: {len(row)} fields, but the header has "
                            f"{len(self.names)}"
                        )
                    else:
                        yield row
        except csv.Error as error:
            raise UsageError(f"{self.path}: row {number + 1}: not a table: {error}") from error
        except UnicodeError as error:
            raise UsageError(
                f"{self.path}: not text in {self.encoding}: {error}; expected another encoding"
            ) from error


def open_sheet(path: Path, given: Format | None = None) -> Sheet:
    """Find out how a table is written, and read its header.

    Raises:
        UsageError: the file cannot be read, is empty, or has a header with a name that is missing
            or there twice.
    """
    given = given or Format()
    given.check()
    try:
        encoding = given.encoding or _encoding_of(path)
        with path.open(encoding=encoding, newline="") as file:
            start = file.read(_TRIED_CHARACTERS)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except UnicodeError as error:
        raise UsageError(f"{path}: not text in {encoding}: {error}") from error
    if not start.strip():
        raise UsageError(f"{path}: is empty; expected a table whose first row names its columns")
    if "\0" in start:
        raise UsageError(f"{path}: has NUL characters; expected a table as text")
    delimiter = given.delimiter or _delimiter_of(start)
    try:
        header = next(_parsed(start, delimiter))
    except csv.Error as error:
        raise UsageError(f"{path}: the first row: not a table: {error}") from error
    names = tuple(tidied(name) for name in header)
    for place, name in enumerate(names):
        if not name:
            raise UsageError(
                f"{path}: the first row has no name for column {place + 1}; it has {listed(names)}"
            )
        if name in names[:place]:
            raise UsageError(f"{path}: the first row names column {shown(name)} twice")
    return Sheet(path, names, delimiter, encoding)


def tidied(cell: str) -> str:
    """A cell on one line, without blanks around it, in one of Unicode's ways to write it (NFC)."""
    if not cell.isprintable():
        cell = " ".join("".join(c if c.isprintable() else " " for c in cell).split())
    cell = cell.strip()
    return cell if cell.isascii() else unicodedata.normalize("NFC", cell)


def _encoding_of(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(3)
    for mark, encoding in _MARKS:
        if start.startswith(mark):
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


def _parsed(start: str, delimiter: str) -> Iterator[list[str]]:
    """The first rows, the last one perhaps cut short."""
    return csv.reader(
        start.splitlines(keepends=True), delimiter=delimiter, skipinitialspace=True, strict=True
    )


def _delimiter_of(start: str) -> str:
    """The delimiter that cuts most of the first rows into as many fields as the first one."""
    best, most = DELIMITERS[0], 0.0
    for delimiter in DELIMITERS:
        rows: list[list[str]] = []
        try:
            rows.extend(islice(_parsed(start, delimiter), _TRIED_ROWS))
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
