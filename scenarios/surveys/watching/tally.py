"""Counts of a survey's progress, from live or stored entries."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from protocol.audit.walk import Step, Walk
from protocol.messages import (
    AGGREGATOR,
    CLOSED_EARLY,
    LINK_CLOSED,
    NEVER_CAME,
    NO_ROUND,
    OUT_OF_TIME,
    RECORD,
    WITHDRAWN,
    Closed,
    Declined,
    Head,
    PartyId,
)
from protocol.session.closings import Closings
from protocol.session.roster import Roster
from protocol.transcript.entries import Departed, Entry, Sent
from protocol.wire.codec import Codec

LEFT = "left"
"""Word for a party that closed its link."""

_CLOSING = (AGGREGATOR, Closed.kind(), RECORD)
_WORDS = {
    NEVER_CAME: NEVER_CAME,
    OUT_OF_TIME: "not in time",
    CLOSED_EARLY: "closed early",
    "does not read its mail": "did not read",
    LINK_CLOSED: LEFT,
}
_BROKE_A_RULE = "broke a rule"


class Ended(NamedTuple):
    """End of a round, by a closing of the aggregator.

    Args:
        kind, round: the messages that were awaited; empty of a malformed closing.
        awaited: their senders.
        counted: the senders that were counted.
        malformed: why the closing is malformed; empty if it is not.
    """

    kind: str = ""
    round: int = NO_ROUND
    awaited: tuple[PartyId, ...] = ()
    counted: tuple[PartyId, ...] = ()
    malformed: str = ""


class RoundCounter:
    """Count rounds: one ends when the aggregator closes a wait, in the record.

    Args:
        roster: the survey's roster.

    Attributes:
        number: the round that entries belong to now, from 1.
    """

    def __init__(self, roster: Roster) -> None:
        self.number = 1
        self._roster = roster
        self._closings = Closings(len(roster))

    def add(self, step: Step) -> Ended | None:
        """Take a step; return the end of a round that it causes, if any."""
        envelope = step.envelope
        if not isinstance(step.entry, Sent) or envelope is None:
            return None
        if (envelope.sender, envelope.kind, envelope.recipient) != _CLOSING:
            return None
        ended = Ended(malformed=step.malformed)
        if isinstance(step.message, Closed):
            try:
                closed = self._closings.add(step.message)
                if closed is None:
                    return None
                ended = Ended(
                    closed.of,
                    closed.round,
                    tuple(self._roster.members_in(closed.awaited)),
                    tuple(self._roster.members_in(closed.counted)),
                )
            except ValueError as error:
                ended = Ended(malformed=str(error))
        self.number += 1
        return ended


class Tally:
    """Counts of a survey that goes on, or of its transcript up to some entry.

    Args:
        roster: the survey's roster.

    Attributes:
        parties: all parties.
        rounds: the counter of rounds.
        messages: the number of accepted messages.
        declined: the parties that have declined.
        done: the parties whose head was accepted.
        departed: reasons of parties that are gone for good.
        ended: the number of parties that are done or gone for good.
    """

    def __init__(self, roster: Roster) -> None:
        self.parties = frozenset(roster.parties)
        self.rounds = RoundCounter(roster)
        self.messages = 0
        self.declined: set[PartyId] = set()
        self.done: set[PartyId] = set()
        self.departed: dict[PartyId, str] = {}
        self.ended = 0
        # Closings are the only messages that are decoded.
        self._walk = Walk(Codec((), members=len(roster)), bodies=False)

    def take(self, entry: Entry) -> Ended | None:
        """Take an entry as it is recorded; see ``add``."""
        return self.add(self._walk.step(entry))

    def add(self, step: Step) -> Ended | None:
        """Take a step; return the end of a round that it causes, if any."""
        entry, envelope = step.entry, step.envelope
        if isinstance(entry, Sent) and envelope is not None:
            self.messages += 1
            if envelope.sender in self.parties and envelope.kind == Declined.kind():
                self.declined.add(envelope.sender)
            if envelope.sender in self.parties and envelope.kind == Head.kind():
                self.ended += self._goes_on(envelope.sender)
                self.done.add(envelope.sender)
        elif isinstance(entry, Departed) and entry.party in self.parties:
            self.ended += self._goes_on(entry.party)
            rule = entry.reason.startswith("refused: ")
            withdrawn = entry.reason.startswith(WITHDRAWN)
            word = _WORDS.get(entry.reason, WITHDRAWN if withdrawn else "lost")
            word = _BROKE_A_RULE if rule else word
            self.departed[entry.party] = word
        return self.rounds.add(step)

    @property
    def gone(self) -> Counter[str]:
        """Number of parties that are gone for good, by reason."""
        return Counter(
            "ended" if party in self.done and word != _BROKE_A_RULE else word
            for party, word in self.departed.items()
        )

    def _goes_on(self, party: PartyId) -> bool:
        return party not in self.done and party not in self.departed


def wait_name(kind: str, number: int) -> str:
    """Name of a wait: the kind of message, and its round if it has one."""
    return kind if number == NO_ROUND else f"{kind}, round {number}"
