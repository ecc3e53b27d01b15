"""The exchange: the rules of the hub that all envelopes pass.

It admits what members send, has it recorded, decides its fate, and gives notice of departures.
Memory transport, TCP switch and local executor differ only in how they carry out its rulings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from protocol.errors import RemoteProtocolError
from protocol.messages import AGGREGATOR, RECORD, SWITCH, Declined, Envelope, Head, Left, PartyId
from protocol.session.charter import Charter
from protocol.session.fates import PASS, Fate, FateRule, Verdict
from protocol.wire.codec import encode_envelope

KEPT_ENCODING = 256
"""The longest encoding, in bytes, that is kept with an envelope that waits to be written.

A report's is kept. A question waits for every party at once, so it is encoded again for each.
"""

STRANGERS = 1000
"""The most refused connections without a name that go on record."""


class Recorder(Protocol):
    """Methods of a transcript's recorder that the exchange needs."""

    def sent(self, envelope: Envelope, *, now: float, encoded: bytes | None = None) -> None:
        """An envelope was accepted from its sender's link."""

    def delivered(self, envelope: Envelope, *, now: float, repeat: bool = False) -> None:
        """An envelope was handed to its recipient's link."""

    def refused(self, link: str, reason: str, excerpt: bytes, *, now: float) -> None:
        """Something was refused."""

    def departed(self, party: PartyId, reason: str, *, now: float) -> None:
        """A member has left."""

    def hindered(self, envelope: Envelope, *, now: float) -> None:
        """The envelope that was accepted last is lost or delayed by its fate."""

    def fault_of_head(self, envelope: Envelope) -> str | None:
        """Fault that a verifier would find with a member's head, were it sent now."""


class Delivery(msgspec.Struct, frozen=True):
    """An envelope to hand to its recipient.

    ``due`` is the earliest time for it, 0 for at once. Deliveries of one sender to one recipient
    never overtake each other. ``encoded`` is the envelope's encoding, if it is at hand.
    """

    envelope: Envelope
    due: float = 0.0
    repeat: bool = False
    encoded: bytes | None = None


class Ruling(msgspec.Struct, frozen=True):
    """Ruling on the first envelopes of a batch, ``taken`` of them.

    All ``deliveries`` are to one recipient and due at one time. ``ends`` says why the sender's
    link ends here, if it does.
    """

    deliveries: Sequence[Delivery] = ()
    ends: str | None = None
    taken: int = 1


_HEAD = Head.kind()
_DECLINED = Declined.kind()
_LAST = (_HEAD, _DECLINED)
# Looking one up in an enum costs as much as all else that is decided about an envelope.
_CRASH, _CUT, _DROP, _DUPLICATE = Verdict.CRASH, Verdict.CUT, Verdict.DROP, Verdict.DUPLICATE


