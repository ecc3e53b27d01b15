"""A role's inbox: messages received, the open wait, and messages kept away, with the reasons."""

from __future__ import annotations

import math
from typing import NamedTuple

from protocol.crypto.merkle import leaf_hash
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.messages import (
    AGGREGATOR,
    KERNEL_KINDS,
    RECORD,
    Boxed,
    Closed,
    Declined,
    Envelope,
    Head,
    Left,
    Message,
    PartyId,
)
from protocol.session.charter import Charter
from protocol.session.roles import (
    EARLY_PER_SENDER,
    Boxes,
    Gather,
    Topic,
    check_round,
    message_topic,
)
from protocol.session.roster import Roster
from protocol.wire.codec import encode_envelope

KEPT = 1024
"""The most refused messages that are remembered."""

_NOT_BETWEEN_MEMBERS = (Closed.kind(), Left.kind(), Head.kind())


class Kept(NamedTuple):
    """A message that never reached the role, and the reason. Its content is in the transcript."""

    sender: PartyId
    seq: int
    kind: str
    reason: str


class Waiting:
    """An open gather.

    Args:
        signed: whether a head will sign its answers.

    Attributes:
        pending: the senders that are still awaited.
        answers: the answers so far.
        heard: if signed, each answer's envelope number and leaf hash.
    """

    __slots__ = ("_signed", "answers", "deadline", "effect", "heard", "pending", "topic")

    def __init__(
        self, effect: Gather, topic: Topic, deadline: float | None, *, signed: bool
    ) -> None:
        self.effect = effect
        self.topic = topic
        self.deadline = deadline
        self._signed = signed
        self.answers: dict[PartyId, Message] = {}
        self.heard: dict[PartyId, tuple[int, bytes]] = {}
        self.pending = set(effect.senders)

    def take(self, envelope: Envelope, message: Message) -> None:
        """Take an answer that is awaited."""
        sender = envelope.sender
        self.pending.discard(sender)
        self.answers[sender] = message
        if self._signed:
            self.heard[sender] = envelope.seq, leaf_hash(encode_envelope(envelope))


