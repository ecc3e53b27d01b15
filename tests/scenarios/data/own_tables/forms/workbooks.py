"""Workbooks and CSV files with the sheets of a form."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import openpyxl

Rows = Sequence[Sequence[object]]


def write_book(path: Path, sheets: Mapping[str, Rows]) -> Path:
    book: Any = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(list(row))
    book.save(path)
    return path


def write_folder(folder: Path, sheets: Mapping[str, Rows]) -> Path:
    folder.mkdir()
    for name, rows in sheets.items():
        write_text(folder / f"{name}.csv", rows)
    return folder


def write_text(path: Path, rows: Rows) -> Path:
    """A CSV file whose rows are as long as the first one."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        for row in rows:
            writer.writerow([*row, *[""] * (len(rows[0]) - len(row))])
    return path
