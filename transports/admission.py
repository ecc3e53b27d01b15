"""Admission control: which connections a server keeps, and which it drops when it is full.

A connection is unfinished until its caller has sent a whole request: a handshake, or an HTTP
request. Unfinished connections cost a caller next to nothing, so they are dropped first, the oldest
before the others. New connections are served at once.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import ipaddress
import math
import socket
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from typing import NamedTuple

import trio

from transports.connection import end

BACKLOG = 4096
"""Maximum number of connections waiting to be accepted, if the system allows so many."""

KEPT = 16
"""Number of places reserved for trusted addresses, if there are any; at most a quarter of all."""

SPARE_DESCRIPTORS = 16
"""Number of file descriptors that strangers cannot use."""

SUMMED_SECONDS = 60.0
"""Seconds of strangers' activity that one line of the log sums up."""

LINES, LINES_OF_ONE = 50, 5
"""Maximum number of single lines on strangers in that time, in all and for one address."""

REMEMBERED = 4096
"""Maximum number of addresses told apart in that time."""

_BATCH = 512
_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE = 0.02

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Standing(enum.IntEnum):
    """Stages of a connection; earlier stages are dropped first.

    Attributes:
        UNFINISHED: its caller has yet to send a whole request.
        READING: its caller has yet to read the answer.
        ANSWERED: it waits for this side, and is never dropped.
    """

    UNFINISHED = 0
    READING = 1
    ANSWERED = 2


def trusted_network(text: str) -> Network:
    """Trusted addresses from the text of an option.

    Raises:
        ValueError: neither an address nor a network, or all addresses.
    """
    try:
        network = ipaddress.ip_network(text.strip())
    except ValueError as error:
        raise ValueError(
            f"{text!r:.80}: expected an address or a network, such as 192.0.2.7 or 2001:db8:1::/64"
        ) from error
    if not network.prefixlen:
        raise ValueError(f"{text!r:.80}: these are all addresses; expected those of a few")
    return network


def address_origin(address: str) -> str:
    """Origin that an address counts for: in IPv6 its first 64 bits, which one customer owns."""
    try:
        # Addresses come as the system writes them: IPv4 has no colon.
        parsed = ipaddress.IPv6Address(address.partition("%")[0]) if ":" in address else None
    except ValueError:
        return address
    if parsed is None:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


