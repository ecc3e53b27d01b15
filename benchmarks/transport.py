"""Benchmarks of the transports, against trio's bare channels and streams."""

from __future__ import annotations

import datetime
import functools
import os
import ssl
import struct
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import msgspec
import trio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.timing import Benchmark, Side
from parties.actor import run_aggregator, run_machine
from protocol import AGGREGATOR, PartyId
from protocol.messages import ROLE_STREAM, Envelope
from protocol.session.exchange import Exchange
from protocol.session.machine import Machine
from protocol.session.run import published_result
from protocol.simulation.setting import Setting, make_setting
from protocol.transcript.header import make_header
from protocol.transcript.log import LOG_SECRET_BYTES
from protocol.transcript.recorder import Recorder
from protocol.variants import RRIndependent
from protocol.variants.reports.reports import Report
from scenarios import town
from scenarios.running.loopback import LOOPBACK
from transports.base import Limits, Link
from transports.certificates import Authority, private_pem
from transports.lasting.hub import open_lasting
from transports.lasting.link import connect_lasting
from transports.memory import open_memory
from transports.records.commits import Commits
from transports.records.recording import recording
from transports.switch import Switch
from transports.tcp import TcpHub, connect_tcp, open_tcp
from transports.tls import client_context, server_context

KEEP = 0.7
SEED = 1
BATCH = 256
WRITE = 65536
SINGLY = 5_000
COALESCED = 50_000
SURVEYED = 100

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
        aim=0.3,
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


class Links(Enum):
    """What the parties of a survey are connected by."""

    PLAIN = "plain links"
    COUNTING = "lasting links that count"
    RECEIPTS = "lasting links with commits and receipts"


def tls_survey() -> Benchmark:
    """What links that acknowledge, commits and receipts cost the aggregator's process.

    Of both sides the processor time of a whole survey over TLS is taken, of all threads. The
    parties are in another process.
    """
    return _acknowledged("a survey", Links.PLAIN, joining=True)


def tls_commits() -> Benchmark:
    """As ``tls_survey``, against links that acknowledge what is not yet on disk.

    Only what comes when all have joined counts: a question, a report and a head of each party.
    """
    return _acknowledged("a survey once all have joined", Links.COUNTING, joining=False)


def _acknowledged(what: str, floor: Links, *, joining: bool) -> Benchmark:
    survey = _Survey()

    def side(links: Links) -> Side:
        def run() -> float:
            joined, whole = trio.run(survey.hold, links)
            return whole if joining else whole - joined

        return Side(name=links.value, run=run)

    return Benchmark(
        title=f"TLS, {what}, {SURVEYED} parties, synced commits and receipts against neither",
        unit="party",
        units=SURVEYED,
        product=side(Links.RECEIPTS),
        floors=(side(floor),),
        aim=0.85,
        repeats=9,
    )


class _Survey:
    """A survey whose parties, in another process, come over TLS."""

    def __init__(self) -> None:
        # Deleted with this object.
        self._kept = tempfile.TemporaryDirectory(prefix="sottovoce-")
        self._folder = Path(self._kept.name)
        self._setting = _surveyed()
        issue(self._folder, self._setting)

    async def hold(self, links: Links) -> tuple[float, float]:
        """Hold it once: the seconds of processor time until all have joined, and in all."""
        durable = links is Links.RECEIPTS
        setting, file = self._setting, (self._folder / "record").open("wb", buffering=0)
        charter, mine = setting.charter, setting.identities[AGGREGATOR]
        header = make_header(charter, transport="tls")
        recorder = Recorder(
            file.write, header, signer=mine, secret=bytes(LOG_SECRET_BYTES), acknowledging=durable
        )
        commits = Commits(recorder, lambda: os.fsync(file.fileno())) if durable else None
        switch = Switch(Exchange(charter, recorder=recorder))
        tls = server_context(**files_of(self._folder, AGGREGATOR))
        opened: AbstractAsyncContextManager[tuple[TcpHub, int]]
        if links is Links.PLAIN:
            opened = open_tcp(switch, mine, tls=tls)
        else:
            opened = open_lasting(switch, mine, tls=tls, commits=commits)
        with file:
            began = time.process_time()
            joined = await self._answered(recorder, commits, opened, links)
            return joined - began, time.process_time() - began

    async def _answered(
        self,
        recorder: Recorder,
        commits: Commits | None,
        opened: AbstractAsyncContextManager[tuple[TcpHub, int]],
        links: Links,
    ) -> float:
        """When all had joined, once all are gone."""
        setting = self._setting
        charter, mine = setting.charter, setting.identities[AGGREGATOR]
        async with recording(recorder, commits), opened as (hub, port):
            call = f"answer_all({str(self._folder)!r}, {port}, {links})"
            command = [sys.executable, "-c", f"from benchmarks.transport import *; {call}"]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.run_process, command)
                async with hub.connect(AGGREGATOR) as link:
                    await hub.joined(charter.roster.parties, within=120.0)
                    joined = time.process_time()
                    machine = await run_aggregator(
                        charter, link, streams=setting.streams, identity=mine
                    )
                await hub.emptied()
        published_result(machine)
        return joined


