"""Frequency oracles: one report per respondent, by one randomizer on the whole record."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from protocol.accounting.accountants import PureAccountant
from protocol.accounting.events import Randomized
from protocol.crypto.randomness import Stream
from protocol.estimators.linear import LinearEstimate
from protocol.estimators.releases.tallies import Tallies
from protocol.messages import Message
from protocol.randomizers import join_codes
from protocol.surveys.limits import Workload
from protocol.surveys.records import Records
from protocol.variants.reports.by_stratum import weighted, with_strata
from protocol.variants.reports.one_report import OneReport, Request
from protocol.wire.arrays import Array, ArraySpec, Bounds
from protocol.wire.codec import Kind


class Draws(Message, frozen=True):
    """The reports of one party's respondents, shape ``(k, *report.shape)`` of the randomizer."""

    reports: Array


class Tallied(Message, frozen=True):
    """The published result: the number of reports, and their ``Randomizer.tally``."""

    n: int
    totals: Array


class FrequencyOracle(OneReport[Request, Draws, Draws], frozen=True, kw_only=True):
    """Base of the protocols with one draw of one randomizer as a report.

    A subclass has the ``randomizer``. Its inputs are the combinations of all attributes, row-major.

    Raises:
        ValueError: the randomizer has another number of inputs.
    """

    messages = (Request, Draws, Tallied)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.randomizer.size != self.survey.cells:
            raise ValueError(
                f"randomizer of {self.randomizer.size} inputs: expected {self.survey.cells}, "
                "one for each combination of answers"
            )

    def workload(self) -> Workload:
        """A tally of all combinations."""
        return Workload(1, self.survey.cells)

    @functools.cached_property
    def outputs(self) -> int:
        """The length of a tally."""
        report = self.randomizer.report
        lengths = [high for _, high in report.axes]
        return len(self.randomizer.tally(np.zeros([0, *lengths], report.dtype)))

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        totals = ArraySpec(dtype="u4", shape=(self.outputs,), most=parties * self.max_records)
        own = (
            Kind(Request, scalar_bytes=64),
            Kind(Draws, reports=self.randomizer.reports(Bounds(1, self.max_records))),
            Kind(Tallied, scalar_bytes=64, totals=totals),
        )
        return with_strata(self, own)

    def answer(self, records: Records, question: Request, stream: Stream) -> Draws:
        cells = join_codes(records.codes, self.survey.sizes)
        return Draws(self.randomizer.randomize(cells, stream))

    def read(self, report: Draws) -> Draws | None:
        """The answer itself; None unless it holds reports of the randomizer."""
        return report if self.randomizer.fits(report.reports) else None

    def pooled(self, reports: Sequence[Draws]) -> Tallied:
        drawn = np.concatenate([report.reports for report in reports])
        return Tallied(len(drawn), self.randomizer.tally(drawn).astype(np.uint32))

    @weighted
    def estimate(self, result: Message) -> LinearEstimate[Tallies]:
        found = self.published(result, Tallied)
        totals = found.totals.astype(np.int64)
        return LinearEstimate(
            Tallies(self.survey, self.survey.names, self.randomizer, totals, found.n)
        )

    def most(self) -> float:
        """Bound on the loss of one draw.

        Raises:
            UnsupportedEventError: the randomizer's law contradicts the epsilon that it states.
        """
        return PureAccountant().judge(Randomized(self.randomizer, self.survey.names)).record
