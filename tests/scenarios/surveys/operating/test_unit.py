"""The sample unit file calls the program as it is."""

from __future__ import annotations

import configparser
import re
import shlex

import click

from scenarios.errors import STOPPED
from scenarios.surveys.operating.operation import DRAINING
from tests.scenarios.command import ROOT, command_of

UNIT = ROOT / "docs" / "sottovoce-aggregate.service"


def unit() -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # as its documentation says
    unit.read_string(UNIT.read_text(encoding="utf-8"))
    return unit


def service() -> dict[str, str]:
    return dict(unit()["Service"])


def test_the_command_is_one_that_there_is() -> None:
    _, name, *arguments = shlex.split(service()["ExecStart"])
    command = command_of(name)
    assert command is not None
    parser = command.make_parser(click.Context(command))
    given, rest, _ = parser.parse_args(arguments)
    assert rest == []
    assert given["folder"] == "/var/lib/sottovoce/aggregator"
    assert given["resume"]


def test_a_stop_is_no_failure_and_has_time() -> None:
    found = service()
    assert found["Type"] == "notify"
    assert int(found["SuccessExitStatus"]) == STOPPED
    assert int(found["TimeoutStopSec"]) > DRAINING


def test_a_survey_is_resumed_until_it_is_over() -> None:
    """Although all files are there: secrets are erased last."""
    assert not [name for name in unit()["Unit"] if name.startswith(("Condition", "Assert"))]
    assert "2" in service()["RestartPreventExitStatus"].split()


def test_every_event_is_documented() -> None:
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    told = {
        event
        for path in (ROOT / "scenarios" / "surveys" / "operating").glob("*.py")
        for event in re.findall(
            r'(?:tell\(\s*|"msg": )"([a-z ]+)"', path.read_text(encoding="utf-8")
        )
    }
    assert len(told) > 8
    table = page.partition("| event | fields |")[2].partition("\n\n")[0]
    assert told == {
        event
        for row in table.splitlines()[2:]
        for event in re.findall(r"`([a-z ]+)`", row.split("|")[1])
    }
