"""Replays a member's role from a record: the same envelopes must lead to the same messages.

It needs no clock. The closings on record say who was counted, and other messages are received in
the order of delivery. If a key or randomness is missing, the messages that a role makes with it
(``Me.disclose``) are taken from the record.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.audit.disclosure import Disclosure, WithheldIdentity, WithheldStream
from protocol.audit.findings import Finding
from protocol.audit.walk import Step
from protocol.errors import RemoteProtocolError, WithheldError
from protocol.messages import (
    AGGREGATOR,
    LINK_CLOSED,
    RECORD,
    Closed,
    Declined,
    Envelope,
    Head,
    Message,
    PartyId,
)
from protocol.session.charter import Charter
from protocol.session.closings import Closings
from protocol.session.machine import Machine
from protocol.session.roles import Gather, Topic, message_topic
from protocol.surveys.limits import UNLIMITED, Held
from protocol.transcript.entries import Delivered, Departed, Sent
from protocol.wire.codec import encode_envelope

TOLERANCE = 1e-12
"""Maximum relative difference of derived floats, since platforms round sums differently."""

DECLINED = "it declined, which may follow from a budget that is not on record"
"""The reason if the messages of a party that may have a budget do not follow."""


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a replay.

    Args:
        member: the member.
        follows: whether the messages that it sent follow from those that it received; None if that
            depends on data that is not on record.
        result: the result that the replayed role published.
        compared: the number of its envelopes that match.
        differences: where it differs.
        tolerated: envelopes that match but for derived floats within ``TOLERANCE``.
        unsaid: the number of further envelopes that it would have sent if its link had not ended.
        why: the data that is not on record, if ``follows`` is None.
        failed: why the role, replayed, ends without a result; empty if it has one.
    """

    member: PartyId
    follows: bool | None
    result: Message | None = None
    compared: int = 0
    differences: tuple[Finding, ...] = ()
    tolerated: tuple[Finding, ...] = ()
    unsaid: int = 0
    why: str = ""
    failed: str = ""


class ReplayWriter:
    """Replays members in one pass over a transcript's steps.

    A delivered envelope is kept until the role receives it, so memory is that of the live roles.

    Args:
        charter: the survey.
        disclosed: the members' keys and records, as far as known.
        held: limits the memory that a file from anybody can take.
    """

    def __init__(
        self, charter: Charter, disclosed: Iterable[Disclosure], held: Held = UNLIMITED
    ) -> None:
        self._roster = charter.roster
        self._roles = {known.member: _Role(charter, known, held) for known in disclosed}
        self._departed: dict[PartyId, str] = {}

    def add(self, step: Step) -> None:
        """Take the next step, as ``Fold.add``."""
        entry, envelope = step.entry, step.envelope
        match entry:
            case Sent() if envelope is not None:
                role = self._roles.get(envelope.sender)
                # A head is checked by its signature, and needs no replay.
                if role is not None and envelope.kind != Head.kind():
                    role.said(step, envelope, self._departed)
            case Delivered() if envelope is not None:
                role = self._roles.get(entry.recipient)
                if role is not None and role.listens:
                    role.heard(step, envelope)
            case Departed() if entry.party in self._roster:
                # One string is kept of thousands that are equal.
                reason = LINK_CLOSED if entry.reason == LINK_CLOSED else entry.reason
                self._departed[self._roster.own(entry.party)] = reason

    def replays(self) -> dict[PartyId, Replay]:
        """Results of the replays; nothing can be added any more."""
        return {name: role.replay(self._departed) for name, role in self._roles.items()}


_HEARD_OVERHEAD = 384
"""The bytes of a waiting envelope, without its body and the strings that it does not share."""


class _Heard(NamedTuple):
    """A delivered envelope, its entry's number, and its topic; None if it is malformed.

    There may be one of every party, and it takes less memory than the envelope would.
    """

    number: int
    topic: Topic | None
    session: bytes
    sender: PartyId
    recipient: PartyId
    seq: int
    kind: str
    body: bytes

    def envelope(self, seq: int) -> Envelope:
        """The envelope with another number."""
        return Envelope(self.session, self.sender, self.recipient, seq, self.kind, self.body)


