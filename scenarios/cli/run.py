"""``sottovoce list`` and ``sottovoce run``."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from protocol.crypto.randomness import Streams, secret_of, session_of
from protocol.estimators.adjustment import AdjustedEstimate
from protocol.estimators.estimate import Estimate
from protocol.estimators.synthetic import synthesize, synthesize_weighted
from protocol.messages import AGGREGATOR
from protocol.session.exchange import Exchange
from protocol.surveys.records import Records
from scenarios.cli.completion import complete_scenario, complete_scenario_setting
from scenarios.files.checkpoints import checkpoint_path
from scenarios.files.kept_records import (
    PARTIAL,
    RESULT,
    TRANSCRIPT,
    make_way,
    partial_path,
    write_result,
)
from scenarios.files.writing import check_output, make_folder, write_whole
from scenarios.running.errors import UsageError, printable
from scenarios.running.loading import all_scenarios, find_scenario
from scenarios.running.reproduction import Reproduced
from scenarios.running.scenario import Context, Finished, Scenario
from scenarios.running.simulation import TRANSPORTS, TransportName

force_option = click.option(
    "--force",
    is_flag=True,
    help="If the record of a real survey is in the folder of --out, move it aside, with its "
    "checkpoint and result, into a new folder beside it. Without it the command is refused: such "
    "a record is never replaced.",
)


@click.command("list")
def list_() -> None:
    """List the scenarios and reproductions and their parameters."""
    from rich.console import Console

    from scenarios.report.terminal.text import scenarios_report

    console = Console()
    for part in scenarios_report(all_scenarios()):
        console.print(part)


@click.command()
@click.argument("scenario", shell_complete=complete_scenario)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    shell_complete=complete_scenario_setting,
    help="Set a parameter, one of those that 'sottovoce list' names; repeat for each.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Read parameters from a TOML file; --set wins.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="A folder of raw data files; by default the one that the environment variable "
    "SOTTOVOCE_DATA names. Without one, Adult and the networks are read from the package, and "
    "MovieLens is downloaded.",
)
@click.option(
    "--transport",
    type=click.Choice(TRANSPORTS),
    default="memory",
    show_default=True,
    help="What carries the messages: one loop (local), queues in memory, or TCP or TLS on this "
    "machine. The result is the same.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    default=1,
    show_default=True,
    help="All randomness and all keys follow from it.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Write {TRANSCRIPT}, its checkpoint and {RESULT} into this folder; a run that fails "
    f"leaves {TRANSCRIPT}{PARTIAL}. The record of a simulation that is there is replaced. By "
    "default nothing is written.",
)
@force_option
@click.option("--json", "as_json", is_flag=True, help="Print result.json alone.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw the result into a .png, .svg or .pdf file; needs matplotlib.",
)
@click.option(
    "--synthetic",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write as many synthetic records as there are respondents into a .csv file.",
)
@click.option(
    "--by-messages",
    is_flag=True,
    help="A reproduction alone: run it once, through live parties.",
)
def run(
    scenario: str,
    settings: Sequence[str],
    config: Path | None,
    data: Path | None,
    transport: TransportName,
    seed: int,
    out: Path | None,
    force: bool,
    as_json: bool,
    plot: Path | None,
    synthetic: Path | None,
    by_messages: bool,
) -> None:
    """Run SCENARIO, a name from 'sottovoce list' or a path.py of your own.

    Every party is live and every message is recorded. This is a simulation: the seed is in the
    transcript, so it protects nobody. A reproduction of a paper's table or figure draws reports by
    their exact law instead, unless --by-messages is given.
    """
    found = find_scenario(scenario)
    parameters = found.configure(_given(config, settings))
    if by_messages and not found.reproduces:
        raise UsageError(f"--by-messages: {found.name!r} is no reproduction: its parties are live")
    if force and out is None:
        raise UsageError("--force: it takes an --out")
    if plot is not None:
        from scenarios.report.plots import check_plot

        check_plot(plot)
        _check_output("--plot", plot, out)
        plot.parent.mkdir(parents=True, exist_ok=True)
    if synthetic is not None:
        if found.reproduces or not found.joint:
            raise UsageError(f"--synthetic: {found.name!r} estimates no distribution to draw from")
        _check_output("--synthetic", synthetic, out)
        synthetic.parent.mkdir(parents=True, exist_ok=True)
    live = by_messages or not found.reproduces
    if out is not None:
        make_folder(out)
        clear(out, force=force)
    with _progress(found, transport if live else None, silent=as_json) as (watch, progress):
        context = Context(
            seed=seed,
            transport=transport,
            data=data,
            transcript=out / TRANSCRIPT if out is not None and live else None,
            watch=watch,
            by_messages=by_messages,
            progress=progress,
        )
        started = time.perf_counter()
        done = found.run(parameters, context)
        seconds = time.perf_counter() - started
        if by_messages and done.outcome is None:
            raise UsageError(f"--by-messages: {found.name!r} cannot be run by messages")
        text = json.dumps(_result(found.name, parameters, done), indent=1, allow_nan=False)
    written = []
    if out is not None:
        recorded = out / TRANSCRIPT
        write_result(recorded, text + "\n", recorded=done.outcome is not None)
        written = [] if done.outcome is None else [recorded, checkpoint_path(recorded)]
        written.append(out / RESULT)
    if as_json:
        click.echo(text)
    else:
        _print_report(found.name, done, seconds)
    if plot is not None:
        from scenarios.report.plots import plot_of, rendered

        write_whole(plot, rendered(plot_of(found.name, done), plot.suffix))
        written.append(plot)
    if synthetic is not None and isinstance(done, Finished):
        write_whole(synthetic, _synthetic(done.reported, seed).to_csv())
        written.append(synthetic)
    if written and not as_json:
        *first, last = map(str, written)
        click.echo(f"written: {', '.join(first)} and {last}" if first else f"written: {last}")


def _check_output(option: str, path: Path, out: Path | None) -> None:
    """Before the run, make sure that a file can be written at its end."""
    if out is not None:
        recorded = out / TRANSCRIPT
        own = (recorded, partial_path(recorded), checkpoint_path(recorded), out / RESULT)
        if path.resolve() in [name.resolve() for name in own]:
            raise UsageError(f"{option} {path}: is what --out writes; write elsewhere")
    check_output(path)


def _synthetic(estimate: Estimate, seed: int) -> Records:
    stream = Streams(secret := secret_of(seed), session_of(secret)).stream(AGGREGATOR, "synthetic")
    try:
        if isinstance(estimate, AdjustedEstimate):
            codes, weights = estimate.counts.codes, estimate.adjusted.weights
            return synthesize_weighted(codes, weights, estimate.survey, estimate.n, stream)
        return synthesize(estimate, estimate.n, stream)
    except ValueError as error:
        raise UsageError(f"--synthetic: {error}") from error


def _result(name: str, parameters: msgspec.Struct, done: Finished | Reproduced) -> dict[str, Any]:
    """What ``result.json`` holds."""
    if isinstance(done, Reproduced):
        return done.result()
    return {
        "scenario": name,
        "parameters": msgspec.to_builtins(parameters),
        **done.values(),
    }


def _print_report(name: str, done: Finished | Reproduced, seconds: float) -> None:
    from rich.console import Console

    from scenarios.report.terminal.reproduction import reproduction_report
    from scenarios.report.terminal.text import outcome_report

    console = Console()
    parts = (
        reproduction_report(done, seconds=seconds)
        if isinstance(done, Reproduced)
        else outcome_report(name, done)
    )
    for part in parts:
        console.print(part)


def clear(out: Path, *, force: bool) -> None:
    """See to it that a folder can take a record; say so if one was moved aside.

    Raises:
        UsageError: it holds the record of a real survey, or another program writes there.
    """
    moved = make_way(out / TRANSCRIPT, force=force)
    if moved is not None:
        click.echo(f"the record that was there is now in {printable(str(moved))}", err=True)


def _given(config: Path | None, settings: Sequence[str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if config is not None:
        try:
            given = msgspec.toml.decode(config.read_bytes())
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{config}: no TOML: {error}") from error
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise UsageError(f"--set {setting!r}: expected NAME=VALUE")
        given[name] = value
    return given


@contextlib.contextmanager
def _progress(
    scenario: Scenario[Any], transport: str | None, *, silent: bool
) -> Generator[tuple[Callable[[Exchange], object] | None, Callable[[int, int], None]]]:
    """A line on a terminal that counts messages, or the steps of a reproduction; else nothing.

    Args:
        transport: what carries the messages; None if there will be none.
    """
    if silent:
        yield None, lambda done, total: None
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None, lambda done, total: None
        return
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text

    exchanges: list[Exchange] = []

    class Messages(ProgressColumn):
        max_refresh = 0.2

        def render(self, task: Task) -> Text:
            return Text(f"{exchanges[-1].messages:,} messages" if exchanges else "preparing")

    middle: tuple[ProgressColumn, ...] = (
        (Messages(),)
        if transport is not None
        else (BarColumn(), TextColumn("{task.completed:,} of {task.total:,}"))
    )
    columns = (SpinnerColumn(), TextColumn("{task.description}"), *middle, TimeElapsedColumn())
    over = f" over {transport}" if transport is not None else ""
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"{scenario.name}{over}", total=None if transport is not None else 1)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield exchanges.append, progress
