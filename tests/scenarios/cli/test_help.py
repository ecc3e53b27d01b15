"""Every option of every command says what it is, and what it takes."""

from __future__ import annotations

import click
import pytest

from scenarios.cli import commands
from tests.scenarios.command import sottovoce


@pytest.mark.parametrize("name", sorted(commands.commands))
def test_every_option_says_what_it_is(name: str) -> None:
    command = commands.commands[name]
    assert command.help
    options = [param for param in command.params if isinstance(param, click.Option)]
    assert [option.name for option in options if not option.help] == []
    said = " ".join(sottovoce(name, "--help").out.split())
    assert all(f"{option.opts[-1]} " in said for option in options)


def test_help_names_the_folder_of_data() -> None:
    assert "SOTTOVOCE_DATA" in sottovoce("run", "--help").out
