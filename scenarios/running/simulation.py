"""Runs a variant on known records, with every party live, over any transport."""

from __future__ import annotations

import datetime
import functools
import gc
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, get_args

import trio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parties.session import Hub, run_session
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.exchange import Exchange
from protocol.session.local import run_locally
from protocol.session.run import Run
from protocol.session.variant import Variant
from protocol.simulation.setting import Setting, setting_of
from protocol.surveys.records import Records
from protocol.transcript.header import header_of
from protocol.transcript.recorder import Recorder
from scenarios.files.kept_records import growing
from scenarios.files.transcripts import Transcript, Unfiled
from scenarios.running.errors import UsageError
from scenarios.running.outcomes import Outcome
from transports.certificates import Authority, private_pem
from transports.faults import Fault, faults
from transports.memory import open_memory
from transports.recording import recording
from transports.switch import Switch
from transports.tcp import TcpHub, connect_tcp, open_tcp
from transports.tls import client_context, server_context

if TYPE_CHECKING:
    import ssl

    from transports.base import Link

TransportName = Literal["local", "memory", "tcp", "tls"]
TRANSPORTS: tuple[TransportName, ...] = get_args(TransportName)

LOOPBACK = "127.0.0.1"


def simulate(
    variant: Variant,
    records: Records,
    *,
    seed: int = 1,
    transport: TransportName = "local",
    parties: int | None = None,
    rules: Sequence[Fault] = (),
    budget: float | None = None,
    path: Path | str | None = None,
    watch: Callable[[Exchange], object] | None = None,
) -> Outcome:
    """Run a whole survey on known records.

    Every party has its own role, keystream and identity, and every message is recorded. The same
    seed gives the same digest on every transport.

    Args:
        variant: the protocol; its ``max_records`` is set to the largest holding.
        records: the true answers.
        seed: decides all randomness, 0 to 2**64 - 1. A simulation protects nobody.
        transport: ``local`` (one loop), ``memory``, ``tcp`` or ``tls`` (live actors).
        parties: the number that the records are spread over; by default one per respondent.
        rules: faults to inject (``transports.faults``), decided by the seed.
        budget: the most epsilon that a party spends per respondent, in nats.
        path: where to write the transcript, in memory by default. An earlier simulation there is
            replaced, the record of a real survey never.
        watch: called with the exchange before the run, to follow its counters.

    Raises:
        ProtocolError: the survey failed, for example without a quorum.
        TypeError: an argument of another type.
        UsageError: arguments that do not fit together, or a real survey's record at the path.
        OSError: the transcript cannot be written.
        ValueError: the seed is out of range.
    """
    if transport != "local":
        live = functools.partial(
            simulate_async,
            seed=seed,
            transport=transport,
            parties=parties,
            rules=rules,
            budget=budget,
            path=path,
            watch=watch,
        )
        return trio.run(live, variant, records)
    setting = setting_of(variant, records, seed=seed, parties=parties)
    with _recorded(setting, records, transport, rules, path) as recorded, _collector_paused():
        if watch is not None:
            watch(recorded.exchange)
        try:
            run = run_locally(
                recorded.exchange,
                setting.streams,
                setting.holdings,
                identities=setting.identities,
                budget=budget,
            )
        except BaseException as error:
            recorded.recorder.close(complete=False, reason=type(error).__name__)
            raise
        recorded.recorder.close()
    return recorded.outcome(run)


async def simulate_async(
    variant: Variant,
    records: Records,
    *,
    seed: int = 1,
    transport: TransportName = "memory",
    parties: int | None = None,
    rules: Sequence[Fault] = (),
    budget: float | None = None,
    path: Path | str | None = None,
    watch: Callable[[Exchange], object] | None = None,
) -> Outcome:
    """``simulate`` inside a trio program, over ``memory``, ``tcp`` or ``tls``."""
    if transport == "local":
        raise UsageError("transport 'local' is not asynchronous: call simulate")
    if transport not in TRANSPORTS:
        raise UsageError(f"transport {transport!r}: expected one of {', '.join(TRANSPORTS)}")
    setting = setting_of(variant, records, seed=seed, parties=parties)
    with _recorded(setting, records, transport, rules, path) as recorded, _collector_paused():
        if watch is not None:
            watch(recorded.exchange)
        async with recording(recorded.recorder):
            switch = Switch(recorded.exchange)
            opened: AbstractAsyncContextManager[Hub] = (
                open_memory(switch)
                if transport == "memory"
                else _open_tcp(switch, setting, secured=transport == "tls")
            )
            async with opened as hub:
                run = await run_session(
                    setting.charter,
                    hub,
                    setting.streams,
                    setting.holdings,
                    identities=setting.identities,
                    budget=budget,
                )
    return recorded.outcome(run)