def is_trusted(address: str, trusted: Sequence[Network]) -> bool:
    """Check whether an address is in a trusted network."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return any(parsed in network for network in trusted)


class Sum(NamedTuple):
    """Strangers' activity in some time.

    Args:
        times: number of events.
        addresses: number of origins, up to ``REMEMBERED``.
    """

    times: int
    addresses: int


class Strangers:
    """Counts what strangers do, so that they take few lines of a log.

    Attributes:
        scarce: whether file descriptors have run short since the last ``take``.
    """

    def __init__(self) -> None:
        self.scarce = False
        self._count = 0
        self._lines = 0
        self._origins: dict[str, int] = {}
        self._fresh: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"Strangers({self._count} from {len(self._origins)} addresses)"

    def note(self, address: str) -> None:
        """Count an event that gets no line of its own."""
        self._count += 1
        origin = address_origin(address)
        if origin in self._origins or len(self._origins) < REMEMBERED:
            self._origins[origin] = self._origins.get(origin, 0) + 1

    def gets_line(self, address: str) -> bool:
        """Return whether an event gets a line of its own; count it if not."""
        origin = address_origin(address)
        lines = self._fresh.get(origin, 0)
        if self._lines >= LINES or lines >= LINES_OF_ONE:
            self.note(address)
            return False
        self._lines += 1
        self._fresh[origin] = lines + 1
        return True

    def take(self) -> Sum:
        """Return the counts since the last time, and reset them."""
        taken = Sum(self._count, len(self._origins))
        self._count = self._lines = 0
        self._origins.clear()
        self._fresh.clear()
        self.scarce = False
        return taken


class Incoming:
    """An accepted connection.

    Attributes:
        wire: its socket.
        stream: the socket, or TLS over it.
        address: the caller's address.
        trusted: whether the address is trusted.
        scope: cancelled when the connection is dropped.
        evicted: whether the connection was dropped.
        heard: whether a whole request has arrived.
    """

    __slots__ = (
        "_admission",
        "_origin",
        "_standing",
        "address",
        "evicted",
        "heard",
        "scope",
        "stream",
        "trusted",
        "wire",
    )

    def __init__(self, admission: Admission, wire: trio.SocketStream, address: str) -> None:
        self.wire = wire
        self.stream: trio.abc.Stream = wire
        self.address = address
        self.trusted = admission.trusts(address)
        self.scope = trio.CancelScope()
        self.evicted = self.heard = False
        self._admission = admission
        self._origin = address_origin(address)
        self._standing: Standing | None = None

    def __repr__(self) -> str:
        return f"Incoming({'trusted' if self.trusted else 'a stranger'}, {self._standing!r})"

    def stand(self, standing: Standing) -> None:
        """Move on to a stage, as its newest connection."""
        if self._standing is not None:
            self._admission.move(self, standing)

    def leave(self) -> None:
        """Give up its place: the caller is authenticated, or gone."""
        if self._standing is not None:
            self._admission.move(self, None)


class Admission:
    """The places of a server's connections.

    When all places are taken, a new connection replaces one of the earliest stage: the oldest of
    the origin with the most of them. Trusted addresses have reserved places and never make room for
    strangers. If no connection can be dropped, the new one is closed.

    Args:
        most: maximum number of places.
        each: maximum number of unfinished connections of one untrusted origin.
        trusted: addresses that never make room for others.
        strangers: counts connections that end without a whole request.
    """

    def __init__(
        self,
        *,
        most: int,
        each: int,
        trusted: Sequence[Network] = (),
        strangers: Strangers | None = None,
    ) -> None:
        self.strangers = Strangers() if strangers is None else strangers
        self._most = most
        self._each = each
        self._trusted = tuple(trusted)
        self._open = most - (min(KEPT, most // 4) if trusted else 0)
        self._held = 0
        self._held_by_strangers = 0
        # By trust and standing, then by origin: the oldest first.
        self._crowds: dict[tuple[bool, Standing], dict[str, dict[Incoming, None]]] = {
            (trust, standing): {} for trust in (False, True) for standing in Standing
        }

    def __len__(self) -> int:
        """Number of taken places."""
        return self._held

    def trusts(self, address: str) -> bool:
        """Check whether an address is trusted."""
        return is_trusted(address, self._trusted)

    async def serve(
        self,
        listeners: Iterable[trio.SocketListener],
        attend: Callable[[Incoming], Awaitable[object]],
    ) -> None:
        """Accept connections until cancelled.

        Args:
            attend: serves a connection until it is dropped; its stream is closed afterwards.
        """

        async def attend_one(one: Incoming) -> None:
            try:
                with one.scope:
                    await attend(one)
            finally:
                one.leave()
                if not one.heard:
                    self.strangers.note(one.address)
                await end(one.stream)

        async with trio.open_nursery() as nursery:

            async def accept(listener: trio.SocketListener) -> None:
                with _open_door(listener) as door:
                    while True:
                        # All waiting connections are accepted before any is served.
                        came, short = await self._accept(listener, door)
                        for one in came:
                            if one.evicted:
                                self.strangers.note(one.address)
                                one.wire.socket.close()
                            else:
                                nursery.start_soon(attend_one, one)
                        await trio.sleep(_PAUSE if short else 0)

            for listener in listeners:
                nursery.start_soon(accept, listener)

    async def _accept(
        self, listener: trio.SocketListener, door: socket.socket | None
    ) -> tuple[list[Incoming], bool]:
        """Wait for connections; return them, and whether file descriptors are short."""
        came: list[Incoming] = []

        def enter(wire: trio.SocketStream, address: str) -> None:
            one = Incoming(self, wire, address)
            one.evicted = not self._enter(one, wire.socket.fileno())
            came.append(one)

        try:
            first = await listener.accept()
            enter(first, _peer_address(first))
            for _ in range(_BATCH):
                if door is None:
                    break
                accepted, name = door.accept()
                if _is_gone(accepted):
                    self.strangers.note(str(name[0]))
                    accepted.close()
                    continue
                wire = trio.SocketStream(trio.socket.from_stdlib_socket(accepted))
                enter(wire, str(name[0]))
        except BlockingIOError:
            pass  # All waiting connections are accepted.
        except OSError as error:
            if error.errno in _SHORT:
                self.strangers.scarce = True
                self._make_room(for_trusted=False)
                return came, True
            # That caller is gone already.
        return came, False

    def _enter(self, new: Incoming, descriptor: int) -> bool:
        """Give a new connection a place, if need be that of another; return success."""
        unfinished = self._crowds[new.trusted, Standing.UNFINISHED]
        crowd = unfinished.get(new._origin, {})
        if not new.trusted and len(crowd) >= self._each:
            self._evict(next(iter(crowd)))
        # The system reuses low numbers first, so a high number means that few are left.
        spare = SPARE_DESCRIPTORS // 2 if new.trusted else SPARE_DESCRIPTORS
        scarce = descriptor >= _most_descriptors() - spare
        self.strangers.scarce |= scarce
        full = self._held >= self._most
        full |= not new.trusted and self._held_by_strangers >= self._open
        if (full or scarce) and not self._make_room(for_trusted=new.trusted):
            return False
        self.move(new, Standing.UNFINISHED)
        return True

    def _make_room(self, *, for_trusted: bool) -> bool:
        """Evict one connection; return whether one could be."""
        for trust in (False, True) if for_trusted else (False,):
            for standing in (Standing.UNFINISHED, Standing.READING):
                crowds = self._crowds[trust, standing]
                if crowds:
                    crowd = max(crowds.values(), key=lambda crowd: len(crowd))
                    self._evict(next(iter(crowd)))
                    return True
        return False

    def _evict(self, one: Incoming) -> None:
        self.move(one, None)
        one.evicted = True
        one.scope.cancel()

    def move(self, one: Incoming, standing: Standing | None) -> None:
        """Move a connection to a stage; None takes its place away."""
        before = one._standing
        if before is not None:
            crowds = self._crowds[one.trusted, before]
            crowd = crowds[one._origin]
            del crowd[one]
            if not crowd:
                del crowds[one._origin]
        if standing is not None:
            crowds = self._crowds[one.trusted, standing]
            crowds.setdefault(one._origin, {})[one] = None
        change = (standing is not None) - (before is not None)
        self._held += change
        self._held_by_strangers += 0 if one.trusted else change
        one._standing = standing


@contextlib.contextmanager
def _open_door(listener: trio.SocketListener) -> Generator[socket.socket | None]:
    """A non-blocking socket for a listener; None if the listener is not the system's."""
    named = listener.socket
    if named.fileno() < 0:
        yield None
        return
    with socket.fromfd(named.fileno(), named.family, named.type) as door:
        door.setblocking(False)
        yield door


def _peer_address(wire: trio.SocketStream) -> str:
    try:
        return str(wire.socket.getpeername()[0])
    except OSError:
        return ""  # It is gone.


def _is_gone(accepted: socket.socket) -> bool:
    """Check whether a caller left before it was accepted."""
    accepted.setblocking(False)
    try:
        if accepted.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            return True
        return not accepted.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _most_descriptors() -> float:
    """Maximum number of file descriptors of this program."""
    with contextlib.suppress(ImportError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            return soft
    return math.inf
