"""The worker's end of a shard: a link for each of its parties, over one connection to the hub."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import trio

from protocol.errors import RemoteProtocolError
from protocol.messages import Envelope, PartyId
from protocol.session.charter import Charter
from protocol.wire.codec import decode_envelopes, encode_envelope
from transports import handshake
from transports.background import running
from transports.base import Limits, Link
from transports.connection import Connection
from transports.dialing import dial, say
from transports.mailbox import Mailbox, MailboxLink
from transports.shards.shard import (
    ALL,
    COUNT_BYTES,
    PLACE_BYTES,
    VERSION,
    Admitted,
    Shard,
    prove,
    read_place,
)

WAITING_BYTES = 64 * 1024 * 1024
"""Bytes that may wait to be written before all parties of a shard wait."""

_ENDS = (trio.BrokenResourceError, trio.EndOfChannel)


class ShardLink(MailboxLink[bytes]):
    """The link of one party of a shard."""

    def __init__(self, shard: WorkerShard, member: PartyId, place: int, room: int) -> None:
        super().__init__(member, Mailbox(0))
        self.given = False
        self._shard = shard
        self._prefix = place.to_bytes(PLACE_BYTES, "big")
        self._room = room
        self._enough = max(1, room // 2)
        self._read = 0
        self._writers: trio.lowlevel.ParkingLot | None = None

    def send_nowait(self, envelopes: Sequence[Envelope]) -> int:
        self._check()
        if self.mail.closed:
            raise trio.BrokenResourceError(f"the link of {self._member!r} has ended")
        if self._shard.choked:
            return 0
        sent = min(self._room, len(envelopes))
        self._room -= sent
        for envelope in envelopes[:sent]:
            self._shard.say(self._prefix + encode_envelope(envelope))
        return sent

    async def send_many(self, envelopes: Sequence[Envelope]) -> None:
        self._check()
        await trio.lowlevel.checkpoint()
        while True:
            envelopes = envelopes[self.send_nowait(envelopes) :]
            if not envelopes:
                return
            if self._room:
                self._shard.choked_links.append(self)
            if self._writers is None:
                self._writers = trio.lowlevel.ParkingLot()
            await self._writers.park()

    def close(self) -> None:
        """Say goodbye, after everything sent."""
        if not self._closed:
            self._closed = True
            if not self.mail.closed:
                self._shard.say(self._prefix)
            self.mail.close()
            self.wake()

    def more_room(self, count: int) -> None:
        """Note that the hub has relayed so many envelopes."""
        self._room += count
        self.wake()

    def end(self) -> None:
        """Note that the hub has ended this link; arrived envelopes can still be read."""
        self.mail.end()
        self.wake()

    def wake(self) -> None:
        """Wake waiting senders."""
        if self._writers:
            self._writers.unpark_all()

    def _take(self, most: int | None) -> list[Envelope]:
        taken = self.mail.take_nowait(most)
        self._read += len(taken)
        if self._read >= self._enough and not self.mail.closed:
            self._shard.say(self._prefix + self._read.to_bytes(COUNT_BYTES, "big"))
            self._read = 0
        envelopes, error = decode_envelopes(taken)
        if error is not None:
            raise trio.BrokenResourceError(f"the hub sent a malformed envelope: {error}") from error
        return envelopes


class WorkerShard:
    """Hub that the parties of a shard connect to, in their worker.

    Use it in ``async with connect_shard(...) as shard``.

    Attributes:
        dismissed: set when the hub has said that the survey is over, or the connection has ended.
        choked_links: links to wake when less waits to be written.
    """

    def __init__(
        self, connection: Connection, charter: Charter, shard: Shard, room: int, limits: Limits
    ) -> None:
        self.dismissed = trio.Event()
        self.choked_links: list[ShardLink] = []
        self._over = trio.Event()
        self._connection = connection
        self._charter = charter
        self._shard = shard
        self._room = room
        self._limits = limits
        self._links: dict[int, ShardLink] = {}
        self._out: Mailbox[bytes] = Mailbox(0)
        self._waiting_bytes = 0

    @property
    def choked(self) -> bool:
        """True if too much waits to be written."""
        return self._waiting_bytes >= WAITING_BYTES

    def connect(self, member: PartyId) -> Link:
        """A party's link, to be used in an ``async with`` block, which closes it."""
        place = self._charter.roster.position.get(member, 0)
        if not self._shard.first <= place <= self._shard.last:
            raise ConnectionError(f"{member!r} is not of this shard")
        link = self._link(place)
        if link.given or link.mail.closed:
            raise ConnectionError(
                f"{member!r} is connected already" if link.given else f"{member!r} is gone"
            )
        link.given = True
        return link

    def say(self, payload: bytes) -> None:
        """Queue a frame."""
        self._waiting_bytes += len(payload)
        self._out.put(payload)

    async def read(self) -> None:
        """Distribute incoming frames until the connection ends."""
        try:
            while True:
                while not len(self._connection):
                    await self._connection.fill()
                for payload in self._connection.take():
                    self._hand_out(payload)
        except (*_ENDS, RemoteProtocolError):
            self._end()

    async def write(self) -> None:
        """Write queued frames until the connection ends."""
        most = self._limits.write
        try:
            while True:
                await self._out.wait()
                size = 0

                def enough(payload: bytes) -> bool:
                    nonlocal size
                    size += len(payload)
                    return size >= most

                choked = self.choked
                payloads = self._out.take_until(enough)
                await self._connection.send(payloads)
                self._waiting_bytes -= size
                if choked and not self.choked:
                    woken, self.choked_links = self.choked_links, []
                    for link in woken:
                        link.wake()
        except _ENDS:
            self._end()

    async def take_leave(self) -> None:
        """Write everything, say goodbye, and wait until the hub has read it."""
        self.say(ALL)
        await self._over.wait()

    def _link(self, place: int) -> ShardLink:
        link = self._links.get(place)
        if link is None:
            member = self._charter.roster.members[place][0]
            link = self._links[place] = ShardLink(self, member, place, self._room)
            if self._over.is_set():
                link.end()
        return link

    def _hand_out(self, payload: bytes) -> None:
        place = read_place(payload)
        if payload == ALL:
            self.dismissed.set()
            return
        if not self._shard.first <= place <= self._shard.last:
            raise RemoteProtocolError(f"{place} is not of this shard", field="place")
        link, content = self._link(place), payload[PLACE_BYTES:]
        if len(content) == COUNT_BYTES:
            link.more_room(int.from_bytes(content, "big"))
        elif content:
            link.mail.put(content)
        else:
            link.end()

    def _end(self) -> None:
        self._over.set()
        for link in self._links.values():
            link.end()
        self.dismissed.set()


