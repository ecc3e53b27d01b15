"""Files written with a result: a picture, a page, synthetic records, and figures as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from parties.keeping.writing import prepare_output, write_whole
from protocol.crypto.randomness import Stream
from protocol.errors import UsageError
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.intervals import Intervals
from protocol.surveys.records import Records
from scenarios.running.reproduction import Reproduced
from scenarios.running.scenario import Finished


class Beside(NamedTuple):
    """Requested files to write with a result.

    Args:
        plot: the file for a picture.
        synthetic: the file for synthetic records.
        html: the file for a page.
        csv: the file for a reproduction's figures.
    """

    plot: Path | None = None
    synthetic: Path | None = None
    html: Path | None = None
    csv: Path | None = None

    @property
    def options(self) -> dict[str, Path]:
        """The files that were asked for, by the options that ask for them."""
        return {f"--{name}": path for name, path in self._asdict().items() if path is not None}

    def check(self) -> None:
        """Check before a run that the files can be written after it.

        Raises:
            UsageError: matplotlib is not installed, no picture's name ends so, or what has a name
                must not be replaced.
            OSError: a folder cannot be made.
        """
        if self.plot is not None:
            from scenarios.report.pictures.drawing import check_plot

            check_plot(self.plot)
        if self.synthetic is not None or self.html is not None:
            from scenarios.files.kinds import PAGES, check_ending

            for option, path, endings in (
                ("--synthetic", self.synthetic, (".csv",)),
                ("--html", self.html, PAGES),
            ):
                if path is not None:
                    check_ending(option, path, endings)
        for path in self.options.values():
            prepare_output(path)

    def write(self, name: str, done: Finished | Reproduced, intervals: Intervals) -> Iterator[Path]:
        """Write the requested files.

        Args:
            name: name of the scenario.
            done: the result; only surveys have synthetic records and pages.

        Yields:
            Each file, once it is written.

        Raises:
            UsageError: there is nothing to draw, or records cannot be drawn from such an estimate.
            OSError: a file cannot be written.
        """
        if self.plot is not None:
            from scenarios.report.pictures.drawing import rendered
            from scenarios.report.pictures.results import result_plot

            write_whole(self.plot, rendered(result_plot(name, done, intervals), self.plot.suffix))
            yield self.plot
        if self.csv is not None and isinstance(done, Reproduced):
            from scenarios.files.comma_separated import write_csv

            write_csv(self.csv, done.csv())
            yield self.csv
        if self.synthetic is not None and isinstance(done, Finished):
            write_synthetic(self.synthetic, done.reported, done.outcome.digest)
            yield self.synthetic
        if self.html is not None and isinstance(done, Finished):
            from scenarios.report.page.run import run_page

            write_whole(self.html, run_page(name, done, intervals))
            yield self.html


def write_synthetic(path: Path, estimate: Estimate, digest: bytes) -> None:
    """Write a synthetic record for each respondent, as CSV.

    Args:
        estimate: the estimate that they follow.
        digest: the canonical digest of the record. The draws follow from it alone, so whoever has
            the record can draw the same.

    Raises:
        UsageError: records cannot be drawn from such an estimate.
        OSError: the file cannot be written.
    """
    # Imported late: few results have such files.
    from scenarios.files.comma_separated import records_text, write_csv

    records = _synthetic(estimate, Stream(digest).derive("synthetic"))

    write_csv(path, records_text(records))


def _synthetic(estimate: Estimate, stream: Stream) -> Records:
    from protocol.estimators.synthetic import synthesize

    try:
        return synthesize(estimate, estimate.n, stream)
    except ValueError as error:
        raise UsageError(f"--synthetic: {error}") from error
