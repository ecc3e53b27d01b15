"""Envelopes that each party's role had received when it sent one, from a transcript.

A party's signed head lists what its waits returned, and when. For an unsigned party, the envelopes
delivered to it stand for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from protocol.audit.walk import Step
from protocol.errors import TranscriptError
from protocol.messages import AGGREGATOR, Envelope, Head, Message, PartyId, Wait
from protocol.session.charter import Charter
from protocol.session.roles import Seen
from protocol.session.variant import heeded
from protocol.surveys.limits import UNLIMITED, Held
from protocol.transcript.entries import Delivered, Entry, Sent
from protocol.wire.codec import decode_envelope

_HEADS = msgspec.msgpack.Decoder(Head)
_HEAD_KIND = Head.kind().encode()


class Hearing:
    """Collects what the parties had received, from the steps of a transcript.

    The aggregator and services are left out, since their own messages are never charged.

    Args:
        charter: the survey.
        heads: the bodies of the parties' sound heads (``Verification.heads``).
        held: limits the memory that a file from anybody can take.
    """

    def __init__(
        self, charter: Charter, heads: Mapping[PartyId, bytes], held: Held = UNLIMITED
    ) -> None:
        self._charter = charter
        self._held = held
        self._serving = frozenset((AGGREGATOR, *charter.roster.services))
        self._counted: dict[int, Message] = {}
        # Without the kernel's: no role awaits those.
        kinds = charter.variant.kinds(charter.parties)
        self._heeded = {k.name for k in kinds if heeded(charter.variant, k.message)}
        self._seen: dict[PartyId, Seen] = {}
        # For signed parties: the waits to come, the last one first; the messages so far that they
        # return.
        self._waits: dict[PartyId, list[Wait]] = {}
        self._came: dict[PartyId, dict[tuple[int, int], Message | None]] = {}
        judged = heads.keys() - self._serving if self._heeded else ()
        for party, body in ((name, heads[name]) for name in judged):
            waits = [wait for wait in read_head(body).waits if wait.kind in self._heeded]
            self._waits[party] = waits[::-1]
            self._came[party] = dict.fromkeys(slot for wait in waits for slot in wait.heard)

    def of(self, member: PartyId, seq: int) -> Seen:
        """Messages that a member had received when it sent its envelope of this number.

        Raises:
            TranscriptError: it has signed for a message that the record does not show before.
        """
        seen, waits = self._seen_by(member), self._waits.get(member)
        while waits and waits[-1].said <= seq:
            for place, number in waits[-1].heard:
                sender, _ = self._charter.roster.members[place]
                message = self._came[member][place, number]
                if message is None:
                    raise TranscriptError(
                        f"{member} #{seq}: it had heard {sender} #{number}, which is not before it"
                    )
                seen.add(sender, message)
            waits.pop()
        return seen

    def add(self, step: Step) -> None:
        """Take the next step, as ``Fold.add``."""
        envelope, message = step.envelope, step.message
        if (
            not isinstance(step.entry, Delivered)
            or envelope is None
            or message is None
            or envelope.kind not in self._heeded
            or not envelope.recipient == step.entry.recipient != envelope.sender
            or envelope.recipient in self._serving
            or envelope.session != self._charter.session
            or envelope.sender not in self._charter.roster
        ):
            return
        came = self._came.get(envelope.recipient)
        slot = self._charter.roster.position[envelope.sender], envelope.seq
        if came is None:
            self._keep(envelope, message)
            self._seen_by(envelope.recipient).add(envelope.sender, message)
        elif slot in came:
            self._keep(envelope, message)
            came[slot] = message

    def _seen_by(self, member: PartyId) -> Seen:
        seen = self._seen.get(member)
        if seen is None:
            seen = self._seen[member] = Seen()
        return seen

    def _keep(self, envelope: Envelope, message: Message) -> None:
        # One that was sent to many is one object, and is never forgotten (``Seen``).
        if id(message) not in self._counted:
            self._held.take(self._charter.codec.held_bytes(message, envelope.body))
            self._counted[id(message)] = message


def read_head(body: bytes) -> Head:
    """A head that is known to be sound."""
    return _HEADS.decode(body)


def collect_heads(entries: Iterable[Entry]) -> dict[PartyId, bytes]:
    """The bodies of all heads, of a record known to be sound; next to nothing else is decoded."""
    heads = {}
    for entry in entries:
        if isinstance(entry, Sent) and _HEAD_KIND in entry.envelope:
            envelope = decode_envelope(entry.envelope)
            if envelope.kind == Head.kind():
                heads[envelope.sender] = envelope.body
    return heads