class _Role:
    """Replay of one member: its machine must send each of its envelopes on record."""

    def __init__(self, charter: Charter, known: Disclosure, held: Held) -> None:
        self._charter = charter
        self._known = known
        self._held = held
        self._machine: Machine | None = None
        self._heard: dict[PartyId, list[_Heard]] = {}
        # Values that most envelopes have in common are kept once.
        common = (charter.session, known.member, *charter.codec.names)
        self._shared: dict[Any, Any] = {value: value for value in common}
        self._last_topic: Topic | None = None
        self._resent: deque[Envelope] = deque()
        self._given = 0
        self._compared = 0
        self._extra: list[int] = []
        self._extras = 0
        self._differences: list[Finding] = []
        self._tolerated: list[Finding] = []
        self._unknown = ""
        # A closing on record may come in several ranges, kept here until the last.
        self._ranges: list[tuple[int, Envelope]] = []
        self._merging = Closings(len(charter.roster))
        self._closing: Closed | str = ""

    def heard(self, step: Step, envelope: Envelope) -> None:
        """Keep a delivered envelope."""
        topic = None if step.message is None else message_topic(step.message)
        if topic != self._last_topic:
            self._last_topic = topic
        shared, roster = self._shared, self._charter.roster
        session, sender, recipient, seq, kind, body = msgspec.structs.astuple(envelope)
        heard = _Heard(
            step.number,
            self._last_topic,
            shared.get(session, session),
            roster.own(sender) if sender in roster else sender,
            shared.get(recipient, recipient),
            seq,
            shared.get(kind, kind),
            body,
        )
        self._held.take(len(body), overhead=self._overhead(heard))
        self._heard.setdefault(heard.sender, []).append(heard)

    def _overhead(self, heard: _Heard) -> int:
        """Bytes that a waiting envelope takes, without its body."""
        fields = heard.session, heard.recipient, heard.kind
        own = [field for field in fields if field not in self._shared]
        if heard.sender not in self._charter.roster:
            own.append(heard.sender)
        return _HEARD_OVERHEAD + sum(map(sys.getsizeof, own))

    @property
    def listens(self) -> bool:
        """True if messages that it receives may still matter."""
        finished = self._machine is not None and self._machine.finished
        return not (self._over or finished)

    def said(self, step: Step, recorded: Envelope, departed: dict[PartyId, str]) -> None:
        """Take an envelope on record: the machine must send it now."""
        if self._unknown == DECLINED and not self._differences and recorded.kind != Head.kind():
            self._differ(
                f"#{recorded.seq}: {recorded.kind!r} was said after it had declined", step.number
            )
        if self._over:
            return
        self._ranges.append((step.number, recorded))
        self._closing = step.malformed or "not all of its ranges are on record"
        if isinstance(step.message, Closed):
            try:
                closed = self._merging.add(step.message)
            except ValueError as error:
                self._closing = str(error)
            else:
                if closed is None:
                    return  # The rest is to come.
                self._closing = closed
        self._follow(departed)

    def _follow(self, departed: dict[PartyId, str]) -> None:
        """Match the envelopes that wait: one, or the ranges of a closing."""
        said, self._ranges = self._ranges, []
        for number, recorded in said:
            if not self._over:
                self._match(number, recorded, departed)

    def _match(self, number: int, recorded: Envelope, departed: dict[PartyId, str]) -> None:
        machine = self._running()
        while not self._resent and self._advance(machine, departed, number, recorded):
            pass
        if self._over:
            return
        if self._resent:
            self._compare(number, self._resent.popleft(), recorded)
        elif self._declines(recorded):
            self._unknown = DECLINED
        elif not machine.finished:
            self._differ(
                f"#{recorded.seq}: {recorded.kind!r} was said before what it follows from "
                "had been delivered",
                number,
            )
        elif isinstance(_cause(machine.failure), WithheldError):
            self._unknown = str(_cause(machine.failure))
        else:
            self._extras += 1
            self._extra = [*self._extra, number][:20]

    def replay(self, departed: dict[PartyId, str]) -> Replay:
        """Result at the end of the record."""
        self._follow(departed)
        machine = self._running()
        while not (self._resent or self._over) and self._advance(machine, departed):
            pass
        # No message of the aggregator may be missing: it keeps the record itself.
        me = self._known.member
        silenced = me != AGGREGATOR and departed.get(me) != LINK_CLOSED
        if self._resent and not silenced and not self._over:
            first = self._resent[0]
            self._differ(f"#{first.seq}: {first.kind!r} follows but is not on record")
        if self._extras and not self._over:
            whose = "the aggregator" if me == AGGREGATOR else me
            text = f"{self._extras} envelopes of {whose} do not follow"
            # If the role failed, the failure is the reason.
            why = text if machine.failure is None else str(machine.failure)
            self._differences.append(Finding(why, tuple(self._extra), me))
        failed = _cause(machine.failure)
        if not self._unknown and isinstance(failed, WithheldError):
            self._unknown = str(failed)
        ended = "" if machine.failure is None else str(machine.failure)
        if not machine.finished:
            machine.abandon("the record has ended")
        follows: bool | None = not self._differences
        if follows and self._unknown:
            follows = None
        return Replay(
            member=me,
            follows=follows,
            result=None if follows is None else machine.result,
            compared=self._compared,
            differences=tuple(self._differences),
            tolerated=tuple(self._tolerated),
            unsaid=len(self._resent) if silenced else 0,
            why=self._unknown if follows is None else "",
            failed="" if follows is None else ended,
        )

    @property
    def _over(self) -> bool:
        """True if nothing more can change the verdict."""
        return bool(self._differences or self._unknown)

    def _differ(self, text: str, number: int | None = None) -> None:
        entries = () if number is None else (number,)
        self._differences.append(Finding(text, entries, self._known.member))

    def _running(self) -> Machine:
        if self._machine is None:
            known = self._known
            self._machine = Machine(
                self._charter,
                known.member,
                known.stream or WithheldStream(),
                records=known.records,
                identity=known.identity or WithheldIdentity(known.member),
            )
            self._machine.start(0.0)
            self._collect_sent(self._machine)
        return self._machine

    def _collect_sent(self, machine: Machine) -> None:
        self._resent += (e for e in machine.take() if e.kind != Head.kind())

    def _advance(
        self,
        machine: Machine,
        departed: dict[PartyId, str],
        number: int | None = None,
        recorded: Envelope | None = None,
    ) -> bool:
        """Give the role what it received next; False if nothing more is on record.

        Args:
            number, recorded: its next envelope on record with the entry's number; None at the end.
        """
        waiting = machine.awaited
        if machine.finished or waiting is None:
            return False
        if waiting.senders == (RECORD,):
            return recorded is not None and self._tell(machine, waiting, recorded)
        # Too much from the aggregator ends a party's role in the middle of any wait.
        declines = recorded is not None and self._declines(recorded)
        if waiting.noted and not declines:
            if not self._close(machine, waiting, number, recorded):
                return False
        elif (given := self._earliest() if declines else self._awaited(waiting)) is not None:
            self._give(machine, given)
        elif waiting.noted:
            return False
        else:
            gone = [name for name in waiting.senders if name in departed]
            # At the record's end departures do not count, as a member need not have noticed them.
            if not gone or recorded is None:
                return False
            for name in gone:
                machine.gone(name, departed[name], 0.0)
        self._collect_sent(machine)
        return True

    def _tell(self, machine: Machine, waiting: Gather, recorded: Envelope) -> bool:
        """Give the role its own message, which it cannot make; False if it is not on record."""
        if (recorded.kind, recorded.recipient) != (waiting.kind.kind(), RECORD):
            return False
        self._given += 1
        told = msgspec.structs.replace(
            recorded, sender=RECORD, recipient=self._known.member, seq=self._given
        )
        machine.receive(told, 0.0)
        self._collect_sent(machine)
        return machine.awaited is not waiting

    def _earliest(self) -> _Heard | None:
        """Take out the first delivered envelope that the role has not been given."""
        waiting = [heard for heard in self._heard.values() if heard]
        first = min(waiting, key=lambda heard: heard[0].number, default=None)
        return None if first is None else first.pop(0)

    def _awaited(self, waiting: Gather) -> _Heard | None:
        """Take out the first delivered envelope that the role waits for; others stay."""
        topic = waiting.topic
        queues = (self._heard.get(sender, []) for sender in waiting.senders)
        return next((e for queue in queues if (e := _find(topic, queue)) is not None), None)

    def _close(
        self, machine: Machine, waiting: Gather, number: int | None, recorded: Envelope | None
    ) -> bool:
        """Give the role the envelopes that a closing on record counts; False if there is none."""
        if recorded is None and self._known.member != AGGREGATOR:
            return False
        try:
            if recorded is None or recorded.kind != Closed.kind():
                raise RemoteProtocolError("not on record")
            counted = self._counted(waiting)
        except (RemoteProtocolError, ValueError) as error:
            self._differ(f"closing of {waiting.kind.kind()!r}: {error}", number)
            return False
        given = {self._give(machine, heard): heard for heard in counted}
        if machine.awaited is waiting:
            machine.close_gather(0.0)
        for kept in machine.kept:
            if kept.seq in given:
                text = f"{kept.sender} #{given[kept.seq].seq}: {kept.reason}"
                self._differ(text, number)
                return False
        return True

    def _give(self, machine: Machine, heard: _Heard) -> int:
        """Give the role an envelope, with a new number, since counted ones come first."""
        self._held.drop(len(heard.body), overhead=self._overhead(heard))
        self._given += 1
        machine.receive(heard.envelope(self._given), 0.0)
        return self._given

    def _counted(self, waiting: Gather) -> list[_Heard]:
        """The envelopes that the open gather counted, by the record.

        Raises:
            RemoteProtocolError, ValueError: the closing is another, or counts an envelope that was
                not delivered.
        """
        closed = self._closing
        if isinstance(closed, str):
            raise RemoteProtocolError(closed)
        topic = waiting.topic
        if (closed.of, closed.round) != topic:
            raise RemoteProtocolError("the record has another closing here")
        found = []
        for sender in self._charter.roster.members_in(closed.counted):
            heard = _find(topic, self._heard.get(sender, []))
            if heard is None:
                raise RemoteProtocolError(
                    f"{sender} is counted, but no message of this kind from it was delivered"
                )
            found.append(heard)
        return found

    def _compare(self, number: int, spoken: Envelope, recorded: Envelope) -> None:
        if encode_envelope(recorded) == encode_envelope(spoken):
            self._compared += 1
            return
        where = f"#{recorded.seq}"
        if self._declines(recorded):
            self._unknown = DECLINED
            return
        if recorded.kind == spoken.kind and self._differs_by_rounding(recorded, spoken):
            self._compared += 1
            text = f"{where}: {spoken.kind!r} has floats that differ by less than {TOLERANCE:g}"
            self._tolerated.append(Finding(text, (number,), self._known.member))
            return
        what = "another" if recorded.kind == spoken.kind else f"{recorded.kind!r} instead of"
        self._differ(
            f"{where}: the record has {what} {spoken.kind!r}, "
            "which does not follow from what was delivered",
            number,
        )

    def _declines(self, recorded: Envelope) -> bool:
        """Check whether an envelope is a refusal to the aggregator, which a budget may explain."""
        return (recorded.kind, recorded.recipient) == (Declined.kind(), AGGREGATOR)

    def _differs_by_rounding(self, one: Envelope, other: Envelope) -> bool:
        """Check whether two envelopes differ in the last places of derived floats alone."""
        if msgspec.structs.replace(one, body=other.body) != other:
            return False
        decode = self._charter.codec.decode
        try:
            return _alike(decode(one.kind, one.body), decode(other.kind, other.body))
        except RemoteProtocolError:
            return False


