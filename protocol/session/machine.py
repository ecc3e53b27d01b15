"""The machine: runs one role by its effects. Time goes in as a number.

Rules
1. A message that the role does not await yet is kept for it: one per (kind, round, sender).
2. Late, repeated, unexpected and malformed messages are kept with the reason, away from the role.
   No message of the aggregator is dropped for want of room: a party's role ends first.
3. A role that raises, or awaits anything but an effect, ends as a ``LocalProtocolError``.
4. The same stream and the same received envelopes give the same messages.
5. A party with a key ends with a signed head, unless its role failed. The head is over all that it
   has sent and all that its waits have returned.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from types import FrameType
from typing import Any

from protocol.accounting.accountants import Loss
from protocol.accounting.events import Derived, Public
from protocol.accounting.spending import DELTA, Cost, Spending
from protocol.crypto.merkle import Tree
from protocol.crypto.randomness import Stream
from protocol.errors import (
    LocalProtocolError,
    PrivacyError,
    ProtocolError,
    QuorumError,
    RemoteProtocolError,
    WithheldError,
)
from protocol.messages import (
    AGGREGATOR,
    RECORD,
    SWITCH,
    Declined,
    Envelope,
    Head,
    Message,
    PartyId,
    Wait,
)
from protocol.session.charter import Charter
from protocol.session.closings import make_closings
from protocol.session.heads import Heard, SaidHead, sign_head
from protocol.session.inbox import Inbox, Kept, Waiting
from protocol.session.roles import Boxes, Gather, Me, Seen, Send
from protocol.session.roster import Identity
from protocol.session.variant import heeded, message_event
from protocol.surveys.records import Records
from protocol.wire.codec import encode_envelope

_HEAD = Head.kind()


class Machine:
    """One member's role, run without I/O.

    Call ``start`` and send what ``take`` returns. Then call ``receive``, ``gone`` or ``expire`` as
    things happen, and ``take`` after each, until ``finished``.

    Args:
        charter: the session, variant and roster.
        me: this member; its place on the roster says which role it runs.
        stream: this member's randomness.
        records: a party's records; None for the aggregator and services.
        identity: this member's key, for roles that sign or seal, and for a party's head.
        budget: the most that this party will spend per respondent, in nats of pure epsilon. With
            ``honest``, in the figures that it consents to.
        withstand: the fewest colluders that a secure sum must withstand (``SecureSum.withstands``).
            This party takes part in no other.
        honest: the fewest honest parties, itself included, that a secure sum must promise
            (``SecureSum.promised``). This party then consents to figures that rest on so many,
            where no figure holds against any coalition. 0 for neither.
        delta: the most delta that it will spend in such figures (``Spending``).
        instead: a party's role; None for that of the variant.

    Attributes:
        head: the head that a party has ended with; None before that, or without a key.
        boxes: the boxes that it seals and opens.
    """

    def __init__(
        self,
        charter: Charter,
        me: PartyId,
        stream: Stream,
        *,
        records: Records | None = None,
        identity: Identity | None = None,
        budget: float | None = None,
        withstand: int = 0,
        honest: int = 0,
        delta: float = DELTA,
        instead: Callable[[Me, Records], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self.charter = charter
        self.me = me
        self.result: Message | None = None
        self.failure: ProtocolError | None = None
        self.finished = False
        self._records = records
        self._instead = instead or charter.variant.party
        # The role's objects do not refer to the machine: a cycle would be kept until collected.
        self._spending = Spending(charter.accountant, budget=budget, honest=honest, delta=delta)
        self._seen = Seen()
        self._notices: list[str] = []
        self._reports: tuple[int, ...] = ()
        self._seq = 0
        self._rounds = 0
        self._outbox: list[Envelope] = []
        # The recorder's checkpoints sign the aggregator's messages.
        self._identity = identity if me != AGGREGATOR else None
        serves = charter.roster.serves(me)
        whole = serves or charter.variant.whole_roster
        self._roster = charter.roster if whole else charter.roster.known_to(me)
        self.boxes = Boxes(charter.session, self._roster, identity, stream)
        signed = self._identity is not None
        self._inbox = Inbox(charter, self._roster, me, signed=signed, boxes=self.boxes)
        self._said = Tree()
        self._heard = Heard()
        self.head: SaidHead | None = None
        self._side = Me(
            me,
            self._roster,
            stream,
            session=charter.session,
            identity=identity,
            boxes=self.boxes,
            codec=charter.codec,
            afford=self._spending.afford,
            notice=self._notices.append,
            withstand=withstand,
            honest=honest,
        )
        self._role: Coroutine[Any, Any, Any] | None = None
        if budget is not None and not budget >= 0.0:
            raise LocalProtocolError(f"a budget of {budget}: expected at least 0", party=me)
        if not 0 <= delta < 1:
            raise LocalProtocolError(f"a delta of {delta}: expected at least 0, below 1", party=me)
        if serves != (records is None):
            raise LocalProtocolError("a party's machine needs records, and no other", party=me)

    def __repr__(self) -> str:
        state = "finished" if self.finished else f"round {self._rounds}"
        return f"Machine({self.me!r}, {state})"

    @property
    def role(self) -> str:
        """``aggregator``, ``party``, or the role of a service."""
        return self._roster.role(self.me)

    @property
    def deadline(self) -> float | None:
        """Time to call ``expire``, in the seconds of ``now``; None while nothing is timed."""
        return self._inbox.waiting.deadline if self._inbox.waiting else None

    @property
    def spent(self) -> Loss:
        """Cost of this party's messages to each of its respondents, against any coalition."""
        return self._spending.loss

    @property
    def cost(self) -> Cost:
        """The same cost in the figures that this party consents to, which its budget limits."""
        return self._spending.cost

    @property
    def notices(self) -> tuple[str, ...]:
        """Private notices of the role to its own member.

        They may depend on the records: even their number can reveal an answer.
        """
        return tuple(self._notices)

    @property
    def reports(self) -> tuple[int, ...]:
        """Numbers (``seq``) of the messages to the aggregator that may depend on the records.

        Messages that are public or derived from received ones are not among them.
        """
        return self._reports

    @property
    def signed(self) -> tuple[tuple[bytes, bytes], ...]:
        """Statements that the role has signed, with the signatures; the head is not among them."""
        return self._side.signed

    @property
    def departed(self) -> Mapping[PartyId, str]:
        """Departed members that are known, with the reasons."""
        return self._inbox.gone

    @property
    def awaited(self) -> Gather | None:
        """Gather that the role waits for; None if it does not wait."""
        return self._inbox.waiting.effect if self._inbox.waiting else None

    @property
    def asks(self) -> Gather | None:
        """The message that the role waits for from outside (``Me.obtain``): ``tell`` gives it."""
        awaited = self.awaited
        return awaited if awaited is not None and awaited.about else None

    @property
    def answered(self) -> int:
        """Number of senders that have answered the open wait; 0 if the role does not wait."""
        return len(self._inbox.waiting.answers) if self._inbox.waiting else 0

    @property
    def seen(self) -> Seen:
        """Messages that the role has taken so far, of the kinds that its variant heeds."""
        return self._seen

    @property
    def waits(self) -> tuple[Wait, ...]:
        """The waits that have returned, as the head lists them; empty without a head."""
        return self._heard.waits()

    @property
    def kept(self) -> list[Kept]:
        """The first messages that never reached the role, with the reason."""
        return self._inbox.kept

    def take(self) -> list[Envelope]:
        """Take the envelopes to be sent now, in order; each is returned once."""
        outbox, self._outbox = self._outbox, []
        return outbox

    def start(self, now: float) -> None:
        """Run the role up to its first wait."""
        if self.finished:
            return  # Too many messages came before the start.
        variant = self.charter.variant
        if self.me == AGGREGATOR:
            self._role = variant.aggregator(self._side, self.charter.roster.parties)
        elif self._records is None:
            self._role = getattr(variant, self.role)(self._side)
        else:
            self._role = self._instead(self._side, self._records)
        self._resume(None, now)

    def receive(self, envelope: Envelope, now: float) -> None:
        """Take an envelope from the link. It never raises."""
        sender, inbox = envelope.sender, self._inbox
        if sender == SWITCH:
            left = inbox.notice(envelope)
            if left is not None:
                self.gone(left.party, left.reason, now)
            return
        try:
            message = inbox.admit(envelope, over=self.finished)
        except WithheldError as error:
            self._stop_role()
            self._end(self._local(str(error), error))
            return
        if isinstance(message, Declined):
            self.gone(sender, f"declined: {message.reason}", now)
        elif message is not None:
            try:
                inbox.accept(envelope, message)
            except RemoteProtocolError as flood:
                self._stop_role()
                self._end(flood)
                return
            self._close_if_complete(now)

    def gone(self, party: PartyId, reason: str, now: float) -> None:
        """Note that a member has left, after all that it sent was received."""
        self._inbox.gone.setdefault(party, reason)
        waiting = self._inbox.waiting
        if waiting is not None:
            waiting.pending.discard(party)
            self._close_if_complete(now)

    def prolong(self, until: float) -> None:
        """Extend the open wait, if it is timed, at least until this time."""
        waiting = self._inbox.waiting
        if waiting is not None and waiting.deadline is not None:
            waiting.deadline = max(waiting.deadline, until)

    def expire(self, now: float) -> None:
        """End the open gather with the messages received so far, if its deadline is over."""
        deadline = self.deadline
        if deadline is not None and now >= deadline:
            self.close_gather(now)

    def tell(self, message: Message | None, now: float) -> None:
        """Answer the role's question to the outside (``asks``); None if nobody can."""
        waiting = self._inbox.waiting
        if waiting is None or self.asks is None:
            return
        if message is not None:
            waiting.answers[RECORD] = message
        waiting.pending.discard(RECORD)
        self._close_if_complete(now)

    def close_gather(self, now: float) -> None:
        """End the open gather, if there is one, with the messages received so far."""
        if self._inbox.waiting is not None:
            self._resume(self._outcome(self._inbox.waiting), now)

    def abandon(self, reason: str) -> None:
        """End the role from outside: its link or its session has ended too early."""
        lost = ProtocolError(f"{self.role} {self.me!r}: {reason}")
        if not self.finished:
            self._stop_role()
            self._end(lost)
        elif self.failure is None:
            # The role had ended, but its last messages were not received.
            self.failure = lost

    def _close_if_complete(self, now: float) -> None:
        waiting = self._inbox.waiting
        if waiting is not None and not waiting.pending:
            self._resume(self._outcome(waiting), now)

    def _resume(self, outcome: object, now: float) -> None:
        """Run the role until it waits or ends; ``outcome`` is the result of its last effect."""
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
                self._end(self._local(_shown(error), error))
                return
            try:
                if isinstance(effect, Send):
                    self._post(effect)
                    outcome = None
                elif isinstance(effect, Gather):
                    waiting = self._inbox.open(effect, now)
                    if waiting.pending:
                        return
                    outcome = self._outcome(waiting)
                else:
                    raise LocalProtocolError(
                        f"awaited {type(effect).__name__!r}; expected Send or Gather"
                    )
            except PrivacyError as error:
                outcome = error
            except Exception as error:
                failure = self._local(_shown(error), error)
                self._stop_role()
                self._end(failure)
                return

    def _stop_role(self) -> None:
        if self._role is not None:
            # A role that awaits or raises while it is closed is at fault, but it is over anyway.
            with contextlib.suppress(Exception):
                self._role.close()

    def _local(self, message: str, cause: BaseException | None) -> LocalProtocolError:
        frames = [*_waiting_frames(self._role)]
        if cause is not None:
            frames += traceback.walk_tb(cause.__traceback__)
        line = _line_in(type(self.charter.variant), frames)
        error = LocalProtocolError(
            message, party=self.me, role=self.role, round=self._rounds, line=line
        )
        error.__cause__ = cause
        return error

    def _finish(self, value: object) -> None:
        if value is not None:
            if not isinstance(value, Message):
                self._end(self._local(f"returned {type(value).__name__!r}, not a message", None))
                return
            if self.me != AGGREGATOR:
                why = (
                    f"returned {value.kind()!r}: the aggregator alone publishes; send it what is "
                    "to be published"
                )
                self._end(self._local(why, None))
                return
            try:
                self._post(Send((RECORD,), value))
            except Exception as error:
                self._end(self._local(_shown(error), error))
                return
        self.result = value
        self._end(None)

    def _end(self, failure: ProtocolError | None) -> None:
        self.finished = True
        self.failure = failure
        self._inbox.close()
        if self.me == AGGREGATOR:
            return
        refuses = isinstance(failure, PrivacyError | RemoteProtocolError)
        if refuses:
            about_terms = isinstance(failure, PrivacyError)
            self._post(Send((AGGREGATOR,), Declined("terms" if about_terms else "message")))
        if refuses or failure is None:
            self._sign()

    def _sign(self) -> None:
        if self._identity is None:
            return
        session = self.charter.session
        try:
            head = sign_head(self._identity, session=session, said=self._said, heard=self._heard)
            said = self._said.root()
            self._post(Send((RECORD,), head))
            heard = self._heard.tree.root()
            self.head = SaidHead(self._outbox[-1], head.signature, said, heard)
        except LocalProtocolError as error:
            # The key does not sign, or a head has no room for all that the party has received.
            self.failure = self.failure or self._local(str(error), error)

    def _post(self, send: Send) -> None:
        charter = self.charter
        recipients = send.recipients
        for recipient in recipients:
            if recipient == self.me or (recipient != RECORD and recipient not in self._roster):
                raise LocalProtocolError(
                    f"recipient {recipient!r} is not another member of the roster"
                )
            if recipient == RECORD and send.message.sealed:
                raise LocalProtocolError(
                    f"{send.message.kind()!r} is sealed: nobody reads it in the record"
                )
        kind = send.message.kind()
        if self._records is not None:
            for seq, recipient in enumerate(recipients, self._seq):
                event = message_event(charter.variant, send.message, self._seen, recipient)
                self._spending.charge(event, kind)
                if recipient == AGGREGATOR and not isinstance(event, Public | Derived):
                    self._reports += (seq,)
        envelopes = charter.codec.enclose(
            send.message,
            session=charter.session,
            sender=self.me,
            recipients=recipients,
            seq=self._seq,
            seal=self.boxes.seal,
        )
        self._outbox += envelopes
        self._seq += len(recipients)
        # A head is over the messages before it.
        if self._identity is not None and kind != _HEAD:
            for envelope in envelopes:
                self._said.append(encode_envelope(envelope))

    def _outcome(self, waiting: Waiting) -> dict[PartyId, Message] | QuorumError:
        """Close the open gather: its answers, or the error that there are too few."""
        self._inbox.waiting = None
        self._rounds += 1
        effect, answers = waiting.effect, waiting.answers
        kind, round_ = waiting.topic
        if self._identity is not None:
            places = self._roster.position
            heard = sorted((places[name], *slot) for name, slot in waiting.heard.items())
            self._heard.add(self._seq, kind, round_, heard)
        returned = {name: answers[name] for name in effect.senders if name in answers}
        # Only parties are charged. What an aggregator receives would fill the memory.
        if self._records is not None and heeded(self.charter.variant, effect.kind):
            for sender, message in returned.items():
                self._seen.add(sender, message)
        if effect.noted:
            bitmap = self._roster.bitmap
            awaited, counted = bitmap(effect.senders), bitmap(answers)
            for closed in make_closings(waiting.topic, awaited=awaited, counted=counted):
                self._post(Send((RECORD,), closed))
        if len(answers) < effect.at_least:
            missing = [sender for sender in effect.senders if sender not in answers]
            return QuorumError(
                kind=kind, answered=len(answers), at_least=effect.at_least, missing=missing
            )
        return returned


def _waiting_frames(role: object) -> Iterator[tuple[FrameType, int]]:
    """The frames of a role that waits, the outermost first, each with its line."""
    while (frame := getattr(role, "cr_frame", None)) is not None:
        yield frame, frame.f_lineno
        role = getattr(role, "cr_await", None)


def _line_in(variant: type, frames: Iterable[tuple[FrameType, int]]) -> str | None:
    """``FILE:LINE`` of the innermost frame in the module of a variant's class, or of a base."""
    lines = {
        frame.f_globals.get("__name__"): f"{frame.f_code.co_filename}:{line}"
        for frame, line in frames
    }
    return next((lines[one.__module__] for one in variant.__mro__ if one.__module__ in lines), None)


def _shown(error: Exception) -> str:
    return str(error) if isinstance(error, ProtocolError) else f"{type(error).__name__}: {error}"
