"""``sottovoce run``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec

from parties.keeping.record_names import PARTIAL, RECORD_FILES, RESULT, TRANSCRIPT, checkpoint_path
from parties.keeping.writing import make_folder
from protocol.errors import UsageError
from protocol.estimators.inference.intervals import Intervals
from scenarios.cli.engines import EngineChoice, going_on_from
from scenarios.cli.estimates import beside_options, calibration_options, interval_options
from scenarios.cli.numbers import Whole
from scenarios.cli.options import (
    clear,
    details_option,
    force_option,
    is_given,
    json_option,
    json_text,
    print_page,
    print_statement,
)
from scenarios.cli.paths import WRITTEN_FILE, WrittenFolder
from scenarios.cli.scenario import ScenarioOptions
from scenarios.cli.values import frozen_options, option, part, shared, takes
from scenarios.files.pieces import PIECES
from scenarios.report.beside import Beside
from scenarios.running.calibrating import Calibration
from scenarios.running.engines.engine import Engine
from scenarios.running.engines.here import Here
from scenarios.running.engines.sweep import Sweep, sweep_description
from scenarios.running.reproduction import Reproduced
from scenarios.running.scenario import Context, Finished, Scenario
from scenarios.running.simulation import TRANSPORTS, TransportName, Watch
from scenarios.statement.runs import state_run
from scenarios.statement.statement import Statement
from scenarios.surveys.trial import trial_cost
from scenarios.surveys.watching.bars import ongoing
from scenarios.surveys.watching.run_line import following


@frozen_options
class RunOptions:
    """The options of ``sottovoce run``."""

    asked: ScenarioOptions = part(ScenarioOptions)
    transport: TransportName | None = option(
        "--transport",
        type=click.Choice(TRANSPORTS),
        help="What carries the messages: one loop (local), queues in memory, or TCP or TLS on this "
        "machine; the result is the same.  [default: memory; tcp with --workers]",
    )
    workers: int | None = option(
        "--workers",
        type=Whole(min=1),
        help="Spread the live parties over this many workers, which connect to this process by TCP "
        "or TLS. They are processes of this machine, or of --engine; the result is the same.",
    )
    parties: int | None = option(
        "--parties",
        type=Whole(min=1),
        metavar="N",
        help="Number of live parties that the records are spread over: the parameter of that name.",
    )
    out: Path | None = option(
        "--out",
        type=WrittenFolder(*RECORD_FILES, PIECES),
        help=f"The folder for {TRANSCRIPT}, its checkpoint and {RESULT}; an earlier simulation "
        f"there is replaced, and a run that fails leaves {TRANSCRIPT}{PARTIAL}. By default nothing "
        "is written.",
    )
    force: bool = shared(force_option)
    as_json: bool = shared(json_option)
    details: bool = shared(details_option)
    beside: Beside = shared(beside_options)
    watched: bool = option(
        "--watch",
        is_flag=True,
        help="Show the progress of the survey: parties that answered or left, the epsilon spent, "
        "and the estimates with their intervals. Without a terminal, print a line for each step to "
        "standard error.",
    )
    by_messages: bool = option(
        "--by-messages",
        is_flag=True,
        help="Run a cell of a reproduction through live parties, as often as its parameter "
        "repeats.",
    )
    csv: Path | None = option(
        "--csv",
        type=WRITTEN_FILE,
        help="A CSV file to write a reproduction's figures into, a line each.",
    )
    calibration: Calibration = shared(calibration_options)
    intervals: Intervals = shared(interval_options())
    engine: EngineChoice = part(EngineChoice)

    @property
    def carrier(self) -> TransportName:
        """The transport that carries the messages."""
        return self.transport or ("memory" if self.workers is None else "tcp")

    @property
    def files(self) -> Beside:
        """The files written with a result."""
        return self.beside._replace(csv=self.csv)

    def live(self, scenario: Scenario[Any]) -> bool:
        """True if parties are live, so that messages are recorded."""
        return self.by_messages or not scenario.reproduces

    def configure(self, scenario: Scenario[Any]) -> Any:
        """The parameters of the scenario.

        Raises:
            UsageError: a parameter is unknown, out of range or given twice.
        """
        given = self.asked.parameters()
        if self.parties is not None:
            if "parties" in self.asked.settings:
                raise UsageError("--parties: --set has it too")
            given["parties"] = str(self.parties)
        return scenario.configure(given)

    def check(self, scenario: Scenario[Any]) -> None:
        """Check the options against the scenario and each other, before anything runs.

        Raises:
            UsageError: options that do not fit the scenario or each other.
            OSError: the folder of a file beside the result cannot be made.
        """
        name, reproduces, live = repr(scenario.name), scenario.reproduces, self.live(scenario)
        if self.by_messages and not reproduces:
            raise UsageError(f"--by-messages: {name} is not a reproduction, it is always live")
        if reproduces and is_given("--level", "--about"):
            raise UsageError(
                f"--level, --about: {name} is a reproduction, whose errors are standard errors of "
                "figures over repeated runs"
            )
        if reproduces and self.calibration.files:
            raise UsageError(f"--calibrate: {name} is a reproduction")
        if self.force and self.out is None:
            raise UsageError("--force: expected --out too")
        if self.beside.synthetic is not None and (reproduces or not scenario.joint):
            raise UsageError(f"--synthetic: {name} estimates no joint distribution")
        if self.beside.html is not None and reproduces:
            raise UsageError(f"--html: {name} is a reproduction; expected --plot")
        if self.csv is not None and not reproduces:
            raise UsageError(f"--csv: {name} is not a reproduction; expected --json")
        self.files.check()
        if self.watched and not live:
            raise UsageError(
                f"--watch: {name} draws reports by their law and sends none; expected "
                "--by-messages too"
            )
        if self.workers is not None:
            if not live:
                raise UsageError(f"--workers: {name} is a reproduction; expected --by-messages")
            self._check_workers()
        elif self.engine.chosen and not reproduces:
            raise UsageError(f"--engine, --jobs: {name} is run live; expected --workers")

    def _check_workers(self) -> None:
        if self.transport in ("local", "memory"):
            raise UsageError(
                f"--workers {self.workers}: expected --transport tcp or tls, not {self.transport}"
            )
        if self.engine.jobs is not None:
            raise UsageError(
                f"--jobs {self.engine.jobs}: expected --workers alone, which says how many"
            )
        if self.engine.name == "here" and is_given("--engine"):
            raise UsageError(
                f"--workers {self.workers}: expected --engine processes or ray, not here"
            )

    @contextlib.contextmanager
    def open_workers(self) -> Generator[Engine | None]:
        """The engine with the parties' workers; None if the parties live in this process.

        Raises:
            UsageError: the engine is not installed, or options do not fit together.
        """
        if self.workers is None:
            yield None
            return
        name = "processes" if self.engine.name == "here" else self.engine.name
        with replace(self.engine, name=name, jobs=self.workers).open() as engine:
            yield engine

    @contextlib.contextmanager
    def followed(
        self, scenario: Scenario[Any]
    ) -> Generator[tuple[Watch | None, Callable[[int, int], None]]]:
        """Progress on a terminal: of answers in a live run, or of pieces of work otherwise."""
        if not self.live(scenario):
            with ongoing(scenario.name, silent=self.as_json) as progress:
                yield None, progress
            return
        name = f"{scenario.name} over {self.carrier}"
        with following(
            name, watched=self.watched, silent=self.as_json, intervals=self.intervals
        ) as followed:
            yield followed


@click.command()
@takes(RunOptions)
def run(options: RunOptions) -> None:
    """Run SCENARIO: a name from 'sottovoce list', or PATH.py or PATH.py:NAME of your own; or try
    a plan, PATH.toml, on the answers in --records.

    Every party is live and every message is recorded. This is a simulation: the seed is in the
    transcript, so it protects nobody. A reproduction of a paper's table or figure draws reports by
    their exact law instead, unless --by-messages is given.
    """
    asked = options.asked
    found = asked.load()
    parameters = options.configure(found)
    cost = None if asked.records is None else trial_cost(parameters.parties or 0)
    if cost is not None:
        click.echo(cost, err=True)
    options.check(found)
    out, seed, written = options.out, asked.drawn_seed(), []
    pieces = None if out is None else out / PIECES
    if out is not None:
        make_folder(out)
        clear(out, force=options.force)
    about = sweep_description(
        "run",
        found.run,
        scenario=found.name,
        parameters=msgspec.to_builtins(parameters),
        seed=None if asked.withheld else seed,
        data=None if asked.data is None else str(asked.data.absolute()),
        transport=options.carrier if options.by_messages else None,
    )
    with (
        going_on_from(pieces),
        # With --workers, the engine holds the parties of the runs.
        Sweep(
            options.engine.open if options.workers is None else Here, path=pieces, about=about
        ) as sweep,
        options.open_workers() as workers,
    ):
        with options.followed(found) as (watch, progress):
            context = Context(
                seed=seed,
                withheld=asked.withheld,
                transport=options.carrier,
                workers=options.workers,
                engine=workers,
                data=asked.data,
                transcript=out / TRANSCRIPT if out is not None and options.live(found) else None,
                watch=watch,
                by_messages=options.by_messages,
                progress=progress,
                sweep=sweep,
                intervals=options.intervals,
                calibration=options.calibration,
            )
            started = time.perf_counter()
            done = found.run(parameters, context)
            seconds = time.perf_counter() - started
        if options.by_messages and done.outcome is None:
            raise UsageError(f"--by-messages: {found.name!r} cannot be run by messages")
        if isinstance(done, Finished):
            done = done.calibrated(options.calibration)
        said, text = _state(found, parameters, done, options, seconds)
        if out is not None:
            written = _write_record(out, done, text)
            sweep.finish()
    if options.engine.chosen and options.workers is None and not sweep.maps:
        click.echo(f"{found.name} is one piece of work, done in this process", err=True)
    if options.as_json:
        click.echo(text)
    else:
        print_statement(said, details=options.details)
    written += options.files.write(found.name, done, options.intervals)
    if written and not options.as_json:
        *first, last = map(str, written)
        click.echo(f"written: {', '.join(first)} and {last}" if first else f"written: {last}")
        if options.beside.html is not None:
            print_page(options.beside.html)


def _state(
    scenario: Scenario[Any],
    parameters: Any,
    done: Finished | Reproduced,
    options: RunOptions,
    seconds: float,
) -> tuple[Statement, str]:
    """The statement of a run or a reproduction, and its JSON text."""
    if isinstance(done, Reproduced):
        from scenarios.statement.reproductions import state_reproduction

        reproduced = state_reproduction(done, seconds=seconds)
        return reproduced, json_text(reproduced.values)
    said = state_run(scenario.name, done, options.intervals)
    values = {"scenario": scenario.name, "parameters": parameters, **said.values}
    return said, json_text(values)


def _write_record(out: Path, done: Finished | Reproduced, text: str) -> list[Path]:
    """Write a result next to its transcript; return all files of the run in the folder."""
    # Imported late: it reads whole records.
    from parties.keeping.records import write_result

    transcript, recorded = out / TRANSCRIPT, done.outcome is not None
    write_result(transcript, text + "\n", recorded=recorded)
    return [*([transcript, checkpoint_path(transcript)] if recorded else []), out / RESULT]