@asynccontextmanager
async def connect_shard(
    host: str,
    port: int,
    *,
    charter: Charter,
    shard: Shard,
    tls: ssl.SSLContext | None = None,
    limits: Limits | None = None,
) -> AsyncGenerator[WorkerShard]:
    """A worker's connection to the hub, for the parties of its shard.

    Args:
        tls: for TLS, a context of ``transports.tls.client_context``.

    Raises:
        ConnectionError: as ``dial``.
    """
    limits = limits or Limits()

    async def enter(connection: Connection) -> int:
        nonce = os.urandom(handshake.NONCE_BYTES)
        hello = handshake.Hello(VERSION, charter.survey_id, shard.name, nonce)
        await say(connection, hello)
        challenged = handshake.decode(handshake.Challenge, await connection.receive())
        await say(connection, prove(shard.key, hello, challenged))
        admitted = handshake.decode(Admitted, await connection.receive())
        connection.raise_cap(PLACE_BYTES + charter.codec.max_envelope)
        return admitted.room

    connection, room = await dial(host, port, enter, tls=tls, limits=limits)
    worker = WorkerShard(connection, charter, shard, room, limits)
    try:
        async with running(worker.read, worker.write):
            yield worker
            await worker.take_leave()
    finally:
        await connection.aclose()
