"""Parties that break the rules: honest ones whose links say other things, more, less or nothing.

What their machines sign is not what they say, so they leave it out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec
import trio

from parties.actor import Channel
from parties.session import Hub
from protocol import AGGREGATOR, PartyId
from protocol.messages import Envelope, Head, Left


class Adversary:
    """Says what its machine does; subclasses change it.

    Args:
        link: of the party.
    """

    def __init__(self, link: Channel) -> None:
        self.link = link
        self.sent = 0
        self.forge: Callable[[Envelope], Envelope] = lambda envelope: envelope

    def change(self, outbox: list[Envelope]) -> list[Envelope]:
        """What it says instead of what its machine would."""
        return outbox

    def send_nowait(self, envelopes: Sequence[Envelope]) -> int:
        return 0

    async def send_many(self, envelopes: Sequence[Envelope]) -> None:
        outbox = self.change([item for item in envelopes if item.kind != Head.kind()])
        said = [msgspec.structs.replace(item, seq=self.sent + i) for i, item in enumerate(outbox)]
        self.sent += len(said)
        await self.link.send_many([self.forge(item) for item in said])

    async def receive_many(self) -> list[Envelope]:
        return await self.link.receive_many()

    def receive_nowait(self) -> list[Envelope]:
        return self.link.receive_nowait()

    async def leave(self) -> None:
        """What it does before it closes its link."""


class Flooder(Adversary):
    """Says everything many times, with a new number each time."""

    def __init__(self, link: Channel, *, times: int) -> None:
        super().__init__(link)
        self.times = times

    def change(self, outbox: list[Envelope]) -> list[Envelope]:
        return [envelope for envelope in outbox for _ in range(self.times)]


class Forger(Adversary):
    """Sends something else than its machine made: a wrong range, number, sender, or any bytes."""

    def __init__(self, link: Channel, *, forge: Callable[[Envelope], Envelope]) -> None:
        super().__init__(link)
        self.forge = forge


class Mute(Adversary):
    """Stays connected until the aggregator has left, and never says anything."""

    def change(self, outbox: list[Envelope]) -> list[Envelope]:
        return []

    async def leave(self) -> None:
        while True:
            for envelope in await self.link.receive_many():
                notice = msgspec.msgpack.decode(envelope.body, type=Left)
                if notice.party == AGGREGATOR:
                    return


class Quitter(Adversary):
    """Leaves after so many envelopes."""

    def __init__(self, link: Channel, *, after: int) -> None:
        super().__init__(link)
        self.after = after

    def change(self, outbox: list[Envelope]) -> list[Envelope]:
        if self.sent + len(outbox) > self.after:
            raise trio.BrokenResourceError("quit")
        return outbox


Disguise = Callable[[Channel], Adversary]


class Infiltrated:
    """A hub at which some of the parties are adversaries."""

    def __init__(self, hub: Hub, adversaries: Mapping[PartyId, Disguise]) -> None:
        self._hub = hub
        self._adversaries = adversaries

    @asynccontextmanager
    async def connect(self, member: PartyId) -> AsyncGenerator[Channel]:
        async with self._hub.connect(member) as link:
            if member not in self._adversaries:
                yield link
                return
            adversary = self._adversaries[member](link)
            yield adversary
            await adversary.leave()

    async def joined(self, members: Iterable[PartyId], *, within: float) -> None:
        await self._hub.joined(members, within=within)
