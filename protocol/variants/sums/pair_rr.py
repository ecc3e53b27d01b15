"""RR on each pair: every pair of attributes is randomized by itself, and the reports are summed."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Self

import numpy as np
from numpy.typing import NDArray

from protocol.accounting.accountants import PureAccountant
from protocol.accounting.events import Composed, PrivacyEvent, Randomized
from protocol.estimators.counts import Counts
from protocol.estimators.joint import Block, JointReports
from protocol.estimators.linear import LinearEstimate
from protocol.estimators.releases.combined import CombinedReleases
from protocol.estimators.releases.release import Release
from protocol.messages import Message
from protocol.randomizers import KeepUniform, randomize_columns
from protocol.session.roles import Me
from protocol.session.variant import Claim
from protocol.sharing.messages import Partial, Upload
from protocol.sharing.sums import SecureSum
from protocol.surveys.limits import Workload, workload_of_groups
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.variants.sums.tallies import Layout, Names, Tallied, all_pairs
from protocol.wire.arrays import smallest_dtype


def pair_randomizers(survey: Survey, p: float) -> tuple[KeepUniform, ...]:
    """The randomizer of every pair that keeps both answers with probability p."""
    sizes = [survey.sizes[i] * survey.sizes[j] for i, j in map(survey.axes, all_pairs(survey))]
    return tuple(KeepUniform.with_keep(size, p=p) for size in sizes)


def pair_event(survey: Survey, randomizers: tuple[KeepUniform, ...]) -> PrivacyEvent:
    """Event of one respondent's reports on all pairs: each pair's, added up."""
    pairs = zip(randomizers, all_pairs(survey), strict=True)
    return Composed(tuple(Randomized(randomizer, pair) for randomizer, pair in pairs))


def randomized_pairs(
    layout: Layout,
    randomizers: tuple[KeepUniform, ...],
    records: Records,
    me: Me,
    question: Message,
) -> NDArray[np.uint32]:
    """A party's counts of randomized pairs; the same question gets the same."""
    cells = layout.table_cells(records).astype(smallest_dtype(max(layout.groups)))
    return layout.counted(randomize_columns(randomizers, cells, me.stream_for(question, "pairs")))


def pair_estimates(
    survey: Survey, randomizers: tuple[KeepUniform, ...], tables: Mapping[Names, NDArray[np.int64]]
) -> tuple[LinearEstimate[JointReports], ...]:
    """Equation 2 on every pair's table of reports, each pair by itself."""
    estimates = []
    for (names, table), randomizer in zip(tables.items(), randomizers, strict=True):
        pair = Survey(survey.title, tuple(map(survey.attribute, names)))
        source = JointReports(pair, (Block(names, randomizer),), Counts.from_table(table))
        estimates.append(LinearEstimate(source))
    return tuple(estimates)


def pair_releases(
    survey: Survey, randomizers: tuple[KeepUniform, ...], tables: Mapping[Names, NDArray[np.int64]]
) -> tuple[Release, ...]:
    """The reports on each pair, which are drawn independently of those on other pairs."""
    estimates = pair_estimates(survey, randomizers, tables)
    return tuple(Release.of_reports(estimate.source) for estimate in estimates)


class PairRR(Tallied[LinearEstimate[CombinedReleases]], frozen=True, kw_only=True):
    """Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, section 4.3.

    One respondent enters every pair, so the epsilons of all pairs add up. The sum holds against any
    coalition, since contributions are randomized already.

    Args:
        randomizers: of every pair, (first, second), (first, third) and so on, each over the
            product of the two, row-major.

    Raises:
        ValueError: a randomizer is missing or not of its pair's size.
    """

    name = "pair-rr"

    randomizers: tuple[KeepUniform, ...]

    @classmethod
    def with_keep(
        cls, survey: Survey, p: float, *, sums: SecureSum | None = None, everyone: bool = False
    ) -> Self:
        """Keep every pair with probability p."""
        randomizers = pair_randomizers(survey, p)
        return cls(
            survey=survey, randomizers=randomizers, sums=sums or SecureSum(), everyone=everyone
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sums.noise is not None:
            raise ValueError("noise: the reports are randomized already, expected none")
        sizes = tuple(randomizer.size for randomizer in self.randomizers)
        if not sizes or sizes != self.layout.groups:
            raise ValueError(f"randomizers of sizes {sizes}, expected {self.layout.groups}")

    def workload(self) -> Workload:
        return workload_of_groups(self.survey.sizes, 2)

    @property
    def tables(self) -> tuple[Names, ...]:
        """Every pair of attributes."""
        return all_pairs(self.survey)

    @functools.cached_property
    def contribution_event(self) -> PrivacyEvent:
        """The reports on all pairs."""
        return pair_event(self.survey, self.randomizers)

    def vector(self, me: Me, question: Message, records: Records) -> NDArray[np.uint32]:
        """Counts of the randomized pairs."""
        return randomized_pairs(self.layout, self.randomizers, records, me, question)

    def table_estimate(
        self, tables: dict[Names, NDArray[np.int64]], respondents: int, parties: int
    ) -> LinearEstimate[CombinedReleases]:
        """Equation 2 on every pair, and the pairs combined.

        An attribute is in several pairs, each with its own reports. All of them estimate its
        margin, and every pair's table gets the combined one.
        """
        return LinearEstimate(
            CombinedReleases(self.survey, pair_releases(self.survey, self.randomizers, tables))
        )

    def most(self) -> float:
        """One report on every pair: their epsilons, added up."""
        return PureAccountant().judge(self.contribution_event).record

    def claims(self) -> tuple[Claim, ...]:
        return (waived(self.randomizers),)


def waived(randomizers: tuple[KeepUniform, ...]) -> Claim:
    """Claim of section 4.3, at its largest: the epsilon of one pair."""
    return Claim(
        source="Multi-Dimensional Randomized Response, section 4.3",
        says="sequential composition over the pairs is waived, for the sum makes them unlinkable",
        epsilon=max(randomizer.epsilon for randomizer in randomizers),
        kinds=(Upload.kind(), Partial.kind()),
    )
