"""A run as it goes on: a line on a terminal and, if it is watched, how it stands at each step."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from protocol.estimators.inference.intervals import USUAL, Intervals
from protocol.messages import AGGREGATOR
from protocol.session.charter import Charter
from protocol.transcript.entries import Delivered, Entry
from scenarios.errors import printable
from scenarios.running.simulation import Watch
from scenarios.surveys.watching.bars import Ongoing, ongoing, terminal
from scenarios.surveys.watching.standings import Line, Standing, StandingWriter
from scenarios.surveys.watching.tally import Tally
from scenarios.surveys.watching.words import about, basis, event, figure, lost, sentence, spent
from scenarios.wording.formatting import count, cut

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

LEAST, MOST = 12, 60
"""How many columns the scale of an estimate takes, by the width of the terminal."""

_BESIDE = 64
"""How many columns are for the names and figures beside it."""

_TOLD = 200
"""How often a run tells how far it is, about."""

_ABOVE = 8
"""How many lines of the terminal are for what stands above the estimates, and for the prompt."""


@contextlib.contextmanager
def following(
    name: str,
    *,
    watched: bool,
    silent: bool,
    intervals: Intervals = USUAL,
) -> Generator[tuple[Watch | None, Callable[[int, int], None]]]:
    """What runs are given so that they are followed, and what is told how many of them are done.

    Args:
        name: of what is run, for people.
        watched: show how a run stands: on a terminal as it goes on, else by a line for each step on
            standard error.
        silent: show no line of progress; what is watched is shown.
        intervals: of the estimates.
    """
    if (silent and not watched) or terminal() is None:
        lines = _Lines(intervals)
        yield (lines.watch if watched else None), Ongoing()
        lines.end()
        return
    newest: list[Standing] = []

    def below() -> RenderableType:
        return Drawing(newest[-1], intervals) if newest else ""

    with ongoing(name, below=below if watched else None) as bar:
        runs = _Runs(bar)

        def watch(charter: Charter) -> Callable[[Entry], object]:
            if not watched:
                tally = Tally(charter.roster)
                return runs.watch(tally, tally.take)
            steps = StandingWriter(charter, intervals)

            def take(entry: Entry) -> None:
                standing = steps.take(entry)
                if standing is not None:
                    newest[:] = [standing]

            return runs.watch(steps.tally, take)

        yield watch, runs.done


class _Lines:
    """Writes a line for each step of runs, one run after the other, while it can be written.

    Args:
        intervals: of the estimates.
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
        """The run is over: write how it stands in the end."""
        if self._steps is not None:
            self._write(sentence(self._steps.standings()[-1]))
        self._steps = None

    def _write(self, said: str) -> None:
        try:
            sys.stderr.write(printable(said) + "\n")
            sys.stderr.flush()
        except OSError:
            # Nobody reads it any more, or there is no room: the run goes on.
            self._steps, self._failed = None, True


class _Runs:
    """Tells a bar how far runs by messages are, one after the other."""

    def __init__(self, bar: Ongoing) -> None:
        self._bar = bar
        self._done, self._total = 0, 1

    def done(self, done: int, total: int) -> None:
        """Take how many runs are done, and of how many."""
        self._done, self._total = done, total
        self._bar(done, total)

    def watch(self, tally: Tally, take: Callable[[Entry], object]) -> Callable[[Entry], object]:
        """Follow one run by its parties: who has been heard, and who has ended or is gone.

        Args:
            tally: of the run.
            take: adds an entry to it.
        """
        heard = set[str]()
        parties = len(tally.parties)
        part = max(1, 2 * parties // _TOLD)

        def add(entry: Entry) -> None:
            before = len(heard) + tally.ended
            take(entry)
            if isinstance(entry, Delivered) and entry.recipient == AGGREGATOR:
                heard.add(entry.sender)
            now = len(heard) + tally.ended
            if now > before and not now % part:
                said = f"{len(heard):,} of {count(parties, 'party', 'parties')} heard"
                of = f"run {self._done + 1:,} of {self._total:,}, " if self._total > 1 else ""
                self._bar.share((self._done + now / (2 * parties)) / self._total, of + said)

        return add


class Drawing:
    """A standing as a terminal shows it: what has happened, what was spent, points and whiskers."""

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
    """A point on its interval, on a scale of so many columns; blank where it is unknown."""
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
