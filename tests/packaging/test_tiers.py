"""The two tiers of the tests, and what a file may cost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tiers import paired, thinned

ROOT = Path(__file__).parents[2]

DEAR = """
import time

pytest_plugins = ["tests.budget"]


def test_dear():
    since = time.process_time()
    while time.process_time() < since + {seconds}:
        pass
"""


def fast(cases: list[Any]) -> list[tuple[Any, ...]]:
    return [case.values for case in cases if not case.marks]


def test_the_first_the_last_and_some_between_are_fast() -> None:
    cases = thinned(["a", ("b", 1), pytest.param("c", id="see"), "d", "e"], 3)
    assert [case.values for case in cases] == [("a",), ("b", 1), ("c",), ("d",), ("e",)]
    assert fast(cases) == [("a",), ("c",), ("e",)]
    assert cases[2].id == "see"
    assert fast(thinned("abc", 1)) == [("a",)]
    with pytest.raises(ValueError, match="3 of 3 cases: expected some, and not all"):
        thinned("abc", 3)


def test_pairs_have_each_value_in_the_fast_tier() -> None:
    cases = paired("abcde", [1, 2])
    assert len(cases) == 10
    assert len(fast(cases)) == 5
    assert {one for one, _ in fast(cases)} == set("abcde")
    assert {other for _, other in fast(cases)} == {1, 2}


@pytest.mark.parametrize("seconds", [0.0, 0.4])
def test_a_file_far_above_its_share_fails(seconds: float, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(DEAR.format(seconds=seconds))
    (tmp_path / "conftest.py").write_text("from tests import budget\n\nbudget.SHARE = 0.15\n")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "not slow", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.search(r"^\d+ processor seconds, \d+ beside tests; test_it.py ", ended.stdout, re.M)
    assert "1 passed" in ended.stdout
    assert ended.returncode == (1 if seconds else 0)
    assert ("processor seconds, allowed are 0" in ended.stdout) == bool(seconds)
