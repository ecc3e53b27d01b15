"""Collects the closings that name a party for its messages, while a record grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

import msgspec

from protocol.messages import KERNEL_KINDS, NO_ROUND, Closed, Envelope, PartyId
from protocol.session.closings import counts, leaves_out
from protocol.session.roles import Topic

C = TypeVar("C")
"""A checkpoint of the record."""

_KERNEL = {kind.kind() for kind in KERNEL_KINDS}


class Entered(NamedTuple):
    """An envelope on record.

    Args:
        seq: its number.
        leaf: its entry's place in the log.
        at: when it was sent, in microseconds since the start.
    """

    seq: int
    leaf: int
    at: int


class Closing(NamedTuple, Generic[C]):
    """A closing on record.

    Args:
        leaf: its entry's place in the log.
        content: the entry, encoded.
        closed: its content.
        checkpoint: the first checkpoint that covers it; None while there is none.
    """

    leaf: int
    content: bytes
    closed: Closed
    checkpoint: C | None


class Naming(Generic[C]):
    """Messages from parties to the aggregator, and the closings of the waits for them.

    Args:
        rounds: for every kind with a round, its place in a body.
        members: the number of members of the roster.
    """

    __slots__ = ("_closings", "_members", "_new", "_rounds", "_said")

    def __init__(self, rounds: Mapping[str, int], members: int) -> None:
        self._members = members
        self._rounds = rounds
        # A wait returns the first message of a topic and party.
        self._said: dict[PartyId, dict[Topic, Entered]] = {}
        # By topic: a wait is closed range by range, and others may be awaited later.
        self._closings: dict[Topic, list[Closing[C]]] = {}
        self._new: list[Topic] = []

    def say(self, envelope: Envelope, entered: Entered) -> None:
        """Note a message of a party to the aggregator; malformed ones are ignored."""
        kind = envelope.kind
        if kind in _KERNEL:
            return
        round_ = NO_ROUND
        if kind in self._rounds:
            try:
                values = msgspec.msgpack.decode(envelope.body, type=tuple[msgspec.Raw, ...])
                round_ = msgspec.msgpack.decode(values[self._rounds[kind]], type=int)
            except (msgspec.MsgspecError, IndexError, OverflowError, RecursionError):
                return
        self._said.setdefault(envelope.sender, {}).setdefault((kind, round_), entered)

    def close(self, closed: Closed, leaf: int, content: bytes) -> None:
        """Take a closing of the aggregator; the next checkpoint has it."""
        topic = closed.of, closed.round
        self._closings.setdefault(topic, []).append(Closing(leaf, content, closed, None))
        self._new.append(topic)

    def check_in(self, checkpoint: C) -> None:
        """Take a checkpoint of the log as it is."""
        for topic in self._new:
            self._closings[topic] = [
                closing
                if closing.checkpoint is not None
                else closing._replace(checkpoint=checkpoint)
                for closing in self._closings[topic]
            ]
        self._new.clear()

    def pop(self, party: PartyId, place: int) -> Iterator[tuple[Entered, Closing[C]]]:
        """Closings that name a party for its messages; they are not kept any longer.

        Those that left it out come first.

        Args:
            party: the party, which has ended.
            place: its place on the roster.
        """
        found = [
            (entered, closing)
            for topic, entered in self._said.pop(party, {}).items()
            for closing in self._closings.get(topic, ())
            if counts(closing.closed, place, members=self._members)
            or leaves_out(closing.closed, place, members=self._members)
        ]
        # A closing that counts it is after the envelope.
        yield from sorted(found, key=lambda each: each[0].leaf < each[1].leaf)
