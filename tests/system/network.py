"""A network in memory, in virtual time: TCP as trio sees it, with whatever may befall it.

It stands in for the operating system's sockets (``trio.socket.set_custom_socket_factory``), so all
that is above them is the program's own code, TLS included. Bytes of a direction arrive in order,
after a time; a connection may be cut at a byte, fall silent there, or lose a bit; a member may be
out of reach for a while.
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import itertools
import math
import os
import socket
from collections import deque
from collections.abc import Callable, Generator
from random import Random

import trio

from tests.system.hosts import Host, here
from tests.system.schedule import Cut

PORT = 7000
WINDOW = 65536
LATENCY = 0.002, 0.05
"""From sending to arriving, in seconds: drawn for each connection."""

REACH = 75.0
"""How long a system tries to connect to one that does not answer, in seconds."""

RETRANSMIT = 900.0
"""How long a system goes on sending to one that does not answer, in seconds."""


class Pipe:
    """One direction of a connection.

    Args:
        connection: its.
        reader: the host at its end.
    """

    def __init__(self, connection: Connection, reader: Host) -> None:
        self.connection = connection
        self.reader = reader
        self.sent = 0
        self.unread = 0
        # All that was sent, as it was meant.
        self.said = bytearray()
        self.waiting: deque[bytes] = deque()
        self.ended = False
        self.closed = False
        # What reading, or writing, raises from now on.
        self.broken: int | None = None
        self.silent = False
        self.came = trio.Event()
        self.room = trio.Event()

    def arrive(self, content: bytes) -> None:
        if self.closed:
            # Nobody reads it any more: its system says so.
            self.connection.later(1 - self.connection.pipes.index(self), self.connection.reset)
        elif self.broken is None:
            self.waiting.append(content)
            self.tell()

    def end(self) -> None:
        self.ended = True
        self.tell()

    def tell(self) -> None:
        self.came.set()
        self.room.set()

    def read(self, most: int) -> bytes | None:
        """What has come; None if nothing has."""
        if self.waiting:
            content = self.waiting.popleft()
            if len(content) > most:
                self.waiting.appendleft(content[most:])
                content = content[:most]
            self.unread -= len(content)
            self.room.set()
            return content
        if self.broken is not None:
            raise OSError(self.broken, os.strerror(self.broken))
        return b"" if self.ended else None


def is_length(said: bytes, byte: int) -> bool:
    """Whether a byte of a TLS connection is one of a record's length (RFC 8446, section 5.1)."""
    start = 0
    while start + 5 <= byte:
        start += 5 + int.from_bytes(said[start + 3 : start + 5], "big")
    return start + 3 <= byte < start + 5


class Connection:
    """Two directions between two hosts.

    Args:
        network: its.
        dialer, listener: who connected, and to whom.
        number: which connection of the dialer's it is, from 0.
    """

    def __init__(self, network: Network, dialer: Host, listener: Host, number: int) -> None:
        self.network = network
        self.hosts = (dialer, listener)
        self.number = number
        self.latency = network.random.uniform(*LATENCY)
        # To the listener, and back.
        self.pipes = (Pipe(self, listener), Pipe(self, dialer))
        self.due = [0.0, 0.0]
        self.cuts = [cut for cut in network.cuts if cut.befalls(dialer.name, number)]

    def send(self, side: int, content: bytes) -> None:
        """Bytes of a side leave; what is to befall them does."""
        pipe = self.pipes[side]
        start, pipe.sent = pipe.sent, pipe.sent + len(content)
        pipe.said += content
        if self.number == 0:
            self.network.sent[self.hosts[0].name] = (self.pipes[0].sent, self.pipes[1].sent)
        for cut in self.cuts:
            if cut.side == side and start <= cut.byte < pipe.sent:
                place = cut.byte - start
                if cut.how == "flip":
                    if is_length(pipe.said, cut.byte):
                        self.network.stalled.add(cut)
                    flipped = bytes([content[place] ^ 1 << cut.byte % 8])
                    content = content[:place] + flipped + content[place + 1 :]
                    continue
                self.later(side, content[:place])
                if cut.how == "reset":
                    self.later(side, self.reset)
                else:
                    for one in self.pipes if cut.how == "silent" else (pipe,):
                        one.silent = True
                return
        self.later(side, content)

    def later(self, side: int, what: bytes | Callable[[], None]) -> None:
        """Something reaches the other end, after what was sent before."""
        pipe = self.pipes[side]
        network = self.network
        if pipe.silent:
            if network.is_back(pipe.reader):
                # A system that knows nothing of a connection says so.
                network.at(trio.current_time() + 2 * self.latency, self.reset)
            return
        if isinstance(what, bytes):
            if not what:
                return
            pipe.unread += len(what)
        now = trio.current_time()
        due = max(now + self.latency, self.due[side], network.reachable_at(self, now))
        self.due[side] = due
        if due - now > RETRANSMIT:
            network.at(now + RETRANSMIT, self.reset)
            return

        def happen() -> None:
            if pipe.silent:
                return
            if isinstance(what, bytes):
                pipe.arrive(what)
            else:
                what()

        network.at(due, happen)

    def reset(self) -> None:
        """Both ends learn that it is broken."""
        for pipe in self.pipes:
            if pipe.broken is None:
                pipe.broken = errno.ECONNRESET
            pipe.tell()

    def fall_silent(self) -> None:
        """Nothing arrives any more, and nobody learns of it."""
        for pipe in self.pipes:
            pipe.silent = True


