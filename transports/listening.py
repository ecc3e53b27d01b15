"""A hub that is reached by sockets: it accepts connections and lets in who proves who it is.

Everything that waits for the other side has a deadline, and all that comes from it has a cap.
"""

from __future__ import annotations

import functools
import ipaddress
import math
import ssl
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import ClassVar, TypeVar

import trio

from protocol.errors import RemoteProtocolError
from transports import handshake
from transports.background import running
from transports.connection import Connection, turn_away
from transports.memory import MemoryHub
from transports.switch import Switch

_ACCEPT_SECONDS = 0.1
_ENDS = (trio.BrokenResourceError, trio.EndOfChannel)

Secured = trio.SSLStream[trio.SocketStream]


class Caller(ABC):
    """Whoever is at the other end of a connection and has proved who it is.

    Attributes:
        patient: whether it may take as long as it likes to read.
    """

    patient: ClassVar[bool] = False

    @abstractmethod
    def enter(self) -> tuple[bytes, int]:
        """Attach to the switch.

        Returns:
            The welcome, and the largest frame that may come from here on, in bytes.

        Raises:
            RemoteProtocolError: refused.
        """

    @abstractmethod
    async def carry(self, connection: Connection) -> None:
        """Relay both ways until either side ends; the caller is detached then."""

    @abstractmethod
    def leave(self, reason: str) -> None:
        """Detach from the switch: the welcome could not be said."""


