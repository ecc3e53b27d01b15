"""Files of SPSS and Stata, by pyreadstat, which is imported only to read one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from protocol.errors import UsageError
from protocol.surveys.dataframes import Cell, column_cells, number_text
from scenarios.data.own_tables.sheets import BLOCK, Labels, Sheet, named_sheet, tidied
from scenarios.errors import install_command

_READERS = {".sav": "read_sav", ".zsav": "read_sav", ".dta": "read_dta"}
_CELLS = 1 << 21
"""Number of cells read at a time, as a file unpacks to more than its length."""


def is_statistics_file(path: Path) -> bool:
    """Return whether a file is one of SPSS or Stata, by its name."""
    return path.suffix.lower() in _READERS


def statistics_sheet(path: Path) -> Sheet:
    """A file of SPSS or Stata as a table, with the labels that it has.

    Cells for which the file declares that they stand for no answer are empty.

    Raises:
        UsageError: pyreadstat is not installed, or the file is of another kind.
        OSError: it cannot be read.
        MemoryError: it takes more than the process may.
    """
    _, meta = _read(path, metadataonly=True, user_missing=True)

    def read(places: Sequence[int]) -> Iterator[list[Sequence[Cell]]]:
        names = [meta.column_names[place] for place in places]
        most = max(1, _CELLS // max(1, len(names)) // BLOCK) * BLOCK
        before, rows = 0, most
        while rows == most:
            found, _ = _read(path, usecols=names, row_offset=before, row_limit=most)
            columns = [[*found[name]] for name in names]
            rows = len(columns[0])
            for start in range(0, rows, BLOCK):
                yield [
                    column_cells(name, column[start : start + BLOCK], before + start)
                    for name, column in zip(names, columns, strict=True)
                ]
            before += rows

    sheet = named_sheet(str(path), meta.column_names, read)
    return sheet._replace(labels={tidied(name): _labels(name, meta) for name in meta.column_names})


def _read(path: Path, **given: Any) -> tuple[Mapping[str, list[Any]], Any]:
    try:
        import pyreadstat
    except ImportError as error:
        command = install_command("readstat")
        raise UsageError(f"{path}: a file of SPSS or Stata needs pyreadstat: {command}") from error
    reader = getattr(pyreadstat, _READERS[path.suffix.lower()])
    with path.open("rb"):  # Its own errors do not tell why a file cannot be read.
        pass
    try:
        columns, meta = reader(path, output_format="dict", **given)
    except MemoryError:
        raise
    except Exception as error:  # whatever a file that somebody else wrote makes of a parser
        said = str(error).partition("\n")[0]
        if "memory" in said:
            raise MemoryError(said) from error
        raise UsageError(f"{path}: cannot be read as a file of SPSS or Stata: {said}") from error
    return columns, meta


def _labels(name: str, meta: Any) -> Labels:
    is_text = meta.readstat_variable_types.get(name) == "string"
    # Stata labels its letters for missing values, too.
    labels = meta.variable_value_labels.get(name, {})
    values = {value: labels[value] for value in labels if isinstance(value, str) == is_text}
    ordered = [*values] if is_text else sorted(values)
    declared: list[tuple[Any, Any]] = [
        (each["lo"], each["hi"]) for each in meta.missing_ranges.get(name, ())
    ]

    def is_declared(value: Any) -> bool:
        return any(type(low) is type(value) and low <= value <= high for low, high in declared)

    return Labels(
        ask=tidied(meta.column_names_to_labels.get(name) or ""),
        values={_text(value): tidied(values[value]) for value in ordered if not is_declared(value)},
        missing={_text(low): tidied(values.get(low, "")) for low, high in declared if low == high},
        ranges=tuple(f"{_text(low)} to {_text(high)}" for low, high in declared if low != high),
        ordinal=meta.variable_measure.get(name) == "ordinal",
    )


def _text(value: Any) -> str:
    return number_text(value) if isinstance(value, int | float) else tidied(str(value))
