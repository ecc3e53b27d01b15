"""The switch: gives the rules of an exchange a life in time. One mailbox per connected member."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence

import trio

from protocol.errors import RemoteProtocolError
from protocol.messages import AGGREGATOR, NEVER_CAME, Envelope, PartyId
from protocol.session.exchange import Delivery, Exchange
from transports.base import Limits
from transports.mailbox import Mailbox


class Switch:
    """Relays envelopes between members.

    Times given to the exchange count from the beginning of the run.

    Args:
        exchange: the rules, the record and the fates.
        limits: limits on members.
        passed: seconds of the run that have passed.
        grain: times are rounded up to multiples of so many seconds, if it is not 0: whoever knows
            when somebody has connected cannot tell by the record which entries are theirs.
    """

    def __init__(
        self,
        exchange: Exchange,
        limits: Limits | None = None,
        *,
        passed: float = 0.0,
        grain: float = 0.0,
    ) -> None:
        self.exchange = exchange
        self.limits = limits or Limits()
        self._ports: dict[PartyId, Mailbox[Delivery]] = {}
        self._expected: dict[PartyId, Mailbox[Delivery]] = {}
        self._clock = trio.lowlevel.current_clock().current_time
        self._start = self._clock() - passed
        self._grain = grain
        self._delayed: list[tuple[float, int, Delivery]] = []
        self._order = 0
        self._wake = trio.Event()
        self._missing: set[PartyId] = set()
        self._all_here = trio.Event()
        self._empty: trio.Event | None = None
        self._allowance = self.limits.envelopes

    @property
    def now(self) -> float:
        """Seconds since the run has begun."""
        passed = self._clock() - self._start
        return passed if not self._grain else math.ceil(passed / self._grain) * self._grain

    @property
    def connected(self) -> int:
        """Number of parties that have a connection."""
        return len(self._ports) - (AGGREGATOR in self._ports)

    def attach(self, member: PartyId) -> Mailbox[Delivery]:
        """Connect a member; return its mailbox with everything that waits for it.

        Raises:
            RemoteProtocolError: unknown, connected already, or gone.
        """
        self.exchange.attach(member)
        port = self._expected.pop(member, None)
        if port is None:
            port = self._mailbox(member)
        self._ports[member] = port
        self._came(member)
        return port

    def detach(self, member: PartyId, reason: str) -> None:
        """Remove a member: the others are notified, and its unread mail is dropped."""
        port = self._ports.pop(member, None)
        early = self._expected.pop(member, None)
        if early is not None:
            early.close()
        if port is not None:
            port.close()
            self._tell_emptied()
        now = self.now
        for notice in self.exchange.leave(member, reason, now=now):
            self._dispatch((notice,), now)
        self._came(member)

    def lose(self, member: PartyId) -> None:
        """Note a lost connection; the member may reconnect, and its mail waits."""
        self._expected[member] = self._ports.pop(member)
        self._tell_emptied()

    def rejoin(self, member: PartyId) -> None:
        """A member that was lost is back."""
        self._ports[member] = self._expected.pop(member)
        self._came(member)

    async def joined(
        self, members: Iterable[PartyId], *, within: float, reason: str = NEVER_CAME
    ) -> None:
        """Wait until all are connected; detach the others then, with this reason."""
        self._missing = set(members) - self._ports.keys() - self.exchange.departed.keys()
        self._all_here = trio.Event()
        if self._missing:
            with trio.move_on_after(within):
                await self._all_here.wait()
        for member in sorted(self._missing):
            self.detach(member, reason)

    def end_joining(self) -> None:
        """End ``joined`` at once, without members that are not connected."""
        self._all_here.set()

    def hand_again(self, waiting: Iterable[Envelope]) -> None:
        """Resume a run with envelopes that were sent and not delivered; notices follow them."""
        now = self.now
        for envelope in waiting:
            self._dispatch((Delivery(envelope),), now)
        for notice in self.exchange.reminders():
            self._dispatch((notice,), now)

    async def emptied(self) -> None:
        """Wait until nobody is connected."""
        while self._ports:
            self._empty = trio.Event()
            await self._empty.wait()

    def relay_nowait(
        self, member: PartyId, envelopes: Sequence[Envelope], encoded: Sequence[bytes] | None = None
    ) -> int:
        """Relay envelopes, in order, until there is no room for one in its recipient's mailbox.

        Args:
            encoded: their encodings, if they are at hand.

        Returns:
            How many were relayed.

        Raises:
            RemoteProtocolError: one was refused; the member's link has ended.
            trio.BrokenResourceError: the member's link has ended.
        """
        relayed = 0
        while relayed < len(envelopes):
            if member not in self._ports:
                raise trio.BrokenResourceError(f"the link of {member!r} has ended")
            first = envelopes[relayed]
            port = self._ports.get(first.recipient)
            if port is None:
                port = self._find_port(first.recipient)
            space = self.limits.mailbox if port is None else port.space
            if space <= 0:
                break
            now = self.now
            try:
                if member != AGGREGATOR:
                    # Envelopes taken together have consecutive numbers.
                    space = min(space, self._allowance - first.seq)
                if space <= 0:
                    reason = f"more than {self._allowance} envelopes of one party"
                    self.exchange.refuse(member, reason, now=now)
                    raise RemoteProtocolError(reason)
                ruling = self.exchange.accept(
                    member, envelopes, now=now, encoded=encoded, start=relayed, most=space
                )
            except RemoteProtocolError as refusal:
                self.detach(member, f"refused: {refusal}")
                raise
            deliveries = ruling.deliveries
            if deliveries:
                # In most cases there is nothing to sort, and the mailbox exists.
                due = deliveries[0].due <= now and not self._delayed
                if due and port is not None and deliveries[0].envelope is first:
                    port.put(*deliveries)
                else:
                    self._dispatch(deliveries, now)
            if ruling.ends is not None:
                self.detach(member, ruling.ends)
                raise trio.BrokenResourceError(f"the link of {member!r} has ended: {ruling.ends}")
            relayed += ruling.taken
        return relayed

    async def relay(
        self, member: PartyId, envelopes: Sequence[Envelope], encoded: Sequence[bytes] | None = None
    ) -> None:
        """Relay envelopes, waiting for room. A member that makes no room for too long is cut off.

        Args:
            encoded: their encodings, if they are at hand.

        Raises:
            RemoteProtocolError, trio.BrokenResourceError: as ``relay_nowait``.
        """
        waited: Mailbox[Delivery] | None = None
        try:
            while (relayed := self.relay_nowait(member, envelopes, encoded)) < len(envelopes):
                envelopes = envelopes[relayed:]
                encoded = None if encoded is None else encoded[relayed:]
                reluctant = envelopes[0].recipient
                waited = self._find_port(reluctant)
                if waited is None:
                    continue
                # The aggregator's backlog is load, not ill will, and who has not come is not to
                # blame either (``joined`` ends the wait): neither is cut off for it.
                patient = reluctant == AGGREGATOR or reluctant not in self._ports
                patience = float("inf") if patient else self.limits.stall
                takes = waited.takes
                with trio.move_on_after(patience) as scope:
                    await waited.room()
                still = waited.takes == takes and self._ports.get(reluctant) is waited
                if scope.cancelled_caught and still:
                    self.detach(reluctant, "does not read its mail")
        finally:
            # The relayed envelopes may not have used the room.
            if waited is not None:
                waited.pass_on()

    def has_room(self, member: PartyId) -> bool:
        """Return whether a member's mailbox takes an envelope now, or drops it."""
        port = self._find_port(member)
        return port is None or not port.full

    def taken(self, deliveries: Iterable[Delivery]) -> None:
        """Record that these have been handed to their recipient's link."""
        self.exchange.delivered(deliveries, now=self.now)

    async def run(self) -> None:
        """Deliver delayed envelopes when they are due, until cancelled."""
        while True:
            self._deliver_due(self.now)
            self._wake = trio.Event()
            due = self._delayed[0][0] + self._start if self._delayed else float("inf")
            with trio.move_on_at(due):
                await self._wake.wait()

    def _mailbox(self, member: PartyId) -> Mailbox[Delivery]:
        capacity = self.limits.mailbox
        if member == AGGREGATOR:
            # Everybody may answer at once, and leave.
            capacity = max(capacity, 2 * len(self.exchange.charter.roster))
        return Mailbox(capacity)

    def _find_port(self, member: PartyId) -> Mailbox[Delivery] | None:
        """A member's mailbox, created before the member arrives; None once it is gone."""
        port = self._ports.get(member)
        if port is not None:
            return port
        port = self._expected.get(member)
        exchange = self.exchange
        if port is None and member in exchange.charter.roster and member not in exchange.departed:
            port = self._expected[member] = self._mailbox(member)
        return port

    def _came(self, member: PartyId) -> None:
        self._missing.discard(member)
        if not self._missing:
            self._all_here.set()

    def _tell_emptied(self) -> None:
        if not self._ports and self._empty is not None:
            self._empty.set()

    def _deliver_due(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now:
            self._put(heapq.heappop(self._delayed)[2:])

    def _dispatch(self, deliveries: Sequence[Delivery], now: float) -> None:
        """Deliver messages to one recipient that are due at the same time."""
        if self._delayed:
            # Due envelopes go first, so that no new one overtakes them.
            self._deliver_due(now)
        if deliveries[0].due <= now:
            self._put(deliveries)
            return
        for delivery in deliveries:
            self._order += 1
            heapq.heappush(self._delayed, (delivery.due, self._order, delivery))
        self._wake.set()

    def _put(self, deliveries: Sequence[Delivery]) -> None:
        port = self._find_port(deliveries[0].envelope.recipient)
        if port is not None:
            port.put(*deliveries)
