"""A bounded queue with one reader, which wakes writers when there is room; and its link."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

import trio

from protocol.messages import Envelope, PartyId
from transports.base import Link

T = TypeVar("T")


class Mailbox(Generic[T]):
    """A queue that is read in batches.

    ``put`` never waits: writers look at ``space`` first and wait for ``room``. So one item too many
    (a duplicate, a notice) is never a reason to lose something.

    Every party has one, so it is kept small: waiting state is created on demand, and items are in a
    list, as even an empty deque takes 600 bytes or more.

    Args:
        capacity: number of items at which it is full.

    Attributes:
        takes: number of takes, which shows whether its reader stands still.
        watcher: called whenever something is put or the mailbox is closed, if there is one, for a
            reader of many mailboxes.
        closed: whether it takes nothing more in.
    """

    __slots__ = ("_capacity", "_items", "_readers", "_writers", "closed", "takes", "watcher")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._items: list[T] = []
        self.closed = False
        self.takes = 0
        self.watcher: Callable[[], object] | None = None
        self._readers: trio.lowlevel.ParkingLot | None = None
        self._writers: trio.lowlevel.ParkingLot | None = None

    def __len__(self) -> int:
        return len(self._items)

    @property
    def space(self) -> int:
        """Number of free places. Items put into a closed mailbox are dropped."""
        return self._capacity - (0 if self.closed else len(self._items))

    @property
    def full(self) -> bool:
        """True if writers should wait."""
        return self.space <= 0

    def put(self, *items: T) -> None:
        """Add items; dropped if the mailbox is closed."""
        if not self.closed:
            self._items += items
            if self._readers:
                self._readers.unpark(count=len(items))
            if self.watcher is not None:
                self.watcher()

    async def room(self) -> None:
        """Wait until the mailbox is not full; only as many writers wake as there are places."""
        while self.full:
            if self._writers is None:
                self._writers = trio.lowlevel.ParkingLot()
            await self._writers.park()

    def take_nowait(self, most: int | None = None) -> list[T]:
        """Everything that is there, or the first ``most`` items."""
        return self._take(len(self._items) if most is None else most)

    def take_until(self, enough: Callable[[T], bool]) -> list[T]:
        """Items from the front, up to and including the first that is ``enough``."""
        count = 0
        for item in self._items:
            count += 1
            if enough(item):
                break
        return self._take(count)

    def pass_on(self) -> None:
        """Wake the next writer in place of one that does not use its room."""
        if self._writers and not self.full:
            self._writers.unpark()

    async def wait(self) -> None:
        """Wait until there is something to take. A cancelled wait loses nothing.

        Raises:
            trio.EndOfChannel: it is closed, and empty.
        """
        while not self._items:
            if self.closed:
                await trio.lowlevel.checkpoint()
                raise trio.EndOfChannel
            if self._readers is None:
                self._readers = trio.lowlevel.ParkingLot()
            await self._readers.park()

    def end(self) -> None:
        """Accept nothing more. Items in it can still be taken."""
        self.closed = True
        for waiting in (self._readers, self._writers):
            if waiting:
                waiting.unpark_all()
        if self.watcher is not None:
            self.watcher()

    def close(self) -> None:
        """Accept nothing more, and drop all items."""
        self._items.clear()
        self.end()

    def _take(self, count: int) -> list[T]:
        taken = self._items[:count]
        if taken:
            del self._items[:count]
            self.takes += 1
            if self._writers:
                self._writers.unpark(count=max(0, self._capacity - len(self._items)))
        return taken


class MailboxLink(Link, Generic[T]):
    """The receiving side of a link, and its end.

    Args:
        member: the member.
        mail: the member's mailbox.
    """

    def __init__(self, member: PartyId, mail: Mailbox[T]) -> None:
        self.mail = mail
        self._member = member
        self._closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._member!r})"

    async def receive(self) -> Envelope:
        await self._wait()
        return self._take(1)[0]

    async def receive_many(self) -> list[Envelope]:
        await self._wait()
        return self._take(None)

    def receive_nowait(self) -> list[Envelope]:
        self._check()
        return self._take(None)

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    @abstractmethod
    def close(self) -> None:
        """Close at once, without waiting."""

    @abstractmethod
    def _take(self, most: int | None) -> list[Envelope]:
        """Take what is in the mailbox, or the first ``most`` envelopes of it."""

    async def _wait(self) -> None:
        self._check()
        if len(self.mail):
            await trio.lowlevel.checkpoint()
        try:
            # Another reader of this link may have taken everything meanwhile.
            await self.mail.wait()
        except trio.EndOfChannel:
            self._check()
            raise

    def _check(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError(f"the link of {self._member!r} is closed")
