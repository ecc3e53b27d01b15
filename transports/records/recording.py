"""Recording in time: entries reach their sink within a fraction of a second."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

import trio

from protocol.errors import LocalProtocolError
from protocol.transcript.recorder import Recorder
from transports.background import running
from transports.records.commits import EVERY, Commits


@asynccontextmanager
async def recording(
    recorder: Recorder,
    commits: Commits | None = None,
    *,
    final: Callable[[BaseException], bool] = lambda error: True,
    every: float = EVERY,
) -> AsyncGenerator[Recorder]:
    """Flush a recorder regularly while the block runs, and close it at the end.

    A block that ends with an error closes the record as incomplete, with the error's name.

    Args:
        commits: flush and sync by these instead.
        final: whether the run is over with this error, the first of a group. By default it is with
            any. Otherwise nothing is closed, and another program may go on in the same log.
        every: the seconds between two writes.
    """

    async def flush() -> None:
        while True:
            await trio.sleep(every)
            recorder.flush()

    try:
        async with running(flush if commits is None else commits.run):
            yield recorder
    except BaseException as error:
        # If the sink failed, the record is over: nothing may follow.
        first = _first(error)
        if final(first):
            with suppress(LocalProtocolError, OSError):
                recorder.close(complete=False, reason=type(first).__name__)
        raise
    recorder.close()


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
