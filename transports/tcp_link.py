"""A party's end of a TCP or TLS connection, once the switch has let it in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import trio

from protocol.errors import RemoteProtocolError
from protocol.messages import Envelope, PartyId
from protocol.wire.codec import decode_envelopes, encode_envelope
from transports.base import Limits, Link
from transports.connection import Connection

GOODBYE = b""
"""The last frame of a party: it has nothing more to say."""


class TcpLink(Link):
    """A party's end of a connection that was welcome."""

    def __init__(self, connection: Connection, member: PartyId, limits: Limits) -> None:
        self._connection = connection
        self._member = member
        self._limits = limits
        self._sending = trio.Lock()
        self._closed = False

    def __repr__(self) -> str:
        return f"TcpLink({self._member!r})"

    def send_nowait(self, envelopes: Sequence[Envelope]) -> int:
        self._check()
        return 0

    async def send_many(self, envelopes: Sequence[Envelope]) -> None:
        self._check()
        try:
            # Without a checkpoint, as the write has one.
            self._sending.acquire_nowait()
        except trio.WouldBlock:
            await self._sending.acquire()
        try:
            for payloads in _pieces(envelopes, self._limits.write):
                self._check()
                await self._connection.send(payloads)
        finally:
            self._sending.release()

    async def receive(self) -> Envelope:
        await self._wait()
        return _open([await self._connection.receive()])[0]

    async def receive_many(self) -> list[Envelope]:
        await self._wait()
        return self.receive_nowait()

    def receive_nowait(self) -> list[Envelope]:
        self._check()
        return _open(self._connection.take())

    async def aclose(self) -> None:
        """Say goodbye, and wait until the switch has read it.

        Closing at once could lose what was sent.
        """
        if self._closed:
            await trio.lowlevel.checkpoint()
            return
        self._closed = True
        try:
            with trio.move_on_after(self._limits.goodbye):
                async with self._sending:
                    await self._connection.send([GOODBYE])
                await self._connection.drain()
        except (trio.EndOfChannel, trio.BrokenResourceError, RemoteProtocolError):
            pass
        finally:
            await self._connection.aclose()

    async def _wait(self) -> None:
        self._check()
        connection = self._connection
        if len(connection):
            await trio.lowlevel.checkpoint()
        try:
            while not len(connection):
                await connection.fill()
        except RemoteProtocolError as error:
            raise trio.BrokenResourceError(f"the switch sent a malformed frame: {error}") from error
        except (trio.EndOfChannel, trio.BrokenResourceError):
            self._check()
            raise
        self._check()

    def _check(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError(f"the link of {self._member!r} is closed")


def _pieces(envelopes: Iterable[Envelope], most: int) -> Iterator[list[bytes]]:
    """Encodings in lists of little more than ``most`` bytes."""
    payloads: list[bytes] = []
    size = 0
    for envelope in envelopes:
        payload = encode_envelope(envelope)
        payloads.append(payload)
        size += len(payload)
        if size >= most:
            yield payloads
            payloads, size = [], 0
    if payloads:
        yield payloads


def _open(payloads: list[bytes]) -> list[Envelope]:
    envelopes, error = decode_envelopes(payloads)
    if error is not None:
        raise trio.BrokenResourceError(f"the switch sent a malformed envelope: {error}") from error
    return envelopes
