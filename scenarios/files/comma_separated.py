"""Figures and records as CSV files."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from parties.keeping.writing import write_whole
from protocol.surveys.formulas import escape_formula
from protocol.surveys.records import Records
from scenarios.errors import say
from scenarios.wording.formatting import count


class CsvText(NamedTuple):
    """The content of a CSV file.

    Args:
        text: the CSV text.
        escaped: number of names that a spreadsheet would have taken for formulas.
    """

    text: str
    escaped: int


def csv_text(names: Iterable[str], rows: Iterable[Iterable[object]]) -> CsvText:
    """The content of a CSV file, its first row the names of the columns.

    An apostrophe stands before texts that a spreadsheet would take for formulas.

    Args:
        rows: a cell for each column; None, NaN and infinity are empty.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    escaped = set[str]()

    def shown(cell: object) -> object:
        if isinstance(cell, str) and (harmless := escape_formula(cell)) != cell:
            escaped.add(cell)
            return harmless
        return "" if _is_empty(cell) else cell

    writer.writerow(map(shown, names))
    writer.writerows(map(shown, row) for row in rows)
    return CsvText(text.getvalue(), len(escaped))


def records_text(records: Records) -> CsvText:
    """The content of a CSV file of records."""
    names = set(records.survey.names)
    for codes, attribute in zip(records.codes.T, records.survey.attributes, strict=True):
        names.update(attribute.categories[code] for code in np.unique(codes))
    escaped = sum(escape_formula(name) != name for name in names)
    return CsvText(records.to_csv(), escaped)


def write_csv(path: Path, content: CsvText, *, private: bool = False) -> None:
    """Write a CSV file as ``write_whole`` does, and say on standard error if names are escaped.

    Raises:
        UsageError, OSError: as ``write_whole``.
    """
    write_whole(path, content.text, private=private)
    if content.escaped:
        names = count(content.escaped, "name")
        say(f"{path}: an apostrophe stands before {names} that a spreadsheet takes for a formula")


def _is_empty(cell: object) -> bool:
    return cell is None or (isinstance(cell, float) and not math.isfinite(cell))