class Inbox:
    """Sorts the messages to one member.

    Args:
        charter: the session and variant.
        roster: the part of the roster that the member knows.
        me: the member.
        signed: whether it signs for the answers of its waits.
        boxes: opens sealed messages to it.

    Attributes:
        waiting: the open gather, if there is one.
        gone: members known to have left, with the reasons.
        kept: the first messages that never reached the role.
    """

    __slots__ = (
        "_asked",
        "_boxes",
        "_charter",
        "_early",
        "_early_count",
        "_heard",
        "_me",
        "_roster",
        "_signed",
        "gone",
        "kept",
        "waiting",
    )

    def __init__(
        self, charter: Charter, roster: Roster, me: PartyId, *, signed: bool, boxes: Boxes
    ) -> None:
        self._charter = charter
        self._boxes = boxes
        self._roster = roster
        self._me = me
        self._signed = signed
        self._early: dict[Topic, dict[PartyId, tuple[Envelope, Message]]] = {}
        self._early_count: dict[tuple[PartyId, str], int] = {}
        # A topic awaited from one member keeps the wait's own tuple: most parties have nothing
        # else, and a set takes four times as much.
        self._asked: dict[Topic, set[PartyId] | tuple[PartyId, ...]] = {}
        self._heard: dict[PartyId, int] = {}
        self.waiting: Waiting | None = None
        self.gone: dict[PartyId, str] = {}
        self.kept: list[Kept] = []

    def admit(self, envelope: Envelope, *, over: bool) -> Message | None:
        """Decode a message of another member; None, and kept, if it must be refused.

        Args:
            over: the role has ended.
        """
        try:
            return self._decoded(envelope, over)
        except RemoteProtocolError as refusal:
            self.keep(envelope, str(refusal))
            return None

    def notice(self, envelope: Envelope) -> Left | None:
        """Decode a notice of the switch; None, and kept, if it is not of a departure."""
        try:
            notice = self._charter.codec.open(envelope)
        except RemoteProtocolError as refusal:
            self.keep(envelope, str(refusal))
            return None
        if isinstance(notice, Left):
            return notice
        self.keep(envelope, "unexpected: the switch sends notices of departures only")
        return None

    def accept(self, envelope: Envelope, message: Message) -> None:
        """Put a message where it belongs: with the open gather, or aside until it is awaited.

        A message beyond ``EARLY_PER_SENDER`` of its kind is set aside. One of the aggregator is
        refused instead: a role that has lost a question would wait for it in vain.

        Raises:
            RemoteProtocolError: too many messages of the aggregator are waiting.
        """
        sender, topic = envelope.sender, message_topic(message)
        waiting = self.waiting
        if waiting is not None and waiting.topic == topic and sender in waiting.pending:
            waiting.take(envelope, message)
            return
        if sender in self._asked.get(topic, ()):
            self.keep(envelope, "late or repeated: this sender's answer is no longer awaited")
            return
        if sender in self._early.get(topic, ()):
            self.keep(envelope, "repeated: one of this kind and round is waiting already")
            return
        each = sender, envelope.kind
        waiting_too = self._early_count.get(each, 0)
        if waiting_too >= EARLY_PER_SENDER:
            self.keep(envelope, "too many messages of this kind and sender are waiting")
            if sender == AGGREGATOR:
                raise RemoteProtocolError(
                    f"the aggregator sent more than {EARLY_PER_SENDER} messages that were not "
                    "awaited",
                    field=envelope.kind,
                )
            return
        self._early.setdefault(topic, {})[sender] = (envelope, message)
        self._early_count[each] = waiting_too + 1

    def open(self, effect: Gather, now: float) -> Waiting:
        """Open a gather, with early messages and departed members taken into account.

        Raises:
            LocalProtocolError: the role may not wait for this.
        """
        self._check(effect)
        topic = effect.topic
        asked = self._asked.get(topic, ())
        waiting = Waiting(effect, topic, _deadline(effect, now), signed=self._signed)
        senders = waiting.pending
        if len(senders) != len(effect.senders) or not senders.isdisjoint(asked):
            raise LocalProtocolError(
                f"{topic[0]!r} (round {topic[1]}) is awaited twice from one sender; a kind that "
                "comes more than once needs a field 'round'"
            )
        if not asked and len(senders) == 1:
            self._asked[topic] = effect.senders
        elif isinstance(asked, set):
            asked |= senders
        else:
            self._asked[topic] = {*asked, *senders}
        early = self._early.get(topic)
        if early:
            for sender in senders & early.keys():
                waiting.take(*early.pop(sender))
                self._early_count[sender, topic[0]] -= 1
        senders.difference_update(self.gone)
        self.waiting = waiting
        return waiting

    def close(self) -> None:
        """Note that the role has ended: messages that it never awaited are kept as unexpected."""
        self.waiting = None
        for early in self._early.values():
            for envelope, _ in early.values():
                self.keep(envelope, "unexpected: the role never awaited it")
        self._early.clear()

    def keep(self, envelope: Envelope, reason: str) -> None:
        """Set a message aside for the auditor."""
        if len(self.kept) < KEPT:
            self.kept.append(Kept(envelope.sender, envelope.seq, envelope.kind[:64], reason))

    def _decoded(self, envelope: Envelope, over: bool) -> Message:
        sender = envelope.sender
        if envelope.session != self._charter.session:
            raise RemoteProtocolError("the envelope is of another session", field="session")
        if envelope.recipient != self._me:
            raise RemoteProtocolError(
                f"{envelope.recipient!r:.80}: addressed to another member", field="recipient"
            )
        awaited = self.waiting is not None and sender in self.waiting.pending
        if not awaited and (sender not in self._roster or sender == self._me):
            raise RemoteProtocolError(f"{sender!r:.80} is not another member", field="sender")
        if envelope.seq <= self._heard.get(sender, -1):
            raise RemoteProtocolError("repeated: this number has been seen", field="seq")
        self._heard[sender] = envelope.seq
        if over:
            raise RemoteProtocolError("the role has ended")
        if envelope.kind in _NOT_BETWEEN_MEMBERS:
            raise RemoteProtocolError("not a kind that members send each other", field="kind")
        if envelope.kind == Declined.kind() and self._me != AGGREGATOR:
            raise RemoteProtocolError("a refusal is sent to the aggregator", field="kind")
        codec = self._charter.codec
        message = codec.open(envelope)
        if isinstance(message, Boxed):
            return codec.unseal(envelope, message, self._boxes.open)
        return message

    def _check(self, effect: Gather) -> None:
        kind = effect.kind
        if kind in KERNEL_KINDS or kind.kind() not in self._charter.codec.names:
            raise LocalProtocolError(f"{kind.kind()!r} is not a kind that members send each other")
        check_round(kind, effect.round)
        if effect.round is not None and effect.round < 0:
            raise LocalProtocolError(f"round {effect.round}: expected at least 0")
        if effect.within is not None and not effect.within >= 0.0:
            raise LocalProtocolError(f"within {effect.within}: expected at least 0 seconds")
        if self._me == AGGREGATOR and effect.senders == (RECORD,) and not effect.noted:
            return  # Its own message to the record (``Me.disclose``).
        for sender in effect.senders:
            if sender == self._me or sender not in self._roster:
                raise LocalProtocolError(f"sender {sender!r} is not another member of the roster")


def _deadline(effect: Gather, now: float) -> float | None:
    if effect.within is None or effect.within == math.inf:
        return None
    return now + effect.within
