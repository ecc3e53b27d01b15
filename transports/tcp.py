"""TCP and TLS: parties connect to the aggregator's switch, which relays between them.

A connection carries length-prefixed frames: the handshake, then encoded envelopes. Everything that
waits for the other side has a deadline, and everything that comes from it has a cap.
"""

from __future__ import annotations

import functools
import os
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from protocol.errors import RemoteProtocolError
from protocol.messages import AGGREGATOR, LINK_CLOSED, PartyId
from protocol.session.charter import Charter
from protocol.session.exchange import Delivery
from protocol.session.roster import Identity
from protocol.wire.codec import decode_envelope, encode_envelope
from transports import handshake
from transports.background import running
from transports.base import Limits, Link
from transports.connection import Connection, turn_away
from transports.mailbox import Mailbox
from transports.memory import MemoryHub
from transports.switch import Switch
from transports.tcp_link import GOODBYE, TcpLink
from transports.tls import check_peer

_ACCEPT_SECONDS = 0.1
_ENDS = (trio.BrokenResourceError, trio.EndOfChannel)


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
        ConnectionError: nobody answers, the connection breaks, or the switch (or this side) refuses
            it; it says why in one line.
    """
    limits = limits or Limits()
    wire: trio.abc.Stream | None = None
    try:
        with trio.fail_after(limits.handshake):
            raw = wire = await trio.open_tcp_stream(host, port)
            if tls is not None:
                wire = secured = trio.SSLStream(raw, tls, server_hostname=AGGREGATOR)
                await secured.do_handshake()
                check_peer(secured, AGGREGATOR)
            connection = Connection(wire, cap=handshake.MAX_BYTES, limits=limits, patient=True)
            await _enter(connection, charter, identity)
    except (*_ENDS, trio.TooSlowError, RemoteProtocolError, OSError) as error:
        if wire is not None:
            await trio.aclose_forcefully(wire)
        raise ConnectionError(_why_refused(error)) from error
    except BaseException:
        if wire is not None:
            await trio.aclose_forcefully(wire)
        raise
    link = TcpLink(connection, identity.name, limits)
    try:
        yield link
    finally:
        await link.aclose()


async def _enter(connection: Connection, charter: Charter, identity: Identity) -> None:
    """The party's part of the handshake."""
    hello = handshake.Hello(
        handshake.VERSION, charter.session, identity.name, os.urandom(handshake.NONCE_BYTES)
    )
    await _say(connection, hello)
    challenge = handshake.decode(handshake.Challenge, await connection.receive())
    await _say(connection, handshake.prove(identity, charter.roster, hello, challenge))
    handshake.decode(handshake.Welcome, await connection.receive())
    connection.raise_cap(charter.codec.max_envelope)


async def _say(connection: Connection, step: handshake.Hello | handshake.Proof) -> None:
    try:
        await connection.send([handshake.encode(step)])
    except trio.BrokenResourceError:
        # The switch has turned away; what it said last tells more than that it did.
        handshake.decode(handshake.Welcome, await connection.receive())
        raise


