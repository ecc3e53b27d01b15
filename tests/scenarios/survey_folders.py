"""A survey's plan, its parties' records, and the folders that ``sottovoce keys`` makes of it."""

from __future__ import annotations

from pathlib import Path

from tests.scenarios.command import sottovoce

PLAN = """
title = "Health"
epsilon = 2.0
quorum = 2
max_records = 3
patience = 20.0

[[attributes]]
name = "smokes"
categories = ["no", "yes"]

[[attributes]]
name = "age"
categories = ["young", "middle", "old"]
"""
ANALYSIS = """
[analysis]
tables = [["smokes"], ["age", "smokes"]]
level = 0.9
projection = "clip"
"""
ROWS = ("no,young", "yes,old", "no,middle")


def table(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(("smokes,age", *rows)) + "\n")
    return path


def plan_file(folder: Path, text: str = PLAN) -> Path:
    path = folder / "plan.toml"
    path.write_text(text)
    return path


def make_folders(folder: Path, plan: str = PLAN) -> Path:
    """Folders for the aggregator, anna, bert and carl."""
    out = folder / "keys"
    parties = ("--party", "anna", "--party", "bert", "--party", "carl")
    said = sottovoce("keys", plan_file(folder, plan), *parties, "--out", out)
    assert said.code == 0, said.err
    assert said.out.startswith("4 folders in ")
    return out
