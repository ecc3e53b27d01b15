"""Every option of every command changes something that can be looked at.

A command that ignores an option, and does as if it were not there, fails here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from scenarios.cli import COMMANDS
from tests.scenarios.cli.options import recorded, simulated, surveys
from tests.scenarios.cli.options.changes import Call, err, files, without_effect
from tests.scenarios.cli.options.inputs import Inputs
from tests.scenarios.command import command_of
from tests.tiers import slow

HERE = (*recorded.CALLS, *surveys.CALLS)
CALLS = (*HERE, *simulated.CALLS)


def options_of(name: str) -> set[str]:
    command = command_of(name)
    assert command is not None
    options = [each for each in command.params if isinstance(each, click.Option)]
    return {text for each in options for text in (*each.opts, *each.secondary_opts)}


@pytest.mark.parametrize(
    "base", [slow(base) if base.dear else base for base in HERE], ids=lambda base: base.words
)
def test_an_option_has_an_effect(base: Call, inputs: Inputs, tmp_path: Path) -> None:
    wrong = without_effect(inputs, base, tmp_path)
    assert not wrong, "\n".join(wrong)


def test_an_option_that_is_ignored_or_only_printed_back_is_found(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = command_of("plan")
    assert command is not None
    proposed: Any = command.callback

    def deaf(**given: object) -> None:
        click.echo(f"# {given['bins']} ranges")
        proposed(**given | {"bins": 8, "keep_case": False})

    monkeypatch.setattr(command, "callback", deaf)
    assert without_effect(inputs, surveys.PLAN[0], tmp_path) == [
        "plan --bins 3: changes nothing that is looked at",
        "plan --keep-case: changes nothing that is looked at",
    ]


def test_what_is_drawn_is_no_evidence(inputs: Inputs, tmp_path: Path) -> None:
    join = Call("join {invitation} --out me --variant {quiet}", {"--out": ("you", files)})
    assert without_effect(inputs, join, tmp_path) == [
        "join --out you: what is looked at changes by itself"
    ]


def test_a_value_that_is_refused_is_no_evidence(inputs: Inputs, tmp_path: Path) -> None:
    [wrong] = without_effect(inputs, Call("plan --from {table}", {"--most": ("2", err)}), tmp_path)
    assert wrong.startswith("plan --most 2: refused: sottovoce: Invalid value for '--most'")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_case(name: str) -> None:
    shown = {option for base in CALLS if base.command == name for option in base.cases}
    assert shown == options_of(name)
