"""Secure sum: the counts of every attribute by itself."""

from __future__ import annotations

from protocol.surveys.limits import Workload, workload_of_groups
from protocol.variants.sums.tallies import Counted, Names


class SecureSumVariant(Counted, frozen=True):
    """The secure sum of Domingo-Ferrer and Soria-Comas, section 4.2, over single attributes.

    Exact counts are not differentially private; with coins they are, at a delta, as long as enough
    of the others do not conspire (``with_noise``).
    """

    name = "secure-sum"

    @property
    def tables(self) -> tuple[Names, ...]:
        """Every attribute by itself."""
        return tuple((name,) for name in self.survey.names)

    def workload(self) -> Workload:
        return workload_of_groups(self.survey.sizes, 1)
