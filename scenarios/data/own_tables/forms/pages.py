"""Sheets of a form as rows of texts, from a workbook or from CSV files."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from protocol.errors import UsageError
from protocol.surveys.dataframes import number_text
from protocol.surveys.survey import listed, shown
from scenarios.data.own_tables.sheets import Format, tidied, tidied_cells
from scenarios.data.own_tables.text_files import text_sheet
from scenarios.errors import install_command

_WORKBOOKS = (".xlsx", ".xlsm")
_ARCHIVE = b"PK\x03\x04"
_MOST_ROWS, _MOST_COLUMNS = 1 << 20, 1 << 10
"""Maximum number of rows and columns: those of spreadsheets, and more than any form has."""


class Row(NamedTuple):
    """A row of a sheet that is not empty.

    Args:
        number: row number in the sheet, from 1, counting the row of column names.
        cells: tidied, by column; no empty ones.
    """

    number: int
    cells: Mapping[str, str]

    def __call__(self, column: str) -> str:
        """The cell in a column; empty if there is none."""
        return self.cells.get(column, "")


class Page(NamedTuple):
    """A sheet.

    Args:
        source: name of the sheet in errors.
        name: the end of that, where the form is named already.
        columns: names.
        rows: all rows that are not empty.
    """

    source: str
    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def error(self, row: Row, column: str, said: str) -> UsageError:
        """An error about a cell."""
        return UsageError(f"{self.source}, row {row.number}, column {column!r}: {said}")

    def expect(self, *columns: str) -> None:
        """Refuse a sheet that lacks one of these columns.

        Raises:
            UsageError: names it.
        """
        for column in columns:
            if column not in self.columns:
                raise UsageError(
                    f"{self.source}: no column {column!r}; it has {listed(self.columns)}"
                )


Rename = Callable[[str], str]
"""Makes the name of a column the one by which it is known."""


def is_workbook(path: Path) -> bool:
    """Check whether a file is a workbook, by its name and its first bytes."""
    if path.suffix.lower() not in _WORKBOOKS or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_ARCHIVE)) == _ARCHIVE


def text_page(path: Path, rename: Rename) -> Page:
    """A CSV file as a page.

    Raises:
        UsageError: the file is not a table.
    """
    sheet = text_sheet(path, Format())
    blocks = sheet.blocks(sheet.names)
    rows = (row for block in blocks for row in zip(*map(tidied_cells, block), strict=True))
    return _page(str(path), path.name, [*map(rename, sheet.names)], enumerate(rows, 2))


def workbook_pages(path: Path, wanted: Iterable[str], rename: Rename) -> dict[str, Page]:
    """The sheets of a workbook that have these names, by name in lower case.

    Formulas count with the values that were stored with them.

    Args:
        wanted: names of sheets, in lower case.
        rename: gives a column its usual name.

    Raises:
        UsageError: openpyxl is not installed, the file is not a workbook, or a sheet names a column
            twice.
        MemoryError: it unpacks to more than the process may take.
    """
    openpyxl = _load_openpyxl(path)
    try:
        # openpyxl warns of parts other than cells, such as validation rules.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
            with closing(book):
                names = {tidied(sheet.title).lower(): sheet for sheet in book.worksheets}
                found = {name: names[name] for name in wanted if name in names}
                if not found:
                    listing = listed([sheet.title for sheet in book.worksheets])
                    raise UsageError(
                        f"{path}: no sheet {listed([*wanted][:1])}, so no XLSForm; it has "
                        f"{listing}. Save a table of answers as CSV or Parquet"
                    )
                return {name: _workbook_page(path, found[name], rename) for name in found}
    except (OSError, UsageError, MemoryError):
        raise
    except Exception as error:  # whatever a file that somebody else wrote makes of a parser
        said = str(error).partition("\n")[0] or type(error).__name__
        raise UsageError(f"{path}: not a workbook that can be read: {said}") from error


def _load_openpyxl(path: Path) -> Any:
    try:
        import openpyxl
    except ImportError as error:
        raise UsageError(f"{path}: a workbook needs openpyxl: {install_command('xlsx')}") from error
    return openpyxl


def _workbook_page(path: Path, sheet: Any, rename: Rename) -> Page:
    name = f"sheet {sheet.title!r}"
    source = f"{path}, {name}"
    sheet.reset_dimensions()  # Some programs write wrong dimensions.
    cells = sheet.iter_rows(max_row=_MOST_ROWS, values_only=True)
    rows = enumerate(([*map(_cell_text, row[:_MOST_COLUMNS])] for row in cells), 1)
    for _, header in rows:
        if any(header):
            return _page(source, name, [rename(each) if each else "" for each in header], rows)
    raise UsageError(f"{source}: is empty; expected a first row that names its columns")


def _page(
    source: str, name: str, columns: Sequence[str], rows: Iterable[tuple[int, Sequence[str]]]
) -> Page:
    places: dict[str, int] = {}
    for place, column in enumerate(columns):
        if column and places.setdefault(column, place) != place:
            raise UsageError(f"{source}: two columns are called {shown(column)}")
    return Page(source, name, (*places,), (*_filled_rows(places, rows),))


def _filled_rows(
    places: Mapping[str, int], rows: Iterable[tuple[int, Sequence[str]]]
) -> Iterator[Row]:
    for number, row in rows:
        cells = {
            name: row[place] for name, place in places.items() if place < len(row) and row[place]
        }
        if cells:
            yield Row(number, cells)


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        return number_text(value)
    if isinstance(value, datetime.datetime):
        return value.date().isoformat()
    return tidied(str(value))
