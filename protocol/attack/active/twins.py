"""Twins: two machines of the target with equal input that differ in one answer of the record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from protocol.accounting.accountants import PureAccountant
from protocol.accounting.events import (
    Composed,
    ExactCounts,
    Hidden,
    Masked,
    OneOf,
    Plain,
    PrivacyEvent,
    Randomized,
    Sealed,
    layers,
)
from protocol.attack.active.target import Heard, Traced
from protocol.errors import LocalProtocolError, ProtocolError
from protocol.messages import Declined, Envelope, Head
from protocol.session.variant import message_event


class Act(NamedTuple):
    """The acts of a party on one occasion.

    Args:
        said: its messages.
        read: what its attackers read of each message, as ``Study.read``.
        events: the event of each message.
        over: whether its link ends.
        ended: its ending, as of its exit code; empty while it goes on.
    """

    said: tuple[Envelope, ...]
    read: tuple[bytes | None, ...]
    events: tuple[PrivacyEvent | None, ...]
    over: bool
    ended: str

    def words(self, *, seen: bool) -> list[tuple[Envelope, bytes | None, PrivacyEvent | None]]:
        """Envelopes with their content and events: those that attackers read, or all others."""
        every = zip(self.said, self.read, self.events, strict=True)
        return [word for word in every if (word[1] is not None) == seen]


class Conduct(NamedTuple):
    """All acts of a party.

    Args:
        acts: the acts on every occasion.
        places: where its role stood after each of them.
        waits: the kind and round of its waits, and the number of answers.
    """

    acts: tuple[Act, ...]
    places: tuple[tuple[str, ...], ...]
    waits: tuple[tuple[str, int, int], ...]

    @property
    def said(self) -> tuple[Envelope, ...]:
        """All that the party has sent."""
        return tuple(envelope for act in self.acts for envelope in act.said)

    @property
    def behaviour(self) -> tuple[object, ...]:
        """The places of the role and the kinds that it sent, to compare conducts."""
        kinds = tuple(envelope.kind for envelope in self.said)
        ways = tuple(dict.fromkeys(self.places))
        return ways, kinds, self.waits, self.acts[-1].ended if self.acts else ""


def play_conduct(machine: Traced, heard: Sequence[Heard]) -> Conduct:
    """Replace a machine by another with the same input."""
    acts, places = [], []
    for one in heard:
        if one.what == "start":
            machine.start(one.now)
        elif one.what == "receive" and one.envelope is not None:
            machine.receive(one.envelope, one.now)
        elif one.what == "expire":
            machine.expire(one.now)
        else:
            # The session is over, so nobody sees how this party ends.
            break
        said = tuple(machine.take())
        read = tuple(map(machine.read, said))
        events = tuple(_event(machine, envelope) for envelope in said)
        acts.append(Act(said, read, events, machine.finished, _ending(machine)))
        places.append(machine.place)
    waits = tuple((wait.kind, wait.round, len(wait.heard)) for wait in machine.waits)
    return Conduct(tuple(acts), tuple(places), waits)


def _event(machine: Traced, envelope: Envelope) -> PrivacyEvent | None:
    charter = machine.charter
    try:
        message = charter.codec.decode(envelope.kind, envelope.body)
        return message_event(charter.variant, message, machine.seen, envelope.recipient)
    except LocalProtocolError:  # It depends on sealed content, so a ledger charges all attributes.
        return Plain(charter.variant.survey.names)
    except ProtocolError:
        return None


def _ending(machine: Traced) -> str:
    """Ending of a machine, as its program's exit code shows it."""
    if not machine.finished:
        return ""
    return "done" if machine.failure is None else "failed"


class Difference(NamedTuple):
    """Difference of two conducts.

    Args:
        what: the difference, in one line.
        kind: the kind of the message that differs; empty if something else does.
    """

    what: str
    kind: str = ""


class Excuse(NamedTuple):
    """A difference that is charged.

    Args:
        kind: the kind of the message.
        event: its event.
        epsilon: the largest charge for the attribute in which the records differ.
        hidden: whether masks hide it, so that nothing may follow from it.
    """

    kind: str
    event: PrivacyEvent
    epsilon: float
    hidden: bool


class Compared(NamedTuple):
    """Two conducts side by side.

    Args:
        difference: the first difference without an excuse; None if there is none.
        excuses: differences that are charged.
        hidden: whether bytes that masks hide, or that only others read, differ before the
            difference. It may then follow from these bytes, as a party knows its own message again.
    """

    difference: Difference | None
    excuses: tuple[Excuse, ...]
    hidden: bool = False


