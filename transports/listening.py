"""A hub that is reached by sockets: it accepts connections and lets in who proves who it is.

Everything that waits for the other side has a deadline, and all that comes from it has a cap.
"""

from __future__ import annotations

import functools
import ipaddress
import math
import select
import ssl
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
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
        refused: how many connections were not let in, by ``refusal_of``.
    """

    def __init__(self, switch: Switch, *, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(switch)
        self.refused: Counter[str] = Counter()
        self._tls = tls
        # Who has not said a word, and who is in its handshake; the oldest come first.
        self._silent: list[_Unproven] = []
        self._entering: list[_Unproven] = []
        self._places = trio.Semaphore(switch.limits.unauthenticated)
        # When the last handshake ended.
        self._left = -math.inf

    @abstractmethod
    async def _identify(self, connection: Connection, secured: Secured | None) -> Caller:
        """Have a caller prove who it is.

        Raises:
            RemoteProtocolError: it does not.
        """

    async def serve(self, listener: trio.SocketListener) -> None:
        """Accept connections until cancelled.

        Callers who have not said a word take no room from others; beyond a cap, some of them go.
        Whoever has begun waits for one of so many places.
        """
        async with trio.open_nursery() as nursery:
            while True:
                try:
                    wire = await listener.accept()
                except OSError:
                    # Out of file descriptors, or a caller that is gone already.
                    self._make_room()
                    await trio.sleep(_ACCEPT_SECONDS)
                else:
                    if len(self._silent) >= self._switch.limits.silent:
                        self._make_room()
                    unproven = _Unproven(wire)
                    # At once: the next caller must find it counted.
                    self._silent.append(unproven)
                    nursery.start_soon(self._attend, unproven)

    def _make_room(self) -> None:
        """Turn away some who have not said a word, of the older half."""
        _turn_away(self._silent[: (len(self._silent) + 1) // 2])

    async def _attend(self, unproven: _Unproven) -> None:
        """One connection, from its first byte to its last."""
        try:
            entered = await self._welcome(unproven)
            if entered is not None:
                caller, connection = entered
                await caller.carry(connection)
        finally:
            await trio.aclose_forcefully(unproven.wire)

    @asynccontextmanager
    async def _place(self, unproven: _Unproven) -> AsyncGenerator[None]:
        """A place for a handshake, once its caller has said a word.

        While all are taken and nobody leaves one, those go who take long over the next word.
        """
        try:
            await trio.lowlevel.wait_readable(unproven.wire.socket)
        finally:
            self._silent.remove(unproven)
        patience = self._switch.limits.unproven
        while True:
            with trio.move_on_after(patience):
                await self._places.acquire()
                break
            long_ago = trio.current_time() - patience
            if self._left <= long_ago:
                _turn_away([one for one in self._entering if one.is_slow(long_ago)])
        unproven.since = trio.current_time()
        self._entering.append(unproven)
        try:
            yield
        finally:
            self._entering.remove(unproven)
            self._left = trio.current_time()
            self._places.release()

    async def _welcome(self, unproven: _Unproven) -> tuple[Caller, Connection] | None:
        """The hub's part of the handshake; None if the caller was refused."""
        limits = self._switch.limits
        raw = unproven.wire
        wire: trio.abc.Stream = raw
        entered: Caller | None = None
        scope = unproven.scope
        try:
            with trio.fail_after(limits.handshake), scope:
                async with self._place(unproven):
                    secured: Secured | None = None
                    if self._tls is not None:
                        wire = secured = trio.SSLStream(raw, self._tls, server_side=True)
                        await secured.do_handshake()
                    connection = Connection(wire, cap=handshake.MAX_BYTES, limits=limits)
                    try:
                        caller = await self._identify(connection, secured)
                        welcome, cap = caller.enter()
                    except RemoteProtocolError as error:
                        said = handshake.Refusal(str(error)[:400])
                        await connection.send([handshake.encode(said)])
                        raise
                    entered = caller
                connection.raise_cap(cap)
                connection.patient = caller.patient
                await connection.send([welcome])
            if entered is None or scope.cancelled_caught:
                raise trio.TooSlowError
        except (*_ENDS, trio.TooSlowError, RemoteProtocolError) as error:
            why = why_ended(error)
            if entered is None:
                self.refused[refusal_of(error)] += 1
                self._switch.exchange.refuse("", why, now=self._switch.now)
            else:
                entered.leave(why)
            if not isinstance(error, trio.TooSlowError | trio.EndOfChannel):
                await turn_away(raw)
            return None
        return entered, connection


class _Unproven:
    """A connection of somebody who has not proved who it is.

    Attributes:
        address: where it comes from; of IPv6, the network.
        since: when its handshake began; infinite before.
        scope: is cancelled to turn it away.
    """

    __slots__ = ("address", "scope", "since", "wire")

    def __init__(self, wire: trio.SocketStream) -> None:
        self.wire = wire
        self.scope = trio.CancelScope()
        self.since = math.inf
        self.address = _address(wire)

    def is_slow(self, long_ago: float) -> bool:
        """Whether it has had time enough, and nothing of it waits to be read."""
        poll = select.poll()
        poll.register(self.wire.socket, select.POLLIN)
        return self.since <= long_ago and not poll.poll(0)


def _turn_away(callers: Sequence[_Unproven]) -> None:
    """Turn those away that are of the address that has the most of them."""
    for crowd, _ in Counter(one.address for one in callers).most_common(1):
        for one in callers:
            if one.address == crowd:
                one.scope.cancel()


def _address(wire: trio.SocketStream) -> str:
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


OTHER = "other"
"""What ``refusal_of`` says of all that it has no word for."""

REFUSALS = {
    "party": "not admitted",
    "proof": "not proved",
    "survey": "another survey",
    "version": "another version",
}
"""Why a caller is not let in, in a word or two, by the field of the error."""


def refusal_of(error: BaseException) -> str:
    """Why a caller is not let in: one of a few words, whatever the caller has said."""
    if isinstance(error, trio.TooSlowError):
        return "too slow"
    if isinstance(error, RemoteProtocolError):
        return REFUSALS.get(error.field or "", OTHER)
    if isinstance(error.__cause__, ssl.SSLError):
        return "TLS"
    return "connection ended"


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
