"""Attempts with a restored record: parties that may hold receipts are never left out silently."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import trio

from parties.actor import Channel
from protocol.messages import RECORD, Closed, Envelope, PartyId
from protocol.session.closings import leaves_out
from protocol.session.machine import Machine
from transports.lasting.hub import LastingHub
from transports.switch import Switch

NOT_BACK = "did not come back after the record was restored"
"""The reason for the departure of a party that may hold a receipt which a restored record lacks."""

GoOnWithout = Callable[[Sequence[PartyId], float], object]
"""Has the record say that it goes on without parties, at so many seconds since the start, or raises
``UsageError``."""


async def await_all(
    switch: Switch, hub: LastingHub, machine: Machine, go_on_without: GoOnWithout, within: float
) -> None:
    """Wait for all parties to show their checkpoints before anything else is asked.

    The open wait begins again, so that parties can repeat what the record lacks.

    Args:
        machine: the aggregator's.
        within: for how many seconds.

    Raises:
        UsageError: a party has not come, and ``go_on_without`` refuses.
    """
    missing = await hub.returned(within)
    if missing:
        go_on_without(missing, switch.now)
        hub.dismiss(missing, NOT_BACK)
    patience = switch.exchange.charter.variant.patience
    machine.prolong(trio.current_time() + (within if patience is None else patience))


class Owing:
    """The aggregator's link of a restored record, which leaves out no party that it owes.

    It owes a place in the record to parties that hold receipts of missing messages.

    Args:
        link: the aggregator's own.
        switch: relays what it says.
        hub: knows who is owed something.
        go_on_without: called with parties that would be left out.
    """

    def __init__(
        self, link: Channel, switch: Switch, hub: LastingHub, go_on_without: GoOnWithout
    ) -> None:
        self._link = link
        self._switch = switch
        self._hub = hub
        self._go_on_without = go_on_without

    def send_nowait(self, envelopes: Sequence[Envelope]) -> int:
        """Send without waiting; return the number of sent envelopes.

        Raises:
            UsageError: a party would be left out.
        """
        self._check(envelopes)
        return self._link.send_nowait(envelopes)

    async def send_many(self, envelopes: Sequence[Envelope]) -> None:
        """Send all, in order; raises as ``send_nowait``."""
        self._check(envelopes)
        await self._link.send_many(envelopes)

    async def receive_many(self) -> list[Envelope]:
        """Wait for at least one envelope."""
        return await self._link.receive_many()

    def receive_nowait(self) -> list[Envelope]:
        """Envelopes that have arrived."""
        return self._link.receive_nowait()

    def _check(self, envelopes: Sequence[Envelope]) -> None:
        exchange = self._switch.exchange
        roster, codec = exchange.charter.roster, exchange.charter.codec
        for envelope in envelopes:
            if envelope.recipient != RECORD:
                continue
            owed = self._hub.owed
            missed = {name for name in owed if name in exchange.departed}
            message = codec.decode(envelope.kind, envelope.body)
            if isinstance(message, Closed):
                places = ((name, roster.position[name]) for name in owed)
                missed |= {
                    name
                    for name, place in places
                    if leaves_out(message, place, members=len(roster))
                }
            if missed:
                self._go_on_without(sorted(missed), self._switch.now)
                self._hub.write_off(missed)
