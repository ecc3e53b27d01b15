"""SPL and SMP: a frequency oracle for every attribute, or for one of them drawn by lot.

Named so by Arcolezi, Couchot, Al Bouna and Xiao, Random Sampling Plus Fake Data: Multidimensional
Frequency Estimates With Local Differential Privacy, CIKM 2021, section 2.4.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from protocol.accounting.accountants import PureAccountant
from protocol.accounting.events import Composed, OneOf, PrivacyEvent, Randomized
from protocol.crypto.randomness import Stream
from protocol.estimators.linear import LinearEstimate
from protocol.messages import Message
from protocol.randomizers import Randomizer
from protocol.session.roles import Seen
from protocol.session.variant import Claim, Drawn, Epsilon
from protocol.surveys.limits import Workload
from protocol.surveys.records import Records
from protocol.variants.oracles.estimate import AttributeShares
from protocol.variants.oracles.names import Oracle, frequency_oracle
from protocol.variants.reports.by_stratum import weighted
from protocol.variants.reports.one_report import OneReport, Request, even_shares
from protocol.wire.arrays import Array, ArraySpec, Bounds, smallest_dtype

A = TypeVar("A", bound=Message)
R = TypeVar("R", bound=Randomizer)

SOURCE = "Random Sampling Plus Fake Data"


class AttributeReports(Message, frozen=True):
    """The reports of one party's respondents on every attribute.

    Args:
        reports: (k, columns), the columns of every attribute's report one after the other.
    """

    reports: Annotated[
        Array, ArraySpec(shape=(Bounds(1, "max_records"), "columns"), high="columns")
    ]


class SampledReports(Message, frozen=True):
    """The reports of one party's respondents on the attribute that each drew.

    Args:
        sampled: (k,) places of attributes.
        reports: (k, columns) of its report, then 0.
    """

    sampled: Annotated[Array, ArraySpec(shape=(Bounds(1, "max_records"),), high="attributes")]
    reports: Annotated[
        Array, ArraySpec(shape=(Bounds(1, "max_records"), "columns"), high="columns")
    ]


class AttributeTallies(Message, frozen=True):
    """The published result.

    Args:
        respondents: number of respondents that reported.
        reports: (m,) number of reports on each attribute.
        totals: (cells,) ``Randomizer.tally`` of the reports on every attribute in turn.
    """

    scalar_bytes = 64

    respondents: int
    reports: Annotated[Array, ArraySpec(dtype="u4", shape=("attributes",), most="respondents")]
    totals: Annotated[Array, ArraySpec(dtype="u4", shape=("cells",), most="respondents")]


class AttributeOracles(OneReport[Request, A, A], Generic[A], frozen=True, kw_only=True):
    """Base of the protocols with separate reports on all or some attributes.

    A subclass has the ``randomizers`` of the attributes.

    Args:
        epsilon: of a respondent's report.
    """

    epsilon: Epsilon

    def __post_init__(self) -> None:
        super().__post_init__()
        # Made here, so that errors are raised at once.
        _ = self.columns

    def workload(self) -> Workload:
        """A tally of every attribute."""
        return Workload(len(self.survey.sizes), sum(self.survey.sizes))

    @property
    def randomizers(self) -> tuple[Randomizer, ...]:
        """Randomizers of each attribute's reports, in the survey's order."""
        raise NotImplementedError

    @property
    def attributes(self) -> int:
        """Number of attributes."""
        return len(self.survey.names)

    @functools.cached_property
    def cells(self) -> int:
        """Number of categories of all attributes."""
        return sum(self.survey.sizes)

    @functools.cached_property
    def widths(self) -> tuple[int, ...]:
        """Number of columns of the report on each attribute."""
        return tuple(one.report.longest for one in self.randomizers)

    @functools.cached_property
    def columns(self) -> tuple[int, ...]:
        """The bounds of all columns of a report."""
        return tuple(bound for one in self.randomizers for bound in column_bounds(one))

    @functools.cached_property
    def _draws(self) -> tuple[Randomized, ...]:
        """Event of a draw on each attribute."""
        return tuple(
            Randomized(one, (name,))
            for one, name in zip(self.randomizers, self.survey.names, strict=True)
        )

    def tallied(self, reports: Sequence[NDArray[np.unsignedinteger]], n: int) -> AttributeTallies:
        """The result.

        Args:
            reports: of each attribute, (k, width).
            n: number of respondents that reported.
        """
        totals = [
            one.tally(as_reports(one, given))
            for one, given in zip(self.randomizers, reports, strict=True)
        ]
        return AttributeTallies(
            n,
            np.array([len(given) for given in reports], np.uint32),
            np.concatenate(totals).astype(np.uint32),
        )

    def shares(self, result: Message) -> LinearEstimate[AttributeShares]:
        """The shares of every attribute's categories, of the published result."""
        found = self.published(result, AttributeTallies)
        ends = np.cumsum(self.survey.sizes)[:-1]
        return LinearEstimate(
            AttributeShares(
                self.survey,
                self.randomizers,
                tuple(np.split(found.totals.astype(np.int64), ends)),
                found.reports.astype(np.int64),
                found.respondents,
            )
        )


