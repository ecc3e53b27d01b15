"""The machine: runs one role by its effects, without I/O. Time goes in as a number, envelopes come out.

Rules
1. Whatever a role does not wait for yet, waits: one message per (kind, round, sender).
2. Late, repeated, unexpected and malformed messages are kept with the reason; they never reach a role.
3. A role that raises, or awaits what is no effect, ends as a ``LocalProtocolError``.
4. The same stream and the same received envelopes give the same messages.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple

from protocol.charter import Charter
from protocol.errors import (
    LocalProtocolError,
    PrivacyError,
    ProtocolError,
    QuorumError,
    RemoteProtocolError,
)
from protocol.messages import (
    AGGREGATOR,
    KERNEL_KINDS,
    NO_ROUND,
    RECORD,
    SWITCH,
    Closed,
    Declined,
    Envelope,
    Left,
    Message,
    PartyId,
)
from protocol.privacy.accountants import NOTHING, Loss, total
from protocol.randomness import Stream
from protocol.records import Records
from protocol.roles import Gather, Me, Seen, Send
from protocol.variant import event_of

EARLY_PER_SENDER = 64
"""How many messages of one sender may wait for a role that does not await them yet."""

KEPT = 1024
"""How many refused messages a machine keeps in full; later ones are only counted."""

_Topic = tuple[str, int]


class Kept(NamedTuple):
    """A message that never reached the role, and why."""

    envelope: Envelope
    reason: str


class _Waiting:
    """An open gather."""

    __slots__ = ("answers", "deadline", "effect", "pending", "topic")

    def __init__(self, effect: Gather, topic: _Topic, deadline: float | None) -> None:
        self.effect = effect
        self.topic = topic
        self.deadline = deadline
        self.answers: dict[PartyId, Message] = {}
        self.pending = set(effect.senders)


class Machine:
    """One member's role, run without I/O.

    Drive it so: ``start``; send what ``take`` returns; ``receive``, ``gone`` or ``expire`` as things
    happen; take again; until ``finished``.

    Args:
        charter: the session, variant and roster.
        me: this member; the aggregator runs the aggregator's role, everybody else a party's.
        stream: this member's randomness.
        records: what a party holds. The aggregator holds none.
        budget: the most that this party will spend per respondent, in nats of pure epsilon.
    """

    def __init__(
        self,
        charter: Charter,
        me: PartyId,
        stream: Stream,
        *,
        records: Records | None = None,
        budget: float | None = None,
    ) -> None:
        self.charter = charter
        self.me = me
        self.result: Message | None = None
        self.failure: ProtocolError | None = None
        self.finished = False
        self.kept: list[Kept] = []
        self.kept_count = 0
        self._records = records
        self._budget = budget
        self._spent: Loss = NOTHING
        self._seen = Seen()
        self._seq = 0
        self._rounds = 0
        self._outbox: list[Envelope] = []
        self._waiting: _Waiting | None = None
        self._early: dict[_Topic, dict[PartyId, tuple[Envelope, Message]]] = {}
        self._early_count: dict[PartyId, int] = {}
        self._asked: dict[_Topic, set[PartyId]] = {}
        self._heard: dict[PartyId, int] = {}
        self._gone: dict[PartyId, str] = {}
        self._side = Me(me, charter.roster, stream)
        self._role: Coroutine[Any, Any, Any] | None = None
        if records is None and me != AGGREGATOR:
            raise LocalProtocolError("a party needs records", party=me)

    def __repr__(self) -> str:
        state = "finished" if self.finished else f"round {self._rounds}"
        return f"Machine({self.me!r}, {state})"

    @property
    def role(self) -> str:
        """``aggregator`` or ``party``."""
        return "aggregator" if self.me == AGGREGATOR else "party"

    @property
    def deadline(self) -> float | None:
        """When to call ``expire``, in the seconds of ``now``; None while nothing is timed."""
        return self._waiting.deadline if self._waiting else None

    @property
    def spent(self) -> Loss:
        """What this party's messages have cost each of its respondents so far."""
        return self._spent

    @property
    def departed(self) -> Mapping[PartyId, str]:
        """Who is known to be gone, and why."""
        return self._gone

    @property
    def awaited(self) -> Gather | None:
        """What the role waits for; None if it does not wait."""
        return self._waiting.effect if self._waiting else None

    def take(self) -> list[Envelope]:
        """What is to be sent now, in order; each envelope is returned once."""
        outbox, self._outbox = self._outbox, []
        return outbox

    def start(self, now: float) -> None:
        """Run the role up to its first wait."""
        variant = self.charter.variant
        if self._records is None:
            self._role = variant.aggregator(self._side, self.charter.roster.parties)
        else:
            self._role = variant.party(self._side, self._records)
        self._resume(None, now)

    def receive(self, envelope: Envelope, now: float) -> None:
        """Take an envelope from the link. Nothing that comes in raises."""
        sender = envelope.sender
        if sender == SWITCH:
            self._notice(envelope, now)
            return
        try:
            message = self._admit(envelope)
        except RemoteProtocolError as refusal:
            self._keep(envelope, str(refusal))
            return
        if type(message) is Declined:
            self.gone(sender, f"declined: {message.reason}", now)
            return
        topic = (envelope.kind, _round_of(message))
        waiting = self._waiting
        if waiting is not None and waiting.topic == topic and sender in waiting.pending:
            waiting.pending.discard(sender)
            waiting.answers[sender] = message
            self._see(sender, message)
            if not waiting.pending:
                self._close(now)
        elif sender in self._asked.get(topic, ()):
            self._keep(envelope, "late or repeated: this sender's answer is no longer awaited")
        else:
            self._wait_early(topic, envelope, message)

    def gone(self, party: PartyId, reason: str, now: float) -> None:
        """A member has left; whatever it had sent has been received."""
        self._gone.setdefault(party, reason)
        waiting = self._waiting
        if waiting is not None and party in waiting.pending:
            waiting.pending.discard(party)
            if not waiting.pending:
                self._close(now)

    def expire(self, now: float) -> None:
        """The deadline is over: the open gather returns with what has come."""
        waiting = self._waiting
        if waiting is not None and waiting.deadline is not None and now >= waiting.deadline:
            self._close(now)

    def close_gather(self, now: float) -> None:
        """Return from the open gather with what has come, as a deadline would (for replays)."""
        if self._waiting is not None:
            self._close(now)

    def abandon(self, reason: str) -> None:
        """End the role from outside: its link or its session is over before all is said."""
        lost = ProtocolError(f"{self.role} {self.me!r}: {reason}")
        if not self.finished:
            self._stop_role()
            self._end(lost)
        elif self.failure is None:
            # The role had ended, but its last words were not heard.
            self.failure = lost

    def _admit(self, envelope: Envelope) -> Message:
        sender = envelope.sender
        if envelope.session != self.charter.session:
            raise RemoteProtocolError("of another session", field="session")
        if envelope.recipient != self.me:
            raise RemoteProtocolError("meant for somebody else", field="recipient")
        if sender not in self.charter.roster or sender == self.me:
            raise RemoteProtocolError("not from another member", field="sender")
        if envelope.seq <= self._heard.get(sender, -1):
            raise RemoteProtocolError("repeated: this number has been seen", field="seq")
        self._heard[sender] = envelope.seq
        if self.finished:
            raise RemoteProtocolError("after the end of the role")
        if envelope.kind in ("Closed", "Left"):
            raise RemoteProtocolError("not a kind that members send each other", field="kind")
        return self.charter.codec.decode(envelope.kind, envelope.body)

    def _notice(self, envelope: Envelope, now: float) -> None:
        try:
            notice = self.charter.codec.decode(envelope.kind, envelope.body)
        except RemoteProtocolError as refusal:
            self._keep(envelope, str(refusal))
            return
        if isinstance(notice, Left):
            self.gone(notice.party, notice.reason, now)
        else:
            self._keep(envelope, "the switch gives notice of departures only")

    def _wait_early(self, topic: _Topic, envelope: Envelope, message: Message) -> None:
        sender = envelope.sender
        early = self._early.setdefault(topic, {})
        if sender in early:
            self._keep(envelope, "repeated: one of this kind and round is waiting already")
        elif self._early_count.get(sender, 0) >= EARLY_PER_SENDER:
            self._keep(envelope, "too many messages of this sender are waiting")
        else:
            early[sender] = (envelope, message)
            self._see(sender, message)
            self._early_count[sender] = self._early_count.get(sender, 0) + 1

    def _see(self, sender: PartyId, message: Message) -> None:
        # The aggregator's messages are never charged, and what it hears may fill the memory.
        if self._records is not None:
            self._seen.add(sender, message)

    def _keep(self, envelope: Envelope, reason: str) -> None:
        self.kept_count += 1
        if len(self.kept) < KEPT:
            self.kept.append(Kept(envelope, reason))

    def _resume(self, outcome: object, now: float) -> None:
        """Run the role until it waits or ends; ``outcome`` is what its last effect came to."""
        role = self._role
        while role is not None and not self.finished:
            try:
                if isinstance(outcome, ProtocolError):
                    effect = role.throw(outcome)
                else:
                    effect = role.send(outcome)
            except StopIteration as stop:
                self._finish(stop.value)
                return
            except LocalProtocolError as error:
                self._end(error if error.party is not None else self._local(str(error), error))
                return
            except ProtocolError as error:
                self._end(error)
                return
            except Exception as error:
                self._end(self._local(f"{type(error).__name__}: {error}", error))
                return
            try:
                if isinstance(effect, Send):
                    self._post(effect)
                    outcome = None
                elif isinstance(effect, Gather):
                    if self._open(effect, now):
                        return
                    outcome = self._outcome()
                else:
                    raise LocalProtocolError(
                        f"awaited {type(effect).__name__!r}, which is no effect of a protocol"
                    )
            except PrivacyError as error:
                outcome = error
            except LocalProtocolError as error:
                self._stop_role()
                self._end(self._local(str(error), error))
                return

    def _stop_role(self) -> None:
        if self._role is not None:
            # A role that awaits or raises while it is closed is at fault, but it is over either way.
            with contextlib.suppress(Exception):
                self._role.close()

    def _local(self, message: str, cause: BaseException | None) -> LocalProtocolError:
        error = LocalProtocolError(message, party=self.me, role=self.role, round=self._rounds)
        error.__cause__ = cause
        return error

    def _finish(self, value: object) -> None:
        if value is not None:
            if not isinstance(value, Message):
                self._end(self._local(f"returned {type(value).__name__!r}, not a message", None))
                return
            try:
                self._post(Send((RECORD,), value))
            except (LocalProtocolError, PrivacyError) as error:
                self._end(self._local(str(error), error))
                return
        self.result = value
        self._end(None)

    def _end(self, failure: ProtocolError | None) -> None:
        self.finished = True
        self.failure = failure
        self._waiting = None
        if isinstance(failure, PrivacyError) and self.me != AGGREGATOR:
            self._post(Send((AGGREGATOR,), Declined(str(failure)[:500])))
        for waiting in self._early.values():
            for envelope, _ in waiting.values():
                self._keep(envelope, "unexpected: the role never awaited it")
        self._early.clear()

    def _post(self, send: Send) -> None:
        charter = self.charter
        recipients = send.recipients
        for recipient in recipients:
            if recipient == self.me or (recipient != RECORD and recipient not in charter.roster):
                raise LocalProtocolError(f"{recipient!r} is no member that one can send to")
        if self._records is not None:
            self._charge(send.message)
        body = charter.codec.encode(send.message)
        kind = send.message.kind()
        seq = self._seq
        self._outbox.extend(
            Envelope(charter.session, self.me, recipient, seq + i, kind, body)
            for i, recipient in enumerate(recipients)
        )
        self._seq += len(recipients)

    def _charge(self, message: Message) -> None:
        event = event_of(self.charter.variant, message, self._seen)
        loss = self.charter.accountant.judge(event)
        spent = total((self._spent, loss))
        if self._budget is not None and spent.record > self._budget:
            raise PrivacyError(
                f"{message.kind()!r} costs {loss.record:.6g} per respondent; "
                f"{self._budget - self._spent.record:.6g} of {self._budget:.6g} is left"
            )
        self._spent = spent

    def _open(self, effect: Gather, now: float) -> bool:
        """Open a gather; whether the role has to wait."""
        self._check_kind(effect)
        topic = (effect.kind.kind(), NO_ROUND if effect.round is None else effect.round)
        asked = self._asked.setdefault(topic, set())
        senders = set(effect.senders)
        if len(senders) != len(effect.senders) or not asked.isdisjoint(senders):
            raise LocalProtocolError(
                f"{topic[0]!r} (round {topic[1]}) is awaited twice from one sender; "
                "a kind that comes more than once carries a round"
            )
        for sender in senders:
            if sender == self.me or sender not in self.charter.roster:
                raise LocalProtocolError(f"{sender!r} is no member that one can hear from")
        asked |= senders
        deadline = None if effect.within in (None, math.inf) else now + (effect.within or 0.0)
        waiting = self._waiting = _Waiting(effect, topic, deadline)
        early = self._early.get(topic)
        if early:
            for sender in senders & early.keys():
                _, waiting.answers[sender] = early.pop(sender)
                waiting.pending.discard(sender)
                self._early_count[sender] -= 1
        waiting.pending.difference_update(self._gone)
        return bool(waiting.pending)

    def _check_kind(self, effect: Gather) -> None:
        kind = effect.kind
        if kind in KERNEL_KINDS or kind.kind() not in self.charter.codec.names:
            raise LocalProtocolError(f"{kind.kind()!r} is no kind that members send each other")
        if ("round" in kind.__struct_fields__) != (effect.round is not None):
            raise LocalProtocolError(
                f"{kind.kind()!r} must be awaited by round if, and only if, it has a field 'round'"
            )
        if effect.within is not None and not effect.within >= 0.0:
            raise LocalProtocolError(f"cannot wait for {effect.within} seconds")

    def _close(self, now: float) -> None:
        self._resume(self._outcome(), now)

    def _outcome(self) -> dict[PartyId, Message] | QuorumError:
        """Close the open gather: what it returns, or that too few have answered."""
        waiting = self._waiting
        if waiting is None:
            raise LocalProtocolError("no gather is open", party=self.me, round=self._rounds)
        self._waiting = None
        self._rounds += 1
        effect = waiting.effect
        answers = waiting.answers
        kind, round_ = waiting.topic
        if effect.noted:
            bitmap = self.charter.roster.bitmap
            closed = Closed(kind, round_, bitmap(effect.senders), bitmap(answers))
            self._post(Send((RECORD,), closed))
        if len(answers) < effect.at_least:
            missing = [sender for sender in effect.senders if sender not in answers]
            return QuorumError(
                kind=kind, answered=len(answers), at_least=effect.at_least, missing=missing
            )
        return {sender: answers[sender] for sender in effect.senders if sender in answers}


def _round_of(message: Message) -> int:
    round_: int = getattr(message, "round", NO_ROUND)
    return round_