def answer_all(folder: str, port: int, links: Links) -> None:
    """Answer for all parties of ``tls_survey``; each ends with its receipt, if there is one.

    Args:
        folder: the certificates.
        port: where the aggregator listens.
        links: the aggregator's.
    """
    setting = _surveyed()
    charter = setting.charter

    async def answer(party: PartyId) -> None:
        identity = setting.identities[party]
        machine = Machine(
            charter,
            party,
            setting.streams.stream(party, ROLE_STREAM),
            records=setting.holdings[party],
            identity=identity,
        )
        tls = client_context(**files_of(Path(folder), party))
        if links is Links.PLAIN:
            async with connect_tcp(
                LOOPBACK, port, charter=charter, identity=identity, tls=tls
            ) as link:
                await run_machine(machine, link)
            return
        async with connect_lasting(
            LOOPBACK, port, charter=charter, identity=identity, tls=tls
        ) as lasting:
            await run_machine(machine, lasting)
            if links is Links.RECEIPTS and await lasting.acknowledgement() is None:
                raise RuntimeError("no receipt")

    async def answer_each() -> None:
        async with trio.open_nursery() as nursery:
            for party in charter.roster.parties:
                nursery.start_soon(answer, party)

    trio.run(answer_each)


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
        aim=0.45 if coalesced else 1 / 2,
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
def _surveyed() -> Setting:
    """A survey of some hundred parties with a record each."""
    records = town(SURVEYED, seed=SEED)
    return make_setting(RRIndependent.with_keep(records.survey, KEEP), records, seed=SEED)


@functools.lru_cache(maxsize=1)
def _setting() -> Setting:
    records = town(1, seed=SEED)
    return make_setting(RRIndependent.with_keep(records.survey, KEEP), records, seed=SEED)


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
    with tempfile.TemporaryDirectory(prefix="sottovoce-") as name:
        folder = Path(name)
        issue(folder, setting)
        [sender] = setting.holdings
        server = server_context(**files_of(folder, AGGREGATOR))
        client = client_context(**files_of(folder, sender))
    return Contexts(server, client)


def issue(folder: Path, setting: Setting) -> None:
    """Write everybody's certificates and keys."""
    authority = Authority(
        Ed25519PrivateKey.generate(), now=datetime.datetime.now(datetime.UTC), days=1
    )
    (folder / "authority.pem").write_bytes(authority.pem)
    for member, identity in setting.identities.items():
        (folder / f"{member}.pem").write_bytes(authority.issue(identity.name, identity.public))
        (folder / f"{member}.key").write_bytes(private_pem(identity.private_key))


def files_of(folder: Path, member: PartyId) -> dict[str, Path]:
    """What a TLS context of a member is made of."""
    return {
        "authority": folder / "authority.pem",
        "certificate": folder / f"{member}.pem",
        "key": folder / f"{member}.key",
    }
