"""The command line, called in this process or in one of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from protocol import Records, Stream, secret_of
from scenarios.cli import commands, main
from scenarios.data.adult import ADULT, HEADER
from transports.testing import HANGS

ROOT = Path(__file__).resolve().parents[2]
OWN = Path(__file__).with_name("own_variants.py")
"""A file with scenarios and variants of a user's own."""


class Said(NamedTuple):
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, which is JSON and nothing else; it succeeded."""
        assert self.code == 0, self.err
        return json.loads(self.out)


def sottovoce(*arguments: object) -> Said:
    """Call the command line in this process: whatever else than an exit comes out is a bug."""
    out, err = io.StringIO(), io.StringIO()
    code = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int)
    return Said(code, out.getvalue(), err.getvalue())


def command_of(name: str) -> click.Command | None:
    """A command by its name, imported; None if there is none such."""
    return commands.get_command(click.Context(commands), name)


def python(*arguments: object, cwd: Path = ROOT, timeout: float = HANGS) -> Said:
    """Run Python with these arguments, for so many seconds at most."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(),
        timeout=timeout,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def environment() -> dict[str, str]:
    """This process's environment, without folders of data and with wide lines."""
    kept = {name: value for name, value in os.environ.items() if name != "SOTTOVOCE_DATA"}
    return {**kept, "COLUMNS": "200"}


def complaint(said: Said, code: int = 2) -> str:
    """What a refused command says: one line on stderr, nothing on stdout."""
    assert said.code == code, said
    assert said.out == ""
    assert said.err.endswith("\n")
    assert said.err.count("\n") == 1
    assert said.err.startswith("sottovoce: ")
    return said.err.removeprefix("sottovoce: ").rstrip("\n")


def adult_rows(k: int) -> Records:
    """Records of Adult's survey that no census has seen."""
    sizes = ADULT.sizes
    stream = Stream(secret_of(7))
    codes = stream.integers(np.array(sizes), (k, len(sizes)))
    # Some dependence: whoever earns more is married.
    codes[codes[:, 7] == 0, 2] = 0
    return Records(ADULT, codes)


def write_adult(folder: Path, k: int = 400) -> Records:
    """Write a file in Adult's format, and what it holds."""
    records = adult_rows(k)
    lines = [
        ", ".join(row.get(column, "0") for column in HEADER.split(",")) + "\n"
        for row in records.to_rows()
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adult.data").write_text("".join(lines), encoding="utf-8")
    return records
