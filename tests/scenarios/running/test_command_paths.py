"""No command writes over a file that it reads, or writes one file twice."""

from __future__ import annotations

import click
import pytest

from scenarios.cli import COMMANDS
from scenarios.cli.paths import ReadPath, WrittenFile, WrittenFolder
from tests.scenarios.command import command_of

OUTPUTS = ("out", "html", "plot", "synthetic", "page", "evidence", "checkpoints")


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
