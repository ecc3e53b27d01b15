"""Benchmarks of the transports, against trio's bare channels and streams."""

from __future__ import annotations

import datetime
import functools
import ssl
import struct
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import trio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.timing import Benchmark, Side
from protocol.messages import AGGREGATOR, Envelope, PartyId
from protocol.session.exchange import Exchange
from protocol.simulation.setting import Setting, setting_of
from protocol.variants import RRIndependent
from protocol.variants.reports.reports import Report
from scenarios.datasets.town import town
from scenarios.running.simulation import LOOPBACK
from transports.base import Limits, Link
from transports.certificates import Authority, private_pem
from transports.memory import open_memory
from transports.switch import Switch
from transports.tcp import TcpHub, connect_tcp
from transports.tls import client_context, server_context

KEEP = 0.7
SEED = 1
BATCH = 256
WRITE = 65536
SINGLY = 5_000
COALESCED = 50_000

_LENGTH = struct.Struct(">I")


class Scene(NamedTuple):
    """A survey of one party, and the reports that it sends, one after the other."""

    setting: Setting
    sender: PartyId
    envelopes: tuple[Envelope, ...]


class Contexts(NamedTuple):
    """The TLS contexts of both ends, or None for plain TCP."""

    server: ssl.SSLContext | None = None
    client: ssl.SSLContext | None = None


def memory_singly() -> Benchmark:
    """One envelope at a time through the switch in memory: send, then receive."""
    scene = _scene(4 * SINGLY)

    async def product() -> float:
        async with _memory(scene) as (outbox, inbox):
            started = time.perf_counter()
            for envelope in scene.envelopes:
                await outbox.send(envelope)
                await inbox.receive()
            return time.perf_counter() - started

    async def floor() -> float:
        sending, receiving = trio.open_memory_channel[Envelope](BATCH)
        async with sending, receiving:
            started = time.perf_counter()
            for envelope in scene.envelopes:
                await sending.send(envelope)
                await receiving.receive()
            return time.perf_counter() - started

    return Benchmark(
        title="memory link, one at a time, against a bare memory channel",
        unit="message",
        units=len(scene.envelopes),
        product=Side(name="link, switch, link", run=lambda: trio.run(product)),
        floors=(Side(name="memory channel", run=lambda: trio.run(floor)),),
        aim=1 / 3,
        repeats=9,
    )


def memory_batches() -> Benchmark:
    """As ``memory_singly``, 256 envelopes at a time."""
    scene = _scene(COALESCED)
    batches = [scene.envelopes[i : i + BATCH] for i in range(0, COALESCED, BATCH)]

    async def product() -> float:
        async with _memory(scene) as (outbox, inbox):
            started = time.perf_counter()
            for batch in batches:
                await outbox.send_many(batch)
                await inbox.receive_many()
            return time.perf_counter() - started

    async def floor() -> float:
        sending, receiving = trio.open_memory_channel[Envelope](BATCH)
        async with sending, receiving:
            started = time.perf_counter()
            for batch in batches:
                await trio.lowlevel.checkpoint()
                for envelope in batch:
                    sending.send_nowait(envelope)
                await trio.lowlevel.checkpoint()
                for _ in batch:
                    receiving.receive_nowait()
            return time.perf_counter() - started

    return Benchmark(
        title=f"memory link, {BATCH} at a time, against a bare memory channel without waiting",
        unit="message",
        units=len(scene.envelopes),
        product=Side(name="link, switch, link", run=lambda: trio.run(product)),
        floors=(Side(name="memory channel", run=lambda: trio.run(floor)),),
        repeats=9,
    )


def tcp_singly() -> Benchmark:
    """Every envelope in a write of its own over TCP; the other side reads what is there."""
    return _streamed("TCP", Contexts(), coalesced=False)


def tcp_coalesced() -> Benchmark:
    """Envelopes over TCP in writes of up to 64 KiB."""
    return _streamed("TCP", Contexts(), coalesced=True)


def tls_singly() -> Benchmark:
    """Every envelope in a write of its own over TLS."""
    return _streamed("TLS", _contexts(_scene(0).setting), coalesced=False)


def tls_coalesced() -> Benchmark:
    """Envelopes over TLS in writes of up to 64 KiB."""
    return _streamed("TLS", _contexts(_scene(0).setting), coalesced=True)


def _streamed(name: str, contexts: Contexts, *, coalesced: bool) -> Benchmark:
    scene = _scene(COALESCED if coalesced else SINGLY)

    async def product() -> float:
        async with _switched(scene, contexts) as (outbox, inbox):

            async def write() -> None:
                if coalesced:
                    await outbox.send_many(scene.envelopes)
                    return
                for envelope in scene.envelopes:
                    await outbox.send(envelope)

            async def read() -> None:
                missing = len(scene.envelopes)
                while missing:
                    missing -= len(await inbox.receive_many())

            return await _both(write, read)

    async def floor() -> float:
        encode = msgspec.msgpack.Encoder().encode
        decode = msgspec.msgpack.Decoder(Envelope).decode
        async with _bare(contexts) as (near, far):

            async def write() -> None:
                if coalesced:
                    for piece in _pieces(map(encode, scene.envelopes)):
                        await near.send_all(piece)
                    return
                for envelope in scene.envelopes:
                    payload = encode(envelope)
                    await near.send_all(_LENGTH.pack(len(payload)) + payload)

            async def read() -> None:
                missing = len(scene.envelopes)
                buffer = bytearray()
                while missing:
                    buffer += await far.receive_some(WRITE)
                    start = 0
                    while len(buffer) - start >= _LENGTH.size:
                        (length,) = _LENGTH.unpack_from(buffer, start)
                        end = start + _LENGTH.size + length
                        if end > len(buffer):
                            break
                        decode(bytes(buffer[start + _LENGTH.size : end]))
                        start = end
                        missing -= 1
                    del buffer[:start]

            return await _both(write, read)

    how = "coalesced into writes of 64 KiB" if coalesced else "one write each"
    return Benchmark(
        title=f"{name}, {how}, against bare framed streams",
        unit="message",
        units=len(scene.envelopes),
        product=Side(name="link, switch, link", run=lambda: trio.run(product)),
        floors=(Side(name="stream to stream", run=lambda: trio.run(floor)),),
        aim=1 / 4 if coalesced else 1 / 2,
        repeats=9,
    )