def compared(
    one: Conduct, other: Conduct, *, attribute: str, charged: float = math.inf
) -> Compared:
    """Compare two conducts, occasion by occasion.

    Everything that others see must be equal. Bytes of one length may differ if their event costs
    something for the attribute. After such bytes in clear, later acts may follow from them, so they
    are not compared. Runs with other streams, in which the bytes are equal, cover them.

    Args:
        attribute: the attribute in which the records differ.
        charged: the whole charge for it.
    """
    accountant, hidden = PureAccountant(), False
    excuses: list[Excuse] = []
    if len(one.acts) != len(other.acts):
        return Compared(Difference("it hears something or not"), ())
    for act, twin in zip(one.acts, other.acts, strict=True):
        different = _act_differs(act, twin)
        seen = zip(act.words(seen=True), twin.words(seen=True), strict=False)
        for (envelope, read, event), (twins, instead, _) in seen:
            if _envelope_differs(envelope, twins) is not None:
                break  # It is what ``different`` says.
            if envelope.body == twins.body or envelope.kind == Head.kind():
                continue
            if read == instead:
                hidden = True
                continue
            masked, cost = False, 0.0
            if event is not None:
                masked = any(isinstance(one, Masked | Hidden) for one in layers(event))
                cost = accountant.judge(event).attributes.get(attribute, 0.0)
            loss = min(cost, charged)
            if event is None or not (cost if masked else loss):
                what = f"the bytes of {envelope.kind} differ, which is charged nothing"
                return Compared(Difference(what, envelope.kind), tuple(excuses), hidden)
            excuses.append(Excuse(envelope.kind, event, loss, masked))
            if not masked:
                return Compared(None, tuple(excuses))
            hidden = True
        if different is not None:
            return Compared(different, tuple(excuses), hidden)
        hidden |= act.words(seen=False) != twin.words(seen=False)
    return Compared(None, tuple(excuses), hidden)


def first_difference(one: Conduct, other: Conduct, *, acts: int) -> Difference | None:
    """Visible difference of the first acts of two conducts, the bytes of messages aside."""
    for act, twin in zip(one.acts[:acts], other.acts[:acts], strict=False):
        found = _act_differs(act, twin)
        if found is not None:
            return found
    return None


def _act_differs(act: Act, twin: Act) -> Difference | None:
    """Visible difference between two acts, except in the bytes of messages."""
    said, beside = ([word[0] for word in one.words(seen=True)] for one in (act, twin))
    kinds, others = ([word.kind for word in words] for words in (said, beside))
    if kinds != others:
        listed, instead = (_listed(names) for names in (kinds, others))
        return Difference(f"it says {listed} with one record and {instead} with the other")
    for envelope, other in zip(said, beside, strict=True):
        found = _envelope_differs(envelope, other)
        if found is not None:
            return found
    if act.over != twin.over:
        return Difference("its link ends with one record and not with the other")
    if act.ended != twin.ended:
        return Difference(f"it ends differently: {act.ended} or {twin.ended}")
    return None


def _envelope_differs(one: Envelope, other: Envelope) -> Difference | None:
    """Visible difference between two envelopes, except in the bytes of messages."""
    kind = one.kind
    if kind != other.kind:
        return Difference(f"it says {kind} with one record and {other.kind} with the other")
    if kind == Declined.kind() and one.body != other.body:
        return Difference("it declines for different reasons", kind)
    if one.recipient != other.recipient:
        return Difference(f"{kind} goes to different members", kind)
    if len(one.body) != len(other.body):
        return Difference(f"the length of {kind} differs", kind)
    return None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"


def described(event: PrivacyEvent) -> str:
    """An event in some words: why bytes may differ."""
    match event:
        case Randomized(randomizer, attributes):
            return f"one draw of {type(randomizer).__name__} on {', '.join(attributes)}"
        case Masked(inner):
            return f"{described(inner)} under masks, of which the sum is told"
        case ExactCounts(attributes):
            return f"exact counts of {', '.join(attributes)}"
        case Plain(attributes):
            return f"the true answers to {', '.join(attributes)}"
        case Sealed(reader, inner):
            return f"{described(inner)}, sealed for {reader}"
        case Hidden(inner):
            return f"{described(inner)}, under masks"
        case Composed(events):
            return " and ".join(dict.fromkeys(map(described, events)))
        case OneOf(events):
            return " or ".join(dict.fromkeys(map(described, events)))
        case _:
            return type(event).__name__
