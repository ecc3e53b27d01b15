"""The memory transport: links inside one process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager

import trio

from protocol.errors import RemoteProtocolError
from protocol.messages import LINK_CLOSED, NEVER_CAME, Envelope, PartyId
from protocol.session.exchange import Delivery
from transports.background import running
from transports.base import Link
from transports.mailbox import MailboxLink
from transports.switch import Switch


class MemoryLink(MailboxLink[Delivery]):
    """A member's link to a switch in the same process."""

    def __init__(self, switch: Switch, member: PartyId) -> None:
        super().__init__(member, switch.attach(member))
        self._switch = switch

    def send_nowait(self, envelopes: Sequence[Envelope]) -> int:
        self._check()
        try:
            return self._switch.relay_nowait(self._member, envelopes)
        except RemoteProtocolError as refusal:
            raise trio.BrokenResourceError(f"refused: {refusal}") from refusal

    async def send_many(self, envelopes: Sequence[Envelope]) -> None:
        self._check()
        await trio.lowlevel.checkpoint()
        try:
            await self._switch.relay(self._member, envelopes)
        except RemoteProtocolError as refusal:
            raise trio.BrokenResourceError(f"refused: {refusal}") from refusal
        except trio.BrokenResourceError:
            self._check()
            raise

    async def __aexit__(self, *error: object) -> None:
        # Without the checkpoint of ``aclose``, as thousands of parties end at once.
        self.close()

    def close(self) -> None:
        """Close at once; the others are notified."""
        if not self._closed:
            self._closed = True
            self._switch.detach(self._member, LINK_CLOSED)

    def _take(self, most: int | None) -> list[Envelope]:
        deliveries = self.mail.take_nowait(most)
        self._switch.taken(deliveries)
        return [delivery.envelope for delivery in deliveries]


class MemoryHub:
    """Connects the members of one session in memory.

    Use it in ``async with open_memory(switch) as hub``.
    """

    def __init__(self, switch: Switch) -> None:
        self._switch = switch

    def connect(self, member: PartyId) -> Link:
        """A member's link, to be used in an ``async with`` block, which closes it."""
        try:
            return MemoryLink(self._switch, member)
        except RemoteProtocolError as refusal:
            raise ConnectionError(str(refusal)) from refusal

    async def joined(
        self, members: Iterable[PartyId], *, within: float, reason: str = NEVER_CAME
    ) -> None:
        """Wait until all members are connected; detach those that are not by then."""
        await self._switch.joined(members, within=within, reason=reason)

    async def emptied(self) -> None:
        """Wait until nobody is connected."""
        await self._switch.emptied()


@asynccontextmanager
async def open_memory(switch: Switch) -> AsyncGenerator[MemoryHub]:
    """Run a switch in the background and connect members to it."""
    async with running(switch.run):
        yield MemoryHub(switch)