async def _both(write: Callable[[], Awaitable[None]], read: Callable[[], Awaitable[None]]) -> float:
    """How long it takes until everything is written and read."""
    started = time.perf_counter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        nursery.start_soon(read)
    return time.perf_counter() - started


def _pieces(payloads: Iterable[bytes]) -> Iterator[bytes]:
    """Framed payloads, joined into pieces of up to 64 KiB."""
    parts: list[bytes] = []
    size = 0
    for payload in payloads:
        if size + _LENGTH.size + len(payload) > WRITE:
            yield b"".join(parts)
            parts.clear()
            size = 0
        parts += (_LENGTH.pack(len(payload)), payload)
        size += _LENGTH.size + len(payload)
    yield b"".join(parts)


@asynccontextmanager
async def _memory(scene: Scene) -> AsyncGenerator[tuple[Link, Link]]:
    """The party's and the aggregator's link to one switch in memory."""
    switch = _switch(scene)
    async with (
        open_memory(switch) as hub,
        hub.connect(AGGREGATOR) as inbox,
        hub.connect(scene.sender) as outbox,
    ):
        yield outbox, inbox


@asynccontextmanager
async def _switched(scene: Scene, contexts: Contexts) -> AsyncGenerator[tuple[Link, Link]]:
    """The party's link over the loopback, and the aggregator's in the switch's process."""
    charter, identities = scene.setting.charter, scene.setting.identities
    switch = _switch(scene)
    hub = TcpHub(switch, identities[AGGREGATOR], tls=contexts.server)
    [listener] = await trio.open_tcp_listeners(0, host=LOOPBACK)
    port: int = listener.socket.getsockname()[1]
    async with listener, trio.open_nursery() as nursery:
        nursery.start_soon(switch.run)
        nursery.start_soon(hub.serve, listener)
        async with (
            hub.connect(AGGREGATOR) as inbox,
            connect_tcp(
                LOOPBACK,
                port,
                charter=charter,
                identity=identities[scene.sender],
                tls=contexts.client,
            ) as outbox,
        ):
            await hub.joined(charter.roster.parties, within=10.0)
            yield outbox, inbox
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _bare(
    contexts: Contexts,
) -> AsyncGenerator[tuple[trio.abc.Stream, trio.abc.Stream]]:
    """Two ends of one connection over the loopback."""
    [listener] = await trio.open_tcp_listeners(0, host=LOOPBACK)
    async with listener:
        port: int = listener.socket.getsockname()[1]
        near: trio.abc.Stream = await trio.open_tcp_stream(LOOPBACK, port)
        far: trio.abc.Stream = await listener.accept()
    if contexts.server is not None and contexts.client is not None:
        client = near = trio.SSLStream(near, contexts.client, server_hostname=AGGREGATOR)
        server = far = trio.SSLStream(far, contexts.server, server_side=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.do_handshake)
            nursery.start_soon(server.do_handshake)
    try:
        yield near, far
    finally:
        await trio.aclose_forcefully(near)
        await trio.aclose_forcefully(far)


def _switch(scene: Scene) -> Switch:
    """A switch that lets one party send as much as is asked of it here."""
    limits = Limits(envelopes=len(scene.envelopes))
    return Switch(Exchange(scene.setting.charter), limits)


@functools.lru_cache(maxsize=1)
def _setting() -> Setting:
    records = town(1, seed=SEED)
    return setting_of(RRIndependent.with_keep(records.survey, KEEP), records, seed=SEED)


def _scene(count: int) -> Scene:
    setting = _setting()
    charter = setting.charter
    [(sender, records)] = setting.holdings.items()
    body = charter.codec.encode(Report(records.codes))
    envelopes = tuple(
        Envelope(charter.session, sender, AGGREGATOR, seq, Report.kind(), body)
        for seq in range(count)
    )
    return Scene(setting, sender, envelopes)


def _contexts(setting: Setting) -> Contexts:
    """TLS contexts of the aggregator and the one party; OpenSSL wants keys in files."""
    authority = Authority(
        Ed25519PrivateKey.generate(), now=datetime.datetime.now(datetime.UTC), days=1
    )
    with tempfile.TemporaryDirectory(prefix="sottovoce-") as name:
        folder = Path(name)
        root = folder / "authority.pem"
        root.write_bytes(authority.pem)
        for member, identity in setting.identities.items():
            (folder / f"{member}.pem").write_bytes(authority.issue(identity.name, identity.public))
            (folder / f"{member}.key").write_bytes(private_pem(identity.private_key))
        [sender] = setting.holdings
        server, client = (
            make(
                authority=root,
                certificate=folder / f"{member}.pem",
                key=folder / f"{member}.key",
            )
            for make, member in ((server_context, AGGREGATOR), (client_context, sender))
        )
    return Contexts(server, client)
