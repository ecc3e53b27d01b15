"""Pair counts: the exact table of every pair of attributes, by secure sum."""

from __future__ import annotations

from protocol.estimators.linear import LinearEstimate
from protocol.estimators.releases.exact import ExactTables
from protocol.surveys.limits import Workload, workload_of_groups
from protocol.variants.sums.tallies import Names, Tallied, all_pairs


class PairCounts(Tallied[LinearEstimate[ExactTables]], frozen=True):
    """Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, section 4.2.

    One vector per pair of parties serves all cells of all pairs of attributes. The counts are
    exact, so they are not differentially private: a combination that occurs once may identify.

    Raises:
        ValueError: the survey has fewer than 2 attributes.
    """

    name = "pair-counts"

    @property
    def tables(self) -> tuple[Names, ...]:
        """Every pair of attributes."""
        return all_pairs(self.survey)

    def workload(self) -> Workload:
        return workload_of_groups(self.survey.sizes, 2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.survey.names) < 2:
            raise ValueError("pairs take at least 2 attributes")
