"""Steps of a run: a line for each, or a drawing of the last one on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from protocol.estimators.inference.intervals import USUAL, Intervals
from protocol.session.charter import Charter
from protocol.transcript.entries import Entry
from scenarios.errors import printable
from scenarios.surveys.watching.standing_words import (
    about,
    basis,
    event,
    figure,
    lost,
    sentence,
    spent,
)
from scenarios.surveys.watching.standings import Line, Standing, StandingWriter
from scenarios.wording.formatting import cut

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

LEAST, MOST = 12, 60
"""Columns of the scale of an estimate, by the width of the terminal."""

_BESIDE = 64
"""Columns for the names and figures next to the scale."""

_ABOVE = 8
"""Lines of the terminal above the estimates, and for the prompt."""


class Lines:
    """Writes a line for each step of runs, one run after the other, while it can be written.

    Args:
        intervals: the estimates' intervals.
    """

    def __init__(self, intervals: Intervals) -> None:
        self._intervals = intervals
        self._steps: StandingWriter | None = None
        self._begun = self._failed = False

    def watch(self, charter: Charter) -> Callable[[Entry], object]:
        """Follow the next run."""
        self.end()
        if not self._failed:
            self._steps = StandingWriter(charter, self._intervals)
            if not self._begun:
                self._begun = True
                self._write(about(self._intervals))

        def add(entry: Entry) -> None:
            standing = None if self._steps is None else self._steps.take(entry)
            if standing is not None:
                self._write(sentence(standing))

        return add

    def end(self) -> None:
        """Write the final standing."""
        if self._steps is not None:
            self._write(sentence(self._steps.standings()[-1]))
        self._steps = None

    def _write(self, said: str) -> None:
        try:
            sys.stderr.write(printable(said) + "\n")
            sys.stderr.flush()
        except OSError:
            # The run goes on without a reader.
            self._steps, self._failed = None, True


class Drawing:
    """A standing on a terminal: events, costs, points and whiskers."""

    def __init__(self, standing: Standing, intervals: Intervals = USUAL) -> None:
        self._standing = standing
        self._intervals = intervals

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.table import Table

        from scenarios.wording.plain import plain

        standing = self._standing
        yield plain(f"round {standing.round:,}: {event(standing)}; {lost(standing)}")
        yield plain(f"{spent(standing)}; {basis(standing)}")
        yield plain(about(self._intervals))
        table = Table.grid(padding=(0, 1))
        for width in (16, 16, None, None):
            table.add_column(max_width=width, no_wrap=True, overflow="ellipsis")
        room = max(1, console.size.height - _ABOVE)
        wide = min(max(LEAST, options.max_width - _BESIDE), MOST)
        before = ""
        for line in standing.lines[:room]:
            of, before = "" if line.of == before else cut(line.of), line.of
            points = whiskers(line, wide, options.ascii_only)
            table.add_row(*map(plain, (of, cut(line.name), points, figure(line))))
        yield table


def whiskers(line: Line, wide: int, ascii_only: bool = False) -> str:
    """A point on its interval, on a scale of so many columns; blank if unknown."""
    if line.value is None or line.scale is None:
        return ""
    least, most = line.scale
    dash, dot = ("-", "o") if ascii_only else ("─", "●")

    def place(value: float) -> int:
        share = (min(max(value, least), most) - least) / (most - least)
        return round(share * (wide - 1))

    columns = [" "] * wide
    if line.low is not None and line.high is not None:
        first, last = place(line.low), place(line.high)
        columns[first : last + 1] = dash * (last + 1 - first)
    if least <= line.value <= most:
        columns[place(line.value)] = dot
    return "".join(columns).rstrip()
