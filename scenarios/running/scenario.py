"""Scenario: a named experiment with typed parameters that runs and reports.

Names imported as themselves are part of ``scenarios``, which takes names from its own modules only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from protocol.crypto.randomness import Stream, secret_of
from protocol.errors import UsageError as UsageError
from protocol.estimators.analysis import Analysis
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.intervals import USUAL
from protocol.estimators.inference.intervals import Intervals as Intervals
from protocol.estimators.projection import Projection
from protocol.session.variant import V, Variant
from protocol.simulation.populations.population import Population
from protocol.surveys.records import Records
from scenarios.running.calibrating import UNCALIBRATED, Calibration
from scenarios.running.engines.engine import Engine
from scenarios.running.engines.sweep import Sweep
from scenarios.running.outcomes import Outcome
from scenarios.running.parameters import (
    Positive,
    argument_helps,
    choices,
    description,
    made,
    settable,
)
from scenarios.running.reproduction import Reproduced, Runs
from scenarios.running.simulation import TransportName, Watch, simulate
from scenarios.wording.hints import parameter_hint
from transports.faults import Fault as Fault
from transports.faults import crash as crash
from transports.faults import cut as cut
from transports.faults import delay as delay
from transports.faults import drop as drop
from transports.faults import duplicate as duplicate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

A = TypeVar("A")
P = TypeVar("P", bound=msgspec.Struct)
R = TypeVar("R")


def _ignore_progress(done: int, total: int) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Context of a run: everything but its parameters.

    Args:
        seed: decides all randomness.
        withheld: whether the transcript does without the seed.
        transport: transport of the messages, by default as for ``simulate``.
        workers: the number of workers that the parties live in; None for this process.
        engine: engine of the workers.
        data: folder of public data, or None.
        transcript: path of the transcript, or None to keep it in memory.
        watch: follows a run, as of ``simulate``.
        by_messages: a reproduction is to run its experiment once, through live actors
            (``simulate``), and to report its outcome too.
        progress: a reproduction tells it how much is done, and of how much.
        sweep: carries out the pieces of a reproduction.
        intervals: level and subject of intervals, for a scenario with rows or a picture of its own.
        calibration: known margins to fit estimates to; checked before a run.
    """

    seed: int = field(default=1, repr=False)
    withheld: bool = False
    transport: TransportName | None = None
    workers: int | None = None
    engine: Engine | None = None
    data: Path | str | None = None
    transcript: Path | str | None = None
    watch: Watch | None = None
    by_messages: bool = False
    progress: Callable[[int, int], None] = _ignore_progress
    sweep: Sweep = field(default_factory=Sweep)
    intervals: Intervals = USUAL
    calibration: Calibration = UNCALIBRATED

    def map(self, kernel: Callable[[A], R], arguments: Sequence[A]) -> list[R]:
        """Results of a kernel for each argument, in their order; reports the progress.

        Args:
            kernel: a function at the top of a module. Its result follows from its argument alone,
                and its annotation says what that is.
            arguments: settings of an experiment, each with the source of its randomness.

        Raises:
            Exception: as the kernel or the engine that carries it out.
        """
        return self.sweep(kernel, arguments, progress=self.progress)

    def stream(self, purpose: str) -> Stream:
        """Randomness that follows from the seed, to make records of; one for each purpose."""
        return Stream(secret_of(self.seed)).derive(purpose)

    def drawn(self, records: Records, population: Population) -> Records:
        """Register the population that records were drawn from, for ``tabulate``.

        Args:
            records: records to be passed to ``simulate``.
            population: the population that they were drawn from.

        Returns:
            The same records.
        """
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
        """Run a variant on known records, with this context's settings.

        Args:
            parties: number of parties that hold the records; one each by default.
            drop: share of parties that vanish before they contribute.
            rules: other faults to inject.
            analysis: the announced analysis.
            strata: the stratum of each respondent, where the variant has weights.

        Raises:
            UsageError: more parties than records, or as ``simulate``.
        """
        if parties is not None and parties > len(records):
            raise UsageError(
                f"parameter 'parties' = {parties}: more than the {len(records)} records"
            )
        self.calibration.check(variant.survey)
        if drop:
            kind = variant.contribution
            rules = (*rules, crash(drop, kind=None if kind is None else kind.kind()))
        return simulate(
            variant,
            records,
            seed=self.seed,
            transport=self.transport,
            parties=parties,
            rules=rules,
            path=self.transcript,
            watch=self.watch,
            workers=self.workers,
            engine=self.engine,
            analysis=analysis,
            withheld=self.withheld,
            strata=strata,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A run of a scenario: its outcome, and its report.

    Args:
        projection: applied to the tables that are reported.
        estimate: the estimate to report instead of the outcome's own.
        agreed: whether it was made to agree with known margins, and how is to be said.
        rows: rows to report instead of the attributes' tables, all with the same keys.
        extra: the scenario's own keys of ``result.json``.
        error: further keys of its ``error``.
        notes: sentences for a reader.
        plot: draws what ``--plot`` shows; by default estimates beside the truth.
    """

    outcome: Outcome[Variant]
    projection: Projection = "none"
    estimate: Estimate | None = None
    agreed: bool = False
    rows: Sequence[Mapping[str, str | float | None]] = ()
    extra: Mapping[str, object] = field(default_factory=dict)
    error: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    plot: Callable[[Figure], None] | None = None

    @property
    def reported(self) -> Estimate:
        """The estimate to report."""
        return self.outcome.estimate if self.estimate is None else self.estimate

    def calibrated(self, calibration: Calibration) -> Finished:
        """A run that reports the calibrated estimate; this one without files of margins.

        Raises:
            UsageError: the calibration is impossible.
        """
        if not calibration.files:
            return self
        return replace(self, estimate=calibration.of(self.reported), agreed=True)


class _Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of every scenario made by ``Scenario.of``.

    Args:
        parties: over how many they are spread; one each.
    """

    parties: Positive | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario(Generic[P]):
    """A named experiment.

    Args:
        name: its name on the command line.
        summary: one sentence.
        parameters: a frozen ``msgspec.Struct`` with a default for every field; its docstring, or a
            ``msgspec.Meta(description=...)``, documents a field, and its bounds are checked.
        joint: whether what it estimates has a joint distribution, so that ``--synthetic`` can draw.
        fixed: end of the error about an unknown parameter: where else to change it.
        run: runs it; a reproduction, which has the parameter ``runs: Runs``, returns
            ``Reproduced``.
    """

    name: str
    summary: str
    parameters: type[P]
    run: Callable[[P, Context], Finished | Reproduced]
    joint: bool = True
    fixed: str = ""

    @staticmethod
    def of(
        variant: Callable[..., Variant],
        *,
        name: str,
        summary: str,
        records: Callable[..., Records],
        names: Sequence[str] = (),
        joint: bool = True,
        **defaults: object,
    ) -> Scenario[msgspec.Struct]:
        """A survey of records by a variant.

        Its parameters are the fields of the variant, the arguments of ``records`` and ``parties``,
        with the first sentence on each in the docstrings as its help.

        Args:
            variant: its class, or what else makes one for a ``survey``, such as ``with_keep``.
            name, summary, joint: as for every scenario.
            records: makes the records, from a ``context`` and arguments of its own.
            names: which parameters there are, and in which order; all, if none is named.
            defaults: defaults of parameters that have none, or another one.

        Raises:
            TypeError: a parameter has no default.
        """

        def run(parameters: msgspec.Struct, context: Context) -> Finished:
            found = made(records, parameters, context=context)
            asked = made(variant, parameters, survey=found.survey)
            parties = getattr(parameters, "parties", None)
            return Finished(outcome=context.simulate(asked, found, parties=parties))

        parameters: type[msgspec.Struct] = settable(
            _Spread, variant, records, names=names, renamed=None, **defaults
        )
        return Scenario(name=name, summary=summary, parameters=parameters, run=run, joint=joint)

    @property
    def reproduces(self) -> bool:
        """True if this is a reproduction, by its parameters."""
        fields = msgspec.structs.fields(self.parameters)
        return any(info.name == "runs" and info.type == Runs for info in fields)

    def configure(self, given: Mapping[str, object]) -> P:
        """Parameters from values or texts.

        Raises:
            UsageError: a parameter is unknown or out of range; names it and the expected values.
        """
        types = {f.encode_name: f.type for f in msgspec.structs.fields(self.parameters)}
        known = [*types]
        for name in given:
            if name not in known:
                hint = parameter_hint(name, known)
                raise UsageError(
                    f"scenario {self.name!r} has no parameter {name!r}{hint}{self.fixed}"
                )
        try:
            parameters = msgspec.convert(dict(given), self.parameters, strict=False)
        except msgspec.ValidationError as error:
            from protocol.wire.undecoded import Undecoded
            from scenarios.wording.numbers import number_hint

            why, name = Undecoded.of(error)
            if not name:
                raise UsageError(f"scenario {self.name!r}: {why}") from error
            value = given.get(name)
            hint = number_hint(str(value), whole="whole number" in why)
            if isinstance(value, str):
                # Numbers are read from texts here.
                why = why.removesuffix(", not a text")
            if allowed := choices(types.get(name)):
                why = f"expected {allowed}"
            raise UsageError(f"parameter {name!r} = {value!r}: {why}{hint}") from error
        except UnicodeEncodeError as error:
            raise UsageError(
                f"scenario {self.name!r}: {error.object!r}: not text in UTF-8"
            ) from error
        for info in msgspec.structs.fields(self.parameters):
            value, name = getattr(parameters, info.name), info.encode_name
            # JSON has no such numbers, and paths no such texts.
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"parameter {name!r} = {given.get(name)!r}: not a finite number")
            if isinstance(value, str) and "\0" in value:
                raise UsageError(f"parameter {name!r} = {value!r}: has a null character")
        return parameters

    def describe(self) -> list[tuple[str, str, str]]:
        """(name, default, description) of every parameter."""
        described, helps = [], argument_helps(self.parameters)
        for info in msgspec.structs.fields(self.parameters):
            default = "" if info.default is None else str(info.default).lower()
            said = description(info.type) or helps.get(info.name, "")
            described.append((info.encode_name, default, said))
        return described
