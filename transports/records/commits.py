"""Output commit: entries become durable in groups, and senders wait for that.

While one sync runs in a thread, others gather for the next.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from protocol.messages import PartyId
from protocol.transcript.receipts import Acknowledgement
from protocol.transcript.recorder import Recorder

EVERY = 0.3
"""Maximum seconds that an entry waits to be synced when nobody waits for it."""


class Commits:
    """State of a record's commits: the number of durable entries.

    Args:
        recorder: writer of the record.
        sync: makes all writes durable; called in a thread, once at a time.

    Attributes:
        recorder: writer of the record.
        durable: the number of entries that are.
        acknowledged: proof for each party with a durable head.
        since: start of the current write; None between writes.
    """

    def __init__(self, recorder: Recorder, sync: Callable[[], object]) -> None:
        self.durable = 0
        self.acknowledged: dict[PartyId, Acknowledgement] = {}
        self.since: float | None = None
        self.recorder = recorder
        self._sync = sync
        self._wanted = trio.Event()
        self._waiting = trio.lowlevel.ParkingLot()

    @property
    def size(self) -> int:
        """Number of entries that have been recorded, the header included."""
        return self.recorder.size

    async def caught_up(self, size: int | None = None) -> None:
        """Wait until so many entries are durable; by default all entries so far."""
        size = self.size if size is None else size
        while self.durable < size:
            self._wanted.set()
            await self._waiting.park()

    async def run(self, *, every: float = EVERY) -> None:
        """Commit until cancelled.

        Raises:
            OSError: the record could not be made durable. All waiters stop.
        """
        while True:
            with trio.move_on_after(every):
                await self._wanted.wait()
            self._wanted = trio.Event()
            size = self.size
            if size > self.durable:
                self.since = trio.current_time()
                made = self.recorder.acknowledge()
                self.recorder.flush()
                await trio.to_thread.run_sync(self._sync)
                self.since = None
                self.durable = size
                self.acknowledged.update(made)
                self._waiting.unpark_all()
