"""Live parties over the workers of an engine; the hub and the aggregator stay in this process.

Each worker is handed a shard of the parties, derives their keys and keystreams from the seed, and
dials in.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import trio

from parties.session import LINGER, lead_session, start_members
from protocol.accounting.spending import DELTA
from protocol.crypto.key_agreement import Agreed
from protocol.crypto.randomness import Streams
from protocol.errors import QuorumError, UsageError
from protocol.messages import AGGREGATOR, DONE, LINK_CLOSED, NEVER_CAME, PartyId
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.roster import KEY_BYTES, Identity
from protocol.session.run import Run, finished_run
from protocol.simulation.setting import PublicKeys, Setting, public_keys, simulated_identity
from protocol.surveys.records import Records
from scenarios.files.collecting import collector_paused
from scenarios.running.credentials import Credentials, credentials_issuer
from scenarios.running.engines.engine import Engine, Lost, in_order
from transports.background import running
from transports.base import Limits
from transports.shards.hub import ShardHub, open_shards
from transports.shards.shard import SECRET_BYTES, Shard
from transports.shards.worker import connect_shard
from transports.switch import Switch
from transports.tls import client_context, server_context

JOINING = 600.0
"""Seconds that workers may take to connect: a cluster may have to grow first."""

LIMITS = Limits(handshake=60.0, idle=float("inf"), stall=600.0)
"""Hub and workers compute for many parties at a time, and are silent meanwhile."""


class ShardTask(msgspec.Struct, frozen=True, kw_only=True):
    """Task of a worker.

    Args:
        charter: the survey's charter.
        shard: which parties are its own.
        records: records of all its parties.
        seed: the simulation's seed.
        budget: the most epsilon that a party spends per respondent, in nats, or None.
        honest, delta: terms that its parties consent to (``Machine``).
        host, port: address of the hub.
        credentials: for TLS, or None.
    """

    charter: Charter
    shard: Shard
    records: Records
    seed: int
    budget: float | None
    honest: int
    delta: float
    host: str
    port: int
    credentials: Credentials | None

    def __repr__(self) -> str:
        return f"<ShardTask: {self.shard}>"


class ShardEnded(msgspec.Struct, frozen=True):
    """Outcome of the parties of a shard.

    Args:
        endings: endings other than ``DONE``, by place on the roster.
        failure: why the worker could not connect, or None.
    """

    endings: Mapping[int, str]
    failure: str | None = None


class KeysTask(NamedTuple):
    """Task of deriving public keys."""

    seed: int
    names: Sequence[PartyId]


def derive_keys(task: KeysTask) -> bytes:
    """The public keys of some members, one after the other: a kernel."""
    return b"".join(public_keys(task.seed, task.names))


def keys_by(engine: Engine) -> PublicKeys:
    """Maker of public keys by an engine: in one process it would take a tenth of the run."""

    def derive(seed: int, names: Sequence[PartyId]) -> list[bytes]:
        ends = _split_evenly(len(names), engine.jobs)
        tasks = [KeysTask(seed, names[start:stop]) for start, stop in itertools.pairwise(ends)]
        joined = b"".join(in_order(engine, derive_keys, tasks))
        return [joined[i : i + KEY_BYTES] for i in range(0, len(joined), KEY_BYTES)]

    return derive


def run_shard(task: ShardTask) -> ShardEnded:
    """Run the parties of a shard, each to its end: the kernel that workers carry out."""
    with collector_paused():
        return trio.run(_live, task)


async def _live(task: ShardTask) -> ShardEnded:
    charter, shard = task.charter, task.shard
    streams = Streams.of_seed(task.seed)
    names = [name for name, _ in charter.roster.members[shard.first : shard.last + 1]]
    agreed: Agreed = {}
    identities = {name: simulated_identity(streams, name, agreed) for name in names}
    held = Records(task.records.survey, task.records.codes).split(len(names))
    endings: dict[PartyId, str] = dict.fromkeys(names, NEVER_CAME)
    tls = None if task.credentials is None else task.credentials.context(client_context)
    try:
        async with (
            connect_shard(
                task.host, task.port, charter=charter, shard=shard, tls=tls, limits=LIMITS
            ) as hub,
            trio.open_nursery() as nursery,
        ):

            async def until_dismissed() -> None:
                await hub.dismissed.wait()
                nursery.cancel_scope.cancel()

            async with trio.open_nursery() as parties:
                nursery.start_soon(until_dismissed)
                start_members(
                    parties,
                    charter,
                    hub,
                    streams,
                    dict(zip(names, held, strict=True)),
                    endings,
                    identities=identities,
                    budget=task.budget,
                    honest=task.honest,
                    delta=task.delta,
                )
            nursery.cancel_scope.cancel()
    except ConnectionError as error:
        return ShardEnded({}, f"could not connect: {error}")
    position = charter.roster.position
    return ShardEnded({position[name]: end for name, end in endings.items() if end != DONE})


async def run_in_workers(
    exchange: Exchange,
    setting: Setting,
    records: Records,
    engine: Engine,
    *,
    workers: int,
    secured: bool,
    budget: float | None = None,
    honest: int = 0,
    delta: float = DELTA,
    joining: float = JOINING,
    linger: float = LINGER,
) -> Run:
    """Run a survey with its parties in the workers of an engine.

    The parties of a worker that dies are gone; their endings say so.

    Args:
        exchange: the rules of the hub, and its record.
        records: the true answers, in the order of the parties.
        workers: number of workers, limited by ``engine_for``; parties are spread evenly.
        secured: whether they dial in over TLS.
        budget: the most epsilon that a party spends per respondent, in nats.
        honest, delta: terms that parties consent to.
        joining: seconds that the workers may take to connect.
        linger: seconds of silence after the aggregator's end until remaining parties are given up.

    Raises:
        EngineError: as ``Engine.drain``.
        OSError: the hub cannot listen where the workers would reach it.
        ProtocolError: the aggregator's role failed.
    """
    charter, streams = setting.charter, setting.streams
    switch = Switch(exchange, LIMITS)
    shards = split_shards(len(setting.holdings), workers)
    issue = credentials_issuer(streams) if secured else None
    mine = None if issue is None else issue(setting.identities[AGGREGATOR])
    tls = None if mine is None else mine.context(server_context)
    watched = _Watched(engine, charter, shards)
    ends = list(itertools.accumulate(map(len, setting.holdings.values()), initial=0))
    async with open_shards(switch, shards, host=engine.host, tls=tls) as (hub, port):
        tasks = [
            ShardTask(
                charter=charter,
                shard=shard,
                records=Records(
                    records.survey, records.codes[ends[shard.first - 1] : ends[shard.last]]
                ),
                seed=setting.seed,
                budget=budget,
                honest=honest,
                delta=delta,
                host=engine.host,
                port=port,
                credentials=issue(Identity(shard.name, os.urandom(32))) if issue else None,
            )
            for shard in shards
        ]
        async with running(functools.partial(watched.run, tasks, hub)):
            aggregator = await lead_session(
                charter, hub, streams, identity=setting.identities[AGGREGATOR], joining=joining
            )
            said = -1
            while said != exchange.messages and not watched.all_back.is_set():
                said = exchange.messages
                with trio.move_on_after(linger):
                    await watched.all_back.wait()
            hub.dismiss()
            with trio.move_on_after(linger):
                await watched.all_back.wait()
    failure = aggregator.failure
    if failure is not None and not isinstance(failure, QuorumError):
        # Without a quorum, the endings give the reasons.
        for why in watched.lost.values():
            failure.add_note(why)
    return finished_run(aggregator, watched.endings(exchange.departed))


def engine_for(workers: int, engine: Engine | None) -> Engine:
    """An engine, checked to have so many workers.

    Raises:
        UsageError: the numbers do not fit.
    """
    if workers < 1:
        raise UsageError(f"{workers} workers: expected at least 1")
    if engine is None:
        raise UsageError(f"{workers} workers: expected an engine too")
    if workers > engine.jobs:
        raise UsageError(
            f"{workers} workers: the engine {engine.name!r} runs {engine.jobs} at a time"
        )
    return engine


def split_shards(parties: int, workers: int) -> list[Shard]:
    """Runs of neighbours on the roster, with lengths that differ by at most 1."""
    ends = _split_evenly(parties, workers)
    return [
        Shard(i + 1, ends[i] + 1, ends[i + 1], os.urandom(SECRET_BYTES)) for i in range(workers)
    ]


def _split_evenly(count: int, parts: int) -> list[int]:
    """Starts of ``parts`` parts of nearly equal length, and the end of the last."""
    return [count * i // parts for i in range(parts + 1)]


class _Watched:
    """The workers' tasks, from their start to what came of them.

    Attributes:
        all_back: set when every task has returned or is lost.
        lost: why each lost worker is, by its number.
    """

    def __init__(self, engine: Engine, charter: Charter, shards: Sequence[Shard]) -> None:
        self.all_back = trio.Event()
        self._engine = engine
        self._members = charter.roster.members
        self._shards = {shard.number: shard for shard in shards}
        self._ended: dict[int, ShardEnded] = {}
        self.lost: dict[int, str] = {}

    async def run(self, tasks: Sequence[ShardTask], hub: ShardHub) -> None:
        """Run the tasks; if a task is lost, its parties are gone."""

        def submit() -> None:
            for task in tasks:
                # Its parties have sent messages that another worker could not repeat.
                self._engine.submit(task.shard.number, run_shard, task, again=False)

        await trio.to_thread.run_sync(submit)
        left = set(self._shards)
        while left:
            drained = await trio.to_thread.run_sync(self._engine.drain, abandon_on_cancel=True)
            for number, ended in drained:
                left.discard(number)
                failure = ended.reason if isinstance(ended, Lost) else ended.failure
                if failure is None:
                    self._ended[number] = ended
                else:
                    self.lost[number] = f"{self._shards[number].lost}: {failure}"
                    hub.lose(self._shards[number], self.lost[number])
        self.all_back.set()

    def endings(self, departed: Mapping[PartyId, str]) -> dict[PartyId, str]:
        """Ending of each party.

        Args:
            departed: members that have left the hub, with reasons.
        """
        endings: dict[PartyId, str] = {}
        for number, shard in self._shards.items():
            for place in range(shard.first, shard.last + 1):
                name = self._members[place][0]
                left = departed.get(name)
                if number in self._ended:
                    endings[name] = self._ended[number].endings.get(place, DONE)
                elif left == LINK_CLOSED:
                    late = f"worker {number} did not return in time"
                    endings[name] = f"had closed its link; {self.lost.get(number, late)}"
                elif number in self.lost:
                    endings[name] = self.lost[number]
                else:
                    endings[name] = "did not end in time" if left is None else left
        return endings
