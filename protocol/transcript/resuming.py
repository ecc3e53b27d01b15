"""Reads the record of an interrupted run, and brings its aggregator back to the same state.

Recorded messages are final, since they may have left the aggregator. Unrecorded ones never left,
and may differ now.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from protocol.crypto.merkle import Tree
from protocol.errors import LocalProtocolError, RemoteProtocolError, TranscriptError
from protocol.messages import (
    AGGREGATOR,
    CLOSING_MEMBERS,
    RECORD,
    Closed,
    Envelope,
    Message,
    PartyId,
)
from protocol.session.charter import Charter
from protocol.session.closings import check_range
from protocol.session.exchange import Exchange
from protocol.session.machine import Machine
from protocol.session.roles import Topic, message_topic
from protocol.transcript.certifying import Certificate
from protocol.transcript.entries import (
    Checkpoint,
    Delivered,
    Departed,
    Ending,
    Refused,
    Restored,
    Sent,
)
from protocol.transcript.reader import Records
from protocol.transcript.recorder import Recorder
from protocol.wire.codec import decode_envelope, encode_envelope

_CLOSED = Closed.kind()
_SECONDS = 1e-6


class Closing(NamedTuple):
    """End of a wait of the aggregator, by the record.

    Args:
        topic: the kind and round awaited.
        counted: the parties counted.
        missed: the parties awaited and not counted.
        at: its time, in seconds.
        whole: whether all its ranges are on record; missing ones may come out either way.
    """

    topic: Topic
    counted: frozenset[PartyId]
    missed: frozenset[PartyId]
    at: float
    whole: bool


def _is_closing(envelope: Envelope) -> bool:
    """Check whether an envelope of the aggregator is a range of a closing."""
    return (envelope.kind, envelope.recipient) == (_CLOSED, RECORD)


class Past:
    """Past of a run by its record, to go on from it.

    Args:
        charter: the session, variant and roster.
        recorder: made with ``resumed``; it is taken through the record.
        exchange: a new one with this recorder; likewise.

    Attributes:
        at: the time of the last entry, in seconds.
        began: the time of the aggregator's first message sent or received, in seconds; None without
            one.
        ending: the last entry, if the record has one.
        words: the tree of the aggregator's envelopes.
        waiting: envelopes sent and not delivered, by sender and number, in order.
        handed: envelopes delivered to each party, in order.
        departed: members that had left before the aggregator did, with the reasons.
        heard: envelopes delivered to the aggregator with their times, in order.
        obtained: messages that the aggregator got from outside the session and has recorded.
        cosigned: the note of the first checkpoint with cosignatures, if it is on record.
    """

    def __init__(self, charter: Charter, recorder: Recorder, exchange: Exchange) -> None:
        self.at = 0.0
        self.began: float | None = None
        self.ending: Ending | None = None
        self.words = Tree()
        self.waiting: dict[tuple[PartyId, int], Envelope] = {}
        self.handed: dict[PartyId, list[Envelope]] = {name: [] for name in charter.roster.others}
        self.departed: dict[PartyId, str] = {}
        self.cosigned: str | None = None
        self.obtained: dict[Topic, Message] = {}
        self.heard: list[tuple[float, Envelope]] = []
        self._charter = charter
        self._recorder = recorder
        self._exchange = exchange
        # By recipient: which of those in ``waiting`` are to it.
        self._waiting_for: dict[PartyId, set[tuple[PartyId, int]]] = {}
        self._closings: list[Closing] = []
        self._awaited = self._counted = b""

    def read(self, records: Records) -> None:
        """Take all that follows the header. Call ``go_on`` of the recorder then.

        Raises:
            TranscriptError: it is malformed, or not what this program would have recorded.
        """
        notes = 0
        for content in records:
            item = self._recorder.recall(content)
            match item:
                case Sent():
                    self._sent(decode_envelope(item.envelope), item)
                case Delivered():
                    self._delivered(item)
                case Departed():
                    self._left(item)
                case Refused():
                    self._exchange.recall_refused(item.link)
                case Ending():
                    self.ending = item
                case Checkpoint() if self._recorder.size == 1:
                    notes += 1
                    self.cosigned = item.note if notes > 1 else None
            if isinstance(item, Sent | Delivered | Departed | Refused | Restored):
                self.at = item.at * _SECONDS
        if records.fault is not None or records.unopened is not None or records.torn:
            raise TranscriptError(f"damaged: {records.fault or records.unopened or 'torn'}")

    @property
    def closings(self) -> list[Closing]:
        """The waits of the aggregator that have ended; only the last may be incomplete."""
        return self._closings

    def close(self, unsaid: Sequence[Envelope]) -> list[Envelope]:
        """Record the rest of a closing that is partly on record, before anything is received.

        A message received between two ranges would seem to be left out by the second.

        Args:
            unsaid: the envelopes that ``catch_up`` has returned; the recorder goes on.

        Returns:
            The envelopes that are still unsent.
        """
        ranges = [*itertools.takewhile(_is_closing, unsaid)]
        taken = 0
        while taken < len(ranges):
            taken += self._exchange.accept(AGGREGATOR, ranges, now=self.at, start=taken).taken
        return list(unsaid[len(ranges) :])

    def _sent(self, envelope: Envelope, entry: Sent) -> None:
        sender, recipient = envelope.sender, envelope.recipient
        at = entry.at * _SECONDS
        self._exchange.recall_sent(envelope, len(entry.envelope))
        if sender == AGGREGATOR:
            self.words.append(entry.envelope)
            self.began = at if self.began is None else self.began
            if _is_closing(envelope):
                self._close(envelope, at)
            elif (recipient, envelope.kind) == (RECORD, Certificate.kind()):
                self._obtain(envelope)
        if recipient != RECORD and recipient not in self._exchange.departed:
            self.waiting[sender, envelope.seq] = envelope
            self._waiting_for.setdefault(recipient, set()).add((sender, envelope.seq))

    def _obtain(self, envelope: Envelope) -> None:
        try:
            said = self._charter.codec.decode(envelope.kind, envelope.body)
        except RemoteProtocolError as error:
            raise TranscriptError(f"a certificate is malformed: {error}") from error
        self.obtained[message_topic(said)] = said

    def _delivered(self, entry: Delivered) -> None:
        envelope = self.waiting.pop((entry.sender, entry.seq), None)
        if envelope is None or envelope.recipient != entry.recipient:
            raise TranscriptError(
                f"seq {entry.seq} of {entry.sender!r} is delivered to {entry.recipient!r}: "
                "expected what was sent to it, once"
            )
        self._waiting_for[entry.recipient].discard((entry.sender, entry.seq))
        self._exchange.recall_delivered(entry.recipient)
        if entry.recipient == AGGREGATOR:
            at = entry.at * _SECONDS
            self.began = at if self.began is None else self.began
            self.heard.append((at, envelope))
        else:
            self.handed[entry.recipient].append(envelope)

    def _left(self, entry: Departed) -> None:
        self._exchange.recall_left(entry.party, entry.reason)
        if AGGREGATOR not in self._exchange.departed:
            self.departed[entry.party] = entry.reason
        for key in self._waiting_for.pop(entry.party, ()):
            del self.waiting[key]

    def _close(self, envelope: Envelope, at: float) -> None:
        """Take a range of a closing; it replaces the result of the ranges before it."""
        try:
            closed = self._charter.codec.decode(_CLOSED, envelope.body)
            assert isinstance(closed, Closed)
            check_range(closed, len(self._charter.roster))
        except (RemoteProtocolError, ValueError) as error:
            raise TranscriptError(f"a closing of the aggregator is malformed: {error}") from error
        if closed.first == 0:
            self._awaited = self._counted = b""
        elif closed.first == 8 * len(self._awaited):
            at = self._closings.pop().at
        else:
            raise TranscriptError(
                f"a closing goes on from place {closed.first}, expected {8 * len(self._awaited)}"
            )
        self._awaited += closed.awaited
        self._counted += closed.counted
        members = self._charter.roster
        size = (len(members) + 7) // 8
        awaited, counted = (
            frozenset(members.members_in(bitmap.ljust(size, b"\0")))
            for bitmap in (self._awaited, self._counted)
        )
        whole = closed.first + CLOSING_MEMBERS >= len(members)
        topic = (closed.of, closed.round)
        self._closings.append(Closing(topic, counted, awaited - counted, at, whole))


def catch_up(machine: Machine, past: Past, *, start: float) -> list[Envelope]:
    """Bring the aggregator's machine, which has not been started, to the end of the record.

    Envelopes delivered to it are delivered again, in order, and waits return as on record. The
    switch sends it notices of departures later, after envelopes that are still under way.

    Args:
        start: the start of the run, on the clock that the machine goes on with.

    Returns:
        Its envelopes beyond the record, to be sent now.

    Raises:
        LocalProtocolError: its messages are not those on record.
    """
    return _Rerun(machine, past, start).run()


class _Rerun:
    """A machine that runs through the record again."""

    def __init__(self, machine: Machine, past: Past, start: float) -> None:
        self._machine = machine
        self._past = past
        self._start = start
        self._said: list[Envelope] = []
        self._ranges = 0
        # Members not counted in a wait: their messages for it are given to the role afterwards.
        self._missed = {
            (closing.topic, name): number
            for number, closing in enumerate(past.closings)
            for name in closing.missed
        }
        self._held: dict[int, list[Envelope]] = {}
        self._given: dict[Topic, set[PartyId]] = {}
        # Of the open wait: its number, its topic, and the senders whose answers are to come.
        self._open = -1
        self._awaited: Topic | None = None
        self._missing: set[PartyId] = set()

    def run(self) -> list[Envelope]:
        past, machine = self._past, self._machine
        if past.began is not None:
            machine.start(self._now(past.began))
            self._settle()
            for at, envelope in past.heard:
                self._hear(at, envelope)
            if self._returned < len(past.closings):
                # Some ranges of the last one are on record, and all that it has counted is in.
                machine.close_gather(self._now(past.at))
                self._settle()
        if self._returned < len(past.closings):
            self._fail("a wait has ended that this program does not have")
        return self._unsaid()

    @property
    def _returned(self) -> int:
        """Number of waits that have returned."""
        members = len(self._machine.charter.roster)
        return self._ranges // -(-members // CLOSING_MEMBERS)

    def _now(self, at: float) -> float:
        """The machine's time of an entry."""
        return self._start + at

    def _hear(self, at: float, envelope: Envelope) -> None:
        topic = self._topic(envelope)
        if topic is not None:
            wait = self._missed.get((topic, envelope.sender), -1)
            if wait >= self._returned:
                self._held.setdefault(wait, []).append(envelope)
                return
            self._given.setdefault(topic, set()).add(envelope.sender)
            if topic == self._awaited:
                self._missing.discard(envelope.sender)
        self._machine.receive(envelope, self._now(at))
        self._settle()

    def _settle(self) -> None:
        """Return from all waits that the record has closed and whose counted messages have come."""
        machine, closings = self._machine, self._past.closings
        while True:
            self._listen()
            asked = machine.asks
            if asked is not None and asked.topic in self._past.obtained:
                machine.tell(self._past.obtained[asked.topic], self._now(self._past.at))
                continue
            number, waiting = self._returned, machine.awaited
            if number >= len(closings) or waiting is None:
                return
            closing = closings[number]
            if number != self._open:
                self._open, self._awaited = number, waiting.topic
                if self._awaited != closing.topic:
                    self._fail(f"it waits for {self._awaited[0]!r}, not for {closing.topic[0]!r}")
                self._missing = set(closing.counted - self._given.get(closing.topic, set()))
            if self._missing or not closing.whole:
                return
            machine.close_gather(self._now(closing.at))

    def _listen(self) -> None:
        before = self._returned
        for envelope in self._machine.take():
            self._said.append(envelope)
            self._ranges += _is_closing(envelope)
        for number in range(before, self._returned):
            for envelope in self._held.pop(number, ()):
                # Too late: it is kept for the auditor.
                self._machine.receive(envelope, self._now(self._past.at))

    def _topic(self, envelope: Envelope) -> Topic | None:
        try:
            codec = self._machine.charter.codec
            return message_topic(codec.decode(envelope.kind, envelope.body))
        except RemoteProtocolError:
            return None

    def _unsaid(self) -> list[Envelope]:
        """Envelopes that were sent and are not on record; those before must be."""
        machine, recorded = self._machine, self._past.words
        said = Tree()
        for envelope in self._said[: recorded.count]:
            said.append(encode_envelope(envelope))
        if (said.count, said.root()) != (recorded.count, recorded.root()):
            self._fail("it says something else")
        if machine.finished:
            # It is not notified any more.
            for name, reason in self._past.departed.items():
                machine.gone(name, reason, self._now(self._past.at))
        return self._said[recorded.count :]

    def _fail(self, why: str) -> NoReturn:
        raise LocalProtocolError(
            "the record was not begun by this program with these keys and secrets: the aggregator "
            f"does not say again what is on record ({why})"
        )
