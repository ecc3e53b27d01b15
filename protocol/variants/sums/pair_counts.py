"""Pair counts: the table of every pair of attributes, by secure sum."""

from __future__ import annotations

from protocol.surveys.limits import Workload, workload_of_groups
from protocol.variants.sums.tallies import Counted, Names, all_pairs


class PairCounts(Counted, frozen=True):
    """Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, section 4.2.

    One vector per pair of parties serves all cells of all pairs of attributes. Exact counts are not
    differentially private: a combination that occurs once may identify. With coins they are, at a
    delta, as long as enough of the others do not conspire (``with_noise``).

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
