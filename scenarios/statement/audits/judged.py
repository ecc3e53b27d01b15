"""All that an audit has found and was asked for: what a statement is made from."""

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
    """An audit, and what was computed beside it.

    Args:
        file: the transcript's name.
        header: the transcript's.
        audit: what was found.
        linkage: what the observer can link.
        alone: what the aggregator alone knows of secure sums; None if the variant has none.
        intervals: of the estimate: their level, and what they are about.
        calibrated: the estimate, made to agree with known margins; None if it was not asked for.
        announced: the announced tables as the published result has them.
        account: the party whose messages are to be shown one by one.
        worst_respondent: what an exact accountant says of the respondent of whom most was learned.
        no_delta: why that is missing; empty if it is there, or not needed.
        second_opinions: what others say of her.
        coalition: what the observer knows of secure sums; None if nobody was asked about.
        worst: the most damaging coalition that was found.
        coalition_notes, worst_notes: what a reader has to know of what was asked.
        spot: the places drawn for a spot check; None if none was asked for.
        notes: what could not be looked at, and why.
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
        """Coalition that is accounted for: by default all who hold no records."""
        if self.coalition is None:
            return serving(self.audit.charter.roster)
        return self.coalition.coalition

    @property
    def withstands(self) -> Withstood | None:
        """Number that may conspire with the aggregator in the secure sum; None if not known."""
        charter = self.audit.charter
        return withstood_in(charter.variant, len(charter.roster.parties))

    @property
    def estimate(self) -> Estimate | None:
        """The one that is shown; None if nothing was published."""
        return self.calibrated or self.audit.estimate
