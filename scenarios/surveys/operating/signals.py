"""Signals that ask a program to stop: the first is heeded in order, the second at once."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import trio

from scenarios.errors import StoppedError
from transports.background import running

T = TypeVar("T")

STOPPING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""The signals that stop a survey."""


@contextmanager
def receiving() -> Generator[AsyncIterator[int]]:
    """Receive signals during the block, except those that this process ignores.

    It must run in the main thread.
    """
    heeded = [number for number in STOPPING if signal.getsignal(number) != signal.SIG_IGN]
    with trio.open_signal_receiver(*heeded) as received:
        yield received


async def obey(received: AsyncIterator[int], stop: Callable[[str], Awaitable[object]]) -> None:
    """Call ``stop`` with the name of the first signal; a second one ends the program meanwhile."""
    name = signal.Signals(await anext(received)).name
    async with running(partial(_die, received)):
        await stop(name)


async def _die(received: AsyncIterator[int]) -> None:
    number = await anext(received)
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


async def heeding(task: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """Run a task, in the main thread; the first signal ends it.

    Raises:
        StoppedError: a signal has come; names it.
    """

    async def stop(name: str) -> None:
        raise StoppedError(f"stopped by {name}")

    with receiving() as received:
        async with running(partial(obey, received, stop)):
            return await task(*arguments)
