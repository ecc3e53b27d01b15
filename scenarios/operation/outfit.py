"""How a survey is held from the command line: who is told how it goes, and by what."""

from __future__ import annotations

import functools
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from scenarios.operation.live_line import show
from scenarios.operation.operation import Operation, Task


@contextmanager
def operating(folder: Path) -> Generator[Operation]:
    """How the survey of a folder is held: signals stop it, and ``close_joining`` finds it.

    On a terminal, a line says how it goes.
    """
    operation = Operation(heeds_signals=True, folder=folder)
    tasks: list[Task] = []
    if sys.stderr.isatty():
        tasks.append(functools.partial(show, operation.progress, sys.stderr))
    operation.tasks = tasks
    yield operation
