"""Background tasks of a block: they run while it does."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def running(*tasks: Callable[[], Awaitable[object]]) -> AsyncGenerator[None]:
    """Run tasks until the block ends.

    The first error, of the block or of a task, ends both and is raised unchanged.
    """
    failures: list[Exception] = []
    async with trio.open_nursery() as nursery:

        async def run(task: Callable[[], Awaitable[object]]) -> None:
            try:
                await task()
            except Exception as error:
                failures.append(error)
                nursery.cancel_scope.cancel()

        for task in tasks:
            nursery.start_soon(run, task)
        try:
            yield
        except Exception as error:
            failures.append(error)
        nursery.cancel_scope.cancel()
    if failures:
        raise failures[0]
