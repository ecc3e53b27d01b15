"""A member's machine: what is its own, how far it has come, and whether it is dead."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path

import trio


class Host:
    """One life of a member's machine, from a start to an end or a crash.

    A moment is a step of one of its tasks, or a call of its operating system about a file. At a
    crash it is dead at once: its tasks are cancelled, and whatever they still do reaches neither
    the network nor the disk as it will be found.

    Args:
        name: the member's.
        folder: all its files.
        crash_at: the moment at which it crashes; None if it does not.
        crash: what happens then.

    Attributes:
        moments: how many there have been.
        dead: whether it has crashed.
        died: set when it has.
        scope: of all its tasks.
    """

    def __init__(
        self, name: str, folder: Path, crash_at: int | None, crash: Callable[[Host], None]
    ) -> None:
        self.name = name
        self.folder = folder
        self.moments = 0
        self.dead = False
        self.died = trio.Event()
        self.scope = trio.CancelScope()
        self._crash_at = crash_at
        self._crash = crash

    def tick(self) -> None:
        """One moment more."""
        if self.dead:
            return
        self.moments += 1
        if self.moments == self._crash_at:
            self.dead = True
            self._crash(self)
            self.died.set()
            self.scope.cancel()


HOST: ContextVar[Host | None] = ContextVar("host", default=None)
"""The machine that a task is of, if it is of one."""


def here() -> Host:
    """The machine that this task is of."""
    host = HOST.get()
    assert host is not None
    return host


class Moments(trio.abc.Instrument):
    """Counts the steps of tasks."""

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        host = task.context.get(HOST)
        if host is not None:
            host.tick()
