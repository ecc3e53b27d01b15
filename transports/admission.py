"""Admission: which connections a server keeps, and which go first when there is no room.

A connection is unfinished until its caller has said a whole request: a handshake, or a request of
HTTP. Such a connection costs its caller next to nothing, so it is the first to go. Whoever comes is
served at once; under pressure, those go who came long ago.
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
"""The most connections that wait to be accepted, as far as the system allows."""

KEPT = 16
"""Number of places kept for trusted addresses, if there are any; at most a quarter of all."""

SPARE_DESCRIPTORS = 16
"""Number of file descriptors that strangers leave to the rest of the program."""

SUMMED_SECONDS = 60.0
"""The seconds of which what strangers do is summed up in one line."""

LINES, LINES_OF_ONE = 50, 5
"""The most lines of their own that strangers get in that time, in all and from one address."""

REMEMBERED = 4096
"""The most addresses that are told apart in that time."""

_BATCH = 512
_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE = 0.02

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Standing(enum.IntEnum):
    """Stages of a connection; who is less far goes first.

    Attributes:
        UNFINISHED: its caller has yet to say a whole request.
        READING: its caller has yet to read the answer.
        ANSWERED: it waits for this side. It does not go.
    """

    UNFINISHED = 0
    READING = 1
    ANSWERED = 2


def trusted_network(text: str) -> Network:
    """The addresses that are trusted, by the words of an option.

    Raises:
        ValueError: it is no address and no network, or is everybody's.
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
    """Part of an address that counts as one: of IPv6 the first 64 bits, which one customer has."""
    try:
        # As the system writes it: what has no colon is of IPv4 already.
        parsed = ipaddress.IPv6Address(address.partition("%")[0]) if ":" in address else None
    except ValueError:
        return address
    if parsed is None:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


def is_trusted(address: str, trusted: Sequence[Network]) -> bool:
    """Return whether an address is one of those that are trusted."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return any(parsed in network for network in trusted)


class Sum(NamedTuple):
    """Count of what strangers have done in some time.

    Args:
        times: how often.
        addresses: from how many, up to ``REMEMBERED``; of IPv6, networks of 64 bits.
    """

    times: int
    addresses: int


class Strangers:
    """A count of what strangers do, so that it takes few lines of a log. Nothing of it is kept.

    Attributes:
        scarce: whether file descriptors have run short since ``take``.
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
        """Count something that gets no line of its own."""
        self._count += 1
        origin = address_origin(address)
        if origin in self._origins or len(self._origins) < REMEMBERED:
            self._origins[origin] = self._origins.get(origin, 0) + 1

    def gets_line(self, address: str) -> bool:
        """Return whether what somebody does gets a line of its own; it is counted if not."""
        origin = address_origin(address)
        lines = self._fresh.get(origin, 0)
        if self._lines >= LINES or lines >= LINES_OF_ONE:
            self.note(address)
            return False
        self._lines += 1
        self._fresh[origin] = lines + 1
        return True

    def take(self) -> Sum:
        """Take the count since the last time; it begins again."""
        taken = Sum(self._count, len(self._origins))
        self._count = self._lines = 0
        self._origins.clear()
        self._fresh.clear()
        self.scarce = False
        return taken


class Incoming:
    """A connection that was accepted, while it holds a place.

    Attributes:
        wire: its socket.
        stream: what is said over it: TLS, once that has begun.
        address: where it comes from.
        trusted: whether that is a trusted address.
        scope: is cancelled when it has to go.
        evicted: whether it had to go.
        heard: whether a whole request has come over it.
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
        """Change how far it is; among those who are as far, it is the last that came."""
        if self._standing is not None:
            self._admission.move(self, standing)

    def leave(self) -> None:
        """Give its place up: it is known who is there, or it has ended."""
        if self._standing is not None:
            self._admission.move(self, None)


class Admission:
    """The connections of a server that hold a place, whatever it serves.

    When there is no place for another one, that goes which is least far, among those of the address
    that has the most of them, and of these the oldest. Trusted addresses have places of their own,
    and do not go for strangers. If nobody can go, who comes is closed.

    Args:
        most: the most places.
        each: the most unfinished connections of one address that is not trusted: of IPv6, of one
            network of 64 bits.
        trusted: addresses whose connections do not go for those of others.
        strangers: counts connections that end before a whole request has come over them.
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
        """The number of places that are taken."""
        return self._held

    def trusts(self, address: str) -> bool:
        """Return whether an address is trusted."""
        return is_trusted(address, self._trusted)

    async def serve(
        self,
        listeners: Iterable[trio.SocketListener],
        attend: Callable[[Incoming], Awaitable[object]],
    ) -> None:
        """Accept connections until cancelled.

        Args:
            attend: what is done for each, until it has to go; its stream is closed afterwards.
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
                        # All that wait are accepted before any is served: the last come first.
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
            pass  # Nobody else is there.
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
        # A low number is given again first: a high one says that few are left.
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
        """Change how far a connection is; None takes its place away."""
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
