"""Who took part, from a transcript: who was counted, who left, what was refused or lost."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from protocol.charter import Charter
from protocol.codec import decode_envelope
from protocol.errors import RemoteProtocolError
from protocol.local import LINK_CLOSED
from protocol.messages import AGGREGATOR, RECORD, Closed, Declined, Envelope, PartyId
from protocol.roles import EARLY_PER_SENDER, Topic, topic_of
from protocol.transcript.entries import Delivered, Departed, Entry, Refused, Sent


class Closing(msgspec.Struct, frozen=True):
    """A gather of the aggregator, as it went on record.

    Args:
        kind, round: what was awaited.
        awaited, counted: from how many, and how many of them were counted.
        missing: who was awaited and not counted.
        left_out: who of those had been heard before the gather closed. A machine counts everybody
            it has heard, so this is no accident; who had sent more than may wait is not among them.
        unheard: who was counted without having been heard before the gather closed.
        entry: where the closing stands in the transcript, counted from 0.
        evidence: where the deliveries stand that were left out.
    """

    kind: str
    round: int
    awaited: int
    counted: int
    missing: tuple[PartyId, ...]
    left_out: tuple[PartyId, ...]
    unheard: tuple[PartyId, ...]
    entry: int
    evidence: tuple[int, ...]


class Completeness(msgspec.Struct, frozen=True):
    """Who took part.

    Args:
        parties: how many the roster has.
        counted: how many of them were counted with what the estimate is made of, in whichever
            round (``Variant.contribution``). Who was counted in other rounds alone is not in it. A
            variant leaves out answers that do not fit what it asked; these are not told apart.
        closings: every gather of the aggregator.
        departed: who left otherwise than by closing its link, and why.
        refused: how often something was refused, by reason.
        lost: how many envelopes were sent and never delivered.
    """

    parties: int
    counted: int
    closings: tuple[Closing, ...]
    departed: Mapping[PartyId, str]
    refused: Mapping[str, int]
    lost: int


class CompletenessWriter:
    """Collects who took part from entries in the order they were recorded."""

    def __init__(self, charter: Charter) -> None:
        self._charter = charter
        self._closings: list[Closing] = []
        self._counted: dict[str, set[PartyId]] = {}
        self._departed: dict[PartyId, str] = {}
        self._refused: dict[str, int] = {}
        self._lost = 0
        self._entries = 0
        self._under_way: dict[tuple[PartyId, int], Envelope] = {}
        self._heard: dict[Topic, dict[PartyId, int]] = {}
        # Of kinds with a round: how many messages of a sender may wait, and which found no room.
        self._waiting: dict[tuple[PartyId, str], int] = {}
        self._crowded: set[tuple[PartyId, Topic]] = set()
        self._declined: dict[PartyId, int] = {}

    def add(self, entry: Entry) -> None:
        """Take the next entry.

        Raises:
            RemoteProtocolError: its envelope is malformed; it counts as an entry nevertheless.
        """
        self._entries += 1
        match entry:
            case Sent():
                envelope = decode_envelope(entry.envelope)
                if envelope.recipient == AGGREGATOR:
                    self._under_way[envelope.sender, envelope.seq] = envelope
                if envelope.kind == Declined.kind():
                    self._declined.setdefault(envelope.sender, envelope.seq)
                if envelope.recipient != RECORD:
                    self._lost += 1
                elif envelope.sender == AGGREGATOR and envelope.kind == Closed.kind():
                    self._close(envelope)
            case Delivered():
                self._lost -= not entry.repeat
                heard = self._under_way.pop((entry.sender, entry.seq), None)
                if heard is not None:
                    self._hear(heard)
            case Departed():
                if entry.party != AGGREGATOR and entry.reason != LINK_CLOSED:
                    self._departed[entry.party] = entry.reason
            case Refused():
                self._refused[entry.reason] = self._refused.get(entry.reason, 0) + 1

    def completeness(self) -> Completeness:
        """Who took part so far."""
        contribution = self._charter.variant.contribution
        if contribution is not None:
            kind = contribution.kind()
        else:
            kind = self._closings[-1].kind if self._closings else ""
        return Completeness(
            parties=len(self._charter.roster.parties),
            counted=len(self._counted.get(kind, ())),
            closings=tuple(self._closings),
            departed=dict(self._departed),
            refused=dict(self._refused),
            lost=self._lost,
        )

    def _hear(self, envelope: Envelope) -> None:
        sender = envelope.sender
        try:
            message = self._charter.codec.decode(envelope.kind, envelope.body)
        except RemoteProtocolError:
            return  # Nobody could have counted it.
        # Who has declined says nothing more that could be counted, whether the refusal came or not.
        if envelope.seq < self._declined.get(sender, envelope.seq + 1):
            topic = topic_of(message)
            heard = self._heard.setdefault(topic, {})
            if sender not in heard and hasattr(message, "round"):
                each = sender, envelope.kind
                waiting = self._waiting[each] = self._waiting.get(each, 0) + 1
                if waiting > EARLY_PER_SENDER:
                    self._crowded.add((sender, topic))
            heard.setdefault(sender, self._entries - 1)

    def _close(self, envelope: Envelope) -> None:
        roster = self._charter.roster
        try:
            closed = self._charter.codec.decode(envelope.kind, envelope.body)
            if not isinstance(closed, Closed):
                return
            awaited, counted = roster.members_in(closed.awaited), roster.members_in(closed.counted)
        except (RemoteProtocolError, ValueError):
            return  # A replay says that this closing does not follow.
        self._counted.setdefault(closed.of, set()).update(counted)
        there = set(counted)
        missing = tuple(name for name in awaited if name not in there)
        topic = closed.of, closed.round
        heard = self._heard.get(topic, {})
        for name in awaited:
            if name in heard and (name, closed.of) in self._waiting:
                self._waiting[name, closed.of] -= 1
        left_out = tuple(
            name for name in missing if name in heard and (name, topic) not in self._crowded
        )
        self._closings.append(
            Closing(
                closed.of,
                closed.round,
                len(awaited),
                len(counted),
                missing,
                left_out=left_out,
                unheard=tuple(name for name in counted if name not in heard),
                entry=self._entries - 1,
                evidence=tuple(heard[name] for name in left_out),
            )
        )