EXECUTORS: Mapping[str, Callable[..., Outcome]] = MappingProxyType(
    {name: functools.partial(simulate, transport=name) for name in TRANSPORTS}
)
"""``simulate`` on every transport, by name: for ``protocol.testing.contract``."""


@dataclass(frozen=True, slots=True)
class _Loopback:
    """All members in this process, the parties connected by sockets."""

    hub: TcpHub
    port: int
    setting: Setting
    context: Callable[[PartyId], ssl.SSLContext | None]

    def connect(self, member: PartyId) -> AbstractAsyncContextManager[Link]:
        if member == AGGREGATOR:
            return self.hub.connect(member)
        return connect_tcp(
            LOOPBACK,
            self.port,
            charter=self.setting.charter,
            identity=self.setting.identities[member],
            tls=self.context(member),
        )

    async def joined(self, members: Iterable[PartyId], *, within: float) -> None:
        await self.hub.joined(members, within=within)


@asynccontextmanager
async def _open_tcp(
    switch: Switch, setting: Setting, *, secured: bool
) -> AsyncGenerator[_Loopback]:
    with tempfile.TemporaryDirectory(prefix="sottovoce-") as folder:
        context = _tls_contexts(setting, Path(folder)) if secured else lambda _: None
        identity, tls = setting.identities[AGGREGATOR], context(AGGREGATOR)
        async with open_tcp(switch, identity, host=LOOPBACK, tls=tls) as (hub, port):
            yield _Loopback(hub, port, setting, context)


def _tls_contexts(setting: Setting, folder: Path) -> Callable[[PartyId], ssl.SSLContext | None]:
    """What makes a member's TLS context; OpenSSL wants keys in files."""
    secret = setting.streams.stream(AGGREGATOR, "authority").bytes(32)
    now = datetime.datetime.now(datetime.UTC)
    authority = Authority(Ed25519PrivateKey.from_private_bytes(secret), now=now, days=1)
    root = folder / "authority.pem"
    root.write_bytes(authority.pem)

    def context(member: PartyId) -> ssl.SSLContext:
        identity = setting.identities[member]
        certificate, key = folder / f"{member}.pem", folder / f"{member}.key"
        certificate.write_bytes(authority.issue(identity))
        key.write_bytes(private_pem(identity.private_key))
        make = server_context if member == AGGREGATOR else client_context
        return make(authority=root, certificate=certificate, key=key)

    return context


def allow_connections(sockets: int) -> None:
    """Raise the limit on open files as far as needed and allowed.

    Raises:
        UsageError: the system does not allow that many.
    """
    try:
        import resource
    except ImportError:
        return
    needed = sockets + 64
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise UsageError(
            f"{sockets} sockets needed in one process, {hard} open files allowed by the system: "
            "use fewer parties, or the memory transport"
        )
    if soft != resource.RLIM_INFINITY and needed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A run on its way, with its record."""

    setting: Setting
    records: Records
    transport: str
    recorder: Recorder
    exchange: Exchange
    transcript: Transcript
    started: float

    def outcome(self, run: Run) -> Outcome:
        return Outcome(
            charter=self.setting.charter,
            result=run.result,
            transcript=self.transcript,
            digest=self.recorder.digest(),
            endings=run.endings,
            records=self.records,
            seed=self.setting.seed,
            transport=self.transport,
            messages=self.exchange.messages,
            bytes=self.exchange.bytes,
            seconds=time.perf_counter() - self.started,
        )


@contextmanager
def _recorded(
    setting: Setting,
    records: Records,
    transport: str,
    rules: Sequence[Fault],
    path: Path | str | None,
) -> Generator[_Recorded]:
    """The record of a run, whose file gets its name after the block."""
    started = time.perf_counter()
    if transport in ("tcp", "tls"):
        allow_connections(2 * len(setting.holdings))
    header = header_of(setting.charter, seed=setting.seed, transport=transport, program=program())
    with ExitStack() as stack:
        unfiled = Unfiled()
        record = None if path is None else stack.enter_context(growing(Path(path)))
        write = unfiled.write if record is None else record.write
        recorder = Recorder(write, header, signer=setting.identities[AGGREGATOR])
        if record is not None:
            record.keep()
        exchange = Exchange(
            setting.charter,
            recorder=recorder,
            fate=faults(rules, seed=setting.seed),
            check_signatures=False,  # All parties are of this process.
        )
        transcript = Transcript(unfiled=unfiled) if path is None else Transcript(Path(path))
        yield _Recorded(setting, records, transport, recorder, exchange, transcript, started)
        if record is not None:
            record.finish(recorder.checkpoint)


@contextmanager
def _collector_paused() -> Generator[None]:
    """Pause garbage collection, which would search tens of thousands of live tasks."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def program() -> str:
    """The name and version of this program."""
    return f"sottovoce {version('sottovoce')}"
