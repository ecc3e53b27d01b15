"""The hub's end of shards: many parties over one connection, without a task for each.

Each envelope is relayed as if it had come over its party's own link. A sender to a member without
room waits alone: others of its shard do not.
"""

from __future__ import annotations

import os
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import trio

from protocol.errors import RemoteProtocolError
from protocol.messages import LINK_CLOSED, Envelope, PartyId
from protocol.session.exchange import Delivery
from protocol.wire.codec import decode_envelope, encode_envelope
from transports import handshake
from transports.connection import Connection
from transports.listening import Caller, ListeningHub, Secured, first_end, listen
from transports.mailbox import Mailbox
from transports.shards.shard import (
    ALL,
    COUNT_BYTES,
    PLACE_BYTES,
    VERSION,
    Admitted,
    Shard,
    challenge,
    check_proof,
    read_place,
)
from transports.switch import Switch
from transports.tls import check_peer


class ShardHub(ListeningHub):
    """The aggregator's side: a switch that parties reach through their workers' connections.

    Use it in ``async with open_shards(switch, shards) as (hub, port)``.

    Args:
        shards: parties of each worker. Each worker connects once.
    """

    def __init__(
        self, switch: Switch, shards: Sequence[Shard], *, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(switch, tls=tls)
        self._callers = {shard.name: _Worker(switch, shard) for shard in shards}

    def lose(self, shard: Shard, reason: str) -> None:
        """Detach a lost worker, and its parties that have not ended."""
        self._callers[shard.name].leave(reason)

    def dismiss(self) -> None:
        """Tell the workers that the survey is over, whatever their parties wait for."""
        for caller in self._callers.values():
            caller.dismiss()

    async def _identify(self, connection: Connection, secured: Secured | None) -> Caller:
        hello = handshake.decode(handshake.Hello, await connection.receive())
        charter = self._switch.exchange.charter
        handshake.check_hello(hello, charter.survey_id, VERSION)
        caller = self._callers.get(hello.party)
        if caller is None:
            raise RemoteProtocolError(f"{hello.party!r:.80} is not a worker", field="party")
        if secured is not None:
            check_peer(secured, hello.party)
        nonce = os.urandom(handshake.NONCE_BYTES)
        challenged = challenge(caller.shard.key, hello, charter.attempt, nonce)
        await connection.send([handshake.encode(challenged)])
        proof = handshake.decode(handshake.Proof, await connection.receive())
        check_proof(caller.shard.key, hello, charter.attempt, nonce, proof)
        return caller


class _Member:
    """A party of a shard, at the hub's end.

    Args:
        ready: queue of members with something to be written.

    Attributes:
        name: the party.
        prefix: the party's place, as the start of a frame.
        port: deliveries for the party; None if it left before its worker connected.
        room: number of envelopes that may be written before the party confirms reading.
        owed: number of its relayed envelopes that were not confirmed to it.
        parked: its envelopes that wait for another member's room, in order.
    """

    __slots__ = ("_ready", "name", "owed", "parked", "port", "prefix", "room")

    def __init__(
        self, name: PartyId, place: int, room: int, ready: Mailbox[_Member | None]
    ) -> None:
        self._ready = ready
        self.name = name
        self.prefix = place.to_bytes(PLACE_BYTES, "big")
        self.port: Mailbox[Delivery] | None = None
        self.room = room
        self.owed = 0
        self.parked: deque[bytes] | None = None

    def is_ready(self) -> None:
        """Queue this member for writing."""
        self._ready.put(self)


class _Worker(Caller):
    """The hub's end of a shard's connection."""

    patient = True  # It computes for many parties before it reads on.

    def __init__(self, switch: Switch, shard: Shard) -> None:
        self.shard = shard
        self._switch = switch
        self._room = switch.limits.mailbox
        self._enough = max(1, self._room // 2)
        self._members: dict[int, _Member] = {}
        self._entered = False
        # Members with something to write; None to end.
        self._ready: Mailbox[_Member | None] = Mailbox(0)
        self._waiting: trio.Nursery
        self._parked = 0
        self._unparked = trio.lowlevel.ParkingLot()

    def enter(self) -> tuple[bytes, int]:
        if self._entered:
            raise RemoteProtocolError(f"{self.shard.name!r} has come already", field="party")
        self._entered = True
        charter = self._switch.exchange.charter
        departed = self._switch.exchange.departed
        for place in range(self.shard.first, self.shard.last + 1):
            name = charter.roster.members[place][0]
            member = self._members[place] = _Member(name, place, self._room, self._ready)
            if name in departed:
                member.is_ready()
                continue
            member.port = self._switch.attach(name)
            member.port.watcher = member.is_ready
            if len(member.port):
                member.is_ready()
        return handshake.encode(Admitted(self._room)), PLACE_BYTES + charter.codec.max_envelope

    def leave(self, reason: str) -> None:
        roster = self._switch.exchange.charter.roster
        names = [roster.members[i][0] for i in range(self.shard.first, self.shard.last + 1)]
        if self._entered:
            names = [member.name for member in self._members.values()]
        self._entered = True
        for member in self._members.values():
            if member.port is not None:
                member.port.watcher = None
        self._members.clear()
        for name in names:
            self._switch.detach(name, reason)

    def dismiss(self) -> None:
        """Tell the worker that the survey is over."""
        self._ready.put(None)

    async def carry(self, connection: Connection) -> None:
        async with trio.open_nursery() as self._waiting:
            why = await first_end(
                lambda: self._incoming(connection), lambda: self._outgoing(connection)
            )
            self._waiting.cancel_scope.cancel()
        lost = f"{self.shard.lost}: {why}"
        self.leave(LINK_CLOSED if why is None else lost)
        await connection.aclose()

    async def _incoming(self, connection: Connection) -> None:
        try:
            while True:
                while not len(connection):
                    await connection.fill()
                for payload in connection.take():
                    if payload == ALL:
                        while self._parked:
                            await self._unparked.park()
                        return
                    self._take(payload)
        except RemoteProtocolError as error:
            reason = f"{self.shard.name}: {error}"
            self._switch.exchange.refuse("", reason, now=self._switch.now)
            raise

    def _take(self, payload: bytes) -> None:
        place = read_place(payload)
        member = self._members.get(place)
        if member is None:
            if not self.shard.first <= place <= self.shard.last:
                raise RemoteProtocolError(f"{place} is not of this shard", field="place")
            return  # Its link has ended meanwhile.
        content = payload[PLACE_BYTES:]
        if len(content) == COUNT_BYTES:
            member.room = min(self._room, member.room + int.from_bytes(content, "big"))
            member.is_ready()
        elif member.parked is not None:
            if len(member.parked) > self._room:
                raise RemoteProtocolError("more envelopes than there is room for", field="place")
            member.parked.append(content)
        elif not content:
            self._end(place, member, LINK_CLOSED)
        else:
            self._relay(member, content)

    def _relay(self, member: _Member, content: bytes) -> None:
        switch = self._switch
        envelope = self._open(member, content)
        if envelope is None:
            return
        try:
            relayed = switch.relay_nowait(member.name, (envelope,), (content,))
        except (RemoteProtocolError, trio.BrokenResourceError):
            return  # It is detached.
        if relayed:
            self._count_relayed(member)
        else:
            member.parked = deque()
            self._parked += 1
            self._waiting.start_soon(self._relay_in_time, member, envelope, content)

    async def _relay_in_time(
        self, member: _Member, envelope: Envelope | None, content: bytes
    ) -> None:
        """Relay an envelope that has to wait for room, and all that its sender sends meanwhile."""
        parked = member.parked
        assert parked is not None
        try:
            while envelope is not None:
                await self._switch.relay(member.name, (envelope,), (content,))
                self._count_relayed(member)
                if not parked:
                    break
                content = parked.popleft()
                if not content:
                    self._end(int.from_bytes(member.prefix, "big"), member, LINK_CLOSED)
                    break
                envelope = self._open(member, content)
        except (RemoteProtocolError, trio.BrokenResourceError):
            pass  # It is detached.
        member.parked = None
        self._parked -= 1
        self._unparked.unpark_all()

    def _open(self, member: _Member, content: bytes) -> Envelope | None:
        try:
            return decode_envelope(content)
        except RemoteProtocolError as error:
            self._switch.exchange.refuse(member.name, str(error), now=self._switch.now)
            self._switch.detach(member.name, f"refused: {error}")
            return None

    def _count_relayed(self, member: _Member) -> None:
        member.owed += 1
        if member.owed >= self._enough:
            member.is_ready()

    def _end(self, place: int, member: _Member, reason: str) -> None:
        """Handle a member's goodbye."""
        self._members.pop(place, None)
        if member.port is not None:
            member.port.watcher = None
        self._switch.detach(member.name, reason)

    async def _outgoing(self, connection: Connection) -> None:
        most, ready = self._switch.limits.write, self._ready
        while True:
            await ready.wait()
            payloads: list[bytes] = []
            size = 0

            def enough(member: _Member | None, payloads: list[bytes] = payloads) -> bool:
                nonlocal size
                if member is None:
                    payloads.append(ALL)
                else:
                    size += self._write(member, payloads, most)
                return size >= most

            ready.take_until(enough)
            if payloads:
                await connection.send(payloads)

    def _write(self, member: _Member, payloads: list[bytes], most: int) -> int:
        """Append a member's pending payloads; return their size in bytes."""
        size, prefix, port = 0, member.prefix, member.port
        if member.owed >= self._enough:
            payloads.append(prefix + member.owed.to_bytes(COUNT_BYTES, "big"))
            member.owed = 0
        if port is None or port.closed:
            if self._members.pop(int.from_bytes(prefix, "big"), None) is not None:
                payloads.append(prefix)
            return size
        if not member.room or not len(port):
            return size

        def enough(delivery: Delivery) -> bool:
            nonlocal size
            payload = prefix + (delivery.encoded or encode_envelope(delivery.envelope))
            payloads.append(payload)
            size += len(payload)
            member.room -= 1
            return size >= most or not member.room

        # Recorded as delivered before it is written: an answer must not precede its cause.
        self._switch.taken(port.take_until(enough))
        if member.room and len(port):
            member.is_ready()
        return size


@asynccontextmanager
async def open_shards(
    switch: Switch,
    shards: Sequence[Shard],
    *,
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[tuple[ShardHub, int]]:
    """Run a switch and let workers connect to it, at a port that the system chooses.

    Args:
        tls: for TLS, a context of ``transports.tls.server_context``.

    Yields:
        The hub and the port it listens at.

    Raises:
        OSError: the address cannot be listened at.
    """
    hub = ShardHub(switch, shards, tls=tls)
    async with listen(hub, switch.run, host=host, port=0) as opened:
        yield opened
