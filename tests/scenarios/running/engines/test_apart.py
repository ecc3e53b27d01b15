"""What holds a real survey has no engine, and Ray comes only when it is asked for."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.errors import UsageError
from scenarios.cli import COMMANDS
from scenarios.cli.group import Place
from scenarios.errors import install_command
from tests.scenarios.command import ROOT, python
from tests.tiers import thinned

REAL = {
    "aggregate": "scenarios.surveys.holding.aggregating",
    "answer": "scenarios.surveys.answering",
    "keys": "scenarios.surveys.enrolment.folders",
    "admit": "scenarios.surveys.enrolment.organising",
    "join": "scenarios.surveys.enrolment.joining",
}
"""Commands that hold real surveys, or enrol parties for them, and a module that each reaches."""

PACKAGES = ("protocol", "parties", "transports", "scenarios")
APART = (
    "scenarios.cli.engines",
    "scenarios.running.engines.carrying",
    "scenarios.running.engines.on_ray",
    "scenarios.running.engines.opening",
    "scenarios.running.engines.processes",
    "scenarios.running.engines.worker",
    "ray",
)
"""What pickles, what starts workers, and what opens that; the seam itself does neither."""


def file_of(module: str) -> Path | None:
    """The file of a module of the project."""
    path = ROOT.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None


@functools.cache
def imported(module: str) -> frozenset[str]:
    """What a module imports, wherever in it, and the packages around that."""
    return frozenset(_imported(module))


def _imported(module: str) -> Iterator[str]:
    file = file_of(module)
    assert file is not None
    tree = ast.parse(file.read_text(encoding="utf-8"))
    # What is for a type checker is not run, and a package's face names everything there.
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def reached(module: str) -> dict[str, str]:
    """All that can be imported from a module on, each with who imports it."""
    found = {module: ""}
    waiting = [module]
    while waiting:
        importer = waiting.pop()
        for name in imported(importer):
            known = name.split(".")[0] not in PACKAGES or file_of(name) is not None
            if name not in found and known:
                found[name] = importer
                if file_of(name) is not None and name.split(".")[0] in PACKAGES:
                    waiting.append(name)
    return found


def engines_in(found: dict[str, str]) -> list[str]:
    return [f"{importer} imports {name}" for name, importer in found.items() if name in APART]


def module_of(place: Place) -> str:
    return f"scenarios.cli.{place.module}"


@pytest.mark.slow
@pytest.mark.parametrize("command", thinned(REAL, 1))
def test_nothing_that_a_real_survey_can_reach_imports_an_engine(command: str) -> None:
    found = reached(module_of(COMMANDS[command]))
    assert REAL[command] in found
    assert engines_in(found) == []


def test_an_engine_would_be_seen() -> None:
    found = reached("scenarios.cli.engines")
    assert "scenarios.cli.engines imports scenarios.running.engines.opening" in engines_in(found)
    on_ray = "scenarios.running.engines.on_ray"
    assert f"scenarios.running.engines.opening imports {on_ray}" in engines_in(found)
    assert f"{on_ray} imports ray" in engines_in(found)


@pytest.mark.slow
def test_no_command_imports_ray_before_it_is_asked_for() -> None:
    modules = sorted({module_of(place) for place in COMMANDS.values()})
    said = python("-c", f"import sys, {', '.join(modules)}; print('ray' in sys.modules)")
    assert (said.code, said.out) == (0, "False\n"), said.err


@pytest.mark.slow
def test_a_real_survey_imports_no_engine() -> None:
    modules = ", ".join(sorted({module_of(COMMANDS[command]) for command in REAL}))
    said = python("-c", f"import sys, {modules}; print(set({APART}) & {{*sys.modules}})")
    assert (said.code, said.out) == (0, "set()\n"), said.err


def test_a_party_does_not_import_what_judges_records() -> None:
    program = "import sys, scenarios.cli.surveys.answering; print('protocol.audit' in sys.modules)"
    said = python("-c", program)
    assert (said.code, said.out) == (0, "False\n"), said.err


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from scenarios import open_engine

    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "scenarios.running.engines.on_ray", raising=False)
    with pytest.raises(UsageError, match=re.escape(install_command("ray"))):
        open_engine("ray")