class WholeReport(AttributeOracles[AttributeReports], frozen=True, kw_only=True):
    """Base of the protocols with columns of every attribute in a report."""

    messages = (Request, AttributeReports, AttributeTallies)

    def read(self, report: AttributeReports) -> AttributeReports | None:
        """The same, if it holds reports on all attributes."""
        each = zip(self.randomizers, self._split(report.reports), strict=True)
        return report if all(one.fits(as_reports(one, rows)) for one, rows in each) else None

    def pooled(self, reports: Sequence[AttributeReports]) -> AttributeTallies:
        rows = np.concatenate([report.reports for report in reports])
        return self.tallied(self._split(rows), len(rows))

    def report_reveals(self, report: AttributeReports, seen: Seen) -> PrivacyEvent:
        return self.report_event

    @property
    def report_event(self) -> PrivacyEvent:
        """Event of a report."""
        return Randomized(self.randomizer, self.survey.names)

    def _split(self, rows: NDArray[np.unsignedinteger]) -> list[NDArray[np.unsignedinteger]]:
        return np.split(rows, np.cumsum(self.widths)[:-1], axis=1)


class EvenShares(WholeReport, frozen=True, kw_only=True):
    """Base of the protocols with an even share of epsilon for every attribute.

    A subclass makes the randomizers with ``evenly``.
    """

    @functools.cached_property
    def report_event(self) -> PrivacyEvent:
        """Event of a report: a draw on every attribute."""
        return Composed(self._draws)

    def answer(self, records: Records, question: Request, stream: Stream) -> AttributeReports:
        drawn = [
            as_columns(one.randomize(records.codes[:, place], stream))
            for place, one in enumerate(self.randomizers)
        ]
        return AttributeReports(np.concatenate(drawn, axis=1).astype(columns_dtype(self.columns)))

    def most(self) -> float:
        """One report: the epsilons of all attributes."""
        return PureAccountant().judge(self.report_event).record

    def evenly(self, make: Callable[[int, float], R]) -> tuple[R, ...]:
        """A randomizer for every attribute, with an epsilon of at most ``epsilon`` in all.

        Args:
            make: makes one of a number of categories and a share of epsilon.
        """
        return even_shares(self.survey.sizes, self.epsilon, make)


class Spl(EvenShares, frozen=True, kw_only=True):
    """SPL: a report on every attribute, with an even share of epsilon each.

    Args:
        oracle: grr, sue, oue, blh, olh, subset-selection or hadamard-response.
    """

    name = "spl"

    oracle: Oracle = "grr"

    @functools.cached_property
    def randomizers(self) -> tuple[Randomizer, ...]:
        return self.evenly(lambda size, share: frequency_oracle(self.oracle, size, epsilon=share))

    @weighted
    def estimate(self, result: Message) -> LinearEstimate[AttributeShares]:
        return self.shares(result)

    def claims(self) -> tuple[Claim, ...]:
        says = "epsilon is split evenly over the attributes"
        return (Claim(source=SOURCE, says=says, epsilon=self.epsilon),)


