"""Drawing of the result of a run."""

from __future__ import annotations

from protocol.errors import UsageError
from protocol.estimators.inference.intervals import USUAL, Intervals
from scenarios.report.pictures.drawing import Plot
from scenarios.report.pictures.rows import plot_rows
from scenarios.report.pictures.shares import plot_finished
from scenarios.running.reproduction import Reproduced
from scenarios.running.scenario import Finished


def result_plot(name: str, done: Finished | Reproduced, intervals: Intervals = USUAL) -> Plot:
    """Drawing of a run's result: its own picture, if it has one.

    Raises:
        UsageError: there are no rows.
    """
    if isinstance(done, Reproduced):
        if done.plot is None and not done.rows:
            raise UsageError(f"--plot: {name} has no rows to draw")
        return done.plot or plot_rows(
            done.rows, done.picture, runs=done.runs, level=intervals.level
        )
    return done.plot or plot_finished(done, intervals)
