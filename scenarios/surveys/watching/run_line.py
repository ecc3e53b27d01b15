"""Progress of a run on a terminal, and its standing below if it is watched."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from protocol.estimators.inference.intervals import USUAL, Intervals
from protocol.messages import AGGREGATOR
from protocol.session.charter import Charter
from protocol.transcript.entries import Delivered, Entry
from scenarios.running.simulation import Watch
from scenarios.surveys.watching.bars import Ongoing, ongoing, terminal
from scenarios.surveys.watching.tally import Tally
from scenarios.wording.formatting import count

if TYPE_CHECKING:
    from rich.console import RenderableType

    from scenarios.surveys.watching.standings import Standing

_TOLD = 200
"""Approximate number of progress reports of a run."""


@contextlib.contextmanager
def following(
    name: str,
    *,
    watched: bool,
    silent: bool,
    intervals: Intervals = USUAL,
) -> Generator[tuple[Watch | None, Callable[[int, int], None]]]:
    """Follow runs: a watch for each, and a function for the number of finished ones.

    Args:
        name: name of the run, for people.
        watched: show how a run stands: on a terminal as it goes on, else by a line for each step on
            standard error.
        silent: show no line of progress; what is watched is shown.
    """
    if not watched and (silent or terminal() is None):
        yield None, Ongoing()
        return
    if watched:  # Imported late: few runs are.
        from scenarios.surveys.watching.standings import StandingWriter
        from scenarios.surveys.watching.steps import Drawing, Lines
    if terminal() is None:
        lines = Lines(intervals)
        yield lines.watch, Ongoing()
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


class _Runs:
    """Shows the progress of consecutive runs by messages on a bar."""

    def __init__(self, bar: Ongoing) -> None:
        self._bar = bar
        self._done, self._total = 0, 1

    def done(self, done: int, total: int) -> None:
        self._done, self._total = done, total
        self._bar(done, total)

    def watch(self, tally: Tally, take: Callable[[Entry], object]) -> Callable[[Entry], object]:
        """Follow one run by its parties: who has been heard, and who has ended or is gone.

        Args:
            tally: the run's tally.
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
