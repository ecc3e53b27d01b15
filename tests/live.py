"""Small surveys with every member live, over any transport, for tests."""

from __future__ import annotations

import datetime
import functools
import math
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from ssl import SSLContext
from typing import Any

import msgspec
import trio
import trio.testing
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parties.session import run_session
from protocol import AGGREGATOR, PartyId, Variant
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.fates import FateRule
from protocol.session.roster import Identity
from protocol.session.run import Run
from protocol.simulation.setting import Setting, make_setting
from protocol.transcript.entries import Departed, Entry, Refused
from protocol.transcript.header import make_header
from protocol.transcript.log import seed_log_secret
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from protocol.transcript.verification import verify
from protocol.variants import RRIndependent
from tests.parties.adversaries import Disguise, Infiltrated
from tests.recorded.runs import SURVEY, answers
from transports import handshake
from transports.base import Limits, Link
from transports.certificates import Authority, private_pem
from transports.memory import MemoryHub, open_memory
from transports.switch import Switch
from transports.tcp import TcpHub, connect_tcp, open_tcp
from transports.testing import HANGS
from transports.tls import client_context, server_context

LOOPBACK = "127.0.0.1"


def town(
    parties: int = 12, *, seed: int = 1, variant: Variant | None = None, **terms: Any
) -> Setting:
    """A town of so many parties with one record each.

    Args:
        terms: parameters of the variant that differ from the defaults.
    """
    chosen = msgspec.structs.replace(variant or RRIndependent.with_keep(SURVEY, 0.7), **terms)
    return make_setting(chosen, answers(chosen.survey, parties, seed), seed=seed)


class Certificates:
    """PEM files of an authority and of whoever is asked for."""

    def __init__(self, folder: Path, *, seed: bytes = b"authority") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.authority = folder / "authority.pem"
        key = Ed25519PrivateKey.from_private_bytes(seed.ljust(32, b"."))
        self._authority = Authority(key, now=datetime.datetime.now(datetime.UTC), days=1)
        self.authority.write_bytes(self._authority.pem)

    def files(self, identity: Identity) -> tuple[Path, Path]:
        certificate = self.folder / f"{identity.name}.pem"
        key = self.folder / f"{identity.name}.key"
        if not key.exists():
            certificate.write_bytes(self._authority.issue(identity.name, identity.public))
            key.write_bytes(private_pem(identity.private_key))
        return certificate, key

    def server(self, identity: Identity) -> SSLContext:
        certificate, key = self.files(identity)
        return server_context(authority=self.authority, certificate=certificate, key=key)

    def client(self, identity: Identity) -> SSLContext:
        certificate, key = self.files(identity)
        return client_context(authority=self.authority, certificate=certificate, key=key)


class Sockets:
    """A hub whose parties, in this process, come over sockets."""

    def __init__(
        self,
        hub: TcpHub,
        port: int,
        charter: Charter,
        identify: Callable[[PartyId], Identity],
        contexts: Callable[[Identity], SSLContext | None],
        limits: Limits,
    ) -> None:
        self.hub = hub
        self.port = port
        self._charter = charter
        self._identify = identify
        self._contexts = contexts
        self._limits = limits

    def connect(self, member: PartyId) -> AbstractAsyncContextManager[Link]:
        if member == AGGREGATOR:
            return self.hub.connect(member)
        identity = self._identify(member)
        return connect_tcp(
            LOOPBACK,
            self.port,
            charter=self._charter,
            identity=identity,
            tls=self._contexts(identity),
            limits=self._limits,
        )

    async def joined(self, members: Iterable[PartyId], *, within: float) -> None:
        await self.hub.joined(members, within=within)


@asynccontextmanager
async def sockets(
    switch: Switch,
    identify: Callable[[PartyId], Identity],
    certificates: Certificates | None = None,
) -> AsyncGenerator[Sockets]:
    """A hub on the loopback interface: TLS if there are certificates."""
    mine = identify(AGGREGATOR)
    tls = certificates.server(mine) if certificates else None
    contexts = certificates.client if certificates else lambda _: None
    async with open_tcp(switch, mine, tls=tls) as (hub, port):
        yield Sockets(hub, port, switch.exchange.charter, identify, contexts, switch.limits)


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


