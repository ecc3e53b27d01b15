"""What had reached each party's role, from a transcript: what a ledger judges its words by.

It notes what a party's machine notes (``Machine.receive``). Of what was delivered, a machine keeps
from its role:

- what is malformed, of a kind of the kernel, or the second of its sender, kind and round: so does
  this.
- what was late. A wait is over before its sender has answered or left only if it was timed, and
  then the party says on record who was not counted.
- what there was no room for. If the aggregator said it, the role ends; else ``Seen`` forgets that
  sender and kind, here and there.
- what came after the role's end. After it a party says nothing that costs.
- what repeats a number. The record marks what the network doubled, and envelopes of one sender to
  one recipient do not overtake each other.
"""

from __future__ import annotations

from protocol.audit.walk import Step
from protocol.messages import AGGREGATOR, RECORD, Closed, Envelope, Message, PartyId
from protocol.session.charter import Charter
from protocol.session.roles import Seen, Topic, topic_of
from protocol.session.variant import heeded
from protocol.surveys.limits import UNLIMITED, Held
from protocol.transcript.entries import Delivered


class Hearing:
    """Collects what had reached the parties' roles, from the steps of a transcript.

    What the aggregator hears is left out: its own messages are never charged.

    Args:
        charter: the survey.
        held: counts what is kept, of a file that may be anybody's.
    """

    def __init__(self, charter: Charter, held: Held = UNLIMITED) -> None:
        self._charter = charter
        self._held = held
        self._counted: dict[int, Message] = {}
        # Without the kernel's: no role awaits those.
        kinds = charter.variant.kinds(len(charter.roster.parties))
        self._heeded = {k.name for k in kinds if heeded(charter.variant, k.message)}
        self._seen: dict[PartyId, Seen] = {}
        # Whose answers a wait ran out for, as bits in roster order.
        self._missed: dict[tuple[PartyId, Topic], int] = {}

    def of(self, member: PartyId) -> Seen:
        """What had reached a member so far."""
        return self._seen.get(member, Seen())

    def add(self, step: Step) -> None:
        """Take the next step, as ``Fold.add``."""
        envelope, message = step.envelope, step.message
        if envelope is None or message is None:
            return
        if isinstance(step.entry, Delivered):
            if envelope.recipient == step.entry.recipient != envelope.sender:
                self._delivered(envelope, message)
        elif isinstance(message, Closed) and envelope.recipient == RECORD:
            self._closed(envelope.sender, message)

    def _delivered(self, envelope: Envelope, message: Message) -> None:
        sender, recipient = envelope.sender, envelope.recipient
        if (
            envelope.kind not in self._heeded
            or recipient == AGGREGATOR
            or envelope.session != self._charter.session
            or sender not in self._charter.roster
        ):
            return
        missed = self._missed.get((recipient, topic_of(message)), 0)
        if not missed >> self._charter.roster.position[sender] & 1:
            self._keep(envelope, message)
            self._seen.setdefault(recipient, Seen()).add(sender, message)

    def _keep(self, envelope: Envelope, message: Message) -> None:
        # One that was sent to many is one object, and is never forgotten (``Seen``).
        if id(message) not in self._counted:
            self._held.take(self._charter.codec.held_bytes(message, envelope.body))
            self._counted[id(message)] = message

    def _closed(self, party: PartyId, closed: Closed) -> None:
        """A party's wait is over: what had not come by then never reaches its role."""
        if party == AGGREGATOR or closed.of not in self._heeded:
            return
        roster = self._charter.roster
        try:
            awaited, counted = roster.members_in(closed.awaited), roster.members_in(closed.counted)
        except ValueError:
            return  # No machine says this.
        missed = set(awaited).difference(counted)
        topic, seen = (closed.of, closed.round), self._seen.get(party)
        before = self._missed.get((party, topic), 0)
        self._missed[party, topic] = before | int.from_bytes(roster.bitmap(missed), "little")
        if seen is not None:
            for sender in missed:
                seen.drop(sender, topic)
