"""Secure sum: the exact counts of every attribute by itself, and nothing else."""

from __future__ import annotations

from protocol.estimators.linear import LinearEstimate
from protocol.estimators.releases.exact import ExactTables
from protocol.surveys.limits import Workload, workload_of_groups
from protocol.variants.sums.tallies import Names, Tallied


class SecureSumVariant(Tallied[LinearEstimate[ExactTables]], frozen=True):
    """The secure sum of Domingo-Ferrer and Soria-Comas, section 4.2, over single attributes.

    The counts are exact, so they are not differentially private.
    """

    name = "secure-sum"

    @property
    def tables(self) -> tuple[Names, ...]:
        """Every attribute by itself."""
        return tuple((name,) for name in self.survey.names)

    def workload(self) -> Workload:
        return workload_of_groups(self.survey.sizes, 1)
