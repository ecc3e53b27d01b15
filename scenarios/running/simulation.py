"""Runs a variant on known records, with every party live, over any transport."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import Generic, Literal, ParamSpec, TypeAlias, get_args

import trio
from msgspec import UNSET

from parties.session import Hub, run_session
from protocol.accounting.spending import DELTA
from protocol.errors import UsageError
from protocol.estimators.analysis import Analysis
from protocol.messages import AGGREGATOR
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.local import run_locally
from protocol.session.run import Run
from protocol.session.variant import V
from protocol.simulation.setting import PublicKeys, Setting, make_setting
from protocol.surveys.records import Records
from protocol.transcript.entries import WITHHELD, Entry
from protocol.transcript.header import make_header
from protocol.transcript.log import seed_log_secret
from protocol.transcript.recorder import Recorder
from scenarios.files.collecting import collector_paused
from scenarios.files.transcripts import Transcript, Unfiled
from scenarios.running.engines.engine import Engine
from scenarios.running.outcomes import Outcome
from transports.faults import Fault, faults
from transports.memory import open_memory
from transports.records.recording import recording
from transports.switch import Switch

TransportName = Literal["local", "memory", "tcp", "tls"]
TRANSPORTS: tuple[TransportName, ...] = get_args(TransportName)

Watch: TypeAlias = Callable[[Charter], Callable[[Entry], object]]
"""Is given the charter of a run before it starts; what it returns is told every entry."""


P = ParamSpec("P")


@dataclass(frozen=True, slots=True, repr=False)
class Simulation(Generic[V]):
    """Run a whole survey on known records.

    Every party has its own role, keystream and identity, and every message is recorded. The same
    seed gives the same digest on every transport, by however many workers.

    Args:
        variant: the protocol; its ``max_records`` is set to the largest holding.
        records: the true answers.
        seed: decides all randomness, 0 to 2**64 - 1. A simulation protects nobody.
        transport: ``local`` (one loop), ``memory``, ``tcp`` or ``tls`` (live actors); by default
            ``local``, inside a trio program ``memory``, with workers ``tcp``.
        parties: the number that the records are spread over; by default one per respondent.
        rules: faults to inject (``transports.faults``), decided by the seed.
        budget: the most epsilon that a party spends per respondent, in nats.
        honest: the number of parties in a sum that it takes to be honest (``Machine``).
        delta: the most that it spends so.
        path: path of the transcript; by default it is kept in memory. An earlier simulation there
            is replaced, the record of a real survey never.
        watch: called with the charter before the run; what it returns is told every entry as it is
            recorded.
        workers: the number of workers that the parties live in, over ``tcp`` or ``tls``; by default
            they live in this process. The parties of a worker that dies are gone.
        engine: engine of the workers, from ``open_engine``.
        analysis: the announced analysis.
        withheld: keep the seed out of the transcript. Whoever has it can undo every randomization.
        strata: the stratum of each respondent, where the variant has weights. The true shares are
            then weighted too.

    Raises:
        EngineError: there are no workers to be had.
        ProtocolError: the survey failed, for example without a quorum.
        TypeError: an argument of another type.
        UsageError: arguments that do not fit together, or a real survey's record at the path.
        OSError: the transcript cannot be written.
        ValueError: the seed is out of range.
    """

    variant: V
    records: Records
    _: KW_ONLY
    seed: int = 1
    transport: TransportName | None = None
    parties: int | None = None
    rules: Sequence[Fault] = ()
    budget: float | None = None
    honest: int = 0
    delta: float = DELTA
    path: Path | str | None = None
    watch: Watch | None = None
    workers: int | None = None
    engine: Engine | None = None
    analysis: Analysis | None = None
    withheld: bool = False
    strata: Sequence[str] | None = None

    def run(self) -> Outcome[V]:
        """Run the simulation; raises like the class."""
        transport = self._carrier("local")
        if transport != "local":
            return trio.run(replace(self, transport=transport).run_async)
        with collector_paused():
            setting = self._setting()
            with self._record(setting, transport) as recorded:
                try:
                    run = run_locally(
                        recorded.exchange,
                        setting.streams,
                        setting.holdings,
                        identities=setting.identities,
                        budget=self.budget,
                        honest=self.honest,
                        delta=self.delta,
                    )
                except BaseException as error:
                    recorded.recorder.close(complete=False, reason=type(error).__name__)
                    raise
                recorded.recorder.close()
            return recorded.outcome(run)

    async def run_async(self) -> Outcome[V]:
        """Run the simulation inside a trio program; raises like the class."""
        transport = self._carrier("memory")
        if transport == "local":
            raise UsageError("transport 'local' is not asynchronous: call simulate")
        keys = None
        if self.workers is not None:
            from scenarios.running.workers import engine_for, keys_by

            if self.variant.strata:
                raise UsageError("workers: parties with weights live in one process")
            if self.variant.roles:
                raise UsageError(
                    f"workers: variant {self.variant.name!r} has services, which live with the "
                    "aggregator; expected no workers"
                )
            # Before the engine starts them.
            most = len(self.records) if self.parties is None else self.parties
            if self.workers > most:
                raise UsageError(
                    f"{self.workers} workers: expected at most {most}, one for each party"
                )
            keys = keys_by(engine_for(self.workers, self.engine))
        with collector_paused():
            setting = self._setting(keys)
            with self._record(setting, transport) as recorded:
                async with recording(recorded.recorder):
                    run = await self._run(recorded.exchange, setting, transport)
            return recorded.outcome(run)

    @property
    def truth(self) -> Records:
        """The true answers, with the weights of the respondents if they have some."""
        weights = self.variant.weights
        if self.strata is None or weights is UNSET:
            return self.records
        return self.records.weighted([weights[name] for name in self.strata])

    def _carrier(self, usual: TransportName) -> TransportName:
        """The requested transport, or else the default; TCP with workers."""
        transport, workers = self.transport, self.workers
        if transport is not None and transport not in TRANSPORTS:
            raise UsageError(f"transport {transport!r}: expected one of {', '.join(TRANSPORTS)}")
        if workers is None:
            return transport or usual
        if transport not in (None, "tcp", "tls"):
            raise UsageError(
                f"{workers} workers: expected the transport tcp or tls, not {transport}"
            )
        return transport or "tcp"

    def _setting(self, keys: PublicKeys | None = None) -> Setting:
        return make_setting(
            self.variant,
            self.records,
            seed=self.seed,
            parties=self.parties,
            keys=keys,
            analysis=self.analysis,
            strata=self.strata,
        )

    async def _run(self, exchange: Exchange, setting: Setting, transport: TransportName) -> Run:
        """Run live parties in workers or in this process."""
        if self.workers is not None and self.engine is not None:
            from scenarios.running.workers import run_in_workers

            return await run_in_workers(
                exchange,
                setting,
                self.records,
                self.engine,
                workers=self.workers,
                secured=transport == "tls",
                budget=self.budget,
                honest=self.honest,
                delta=self.delta,
            )
        switch = Switch(exchange)
        opened: AbstractAsyncContextManager[Hub]
        if transport == "memory":
            opened = open_memory(switch)
        else:
            from scenarios.running.loopback import open_loopback

            opened = open_loopback(switch, setting, secured=transport == "tls")
        async with opened as hub:
            return await run_session(
                setting.charter,
                hub,
                setting.streams,
                setting.holdings,
                identities=setting.identities,
                budget=self.budget,
                honest=self.honest,
                delta=self.delta,
            )

    @contextmanager
    def _record(self, setting: Setting, transport: TransportName) -> Generator[_Recorded[V]]:
        """The record of the run; its file gets its name after the block."""
        started = time.perf_counter()
        if self.workers is None and transport in ("tcp", "tls"):
            from scenarios.running.loopback import allow_connections

            allow_connections(2 * len(setting.holdings))
        header = make_header(
            setting.charter,
            seed=WITHHELD if self.withheld else setting.seed,
            transport=transport,
            program=program(),
        )
        with ExitStack() as stack:
            unfiled, record = Unfiled(), None
            transcript = Transcript(unfiled=unfiled)
            if self.path is not None:
                from parties.keeping.records import growing

                transcript = Transcript(Path(self.path))
                record = stack.enter_context(growing(Path(self.path)))
            # All parties are of this program.
            recorder = Recorder(
                unfiled.write if record is None else record.write,
                header,
                signer=setting.identities[AGGREGATOR],
                secret=seed_log_secret(setting.seed),
                judge_heads=False,
                watch=None if self.watch is None else self.watch(setting.charter),
            )
            if record is not None:
                record.keep()
            exchange = Exchange(
                setting.charter,
                recorder=recorder,
                fate=faults(self.rules, seed=setting.seed),
            )
            yield _Recorded(self, setting, transport, recorder, exchange, transcript, started)
            if record is not None:
                record.finish(recorder.checkpoint)


@dataclass(frozen=True, slots=True, repr=False)
class _Recorded(Generic[V]):
    """A run in progress, with its record."""

    simulation: Simulation[V]
    setting: Setting
    transport: str
    recorder: Recorder
    exchange: Exchange
    transcript: Transcript
    started: float

    def outcome(self, run: Run) -> Outcome[V]:
        return Outcome(
            charter=self.setting.charter,
            result=run.result,
            transcript=self.transcript,
            digest=self.recorder.digest(),
            endings=run.endings,
            records=self.simulation.truth,
            seed=self.setting.seed,
            withheld=self.simulation.withheld,
            transport=self.transport,
            messages=self.exchange.messages,
            bytes=self.exchange.bytes,
            seconds=time.perf_counter() - self.started,
        )


def _simulating(made: Callable[P, Simulation[V]]) -> Callable[P, Outcome[V]]:
    """A function that makes a simulation from its arguments and runs it."""

    def simulate(*args: P.args, **options: P.kwargs) -> Outcome[V]:
        return made(*args, **options).run()

    simulate.__doc__, simulate.__qualname__ = made.__doc__, "simulate"
    vars(simulate)["__signature__"] = signature(made).replace(return_annotation="Outcome[V]")
    return simulate


def _simulating_inside(made: Callable[P, Simulation[V]]) -> Callable[P, Awaitable[Outcome[V]]]:
    """The same inside a trio program."""

    async def simulate_async(*args: P.args, **options: P.kwargs) -> Outcome[V]:
        """``simulate`` inside a trio program, over ``memory`` (by default), ``tcp`` or ``tls``."""
        return await made(*args, **options).run_async()

    simulate_async.__qualname__ = "simulate_async"
    vars(simulate_async)["__signature__"] = signature(simulate)
    return simulate_async


simulate = _simulating(Simulation)
simulate_async = _simulating_inside(Simulation)


def program() -> str:
    """The name and version of this program."""
    return f"sottovoce {version('sottovoce')}"
