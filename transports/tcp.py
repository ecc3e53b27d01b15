"""TCP and TLS: parties connect to the aggregator's switch, which relays between them.

A connection carries length-prefixed frames: the handshake, then encoded envelopes.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar

from protocol.errors import RemoteProtocolError
from protocol.messages import AGGREGATOR, LINK_CLOSED, PartyId
from protocol.session.charter import Charter
from protocol.session.exchange import Delivery
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.wire.codec import decode_envelopes, encode_envelope
from transports import handshake
from transports.admission import Network
from transports.base import Limits, Link
from transports.connection import Connection
from transports.dialing import dial, say
from transports.listening import Caller, ListeningHub, Secured, first_end, listen
from transports.mailbox import Mailbox
from transports.switch import Switch
from transports.tcp_link import GOODBYE, TcpLink
from transports.tls import check_peer


@asynccontextmanager
async def connect_tcp(
    host: str,
    port: int,
    *,
    charter: Charter,
    identity: Identity,
    tls: ssl.SSLContext | None = None,
    limits: Limits | None = None,
    join: Callable[[int], object] | None = None,
) -> AsyncGenerator[Link]:
    """A party's link to the aggregator's switch.

    Args:
        charter: charter of the survey, of any attempt if ``join`` is given.
        identity: the party and its key; the roster holds the public part.
        join: called with the attempt that the aggregator has begun, before this side proves who it
            is. It raises ``RemoteProtocolError`` to stay away. By default the attempt must be the
            charter's.
        tls: for TLS, a context of ``transports.tls.client_context``.

    Raises:
        ConnectionError: as ``dial``.
    """
    limits = limits or Limits()

    async def enter(connection: Connection) -> None:
        await introduce(connection, charter, identity, join=join)

    connection, _ = await dial(host, port, enter, tls=tls, limits=limits)
    link = TcpLink(connection, identity.name, limits)
    try:
        yield link
    finally:
        await link.aclose()


async def introduce(
    connection: Connection,
    charter: Charter,
    identity: Identity,
    *,
    version: str = handshake.VERSION,
    join: Callable[[int], object] | None = None,
    held: SignedCheckpoint | None = None,
) -> None:
    """A party's part of the handshake.

    Args:
        version: the handshake's version.
        held: the newest checkpoint that the party holds.
        join: as in ``connect_tcp``.

    Raises:
        RemoteProtocolError: either side refuses the other.
        trio.BrokenResourceError, trio.EndOfChannel: the connection ended.
    """
    nonce = os.urandom(handshake.NONCE_BYTES)
    hello = handshake.Hello(version, charter.survey_id, identity.name, nonce, held)
    await say(connection, hello)
    challenge = handshake.decode(handshake.Challenge, await connection.receive())
    handshake.check_challenge(charter.roster, hello, challenge)
    if join is not None:
        join(challenge.attempt)
    elif challenge.attempt != charter.attempt:
        said = f"{challenge.attempt}, expected {charter.attempt}"
        raise RemoteProtocolError(said, field="attempt")
    await say(connection, handshake.prove(identity, hello, challenge))
    handshake.decode(handshake.Welcome, await connection.receive())
    connection.raise_cap(charter.codec.max_envelope)


class TcpHub(ListeningHub):
    """The aggregator's side: a switch that parties reach over TCP or TLS.

    Use it in ``async with open_tcp(switch, identity) as (hub, port)``.

    Attributes:
        version: the handshake's version.
    """

    version: ClassVar[str] = handshake.VERSION

    def __init__(
        self,
        switch: Switch,
        identity: Identity,
        *,
        tls: ssl.SSLContext | None = None,
        trusted: Sequence[Network] = (),
    ) -> None:
        super().__init__(switch, tls=tls, trusted=trusted)
        self._identity = identity

    async def _identify(self, connection: Connection, secured: Secured | None) -> Caller:
        charter = self._switch.exchange.charter
        roster = charter.roster
        hello = handshake.decode(handshake.Hello, await connection.receive())
        handshake.check_hello(hello, charter.survey_id, self.version)
        if hello.party not in roster or hello.party == AGGREGATOR:
            raise RemoteProtocolError(f"{hello.party!r:.80} is not on the roster", field="party")
        if secured is not None:
            check_peer(secured, hello.party)
        self._check_hello(hello)
        nonce = os.urandom(handshake.NONCE_BYTES)
        challenge = handshake.challenge(self._identity, hello, charter.attempt, nonce)
        await connection.send([handshake.encode(challenge)])
        proof = handshake.decode(handshake.Proof, await connection.receive())
        handshake.check_proof(roster, hello, charter.attempt, nonce, proof)
        return self._caller(hello)

    def _check_hello(self, hello: handshake.Hello) -> None:
        """Check and note a caller's checkpoint, before the caller has proved its identity.

        Raises:
            RemoteProtocolError: it cannot hold that.
        """

    def _caller(self, hello: handshake.Hello) -> Caller:
        """The hub's end of an authenticated party's connection."""
        return _Party(self._switch, hello.party)


class _Party(Caller):
    """The hub's end of a party's connection."""

    def __init__(self, switch: Switch, name: PartyId) -> None:
        self._switch = switch
        self._name = name
        self._port: Mailbox[Delivery]

    def enter(self) -> tuple[bytes, int]:
        self._port = self._switch.attach(self._name)
        cap = self._switch.exchange.charter.codec.max_envelope
        return handshake.encode(handshake.Welcome(self._name)), cap

    def leave(self, reason: str) -> None:
        self._switch.detach(self._name, reason)

    async def carry(self, connection: Connection) -> None:
        why = await first_end(
            lambda: self._incoming(connection), lambda: self._outgoing(connection)
        )
        self.leave(LINK_CLOSED if why is None else why)
        await connection.aclose()

    async def _incoming(self, connection: Connection) -> None:
        switch, member = self._switch, self._name
        while True:
            try:
                while not len(connection):
                    await connection.fill()
            except RemoteProtocolError as error:
                switch.exchange.refuse(member, str(error), now=switch.now)
                raise
            payloads = connection.take()
            ended = GOODBYE in payloads
            if ended:
                del payloads[payloads.index(GOODBYE) :]
            envelopes, malformed = decode_envelopes(payloads)
            await switch.relay(member, envelopes, payloads)
            if malformed is not None:
                switch.exchange.refuse(member, str(malformed), now=switch.now)
                raise malformed
            if ended:
                return

    async def _outgoing(self, connection: Connection) -> None:
        most, port = self._switch.limits.write, self._port
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

            # Recorded as delivered before it is written: an answer must not precede its cause.
            self._switch.taken(port.take_until(enough))
            await connection.send(payloads)


@asynccontextmanager
async def open_tcp(
    switch: Switch,
    identity: Identity,
    *,
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[tuple[TcpHub, int]]:
    """Run a switch and let parties connect to it, at a port that the system chooses.

    Args:
        identity: the aggregator's.
        tls: for TLS, a context of ``transports.tls.server_context``.

    Yields:
        The hub and the port it listens at.

    Raises:
        OSError: the address cannot be listened at.
    """
    async with listen(TcpHub(switch, identity, tls=tls), switch.run, host=host, port=0) as open_:
        yield open_
