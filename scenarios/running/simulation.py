"""Runs a variant on known records, with every party live, over any transport."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

import trio

from parties.session import Hub, run_session
from protocol.estimators.analysis import Analysis
from protocol.messages import AGGREGATOR
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.local import run_locally
from protocol.session.run import Run
from protocol.session.variant import V, Variant
from protocol.simulation.setting import Setting, setting_of
from protocol.surveys.records import Records
from protocol.transcript.entries import WITHHELD, Entry
from protocol.transcript.header import header_of
from protocol.transcript.log import log_secret_of
from protocol.transcript.recorder import Recorder
from scenarios.engines.engine import Engine
from scenarios.errors import UsageError
from scenarios.files.collecting import collector_paused
from scenarios.files.transcripts import Transcript, Unfiled
from scenarios.running.outcomes import Outcome
from transports.faults import Fault, faults
from transports.memory import open_memory
from transports.records.recording import recording
from transports.switch import Switch

TransportName = Literal["local", "memory", "tcp", "tls"]
TRANSPORTS: tuple[TransportName, ...] = get_args(TransportName)

Watch: TypeAlias = Callable[[Charter], Callable[[Entry], object]]
"""Is given the charter of a run before it starts; what it returns is told every entry."""


def simulate(
    variant: V,
    records: Records,
    *,
    seed: int = 1,
    transport: TransportName | None = None,
    parties: int | None = None,
    rules: Sequence[Fault] = (),
    budget: float | None = None,
    path: Path | str | None = None,
    watch: Watch | None = None,
    workers: int | None = None,
    engine: Engine | None = None,
    analysis: Analysis | None = None,
    withheld: bool = False,
) -> Outcome[V]:
    """Run a whole survey on known records.

    Every party has its own role, keystream and identity, and every message is recorded. The same
    seed gives the same digest on every transport, by however many workers.

    Args:
        variant: the protocol; its ``max_records`` is set to the largest holding.
        records: the true answers.
        seed: decides all randomness, 0 to 2**64 - 1. A simulation protects nobody.
        transport: ``local`` (one loop), ``memory``, ``tcp`` or ``tls`` (live actors); by default
            ``local``, with workers ``tcp``.
        parties: the number that the records are spread over; by default one per respondent.
        rules: faults to inject (``transports.faults``), decided by the seed.
        budget: the most epsilon that a party spends per respondent, in nats.
        path: where to write the transcript, in memory by default. An earlier simulation there is
            replaced, the record of a real survey never.
        watch: called with the charter before the run; what it returns is told every entry as it is
            recorded.
        workers: the number of workers that the parties live in, over ``tcp`` or ``tls``; by default
            they live in this process. The parties of a worker that dies are gone.
        engine: whose the workers are, as of ``open_engine``.
        analysis: what is announced of it.
        withheld: keep the seed out of the transcript. Whoever has it can undo every randomization.

    Raises:
        EngineError: there are no workers to be had.
        ProtocolError: the survey failed, for example without a quorum.
        TypeError: an argument of another type.
        UsageError: arguments that do not fit together, or a real survey's record at the path.
        OSError: the transcript cannot be written.
        ValueError: the seed is out of range.
    """
    transport = _carrier(transport, "local", workers)
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
            workers=workers,
            engine=engine,
            analysis=analysis,
            withheld=withheld,
        )
        return trio.run(live, variant, records)
    with collector_paused():
        setting = setting_of(variant, records, seed=seed, parties=parties, analysis=analysis)
        recorded_to = _recorded(
            setting, records, transport, rules, path, watch=watch, withheld=withheld
        )
        with recorded_to as recorded:
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
        return cast("Outcome[V]", recorded.outcome(run))


async def simulate_async(
    variant: V,
    records: Records,
    *,
    seed: int = 1,
    transport: TransportName | None = None,
    parties: int | None = None,
    rules: Sequence[Fault] = (),
    budget: float | None = None,
    path: Path | str | None = None,
    watch: Watch | None = None,
    workers: int | None = None,
    engine: Engine | None = None,
    analysis: Analysis | None = None,
    withheld: bool = False,
) -> Outcome[V]:
    """``simulate`` inside a trio program, over ``memory`` (by default), ``tcp`` or ``tls``."""
    transport = _carrier(transport, "memory", workers)
    if transport == "local":
        raise UsageError("transport 'local' is not asynchronous: call simulate")
    keys = None
    if workers is not None:
        from scenarios.running.workers import engine_for, keys_by

        # Before the engine starts them.
        most = len(records) if parties is None else parties
        if workers > most:
            raise UsageError(f"{workers} workers: expected at most {most}, one for each party")
        keys = keys_by(engine_for(workers, engine))
    with collector_paused():
        setting = setting_of(
            variant, records, seed=seed, parties=parties, keys=keys, analysis=analysis
        )
        recorded_to = _recorded(
            setting,
            records,
            transport,
            rules,
            path,
            here=workers is None,
            watch=watch,
            withheld=withheld,
        )
        with recorded_to as recorded:
            async with recording(recorded.recorder):
                if engine is None or workers is None:
                    run = await _run_here(recorded.exchange, setting, transport, budget)
                else:
                    from scenarios.running.workers import run_in_workers

                    run = await run_in_workers(
                        recorded.exchange,
                        setting,
                        records,
                        engine,
                        workers=workers,
                        secured=transport == "tls",
                        budget=budget,
                    )
        return cast("Outcome[V]", recorded.outcome(run))


def _carrier(
    transport: TransportName | None, usual: TransportName, workers: int | None
) -> TransportName:
    """What carries the messages: what is asked for, else what is usual, with workers TCP."""
    if transport is not None and transport not in TRANSPORTS:
        raise UsageError(f"transport {transport!r}: expected one of {', '.join(TRANSPORTS)}")
    if workers is None:
        return transport or usual
    if transport not in (None, "tcp", "tls"):
        raise UsageError(f"{workers} workers: expected the transport tcp or tls, not {transport}")
    return transport or "tcp"


async def _run_here(
    exchange: Exchange, setting: Setting, transport: TransportName, budget: float | None
) -> Run:
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
            budget=budget,
        )


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
    withheld: bool

    def outcome(self, run: Run) -> Outcome[Variant]:
        return Outcome(
            charter=self.setting.charter,
            result=run.result,
            transcript=self.transcript,
            digest=self.recorder.digest(),
            endings=run.endings,
            records=self.records,
            seed=self.setting.seed,
            withheld=self.withheld,
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
    *,
    here: bool = True,
    watch: Watch | None = None,
    withheld: bool = False,
) -> Generator[_Recorded]:
    """The record of a run, whose file gets its name after the block.

    Args:
        here: whether the parties live in this process.
        watch: as of ``simulate``.
        withheld: whether the record does without the seed.
    """
    started = time.perf_counter()
    if here and transport in ("tcp", "tls"):
        from scenarios.running.loopback import allow_connections

        allow_connections(2 * len(setting.holdings))
    header = header_of(
        setting.charter,
        seed=WITHHELD if withheld else setting.seed,
        transport=transport,
        program=program(),
    )
    with ExitStack() as stack:
        unfiled, record = Unfiled(), None
        if path is not None:
            from scenarios.files.kept_records import growing

            record = stack.enter_context(growing(Path(path)))
        write = unfiled.write if record is None else record.write
        # All parties are of this program.
        signer = setting.identities[AGGREGATOR]
        recorder = Recorder(
            write,
            header,
            signer=signer,
            secret=log_secret_of(setting.seed),
            judge_heads=False,
            watch=None if watch is None else watch(setting.charter),
        )
        if record is not None:
            record.keep()
        exchange = Exchange(
            setting.charter,
            recorder=recorder,
            fate=faults(rules, seed=setting.seed),
        )
        transcript = Transcript(unfiled=unfiled) if path is None else Transcript(Path(path))
        yield _Recorded(
            setting, records, transport, recorder, exchange, transcript, started, withheld
        )
        if record is not None:
            record.finish(recorder.checkpoint)


def program() -> str:
    """The name and version of this program."""
    return f"sottovoce {version('sottovoce')}"