class Smp(AttributeOracles[SampledReports], frozen=True, kw_only=True):
    """SMP: a report on one attribute, drawn uniformly and named, with all of epsilon.

    Args:
        oracle: grr, sue, oue, blh, olh, subset-selection or hadamard-response.
    """

    name = "smp"
    messages = (Request, SampledReports, AttributeTallies)

    oracle: Oracle = "grr"

    @functools.cached_property
    def randomizers(self) -> tuple[Randomizer, ...]:
        return tuple(
            frequency_oracle(self.oracle, size, epsilon=self.epsilon) for size in self.survey.sizes
        )

    @functools.cached_property
    def columns(self) -> tuple[int, ...]:
        """The bounds of the columns of a report on whichever attribute: the largest."""
        every = [column_bounds(one) for one in self.randomizers]
        return tuple(
            max(bounds[place] for bounds in every if place < len(bounds))
            for place in range(max(self.widths))
        )

    def answer(self, records: Records, question: Request, stream: Stream) -> SampledReports:
        sampled = stream.integers(self.attributes, len(records))
        reports = np.zeros((len(records), len(self.columns)), columns_dtype(self.columns))
        for place, one in enumerate(self.randomizers):
            rows = sampled == place
            drawn = one.randomize(records.codes[rows, place], stream)
            reports[rows, : self.widths[place]] = as_columns(drawn)
        kind = columns_dtype([self.attributes])
        return SampledReports(sampled.astype(kind), reports)

    def read(self, report: SampledReports) -> SampledReports | None:
        """The same, if every row is a report on its attribute."""
        if len(report.sampled) != len(report.reports):
            return None
        for place, (one, width) in enumerate(zip(self.randomizers, self.widths, strict=True)):
            rows = report.reports[report.sampled == place]
            if rows[:, width:].any() or (rows[:, :width] >= column_bounds(one)).any():
                return None
            if not one.fits(as_reports(one, rows[:, :width])):
                return None
        return report

    def pooled(self, reports: Sequence[SampledReports]) -> AttributeTallies:
        sampled = np.concatenate([report.sampled for report in reports])
        rows = np.concatenate([report.reports for report in reports])
        each = [rows[sampled == place, :width] for place, width in enumerate(self.widths)]
        return self.tallied(each, len(sampled))

    def report_reveals(self, report: SampledReports, seen: Seen) -> PrivacyEvent:
        """Event of a report: a draw on its attribute, which is drawn blindly."""
        events = tuple(self._draws[place] for place in np.unique(report.sampled).tolist())
        return events[0] if len(events) == 1 else OneOf(events)

    def drawn(self, message: Message, event: PrivacyEvent, records: Records) -> list[Drawn] | None:
        """The reports on each attribute that some respondent drew."""
        if not isinstance(message, SampledReports) or self.read(message) is None:
            return None
        found = []
        for place in np.unique(message.sampled).tolist():
            rows = np.flatnonzero(message.sampled == place)
            one = self._draws[place]
            columns = message.reports[rows, : self.widths[place]]
            found.append(Drawn(one, rows, as_reports(one.randomizer, columns)))
        return found

    @weighted
    def estimate(self, result: Message) -> LinearEstimate[AttributeShares]:
        return self.shares(result)

    def most(self) -> float:
        """One report: the largest of the attributes' epsilons."""
        return max(one.epsilon for one in self.randomizers)

    def claims(self) -> tuple[Claim, ...]:
        says = "a report costs epsilon, whichever attribute it is on"
        return (Claim(source=SOURCE, says=says, epsilon=self.epsilon),)


def column_bounds(randomizer: Randomizer) -> tuple[int, ...]:
    """The exclusive bounds of the columns of a report as one row."""
    one = randomizer.report
    if one.high is None:
        return (1 << 8 * int(one.dtype[1:]),) * one.longest
    high = one.high if isinstance(one.high, tuple) else (int(one.high),)
    return high * (one.longest // len(high))


def columns_dtype(bounds: Sequence[int]) -> np.dtype[np.unsignedinteger]:
    """The type of columns with these bounds."""
    return smallest_dtype(max(bounds))


def as_columns(reports: NDArray[np.unsignedinteger]) -> NDArray[np.unsignedinteger]:
    """Reports as rows, (k, width)."""
    return reports.reshape(len(reports), math.prod(reports.shape[1:]))


def as_reports(
    randomizer: Randomizer, rows: NDArray[np.unsignedinteger]
) -> NDArray[np.unsignedinteger]:
    """The inverse of ``as_columns``."""
    one = randomizer.report
    reports: NDArray[np.unsignedinteger] = rows.reshape(-1, *one.shape).astype(one.dtype)
    return reports
