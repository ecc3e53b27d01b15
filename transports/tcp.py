"""TCP and TLS: parties connect to the aggregator's switch, which relays between them.

A connection carries length-prefixed frames: the handshake, then encoded envelopes. Everything that
waits for the other side has a deadline, and everything that comes from it has a cap.
"""

from __future__ import annotations

import os
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

import trio

from protocol.charter import Charter
from protocol.codec import decode_envelope, encode_envelope
from protocol.errors import RemoteProtocolError
from protocol.exchange import Delivery
from protocol.framing import FrameReader, frames
from protocol.local import LINK_CLOSED
from protocol.messages import AGGREGATOR, Envelope, PartyId
from protocol.roster import Identity
from transports import handshake
from transports.base import Limits, Link
from transports.mailbox import Mailbox
from transports.memory import MemoryLink
from transports.switch import Switch
from transports.tls import check_peer

GOODBYE = b""
"""The last frame of a party: it has nothing more to say."""

GOODBYE_SECONDS = 5.0
_CHUNK = 65536
_BATCH = 512

Wire = trio.abc.Stream


class Connection:
    """Frames over a stream, with deadlines."""

    def __init__(self, wire: Wire, *, cap: int, limits: Limits) -> None:
        self.wire = wire
        self._reader = FrameReader(cap)
        self._limits = limits
        self._whole: deque[bytes] = deque()
        self._frame_due = float("inf")

    def raise_cap(self, cap: int) -> None:
        """Allow larger frames from here on."""
        self._reader.cap = cap

    async def send(self, payloads: Iterable[bytes]) -> None:
        """Write frames in one piece.

        Raises:
            trio.BrokenResourceError: the connection broke, or the other side does not read.
        """
        with trio.move_on_after(self._limits.stall) as scope:
            await self.wire.send_all(frames(payloads))
        if scope.cancelled_caught:
            raise trio.BrokenResourceError("the other side does not read")

    async def receive(self) -> bytes:
        """The next frame's payload; a cancelled receive loses nothing."""
        while not self._whole:
            await self._read()
        return self._whole.popleft()

    async def receive_many(self) -> list[bytes]:
        """At least one payload, and all that are there."""
        while not self._whole:
            await self._read()
        return self.receive_nowait()

    def receive_nowait(self) -> list[bytes]:
        """The payloads that are there."""
        payloads = list(self._whole)
        self._whole.clear()
        return payloads

    async def _read(self) -> None:
        now = trio.current_time()
        due = self._frame_due if self._reader.in_frame else now + self._limits.idle
        with trio.move_on_at(due) as scope:
            received = await self.wire.receive_some(_CHUNK)
        if scope.cancelled_caught:
            raise trio.BrokenResourceError("silent for too long")
        if not received:
            if self._reader.in_frame:
                raise trio.BrokenResourceError("ended inside a frame")
            raise trio.EndOfChannel
        was_in_frame = self._reader.in_frame
        whole = self._reader.feed(received)
        self._whole.extend(whole)
        if self._reader.in_frame and (whole or not was_in_frame):
            self._frame_due = trio.current_time() + self._limits.frame

    async def aclose(self) -> None:
        """Close; the other side learns that it was on purpose if it listens soon."""
        with trio.move_on_after(1.0):
            await self.wire.aclose()


