"""The options of commands that simulate with an engine; those that hold real surveys have none."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from scenarios.engines.engine import Engine
from scenarios.engines.opening import open_engine
from scenarios.running.names import ENGINES, EngineName


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine that a person asked for.

    Args:
        name: of the engine.
        jobs: how many tasks run at a time; None for one for each processor.
        address: of a cluster that Ray is to use; None to start one on this machine.
    """

    name: EngineName
    jobs: int | None
    address: str | None

    @property
    def chosen(self) -> bool:
        """Whether anything but this process was asked for."""
        return self != EngineChoice("here", None, None)

    def open(self) -> Engine:
        """The engine, to be used in a ``with`` block.

        Raises:
            UsageError: not installed, or options that do not fit together.
        """
        return open_engine(self.name, jobs=self.jobs, address=self.address)


def engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``--engine``, ``--jobs`` and ``--address``; the command gets ``engine``, what was chosen."""

    @click.option(
        "--engine",
        type=click.Choice(ENGINES),
        default="here",
        show_default=True,
        help="What carries out the work: this process, processes of this machine, or Ray, which "
        "is installed by pip install 'sottovoce[ray]'. The result is the same.",
    )
    @click.option(
        "--jobs",
        type=click.IntRange(min=1),
        help="How many tasks run at a time.  [default: one for each processor]",
    )
    @click.option(
        "--address",
        metavar="ADDRESS",
        help="The address of a running Ray cluster.  [default: Ray is started on this machine]",
    )
    @functools.wraps(command)
    def chosen(
        *args: Any, engine: EngineName, jobs: int | None, address: str | None, **kwargs: Any
    ) -> Any:
        return command(*args, engine=EngineChoice(engine, jobs, address), **kwargs)

    return chosen
