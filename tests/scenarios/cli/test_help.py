"""Every command and option says what it is, and help imports nothing large."""

from __future__ import annotations

import importlib

import click
import pytest

from scenarios.cli import COMMANDS, SECTIONS
from scenarios.running.loading import scenarios_in
from scenarios.running.names import MODULES, REPRODUCTIONS, SURVEYS
from tests.scenarios.command import command_of, python, sottovoce

LARGE = ("numpy", "scipy", "trio", "cryptography", "rich", "sqlite3", "ssl")


def imported(program: str, among: tuple[str, ...]) -> set[str]:
    """Which of these modules a fresh process has imported after this program."""
    seen = f"print(*(name for name in {among} if name in sys.modules), file=sys.stderr)"
    said = python("-c", f"import sys\ntry:\n    {program}\nfinally:\n    {seen}")
    assert said.code == 0, said
    return set(said.err.split())


def test_help_imports_nothing_large() -> None:
    program = "from scenarios.cli import main; main(['--help'])"
    assert imported(program, (*LARGE, *MODULES)) == set()
    assert imported(program, ("click", "scenarios.cli")) == {"click", "scenarios.cli"}


@pytest.mark.parametrize("module", MODULES)
def test_scenarios_are_called_what_the_table_says(module: str) -> None:
    found = scenarios_in(importlib.import_module(module))
    said = [(scenario.name, scenario.summary) for scenario in found]
    assert said == [*MODULES[module].items()]
    families = [name for name in (*SURVEYS, *REPRODUCTIONS) if f"{module}.".startswith(f"{name}.")]
    assert len(families) == 1
    assert {bool(scenario.reproduces) for scenario in found} == {families[0] in REPRODUCTIONS}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_is(name: str) -> None:
    command = command_of(name)
    assert command is not None
    assert command.name == name
    assert command.help
    options = [param for param in command.params if isinstance(param, click.Option)]
    assert [option.name for option in options if not option.help] == []
    said = " ".join(sottovoce(name, "--help").out.split())
    assert all(f"{option.opts[-1]} " in said for option in options)


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_takes_has_names_of_its_own(name: str) -> None:
    command = command_of(name)
    assert command is not None
    names = [param.name for param in command.params]
    assert sorted({*names}, key=str) == sorted(names, key=str)


def test_help_names_every_command_in_one_line_by_what_a_person_wants() -> None:
    _, *listed = sottovoce("--help").out.split("\n\n")[2:]
    assert [section.partition(":\n")[0] for section in listed] == [*SECTIONS]
    for section, places in zip(listed, SECTIONS.values(), strict=True):
        said = [tuple(line.split(maxsplit=1)) for line in section.splitlines()[1:]]
        assert said == [(name, place.summary) for name, place in places.items()]
    assert len(COMMANDS) == sum(map(len, SECTIONS.values()))
    assert len(next(iter(SECTIONS.values()))) == 6


def test_help_names_the_folder_of_data() -> None:
    assert "SOTTOVOCE_DATA" in sottovoce("run", "--help").out
