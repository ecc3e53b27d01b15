"""No command writes over a file that it reads, or writes one file twice."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
import pytest

from scenarios.cli import COMMANDS
from scenarios.cli.paths import ReadPath, WrittenFile, WrittenFolder
from tests.scenarios.command import command_of, complaint, sottovoce

PLAN = """
title = "Own"
epsilon = 2.0

[[attributes]]
name = "smokes"
categories = ["no", "yes"]
"""
TABLE = "smokes\n" + "no\nyes\n" * 5
MARGINS = "attribute,category,share\nsmokes,no,0.5\nsmokes,yes,0.5\n"
OWN = "from scenarios.quickstart import *\n"
RUN = ("run", "plan.toml", "--records", "table.csv")
DESIGN = ("design", "plan.toml", "--epsilon", 1)
OUTPUTS = ("out", "html", "plot", "synthetic", "page", "evidence", "checkpoints")
REHEARSED = "o/result/result.json"
COMPARE = ("compare", "plan.toml", "--records", "table.csv", "--variant", "oue", "--epsilon", 1)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What lies in the current folder, by path."""
    contents = {
        "plan.toml": PLAN,
        "table.csv": TABLE,
        "margins.csv": MARGINS,
        "own.py": OWN,
        "raw/adult.data": "39\n",
    }
    for name, content in contents.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    (tmp_path / "symbolic.csv").symlink_to("table.csv")
    os.link(tmp_path / "table.csv", tmp_path / "hard.csv")
    (tmp_path / "here").symlink_to(".")
    monkeypatch.chdir(tmp_path)
    return contents


@pytest.mark.parametrize(
    ("command", "option", "path", "reader"),
    [
        (RUN, "--html", "table.csv", "--records"),
        (RUN, "--synthetic", "table.csv", "--records"),
        (RUN, "--synthetic", "symbolic.csv", "--records"),
        (RUN, "--synthetic", "hard.csv", "--records"),
        (RUN, "--synthetic", "here/table.csv", "--records"),
        (RUN, "--html", "plan.toml", "SCENARIO"),
        ((*RUN, "--calibrate", "margins.csv"), "--html", "margins.csv", "--calibrate"),
        (("run", "own.py:quickstart"), "--html", "own.py", "SCENARIO"),
        (("run", "quickstart", "--config", "plan.toml"), "--html", "plan.toml", "--config"),
        ((*DESIGN, "--records", "table.csv"), "--out", "table.csv", "--records"),
        ((*DESIGN, "--n", 9, "--variant", "own.py:Own"), "--plot", "own.py", "--variant"),
        (COMPARE, "--plot", "table.csv", "--records"),
        ((*COMPARE, "--variant", "grr,own.py:Own"), "--plot", "own.py", "--variant"),
        (
            ("estimate", "t.svt", "--calibrate", "margins.csv"),
            "--out",
            "margins.csv",
            "--calibrate",
        ),
        (("audit", "t.svt", "--records", "a=table.csv"), "--html", "table.csv", "--records"),
        (("audit", "t.svt", "--plan", "plan.toml"), "--html", "plan.toml", "--plan"),
        (("prove", "t.svt", "--since", "table.csv"), "--out", "table.csv", "--since"),
        (("plan", "--from", "table.csv"), "--out", "table.csv", "--from"),
        (
            ("verify", "t.svt", "--checkpoint", "table.csv"),
            "--evidence",
            "table.csv",
            "--checkpoint",
        ),
    ],
)
def test_what_a_command_reads_is_not_written(
    command: tuple[Any, ...], option: str, path: str, reader: str, files: dict[str, str]
) -> None:
    says = f"{option} {path}: {reader} is this file, which is read; give another name"
    # In either order: what is compared first must not matter.
    assert complaint(sottovoce(*command, option, path)) == says
    assert complaint(sottovoce(command[0], option, path, *command[1:])) == says
    assert {name: Path(name).read_text() for name in files} == files


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ((*RUN, "--plot", "x.svg", "--html", "x.svg"), "--html x.svg: --plot writes this file"),
        ((*RUN, "--html", "x", "--plot", "here/x"), "--plot here/x: --html writes this file"),
        ((*DESIGN, "--n", 9, "--out", "x", "--plot", "x"), "--plot x: --out writes this file"),
        ((*COMPARE, "--out", "o", "--plot", "o/compare.csv"), "--plot o/compare.csv: --out writes"),
        ((*COMPARE, "--plot", "o/compare.csv", "--out", "o"), "--plot o/compare.csv: --out writes"),
        ((*RUN, "--config", "o/result.json", "--out", "o"), "--config o/result.json: --out writes"),
        (
            ("run", "adult-joint", "--data", "raw", "--html", "here/raw/adult.data"),
            "--html here/raw/adult.data: exists in --data, a folder that is read; give another",
        ),
        (
            ("aggregate", "raw", "--listen", "h:1", "--out", "o", "--log-json", "x", "--html", "x"),
            "--html x: --log-json writes this file",
        ),
        (
            ("rehearse", "plan.toml", "--records", "table.csv", "--out", "o", "--html", REHEARSED),
            f"--html {REHEARSED}: --out writes this file",
        ),
    ],
)
def test_one_file_is_not_written_twice(
    command: tuple[Any, ...], says: str, files: dict[str, str], tmp_path: Path
) -> None:
    there = sorted(tmp_path.rglob("*"))
    assert complaint(sottovoce(*command)).startswith(says)
    assert sorted(tmp_path.rglob("*")) == there
    assert {name: Path(name).read_text() for name in files} == files


def test_files_that_differ_are_written_again_and_again(files: dict[str, str]) -> None:
    for _ in range(2):
        said = sottovoce(*RUN, "--html", "raw/page.html", "--synthetic", "copy.csv", "--out", ".")
        assert said.code == 0, said.err
    assert {name: Path(name).read_text() for name in files} == files


@pytest.mark.parametrize("name", COMMANDS)
def test_every_path_of_a_command_is_of_a_type_that_is_compared(name: str) -> None:
    command = command_of(name)
    assert command is not None
    for parameter in command.params:
        kind = parameter.type
        assert not isinstance(kind, click.File), parameter.name
        if isinstance(kind, click.Path):
            assert isinstance(kind, ReadPath | WrittenFile | WrittenFolder), parameter.name
        # The record that 'abandon' ends and 'backup' copies is there already.
        if parameter.name in OUTPUTS and name not in ("abandon", "backup"):
            assert isinstance(kind, WrittenFile | WrittenFolder), parameter.name
