"""A member's machine: what is its own, how far it has come, and whether it is dead."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Generator
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
        stop_at: the moment at which it is sent a signal to stop; None if it is not.
        copy_at: the moment at which ``copy`` is called; None if it is not.
        copy: makes a copy of its disk.

    Attributes:
        moments: how many there have been.
        dead: whether it has crashed.
        died: set when it has.
        heeds: whether its program receives signals. If it does not, one ends it like a crash.
        told: set when it has received one.
        scope: of all its tasks.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        crash_at: int | None,
        crash: Callable[[Host], None],
        stop_at: int | None = None,
        *,
        copy_at: int | None = None,
        copy: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.folder = folder
        self.moments = 0
        self.dead = False
        self.died = trio.Event()
        self.heeds = False
        self.told = trio.Event()
        self.scope = trio.CancelScope()
        self._crash_at = crash_at
        self._crash = crash
        self._stop_at = stop_at
        self._copy_at = copy_at
        self._copy = copy

    def tick(self) -> None:
        """One moment more."""
        if self.dead:
            return
        self.moments += 1
        if self.moments == self._copy_at:
            self._copy()
        stops = self.moments == self._stop_at
        if stops and self.heeds:
            self.told.set()
        if self.moments == self._crash_at or (stops and not self.heeds):
            self.die()

    def die(self) -> None:
        """Crash now."""
        self.dead = True
        self._crash(self)
        self.died.set()
        self.scope.cancel()


class Signals:
    """The signals that a machine's program receives: one."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._received = False

    def __aiter__(self) -> Signals:
        return self

    async def __anext__(self) -> int:
        if self._received:
            await trio.sleep_forever()
        await self._host.told.wait()
        self._received = True
        return signal.SIGTERM


@contextlib.contextmanager
def receiving() -> Generator[Signals]:
    """Receive the signals to this machine's program while the block runs."""
    host = here()
    host.heeds = True
    try:
        yield Signals(host)
    finally:
        host.heeds = False


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
