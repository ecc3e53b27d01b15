"""Likeness of the respondents of one party, from the reports that are on record."""

from __future__ import annotations

from protocol.audit.walk import Fold, Step
from protocol.errors import ProtocolError
from protocol.estimators.design_effects import FEWEST, DesignEffects, PartMargins, design_effects
from protocol.estimators.estimate import Estimate
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.charter import Charter
from protocol.surveys.limits import UNLIMITED, Held
from protocol.transcript.entries import Delivered

MOST_PARTIES = 5_000
"""The most parties whose reports are compared."""

_BYTES_PER_CELL = 8


class PartWriter(Fold):
    """Collects the result of each contribution alone, for parties with several records.

    Args:
        charter: the survey.
        held: limits the memory that a file from anybody can take.
    """

    def __init__(self, charter: Charter, held: Held = UNLIMITED) -> None:
        self._variant = charter.variant
        self._held = held
        self._parties = frozenset(charter.roster.parties)
        self._parts: dict[PartyId, PartMargins] = {}
        self._needed = self._variant.max_records > 1 and len(self._parties) > 1
        self._why = "the survey has weights" if self._variant.strata else ""
        if len(self._parties) > MOST_PARTIES:
            self._why = f"there are more than {MOST_PARTIES:,} parties to compare"

    def add(self, step: Step) -> None:
        """Take the next step, as ``Fold.add``."""
        envelope, message = step.envelope, step.message
        if not self._needed or self._why or not isinstance(step.entry, Delivered):
            return
        if envelope is None or message is None or envelope.recipient != AGGREGATOR:
            return
        kind, sender = self._variant.contribution, envelope.sender
        if kind is None or not isinstance(message, kind) or sender not in self._parties:
            return
        if sender in self._parts:
            return
        try:
            result = self._variant.alone(message)
            part = None if result is None else PartMargins.of(self._variant.estimate(result))
        except (ProtocolError, ValueError):
            part = None
        if part is None or not part.margins:
            self._why = "what single parties have said does not show it"
            return
        self._held.take(_BYTES_PER_CELL * sum(share.size for share in part.margins.values()))
        self._parts[sender] = part

    def found(self, estimate: Estimate | None) -> tuple[DesignEffects | None, str]:
        """The design effects of the published estimate, or why they cannot be known.

        Both are empty where every party holds one record.
        """
        if not self._needed or estimate is None:
            return None, ""
        if self._why or not self._parts:
            return None, self._why or "what single parties have said does not show it"
        if all(part.n == 1 for part in self._parts.values()):
            return None, ""
        # Sums of floats depend on their order, which must not be that of arrival.
        if len(self._parts) < FEWEST:
            return None, f"the reports of {len(self._parts)} parties are too few to tell"
        parts = [self._parts[party] for party in sorted(self._parts)]
        effects = design_effects(estimate, parts)
        return effects, "" if effects else "not all reports on record are in the estimate"
