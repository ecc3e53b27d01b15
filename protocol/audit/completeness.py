"""Participation, from a transcript: parties counted and departed, messages refused and lost."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Literal, NamedTuple

import msgspec

from protocol.audit.disclosure import follows_from_seed
from protocol.audit.walk import Step
from protocol.estimators.response import Response
from protocol.messages import (
    AGGREGATOR,
    LINK_CLOSED,
    RECORD,
    WITHDRAWN,
    Closed,
    Declined,
    Envelope,
    Message,
    PartyId,
)
from protocol.session.charter import Charter
from protocol.session.closings import Closings
from protocol.session.roles import EARLY_PER_SENDER, Topic, message_topic
from protocol.sharing.messages import Deal, Partial, Upload
from protocol.surveys.limits import UNLIMITED, Held
from protocol.transcript.entries import Delivered, Departed, Hindered, Refused, Sent

REASONS = 1_000
"""Maximum number of different reasons of refusal that are counted apart."""

OTHER_REASONS = "other reasons"
"""The reason under which all further refusals are counted."""

_BYTES_PER_NAME = 64
"""Memory of a name that is noted as counted, or put into words as missing."""


class _About(NamedTuple):
    """Parties that can count a message, and its topic."""

    by: PartyId
    topic: Topic


Content = Literal["readable", "masked", "sealed"]
"""The part of a message that an aggregator can read: all; no value, for they are masked; or all
that is not sealed for other parties.
"""

_CONTENT: Mapping[str, Content] = {
    Upload.kind(): "masked",
    Partial.kind(): "masked",
    Deal.kind(): "sealed",
}


class Closing(msgspec.Struct, frozen=True):
    """A gather of the aggregator or a service, as it went on record.

    Args:
        by: the member that waited.
        kind, round: the kind and round awaited.
        awaited, counted: the numbers of members awaited and counted.
        missing: the members awaited and not counted.
        left_out: those of them with a message on record before the aggregator's gather closed. A
            hub hands over all that is on record before it closes a wait. Senders of more messages
            than may wait are not listed, nor of messages that a simulation's network held back.
        unheard: the members that were counted, but with no message delivered before the gather
            closed.
        entry: the entry of the closing, of its last range, counted from 0.
        evidence: the entries where the messages of ``left_out`` were sent, in the same order; then
            those where some of them were delivered before the closing.
        content: how much of them the aggregator could read.
    """

    by: PartyId
    kind: str
    round: int
    awaited: int
    counted: int
    missing: tuple[PartyId, ...]
    left_out: tuple[PartyId, ...]
    unheard: tuple[PartyId, ...]
    entry: int
    evidence: tuple[int, ...]
    content: Content

    def __repr__(self) -> str:
        return f"<Closing: {self.kind}, {self.counted} of {self.awaited} counted>"

    @property
    def response(self) -> Response:
        """Numbers of awaited and of counted parties."""
        return Response(self.awaited, self.counted)


class Completeness(msgspec.Struct, frozen=True):
    """Participation in a survey.

    Args:
        parties: the number of parties of the roster.
        counted: the number of parties that were counted with a message of the estimate, in any
            round (``Variant.contribution``). A variant leaves out answers that do not fit its
            question, which count here.
        closings: every gather of the aggregator and of services.
        departed: members that left otherwise than by closing their link, with the reasons.
        refused: the number of refusals by reason, for the first ``REASONS`` reasons.
        lost: the number of envelopes sent and never delivered.
        withdrawn: the number of places that the organiser withdrew, by its own statement, before
            they had sent anything and before a wait for them was over.
    """

    parties: int
    counted: int
    closings: tuple[Closing, ...]
    departed: Mapping[PartyId, str]
    refused: Mapping[str, int]
    lost: int
    withdrawn: int = 0

    def __repr__(self) -> str:
        return (
            f"<Completeness: {self.counted} of {self.parties} parties counted, "
            f"{len(self.closings)} closings, {len(self.departed)} departed, {self.lost} lost>"
        )

    @property
    def response(self) -> Response:
        """Numbers of parties asked and counted; those withdrawn in time were not asked."""
        return Response(self.parties - self.withdrawn, self.counted)


class CompletenessWriter:
    """Collects participation from the steps of a transcript.

    Args:
        charter: the survey.
        held: limits the memory that a file from anybody can take.
        seed: the seed of a simulation, whose network may lose messages. It excuses the aggregator
            only for parties with keys that follow from the seed, as anybody can write one into a
            header.
    """

    def __init__(
        self, charter: Charter, held: Held = UNLIMITED, *, seed: int | None = None
    ) -> None:
        self._charter = charter
        self._seed = seed
        self._simulated: dict[PartyId, bool] = {}
        self._held = held
        self._closings: list[Closing] = []
        serving = (AGGREGATOR, *charter.roster.services)
        self._whole = {name: Closings(len(charter.roster)) for name in serving}
        self._last = ""
        # By kind and member that counted it.
        self._counted: dict[str, dict[PartyId, set[PartyId]]] = {}
        self._departed: dict[PartyId, str] = {}
        self._withdrawn = set[PartyId]()
        # Members that sent something, or were awaited in vain.
        self._asked = set[PartyId]()
        self._refused: dict[str, int] = {}
        self._lost = 0
        self._parties = frozenset(charter.roster.parties)
        self._others = frozenset(charter.roster.others)
        # Where a message was first sent and delivered, by its possible counters, topic and sender.
        self._said: dict[_About, dict[PartyId, int]] = {}
        self._heard: dict[_About, dict[PartyId, int]] = {}
        # What the entry before has added to the sent messages.
        self._added: tuple[_About, PartyId] | None = None
        # Of kinds with a round: how many messages of a sender may wait, and which found no room.
        self._waiting: dict[tuple[PartyId, PartyId, str], int] = {}
        self._crowded: set[tuple[PartyId, _About]] = set()
        self._declined: dict[PartyId, int] = {}

    def add(self, step: Step) -> None:
        """Take the next step, as ``Fold.add``."""
        entry, envelope, message = step.entry, step.envelope, step.message
        added, self._added = self._added, None
        match entry:
            case Sent() if envelope is not None:
                if envelope.sender in self._parties:
                    self._asked.add(self._charter.roster.own(envelope.sender))
                if envelope.kind == Declined.kind():
                    self._declined.setdefault(envelope.sender, envelope.seq)
                if envelope.recipient != RECORD:
                    self._lost += 1
                elif isinstance(message, Closed) and self._charter.roster.serves(envelope.sender):
                    self._close(envelope.sender, message, step.number)
                if message is not None and self._can_count(envelope):
                    self._added = self._say(envelope, message, step.number)
                    # A delivery takes memory while it is under way, or received.
                    if self._added is not None and step.lost:
                        self._held.take(_BYTES_PER_NAME, overhead=0)
            case Hindered() if added is not None and self._is_simulated(entry.sender):
                self._unsay(*added)
            case Delivered():
                self._lost -= not entry.repeat
                # A malformed message could not be counted.
                if envelope is not None and message is not None and self._can_count(envelope):
                    self._hear(envelope, message, step)
            case Departed():
                # A sender that is not on the roster is a fault of the verification.
                if entry.party in self._parties and entry.reason != LINK_CLOSED:
                    self._departed[entry.party] = entry.reason
                    if entry.reason.startswith(WITHDRAWN) and entry.party not in self._asked:
                        self._withdrawn.add(entry.party)
            case Refused():
                known = entry.reason in self._refused or len(self._refused) < REASONS
                reason = entry.reason if known else OTHER_REASONS
                self._refused[reason] = self._refused.get(reason, 0) + 1

    def _is_simulated(self, party: PartyId) -> bool:
        if self._seed is None or party not in self._parties:
            return False
        if party not in self._simulated:
            self._simulated[party] = follows_from_seed(self._charter, self._seed, party)
        return self._simulated[party]

    @property
    def counted(self) -> AbstractSet[PartyId]:
        """The parties in the estimate, by the record so far."""
        contribution = self._charter.variant.contribution
        kind = self._last if contribution is None else contribution.kind()
        # If several members count one kind each, those that all have counted are in the sum.
        by = self._counted.get(kind, {}).values()
        return set.intersection(*by) if by else set()

    def completeness(self) -> Completeness:
        """Participation so far."""
        counted = self.counted
        return Completeness(
            parties=len(self._charter.roster.parties),
            counted=len(counted),
            closings=tuple(self._closings),
            departed=dict(self._departed),
            refused=dict(self._refused),
            lost=self._lost,
            withdrawn=len(self._withdrawn - counted),
        )

    def _can_count(self, envelope: Envelope) -> bool:
        """Check whether an aggregator that has this message can count it.

        Nothing counts after a refusal, even if the refusal was not delivered.
        """
        sender, seq = envelope.sender, envelope.seq
        return (
            self._charter.roster.serves(envelope.recipient)
            and sender in self._others
            and seq < self._declined.get(sender, seq + 1)
        )

    def _say(
        self, envelope: Envelope, message: Message, number: int
    ) -> tuple[_About, PartyId] | None:
        """Note where a message was sent; None if it is not the first of its sender and topic."""
        about, sender = _About(envelope.recipient, message_topic(message)), envelope.sender
        said = self._said.get(about)
        if said is None:
            self._held.take(0)
            said = self._said[about] = {}
        if sender in said:
            return None
        sender = self._charter.roster.own(sender)
        said[sender] = number
        if hasattr(message, "round"):
            each = about.by, sender, about.topic[0]
            waiting = self._waiting[each] = self._waiting.get(each, 0) + 1
            if waiting > EARLY_PER_SENDER:
                self._crowded.add((sender, about))
        return about, sender

    def _unsay(self, about: _About, sender: PartyId) -> None:
        """Take back a message that the network of a simulation holds back."""
        del self._said[about][sender]
        self._crowded.discard((sender, about))
        each = about.by, sender, about.topic[0]
        if each in self._waiting:
            self._waiting[each] -= 1

    def _hear(self, envelope: Envelope, message: Message, step: Step) -> None:
        """Note where a message was delivered, and sent if it was held back."""
        about = _About(envelope.recipient, message_topic(message))
        if envelope.sender not in self._said.get(about, ()):
            self._say(envelope, message, step.number if step.said is None else step.said)
        heard = self._heard.setdefault(about, {})
        heard.setdefault(self._charter.roster.own(envelope.sender), step.number)

    def _close(self, by: PartyId, said: Closed, number: int) -> None:
        roster = self._charter.roster
        try:
            closed = self._whole[by].add(said)
            if closed is None:
                return
            awaited, counted = roster.members_in(closed.awaited), roster.members_in(closed.counted)
        except ValueError:
            return  # A replay finds that this closing does not follow.
        there = set(counted)
        if not there.isdisjoint(self._parties) or not awaited or awaited[0] in self._parties:
            self._last = closed.of
            counted_by = self._counted.setdefault(closed.of, {})
            counted_by[by] = counted_by.get(by, set()) | (there & self._parties)
        missing = tuple(name for name in awaited if name not in there)
        self._asked.update(missing)
        about = _About(by, (closed.of, closed.round))
        on_record, heard = self._said.get(about, {}), self._heard.get(about, {})
        for name in awaited:
            if name in on_record and (by, name, closed.of) in self._waiting:
                self._waiting[by, name, closed.of] -= 1
        # A message to a service may still have been under way.
        left_out = tuple(
            name
            for name in missing
            if by == AGGREGATOR and name in on_record and (name, about) not in self._crowded
        )
        self._held.take(_BYTES_PER_NAME * (len(there) + len(missing)))
        self._closings.append(
            Closing(
                by,
                closed.of,
                closed.round,
                len(awaited),
                len(counted),
                missing,
                left_out=left_out,
                unheard=tuple(name for name in counted if name not in heard),
                entry=number,
                evidence=(
                    *(on_record[name] for name in left_out),
                    *(heard[name] for name in left_out if name in heard),
                ),
                content=_CONTENT.get(closed.of, "readable"),
            )
        )
