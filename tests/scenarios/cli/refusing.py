"""Files of a small survey, and the one line by which a mistake with them is refused."""

from __future__ import annotations

import re
from pathlib import Path

from tests.scenarios.command import complaint, sottovoce

GOOD = """title = "T"
epsilon = 2.0

[[attributes]]
name = "smokes"
categories = ["no", "yes"]

[[attributes]]
name = "age"
categories = ["young", "old"]
ordinal = true
"""
ROWS = "smokes,age\n" + "no,young\nyes,old\nno,old\n" * 5
TRANSCRIPT = "out/transcript.svt.zst"
CHECKPOINT = "out/transcript.checkpoint"
_FOREIGN = re.compile(
    r"Traceback|Errno|_ssl\.c|Expected `|Object (?:missing|contains)|codec can't|at `\$|zstd|"
    r"\(at line|valid (?:float|integer)|No such file or directory|magic bytes|RFC3339"
)
"""Texts of libraries and of the operating system that no person is shown."""


def make_survey(folder: Path) -> None:
    """Write a plan, a table, a record of a run on them, and a receipt."""
    (folder / "plan.toml").write_text(GOOD)
    (folder / "t.csv").write_text(ROWS)
    plan, rows = folder / "plan.toml", folder / "t.csv"
    ran = sottovoce("run", plan, "--records", rows, "--out", folder / "out")
    assert ran.code == 0, ran.err
    proved = sottovoce("prove", folder / TRANSCRIPT, "party-01", "--out", folder / "p.svr")
    assert proved.code == 0, proved.err


def refusal(folder: Path, *arguments: object) -> str:
    """The one line that refuses a command, which leaves the files of a folder as they are."""
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    said = one_line(*arguments)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    return said


def one_line(*arguments: object) -> str:
    """The one line that refuses a command, in words of this project."""
    said = complaint(sottovoce(*arguments))
    assert _FOREIGN.search(said) is None, said
    return said
