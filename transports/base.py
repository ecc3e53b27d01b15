"""The contract of a transport: promises of a link, and limits of every hub."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec
import trio

from protocol.messages import Envelope, PartyId

LOST_WITH = "lost with worker "
"""Beginning of the reason for the departure of a party whose worker is gone."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a hub. Times in seconds.

    Args:
        handshake: seconds from connecting to the end of the handshake.
        frame: seconds from the first to the last byte of a frame.
        idle: the longest silence of a connection between frames.
        alive: seconds of its own silence after which an end of a lasting link sends ``Alive``.
        stall: seconds for which a member may leave its mail unread while others wait for room, or
            may take to read one write.
        goodbye: seconds that a finished party waits for the switch to read everything.
        mailbox: number of envelopes that may wait for a member before senders have to wait.
        envelopes: maximum number of envelopes of a party in a session.
        unfinished: maximum number of unauthenticated connections; the size of the roster if that is
            larger.
        unfinished_each: maximum number of them from one address, likewise.
        write: bytes per write.
    """

    handshake: float = 30.0
    frame: float = 30.0
    idle: float = 600.0
    alive: float = 20.0
    stall: float = 30.0
    goodbye: float = 60.0
    mailbox: int = 256
    envelopes: int = 1_000_000
    unfinished: int = 512
    unfinished_each: int = 256
    write: int = 65536


class Link(trio.abc.Channel[Envelope]):
    """One member's way to all others.

    Envelopes of one sender arrive in order, once, until the link ends; a cancelled receive loses
    nothing; whoever sends to a member that does not read has to wait. What was sent before the link
    is closed arrives. A cancelled send may or may not have happened, and may break the link.
    ``transports.testing.check_transport`` checks all of it.

    Raises (all methods):
        trio.ClosedResourceError: this side closed the link.
        trio.BrokenResourceError: the world did, or the hub refused what was sent.
        trio.EndOfChannel (receiving): the hub closed it; nothing more will come.
    """

    @abstractmethod
    def send_nowait(self, envelopes: Sequence[Envelope]) -> int:
        """Send without waiting; return the number of sent envelopes."""

    @abstractmethod
    async def send_many(self, envelopes: Sequence[Envelope]) -> None:
        """Send several envelopes in order, in as few writes as can be."""

    @abstractmethod
    async def receive_many(self) -> list[Envelope]:
        """Wait for at least one envelope, return all that are there."""

    @abstractmethod
    def receive_nowait(self) -> list[Envelope]:
        """All envelopes that are there, perhaps none."""

    async def send(self, value: Envelope) -> None:
        """Send one envelope."""
        await self.send_many((value,))


class Hub(Protocol):
    """Hub to which the members of one session connect."""

    def connect(self, member: PartyId) -> AbstractAsyncContextManager[Link]:
        """A member's link, closed when the block ends.

        Raises:
            ConnectionError: refused, or out of reach; the reason in one line.
        """
