"""Parquet files of a few kilobytes that unpack to gigabytes: one line, within a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.survey_folders import make_folders

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")

MEGABYTE = 2**20
LONG = "x" * (20 * MEGABYTE)


def alike(cell: str, rows: int) -> Any:
    """A column whose rows have the same cell, which the file holds once."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int16()), pa.array([cell]))


def long_cells(path: Path) -> Path:
    """Cells that are long, and in the file once."""
    table = pa.table({"smokes": alike(LONG, 20_000), "age": alike(LONG, 20_000)})
    pq.write_table(table, path, compression="zstd")
    return path


def long_page(path: Path) -> Path:
    """Cells that are in the file often, and compress well."""
    table = pa.table({"smokes": pa.array([LONG] * 40), "age": pa.array(["old"] * 40)})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    return path


def refused(said: str, path: Path) -> bool:
    assert path.stat().st_size < MEGABYTE // 10
    return said == f"{path}: could not finish with 370 MB of memory"


@pytest.mark.parametrize("made", [long_cells, long_page])
def test_nothing_is_planned_from_it(made: Any, tmp_path: Path) -> None:
    path = made(tmp_path / "bomb.parquet")
    said = sottovoce("plan", "--from", path, "--out", tmp_path / "plan.toml")
    assert refused(complaint(said, 3), path)
    assert not (tmp_path / "plan.toml").exists()


def test_nothing_is_answered_with_it(tmp_path: Path) -> None:
    path = long_cells(tmp_path / "bomb.parquet")
    anna = make_folders(tmp_path) / "anna"
    said = sottovoce("answer", anna, "--connect", "127.0.0.1:1", "--records", path)
    assert refused(complaint(said, 3), path)
