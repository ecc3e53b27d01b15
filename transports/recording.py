"""Recording in time: what an exchange records reaches its sink within a fraction of a second."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio

from protocol.transcript.recorder import Recorder

EVERY = 0.3
"""How often what waits is written, in seconds: the most that a crash can lose."""


@asynccontextmanager
async def recording(recorder: Recorder, *, every: float = EVERY) -> AsyncGenerator[Recorder]:
    """Flush a recorder regularly while the block runs, and close it at the end.

    A block that ends with an error closes the record as incomplete, with the error's name.
    """

    async def flush() -> None:
        while True:
            await trio.sleep(every)
            recorder.flush()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(flush)
            yield recorder
            nursery.cancel_scope.cancel()
    except BaseException as error:
        recorder.close(complete=False, reason=type(error).__name__)
        raise
    recorder.close()
