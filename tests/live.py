"""Small surveys with every member live, over any transport, for tests."""

from __future__ import annotations

import datetime
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext
from typing import Any

import numpy as np
import trio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parties.session import run_session
from protocol.crypto.randomness import Streams, secret_of, session_of
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.local import run_locally
from protocol.session.roster import Identity, Roster
from protocol.session.run import Run
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from protocol.transcript.entries import Departed, Entry, Refused
from protocol.transcript.header import header_of
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from protocol.transcript.verification import verify
from protocol.variants import RRIndependent
from tests.parties.adversaries import Disguise, Infiltrated
from transports import handshake
from transports.base import Limits, Link
from transports.certificates import Authority, private_pem
from transports.faults import Fault, faults
from transports.memory import MemoryHub, open_memory
from transports.switch import Switch
from transports.tcp import TcpHub, connect_tcp, open_tcp
from transports.tls import client_context, server_context

LOOPBACK = "127.0.0.1"
SURVEY = Survey(
    "habits",
    (
        Attribute(name="smokes", categories=("no", "yes")),
        Attribute(name="sleeps", categories=("ill", "well", "soundly")),
    ),
)


@dataclass(frozen=True)
class Town:
    """A survey and those who take part."""

    charter: Charter
    streams: Streams
    identities: Mapping[PartyId, Identity]
    holdings: Mapping[PartyId, Records]

    def recorder(self, sink: Callable[[bytes], object]) -> Recorder:
        return Recorder(sink, header_of(self.charter, seed=1))


def town(parties: int = 12, *, seed: int = 1, variant: Variant | None = None, **terms: Any) -> Town:
    """A town of so many parties with one record each.

    Args:
        terms: parameters of the variant that differ from the defaults.
    """
    chosen = variant or RRIndependent.with_keep(SURVEY, 0.7)
    if terms:
        fields = {name: getattr(chosen, name) for name in chosen.__struct_fields__}
        chosen = type(chosen)(**{**fields, **terms})
    secret = secret_of(seed)
    session = session_of(secret)
    streams = Streams(secret, session)
    names = [PartyId(f"party-{i}") for i in range(1, parties + 1)]
    identities = {
        name: Identity(name, streams.stream(name, "identity").bytes(32))
        for name in (AGGREGATOR, *names)
    }
    codes = np.random.default_rng(seed).integers(0, SURVEY.sizes, (parties, 2)).astype(np.uint8)
    return Town(
        charter=Charter(
            session=session,
            variant=chosen,
            roster=Roster(tuple((name, who.public) for name, who in identities.items())),
        ),
        streams=streams,
        identities=identities,
        holdings=dict(zip(names, Records.from_codes(SURVEY, codes).split(parties), strict=True)),
    )


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
            certificate.write_bytes(self._authority.issue(identity))
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
        hello = handshake.Hello(handshake.VERSION, charter.session, identity.name, bytes(32))
        await wire.send_all(framed(handshake.encode(hello)))
        challenge = handshake.decode(handshake.Challenge, (await wire.receive_some())[4:])
        proof = handshake.prove(identity, charter.roster, hello, challenge)
        await wire.send_all(framed(handshake.encode(proof)))
        handshake.decode(handshake.Welcome, (await wire.receive_some())[4:])
        yield wire


@asynccontextmanager
async def hub_of(
    transport: str, switch: Switch, where: Town, folder: Path | None = None
) -> AsyncGenerator[MemoryHub | Sockets]:
    """A hub by the name of its transport; TLS needs a folder."""
    if transport == "memory":
        async with open_memory(switch) as hub:
            yield hub
        return
    certificates = Certificates(folder) if transport == "tls" and folder else None
    async with sockets(switch, where.identities.__getitem__, certificates) as loopback:
        yield loopback


@dataclass(frozen=True)
class Outcome:
    """A run and its record."""

    run: Run
    published: bytes
    digest: bytes
    content: bytes

    @property
    def entries(self) -> list[Entry]:
        return list(TranscriptReader(self.content))

    def refused(self) -> list[Refused]:
        return [entry for entry in self.entries if isinstance(entry, Refused)]

    def departed(self) -> dict[PartyId, str]:
        return {entry.party: entry.reason for entry in self.entries if isinstance(entry, Departed)}


def outcome(where: Town, run: Run, recorder: Recorder, parts: list[bytes]) -> Outcome:
    """Close the record; it has to be sound."""
    digest = recorder.close()
    content = b"".join(parts)
    verification = verify(content, digest=digest)
    assert verification.intact, verification.faults
    return Outcome(run, where.charter.codec.encode(run.result), digest, content)


def run_local(where: Town, rules: Sequence[Fault] = ()) -> Outcome:
    parts: list[bytes] = []
    recorder = where.recorder(parts.append)
    exchange = Exchange(where.charter, recorder=recorder, fate=faults(rules, seed=1))
    run = run_locally(exchange, where.streams, where.holdings)
    return outcome(where, run, recorder, parts)


async def run_live(
    where: Town,
    transport: str = "memory",
    *,
    folder: Path | None = None,
    rules: Sequence[Fault] = (),
    limits: Limits | None = None,
    holdings: Mapping[PartyId, Records] | None = None,
    budget: float | None = None,
    joining: float = 60.0,
    linger: float = 30.0,
    adversaries: Mapping[PartyId, Disguise] | None = None,
) -> Outcome:
    """Run a survey with live members. It may not take two minutes."""
    parts: list[bytes] = []
    recorder = where.recorder(parts.append)
    exchange = Exchange(where.charter, recorder=recorder, fate=faults(rules, seed=1))
    async with hub_of(transport, Switch(exchange, limits), where, folder) as hub:
        with trio.fail_after(120.0):
            run = await run_session(
                where.charter,
                Infiltrated(hub, adversaries or {}),
                where.streams,
                where.holdings if holdings is None else holdings,
                budget=budget,
                joining=joining,
                linger=linger,
            )
    return outcome(where, run, recorder, parts)
