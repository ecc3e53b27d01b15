"""A shell completes commands, names and parameters, as click hands them to it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from protocol.variants import BUILT_IN
from scenarios.cli import COMMANDS, commands
from scenarios.running.names import SCENARIOS
from tests.scenarios.command import OWN, ROOT, environment
from tests.tiers import thinned


def completed(*words: str) -> list[str]:
    """What is offered for the last word, after the others."""
    *before, incomplete = words
    complete = ShellComplete(commands, {}, "sottovoce", "_SOTTOVOCE_COMPLETE")
    return [item.value for item in complete.get_completions(before, incomplete)]


def test_commands() -> None:
    assert completed("") == sorted(COMMANDS)
    assert completed("s") == ["seal", "show", "shuffle", "status"]
    assert completed("--v") == ["--version"]


def test_names_of_scenarios() -> None:
    assert completed("run", "") == [*SCENARIOS]
    assert completed("run", "adult-i") == ["adult-independent", "adult-ind-joint"]


def test_names_of_variants() -> None:
    assert completed("attack", "") == [*BUILT_IN]
    assert completed("attack", "rr-i") == ["rr-independent", "rr-ind-joint"]


def test_parameters_of_a_scenario() -> None:
    assert completed("run", "quickstart", "--set", "") == ["p=", "residents=", "parties="]
    assert completed("run", "quickstart", "--set", "p=0.5", "--set", "res") == ["residents="]
    assert completed("run", "quickstart", "--set", "p=0") == []
    assert completed("run", "nosuch", "--set", "") == []
    assert completed("run", "--set", "") == []


def test_parameters_of_a_variant() -> None:
    expected = ["epsilon=", "k=", "max_records=", "patience=", "quorum=", "unary="]
    assert completed("attack", "inp-rr", "--set", "") == expected
    assert "p=" in completed("attack", "rr-joint", "--set", "p")
    assert completed("attack", "nosuch", "--set", "") == []


def test_other_texts_are_files_that_are_not_run(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text("raise SystemExit(3)")
    complete = ShellComplete(commands, {}, "sottovoce", "_SOTTOVOCE_COMPLETE")
    for command in ("run", "attack"):
        [item] = complete.get_completions([command], str(file))
        assert (item.value, item.type) == (str(file), "file")
        assert completed(command, str(file), "--set", "") == []
    assert completed("run", f"{OWN}:plain", "--set", "") == []


@pytest.mark.parametrize("shell", thinned(["bash", "zsh", "fish"], 1))
def test_the_lines_of_the_page_ask_for_what_there_is(shell: str) -> None:
    page = (ROOT / "docs/try-it.md").read_text(encoding="utf-8")
    [variable] = set(re.findall(rf"(\w+)={shell}_source sottovoce", page))
    program = "import sys; sys.argv[0] = 'sottovoce'; from scenarios.cli import main; main()"
    asked = {"COMP_WORDS": "sottovoce run quick", "COMP_CWORD": "quick" if shell == "fish" else "2"}
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment(), **asked, variable: f"{shell}_complete", "PATH": os.environ["PATH"]},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (said.returncode, said.stderr) == (0, "")
    assert "quickstart" in said.stdout