class Socket(trio.socket.SocketType):
    """A socket of a host."""

    def __init__(self, network: Network, host: Host, family: int, proto: int) -> None:
        self._network = network
        self.host = host
        self._family, self._proto = family, proto
        self._connection: Connection | None = None
        self._side = 0
        self._calls: deque[Socket] | None = None
        self._called = trio.Event()
        self._closed = False
        self._shut = False
        self._descriptor = -1

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AddressFamily(self._family)

    @property
    def type(self) -> socket.SocketKind:
        return socket.SOCK_STREAM

    @property
    def proto(self) -> int:
        return self._proto

    @property
    def did_shutdown_SHUT_WR(self) -> bool:
        return self._shut

    def setsockopt(self, *_: object) -> None:
        pass

    def getsockopt(self, *_: object) -> int:
        return 1

    def getpeername(self) -> tuple[str, int]:
        return ("127.0.0.1", PORT)

    def getsockname(self) -> tuple[str, int]:
        return ("127.0.0.1", PORT)

    async def bind(self, address: object) -> None:
        await trio.lowlevel.checkpoint()

    def listen(self, backlog: int = 0) -> None:
        if self._network.listening is not None:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        self._calls = deque()
        self._network.listening = self

    async def accept(self) -> tuple[trio.socket.SocketType, object]:
        await trio.lowlevel.checkpoint()
        while True:
            self._check()
            if self._calls:
                return self._calls.popleft(), None
            self._called = trio.Event()
            await self._called.wait()

    async def connect(self, address: object) -> None:
        await self._network.connect(self)

    def attach(self, connection: Connection, side: int) -> None:
        self._connection, self._side = connection, side

    def call(self, caller: Socket) -> None:
        """Somebody connects to this one, which listens."""
        assert self._calls is not None
        self._calls.append(caller)
        self._called.set()

    @property
    def _incoming(self) -> Pipe:
        assert self._connection is not None
        return self._connection.pipes[1 - self._side]

    @property
    def _outgoing(self) -> Pipe:
        assert self._connection is not None
        return self._connection.pipes[self._side]

    async def send(self, content: bytes | bytearray | memoryview, flags: int = 0) -> int:
        await trio.lowlevel.checkpoint()
        while True:
            self._check()
            pipe = self._outgoing
            if pipe.broken is not None or pipe.ended:
                raise OSError(errno.EPIPE, "Broken pipe")
            if pipe.unread < WINDOW:
                break
            pipe.room = trio.Event()
            await pipe.room.wait()
        some = bytes(content[: WINDOW - pipe.unread])
        if not self.host.dead:
            assert self._connection is not None
            self._connection.send(self._side, some)
        return len(some)

    async def recv(self, most: int, flags: int = 0) -> bytes:
        await trio.lowlevel.checkpoint()
        while True:
            self._check()
            pipe = self._incoming
            content = pipe.read(most)
            if content is not None:
                self._heed()
                return content
            pipe.came = trio.Event()
            await pipe.came.wait()

    def shutdown(self, how: int) -> None:
        self._check()
        self._shut = True
        if self._connection is not None and not self.host.dead:
            self._connection.later(self._side, self._outgoing.end)

    def fileno(self) -> int:
        """A file that can be read as long as there is something to receive: for ``select``."""
        if self._closed or self._connection is None:
            return -1
        if self._descriptor < 0:
            self._descriptor = os.eventfd(0, os.EFD_NONBLOCK)
            self._network.watched[self._incoming] = self
            self.heed()
        return self._descriptor

    def heed(self) -> None:
        """Something has come, or was read."""
        pipe = self._incoming
        if self._descriptor < 0:
            return
        if pipe.waiting or pipe.ended or pipe.broken is not None:
            os.eventfd_write(self._descriptor, 1)
        else:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._descriptor)

    def _heed(self) -> None:
        if self._descriptor >= 0:
            self.heed()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        network = self._network
        if network.listening is self:
            network.listening = None
            for caller in self._calls or ():
                caller.close()
        self._called.set()
        if self._descriptor >= 0:
            network.watched.pop(self._incoming, None)
            trio.lowlevel.notify_closing(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
        if self._connection is not None:
            self._incoming.tell()
            self._outgoing.tell()
            if not self.host.dead:
                self.hang_up()

    def hang_up(self) -> None:
        """What the system says when a socket is closed: a reset if something was not read."""
        connection = self._connection
        assert connection is not None
        unread = self._incoming.waiting
        self._incoming.closed = True
        if unread:
            connection.later(self._side, connection.reset)
        else:
            connection.later(self._side, self._outgoing.end)

    def _check(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError("this socket was closed")


class Network(trio.abc.SocketFactory):
    """All hosts, one of which listens.

    Args:
        random: draws latencies.
        cuts: what befalls connections.
    """

    def __init__(self, random: Random, cuts: list[Cut]) -> None:
        self.random = random
        self.cuts = cuts
        # The flipped bits that leave a reader waiting for more than was sent: it is like silence.
        self.stalled: set[Cut] = set()
        self.listening: Socket | None = None
        self.watched: dict[Pipe, Socket] = {}
        self._sockets: list[Socket] = []
        self._running: dict[str, Host] = {}
        self._away: dict[str, float] = {}
        self._dialed: dict[str, int] = {}
        # Of each party's first connection, what both ends have sent.
        self.sent: dict[str, tuple[int, int]] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._news = trio.Event()

    def socket(
        self,
        family: int = socket.AF_INET,
        type: int = socket.SOCK_STREAM,  # noqa: A002, a name of trio's
        proto: int = 0,
    ) -> Socket:
        made = Socket(self, here(), family, proto)
        self._sockets.append(made)
        return made

    def at(self, due: float, happen: Callable[[], None]) -> None:
        """Let something happen at a time."""
        heapq.heappush(self._events, (due, next(self._numbers), happen))
        self._news.set()

    async def run(self) -> None:
        """Let happen what is due, until cancelled."""
        while True:
            now = trio.current_time()
            while self._events and self._events[0][0] <= now:
                heapq.heappop(self._events)[2]()
            for watcher in [*self.watched.values()]:
                watcher.heed()
            self._news = trio.Event()
            with trio.move_on_at(self._events[0][0] if self._events else math.inf):
                await self._news.wait()

    def begin(self, host: Host) -> None:
        """A member's machine runs."""
        self._running[host.name] = host

    def is_back(self, host: Host) -> bool:
        """Whether a machine has lost power and runs again."""
        return host.dead and self._running[host.name] is not host

    def part(self, name: str, seconds: float) -> None:
        """A member is out of reach for so long."""
        until = trio.current_time() + seconds
        self._away[name] = max(until, self._away.get(name, 0.0))

    def reachable_at(self, connection: Connection, now: float) -> float:
        """When the two ends of a connection reach each other."""
        return max(now, *(self._away.get(host.name, 0.0) for host in connection.hosts))

    async def connect(self, caller: Socket) -> None:
        """Connect to who listens.

        Raises:
            OSError: nobody does, or it is out of reach.
        """
        name = caller.host.name
        number = self._dialed[name] = self._dialed.get(name, -1) + 1
        give_up = trio.current_time() + REACH
        while True:
            await trio.sleep(self.random.uniform(*LATENCY))
            away = max(self._away.get(name, 0.0), self._away.get("aggregator", 0.0))
            if away > trio.current_time():
                if away > give_up:
                    await trio.sleep_until(give_up)
                    raise OSError(errno.ETIMEDOUT, "Connection timed out")
                await trio.sleep_until(away)
                continue
            break
        listening = self.listening
        if listening is None or listening.host.dead:
            raise OSError(errno.ECONNREFUSED, "Connection refused")
        connection = Connection(self, caller.host, listening.host, number)
        caller.attach(connection, 0)
        answering = Socket(self, listening.host, caller.family, caller.proto)
        answering.attach(connection, 1)
        self._sockets.append(answering)
        listening.call(answering)

    def drop(self, host: Host, *, silently: bool) -> None:
        """A host is gone: its system closes its sockets, or is gone as well.

        Args:
            silently: nothing more arrives from it, and nobody learns of it.
        """
        for one in self._sockets:
            if one.host is not host:
                continue
            if one is self.listening:
                self.listening = None
            connection = one._connection
            if connection is None or one._closed:
                continue
            if silently:
                connection.fall_silent()
            else:
                one.hang_up()
        self._sockets = [one for one in self._sockets if one.host is not host]


@contextlib.contextmanager
def installed(network: Network) -> Generator[None]:
    """Have trio use this network in the block, inside a run."""
    before = trio.socket.set_custom_socket_factory(network)
    try:
        yield
    finally:
        trio.socket.set_custom_socket_factory(before)
