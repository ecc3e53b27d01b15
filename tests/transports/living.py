"""A count of what is alive, to see that who comes and goes leaves nothing behind."""

from __future__ import annotations

import functools
import gc
import itertools
import types
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import trio

_PACKAGES = ("protocol.", "transports.", "trio", "ssl", "_ssl", "_socket", "socket", "h11")
_RUNNING = (types.CoroutineType, types.FrameType, types.TracebackType, types.AsyncGeneratorType)
_UNCOUNTED = ("CancelScope", "CancelReason")
"""Trio forgets deadlines that are void once there are a thousand of them."""


@contextmanager
def no_collections() -> Generator[None]:
    """Have nothing that refers to itself collected while the block runs: it counts as alive."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def alive(tasks: int) -> Counter[str]:
    """Objects of tasks, connections and protocols, by type, once no more than so many tasks run."""
    while trio.lowlevel.current_statistics().tasks_living > tasks:  # noqa: ASYNC110
        await trio.sleep(0.01)
    return Counter(
        type(each).__qualname__
        for each in gc.get_objects()
        if isinstance(each, _RUNNING)
        # Of a type that is made in C, it may be anything.
        or (
            str(type(each).__module__).startswith(_PACKAGES)
            and type(each).__name__ not in _UNCOUNTED
        )
    )


def growth(counts: Sequence[Counter[str]]) -> Counter[str]:
    """Objects that there are more of at every count than at the one before.

    There may be fewer: threads of earlier tests end by themselves. And now and then one connection
    that is cancelled while it ends leaves its error behind for a while.
    """
    grown = [later - earlier for earlier, later in itertools.pairwise(counts)]
    return functools.reduce(Counter.__and__, grown)
