"""Files that a case prepares after ``@``: one function for each kind."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

from tests.scenarios.command import OWN, ROOT, write_adult
from tests.scenarios.data.own_tables.forms.workbooks import write_book
from tests.scenarios.linked_surveys import linked_plan
from tests.scenarios.survey_folders import PLANS, make_folders, plan_file


def edited(here: Path, name: str, other: str, old: str, new: str) -> None:
    """Write a file with the first occurrence of a text replaced; ``\\n`` is the end of a line."""
    text = (here / name).read_text(encoding="utf-8")
    old, new = (part.replace("\\n", "\n") for part in (old, new))
    assert old in text, f"{name} has no {old!r}"
    (here / other).write_text(text.replace(old, new, 1), encoding="utf-8")


def appended(here: Path, name: str, other: str, more: str) -> None:
    """Write a file with more text at its end; ``\\n`` is the end of a line."""
    text = (here / name).read_text(encoding="utf-8") + more.replace("\\n", "\n")
    (here / other).write_text(text, encoding="utf-8")


def encoded(here: Path, name: str, other: str, encoding: str) -> None:
    """Write a file in another encoding."""
    (here / other).write_text((here / name).read_text(encoding="utf-8"), encoding=encoding)


def bytes_of(here: Path, name: str, content: str) -> None:
    """Write a file of bytes, in Python's notation, such as ``PK\\x03\\x04``."""
    (here / name).write_bytes(content.encode("latin-1").decode("unicode_escape").encode("latin-1"))


def folder(here: Path, name: str) -> None:
    """Make an empty folder."""
    (here / name).mkdir(parents=True)


def own_variants(here: Path, name: str) -> None:
    """Copy a file of scenarios and variants of a user's own."""
    shutil.copy(OWN, here / name)


def adult(here: Path, folder: str, rows: str) -> None:
    """Write a file in Adult's format, with made-up rows."""
    write_adult(here / folder, int(rows))


def folders(here: Path) -> None:
    """Make ``plan.toml`` and, in ``keys``, the folders of the aggregator, anna, bert and carl."""
    make_folders(here)


def copied(here: Path, path: str, name: str) -> None:
    """Copy a file of the project."""
    shutil.copy(ROOT / path, here / name)


def repeated(here: Path, name: str, header: str, times: str, *rows: str) -> None:
    """Write a table of the same rows, repeated."""
    lines = [header, *rows * int(times)]
    (here / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def plan_of(here: Path, variant: str) -> None:
    """Write ``plan.toml``, a plan of a built-in variant."""
    plan_file(here, PLANS[variant])


def placed(here: Path, name: str, other: str) -> None:
    """Copy one file of the case over another."""
    shutil.copy(here / name, here / other)


def workbook(here: Path, name: str, *sheets: str) -> None:
    """Write a workbook with these CSV files as its sheets."""
    rows = {}
    for sheet in sheets:
        with (here / sheet).open(newline="", encoding="utf-8") as file:
            rows[Path(sheet).stem] = list(csv.reader(file))
    write_book(here / name, rows)


def closing_in(here: Path, name: str, days: str) -> None:
    """Write ``plan.toml``, a plan of a built-in variant that closes in some days."""
    plan_file(here, linked_plan(name, float(days)))


def symbolic(here: Path, name: str, other: str) -> None:
    """Make a symbolic link to a file or a folder."""
    (here / other).symlink_to(name)


def hard(here: Path, name: str, other: str) -> None:
    """Make a hard link to a file."""
    (here / other).hardlink_to(here / name)