def _find(topic: Topic, heard: list[_Heard]) -> _Heard | None:
    """Take out the first envelope of a topic; None if there is none."""
    # Malformed ones have no topic: the machine kept them away from the role.
    found = next((i for i, each in enumerate(heard) if each.topic == topic), None)
    return None if found is None else heard.pop(found)


def _alike(one: object, other: object) -> bool:
    """Equality, up to ``TOLERANCE`` for floats and for probabilities in units of 2**-64."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        # A count is never so large that the tolerance would reach the next one.
        if one.dtype.kind != "f" and one.dtype != np.uint64:
            return bool(np.array_equal(one, other))
        return _near(one.astype(np.float64), other.astype(np.float64))
    if isinstance(one, float) and isinstance(other, float):
        return _near(np.array([one]), np.array([other]))
    if isinstance(one, msgspec.Struct):
        fields = one.__struct_fields__
        return all(_alike(getattr(one, name), getattr(other, name)) for name in fields)
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return one == other


def _near(one: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """True if no two numbers differ by more than the tolerance of the largest number."""
    # Where large numbers cancel, the rest has their rounding error.
    scale = float(np.abs(other).max(initial=0.0))
    return bool((np.abs(one - other) <= TOLERANCE * scale).all())


def _cause(error: BaseException | None) -> BaseException | None:
    while error is not None and error.__cause__ is not None:
        error = error.__cause__
    return error
