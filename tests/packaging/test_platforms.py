"""On Windows the command line says that it does not run there, before it does anything."""

from __future__ import annotations

import sys

import pytest

from tests.scenarios.command import complaint, python, sottovoce

LINE = (
    "Windows is not supported: it lacks the file locks and file modes that protect keys and "
    "records; use Linux, macOS or WSL"
)


@pytest.mark.parametrize("arguments", [(), ("--help",), ("verify", "x.svt")])
def test_every_command_is_refused(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert complaint(sottovoce(*arguments)) == LINE


def test_nothing_is_imported_first_that_may_be_missing_there() -> None:
    missing = ("fcntl", "msgspec", "numpy", "resource", "trio")
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({missing}))\n"
        "from scenarios.cli import main\n"
        "sys.platform = 'win32'\n"
        "main(['run', 'quickstart'])"
    )
    assert complaint(python("-c", program)) == LINE
