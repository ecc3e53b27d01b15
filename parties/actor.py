"""The actor: gives a machine a life over a link. The only code that meets both time and I/O."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import trio

from protocol.crypto.randomness import Streams
from protocol.messages import AGGREGATOR, ROLE_STREAM, Envelope, Message
from protocol.session.charter import Charter
from protocol.session.machine import Machine
from protocol.session.roles import Gather
from protocol.session.roster import Identity


class Channel(Protocol):
    """Methods of a link that an actor needs."""

    def send_nowait(self, envelopes: Sequence[Envelope]) -> int:
        """Send as much as possible without waiting; returns the number sent."""

    async def send_many(self, envelopes: Sequence[Envelope]) -> None:
        """Send all, in order."""

    async def receive_many(self) -> list[Envelope]:
        """Wait for at least one envelope."""

    def receive_nowait(self) -> list[Envelope]:
        """Take the envelopes that are there."""


async def run_aggregator(
    charter: Charter, link: Channel, *, streams: Streams, identity: Identity | None = None
) -> Machine:
    """Run the aggregator over its link until its role ends; ``result`` is the published message."""
    return await run_machine(aggregator(charter, streams=streams, identity=identity), link)


def aggregator(charter: Charter, *, streams: Streams, identity: Identity | None = None) -> Machine:
    """The aggregator's machine, not started."""
    stream = streams.stream(AGGREGATOR, ROLE_STREAM)
    return Machine(charter, AGGREGATOR, stream, identity=identity)


Outside = Callable[[Gather], Awaitable[Message | None]]
"""Makes the message that a role asks for from outside the session (``Machine.asks``), or None."""


async def run_machine(
    machine: Machine,
    link: Channel,
    *,
    unsaid: Sequence[Envelope] | None = None,
    outside: Outside | None = None,
) -> Machine:
    """Start, send, wait until the deadline, deliver, repeat, until the role or its link ends.

    Args:
        unsaid: envelopes of a machine that was started before, still to be sent.
        outside: makes the messages that the role asks for from outside the session; None without.
    """
    try:
        if unsaid is None:
            machine.start(trio.current_time())
        else:
            await _say(machine, link, unsaid)
        await _speak(machine, link)
        while not machine.finished:
            asked = machine.asks
            # Awaited right here: thousands of parties wait at a time.
            if asked is not None:
                told = None if outside is None else await outside(asked)
                machine.tell(told, trio.current_time())
            elif machine.deadline is None:
                _hear(machine, await link.receive_many())
            else:
                _hear(machine, await _receive_until(machine.deadline, link))
                # Nothing has come meanwhile. After the machine has sent something, much may have.
                if not await _speak(machine, link):
                    machine.expire(trio.current_time())
            await _speak(machine, link)
    except trio.EndOfChannel:
        machine.abandon("its link has ended")
    except trio.BrokenResourceError as broken:
        machine.abandon(f"its link broke: {broken}")
    return machine


def _hear(machine: Machine, received: Sequence[Envelope]) -> None:
    now = trio.current_time()
    for envelope in received:
        machine.receive(envelope, now)


async def _receive_until(deadline: float, link: Channel) -> list[Envelope]:
    received: list[Envelope] = []
    with trio.move_on_at(deadline):
        received = await link.receive_many()
    # Envelopes that have come count, even if they were not read yet.
    return received or link.receive_nowait()


async def _speak(machine: Machine, link: Channel) -> bool:
    """Send what the machine has to send; False if there was nothing."""
    spoke = False
    while outbox := machine.take():
        await _say(machine, link, outbox)
        spoke = True
    return spoke


async def _say(machine: Machine, link: Channel, outbox: Sequence[Envelope]) -> None:
    sent = link.send_nowait(outbox)
    if sent < len(outbox):
        await _speak_and_listen(machine, link, outbox[sent:])


async def _speak_and_listen(machine: Machine, link: Channel, outbox: Sequence[Envelope]) -> None:
    """Write envelopes that wait for room, and read meanwhile.

    Otherwise two members that write to each other would wait for ever. No wait of the machine
    expires meanwhile: until all is read, anybody may have answered in time.
    """
    async with trio.open_nursery() as nursery:

        async def listen() -> None:
            try:
                while True:
                    _hear(machine, await link.receive_many())
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
