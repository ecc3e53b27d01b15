"""Rounds of a transcript: the messages between two closings of the aggregator."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from protocol.audit.completeness import Closing
from protocol.audit.walk import Fold, Step, fold, walk
from protocol.messages import AGGREGATOR, RECORD, Envelope, PartyId
from protocol.session.roster import Roster
from protocol.transcript.entries import Delivered, Departed, Entry, Refused, Sent
from protocol.wire.codec import Codec
from scenarios.surveys.watching.tally import Ended, RoundCounter, wait_name

NOTES = 1_000
"""Maximum number of different notes of a round."""

STRANGER = PartyId("(not on the roster)")
"""Name for senders that are not on the roster."""


@dataclass(slots=True)
class Flow:
    """All messages of one kind from one side to another in one round.

    Args:
        kind: the messages' kind.
        senders, recipients: the one member, or all the members, of that side.
        messages, bytes: number and size of sent messages.
        delivered: number of delivered messages; None for messages to the record.
    """

    kind: str
    senders: set[str]
    recipients: set[str]
    messages: int = 0
    delivered: int | None = 0
    bytes: int = 0

    @property
    def lost(self) -> int:
        """Number of messages that did not arrive."""
        return 0 if self.delivered is None else self.messages - self.delivered


@dataclass(slots=True)
class Round:
    """Messages between two closings, and other events."""

    flows: list[Flow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Stretch(NamedTuple):
    """Consecutive rounds with the same kinds of messages between the same sides.

    Args:
        name: which rounds.
        alike: number of such rounds.
        flows: flows of all of them together.
        notes: other events, with their number if above 1.
    """

    name: str
    alike: int
    flows: tuple[Flow, ...]
    notes: tuple[str, ...]


def alike_stretches(rounds: Sequence[Round]) -> list[Stretch]:
    """Rounds, with consecutive equal ones joined."""

    def said(numbered: tuple[int, Round]) -> list[tuple[str, ...]]:
        return [
            (flow.kind, _side(next(iter(flow.senders), "")), _side(next(iter(flow.recipients), "")))
            for flow in numbered[1].flows
        ]

    found = []
    for _, group in groupby(enumerate(rounds, 1), key=said):
        numbers, alike = zip(*group, strict=True)
        name = f"Round {numbers[0]:,}"
        if len(alike) > 1:
            name = f"Rounds {numbers[0]:,} to {numbers[-1]:,}"
        flows = tuple(map(sum_flows, zip(*(round_.flows for round_ in alike), strict=True)))
        noted = Counter(note for round_ in alike for note in round_.notes)
        notes = (f"{note}, in {n:,} rounds" if n > 1 else note for note, n in noted.items())
        found.append(Stretch(name, len(alike), flows, tuple(notes)))
    return found


def sum_flows(flows: Sequence[Flow]) -> Flow:
    """Flows of one kind between the same sides, summed."""
    arrived = [flow.delivered for flow in flows if flow.delivered is not None]
    return Flow(
        flows[0].kind,
        set().union(*(flow.senders for flow in flows)),
        set().union(*(flow.recipients for flow in flows)),
        sum(flow.messages for flow in flows),
        sum(arrived) if arrived else None,
        sum(flow.bytes for flow in flows),
    )


def named_waits(
    closings: Sequence[Closing], *, at_most: int
) -> list[tuple[str, Sequence[Closing]]]:
    """Waits of the aggregator, each with a name in words.

    Where there are more than ``at_most``, all of one kind are together.
    """
    if len(closings) <= at_most:
        return [
            (_with_waiter(closing, wait_name(closing.kind, closing.round)), (closing,))
            for closing in closings
        ]
    by_kind: dict[str, list[Closing]] = {}
    for closing in closings:
        by_kind.setdefault(_with_waiter(closing, closing.kind), []).append(closing)
    return [
        (kind if len(alike) == 1 else f"{kind}, {len(alike):,} times", alike)
        for kind, alike in by_kind.items()
    ]


def _with_waiter(closing: Closing, name: str) -> str:
    """Name of a wait, with the waiting member if that is not the aggregator."""
    return name if closing.by == AGGREGATOR else f"{name}, by {closing.by}"


class RoundWriter(Fold):
    """Collects rounds from the steps of a transcript.

    A message belongs to the round in which it was sent. All that are not on the roster count as
    one: ``verify`` names them.
    """

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._tallies: list[dict[tuple[str, str, str], Flow]] = [{}]
        self._notes: list[dict[str, int]] = [{}]
        self._closings: list[int] = []
        self._counter = RoundCounter(roster)

    def add(self, step: Step) -> None:
        entry, envelope = step.entry, step.envelope
        match entry:
            case Sent() if envelope is not None:
                self._add_sent(envelope, len(entry.envelope))
                ended = self._counter.add(step)
                if ended is not None:
                    self._add_ended(ended, step.number)
            case Delivered() if envelope is not None and step.said is not None:
                tallies = self._tallies[bisect_left(self._closings, step.said)]
                flow = tallies[self._key(envelope)]
                if flow.delivered is not None:
                    flow.delivered += 1
            case Refused():
                self._note(f"refused from {entry.link or 'a stranger'}: {entry.reason}")
            case Departed():
                self._note(f"left: {entry.reason}")

    def rounds(self) -> list[Round]:
        """The rounds so far."""
        rounds = []
        for tallies, notes in zip(self._tallies, self._notes, strict=True):
            if tallies or notes:
                shown = [f"{note} ({n:,} times)" if n > 1 else note for note, n in notes.items()]
                rounds.append(Round([*tallies.values()], shown))
        return rounds

    def _add_sent(self, envelope: Envelope, size: int) -> None:
        key = self._key(envelope)
        if key not in self._tallies[-1]:
            delivered = None if envelope.recipient == RECORD else 0
            self._tallies[-1][key] = Flow(envelope.kind, set(), set(), delivered=delivered)
        flow = self._tallies[-1][key]
        flow.senders.add(self._member(envelope.sender))
        flow.recipients.add(self._member(envelope.recipient))
        flow.messages += 1
        flow.bytes += size

    def _key(self, envelope: Envelope) -> tuple[str, str, str]:
        sides = (
            _side(self._member(envelope.sender)),
            _side(self._member(envelope.recipient)),
        )
        return envelope.kind, *sides

    def _add_ended(self, ended: Ended, entry: int) -> None:
        if ended.malformed:
            self._note(f"a malformed closing: {ended.malformed}")
        else:
            counted = f"{len(ended.counted):,} of {len(ended.awaited):,} parties counted"
            self._note(f"closed: {ended.kind} of {counted}")
        self._closings.append(entry)
        self._tallies.append({})
        self._notes.append({})

    def _member(self, name: PartyId) -> PartyId:
        return name if name == RECORD or name in self._roster else STRANGER

    def _note(self, text: str) -> None:
        notes = self._notes[-1]
        if text not in notes and len(notes) >= NOTES:
            text = "other things"
        notes[text] = notes.get(text, 0) + 1


def _side(member: str) -> str:
    return member if member in (AGGREGATOR, RECORD) else "parties"


def split_rounds(roster: Roster, entries: Iterable[Entry]) -> list[Round]:
    """Rounds of a transcript, without malformed entries, which ``verify`` reports."""
    writer = RoundWriter(roster)
    fold(walk(Codec((), members=len(roster)), entries, bodies=False), writer)
    return writer.rounds()
