"""Other people's names are no formulas in the CSV files that commands write, and it is said."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.scenarios.command import Said, sottovoce

TABLE = "=1+A2,@mood,plain\n" + "+cmd|x,-low,yes\n=a,high,no\n" * 30
SAID = "an apostrophe stands before {} that a spreadsheet takes for a formula\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formulas")
    table, plan = folder / "t.csv", folder / "plan.toml"
    table.write_text(TABLE)
    held(sottovoce("plan", "--from", table, "--out", plan))
    held(sottovoce("run", plan, "--records", table, "--seed", 2, "--out", folder / "out"))
    return folder


def held(said: Said) -> Said:
    assert said.code == 0, said.err
    return said


def cells(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8") as file:
        return [cell for row in csv.reader(file) for cell in row]


def check(path: Path, said: Said, names: str) -> None:
    """No text of the file is a formula, and how many names are changed is said."""
    formulas = [cell for cell in cells(path) if cell[:1] in ("=", "+", "@", "-")]
    assert [cell for cell in formulas if not is_number(cell)] == []
    assert f"{path}: {SAID.format(names)}" in said.err


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_an_estimated_table_has_no_formula(folder: Path) -> None:
    out, record = folder / "e.csv", folder / "out" / "transcript.svt.zst"
    check(
        out, held(sottovoce("estimate", record, "--table", "@mood,plain", "--out", out)), "2 names"
    )


def test_synthetic_records_have_no_formula_and_are_read_back(folder: Path) -> None:
    out, record = folder / "s.csv", folder / "out" / "transcript.svt.zst"
    said = held(sottovoce("estimate", record, "--table", "plain", "--synthetic", out))
    check(out, said, "5 names")
    held(sottovoce("run", folder / "plan.toml", "--records", out))
    again = folder / "again.toml"
    held(sottovoce("plan", "--from", out, "--out", again))
    text = again.read_text(encoding="utf-8")
    assert 'name = "@mood"' in text
    assert "'@mood" not in text


def test_names_that_are_no_formulas_are_not_spoken_of(tmp_path: Path, folder: Path) -> None:
    out, record = tmp_path / "e.csv", folder / "out" / "transcript.svt.zst"
    said = held(sottovoce("estimate", record, "--table", "plain", "--out", out))
    assert "apostrophe" not in said.err
