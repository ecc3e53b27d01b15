"""Tables in memory, such as those of pandas, polars and Arrow: their columns, cell by cell."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from protocol.errors import SurveyError
from protocol.surveys.survey import listed, shown

Cell = str | int | float | None
"""Cell of a table: text, a number, or nothing. NaN is nothing too."""

_MISSING = {"NoneType", "NAType", "NaTType"}
"""The types that stand for nothing, by name: pandas is not imported for its own."""

_PLAIN = {str, int, float, type(None)}


class Frame(NamedTuple):
    """The columns of a table in memory.

    Args:
        names: the names of the columns.
        columns: the columns; each can be sliced and turned into a list.
        rows: the number of cells of each.
    """

    names: tuple[str, ...]
    columns: tuple[Any, ...]
    rows: int

    @classmethod
    def of(cls, table: object) -> Frame:
        """The columns of a table.

        Args:
            table: a pandas or polars DataFrame, an Arrow Table or RecordBatch, or a mapping from
                names to columns, which are arrays or sequences.

        Raises:
            SurveyError: another kind of object, a name that is not a text or is given twice, an
                empty table, or columns of different lengths.
        """
        given: Any = table
        if isinstance(table, Mapping):
            names, columns = [*table], [*table.values()]
        elif hasattr(given, "column_names") and hasattr(given, "column"):
            names = [*given.column_names]
            columns = [given.column(place) for place in range(len(names))]
        elif hasattr(given, "iloc") and hasattr(given, "columns"):
            names = [*given.columns]
            columns = [given.iloc[:, place] for place in range(len(names))]
        elif hasattr(given, "get_columns") and hasattr(given, "height"):
            columns = given.get_columns()
            names = [column.name for column in columns]
        else:
            collected = "; call its collect() first" if hasattr(table, "collect") else ""
            raise SurveyError(
                "expected a table of pandas, polars or Arrow, or a mapping from names to columns; "
                f"got {type(table).__name__}{collected}"
            )
        if not names:
            raise SurveyError("the table has no columns")
        for place, name in enumerate(names):
            if not isinstance(name, str):
                raise SurveyError(
                    f"the name of column {place + 1} is {shown(name)}, a {type(name).__name__}; "
                    "expected text"
                )
            if name in names[:place]:
                raise SurveyError("the table names this column more than once", column=name)
        lengths = [
            _column_length(name, column) for name, column in zip(names, columns, strict=True)
        ]
        for name, length in zip(names, lengths, strict=True):
            if length != lengths[0]:
                raise SurveyError(
                    f"has {length} rows, but column {names[0]!r} has {lengths[0]}", column=name
                )
        return cls((*names,), (*columns,), lengths[0])

    def place(self, name: str) -> int:
        """Place of a column, from 0.

        Raises:
            SurveyError: the table lacks it.
        """
        if name not in self.names:
            raise SurveyError(f"no such column; the table has {listed(self.names)}", column=name)
        return self.names.index(name)

    def blocks(self, places: Sequence[int], rows: int) -> Iterator[list[Sequence[Cell]]]:
        """The cells of some columns, in blocks of rows.

        Raises:
            SurveyError: a cell that is neither text, a number, a boolean nor a date, by row.
        """
        for start in range(0, self.rows, rows):
            cut = slice(start, start + rows)
            yield [
                column_cells(self.names[place], _values(self.columns[place], cut), start)
                for place in places
            ]


def column_cells(name: str, values: list[Any], before: int = 0) -> Sequence[Cell]:
    """Values of a column as cells.

    Args:
        name: the column, for the error message.
        values: of any types.
        before: the number of rows before them.

    Raises:
        SurveyError: one that is neither text, a number, a boolean nor a date, by row.
    """
    if _PLAIN.issuperset(map(type, values)):
        return values
    return [_cell(name, value, row) for row, value in enumerate(values, before + 1)]


def cell_text(cell: Cell, decimal: str = ".") -> str | None:
    """A cell as a person writes it; None for an empty one.

    Args:
        cell: a cell of a table.
        decimal: the decimal separator.
    """
    if cell is None or isinstance(cell, str):
        return cell
    if isinstance(cell, float) and math.isnan(cell):
        return None
    return number_text(cell).replace(".", decimal)


def number_text(number: float) -> str:
    """A number as a person writes it."""
    if isinstance(number, int):
        return str(number)
    if math.isfinite(number) and number == int(number) and abs(number) < 1e15:
        return f"{number:.0f}"
    return repr(number)


def is_missing(value: object) -> bool:
    """Check whether a value is missing: None, NaN, or pandas' missing value."""
    if type(value).__name__ in _MISSING:
        return True
    return isinstance(value, float | Decimal) and math.isnan(value)


def _cell(name: str, value: Any, row: int) -> Cell:
    if is_missing(value):
        return None
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real | Decimal):
        return float(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    raise SurveyError(
        f"expected text, a number, a boolean or a date, got {shown(value)} "
        f"({type(value).__name__})",
        row=row,
        column=name,
    )


def _column_length(name: str, column: Any) -> int:
    if isinstance(column, str | bytes) or not hasattr(column, "__len__"):
        raise SurveyError(
            f"expected an array or a sequence of cells, got {type(column).__name__}", column=name
        )
    return len(column)


def _values(column: Any, rows: slice) -> list[Any]:
    part = getattr(column, "iloc", column)[rows]
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(part, method):
            values: list[Any] = getattr(part, method)()
            return values
    return [*part]
