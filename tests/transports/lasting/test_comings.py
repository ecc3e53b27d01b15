"""Who comes and goes leaves nothing behind, neither at the hub nor at its own end."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio
import trio.testing

from protocol import AGGREGATOR, PartyId
from tests.live import LOOPBACK, Certificates, framed
from tests.transports.living import alive, growth, no_collections
from transports import handshake
from transports.connection import end
from transports.lasting.hub import open_lasting
from transports.lasting.link import LastingLink, connect_lasting
from transports.testing import HANGS, Post, identify

PARTIES = (PartyId("party-1"), PartyId("party-2"))
TIMES = 4


class Door:
    """A hub's address, and those who come to it.

    Args:
        post: whose hub it is.
        port: of the hub.
        certificates: for TLS.

    Attributes:
        said: what each party says first.
    """

    def __init__(self, post: Post, port: int, certificates: Certificates | None) -> None:
        self.post = post
        self.said = {party: post.parcels(party, AGGREGATOR, [0])[0] for party in PARTIES}
        self._port = port
        self._certificates = certificates

    def context(self, party: PartyId) -> ssl.SSLContext | None:
        """What a party needs for TLS."""
        return None if self._certificates is None else self._certificates.client(identify(party))

    @asynccontextmanager
    async def entered(self, party: PartyId) -> AsyncGenerator[LastingLink]:
        """A party's link; its program is killed at the end of the block."""
        with trio.CancelScope() as killed:
            async with connect_lasting(
                LOOPBACK,
                self._port,
                charter=self.post.charter,
                identity=identify(party),
                tls=self.context(party),
                patience=0.0,
            ) as link:
                yield link
                killed.cancel()

    async def wire(self) -> trio.SocketStream:
        """A stranger's connection."""
        return await trio.open_tcp_stream(LOOPBACK, self._port)


async def be_killed(door: Door) -> None:
    for party in PARTIES:
        async with door.entered(party):
            pass


async def be_replaced(door: Door) -> None:
    for party in PARTIES:
        async with door.entered(party) as first, door.entered(party):
            with suppress(trio.BrokenResourceError, trio.EndOfChannel):
                await first.receive()


async def repeat(door: Door) -> None:
    for party in PARTIES:
        async with door.entered(party) as link:
            await link.send(door.said[party])
            assert await link.acknowledged()


async def say_nothing(door: Door) -> None:
    await trio.aclose_forcefully(await door.wire())


async def say_nonsense(door: Door) -> None:
    wire = await door.wire()
    await wire.send_all(framed(b"nonsense"))
    with suppress(trio.BrokenResourceError):
        while await wire.receive_some():
            pass
    await wire.aclose()


async def be_unknown(door: Door) -> None:
    context = door.context(PARTIES[0])
    wire: trio.abc.Stream = await door.wire()
    if context is not None:
        wire = trio.SSLStream(wire, context, server_hostname=AGGREGATOR)
    hello = handshake.Hello(handshake.VERSION, bytes(32), PartyId("nobody"), bytes(32))
    await wire.send_all(framed(handshake.encode(hello)))
    with suppress(trio.BrokenResourceError):
        while await wire.receive_some():
            pass
    await end(wire)


@pytest.mark.parametrize("secured", [False, True], ids=["tcp", "tls"])
@pytest.mark.parametrize(
    "come",
    [be_killed, be_replaced, repeat, say_nothing, say_nonsense, be_unknown],
    ids=lambda come: come.__name__,
)
async def test_who_comes_and_goes_leaves_nothing_behind(
    come: Callable[[Door], Awaitable[None]], secured: bool, tmp_path: Path
) -> None:
    certificates = Certificates(tmp_path) if secured else None
    mine = identify(AGGREGATOR)
    tls = None if certificates is None else certificates.server(mine)
    post = Post(None)
    with trio.fail_after(HANGS):
        async with open_lasting(post.switch, mine, tls=tls, grace=HANGS) as (_, port):
            door = Door(post, port, certificates)
            await trio.testing.wait_all_tasks_blocked()
            tasks = trio.lowlevel.current_statistics().tasks_living
            # What there is once for each party stays.
            await come(door)
            with no_collections():
                counts = []
                for _ in range(3):
                    for _ in range(TIMES):
                        await come(door)
                    counts.append(await alive(tasks))
    assert not growth(counts)
