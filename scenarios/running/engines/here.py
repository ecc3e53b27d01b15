"""The engine without workers: tasks are carried out in this process, one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from scenarios.running.engines.engine import Engine

A = TypeVar("A")
R = TypeVar("R")


class Here(Engine):
    """Runs each task in this process, when its result is awaited."""

    name = "here"
    jobs = 1
    window = 1

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Callable[[], Any]]] = deque()
        self._closed = False

    @property
    def under_way(self) -> int:
        return len(self._waiting)

    def submit(
        self, key: int, kernel: Callable[[A], R], argument: A, *, again: bool = True
    ) -> None:
        if self._closed or len(self._waiting) >= self.window:
            raise RuntimeError("closed" if self._closed else "the window is full")
        self._waiting.append((key, lambda: kernel(argument)))

    def drain(self) -> list[tuple[int, Any]]:
        if not self._waiting:
            return []
        key, task = self._waiting.popleft()
        return [(key, task())]

    def close(self) -> None:
        self._closed = True
        self._waiting.clear()
