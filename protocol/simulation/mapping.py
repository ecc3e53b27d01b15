"""Maps: a kernel is carried out on each of many arguments, here or by workers.

The caller decides where: one after the other by default, by many workers with an engine. A kernel
is a function at the top of a module with type annotations. Its result depends on its argument
alone, not on where, when or how often it runs.
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
    """The map without workers."""
    return [kernel(argument) for argument in arguments]


def chunks(count: int, size: int) -> list[slice]:
    """Consecutive slices of at most ``size`` over ``count`` things."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]
