"""A hub on sockets: it accepts connections and authenticates callers.

Everything that waits for the other side has a deadline, and all that comes from it has a cap.
"""

from __future__ import annotations

import functools
import ssl
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar, TypeVar

import trio

from protocol.errors import RemoteProtocolError
from transports import handshake
from transports.admission import BACKLOG, Admission, Incoming, Network, Strangers
from transports.background import running
from transports.connection import Connection, turn_away
from transports.dialing import plain_reason
from transports.memory import MemoryHub
from transports.switch import Switch

_ENDS = (trio.BrokenResourceError, trio.EndOfChannel)

Secured = trio.SSLStream[trio.SocketStream]


class Caller(ABC):
    """The authenticated other end of a connection.

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
        """Detach from the switch: the welcome could not be sent."""


class ListeningHub(MemoryHub, ABC):
    """A switch that members reach over TCP or TLS.

    The aggregator is in this process and has a memory link.

    Args:
        switch: relays between members.
        tls: for TLS, a context of ``transports.tls.server_context``.
        trusted: addresses whose connections do not make room for those of strangers.

    Attributes:
        refused: number of refused connections, by ``refusal_word``.
        admission: the connections of those who have not proved who they are.
    """

    def __init__(
        self,
        switch: Switch,
        *,
        tls: ssl.SSLContext | None = None,
        trusted: Sequence[Network] = (),
    ) -> None:
        super().__init__(switch)
        self.refused: Counter[str] = Counter()
        self.admission = Admission(
            # Members may all connect at once.
            most=max(switch.limits.unfinished, len(switch.exchange.charter.roster)),
            each=max(switch.limits.unfinished_each, len(switch.exchange.charter.roster)),
            trusted=trusted,
        )
        self._tls = tls

    @property
    def strangers(self) -> Strangers:
        """Counts of connections without authentication."""
        return self.admission.strangers

    @abstractmethod
    async def _identify(self, connection: Connection, secured: Secured | None) -> Caller:
        """Make a caller prove its identity.

        Raises:
            RemoteProtocolError: it does not.
        """

    async def serve(self, listener: trio.SocketListener) -> None:
        """Accept connections until cancelled."""
        await self.admission.serve([listener], self._attend)

    async def _attend(self, incoming: Incoming) -> None:
        """Serve one connection from first to last byte."""
        entered = await self._welcome(incoming)
        if entered is not None:
            caller, connection = entered
            await caller.carry(connection)

    async def _welcome(self, incoming: Incoming) -> tuple[Caller, Connection] | None:
        """The hub's part of the handshake; None if the caller is refused."""
        limits = self._switch.limits
        raw = incoming.wire
        wire: trio.abc.Stream = raw
        entered: Caller | None = None
        try:
            with trio.fail_after(limits.handshake):
                # A silent caller costs only a socket.
                await trio.lowlevel.wait_readable(raw.socket)
                secured: Secured | None = None
                if self._tls is not None:
                    wire = secured = trio.SSLStream(raw, self._tls, server_side=True)
                    incoming.stream = secured
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
                incoming.heard = True
                incoming.leave()
                connection.raise_cap(cap)
                connection.patient = caller.patient
                await connection.send([welcome])
        except trio.Cancelled:
            if incoming.evicted:
                self._refuse(trio.TooSlowError(), "it made room for others")
            raise
        except (*_ENDS, trio.TooSlowError, RemoteProtocolError) as error:
            why = why_ended(error)
            if entered is None:
                self._refuse(error, why)
            else:
                entered.leave(why)
            if not isinstance(error, trio.TooSlowError | trio.EndOfChannel):
                await turn_away(raw)
            return None
        return entered, connection

    def _refuse(self, error: BaseException, why: str) -> None:
        self.refused[refusal_word(error)] += 1
        self._switch.exchange.refuse("", why, now=self._switch.now)


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
    """Reason why a connection ended, for the record."""
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
"""Word of ``refusal_word`` for all other reasons."""

REFUSALS = {
    "party": "not admitted",
    "proof": "not proved",
    "survey": "another survey",
    "version": "another version",
}
"""Words for the reasons of refused callers, by the field of the error."""


def refusal_word(error: BaseException) -> str:
    """Reason why a caller is not let in: one of a few words, whatever the caller has sent."""
    if isinstance(error, trio.TooSlowError):
        return "too slow"
    if isinstance(error, RemoteProtocolError):
        return REFUSALS.get(error.field or "", OTHER)
    if isinstance(error.__cause__, ssl.SSLError):
        return "TLS"
    return "connection ended"


async def open_listeners(host: str, port: int) -> list[trio.SocketListener]:
    """The listeners at the addresses of a host.

    Args:
        port: the port to listen at; 0 lets the system choose.

    Raises:
        OSError: the address cannot be listened at; the message gives a remedy.
    """
    try:
        return await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        raise OSError(getattr(error, "errno", None), plain_reason(error), where) from error


H = TypeVar("H", bound=ListeningHub)


@asynccontextmanager
async def listen(
    hub: H, run: Callable[[], Awaitable[object]], *, host: str, port: int
) -> AsyncGenerator[tuple[H, int]]:
    """Let callers reach a hub while the block runs.

    Args:
        run: runs beside it: the switch.
        port: the port to listen at; 0 lets the system choose.

    Yields:
        The hub and the port it listens at.

    Raises:
        OSError: the address cannot be listened at.
    """
    listeners = await open_listeners(host, port)
    try:
        serving = [functools.partial(hub.serve, listener) for listener in listeners]
        async with running(run, *serving):
            yield hub, listeners[0].socket.getsockname()[1]
    finally:
        for listener in listeners:
            listener.socket.close()
