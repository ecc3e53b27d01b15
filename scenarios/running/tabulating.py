"""Surveys by law: an engine draws people in cohorts, asks them, and adds up their reports.

There are no live parties and no record. The clients' own code draws the reports, from people who
are drawn from a population. 10^9 respondents take a minute.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from protocol.accounting.accountants import Loss, maximum
from protocol.crypto.merkle import Tree
from protocol.errors import UsageError
from protocol.estimators.analysis import Analysis
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.intervals import Intervals
from protocol.messages import Message
from protocol.session.tabulation import Stage, Totals
from protocol.session.variant import V, Variant, plain_parameters
from protocol.sharing.sums import find_secure_sum
from protocol.simulation.populations.cohorts import (
    Counted,
    Job,
    blaming,
    count_cohort,
    count_parties,
    respondent_loss,
)
from protocol.simulation.populations.population import Population, Resampled
from protocol.simulation.populations.tally import Tally
from protocol.surveys.records import Records
from scenarios.files.cohorts_done import (
    Snapshot,
    read_snapshot,
    remove_snapshot,
    sole,
    write_snapshot,
)
from scenarios.running.calibrating import UNCALIBRATED, Calibration
from scenarios.running.engines.carrying import own_files, packed, unpacked
from scenarios.running.engines.engine import Engine, EngineName, completed
from scenarios.running.engines.opening import open_engine
from scenarios.running.engines.sweep import code_versions
from scenarios.running.outcomes import Outcome, V_co, WithEstimate
from scenarios.running.parameters import parameters_checked
from scenarios.running.scenario import Context, Scenario
from scenarios.wording.formatting import count
from transports.faults import Fault

E = TypeVar("E", bound=Estimate)
P = TypeVar("P", bound=msgspec.Struct)

MAX_PEOPLE = 2**53
MAX_COHORT = 2**27
MAX_COHORTS = 2**24
"""The maximum number of people, of people in a cohort, and of cohorts."""

COHORT = 1_000_000
"""The default number of people in a cohort."""

WRITTEN_EVERY = 10.0
"""Seconds between two writes of the file, which is the work lost if a driver dies.

Longer where writing takes long.
"""

_SHARE_OF_WRITING = 0.02

ABOUT_POPULATION = Intervals(about="population")
"""Intervals about the population that people are drawn from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tabulated(Generic[V_co]):
    """Result of asking people by law, generic in the variant.

    Args:
        variant: the protocol.
        population: the population that people were drawn from.
        n: the number of people.
        cohort: the number of people in a cohort; the last cohort may be smaller.
        cohorts: the number of cohorts in all stages.
        stages: the number of questions, such as the rounds of PrivKVM.
        seed: the source of all randomness.
        engine: the engine that did the work.
        parties: the number of parties that held the people; None if each person was a party.
        result: the result as an aggregator would publish it. Counts may exceed the wire format.
        digest: the root of the Merkle tree over the cohorts' counts, 32 bytes, equal on all
            engines.
        loss: a respondent's privacy loss by the ledger; for a sum, the loss whoever conspires.
        seconds: running time.
        calibration: known margins that the reported estimate is fitted to.
        withheld: whether this is a trial on real records, with a seed that is not written down.
    """

    variant: V_co
    population: Population
    n: int
    cohort: int
    cohorts: int
    stages: int
    seed: int
    engine: str
    result: Message
    digest: bytes
    loss: Loss
    seconds: float
    parties: int | None = None
    calibration: Calibration = UNCALIBRATED
    withheld: bool = False

    def __repr__(self) -> str:
        return (
            f"<Tabulated: {self.variant.name}, {count(self.n, 'person', 'people')} by law, "
            f"digest {self.digest.hex()[:16]}>"
        )

    @property
    def estimate(self: WithEstimate[E]) -> E:
        """The estimate in the result, of the variant's own type."""
        return self.variant.estimate(self.result)

    @property
    def reported(self) -> Estimate:
        """The estimate to report, calibrated if requested.

        Raises:
            UsageError: the calibration is impossible.
        """
        return self.calibration.of(self.estimate) if self.calibration.files else self.estimate

    @property
    def attribute_epsilon(self) -> dict[str, float]:
        """A respondent's epsilon for records that differ in one attribute, by attribute."""
        return {name: self.loss.attributes.get(name, 0.0) for name in self.variant.survey.names}

    @property
    def sentence(self) -> str:
        """Sentence on the people and their population."""
        return (
            f"{count(self.n, 'person', 'people')} by law, drawn from "
            f"{self.population.says}: nobody was live, no message was sent, and nothing was "
            "recorded."
        )