class ListeningHub(MemoryHub, ABC):
    """A switch that members reach over TCP or TLS.

    The aggregator is in this process and has a memory link.

    Args:
        switch: relays between members.
        tls: for TLS, a context of ``transports.tls.server_context``.

    Attributes:
        refused: how many connections were not let in.
    """

    def __init__(self, switch: Switch, *, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(switch)
        self.refused = 0
        self._tls = tls
        # Who is in its handshake: since when, and from which address.
        self._unproven: dict[trio.CancelScope, tuple[float, str]] = {}
        self._room = trio.Event()

    @abstractmethod
    async def _identify(self, connection: Connection, secured: Secured | None) -> Caller:
        """Have a caller prove who it is.

        Raises:
            RemoteProtocolError: it does not.
        """

    async def serve(self, listener: trio.SocketListener) -> None:
        """Accept connections until cancelled.

        Beyond the cap on handshakes, callers wait outside: strangers who say nothing keep nobody
        out for long.
        """
        async with trio.open_nursery() as nursery:
            while True:
                while len(self._unproven) >= self._switch.limits.unauthenticated:
                    await self._make_room()
                try:
                    wire = await listener.accept()
                except OSError:
                    # Out of file descriptors, or a caller that is gone already.
                    await self._make_room(_ACCEPT_SECONDS)
                else:
                    # At once: the next caller must find it counted.
                    scope = trio.CancelScope()
                    self._unproven[scope] = trio.current_time(), _address(wire)
                    nursery.start_soon(self._attend, wire, scope)

    async def _make_room(self, within: float = math.inf) -> None:
        """Wait until a handshake ends. If none does, turn away who has taken long.

        They are taken from the address that has the most of them.
        """
        limits = self._switch.limits
        with trio.move_on_after(min(limits.unproven, within)):
            await self._room.wait()
            return
        long_ago = trio.current_time() - limits.unproven
        waiting = [entry for entry in self._unproven.items() if entry[1][0] <= long_ago]
        crowd = Counter(address for _, (_, address) in waiting).most_common(1)
        for scope, (_, address) in waiting:
            if address == crowd[0][0]:
                scope.cancel()

    async def _attend(self, raw: trio.SocketStream, scope: trio.CancelScope) -> None:
        """One connection, from its first byte to its last."""
        try:
            try:
                entered = await self._welcome(raw, scope)
            finally:
                self._unproven.pop(scope, None)
                self._room.set()
                self._room = trio.Event()
            if entered is not None:
                caller, connection = entered
                await caller.carry(connection)
        finally:
            await trio.aclose_forcefully(raw)

    async def _welcome(
        self, raw: trio.SocketStream, scope: trio.CancelScope
    ) -> tuple[Caller, Connection] | None:
        """The hub's part of the handshake; None if the caller was refused.

        Args:
            scope: what is cancelled to turn the caller away, as long as it has proved nothing.
        """
        limits = self._switch.limits
        wire: trio.abc.Stream = raw
        entered: Caller | None = None
        try:
            with trio.fail_after(limits.handshake), scope:
                secured: Secured | None = None
                if self._tls is not None:
                    wire = secured = trio.SSLStream(raw, self._tls, server_side=True)
                    await secured.do_handshake()
                connection = Connection(wire, cap=handshake.MAX_BYTES, limits=limits)
                try:
                    caller = await self._identify(connection, secured)
                    welcome, cap = caller.enter()
                except RemoteProtocolError as error:
                    await connection.send([handshake.encode(handshake.Refusal(str(error)[:400]))])
                    raise
                entered = caller
                del self._unproven[scope]
                connection.raise_cap(cap)
                connection.patient = caller.patient
                await connection.send([welcome])
            if entered is None or scope.cancelled_caught:
                raise trio.TooSlowError
        except (*_ENDS, trio.TooSlowError, RemoteProtocolError) as error:
            why = why_ended(error)
            if entered is None:
                self.refused += 1
                self._switch.exchange.refuse("", why, now=self._switch.now)
            else:
                entered.leave(why)
            if not isinstance(error, trio.TooSlowError | trio.EndOfChannel):
                await turn_away(raw)
            return None
        return entered, connection


def _address(wire: trio.SocketStream) -> str:
    """Where a connection comes from; of an address of IPv6, the network."""
    try:
        host = str(wire.socket.getpeername()[0])
    except OSError:
        return ""
    address = ipaddress.ip_address(host)
    if isinstance(address, ipaddress.IPv4Address) or address.ipv4_mapped:
        return host
    return address.exploded[:19]


async def first_end(*directions: Callable[[], Awaitable[None]]) -> str | None:
    """Run the directions of a connection until one of them ends.

    Returns:
        Why it ended, or None if it returned: the other side has said goodbye.
    """
    why: list[str] = []
    async with trio.open_nursery() as nursery:

        async def until_its_end(direction: Callable[[], Awaitable[None]]) -> None:
            try:
                await direction()
            except RemoteProtocolError as refusal:
                why.append(f"refused: {refusal}")
            except _ENDS as end:
                why.append(why_ended(end))
            nursery.cancel_scope.cancel()

        for direction in directions:
            nursery.start_soon(until_its_end, direction)
    return why[0] if why else None


def why_ended(error: BaseException) -> str:
    """Why a connection ended, for the record."""
    if isinstance(error, trio.TooSlowError):
        return "the handshake took too long"
    first = error
    while first.__cause__ is not None:
        first = first.__cause__
    # Whether the system reports an end or a reset depends on what was unread.
    if isinstance(first, trio.EndOfChannel | ConnectionError):
        return "the connection ended"
    return str(error) or str(error.__cause__ or "") or "the connection broke"


H = TypeVar("H", bound=ListeningHub)


@asynccontextmanager
async def listen(
    hub: H, run: Callable[[], Awaitable[object]], *, host: str, port: int
) -> AsyncGenerator[tuple[H, int]]:
    """Let callers reach a hub while the block runs.

    Args:
        run: runs beside it: the switch.
        port: where to listen; 0 lets the system choose.

    Yields:
        The hub and the port it listens at.

    Raises:
        OSError: one cannot listen there; it says where.
    """
    try:
        listeners = await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        raise OSError(error.errno, error.strerror or str(error), where) from error
    try:
        serving = [functools.partial(hub.serve, listener) for listener in listeners]
        async with running(run, *serving):
            yield hub, listeners[0].socket.getsockname()[1]
    finally:
        for listener in listeners:
            listener.socket.close()
