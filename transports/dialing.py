"""Connecting to a hub by a socket, and one line for a person who cannot."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from protocol.errors import RemoteProtocolError
from protocol.messages import AGGREGATOR
from transports import handshake
from transports.base import Limits
from transports.connection import Connection, end
from transports.tls import check_peer

T = TypeVar("T")


class TurnedAwayError(ConnectionError):
    """The two ends do not accept each other: another try would not help."""


async def dial(
    host: str,
    port: int,
    enter: Callable[[Connection], Awaitable[T]],
    *,
    tls: ssl.SSLContext | None,
    limits: Limits,
) -> tuple[Connection, T]:
    """Connect to the aggregator's hub.

    Args:
        enter: this side's part of the handshake. What it raises by itself is raised on.
        tls: for TLS, a context of ``transports.tls.client_context``.

    Returns:
        The connection, which is the caller's to close, and what ``enter`` returned.

    Raises:
        TurnedAwayError: the hub, or this side, refuses it; says why in one line.
        ConnectionError: nobody answers, or the connection breaks; says why in one line.
    """
    wire: trio.abc.Stream | None = None
    try:
        with trio.fail_after(limits.handshake):
            try:
                raw = wire = await trio.open_tcp_stream(host, port)
            except OSError as error:
                raise ConnectionError(error.strerror or str(error)) from error
            if tls is not None:
                wire = secured = trio.SSLStream(raw, tls, server_hostname=AGGREGATOR)
                await secured.do_handshake()
                check_peer(secured, AGGREGATOR)
            connection = Connection(wire, cap=handshake.MAX_BYTES, limits=limits, patient=True)
            return connection, await enter(connection)
    except (
        trio.BrokenResourceError,
        trio.EndOfChannel,
        trio.TooSlowError,
        RemoteProtocolError,
    ) as error:
        if wire is not None:
            await end(wire)
        refused = isinstance(error, RemoteProtocolError) or isinstance(
            error.__cause__, ssl.SSLCertVerificationError
        )
        kind = TurnedAwayError if refused else ConnectionError
        raise kind(_why_refused(error)) from error
    except BaseException:
        if wire is not None:
            await end(wire)
        raise


async def say(connection: Connection, step: handshake.Hello | handshake.Proof) -> None:
    """Say a step of the handshake.

    Raises:
        RemoteProtocolError: the hub has refused; it says why.
        trio.BrokenResourceError: the connection broke.
    """
    try:
        await connection.send([handshake.encode(step)])
    except trio.BrokenResourceError:
        # The hub has turned away; what it said last tells more than that it did.
        handshake.decode(handshake.Welcome, await connection.receive())
        raise


def _why_refused(error: BaseException) -> str:
    """One line for a person who cannot connect."""
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
