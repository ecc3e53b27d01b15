"""Runs a variant on known records, with every party live, over any transport."""

from __future__ import annotations

import datetime
import functools
import gc
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
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
    started = time.perf_counter()
    setting = setting_of(variant, records, seed=seed, parties=parties)
    with _recorder(setting, transport, path) as (recorder, transcript), _collector_paused():
        exchange = _exchange(setting, recorder, rules)
        if watch is not None:
            watch(exchange)
        try:
            run = run_locally(
                exchange,
                setting.streams,
                setting.holdings,
                identities=setting.identities,
                budget=budget,
            )
        except BaseException as error:
            recorder.close(complete=False, reason=type(error).__name__)
            raise
        digest = recorder.close()
    return _outcome(setting, run, exchange, transcript(), digest, records, transport, started)


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
    started = time.perf_counter()
    setting = setting_of(variant, records, seed=seed, parties=parties)
    with _recorder(setting, transport, path) as (recorder, transcript), _collector_paused():
        exchange = _exchange(setting, recorder, rules)
        if watch is not None:
            watch(exchange)
        async with recording(recorder):
            switch = Switch(exchange)
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
        digest = recorder.digest()
    return _outcome(setting, run, exchange, transcript(), digest, records, transport, started)


EXECUTORS: Mapping[str, Callable[..., Outcome]] = MappingProxyType(
    {name: functools.partial(simulate, transport=name) for name in TRANSPORTS}
)
"""``simulate`` on every transport, by name: for ``protocol.testing.contract``."""


class _Loopback:
    """All members in this process, the parties connected by sockets."""

    def __init__(
        self,
        hub: TcpHub,
        setting: Setting,
        port: int,
        contexts: Callable[[PartyId], ssl.SSLContext | None],
    ) -> None:
        self._hub = hub
        self._setting = setting
        self._port = port
        self._contexts = contexts

    def connect(self, member: PartyId) -> AbstractAsyncContextManager[Link]:
        if member == AGGREGATOR:
            return self._hub.connect(member)
        return connect_tcp(
            LOOPBACK,
            self._port,
            charter=self._setting.charter,
            identity=self._setting.identities[member],
            tls=self._contexts(member),
        )

    async def joined(self, members: Iterable[PartyId], *, within: float) -> None:
        await self._hub.joined(members, within=within)


@asynccontextmanager
async def _open_tcp(
    switch: Switch, setting: Setting, *, secured: bool
) -> AsyncGenerator[_Loopback]:
    with tempfile.TemporaryDirectory(prefix="sottovoce-") as folder:
        contexts = _Contexts(setting, Path(folder)) if secured else None
        identity = setting.identities[AGGREGATOR]
        tls = contexts.server() if contexts else None
        async with open_tcp(switch, identity, host=LOOPBACK, tls=tls) as (hub, port):
            yield _Loopback(hub, setting, port, contexts.client if contexts else lambda _: None)


class _Contexts:
    """TLS contexts of a simulated survey; OpenSSL wants keys in files."""

    def __init__(self, setting: Setting, folder: Path) -> None:
        key = Ed25519PrivateKey.from_private_bytes(
            setting.streams.stream(AGGREGATOR, "authority").bytes(32)
        )
        now = datetime.datetime.now(datetime.UTC)
        self._authority = Authority(key, now=now, days=1)
        self._setting = setting
        self._folder = folder
        self._root = folder / "authority.pem"
        self._root.write_bytes(self._authority.pem)

    def server(self) -> ssl.SSLContext:
        certificate, key = self._files(AGGREGATOR)
        return server_context(authority=self._root, certificate=certificate, key=key)

    def client(self, member: PartyId) -> ssl.SSLContext:
        certificate, key = self._files(member)
        return client_context(authority=self._root, certificate=certificate, key=key)

    def _files(self, member: PartyId) -> tuple[Path, Path]:
        identity = self._setting.identities[member]
        certificate, key = self._folder / f"{member}.pem", self._folder / f"{member}.key"
        certificate.write_bytes(self._authority.issue(identity))
        key.write_bytes(private_pem(identity.private_key))
        return certificate, key


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


@contextmanager
def _recorder(
    setting: Setting, transport: str, path: Path | str | None
) -> Generator[tuple[Recorder, Callable[[], Transcript]]]:
    """A recorder, and a function for the transcript once it is closed."""
    if transport in ("tcp", "tls"):
        allow_connections(2 * len(setting.holdings))
    header = header_of(setting.charter, seed=setting.seed, transport=transport, program=program())
    if path is None:
        unfiled = Unfiled()
        recorder = Recorder(unfiled.write, header, signer=setting.identities[AGGREGATOR])
        yield recorder, lambda: Transcript(unfiled=unfiled)
        return
    path = Path(path)
    with growing(path) as record:
        recorder = Recorder(record.write, header, signer=setting.identities[AGGREGATOR])
        record.keep()
        yield recorder, lambda: Transcript(path)
        record.finish(recorder.checkpoint)


def _exchange(setting: Setting, recorder: Recorder, rules: Sequence[Fault]) -> Exchange:
    return Exchange(
        setting.charter,
        recorder=recorder,
        fate=faults(rules, seed=setting.seed),
        check_signatures=False,  # All parties are of this process.
    )


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


def _outcome(
    setting: Setting,
    run: Run,
    exchange: Exchange,
    transcript: Transcript,
    digest: bytes,
    records: Records,
    transport: str,
    started: float,
) -> Outcome:
    return Outcome(
        charter=setting.charter,
        result=run.result,
        transcript=transcript,
        digest=digest,
        endings=run.endings,
        records=records,
        seed=setting.seed,
        transport=transport,
        messages=exchange.messages,
        bytes=exchange.bytes,
        seconds=time.perf_counter() - started,
    )