class TcpLink(Link):
    """A party's end of a connection that was welcome."""

    def __init__(self, connection: Connection, member: PartyId) -> None:
        self._connection = connection
        self._member = member
        self._sending = trio.Lock()
        self._closed = False

    def __repr__(self) -> str:
        return f"TcpLink({self._member!r})"

    def send_nowait(self, envelopes: Sequence[Envelope]) -> int:
        self._check()
        return 0

    async def send_many(self, envelopes: Sequence[Envelope]) -> None:
        self._check()
        async with self._sending:
            for i in range(0, len(envelopes), _BATCH):
                await self._connection.send(map(encode_envelope, envelopes[i : i + _BATCH]))

    async def receive(self) -> Envelope:
        self._check()
        return self._opened(await self._connection.receive())

    async def receive_many(self) -> list[Envelope]:
        self._check()
        return [self._opened(payload) for payload in await self._connection.receive_many()]

    def receive_nowait(self) -> list[Envelope]:
        self._check()
        return [self._opened(payload) for payload in self._connection.receive_nowait()]

    async def aclose(self) -> None:
        """Say goodbye and wait until the switch has read it: closing at once could lose what was sent."""
        if self._closed:
            return
        self._closed = True
        try:
            with trio.move_on_after(GOODBYE_SECONDS):
                await self._connection.send([GOODBYE])
                while True:
                    await self._connection.receive_many()
        except (trio.EndOfChannel, trio.BrokenResourceError, RemoteProtocolError):
            pass
        finally:
            await self._connection.aclose()

    def _opened(self, payload: bytes) -> Envelope:
        try:
            return decode_envelope(payload)
        except RemoteProtocolError as error:
            raise trio.BrokenResourceError(f"the switch sent no envelope: {error}") from error

    def _check(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError(f"the link of {self._member!r} is closed")


@asynccontextmanager
async def connect_tcp(
    host: str,
    port: int,
    *,
    charter: Charter,
    identity: Identity,
    tls: ssl.SSLContext | None = None,
    limits: Limits | None = None,
) -> AsyncGenerator[Link]:
    """A party's link to the aggregator's switch.

    Args:
        identity: the party and its key; the roster holds the public part.
        tls: for TLS, a context of ``transports.tls.client_context``.

    Raises:
        OSError: nobody answers, the connection breaks, or the switch (or this side) refuses it.
    """
    limits = limits or Limits()
    wire: Wire | None = None
    try:
        with trio.fail_after(limits.handshake):
            wire = await trio.open_tcp_stream(host, port)
            if tls is not None:
                secured = trio.SSLStream(wire, tls, server_hostname=AGGREGATOR)
                wire = secured
                await secured.do_handshake()
                check_peer(secured, AGGREGATOR)
            connection = Connection(wire, cap=handshake.MAX_BYTES, limits=limits)
            await _enter(connection, charter, identity)
    except (trio.BrokenResourceError, trio.EndOfChannel, trio.TooSlowError, RemoteProtocolError) as e:
        if wire is not None:
            await trio.aclose_forcefully(wire)
        raise ConnectionError(_why(e) or "the other side closed the connection") from e
    link = TcpLink(connection, identity.name)
    try:
        yield link
    finally:
        await link.aclose()


async def _enter(connection: Connection, charter: Charter, identity: Identity) -> None:
    hello = handshake.Hello(
        handshake.VERSION, charter.session, identity.name, os.urandom(handshake.NONCE_BYTES)
    )
    await connection.send([handshake.encode(hello)])
    challenge = handshake.decode(handshake.Challenge, await connection.receive())
    proof = handshake.prove(identity, charter.roster, hello, challenge)
    await connection.send([handshake.encode(proof)])
    handshake.decode(handshake.Welcome, await connection.receive())
    connection.raise_cap(charter.codec.max_envelope)


def _why(error: BaseException) -> str:
    if isinstance(error, trio.TooSlowError):
        return "no welcome in time"
    cause = error.__cause__
    return str(error) or (str(cause) if cause else "")


class TcpHub:
    """The aggregator's side: a switch that parties reach over TCP or TLS.

    The aggregator itself is in this process and has a memory link.
    """

    def __init__(
        self, switch: Switch, identity: Identity, *, tls: ssl.SSLContext | None = None
    ) -> None:
        self._switch = switch
        self._identity = identity
        self._tls = tls
        self._charter = switch.exchange.charter
        self._entering = trio.Semaphore(switch.limits.unauthenticated)

    @asynccontextmanager
    async def connect(self, member: PartyId) -> AsyncGenerator[Link]:
        """The aggregator's own link."""
        link = MemoryLink(self._switch, member)
        try:
            yield link
        finally:
            link.close()

    async def joined(self, members: Iterable[PartyId], *, within: float) -> None:
        """Wait until all members are connected; who has not come by then is gone."""
        await self._switch.joined(members, within=within)

    async def serve(self, listener: trio.SocketListener) -> None:
        """Accept connections until cancelled. Beyond the cap on handshakes, callers wait outside."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._entering.acquire()
                try:
                    wire = await listener.accept()
                except OSError:
                    # Out of file descriptors, or a caller that is gone already: let others end.
                    self._entering.release()
                    await trio.sleep(0.1)
                except BaseException:
                    self._entering.release()
                    raise
                else:
                    nursery.start_soon(self._attend, wire)

    async def _attend(self, wire: Wire) -> None:
        exchange, limits = self._switch.exchange, self._switch.limits
        member: PartyId | None = None
        why = LINK_CLOSED
        try:
            try:
                with trio.fail_after(limits.handshake):
                    secured: trio.SSLStream[Wire] | None = None
                    if self._tls is not None:
                        wire = secured = trio.SSLStream(wire, self._tls, server_side=True)
                        await secured.do_handshake()
                    connection = Connection(wire, cap=handshake.MAX_BYTES, limits=limits)
                    member, port = await self._admit(connection, secured)
                    await connection.send([handshake.encode(handshake.Welcome(member))])
            finally:
                self._entering.release()
            why = await self._carry(connection, member, port)
        except (trio.BrokenResourceError, trio.TooSlowError, RemoteProtocolError) as error:
            why = _why(error) or "its connection broke"
            if member is None:
                exchange.refuse("", why, b"", now=self._switch.now)
        except trio.EndOfChannel:
            pass
        finally:
            if member is not None:
                self._switch.detach(member, why)
            with trio.move_on_after(1.0, shield=True):
                await wire.aclose()

    async def _admit(
        self, connection: Connection, secured: trio.SSLStream[Wire] | None
    ) -> tuple[PartyId, Mailbox[Delivery]]:
        """The hub's part of the handshake, up to the welcome."""
        roster = self._charter.roster
        try:
            hello = handshake.decode(handshake.Hello, await connection.receive())
            handshake.check_hello(hello, self._charter.session, roster)
            if secured is not None:
                check_peer(secured, hello.party)
            nonce = os.urandom(handshake.NONCE_BYTES)
            challenge = handshake.challenge(self._identity, hello, nonce)
            await connection.send([handshake.encode(challenge)])
            proof = handshake.decode(handshake.Proof, await connection.receive())
            handshake.check_proof(roster, hello, nonce, proof)
            port = self._switch.attach(hello.party)
        except RemoteProtocolError as error:
            await connection.send([handshake.encode(handshake.Refusal(str(error)[:400]))])
            raise
        connection.raise_cap(self._charter.codec.max_envelope)
        return hello.party, port

    async def _carry(
        self, connection: Connection, member: PartyId, port: Mailbox[Delivery]
    ) -> str:
        """Relay both ways until either side ends; returns why it ended."""
        why = ["its connection broke"]
        async with trio.open_nursery() as nursery:

            async def both_end(direction: Callable[[], Awaitable[str]]) -> None:
                try:
                    why[0] = await direction()
                except trio.EndOfChannel:
                    why[0] = LINK_CLOSED
                except (trio.BrokenResourceError, RemoteProtocolError) as error:
                    why[0] = _why(error) or why[0]
                nursery.cancel_scope.cancel()

            async def incoming() -> str:
                while True:
                    for payload in await connection.receive_many():
                        if payload == GOODBYE:
                            return LINK_CLOSED
                        await self._switch.relay(member, decode_envelope(payload), payload)

            async def outgoing() -> str:
                while True:
                    await port.wait()
                    await self._write(connection, port)

            nursery.start_soon(both_end, incoming)
            nursery.start_soon(both_end, outgoing)
        return why[0]

    async def _write(self, connection: Connection, port: Mailbox[Delivery]) -> None:
        """Write what waits, in pieces of about ``limits.write`` bytes."""
        most = self._switch.limits.write
        payloads: list[bytes] = []
        size = 0
        while len(port) and size < most:
            deliveries = port.take_nowait(1)
            # Said to be delivered before it is written: an answer must not come before its cause.
            self._switch.taken(deliveries)
            payload = deliveries[0].encoded or encode_envelope(deliveries[0].envelope)
            payloads.append(payload)
            size += len(payload)
        await connection.send(payloads)
