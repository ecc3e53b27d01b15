"""Ray in a process of its own, with a home of its own."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.scenarios.command import ROOT, environment

ON_RAY = "SOTTOVOCE_TEST_ON_RAY"
"""The environment variable that has the contract tested on Ray."""

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray")


class Ended(NamedTuple):
    """How a process ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, which is JSON and nothing else; it succeeded."""
        assert self.code == 0, self
        return json.loads(self.out)


def started(*arguments: object, home: Path, **variables: str) -> subprocess.Popen[str]:
    """Python with these arguments, in a home of its own."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**environment(), "HOME": str(home), "PYTHONPATH": str(ROOT), **variables},
    )


def run(*arguments: object, home: Path, **variables: str) -> Ended:
    """Run Python with these arguments, in a home of its own."""
    with started(*arguments, home=home, **variables) as process:
        try:
            out, err = process.communicate(timeout=240)
        except BaseException:
            process.kill()
            raise
        return Ended(process.returncode, out, err)
