"""Users' tables from any source: text, Parquet, SPSS or Stata files, or memory."""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from protocol.errors import UsageError
from protocol.surveys.dataframes import Cell, cell_text
from protocol.surveys.survey import listed, shown

BLOCK = 1 << 11
"""Number of rows read at a time."""


class Format(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Format of a table; fields that are None are detected.

    Args:
        delimiter: the character between two fields of a text file.
        encoding: a text file's encoding, by its name in Python.
        header: whether the first row of a text file names the columns; without it they are called
            ``column 1`` and so on.
        decimal: decimal sign of numbers in text, a point or a comma.
        missing_cells: cells that stand for no answer, as an empty one does.
        stratum: the column with the stratum of each respondent, for trials with ``[weights]``.
    """

    delimiter: str | None = None
    encoding: str | None = None
    header: bool = True
    decimal: str = "."
    missing_cells: tuple[str, ...] = ()
    stratum: str | None = None

    def check(self) -> None:
        """Check that this format is possible.

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


Source = str | PathLike[str] | object
"""A path, or a table in memory."""


class Labels(NamedTuple):
    """Labels of a column in a file.

    Args:
        ask: the question.
        values: a label by cell, in the order of their codes; without cells for no answer.
        missing: a label by cell that stands for no answer; empty where it has none.
        ranges: ranges of numbers for no answer, as people write them.
        ordinal: whether the order of the cells has a meaning.
    """

    ask: str = ""
    values: Mapping[str, str] = MappingProxyType({})
    missing: Mapping[str, str] = MappingProxyType({})
    ranges: tuple[str, ...] = ()
    ordinal: bool = False


Blocks = Callable[[Sequence[int]], Iterator[list[Sequence[Cell]]]]
"""The cells of the columns in some places, from 0, ``BLOCK`` rows at a time."""


class Sheet(NamedTuple):
    """A table with its column names; rows are read on demand.

    Args:
        source: name in errors: the path, or ``the table``.
        names: tidied column names.
        read: reads it.
        delimiter, encoding: format of a text file, given or detected; None for other sources.
        labels: labels by column, for files that have them.
    """

    source: str
    names: tuple[str, ...]
    read: Blocks
    delimiter: str | None = None
    encoding: str | None = None
    labels: Mapping[str, Labels] = MappingProxyType({})

    def blocks(self, columns: Sequence[str]) -> Iterator[list[Sequence[Cell]]]:
        """The cells of some columns, ``BLOCK`` rows at a time.

        Yields:
            Of each column the cells of as many rows.

        Raises:
            UsageError: the source is not a table; the message says where.
        """
        place = {name: place for place, name in enumerate(self.names)}
        return self.read([place[column] for column in columns])


def named_sheet(
    source: str, names: Sequence[str], read: Blocks, *, where: str = "the table"
) -> Sheet:
    """A sheet with these column names.

    Args:
        source: name in errors.
        names: column names as written.
        read: reads it.
        where: they are written.

    Raises:
        UsageError: a name is missing or there twice.
    """
    tidy = tuple(map(tidied, names))
    before = set[str]()
    for place, name in enumerate(tidy):
        if not name:
            raise UsageError(
                f"{source}: {where} has no name for column {place + 1}; it has {listed(tidy)}"
            )
        if name in before:
            raise UsageError(f"{source}: {where} names column {shown(name)} twice")
        before.add(name)
    return Sheet(source, tidy, read)


def tidied(cell: str) -> str:
    """A cell on one line, without blanks around it, in one of Unicode's ways to write it (NFC)."""
    if not cell.isprintable():
        cell = " ".join("".join(c if c.isprintable() else " " for c in cell).split())
    cell = cell.strip()
    return cell if cell.isascii() else unicodedata.normalize("NFC", cell)


def tidied_cells(cells: Sequence[Cell]) -> list[str]:
    """Cells as tidied text, the empty one for no answer."""
    return [tidied(cell_text(cell) or "") for cell in cells]