def tabulate(
    variant: V,
    population: Population | Records,
    *,
    n: int,
    cohort: int = COHORT,
    seed: int = 1,
    engine: Engine | EngineName = "here",
    jobs: int | None = None,
    address: str | None = None,
    parties: int | None = None,
    path: Path | str | None = None,
    keep: bool = False,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> Tabulated[V]:
    """Ask many people by law: draw them from a population, cohort by cohort, and count the reports.

    The same seed, n and cohort give the same counts and the same digest on every engine. Memory is
    bounded for any n, apart from 32 bytes per cohort.

    Args:
        variant: the protocol; a person's report may depend only on the question and her own record.
        population: the population to draw from; records are drawn with replacement.
        n: number of people, 1 to 2**53.
        cohort: number of people in a task, 1 to 2**27.
        seed: source of all randomness, 0 to 2**64 - 1. It protects nobody.
        engine: an engine, or the name of one to open.
        jobs: number of concurrent tasks of an engine opened by name.
        address: address of a Ray cluster, for an engine opened by name.
        parties: number of parties that the people are spread over, each of which adds its own coins
            to a sum with coins; None if every person is a party. It has no other effect.
        path: a file of finished cohorts, updated every few seconds. An existing file is resumed;
            the file is removed at the end.
        keep: leave the file at the end, for the caller to remove once the result is written.
        progress: called with the number of people asked so far, and their maximum number.

    Raises:
        CannotTabulateError: in this variant a report depends on other people.
        LocalProtocolError: the code of the variant, its randomizer or the population fails in a
            cohort.
        UnsupportedEventError: the variant's reports reveal something else than it declares.
        UsageError: arguments out of range or in conflict, or a file at ``path`` that is damaged or
            belongs to another tabulation.
        SurveyError: the population belongs to another survey.
        EngineError: workers keep dying, or cannot be reached.
        OSError: the file cannot be written.
    """
    _check_sizes(n, cohort, parties)
    job = _make_job(variant, population, seed)
    with ExitStack() as stack:
        opened = _engine_in(stack, engine, jobs, address)
        file = None if path is None else Path(path)
        if file is not None:
            stack.enter_context(sole(file))
        driver = _Driver(
            job, opened, n=n, cohort=cohort, parties=parties, file=file, progress=progress
        )
        result = driver.run()
        if file is not None and not keep:
            remove_snapshot(file)
    return Tabulated(
        variant=variant,
        population=job.population,
        n=n,
        cohort=cohort,
        cohorts=driver.tree.count,
        parties=parties,
        stages=driver.stages,
        seed=seed,
        engine=opened.name,
        result=result,
        digest=driver.tree.root(),
        loss=driver.loss,
        seconds=driver.seconds,
    )


def _make_job(variant: Variant, population: Population | Records, seed: int) -> Job:
    law = Resampled(population) if isinstance(population, Records) else population
    try:
        return Job(variant, law, seed)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _check_sizes(n: int, cohort: int, parties: int | None) -> None:
    _check("n", n, MAX_PEOPLE)
    _check("cohort", cohort, MAX_COHORT)
    if parties is not None:
        _check("parties", parties, MAX_PEOPLE)
        if n < parties:
            raise UsageError(f"n {n:,}: expected at least {parties:,}, one person for each party")
    if n > cohort * MAX_COHORTS:
        raise UsageError(
            f"n {n:,} in cohorts of {cohort:,}: expected at most {MAX_COHORTS:,} cohorts"
        )


def _engine_in(
    stack: ExitStack, engine: Engine | EngineName, jobs: int | None, address: str | None
) -> Engine:
    """The engine; one given by name is opened until the stack closes."""
    if not isinstance(engine, Engine):
        return stack.enter_context(open_engine(engine, jobs=jobs, address=address))
    if jobs is not None or address is not None:
        raise UsageError("jobs and address are of an engine that is opened by its name")
    return engine


class _Driver:
    """A tabulation in progress.

    Attributes:
        tree: Merkle tree over the cohorts of all finished stages.
        stages: number of finished stages.
    """

    def __init__(
        self,
        job: Job,
        engine: Engine,
        *,
        n: int,
        cohort: int,
        parties: int | None,
        file: Path | None,
        progress: Callable[[int, int], object],
    ) -> None:
        self.tree = Tree()
        self.stages = 0
        self._job = job
        self._engine = engine
        self._n = n
        self._cohort = cohort
        self._parties = parties
        self._file = file
        self._progress = progress
        self._about = {} if file is None else about(job, n=n, cohort=cohort, parties=parties)
        self._known = None if file is None else read_snapshot(file, self._about)
        self._before = 0.0 if self._known is None else self._known.seconds
        self._started = self._written = time.monotonic()
        self._pause = WRITTEN_EVERY
        self._finished: list[tuple[bytes, bytes]] = []
        self._losses: dict[int, Loss] = {}
        self._people = 0
        self._shared: Job | bytes = job if engine.name == "here" else packed(_return_job, job)

    @property
    def seconds(self) -> float:
        """Running time so far, including the time before a resumption."""
        return self._before + time.monotonic() - self._started

    @property
    def loss(self) -> Loss:
        """The largest loss of a respondent; each belongs to one group."""
        return maximum(list(self._losses.values()))

    def run(self) -> Message:
        """Ask stage by stage; return the result."""
        variant = self._job.variant
        asking = variant.stages(self._n)
        with blaming(variant):
            stage = next(asking)
        self._check_sums()
        while True:
            # The last stage of a group accounts for all that its people reveal.
            self._losses[stage.group] = respondent_loss(self._job, stage)
            totals = self._count_stage(stage)
            try:
                with blaming(variant):
                    stage = asking.send(totals)
            except StopIteration as end:
                self._write((b"", b"", b""))
                result: Message = end.value
                return result

    def _check_sums(self) -> None:
        """Refuse impossible parameters of a sum before any people are drawn."""
        sums = find_secure_sum(self._job.variant)
        if sums is not None:
            with parameters_checked():
                sums.degree(self._n if self._parties is None else self._parties)

    def _count_stage(self, stage: Stage) -> Totals:
        """Count all cohorts of a stage, those in the file excepted."""
        tally = Tally(self.stages, people=stage.people, cohort=self._cohort)
        self._restore(tally)
        total = self._people + stage.people + stage.rest
        self._progress(self._people + tally.people, total)
        try:
            for cohort, counted in completed(self._engine, _count_task, self._tasks(stage, tally)):
                tally.add(cohort, counted)
                self._progress(self._people + tally.people, total)
                if time.monotonic() - self._written > self._pause:
                    self._write(tally.state())
        except BaseException:
            # With a full disk or a partly added cohort, keep the previous file.
            with contextlib.suppress(OSError):
                if tally.whole:
                    self._write(tally.state())
            raise
        for leaf in tally.leaves():
            self.tree.append(leaf)
        if self._file is not None:
            self._finished.append(tally.state()[1:])
        self.stages += 1
        self._people += stage.people
        return tally.totals

    def _tasks(self, stage: Stage, tally: Tally) -> Iterator[tuple[int, _Task]]:
        for cohort in tally.missing():
            start, k = cohort * self._cohort, tally.cohort_size(cohort)
            parties = count_parties(self._parties, start, start + k, stage.people)
            yield cohort, _Task(self._shared, stage, cohort, k, parties)

    def _restore(self, tally: Tally) -> None:
        known = self._known
        if known is None or tally.stage > len(known.stages):
            return
        try:
            if tally.stage < len(known.stages):
                leaves, totals = known.stages[tally.stage]
                done = b"\xff" * (len(tally) // 8)
                if len(tally) % 8:
                    done += bytes([0xFF << (8 - len(tally) % 8) & 0xFF])
                tally.restore(done, leaves, totals)
            else:
                tally.restore(known.done, known.leaves, known.totals)
        except ValueError as error:
            raise UsageError(f"{self._file}: {error}; delete it to begin anew") from error

    def _write(self, state: tuple[bytes, bytes, bytes]) -> None:
        """Write the finished stages and the state of the current one."""
        if self._file is None:
            return
        began = time.monotonic()
        done, leaves, totals = state
        write_snapshot(
            self._file,
            Snapshot(
                about=self._about,
                seconds=self.seconds,
                stages=self._finished,
                done=done,
                leaves=leaves,
                totals=totals,
            ),
        )
        self._written = time.monotonic()
        self._pause = max(WRITTEN_EVERY, (self._written - began) / _SHARE_OF_WRITING)


def about(job: Job, *, n: int, cohort: int, parties: int | None = None) -> dict[str, Any]:
    """Description of a tabulation, for a file of finished cohorts."""
    return {
        "variant": job.variant.name,
        "parameters": plain_parameters(job.variant),
        "survey": job.variant.survey.digest,
        "population": [job.population.says, job.population.digest],
        "seed": job.seed,
        "n": n,
        "cohort": cohort,
        "parties": parties,
        **code_versions(own_files(job)),
    }


def _return_job(job: Job) -> Job:
    return job


@functools.lru_cache(maxsize=2)
def _unpack_job(packed_job: bytes) -> Job:
    """A job sent to this process, unpacked once for all of its cohorts."""
    job: Job = unpacked(packed_job)[1]
    return job


@dataclass(frozen=True, slots=True)
class _Task:
    job: Job | bytes
    stage: Stage
    cohort: int
    k: int
    parties: int | None


def _count_task(task: _Task) -> Counted:
    """Count a cohort, in any process."""
    job = task.job if isinstance(task.job, Job) else _unpack_job(task.job)
    return count_cohort(job, task.stage, task.cohort, task.k, task.parties)


def surveyed(scenario: Scenario[P], parameters: P, context: Context) -> Surveyed:
    """Variant and population that a scenario would simulate.

    Raises:
        UsageError: the scenario simulates nothing through its context, or injects faults.
    """
    if scenario.reproduces:
        raise UsageError(
            f"scenario {scenario.name!r} is a reproduction, which draws by law anyway: run it"
        )
    asking = _Asking(seed=context.seed, data=context.data)
    try:
        scenario.run(parameters, asking)
    except _SimulationReached as reached:
        return reached.surveyed
    raise UsageError(f"scenario {scenario.name!r} does not call context.simulate: nobody is asked")


class Surveyed(NamedTuple):
    """A scenario's simulation. ``parties`` is None if each person is a party."""

    variant: Variant
    population: Population
    parties: int | None = None


class _SimulationReached(BaseException):
    """Ends a scenario at its simulation; a ``BaseException`` passes its own error handlers."""

    def __init__(self, surveyed: Surveyed) -> None:
        super().__init__("simulation reached")
        self.surveyed = surveyed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking(Context):
    """A context that ends the scenario at its simulation.

    Args:
        laws: the populations that records were drawn from.
    """

    laws: list[tuple[Records, Population]] = field(default_factory=list)

    def drawn(self, records: Records, population: Population) -> Records:
        self.laws.append((records, population))
        return records

    def simulate(
        self,
        variant: V,
        records: Records,
        *,
        parties: int | None = None,
        drop: float = 0.0,
        rules: Sequence[Fault] = (),
        analysis: Analysis | None = None,
        strata: Sequence[str] | None = None,
    ) -> Outcome[V]:
        if drop or rules:
            raise UsageError("people by law never depart: no faults can be injected")
        laws = (law for drawn, law in self.laws if drawn is records)
        raise _SimulationReached(Surveyed(variant, next(laws, None) or Resampled(records), parties))


def _check(name: str, given: int, most: int) -> None:
    if not isinstance(given, int) or not 1 <= given <= most:
        raise UsageError(f"{name} {given!r}: expected an integer from 1 to {most:,}")
