"""``sottovoce`` as a program of its own, forked from a process that has imported it.

To start Python and to import takes most of a second of processor time, a fork some milliseconds.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import random
import resource
import signal
import subprocess
import sys
import threading
from types import TracebackType
from typing import Self

import trio

from scenarios.cli import main
from tests.scenarios.command import ROOT, command_of, environment

# Commands are imported when they are asked for, and with them what they need.
for command in ("aggregate", "answer", "audit"):
    command_of(command)

_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["pytest", __name__])


@atexit.register
def _end_all() -> None:
    for process in multiprocessing.active_children():
        process.kill()


class Program:
    """A running program, as ``subprocess.Popen`` has it; its output is read as text.

    Args:
        arguments: after ``sottovoce``.
        room: no file that it writes may be larger, in bytes; None if what limits this process does.
    """

    def __init__(self, *arguments: object, room: int | None = None) -> None:
        self.args = ["sottovoce", *map(str, arguments)]
        if room is None:
            room, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        os.umask(mask := os.umask(0))
        pipes = [multiprocessing.connection.Pipe(duplex=False) for _ in range(2)]
        self._process = _FORKED.Process(
            target=_run,
            args=(self.args[1:], environment(), mask, room, *(written for _, written in pipes)),
        )
        self._process.start()
        read = []
        for reading, written in pipes:
            written.close()
            read.append(os.fdopen(os.dup(reading.fileno()), encoding="utf-8"))
            reading.close()
        self.stdout, self.stderr = read
        self._said: dict[str, str] = {}
        self._reading = [
            threading.Thread(target=self._read, args=(name,), daemon=True)
            for name in ("stdout", "stderr")
        ]
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """With what it has ended, or minus the signal; None as long as it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The same."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end; what it has printed since it was last read."""
        for reading in self._reading:
            if reading.ident is None:
                reading.start()
        for reading in self._reading:
            reading.join(timeout)
            if reading.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        with self:
            return self._said["stdout"], self._said["stderr"]

    def _read(self, name: str) -> None:
        self._said[name] = getattr(self, name).read()

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to stop."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stdout.close()
        self.stderr.close()
        self.wait()


def _run(
    arguments: list[str],
    variables: dict[str, str],
    mask: int,
    room: int,
    *outputs: multiprocessing.connection.Connection,
) -> None:
    """Be the program, in a process that was forked for it."""
    for number, output in enumerate(outputs, 1):
        os.dup2(output.fileno(), number)
        output.close()
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", buffering=1, closefd=False)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(ROOT)
    os.umask(mask)
    # What is forked would all draw alike.
    random.seed()
    trio._core._run._r.seed()
    # As Python has it when it starts.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Tests that are started with nohup ignore it.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    main(arguments)
