"""Common parts of commands that simulate with an engine: options, progress, ends midway.

Commands that hold real surveys have no engine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import click

from parties.keeping.writing import make_folder, not_regular, write_whole
from scenarios.cli.numbers import Whole
from scenarios.cli.values import frozen_options, option
from scenarios.errors import printable
from scenarios.files.pieces import PIECES
from scenarios.running.engines.engine import ENGINES, Engine, EngineName
from scenarios.running.engines.opening import open_engine
from scenarios.running.engines.sweep import Sweep
from scenarios.surveys.watching.bars import ongoing


@frozen_options
class EngineChoice:
    """The engine that a person asked for, by default this process."""

    name: EngineName = option(
        "--engine",
        type=click.Choice(ENGINES),
        default="here",
        show_default=True,
        help="What carries out the work: this process, processes of this machine, or Ray, if "
        "it is installed. The result is the same.",
    )
    jobs: int | None = option(
        "--jobs",
        type=Whole(min=1),
        help="How many tasks run at a time.  [default: one for each processor]",
    )
    address: str | None = option(
        "--address",
        metavar="ADDRESS",
        help="The address of a running Ray cluster.  [default: Ray is started on this machine]",
    )

    @property
    def chosen(self) -> bool:
        """True if anything but this process was asked for."""
        return (self.name, self.jobs, self.address) != ("here", None, None)

    def open(self) -> Engine:
        """The engine, to be used in a ``with`` block.

        Raises:
            UsageError: not installed, or options that do not fit together.
        """
        return open_engine(self.name, jobs=self.jobs, address=self.address)


@contextlib.contextmanager
def sweeping(
    name: str, engine: EngineChoice, result: Path | None, about: Mapping[str, Any], *, silent: bool
) -> Generator[Sweep]:
    """A sweep with a progress line on the terminal.

    Args:
        name: name of the work, for people.
        engine: carries it out.
        result: path of the result, next to the file of finished pieces; or None.
        about: all that the results depend on, as JSON has it.
        silent: show no bar.

    Raises:
        UsageError: something other than a file has the result's name.
        OSError: the result's folder cannot be made.
    """
    file = None
    if result is not None:
        make_folder(result.parent)
        if result.exists() and not result.is_file():
            raise not_regular(result)
        if result.exists():
            click.echo(printable(f"{result}: an earlier result, which this one replaces"), err=True)
        file = result.with_name(PIECES)
    with (
        going_on_from(file),
        ongoing(name, silent=silent) as bar,
        Sweep(engine.open, path=file, about=about, progress=bar, stage=bar.stage) as sweep,
    ):
        yield sweep


def write_found(sweep: Sweep, path: Path, content: str) -> None:
    """Write a sweep's result, which like every result only its owner may read, and finish it.

    Raises:
        OSError: it cannot be written.
    """
    write_whole(path, content + "\n", private=True)
    sweep.finish()


@contextlib.contextmanager
def going_on_from(file: Path | None) -> Generator[None]:
    """Name the file to resume from if Ctrl-C ends the block.

    Raises:
        KeyboardInterrupt: with that sentence, which the command line prints.
    """
    try:
        yield
    except BaseException as error:
        # Tasks pass an interrupt on in a group.
        inside = (
            error.subgroup(KeyboardInterrupt) if isinstance(error, BaseExceptionGroup) else None
        )
        interrupted = isinstance(error, KeyboardInterrupt) or inside is not None
        if interrupted and file is not None and file.exists():
            raise KeyboardInterrupt(f"the same command goes on from {file}") from error
        raise
