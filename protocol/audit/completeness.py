"""Who took part, from a transcript: who was counted, who left, what was refused or lost."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from protocol.audit.walk import Step
from protocol.estimators.response import Response
from protocol.messages import AGGREGATOR, LINK_CLOSED, RECORD, Closed, Declined, Message, PartyId
from protocol.session.charter import Charter
from protocol.session.closings import Closings
from protocol.session.roles import EARLY_PER_SENDER, Topic, topic_of
from protocol.surveys.limits import UNLIMITED, Held
from protocol.transcript.entries import Delivered, Departed, Refused, Sent

REASONS = 1_000
"""Maximum number of different reasons of refusal that are counted apart."""

OTHER_REASONS = "other reasons"
"""The reason under which all further refusals are counted."""

_BYTES_PER_NAME = 64
"""What a name takes that is noted as counted, or put into words as missing."""


class Closing(msgspec.Struct, frozen=True):
    """A gather of the aggregator, as it went on record.

    Args:
        kind, round: what was awaited.
        awaited, counted: from how many, and how many of them were counted.
        missing: who was awaited and not counted.
        left_out: who of those had been heard before the gather closed. A machine counts everybody
            it has heard. Who had sent more than may wait is not listed.
        unheard: who was counted without having been heard before the gather closed.
        entry: where the closing stands in the transcript, its last range, counted from 0.
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

    def __repr__(self) -> str:
        return f"<Closing: {self.kind}, {self.counted} of {self.awaited} counted>"

    @property
    def response(self) -> Response:
        """How many were awaited, and counted."""
        return Response(self.awaited, self.counted)


class Completeness(msgspec.Struct, frozen=True):
    """Who took part.

    Args:
        parties: how many the roster has.
        counted: how many of them were counted with what the estimate is made of, in whichever
            round (``Variant.contribution``). Who was counted in other rounds alone is not in it. A
            variant leaves out answers that do not fit what it asked; these count here.
        closings: every gather of the aggregator.
        departed: who of the roster left otherwise than by closing its link, and why.
        refused: how often something was refused, by reason; of many, the first ``REASONS``.
        lost: how many envelopes were sent and never delivered.
    """

    parties: int
    counted: int
    closings: tuple[Closing, ...]
    departed: Mapping[PartyId, str]
    refused: Mapping[str, int]
    lost: int

    def __repr__(self) -> str:
        return (
            f"<Completeness: {self.counted} of {self.parties} parties counted, "
            f"{len(self.closings)} closings, {len(self.departed)} departed, {self.lost} lost>"
        )

    @property
    def response(self) -> Response:
        """How many parties were asked, and counted."""
        return Response(self.parties, self.counted)


class CompletenessWriter:
    """Collects who took part from the steps of a transcript.

    Args:
        charter: the survey.
        held: counts what is kept, of a file that may be anybody's.
    """

    def __init__(self, charter: Charter, held: Held = UNLIMITED) -> None:
        self._charter = charter
        self._held = held
        self._closings: list[Closing] = []
        self._whole = Closings(len(charter.roster))
        self._counted: dict[str, set[PartyId]] = {}
        self._departed: dict[PartyId, str] = {}
        self._refused: dict[str, int] = {}
        self._lost = 0
        self._parties = frozenset(charter.roster.parties)
        self._heard: dict[Topic, dict[PartyId, int]] = {}
        # Of kinds with a round: how many messages of a sender may wait, and which found no room.
        self._waiting: dict[tuple[PartyId, str], int] = {}
        self._crowded: set[tuple[PartyId, Topic]] = set()
        self._declined: dict[PartyId, int] = {}

    def add(self, step: Step) -> None:
        """Take the next step, as ``Fold.add``."""
        entry, envelope = step.entry, step.envelope
        match entry:
            case Sent() if envelope is not None:
                if envelope.kind == Declined.kind():
                    self._declined.setdefault(envelope.sender, envelope.seq)
                if envelope.recipient != RECORD:
                    self._lost += 1
                elif envelope.sender == AGGREGATOR and isinstance(step.message, Closed):
                    self._close(step.message, step.number)
            case Delivered():
                self._lost -= not entry.repeat
                # What is malformed nobody could have counted.
                message = step.message
                if envelope is None or envelope.recipient != AGGREGATOR or message is None:
                    return
                self._hear(envelope.sender, envelope.seq, message, step.number)
            case Departed():
                # Who is not on the roster is a fault that the verification names.
                if entry.party in self._parties and entry.reason != LINK_CLOSED:
                    self._departed[entry.party] = entry.reason
            case Refused():
                known = entry.reason in self._refused or len(self._refused) < REASONS
                reason = entry.reason if known else OTHER_REASONS
                self._refused[reason] = self._refused.get(reason, 0) + 1

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

    def _hear(self, sender: PartyId, seq: int, message: Message, number: int) -> None:
        # Who has declined says nothing more that could be counted, whether the refusal came or not.
        if seq < self._declined.get(sender, seq + 1):
            topic = topic_of(message)
            heard = self._heard.setdefault(topic, {})
            if sender not in heard and hasattr(message, "round"):
                each = sender, topic[0]
                waiting = self._waiting[each] = self._waiting.get(each, 0) + 1
                if waiting > EARLY_PER_SENDER:
                    self._crowded.add((sender, topic))
            heard.setdefault(sender, number)

    def _close(self, said: Closed, number: int) -> None:
        roster = self._charter.roster
        try:
            closed = self._whole.add(said)
            if closed is None:
                return
            awaited, counted = roster.members_in(closed.awaited), roster.members_in(closed.counted)
        except ValueError:
            return  # A replay says that this closing does not follow.
        there = set(counted)
        known = self._counted.setdefault(closed.of, there)
        known |= there
        missing = tuple(name for name in awaited if name not in there)
        topic = closed.of, closed.round
        heard = self._heard.get(topic, {})
        for name in awaited:
            if name in heard and (name, closed.of) in self._waiting:
                self._waiting[name, closed.of] -= 1
        left_out = tuple(
            name for name in missing if name in heard and (name, topic) not in self._crowded
        )
        self._held.take(_BYTES_PER_NAME * (len(there) + len(missing)))
        self._closings.append(
            Closing(
                closed.of,
                closed.round,
                len(awaited),
                len(counted),
                missing,
                left_out=left_out,
                unheard=tuple(name for name in counted if name not in heard),
                entry=number,
                evidence=tuple(heard[name] for name in left_out),
            )
        )
