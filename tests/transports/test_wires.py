"""Somebody on the wire between a party and the aggregator, who reads what passes and changes it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest
import trio

from protocol import PartyId
from protocol.messages import Envelope
from protocol.transcript.entries import Sent
from protocol.wire.codec import decode_envelope
from tests.live import LOOPBACK, Certificates, Sockets, sockets
from transports.base import Limits, Link
from transports.tcp import connect_tcp
from transports.testing import HANGS, Parcel, Post, identify

A, B = PartyId("party-1"), PartyId("party-2")
WORDS, OTHERS = b"she smokes, and drinks", b"she smokes, and sleeps"


class Wire:
    """A wire that keeps what passes; ``change`` makes what arrives of what a party sends."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.seen = bytearray()
        self.change: Callable[[bytes], bytes] = bytes

    async def carry(self, caller: trio.SocketStream) -> None:
        """Pass on what a caller and the aggregator say, until one of them ends."""
        async with (
            await trio.open_tcp_stream(LOOPBACK, self.port) as hub,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(self._pump, caller, hub, lambda words: self.change(words))
            await self._pump(hub, caller, bytes)
            nursery.cancel_scope.cancel()

    async def _pump(
        self,
        source: trio.SocketStream,
        sink: trio.SocketStream,
        change: Callable[[bytes], bytes],
    ) -> None:
        with suppress(trio.BrokenResourceError):
            async for words in source:
                self.seen += words
                await sink.send_all(change(bytes(words)))
            await sink.send_eof()


@asynccontextmanager
async def tapped(
    certificates: Certificates | None, limits: Limits | None = None
) -> AsyncGenerator[tuple[Post, Wire, Link, Sockets]]:
    """A party that is connected by such a wire."""
    post = Post(None)
    async with (
        sockets(post.switch, identify, certificates) as hub,
        trio.open_nursery() as tap,
    ):
        wire = Wire(hub.port)
        [listener] = await trio.open_tcp_listeners(0, host=LOOPBACK)
        tap.start_soon(trio.serve_listeners, wire.carry, [listener])
        port = listener.socket.getsockname()[1]
        identity = identify(A)
        tls = certificates.client(identity) if certificates else None
        async with connect_tcp(
            LOOPBACK, port, charter=post.charter, identity=identity, tls=tls, limits=limits
        ) as link:
            yield post, wire, link, hub
        tap.cancel_scope.cancel()


def contents(envelopes: list[Envelope]) -> list[bytes]:
    return [msgspec.msgpack.decode(item.body, type=Parcel).content for item in envelopes]


async def test_over_tls_a_wire_shows_no_words_and_nothing_that_is_changed_arrives(
    tmp_path: Path,
) -> None:
    async with (
        tapped(Certificates(tmp_path)) as (post, wire, link, hub),
        hub.connect(B) as other,
    ):
        [first, second] = post.parcels(A, B, range(2), WORDS)
        with trio.fail_after(HANGS):
            await link.send_many([first])
            assert contents([await other.receive()]) == [WORDS]
            assert WORDS not in wire.seen
            assert len(wire.seen) > 1000
            wire.change = lambda words: words[:-1] + bytes([words[-1] ^ 1])
            await link.send_many([second])
            assert (await other.receive()).kind == "Left"
            with pytest.raises((trio.BrokenResourceError, trio.EndOfChannel)):
                await link.receive()
    sent = [decode_envelope(each.envelope) for each in post.entries() if isinstance(each, Sent)]
    assert sent == [first]


async def test_over_tcp_a_wire_shows_all_words_and_changes_them() -> None:
    async with tapped(None) as (post, wire, link, hub), hub.connect(B) as other:
        wire.change = lambda words: words.replace(WORDS, OTHERS)
        with trio.fail_after(HANGS):
            await link.send_many(post.parcels(A, B, [0], WORDS))
            assert contents([await other.receive()]) == [OTHERS]
        assert WORDS in wire.seen


async def test_a_party_that_has_ended_waits_so_long_for_its_words_to_be_read() -> None:
    with trio.fail_after(30):
        async with tapped(None, Limits(goodbye=0.2)) as (_, wire, _, _):
            wire.change = lambda words: b""
