"""Messages that reveal something: the input of the ledger of any observer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from protocol.accounting.accountants import Loss
from protocol.accounting.events import (
    Composed,
    Hidden,
    Masked,
    Merged,
    Merging,
    OneOf,
    PrivacyEvent,
    Public,
    Randomized,
    Sealed,
    layers,
)
from protocol.audit.hearing import read_head
from protocol.messages import AGGREGATOR, Head, PartyId
from protocol.session.roster import Roster

MERGED, ANYTHING = 1, 2
"""Ways in which a member is known: by a sum or a random order, or by anything that follows."""

_HEAD = Head.kind()
_COVERED = Sealed | Hidden | Merging
_OWN = Public | Randomized | Masked | Hidden

Unknown: TypeAlias = tuple[str, PartyId, object]
"""A value (``own``, its sender, the topic) or a mask (``mask``, its sender, the name)."""

Row: TypeAlias = dict[Unknown, int]


class Charge(NamedTuple):
    """One message that cost something."""

    seq: int
    kind: str
    event: PrivacyEvent
    loss: Loss

    @property
    def summed(self) -> bool:
        """True if the event is about several respondents together."""
        return any(isinstance(part, Masked | Merged) for part in layers(self.event))


class Told(NamedTuple):
    """A message that reveals something, with its event.

    Args:
        sender, recipient: its ends; the recipient is None for a message refused at the switch.
        seq: its number among its sender's.
        kind, round: its kind and round.
        event: its event.
        charge: the charge to its sender's respondents; None if it costs nothing.
    """

    sender: PartyId
    recipient: PartyId | None
    seq: int
    kind: str
    round: int
    event: PrivacyEvent
    charge: Charge | None


class Passed:
    """Messages that reveal something, as needed for the ledger of any set of members.

    Args:
        roster: the members.

    Attributes:
        told: each message that reveals something, in order.
        hosted: for each member, the place among these after the aggregator's last message to it.
        headed: when a member signed the hash of what it had sent and received, likewise.
        covered: whether some event is sealed, hidden or merged.
        rows: of those that masks hide, once somebody has asked for them (``reach.learned``).
    """

    def __init__(self, roster: Roster) -> None:
        self.roster = roster
        self.told: list[Told] = []
        # Of the aggregator's messages only the place of the last one to each member matters.
        self.hosted: dict[PartyId, int] = {}
        self.headed: dict[PartyId, int] = {}
        # Deliveries only matter if something is covered.
        self.covered = False
        self._under_way: dict[int, int] = {}
        self._came: dict[int, int] = {}
        # By member: the number of its envelopes when it received a message, by sender and number.
        self._heard: dict[PartyId, dict[tuple[PartyId, int], int]] = {}
        self.rows: dict[int, Row] | None = None
        # Of an event that thousands have: whether it covers, hides, and passes something on.
        self._known: dict[PrivacyEvent, tuple[bool, bool, bool]] = {}

    def add(self, told: Told, entry: int) -> None:
        """Add the next message, with the number of its entry."""
        sender, event = told.sender, told.event
        if told.kind == _HEAD and told.charge is None:
            self.headed[sender] = len(self.told)
            return
        if sender == AGGREGATOR and told.recipient is not None:
            self.hosted[told.recipient] = len(self.told)
        known = self._known.get(event)
        if known is None:
            parts = [*layers(event)]
            known = self._known[event] = (
                any(isinstance(part, _COVERED) for part in parts),
                any(isinstance(part, Hidden | Merging) for part in parts),
                bool(passes(parts)),
            )
        covers, hides, passes_on = known
        if told.charge is None and not hides and (sender == AGGREGATOR or not passes_on):
            return
        self.covered = self.covered or covers
        if self.covered:
            self._under_way[entry] = len(self.told)
            self.rows = None
        self.told.append(told)

    def start(self, heads: Mapping[PartyId, bytes]) -> None:
        """Take the bodies of members' sound heads, before the first message."""
        members = self.roster.members
        for name, body in heads.items():
            waits = read_head(body).waits
            self._heard[name] = {
                (members[place][0], seq): wait.said for wait in waits for place, seq in wait.heard
            }

    def received(self, there: int, place: int) -> bool:
        """Check whether a member had received one message when it sent another, by their places.

        It goes by the head or, for an unsigned member, by deliveries.
        """
        message, later = self.told[there], self.told[place]
        heard = self._heard.get(later.sender)
        if heard is None:
            return self._came.get(there, place + 1) <= place
        said = heard.get((message.sender, message.seq))
        return said is not None and said <= later.seq

    def deliver(self, entry: int) -> None:
        """Note the delivery of the message of an entry."""
        place = self._under_way.pop(entry, None)
        if place is not None:
            self._came[place] = len(self.told)
            self.rows = None


def passes(parts: Iterable[PrivacyEvent]) -> int:
    """Depth at which a sender is known by the layers of its message; 0 if it is not known."""
    telling = [part for part in parts if not isinstance(part, _OWN | Sealed | Composed | OneOf)]
    if not telling:
        return 0
    return MERGED if all(isinstance(part, Merging) for part in telling) else ANYTHING
