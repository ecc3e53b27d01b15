"""Sentences on the limits of replays: the records may still be false."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from protocol.accounting.events import (
    Coins,
    Composed,
    ExactCounts,
    Masked,
    Merged,
    OneOf,
    PrivacyEvent,
    Randomized,
    tells,
)
from protocol.randomizers.vetting import redrawn_through

if TYPE_CHECKING:
    from protocol.audit.audit import Audit


def records_unproved(audit: Audit) -> str:
    """Sentence on other records that would agree as well; empty if no party's messages follow.

    A keep randomizer ignores the answer when it redraws, so a false answer passes with that
    probability. For other randomizers there is no number.
    """
    members = {replay.member for replay in audit.replays if replay.follows}
    if not members:
        return ""
    lead = "that these are the true records is not shown"
    if not audit.simulated:
        return (
            f"{lead}: nothing on record binds a party to its records or its randomness, so with "
            "its keys others can be found that lead to the same messages"
        )
    events = {
        event
        for name, account in audit.passed.everybody.items()
        if name in members
        for charge in account.trail
        for event in event_parts(charge.event)
    }
    passing = [*_passing(events)] or ["any that lead to the same words agree as well"]
    if _has_unasked(events, audit.passed.attributes):
        passing.append("one that nobody asked for always passes")
    return f"{lead}: {'; '.join(passing)}"


def _passing(events: Iterable[PrivacyEvent]) -> Iterator[str]:
    draws = [event.randomizer for event in events if isinstance(event, Randomized)]
    known = [share for share in map(redrawn_through, draws) if share is not None]
    redrawn = {float(share) for share in known}
    if redrawn:
        low, high = f"{min(redrawn):.4g}", f"{max(redrawn):.4g}"
        chance = low if low == high else f"{low} to {high}"
        yield (
            "a redrawn answer does not change the report, so a false one passes with probability "
            f"{chance} in each report, and surely if the draws are known"
        )
    if len(known) < len(draws):
        yield "a false answer passes if the same draw turns it into the same report"
    if any(isinstance(event, ExactCounts | Coins) for event in events):
        yield "in a sum, any records of a party with the same counts pass"


def is_exact(event: PrivacyEvent) -> bool:
    """Check whether an event reveals true counts, of one party or of several together."""
    return tells(event, ExactCounts)


def is_noised(event: PrivacyEvent) -> bool:
    """True if an event reveals counts with coins."""
    return tells(event, Coins)


def _has_unasked(events: Iterable[PrivacyEvent], attributes: Iterable[str]) -> bool:
    """True if some attributes were reported by only some respondents, or by none."""
    asked = {name for event in events for name in getattr(event, "attributes", ())}
    return any(isinstance(event, OneOf) for event in events) or not asked.issuperset(attributes)


def event_parts(event: PrivacyEvent) -> Iterator[PrivacyEvent]:
    """Parts of a composed event; alternatives come before their own parts."""
    match event:
        case OneOf(events):
            yield event
            for part in events:
                yield from event_parts(part)
        case Composed(events):
            for part in events:
                yield from event_parts(part)
        case Masked(inner) | Merged(inner):
            yield from event_parts(inner)
        case _:
            yield event
