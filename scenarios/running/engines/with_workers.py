"""Queue of packed tasks, shared by all engines with workers."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from scenarios.running.engines.carrying import packed
from scenarios.running.engines.engine import Engine

A = TypeVar("A")
R = TypeVar("R")


@dataclass(slots=True)
class Task:
    """A submitted task, with the number of workers that died of it."""

    key: int
    content: bytes
    again: bool
    deaths: int = 0


class WorkersEngine(Engine):
    """Packs tasks and hands them to workers that have none."""

    def __init__(self) -> None:
        self._waiting: deque[Task] = deque()
        self._closed = False

    def submit(
        self, key: int, kernel: Callable[[A], R], argument: A, *, again: bool = True
    ) -> None:
        if self._closed or self.under_way >= self.window:
            raise RuntimeError("closed" if self._closed else "the window is full")
        self._waiting.append(Task(key, packed(kernel, argument), again))
        self._hand_out()

    @abstractmethod
    def _hand_out(self) -> None:
        """Give waiting tasks to idle workers."""
