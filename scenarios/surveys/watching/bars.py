"""Progress of long work on a terminal, with the time left."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress


class Ongoing:
    """Progress of long work on a terminal, stage by stage if there are several.

    Args:
        show: called with the done part, the total, and both in words.
        each: word for what is counted.
    """

    def __init__(
        self, show: Callable[[float, float, str], object] | None = None, each: str = "pieces"
    ) -> None:
        self._show = show
        self._each = each
        self._stage = ""
        self._before, self._stages, self._most = 0, 1, 0.0

    def __call__(self, done: int, total: int) -> None:
        """Report the done part of this stage, and its total."""
        self.share(done / max(total, 1), f"{done:,} of {total:,} {self._each}")

    def share(self, share: float, said: str) -> None:
        """Report the done share of this stage, with words."""
        # A stage may run in several turns, and the bar never goes back.
        self._most = max(self._most, self._before + share * (1 - 1e-9))
        self._tell(said)

    def stage(self, done: int, total: int) -> None:
        """Report the number of finished stages and their total, as the next one begins."""
        self._before, self._stages, self._most = done, total, max(self._most, float(done))
        self._stage = f"part {done + 1} of {total}" if total > 1 else ""
        self._tell("")

    def _tell(self, said: str) -> None:
        if self._show is not None:
            parts = ", ".join(part for part in (self._stage, said) if part)
            self._show(self._most, self._stages, parts)


def terminal() -> Console | None:
    """The terminal behind standard error; None if there is none."""
    from rich.console import Console

    console = Console(stderr=True)
    return console if console.is_terminal else None


@contextlib.contextmanager
def ongoing(
    name: str,
    *,
    silent: bool = False,
    each: str = "pieces",
    below: Callable[[], RenderableType] | None = None,
) -> Generator[Ongoing]:
    """A progress line on a terminal, with the time left.

    Args:
        name: name of the work, for people.
        silent: show nothing.
        each: word for what is counted.
        below: text below the line.
    """
    console = None if silent else terminal()
    if console is None:
        yield Ongoing()
        return
    from rich.console import Group
    from rich.live import Live

    bar = _bar(console)
    task = bar.add_task(f"{name}: preparing", total=None)

    def show(done: float, total: float, said: str) -> None:
        bar.update(task, completed=done, total=total, description=f"{name}: {said}")

    def everything() -> RenderableType:
        return bar if below is None else Group(bar, below())

    with Live(get_renderable=everything, console=console, transient=True, refresh_per_second=10):
        yield Ongoing(show, each)


def _bar(console: Console) -> Progress:
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=12),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        auto_refresh=False,
    )
