"""The local executor: all machines of a session in one loop, in simulated time."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Protocol

from protocol.accounting.spending import DELTA
from protocol.crypto.randomness import Streams
from protocol.errors import RemoteProtocolError
from protocol.messages import (
    AGGREGATOR,
    LINK_CLOSED,
    NEVER_CAME,
    ROLE_STREAM,
    Envelope,
    Message,
    PartyId,
)
from protocol.session.exchange import Delivery, Exchange
from protocol.session.machine import Machine
from protocol.session.roles import Gather
from protocol.session.roster import Identity
from protocol.session.run import Ended, Run, finished_run, machine_ending
from protocol.surveys.records import Records


def run_locally(
    exchange: Exchange,
    streams: Streams,
    holdings: Mapping[PartyId, Records],
    *,
    identities: Mapping[PartyId, Identity] | None = None,
    budget: float | None = None,
    honest: int = 0,
    delta: float = DELTA,
    endings: MutableMapping[PartyId, str] | None = None,
    outside: Outside | None = None,
) -> Run:
    """Run a whole session.

    Envelopes are delivered in the order they were sent; when nothing can be delivered, time jumps
    to the next delayed delivery or the earliest deadline. Parties without records never come.

    Args:
        budget, honest, delta: for each party, as for ``Machine``.
        endings: takes the ending of each party, even if the run fails.
        outside: makes the messages that the aggregator's role asks for from outside the session;
            None without.

    Raises:
        ProtocolError: the aggregator's role failed, or all members wait for each other.
    """
    charter = exchange.charter
    machines = {
        name: Machine(
            charter,
            name,
            streams.stream(name, ROLE_STREAM),
            records=holdings.get(name),
            identity=(identities or {}).get(name),
            budget=budget,
            honest=honest,
            delta=delta,
        )
        for name, _ in charter.roster.members
        if charter.roster.serves(name) or name in holdings
    }
    return Loop(exchange, machines, outside).run({} if endings is None else endings)


Outside = Callable[[Gather], Message | None]
"""Makes the message that a role asks for (``Machine.asks``), or None."""


class Member(Ended, Protocol):
    """Methods of a member that the loop calls: ``Machine`` has and describes all of them."""

    @property
    def me(self) -> PartyId: ...
    @property
    def finished(self) -> bool: ...
    @property
    def deadline(self) -> float | None: ...
    @property
    def awaited(self) -> Gather | None: ...
    @property
    def asks(self) -> Gather | None: ...

    def tell(self, message: Message | None, now: float) -> None: ...
    def start(self, now: float) -> None: ...
    def take(self) -> list[Envelope]: ...
    def receive(self, envelope: Envelope, now: float) -> None: ...
    def expire(self, now: float) -> None: ...
    def abandon(self, reason: str) -> None: ...


class Loop:
    """Carries the members of a session to their ends.

    Args:
        exchange: the hub, to which nobody is attached yet.
        machines: the machines of members that come, in roster order.
        outside: as for ``run_locally``.
    """

    def __init__(
        self,
        exchange: Exchange,
        machines: Mapping[PartyId, Member],
        outside: Outside | None = None,
    ) -> None:
        self._exchange = exchange
        self._outside = outside
        self._machines = machines
        self._now = 0.0
        self._ready: deque[Delivery] = deque()
        self._delayed: list[tuple[float, int, Delivery]] = []
        self._order = 0

    def run(self, endings: MutableMapping[PartyId, str]) -> Run:
        """Carry all to their ends; ``endings`` and errors are as of ``run_locally``."""
        exchange, machines = self._exchange, self._machines
        for name in machines:
            exchange.attach(name)
        for name in exchange.charter.roster.parties:
            if name not in machines:
                self._queue(exchange.leave(name, NEVER_CAME, now=self._now))
        # The aggregator starts last, as in a session, so nobody misses its first message.
        for name in reversed(list(machines)):
            machines[name].start(self._now)
            self._post(machines[name])
        while True:
            while self._ready:
                self._deliver(self._ready.popleft())
            if not self._advance():
                break
        for machine in machines.values():
            if machine.finished:
                continue
            awaited = machine.awaited
            what = "" if awaited is None else f" (here for {awaited.kind.kind()!r})"
            machine.abandon(f"deadlock: all members wait for each other{what}")
        for name in exchange.charter.roster.others:
            endings[name] = machine_ending(machines[name]) if name in machines else NEVER_CAME
        return finished_run(machines[AGGREGATOR], endings)

    def _advance(self) -> bool:
        """Jump to the next event; False if there is none."""
        waiting = [m for m in self._machines.values() if m.deadline is not None]
        earliest = min((m.deadline for m in waiting if m.deadline is not None), default=None)
        if self._delayed and (earliest is None or self._delayed[0][0] <= earliest):
            self._now = max(self._now, self._delayed[0][0])
            # All that is due goes first: nothing that is sent now may overtake it.
            while self._delayed and self._delayed[0][0] <= self._now:
                self._ready.append(heapq.heappop(self._delayed)[2])
            return True
        if earliest is None:
            return False
        self._now = max(self._now, earliest)
        for machine in waiting:
            machine.expire(self._now)
            self._post(machine)
        return True

    def _deliver(self, delivery: Delivery) -> None:
        recipient = delivery.envelope.recipient
        machine = self._machines[recipient]
        if recipient in self._exchange.departed:
            return
        self._exchange.delivered((delivery,), now=self._now)
        machine.receive(delivery.envelope, self._now)
        self._post(machine)

    def _post(self, machine: Member) -> None:
        """Send what a machine has to send, and note its end."""
        exchange, name = self._exchange, machine.me
        if name in exchange.departed:
            return
        said, taken = machine.take(), 0
        while taken < len(said):
            try:
                ruling = exchange.accept(name, said, now=self._now, start=taken)
            except RemoteProtocolError as refusal:
                self._end(machine, f"refused: {refusal}")
                return
            taken += ruling.taken
            self._queue(ruling.deliveries)
            if ruling.ends is not None:
                self._end(machine, ruling.ends)
                return
        asked = machine.asks
        if asked is not None:
            machine.tell(None if self._outside is None else self._outside(asked), self._now)
            self._post(machine)
            return
        if machine.finished:
            self._queue(exchange.leave(name, LINK_CLOSED, now=self._now))

    def _end(self, machine: Member, reason: str) -> None:
        machine.abandon(f"its link has ended: {reason}")
        self._queue(self._exchange.leave(machine.me, reason, now=self._now))

    def _queue(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            if delivery.due > self._now:
                self._order += 1
                heapq.heappush(self._delayed, (delivery.due, self._order, delivery))
            else:
                self._ready.append(delivery)