@asynccontextmanager
async def entered(
    hub: Sockets, charter: Charter, identity: Identity
) -> AsyncGenerator[trio.SocketStream]:
    """A party's bare TCP stream, after its welcome; it closes without a goodbye."""
    async with await trio.open_tcp_stream(LOOPBACK, hub.port) as wire:
        hello = handshake.Hello(handshake.VERSION, charter.survey_id, identity.name, bytes(32))
        await wire.send_all(framed(handshake.encode(hello)))
        challenge = handshake.decode(handshake.Challenge, (await wire.receive_some())[4:])
        handshake.check_challenge(charter.roster, hello, challenge)
        proof = handshake.prove(identity, hello, challenge)
        await wire.send_all(framed(handshake.encode(proof)))
        handshake.decode(handshake.Welcome, (await wire.receive_some())[4:])
        yield wire


@asynccontextmanager
async def hub_of(
    transport: str, switch: Switch, where: Setting, folder: Path | None = None
) -> AsyncGenerator[MemoryHub | Sockets]:
    """A hub by the name of its transport; TLS needs a folder."""
    if transport == "memory":
        async with open_memory(switch) as hub:
            yield hub
        return
    certificates = Certificates(folder) if transport == "tls" and folder else None
    async with sockets(switch, where.identities.__getitem__, certificates) as loopback:
        yield loopback


class Live:
    """A run with live members, under way or over, and its record.

    Attributes:
        run: how it went, once it is over.
        digest: the canonical digest, likewise.
    """

    run: Run
    digest: bytes

    def __init__(
        self,
        where: Setting,
        *,
        fate: FateRule | None = None,
        exchange: type[Exchange] = Exchange,
        seeded: bool = True,
    ) -> None:
        self.charter = where.charter
        self._parts: list[bytes] = []
        header = make_header(where.charter, seed=where.seed if seeded else None)
        secret = None if seeded else seed_log_secret(where.seed)
        self._recorder = Recorder(self._parts.append, header, secret=secret)
        self.exchange = exchange(where.charter, recorder=self._recorder, fate=fate)

    def close(self) -> None:
        """The record is over; it has to be sound."""
        self.digest = self._recorder.close()
        verification = verify(self.content, digest=self.digest)
        assert verification.intact, verification.faults

    @property
    def content(self) -> bytes:
        return b"".join(self._parts)

    @property
    def entries(self) -> list[Entry]:
        return list(TranscriptReader(self.content))

    @property
    def published(self) -> Any:
        return self.run.result

    @property
    def result_bytes(self) -> bytes:
        return self.charter.codec.encode(self.run.result)

    @property
    def endings(self) -> Mapping[PartyId, str]:
        return self.run.endings

    def refused(self) -> list[Refused]:
        return [entry for entry in self.entries if isinstance(entry, Refused)]

    def departed(self) -> dict[PartyId, str]:
        return {entry.party: entry.reason for entry in self.entries if isinstance(entry, Departed)}


async def run_live(
    where: Setting,
    transport: str = "memory",
    *,
    folder: Path | None = None,
    limits: Limits | None = None,
    within: float = HANGS,
    live: Live | None = None,
    fate: FateRule | None = None,
    adversaries: Mapping[PartyId, Disguise] | None = None,
    **options: Any,
) -> Live:
    """Run a survey with live members.

    Args:
        within: how long it may take, in seconds.
        live: the run, if a test wants it even if it fails.
        options: as ``run_session`` has them.
    """
    live = live or Live(where, fate=fate)
    options = {"holdings": where.holdings, "identities": where.identities, **options}
    try:
        async with hub_of(transport, Switch(live.exchange, limits), where, folder) as hub:
            with trio.fail_after(within):
                live.run = await run_session(
                    where.charter, Infiltrated(hub, adversaries or {}), where.streams, **options
                )
    finally:
        live.close()
    return live


def run_over_memory(where: Setting, **options: Any) -> Live:
    """Run a survey with live members over memory, on a clock that jumps."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    return trio.run(functools.partial(run_live, where, within=math.inf, **options), clock=clock)
