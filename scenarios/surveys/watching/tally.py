"""How far a survey is, in counts: by entries as they are recorded, or as a transcript has them."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from protocol.audit.walk import Step, Walk
from protocol.messages import (
    AGGREGATOR,
    LINK_CLOSED,
    NO_ROUND,
    RECORD,
    Closed,
    Declined,
    Envelope,
    Head,
    PartyId,
)
from protocol.session.closings import Closings
from protocol.session.roster import Roster
from protocol.transcript.entries import Delivered, Departed, Entry, Sent
from protocol.wire.codec import Codec

LEFT = "left"
"""Word for a party that closed its link."""

_CLOSING = (AGGREGATOR, Closed.kind(), RECORD)
_WORDS = {"never came": "never came", "does not read its mail": "did not read", LINK_CLOSED: LEFT}
_BROKE_A_RULE = "refused: "


class Ended(NamedTuple):
    """How the aggregator ended a round.

    Args:
        kind, round: what it had awaited; empty of a malformed closing.
        awaited: from whom.
        counted: whom of them it counted.
        malformed: why the closing is malformed; empty if it is not.
    """

    kind: str = ""
    round: int = NO_ROUND
    awaited: tuple[PartyId, ...] = ()
    counted: tuple[PartyId, ...] = ()
    malformed: str = ""


class Tally:
    """Counts of a survey that goes on, or of its transcript up to some entry.

    Args:
        roster: of the survey.

    Attributes:
        parties: all of them.
        round: the round that entries belong to now, from 1; a wait of the aggregator ends one.
        messages: how many were accepted.
        heard: parties of which something was delivered to the aggregator.
        declined: parties that have declined.
        done: parties that have said their last word.
        ended: parties that are done, or gone for good.
        departed: a word for each party that is gone for good.
    """

    def __init__(self, roster: Roster) -> None:
        self.parties = frozenset(roster.parties)
        self.round = 1
        self.messages = 0
        self.heard: set[PartyId] = set()
        self.declined: set[PartyId] = set()
        self.done: set[PartyId] = set()
        self.ended: set[PartyId] = set()
        self.departed: dict[PartyId, str] = {}
        self._roster = roster
        self._closings = Closings(len(roster))
        # Of messages, closings alone are read.
        self._walk = Walk(Codec((), members=len(roster)), bodies=False)

    def take(self, entry: Entry) -> Ended | None:
        """Take an entry as it is recorded; return how it ends a round, if it does."""
        return self.add(self._walk.step(entry))

    def add(self, step: Step) -> Ended | None:
        """Take a step; return how it ends a round, to which it still belongs, if it does."""
        match step.entry:
            case Sent() if step.envelope is not None:
                return self._sent(step, step.envelope)
            case Delivered(sender=sender, recipient=recipient):
                if recipient == AGGREGATOR and sender in self.parties:
                    self.heard.add(PartyId(sender))
            case Departed(party=party, reason=reason):
                if party in self.parties:
                    self.ended.add(PartyId(party))
                    rule = reason.startswith(_BROKE_A_RULE)
                    word = "broke a rule" if rule else _WORDS.get(reason, "lost")
                    self.departed[PartyId(party)] = word
        return None

    @property
    def gone(self) -> Counter[str]:
        """How many parties are gone for good, by one of a few words."""
        return Counter(
            word if word == "broke a rule" or party not in self.done else "ended"
            for party, word in self.departed.items()
        )

    def _sent(self, step: Step, envelope: Envelope) -> Ended | None:
        self.messages += 1
        if envelope.sender in self.parties:
            if envelope.kind == Declined.kind():
                self.declined.add(envelope.sender)
            elif envelope.kind == Head.kind():
                self.done.add(envelope.sender)
                self.ended.add(envelope.sender)
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
        self.round += 1
        return ended


def wait_name(kind: str, number: int) -> str:
    """Name of a wait: the kind of message, and its round if it has one."""
    return kind if number == NO_ROUND else f"{kind}, round {number}"
