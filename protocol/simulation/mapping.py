"""The seam for spreading work: a kernel is applied to each of many arguments.

The caller decides where: one after the other by default, or by many workers if an engine is passed
down. A kernel is a function at the top of a module, with its types stated. Its result follows from
its argument alone, so it does not matter where, when or how often it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

A = TypeVar("A")
R = TypeVar("R")


class Map(Protocol):
    """Carries out a kernel on each argument."""

    def __call__(self, kernel: Callable[[A], R], arguments: Sequence[A], /) -> list[R]:
        """Results of the kernel for each, in their order."""


def one_by_one(kernel: Callable[[A], R], arguments: Sequence[A], /) -> list[R]:
    """The map that is done here, without workers."""
    return [kernel(argument) for argument in arguments]


def chunks(count: int, size: int) -> list[slice]:
    """Slices of at most this size over a number of things, in order: one argument each."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]
