"""``sottovoce list`` and ``sottovoce run``."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import click
import msgspec

from protocol.estimators.inference.words import Intervals
from scenarios.cli.completion import complete_scenario, complete_scenario_setting
from scenarios.cli.engines import EngineChoice, engine_options, going_on_from
from scenarios.cli.options import (
    beside_options,
    calibration_options,
    clear,
    config_option,
    data_option,
    force_option,
    interval_options,
    is_given,
    json_option,
    json_text,
    print_report,
    print_statement,
    records_option,
    set_option,
    trial_seed_option,
    values_in,
)
from scenarios.cli.paths import TEXT_WITH_FILE, WRITTEN_FILE, WrittenFolder
from scenarios.engines.here import Here
from scenarios.engines.sweep import Sweep, about_of
from scenarios.errors import UsageError
from scenarios.files.checkpoints import checkpoint_path
from scenarios.files.kept_records import (
    PARTIAL,
    RECORD_FILES,
    RESULT,
    TRANSCRIPT,
    write_result,
)
from scenarios.files.pieces import PIECES
from scenarios.files.writing import make_folder
from scenarios.report.beside import Beside
from scenarios.running.calibrating import Calibration
from scenarios.running.loading import families, find_scenario
from scenarios.running.reproduction import Reproduced
from scenarios.running.scenario import Context, Scenario
from scenarios.running.simulation import TRANSPORTS, TransportName, Watch
from scenarios.watching.bars import ongoing
from scenarios.watching.live import following


@click.command("list")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_scenario)
@click.option("--parameters", is_flag=True, help="List the parameters of all of them too.")
def list_(names: tuple[str, ...], parameters: bool) -> None:
    """List the scenarios and reproductions by family; of each NAME, its parameters too."""
    from scenarios.report.terminal.text import families_report, scenario_table

    if names:
        print_report(map(scenario_table, map(find_scenario, names)), soft_wrap=False)
    else:
        print_report(families_report(families(), parameters=parameters))


@click.command()
@click.argument("scenario", type=TEXT_WITH_FILE, shell_complete=complete_scenario)
@set_option(complete_scenario_setting)
@config_option
@data_option
@click.option(
    "--transport",
    type=click.Choice(TRANSPORTS),
    help="What carries the messages: one loop (local), queues in memory, or TCP or TLS on this "
    "machine; the result is the same.  [default: memory; tcp with --workers]",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="Spread the live parties over this many workers, which connect to this process by TCP or "
    "TLS. They are processes of this machine, or of --engine; the result is the same.",
)
@click.option(
    "--parties",
    type=click.IntRange(min=1),
    metavar="N",
    help="Over how many live parties the records are spread: the parameter of that name.",
)
@records_option
@trial_seed_option
@click.option(
    "--out",
    type=WrittenFolder(*RECORD_FILES, PIECES),
    help=f"The folder for {TRANSCRIPT}, its checkpoint and {RESULT}; an earlier simulation there "
    f"is replaced, and a run that fails leaves {TRANSCRIPT}{PARTIAL}. By default nothing is "
    "written.",
)
@force_option
@json_option
@beside_options
@click.option(
    "--watch",
    "watched",
    is_flag=True,
    help="Show how the survey goes: who has answered and who is gone, the epsilon spent, and the "
    "estimates with their intervals, which shrink. Where there is no terminal, one line for each "
    "step goes to standard error.",
)
@click.option(
    "--by-messages",
    is_flag=True,
    help="Run a cell of a reproduction through live parties, as often as its parameter repeats.",
)
@click.option(
    "--csv",
    type=WRITTEN_FILE,
    help="A CSV file to write a reproduction's figures into, a line each.",
)
@calibration_options
@interval_options()
@engine_options
def run(
    scenario: str,
    settings: dict[str, str],
    config: Path | None,
    data: Path | None,
    transport: TransportName | None,
    workers: int | None,
    parties: int | None,
    records: Path | None,
    seed: int | None,
    out: Path | None,
    force: bool,
    as_json: bool,
    beside: Beside,
    watched: bool,
    by_messages: bool,
    csv: Path | None,
    calibration: Calibration,
    intervals: Intervals,
    engine: EngineChoice,
) -> None:
    """Run SCENARIO: a name from 'sottovoce list', or PATH.py or PATH.py:NAME of your own; or try
    a plan, PATH.toml, on the answers in --records.

    Every party is live and every message is recorded. This is a simulation: the seed is in the
    transcript, so it protects nobody. A reproduction of a paper's table or figure draws reports by
    their exact law instead, unless --by-messages is given.
    """
    from scenarios.deployment.trial import cost_of, scenario_or_trial
    from scenarios.statement.reproductions import state_reproduction
    from scenarios.statement.runs import state_run

    found, withheld = scenario_or_trial(scenario, records), records is not None and seed is None
    seed = (secrets.randbits(64) if withheld else 1) if seed is None else seed
    if parties is not None:
        if "parties" in settings:
            raise UsageError("--parties: --set has it too")
        settings = {**settings, "parties": str(parties)}
    parameters = found.configure((values_in(config) if config else {}) | settings)
    if records is not None and (cost := cost_of(parameters.parties or 0)) is not None:
        click.echo(cost, err=True)
    if by_messages and not found.reproduces:
        raise UsageError(f"--by-messages: {found.name!r} is not a reproduction, it is always live")
    if found.reproduces and is_given("level", "about"):
        raise UsageError(
            f"--level, --about: {found.name!r} is a reproduction, whose errors are standard errors "
            "of figures over repeated runs"
        )
    if found.reproduces and calibration.files:
        raise UsageError(f"--calibrate: {found.name!r} is a reproduction")
    if force and out is None:
        raise UsageError("--force: expected --out too")
    if beside.synthetic is not None and (found.reproduces or not found.joint):
        raise UsageError(f"--synthetic: {found.name!r} estimates no joint distribution")
    if beside.html is not None and found.reproduces:
        raise UsageError(f"--html: {found.name!r} is a reproduction; expected --plot")
    if csv is not None and not found.reproduces:
        raise UsageError(f"--csv: {found.name!r} is not a reproduction; expected --json")
    beside = beside._replace(csv=csv)
    beside.check()
    live = by_messages or not found.reproduces
    if watched and not live:
        raise UsageError(
            f"--watch: {found.name!r} draws reports by their law and nobody sends any; expected "
            "--by-messages too"
        )
    if workers is not None:
        if not live:
            raise UsageError(f"--workers: {found.name!r} is a reproduction; expected --by-messages")
        engine = _of_workers(workers, engine, transport)
    elif live and engine.chosen and not by_messages:
        raise UsageError(f"--engine, --jobs: {found.name!r} is run live; expected --workers")
    carrier = transport or ("memory" if workers is None else "tcp")
    if out is not None:
        make_folder(out)
        clear(out, force=force)
    about = about_of(
        "run",
        found.run,
        scenario=found.name,
        parameters=msgspec.to_builtins(parameters),
        seed=None if withheld else seed,
        data=None if data is None else str(data.absolute()),
        transport=carrier if by_messages else None,
    )
    written = []
    pieces = None if out is None else out / PIECES
    with (
        going_on_from(pieces),
        # With --workers the engine has the parties of one run after the other.
        Sweep(engine.open if workers is None else Here, path=pieces, about=about) as sweep,
        contextlib.nullcontext() if workers is None else engine.open() as opened,
    ):
        with _progress(
            found,
            carrier if live else None,
            watched=watched,
            silent=as_json,
            intervals=intervals,
        ) as (follow, progress):
            context = Context(
                seed=seed,
                withheld=withheld,
                transport=carrier,
                workers=workers,
                engine=opened,
                data=data,
                transcript=out / TRANSCRIPT if out is not None and live else None,
                watch=follow,
                by_messages=by_messages,
                progress=progress,
                sweep=sweep,
                intervals=intervals,
                calibration=calibration,
            )
            started = time.perf_counter()
            done = found.run(parameters, context)
            seconds = time.perf_counter() - started
        if by_messages and done.outcome is None:
            raise UsageError(f"--by-messages: {found.name!r} cannot be run by messages")
        if isinstance(done, Reproduced):
            said = state_reproduction(done, seconds=seconds)
            text = json_text(said.values)
        else:
            done = done.calibrated(calibration)
            said = state_run(found.name, done, intervals)
            text = json_text({"scenario": found.name, "parameters": parameters, **said.values})
        if out is not None:
            recorded = out / TRANSCRIPT
            write_result(recorded, text + "\n", recorded=done.outcome is not None)
            written = [] if done.outcome is None else [recorded, checkpoint_path(recorded)]
            written.append(out / RESULT)
            sweep.finish()
    if engine.chosen and workers is None and not sweep.maps:
        click.echo(f"{found.name} is one piece of work, done in this process", err=True)
    if as_json:
        click.echo(text)
    else:
        print_statement(said)
    written += beside.write(found.name, done, intervals)
    if written and not as_json:
        *first, last = map(str, written)
        click.echo(f"written: {', '.join(first)} and {last}" if first else f"written: {last}")


def _of_workers(
    workers: int, engine: EngineChoice, transport: TransportName | None
) -> EngineChoice:
    """The engine whose workers live parties are in."""
    if transport in ("local", "memory"):
        raise UsageError(f"--workers {workers}: expected --transport tcp or tls, not {transport}")
    if engine.jobs is not None:
        raise UsageError(f"--jobs {engine.jobs}: expected --workers alone, which says how many")
    if engine.name == "here":
        if is_given("engine"):
            raise UsageError(f"--workers {workers}: expected --engine processes or ray, not here")
        return EngineChoice("processes", workers, engine.address)
    return EngineChoice(engine.name, workers, engine.address)


@contextlib.contextmanager
def _progress(
    scenario: Scenario[Any],
    transport: str | None,
    *,
    watched: bool,
    silent: bool,
    intervals: Intervals,
) -> Generator[tuple[Watch | None, Callable[[int, int], None]]]:
    """A line on a terminal: of parties that were heard, or of pieces if nobody sends messages."""
    if transport is None:
        with ongoing(scenario.name, silent=silent) as progress:
            yield None, progress
        return
    name = f"{scenario.name} over {transport}"
    with following(name, watched=watched, silent=silent, intervals=intervals) as followed:
        yield followed
