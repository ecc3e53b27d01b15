"""The actor: gives a machine a life over a link. The only code that meets both time and I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import trio

from protocol.crypto.randomness import Streams
from protocol.errors import ProtocolError
from protocol.messages import AGGREGATOR, ROLE_STREAM, Envelope
from protocol.session.charter import Charter
from protocol.session.machine import Machine
from protocol.session.roster import Identity


class Driven(Protocol):
    """What an actor gives a life to: a machine, or something that behaves like one."""

    @property
    def finished(self) -> bool:
        """Whether the role has ended."""

    @property
    def failure(self) -> ProtocolError | None:
        """What went wrong, if it has ended so."""

    @property
    def deadline(self) -> float | None:
        """When to call ``expire``; None while nothing is timed."""

    def start(self, now: float) -> None:
        """Run the role up to its first wait."""

    def take(self) -> list[Envelope]:
        """What is to be sent now."""

    def receive(self, envelope: Envelope, now: float) -> None:
        """Take an envelope from the link."""

    def expire(self, now: float) -> None:
        """The deadline is over."""

    def abandon(self, reason: str) -> None:
        """End the role from outside."""


D = TypeVar("D", bound=Driven)


class Channel(Protocol):
    """What an actor needs of a link."""

    def send_nowait(self, envelopes: Sequence[Envelope]) -> int:
        """Send what can be sent without waiting; how many that were."""

    async def send_many(self, envelopes: Sequence[Envelope]) -> None:
        """Send all, in order."""

    async def receive_many(self) -> list[Envelope]:
        """Wait for at least one envelope."""

    def receive_nowait(self) -> list[Envelope]:
        """What is there."""


async def run_aggregator(
    charter: Charter, link: Channel, *, streams: Streams, identity: Identity | None = None
) -> Machine:
    """Run the aggregator over its link until its role ends; ``result`` is what it published."""
    stream = streams.stream(AGGREGATOR, ROLE_STREAM)
    machine = Machine(charter, AGGREGATOR, stream, identity=identity)
    return await run_machine(machine, link)


async def run_machine(machine: D, link: Channel) -> D:
    """Start, send, wait until the deadline, deliver, repeat, until the role or its link ends."""
    try:
        machine.start(trio.current_time())
        await _speak(machine, link)
        while not machine.finished:
            await _listen(machine, link)
            await _speak(machine, link)
    except trio.EndOfChannel:
        machine.abandon("its link has ended")
    except trio.BrokenResourceError as broken:
        machine.abandon(f"its link broke: {broken}")
    return machine


async def _listen(machine: Driven, link: Channel) -> None:
    deadline = machine.deadline
    if deadline is None:
        received = await link.receive_many()
    else:
        received = []
        with trio.move_on_at(deadline):
            received = await link.receive_many()
        if not received:
            # What has come by the deadline counts, even if nobody has looked at it yet.
            received = link.receive_nowait()
    now = trio.current_time()
    for envelope in received:
        machine.receive(envelope, now)
    machine.expire(now)


async def _speak(machine: Driven, link: Channel) -> None:
    while outbox := machine.take():
        sent = link.send_nowait(outbox)
        if sent < len(outbox):
            await _speak_and_listen(machine, link, outbox[sent:])


async def _speak_and_listen(machine: Driven, link: Channel, outbox: Sequence[Envelope]) -> None:
    """Write what has to wait for room, and read meanwhile.

    Else two members who write to each other would wait for ever.
    """
    async with trio.open_nursery() as nursery:

        async def listen() -> None:
            try:
                while True:
                    received = await link.receive_many()
                    now = trio.current_time()
                    machine.expire(now)
                    for envelope in received:
                        machine.receive(envelope, now)
            except (trio.EndOfChannel, trio.BrokenResourceError):
                return  # The writer, or the next to read, meets the same end.

        nursery.start_soon(listen)
        broken: trio.BrokenResourceError | None = None
        try:
            await link.send_many(outbox)
        except trio.BrokenResourceError as error:
            broken = error
        nursery.cancel_scope.cancel()
    if broken is not None:
        raise broken
