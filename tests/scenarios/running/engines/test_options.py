"""The options of engines, and what is said of those that do not fit."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from protocol.errors import UsageError
from scenarios.cli.engines import EngineChoice
from scenarios.cli.values import takes
from scenarios.running.engines.here import Here
from scenarios.running.engines.processes import Processes


@click.command()
@click.option("--seed", type=int, default=1)
@takes(EngineChoice, "engine")
def command(seed: int, engine: EngineChoice) -> None:
    click.echo(f"{seed} {engine}")


@pytest.mark.parametrize(
    ("arguments", "choice"),
    [
        ([], EngineChoice(name="here", jobs=None, address=None)),
        (
            ["--engine", "processes", "--jobs", "3"],
            EngineChoice(name="processes", jobs=3, address=None),
        ),
        (
            ["--engine=ray", "--address=head:6379"],
            EngineChoice(name="ray", jobs=None, address="head:6379"),
        ),
    ],
)
def test_a_command_gets_what_was_chosen(arguments: list[str], choice: EngineChoice) -> None:
    said = CliRunner().invoke(command, ["--seed=4", *arguments])
    assert said.output == f"4 {choice}\n"


def test_other_engines_are_refused() -> None:
    said = CliRunner().invoke(command, ["--engine=dask"])
    assert said.exit_code == 2
    assert "'here', 'processes', 'ray'" in said.output


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (
            EngineChoice(name="here", jobs=2, address=None),
            "--jobs 2: the engine 'here' runs one task at a time",
        ),
        (EngineChoice(name="processes", jobs=0, address=None), "--jobs 0: expected at least 1"),
        (
            EngineChoice(name="processes", jobs=None, address="head:1"),
            "--address is for the engine 'ray'",
        ),
        (
            EngineChoice(name="dask", jobs=None, address=None),
            "engine 'dask': expected one of here, processes, ray",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(choice: EngineChoice, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        choice.open()


def test_engines_are_opened_by_name() -> None:
    with EngineChoice(name="here", jobs=1, address=None).open() as engine:
        assert isinstance(engine, Here)
    with EngineChoice(name="processes", jobs=3, address=None).open() as engine:
        assert isinstance(engine, Processes)
        assert engine.jobs == 3