class Exchange:
    """The hub of one session.

    Args:
        charter: the session, variant and roster.
        recorder: where everything is recorded, or None.
        fate: decides per envelope what becomes of it; without it, all are delivered.
    """

    def __init__(
        self,
        charter: Charter,
        *,
        recorder: Recorder | None = None,
        fate: FateRule | None = None,
    ) -> None:
        self.charter = charter
        self.messages = 0
        self.bytes = 0
        self._members = charter.roster.position
        self._serving = frozenset((AGGREGATOR, *charter.roster.services))
        self._recorder = recorder
        self._fate = fate
        self._attached: set[PartyId] = set()
        self._next: dict[PartyId, int] = {}
        self._left: dict[PartyId, str] = {}
        self._peers: dict[PartyId, set[PartyId]] = {}
        self._held: dict[tuple[PartyId, PartyId], float] = {}
        self._declined: set[PartyId] = set()
        self._headed: set[PartyId] = set()
        self._notified: set[tuple[PartyId, PartyId]] = set()
        self._notices = 0
        self._strangers = 0

    @property
    def departed(self) -> Mapping[PartyId, str]:
        """Departed members with the reasons: a live view."""
        return self._left

    @property
    def joined(self) -> int:
        """Number of parties that have been connected at some time."""
        return len(self._next) - sum(name in self._next for name in self._serving)

    def accepted(self, member: PartyId) -> int:
        """Number of accepted envelopes of a member: the number of its next."""
        return self._next.get(member, 0)

    def has_ended(self, member: PartyId) -> bool:
        """Check whether a member has sent its head."""
        return member in self._headed

    def attach(self, member: PartyId) -> None:
        """A member is connected.

        Raises:
            RemoteProtocolError: not on the roster, connected already, or gone for good.
        """
        if member not in self.charter.roster:
            raise RemoteProtocolError(f"{member!r:.80} is not on the roster", field="party")
        if member in self._left:
            raise RemoteProtocolError(f"{member!r} has left this session", field="party")
        if member in self._attached:
            raise RemoteProtocolError(f"{member!r} is connected already", field="party")
        self._attached.add(member)
        self._next.setdefault(member, 0)

    def accept(
        self,
        link: PartyId,
        envelopes: Sequence[Envelope],
        *,
        now: float,
        encoded: Sequence[bytes] | None = None,
        start: int = 0,
        most: int | None = None,
    ) -> Ruling:
        """Take one envelope from a member's link, and those after it that get the same ruling.

        Args:
            link: the member that the link belongs to.
            envelopes: in order.
            encoded: their encodings, if they are at hand.
            start: the place of the first to take.
            most: the most that may be taken, at least one; by default all from ``start`` on.

        Returns:
            What follows, and from how many.

        Raises:
            RemoteProtocolError: the first is refused, and recorded as such; the link should end.
        """
        expected = self._next.get(link)
        if expected is None or link in self._left:
            return Ruling(taken=len(envelopes) - start)
        first = envelopes[start]
        try:
            self._check(link, first, expected)
        except RemoteProtocolError as refusal:
            self.refuse(link, str(refusal), now=now)
            raise
        recipient, fate, stop = first.recipient, PASS, start + 1
        if self._fate is None:
            last = len(envelopes) if most is None else min(len(envelopes), start + most)
            if stop < last and first.kind not in _LAST:
                stop = _alike(envelopes, start, last)
        elif recipient != RECORD:
            fate = self._fate(first)
        if fate.verdict is _CRASH:
            return Ruling(ends="crashed")
        encodings = None if encoded is None else encoded[start:stop]
        deliveries = self._take(envelopes[start:stop], encodings, now)
        self._next[link] = expected + len(deliveries)
        if recipient == RECORD:
            return Ruling(taken=len(deliveries))
        self._acquaint(link, recipient)
        return self._rule(deliveries, fate, now)

    def _take(
        self, envelopes: Sequence[Envelope], encoded: Sequence[bytes] | None, now: float
    ) -> list[Delivery]:
        """Count and record accepted envelopes; they are to be delivered at once."""
        deliveries = []
        for place, envelope in enumerate(envelopes):
            encoding = encode_envelope(envelope) if encoded is None else encoded[place]
            size = len(encoding)
            self.messages += 1
            self.bytes += size
            if self._recorder is not None:
                self._recorder.sent(envelope, now=now, encoded=encoding)
            # Large ones wait in mailboxes by the ten thousand: their bytes are not kept twice.
            at_hand = encoding if size <= KEPT_ENCODING else None
            deliveries.append(Delivery(envelope, 0.0, False, at_hand))
        return deliveries

    def _rule(self, deliveries: list[Delivery], fate: Fate, now: float) -> Ruling:
        """Decide what becomes of accepted envelopes with one sender, recipient and fate."""
        taken, verdict, first = len(deliveries), fate.verdict, deliveries[0].envelope
        sender, recipient = first.sender, first.recipient
        if verdict is _CUT:
            self._hinder(first, now)
            return Ruling(ends="link cut")
        if recipient in self._left:
            # Once is enough: notices must not pile up before a sender that does not read.
            notified = (recipient, sender) in self._notified
            notices = () if notified else (self._notice(recipient, to=sender),)
            return Ruling(notices, taken=taken)
        if verdict is _DROP:
            self._hinder(first, now)
            return Ruling()
        if self._held or fate.delay:
            due = self._due(sender, recipient, now, fate.delay)
            if due > now:
                self._hinder(first, now)
            deliveries = [msgspec.structs.replace(each, due=due) for each in deliveries]
        if verdict is _DUPLICATE:
            deliveries.append(msgspec.structs.replace(deliveries[0], repeat=True))
        return Ruling(deliveries, None, taken)

    def delivered(self, deliveries: Iterable[Delivery], *, now: float) -> None:
        """These have been handed to their recipients' links."""
        if self._recorder is None:
            return
        for delivery in deliveries:
            envelope = delivery.envelope
            if envelope.sender != SWITCH:
                self._recorder.delivered(envelope, now=now, repeat=delivery.repeat)

    def refuse(self, link: str, reason: str, *, now: float) -> None:
        """Record that something was refused from a member's link, or from a stranger.

        Its content stays out of the record, which others read: it may be an honest party's report.
        Strangers cannot fill the record: only the first ``STRANGERS`` of them are written down.
        """
        self._strangers += link == ""
        if self._recorder is not None and (link or self._strangers <= STRANGERS):
            self._recorder.refused(link, reason, b"", now=now)

    def leave(self, member: PartyId, reason: str, *, now: float) -> list[Delivery]:
        """A member is gone for good (or never came).

        Returns:
            Notices to the aggregator, the services and the members that have exchanged messages
            with this one, connected or not yet; to everybody if this one serves.
        """
        if member in self._left or member not in self.charter.roster:
            return []
        self._left[member] = reason
        if self._recorder is not None:
            self._recorder.departed(member, reason, now=now)
        return self._departure_notices(member)

    def recall_sent(self, envelope: Envelope, size: int) -> None:
        """Take an envelope that was accepted before this program was started.

        Args:
            size: of its encoding, in bytes.
        """
        sender, recipient = envelope.sender, envelope.recipient
        self._next[sender] = envelope.seq + 1
        self.messages += 1
        self.bytes += size
        if envelope.kind == _DECLINED:
            self._declined.add(sender)
        if envelope.kind == _HEAD:
            self._headed.add(sender)
        if recipient != RECORD:
            self._acquaint(sender, recipient)

    def recall_delivered(self, recipient: PartyId) -> None:
        """Take a delivery that was made before this program was started."""
        self._next.setdefault(recipient, 0)

    def recall_refused(self, link: str) -> None:
        """Take a refusal that was recorded before this program was started."""
        self._strangers += link == ""

    def recall_left(self, member: PartyId, reason: str) -> None:
        """Take a departure that was recorded before this program was started."""
        self._left[member] = reason

    def reminders(self) -> list[Delivery]:
        """Notices of all departures so far, again, since the record does not say who got them."""
        return [notice for member in self._left for notice in self._departure_notices(member)]

    def _departure_notices(self, member: PartyId) -> list[Delivery]:
        roster = self.charter.roster
        concerned = (
            [name for name, _ in roster.members if name != member]
            if member in self._serving
            else (AGGREGATOR, *roster.services, *sorted(self._peers.pop(member, ())))
        )
        return [self._notice(member, to=other) for other in concerned if other not in self._left]

    def _acquaint(self, one: PartyId, other: PartyId) -> None:
        """Note that one member sent to another; services get notice of everybody anyway."""
        if not self._serving.isdisjoint((one, other)):
            return
        self._peers.setdefault(one, set()).add(other)
        self._peers.setdefault(other, set()).add(one)

    def _check(self, link: PartyId, envelope: Envelope, expected: int) -> None:
        if envelope.session != self.charter.session:
            raise RemoteProtocolError("the envelope is of another session", field="session")
        if envelope.sender != link:
            raise RemoteProtocolError(
                f"{envelope.sender!r:.80}, but the link is {link!r}'s", field="sender"
            )
        if envelope.seq != expected:
            raise RemoteProtocolError(f"{envelope.seq}, expected {expected}", field="seq")
        recipient = envelope.recipient
        if recipient == link or (recipient != RECORD and recipient not in self._members):
            raise RemoteProtocolError(
                f"recipient {recipient!r:.80} is not on the roster", field="recipient"
            )
        self.charter.codec.check_size(envelope.kind, len(envelope.body))
        if link in self._headed:
            raise RemoteProtocolError("an envelope after the sender's head", field="seq")
        if link in self._declined and envelope.kind != _HEAD:
            raise RemoteProtocolError("an envelope other than a head after a refusal", field="seq")
        if envelope.kind == _DECLINED:
            if recipient != AGGREGATOR:
                raise RemoteProtocolError(
                    f"{recipient!r:.80}: a refusal is sent to the aggregator", field="recipient"
                )
            self._declined.add(link)
        if envelope.kind == _HEAD:
            # Nothing goes on record that a verifier would report as a fault of it.
            fault = None if self._recorder is None else self._recorder.fault_of_head(envelope)
            if fault is not None:
                raise RemoteProtocolError(fault, field=_HEAD)
            self._headed.add(link)

    def _hinder(self, envelope: Envelope, now: float) -> None:
        """Record that the envelope accepted last is lost or delayed.

        An aggregator that withholds an envelope cannot pass for a network that loses it.
        """
        if self._recorder is not None:
            self._recorder.hindered(envelope, now=now)

    def _due(self, sender: PartyId, recipient: PartyId, now: float, delay: float) -> float:
        pair = (sender, recipient)
        if delay <= 0.0 and pair not in self._held:
            return 0.0
        due = max(now + delay, self._held.get(pair, 0.0))
        self._held[pair] = due
        return due

    def _notice(self, member: PartyId, *, to: PartyId) -> Delivery:
        (envelope,) = self.charter.codec.enclose(
            Left(member, self._left[member]),
            session=self.charter.session,
            sender=SWITCH,
            recipients=(to,),
            seq=self._notices,
        )
        self._notices += 1
        self._notified.add((member, to))
        return Delivery(envelope, self._held.get((member, to), 0.0))


def _alike(envelopes: Sequence[Envelope], start: int, stop: int) -> int:
    """Place after the envelopes that are accepted if the one at ``start`` is; ``stop`` at most.

    They differ from it only in their numbers, which go on, and in bodies that are not longer.
    """
    first = envelopes[start]
    session, sender, recipient = first.session, first.sender, first.recipient
    kind, longest, offset = first.kind, len(first.body), first.seq - start
    for place in range(start + 1, stop):
        envelope = envelopes[place]
        if (
            envelope.recipient != recipient
            or envelope.seq != offset + place
            or envelope.kind != kind
            or envelope.sender != sender
            or envelope.session != session
            or len(envelope.body) > longest
        ):
            return place
    return stop
