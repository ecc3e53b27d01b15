"""``sottovoce list`` and ``sottovoce run``."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from protocol.exchange import Exchange
from scenarios.errors import UsageError
from scenarios.loading import all_scenarios, find_scenario
from scenarios.scenario import Context, Scenario
from scenarios.simulation import TRANSPORTS, TransportName
from scenarios.transcripts import PARTIAL

TRANSCRIPT = "transcript.svt"
RESULT = "result.json"


@click.command("list")
def list_() -> None:
    """List the scenarios and their parameters."""
    from rich.console import Console

    from scenarios.report.text import scenario_table

    console = Console()
    for scenario in all_scenarios():
        console.print(scenario_table(scenario))


@click.command()
@click.argument("scenario")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set a parameter.")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Read parameters from a TOML file; --set wins.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where public data lies, instead of downloading it.",
)
@click.option("--transport", type=click.Choice(TRANSPORTS), default="memory", show_default=True)
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=1, show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help=f"Write {TRANSCRIPT} and {RESULT} into this folder; a run that fails leaves "
    f"{TRANSCRIPT}{PARTIAL}.",
)
@click.option("--json", "as_json", is_flag=True, help="Print result.json alone.")
def run(
    scenario: str,
    settings: Sequence[str],
    config: Path | None,
    data: Path | None,
    transport: TransportName,
    seed: int,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run SCENARIO, a name from 'sottovoce list' or a path.py of your own.

    Every party is live and every message is recorded. This is a simulation: the seed is in the
    transcript, so it protects nobody.
    """
    found = find_scenario(scenario)
    parameters = found.configure(_given(config, settings))
    with _progress(found, transport, silent=as_json) as watch:
        context = Context(
            seed=seed,
            transport=transport,
            data=data,
            transcript=None if out is None else out / TRANSCRIPT,
            watch=watch,
        )
        finished = found.run(parameters, context)
        if out is not None:
            # It belonged to the record that has just been replaced.
            (out / RESULT).unlink(missing_ok=True)
        result = {
            "scenario": found.name,
            "parameters": msgspec.to_builtins(parameters),
            **finished.outcome.summary(finished.projection),
            **finished.extra,
        }
    if out is not None:
        write_whole(out / RESULT, json.dumps(result, indent=1, allow_nan=False) + "\n")
    if as_json:
        click.echo(json.dumps(result, indent=1, allow_nan=False))
        return
    from rich.console import Console

    from scenarios.report.text import outcome_report

    console = Console()
    for part in outcome_report(found.name, finished):
        console.print(part)
    if out is not None:
        click.echo(f"written: {out / TRANSCRIPT} and {out / RESULT}")


def write_whole(path: Path, text: str) -> None:
    """Write a file that is there whole or not at all."""
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=path.name, delete=False, encoding="utf-8"
    ) as file:
        try:
            file.write(text)
            file.close()
            # Temporary files are private; a result is an ordinary file.
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(file.name, 0o666 & ~mask)
            os.replace(file.name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(file.name)
            raise


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
    scenario: Scenario[Any], transport: str, *, silent: bool
) -> Generator[Callable[[Exchange], object] | None]:
    """A line that counts messages while it runs, on a terminal; else nothing."""
    from rich.console import Console

    console = Console(stderr=True)
    if silent or not console.is_terminal:
        yield None
        return
    from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
    from rich.text import Text

    exchanges: list[Exchange] = []

    class Messages(ProgressColumn):
        max_refresh = 0.2

        def render(self, task: Task) -> Text:
            return Text(f"{exchanges[-1].messages:,} messages" if exchanges else "preparing")

    from rich.progress import TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), Messages(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(f"{scenario.name} over {transport}", total=None)
        yield exchanges.append