def _why_refused(error: BaseException) -> str:
    """One line for a person who cannot connect."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, trio.TooSlowError):
        return "no welcome in time"
    if isinstance(error, trio.EndOfChannel):
        return "the other side closed the connection without a word (is TLS on at one end only?)"
    if isinstance(error.__cause__, ssl.SSLEOFError):
        return "the other side ended TLS; perhaps it does not accept this certificate"
    if isinstance(error.__cause__, ssl.SSLError):
        return f"TLS: {error.__cause__}"
    if isinstance(error, RemoteProtocolError) and error.field == "frame":
        return f"the other side speaks another protocol (is TLS on at one end only?): {error}"
    return str(error) or "the connection broke"


class TcpHub(MemoryHub):
    """The aggregator's side: a switch that parties reach over TCP or TLS.

    The aggregator itself is in this process and has a memory link. Use it in
    ``async with open_tcp(switch, identity) as hub``.

    Attributes:
        refused: how many connections were not let in.
    """

    def __init__(
        self, switch: Switch, identity: Identity, *, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(switch)
        self.refused = 0
        self._identity = identity
        self._tls = tls
        self._charter = switch.exchange.charter
        self._entering = trio.Semaphore(switch.limits.unauthenticated)

    async def serve(self, listener: trio.SocketListener) -> None:
        """Accept connections until cancelled.

        Beyond the cap on handshakes, callers wait outside.
        """
        async with trio.open_nursery() as nursery:
            while True:
                await self._entering.acquire()
                try:
                    wire = await listener.accept()
                except OSError:
                    # Out of file descriptors, or a caller that is gone already: let others end.
                    self._entering.release()
                    await trio.sleep(_ACCEPT_SECONDS)
                else:
                    nursery.start_soon(self._attend, wire)

    async def _attend(self, raw: trio.SocketStream) -> None:
        """One connection, from its first byte to its last."""
        try:
            try:
                entered = await self._welcome(raw)
            finally:
                self._entering.release()
            if entered is not None:
                await self._carry(*entered)
        finally:
            await trio.aclose_forcefully(raw)

    async def _welcome(
        self, raw: trio.SocketStream
    ) -> tuple[Connection, PartyId, Mailbox[Delivery]] | None:
        """The hub's part of the handshake; None if the caller was refused."""
        limits = self._switch.limits
        wire: trio.abc.Stream = raw
        member: PartyId | None = None
        try:
            with trio.fail_after(limits.handshake):
                secured: trio.SSLStream[trio.SocketStream] | None = None
                if self._tls is not None:
                    wire = secured = trio.SSLStream(raw, self._tls, server_side=True)
                    await secured.do_handshake()
                connection = Connection(wire, cap=handshake.MAX_BYTES, limits=limits)
                try:
                    claimed = await self._challenge(connection, secured)
                    port = self._switch.attach(claimed)
                except RemoteProtocolError as error:
                    await connection.send([handshake.encode(handshake.Refusal(str(error)[:400]))])
                    raise
                member = claimed
                connection.raise_cap(self._charter.codec.max_envelope)
                await connection.send([handshake.encode(handshake.Welcome(member))])
        except (*_ENDS, trio.TooSlowError, RemoteProtocolError) as error:
            why = _why_ended(error)
            if member is None:
                self.refused += 1
                self._switch.exchange.refuse("", why, now=self._switch.now)
            else:
                self._switch.detach(member, why)
            if not isinstance(error, trio.TooSlowError | trio.EndOfChannel):
                await turn_away(raw)
            return None
        return connection, member, port

    async def _challenge(
        self, connection: Connection, secured: trio.SSLStream[trio.SocketStream] | None
    ) -> PartyId:
        """Have a caller prove who it is."""
        roster = self._charter.roster
        hello = handshake.decode(handshake.Hello, await connection.receive())
        handshake.check_hello(hello, self._charter.session, roster)
        if secured is not None:
            check_peer(secured, hello.party)
        nonce = os.urandom(handshake.NONCE_BYTES)
        challenge = handshake.challenge(self._identity, hello, nonce)
        await connection.send([handshake.encode(challenge)])
        proof = handshake.decode(handshake.Proof, await connection.receive())
        handshake.check_proof(roster, hello, nonce, proof)
        return hello.party

    async def _carry(
        self, connection: Connection, member: PartyId, port: Mailbox[Delivery]
    ) -> None:
        """Relay both ways until either side ends."""
        why: list[str] = []
        async with trio.open_nursery() as nursery:

            async def until_its_end(direction: Callable[[], Awaitable[None]]) -> None:
                try:
                    await direction()
                except RemoteProtocolError as refusal:
                    why.append(f"refused: {refusal}")
                except _ENDS as end:
                    why.append(_why_ended(end))
                nursery.cancel_scope.cancel()

            nursery.start_soon(until_its_end, lambda: self._incoming(connection, member))
            nursery.start_soon(until_its_end, lambda: self._outgoing(connection, port))
        self._switch.detach(member, why[0] if why else LINK_CLOSED)
        await connection.aclose()

    async def _incoming(self, connection: Connection, member: PartyId) -> None:
        switch = self._switch
        while True:
            try:
                while not len(connection):
                    await connection.fill()
            except RemoteProtocolError as error:
                switch.exchange.refuse(member, str(error), now=switch.now)
                raise
            for payload in connection.take():
                if payload == GOODBYE:
                    return
                try:
                    envelope = decode_envelope(payload)
                except RemoteProtocolError as error:
                    switch.exchange.refuse(member, str(error), now=switch.now)
                    raise
                if switch.relay_nowait(member, envelope, payload) is not None:
                    await switch.relay(member, envelope, payload)

    async def _outgoing(self, connection: Connection, port: Mailbox[Delivery]) -> None:
        most = self._switch.limits.write
        while True:
            await port.wait()
            payloads: list[bytes] = []
            size = 0

            def enough(delivery: Delivery, payloads: list[bytes] = payloads) -> bool:
                nonlocal size
                payload = delivery.encoded or encode_envelope(delivery.envelope)
                payloads.append(payload)
                size += len(payload)
                return size >= most

            # Said to be delivered before it is written: an answer must not come before its cause.
            self._switch.taken(port.take_until(enough))
            await connection.send(payloads)


def _why_ended(error: BaseException) -> str:
    """Why a connection ended, for the record."""
    if isinstance(error, trio.TooSlowError):
        return "the handshake took too long"
    if isinstance(error, trio.EndOfChannel):
        return "the connection ended"
    return str(error) or str(error.__cause__ or "") or "the connection broke"


@asynccontextmanager
async def open_tcp(
    switch: Switch,
    identity: Identity,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[tuple[TcpHub, int]]:
    """Run a switch and let parties connect to it.

    Args:
        identity: the aggregator's.
        port: where to listen; 0 lets the system choose.
        tls: for TLS, a context of ``transports.tls.server_context``.

    Yields:
        The hub and the port it listens at.

    Raises:
        OSError: one cannot listen there; it says where.
    """
    hub = TcpHub(switch, identity, tls=tls)
    try:
        listeners = await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        raise OSError(error.errno, error.strerror or str(error), where) from error
    try:
        serving = [functools.partial(hub.serve, listener) for listener in listeners]
        async with running(switch.run, *serving):
            yield hub, listeners[0].socket.getsockname()[1]
    finally:
        for listener in listeners:
            listener.socket.close()
