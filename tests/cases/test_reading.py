"""Case files: every changed word fails, and one command updates it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cases.__main__ import update
from tests.cases.reading import read_steps, run_case, updated
from tests.scenarios.command import python

CASE = """# Mistakes.

$ sottovoce run quickstart --set p=2
! sottovoce: parameter 'p' = '2': expected a number below 1
[2]

> plan.toml
  title = "T"

  epsilon = 2.0
$ cat plan.toml
  title = "T"

  epsilon = 2.0
$ ls .
  plan.toml

$ sottovoce compose --mechanism k=2,p=0.5 \\
    --delta 0.1
  ...
  pure: epsilon <seconds> at delta 0
  ...
"""


def test_a_case_that_holds_stays_as_it_is() -> None:
    assert run_case(CASE) == CASE


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("below 1", "below 2"),
        ("! sottovoce: parameter 'p'", "  sottovoce: parameter 'p'"),
        ("[2]\n", ""),
        ("[2]\n", "[1]\n"),
        ('$ cat plan.toml\n  title = "T"\n\n', '$ cat plan.toml\n  title = "T"\n'),
        ("  plan.toml\n", "  plan.toml\n  other.toml\n"),
    ],
)
def test_a_changed_word_fails_and_is_mended(right: str, wrong: str, tmp_path: Path) -> None:
    case = tmp_path / "case.txt"
    changed = CASE.replace(right, wrong, 1)
    assert changed != CASE
    case.write_text(changed)
    assert update(case)
    assert case.read_text() == CASE
    assert not update(case)
    assert case.read_text() == CASE


def test_what_no_wildcard_matches_is_written_out(tmp_path: Path) -> None:
    case = tmp_path / "case.txt"
    case.write_text(CASE.replace("delta 0\n", "delta 1\n"))
    assert update(case)
    assert "\n  pure: epsilon " in case.read_text()
    assert not update(case)


def test_wildcards_stay_where_they_match() -> None:
    old = ["  one", "  ...", "  took <seconds> s", "  two", "! <digest>"]
    came = ["  1", "  a", "  b", "  took 3.2 s", "  2", f"! {'0f' * 32}", "[1]"]
    new = ["  1", "  a", "  b", "  took <seconds> s", "  2", "! <digest>", "[1]"]
    assert updated(old, came) == new
    assert updated(old, ["  one", *came[1:]]) == ["  one", "  ...", *new[3:]]
    assert updated(["  took <seconds> s"], ["  long"]) == ["  long"]


def test_wildcards_stay_beside_and_in_a_line_whose_words_change() -> None:
    old = ["  begin", "  ...", "  all 7 took <seconds> s", "  ...", "  end"]
    came = ["  begin", "  3", "  4", "  all of 7 took 0.1 s", "  5", "  end"]
    assert updated(old, came) == [*old[:2], "  all of 7 took <seconds> s", *old[3:]]


def test_a_refusal_is_one_line_that_changes_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    case = "$ sottovoce run quickstart --set p=2\n"
    monkeypatch.setattr("tests.cases.reading._FOREIGN", re.compile("expected"))
    with pytest.raises(AssertionError, match="expected a number"):
        run_case(case)


def test_a_file_is_a_test_that_fails_with_a_diff(tmp_path: Path) -> None:
    case, long = tmp_path / "case.txt", tmp_path / "long.txt"
    case.write_text(CASE.replace("below 1", "below 2"))
    long.write_text(f"slow\n{CASE}")
    options = (
        "-n0",
        "--color=no",
        "-m",
        "not slow",
        "-p",
        "tests.cases.conftest",
        "-p",
        "no:cacheprovider",
    )
    said = python("-m", "pytest", *options, f"--rootdir={tmp_path}", case, long)
    assert said.code == 1
    assert "1 failed, 1 deselected" in said.out
    assert "-! sottovoce: parameter 'p' = '2': expected a number below 2\n+! " in said.out
    assert f"python -m tests.cases {case}" in said.out


@pytest.mark.parametrize("line", ["sottovoce list", "  text", "Slow", "$sottovoce list"])
def test_a_line_of_no_kind_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="line 2: expected a command"):
        list(read_steps(f"# About.\n{line}\n"))
