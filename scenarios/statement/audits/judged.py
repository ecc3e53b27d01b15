"""Findings of an audit, with everything that was computed for its statement."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.accounting.composition import Composition
from protocol.audit.at_delta import WorstRespondent
from protocol.audit.audit import Audit
from protocol.audit.coalition.coalition import Coalition, serving
from protocol.audit.coalition.finding import CoalitionFinding, WorstCoalition
from protocol.audit.ledger import Account
from protocol.audit.linkage import Linkage
from protocol.audit.proofs.spot import Spot
from protocol.estimators.analysis import AnnouncedTable
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.intervals import USUAL, Intervals
from protocol.sharing.graph import Withstood
from protocol.transcript.entries import Header
from scenarios.wording.withstanding import withstood_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An audit with its further computations.

    Args:
        file: the transcript's name.
        header: the transcript's header.
        audit: the audit.
        linkage: messages that the observer can link.
        alone: the aggregator's own knowledge of secure sums; None without sums.
        intervals: level and subject of the estimate's intervals.
        calibrated: the estimate fitted to known margins, if requested.
        announced: the announced tables from the published result.
        account: the party with messages to list one by one.
        worst_respondent: the largest loss of a respondent by an exact accountant.
        no_delta: why ``worst_respondent`` is missing; empty if it is not, or not needed.
        second_opinions: the same loss by other accountants.
        coalition: the requested observer's knowledge of secure sums.
        worst: the most damaging coalition found.
        coalition_notes, worst_notes: cautions about the requested coalitions.
        spot: the places drawn for a spot check, if requested.
        notes: parts that could not be judged, with reasons.
    """

    file: str
    header: Header
    audit: Audit
    linkage: Linkage
    alone: CoalitionFinding | None = None
    intervals: Intervals = USUAL
    calibrated: Estimate | None = None
    announced: tuple[AnnouncedTable, ...] = ()
    account: Account | None = None
    worst_respondent: WorstRespondent | None = None
    no_delta: str = ""
    second_opinions: tuple[Composition, ...] = ()
    coalition: CoalitionFinding | None = None
    worst: WorstCoalition | None = None
    coalition_notes: tuple[str, ...] = ()
    worst_notes: tuple[str, ...] = ()
    spot: Spot | None = None
    notes: tuple[str, ...] = ()

    @property
    def observer(self) -> Coalition:
        """Coalition of the ledger: by default the aggregator and all services."""
        if self.coalition is None:
            return serving(self.audit.charter.roster)
        return self.coalition.coalition

    @property
    def withstands(self) -> Withstood | None:
        """Number of parties that may conspire with the aggregator in the sum; None if unknown."""
        charter = self.audit.charter
        return withstood_in(charter.variant, len(charter.roster.parties))

    @property
    def estimate(self) -> Estimate | None:
        """The estimate to show; None if nothing was published."""
        return self.calibrated or self.audit.estimate
