"""The seam between work and workers: submit, drain, close, with a bounded window.

A kernel is a function at the top of a module from one picklable value to another. Its result must
depend on that value only, so that it does not matter where, when or how often it runs. Engines
carry out simulations, and on this machine also checks of public data: tasks are pickled, and an
engine on a network runs any task that it receives.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args

EngineName = Literal["here", "processes", "ray"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
"""The engines there are."""

A = TypeVar("A")
R = TypeVar("R")


class Engine(ABC):
    """Carries out tasks, and returns results as they finish.

    A kernel that raises an error ends the work: ``drain`` raises it. A worker that dies does not:
    its task is done again elsewhere, unless it was submitted to be done once.

    Attributes:
        name: name for ``--engine``.
        jobs: number of concurrent tasks.
        window: maximum number of tasks handed out at a time.
        host: the address at which workers reach this machine.
    """

    name: ClassVar[str]
    jobs: int
    window: int
    host: str = "127.0.0.1"

    @property
    @abstractmethod
    def under_way(self) -> int:
        """Number of tasks that were submitted and not yet handed back."""

    @abstractmethod
    def submit(
        self, key: int, kernel: Callable[[A], R], argument: A, *, again: bool = True
    ) -> None:
        """Begin a task.

        Args:
            key: names the task when it is handed back; no two under way have the same.
            kernel: a function at the top of a module.
            argument: the kernel's argument.
            again: do it again if its worker dies. If not, ``Lost`` is handed back.

        Raises:
            EngineError: no worker can be started.
            RuntimeError: the window is full, or the engine is closed.
            UsageError: workers cannot be handed the kernel or its argument.
        """

    @abstractmethod
    def drain(self) -> list[tuple[int, Any]]:
        """Wait until a task is done; returns all that are, as (key, result), in any order.

        Empty if no task is running. Results next to a failed task come first; the next call raises
        the failure.

        Raises:
            EngineError: workers die again and again, or cannot be reached.
            Exception: a kernel's error, caused by its worker's traceback.
        """

    @abstractmethod
    def close(self) -> None:
        """End all workers and drop unfinished tasks. Closing twice is harmless."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Lost:
    """Outcome of a task that must run only once, after its worker died.

    Args:
        reason: what happened to the worker.
    """

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __repr__(self) -> str:
        return f"Lost({self.reason!r})"


def completed(
    engine: Engine, kernel: Callable[[A], R], tasks: Iterable[tuple[int, A]]
) -> Iterator[tuple[int, R]]:
    """Run a kernel on many arguments; yield (key, result) as they finish.

    Arguments are taken as there is room for them, so memory is bounded however many there are.

    Args:
        tasks: (key, argument); a key comes once.

    Raises: as ``Engine.drain``.
    """
    for key, argument in tasks:
        while engine.under_way >= engine.window:
            yield from engine.drain()
        engine.submit(key, kernel, argument)
    while engine.under_way:
        yield from engine.drain()


def in_order(engine: Engine, kernel: Callable[[A], R], arguments: Sequence[A]) -> list[R]:
    """Results of a kernel for each argument, in their order.

    Raises: as ``Engine.drain``.
    """
    found = dict(completed(engine, kernel, enumerate(arguments)))
    return [found[key] for key in range(len(arguments))]
