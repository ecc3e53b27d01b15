"""Figures as comma-separated text."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable


def csv_text(names: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """The content of a CSV file, its first row the names of the columns.

    Args:
        names: of the columns.
        rows: a cell for each column; None, NaN and infinity are empty.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(["" if _is_empty(cell) else cell for cell in row] for row in rows)
    return text.getvalue()


def _is_empty(cell: object) -> bool:
    return cell is None or (isinstance(cell, float) and not math.isfinite(cell))
