"""The engine of processes on this machine, each with a link of its own.

A dead worker's link identifies its task, so only that task is repeated, by a new worker.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections import deque
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

from scenarios.errors import EngineError
from scenarios.running.engines.carrying import kernel_result
from scenarios.running.engines.engine import Lost
from scenarios.running.engines.with_workers import Task, WorkersEngine

MOST_DEATHS = 3
"""Maximum number of workers that may die of one task."""

_WORKER = Path(__file__).with_name("worker.py")
_STDERR = 2
_POLL = 1.0
"""Seconds of silence after which a worker is checked for a death behind an open link."""


def processors() -> int:
    """Number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Worker:
    """A process with its link and its current task.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self) -> None:
        self.task: Task | None = None
        self.link: Connection[bytes, bytes]
        self.link, theirs = Pipe()
        try:
            with theirs:
                # Not by multiprocessing: it would run the user's script again in each worker. What
                # is printed goes to stderr, stdout is the command's. In a group of its own, it is
                # not interrupted by Ctrl-C, even while it starts.
                self.process = subprocess.Popen(
                    [sys.executable, str(_WORKER), str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=_STDERR,
                    pass_fds=(theirs.fileno(),),
                    process_group=0,
                )
        except OSError:
            self.link.close()
            raise

    def begin(self, task: Task) -> None:
        """Send it a task.

        Raises:
            OSError: it died before it had read it.
        """
        self.link.send_bytes(task.content)
        self.task = task

    def end(self, *, after: float = 0.0) -> str:
        """Make sure that it has ended; return its exit in words.

        Args:
            after: seconds to wait for it to end by itself.
        """
        self.link.close()
        try:
            code = self.process.wait(after)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"


class Processes(WorkersEngine):
    """Carries out each task in one of some processes.

    Args:
        jobs: number of processes, by default one for each processor.
    """

    name = "processes"

    def __init__(self, jobs: int | None = None) -> None:
        super().__init__()
        self.jobs = processors() if jobs is None else jobs
        self.window = 2 * self.jobs
        self._workers: list[_Worker] = []
        self._ended: deque[tuple[int, bytes | Lost | EngineError]] = deque()

    @property
    def under_way(self) -> int:
        busy = sum(worker.task is not None for worker in self._workers)
        return len(self._waiting) + busy + len(self._ended)

    def drain(self) -> list[tuple[int, Any]]:
        while not self._ended and self.under_way:
            self._wait()
        found: list[tuple[int, Any]] = []
        while self._ended:
            key, outcome = self._ended[0]
            if isinstance(outcome, Lost):
                result: Any = outcome
            else:
                try:
                    if isinstance(outcome, EngineError):
                        raise outcome
                    result = kernel_result(outcome)
                except Exception:
                    if found:
                        return found
                    self._ended.popleft()
                    raise
            found.append((key, result))
            self._ended.popleft()
        return found

    def close(self) -> None:
        self._closed = True
        self._waiting.clear()
        self._ended.clear()
        for worker in self._workers:
            worker.process.kill()
        while self._workers:
            self._workers.pop().end()

    def _hand_out(self) -> None:
        """Give waiting tasks to idle workers, starting workers as needed."""
        while self._waiting:
            worker = next((w for w in self._workers if w.task is None), None)
            if worker is None:
                if len(self._workers) >= self.jobs:
                    return
                worker = self._start_worker()
            task = self._waiting.popleft()
            try:
                worker.begin(task)
            except OSError:
                self._workers.remove(worker)
                self._again(task, worker.end(after=_POLL))

    def _start_worker(self) -> _Worker:
        try:
            worker = _Worker()
            worker.link.send_bytes(pickle.dumps(sys.path))
        except OSError as error:
            raise EngineError(f"engine 'processes': no worker can be started: {error}") from error
        self._workers.append(worker)
        return worker

    def _wait(self) -> None:
        """Wait until a worker finishes a task or dies; then hand out tasks."""
        self._hand_out()
        ready = wait([worker.link for worker in self._workers], _POLL)
        for worker in list(self._workers):
            if worker.link in ready:
                try:
                    outcome = worker.link.recv_bytes()
                except (EOFError, OSError):
                    self._bury(worker)
                    continue
                assert worker.task is not None
                self._ended.append((worker.task.key, outcome))
                worker.task = None
            elif not ready and worker.process.poll() is not None:
                # Something that it started holds the link open.
                self._bury(worker)
        self._hand_out()

    def _bury(self, worker: _Worker) -> None:
        """Discard a dead worker, and repeat its task if that is allowed."""
        self._workers.remove(worker)
        how, task = worker.end(after=_POLL), worker.task
        if task is None:
            return
        if task.again:
            self._again(task, how)
        else:
            self._ended.append((task.key, Lost(f"its worker {how}")))

    def _again(self, task: Task, how: str) -> None:
        task.deaths += 1
        if task.deaths < MOST_DEATHS:
            self._waiting.appendleft(task)
            return
        error = EngineError(
            f"task {task.key}: given up after {task.deaths} workers died of it; the last one {how}"
        )
        self._ended.append((task.key, error))
