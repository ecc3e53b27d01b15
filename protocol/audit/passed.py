"""What was sent, as far as it tells something: what the ledger of any set is made of."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from protocol.accounting.accountants import Loss
from protocol.accounting.events import (
    Composed,
    Hidden,
    Masked,
    Merging,
    OneOf,
    PrivacyEvent,
    Public,
    Randomized,
    Sealed,
    layers,
)
from protocol.messages import AGGREGATOR, Head, PartyId
from protocol.session.roles import Topic
from protocol.session.roster import Roster

CARRIED, MERGED, ANYTHING = 1, 2, 3
"""How a member is known: by a hash, by a sum or in random order, or by anything that follows."""

_HEAD = Head.kind()
_COVERED = Sealed | Hidden | Merging
_OWN = Public | Randomized | Masked | Hidden

Unknown: TypeAlias = tuple[str, PartyId, object]
"""A value (``own``, its sender, the topic) or a mask (``mask``, its sender, the name)."""

Row: TypeAlias = dict[Unknown, int]


class Charge(NamedTuple):
    """One message that cost something.

    Args:
        summed: it is hidden in a secure sum, so that nothing in it is its sender's in particular.
    """

    seq: int
    kind: str
    event: PrivacyEvent
    loss: Loss
    summed: bool = False


class Told(NamedTuple):
    """What a message tells everybody together.

    Args:
        link: its sender, and its recipient; None for what was refused at the switch.
        topic: its kind and round.
        event: what it tells.
        charge: what its sender's respondents are charged for that; None if it costs nothing.
    """

    link: tuple[PartyId, PartyId | None]
    topic: Topic
    event: PrivacyEvent
    charge: Charge | None


class Passed:
    """What was sent, as far as it tells something, as the ledger of any set needs it.

    Args:
        roster: the members.

    Attributes:
        told: each message that tells something, in order.
        hosted: when the aggregator last said something to whom, as a place among these.
        came: when each was delivered, as a place likewise; only where something is covered.
        covered: whether something is sealed, hidden or merged.
        rows: of those that masks hide, once somebody has asked for them (``reach.learned``).
    """

    def __init__(self, roster: Roster) -> None:
        self.roster = roster
        self.told: list[Told] = []
        # Of the aggregator's words it matters alone when the last one was sent to whom.
        self.hosted: dict[PartyId, int] = {}
        # Where nothing is covered, nobody asks when something was delivered.
        self.covered = False
        self._under_way: dict[int, int] = {}
        self.came: dict[int, int] = {}
        self.rows: dict[int, Row] | None = None

    def add(self, told: Told, entry: int) -> None:
        """Take what was sent next, by the entry of this number."""
        sender, recipient = told.link
        if sender == AGGREGATOR and recipient is not None:
            self.hosted[recipient] = len(self.told)
        parts = [*layers(told.event)]
        silent = sender == AGGREGATOR or not passes(told, told.event)
        tells = told.charge or any(isinstance(part, Hidden | Merging) for part in parts)
        if silent and not tells:
            return
        self.covered |= any(isinstance(part, _COVERED) for part in parts)
        if self.covered:
            self._under_way[entry] = len(self.told)
            self.rows = None
        self.told.append(told)

    def deliver(self, entry: int) -> None:
        """Take the delivery of what was sent by the entry of this number."""
        place = self._under_way.pop(entry, None)
        if place is not None:
            self.came[place] = len(self.told)
            self.rows = None


def passes(told: Told, event: PrivacyEvent) -> int:
    """How its sender is known by what is learned of a message: 0 for not at all."""
    if told.topic[0] == _HEAD:
        return CARRIED
    parts = [
        part for part in layers(event) if not isinstance(part, _OWN | Sealed | Composed | OneOf)
    ]
    if not parts:
        return 0
    return MERGED if all(isinstance(part, Merging) for part in parts) else ANYTHING
