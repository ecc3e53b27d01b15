"""A party's machine and a ledger, side by side, for the tests of what reached a role; no tests."""

from __future__ import annotations

from typing import Any

import msgspec

from protocol import (
    ArraySpec,
    Bounds,
    Kind,
    Me,
    Message,
    PartyId,
    PrivacyEvent,
    Public,
    Records,
    Seen,
    Variant,
)
from protocol.audit.disclosure import Disclosure
from protocol.audit.hearing import collect_heads
from protocol.audit.ledger import LedgerWriter
from protocol.audit.walk import steps
from protocol.messages import ROLE_STREAM, Envelope
from protocol.transcript.entries import Delivered, Entry, Sent
from protocol.wire.codec import decode_envelope, encode_envelope
from tests.protocol.sessions import (
    STREAMS,
    SURVEY,
    Numbers,
    Role,
    Turn,
    Word,
    answers,
    charter_of,
    envelope,
    identities_of,
    machine_of,
)
from tests.protocol.talks import ONE
from tests.recorded.runs import replay_member

Heard = list[tuple[PartyId, Message]]


class Lockstep:
    """Party-1's machine, and a ledger of all that is said and delivered to it.

    Attributes:
        machine: party-1's.
        spent: what the machine had noted at every ``Numbers`` that it said.
    """

    def __init__(self, role: Role, *, heeds: tuple[type[Message], ...] | None = None) -> None:
        self.spent: list[Heard] = []
        self._charged: list[Heard] = []
        self.machine = machine_of(charter_of(_watched(role, heeds, self.spent)), ONE)
        self.charter = charter_of(_watched(role, heeds, self._charged))
        self.entries: list[Entry] = []
        self._seq: dict[str, int] = {}
        self._now = 0.0
        self.machine.start(0.0)
        self._listen()

    @property
    def charged(self) -> list[Heard]:
        """What a ledger has, by the record and the head in it."""
        ledger, walked = LedgerWriter(self.charter), list(steps(self.charter.codec, self.entries))
        ledger.start(collect_heads(self.entries))
        self._charged.clear()
        for step in walked:
            ledger.add(step)
        assert not any("unknown" in remark for remark in ledger.malformed)
        return list(self._charged)

    def say(self, sender: str, message: Message | tuple[str, bytes], **changes: Any) -> None:
        """Deliver something to party-1; a kind and a body may be malformed."""
        seq = self._seq.get(sender, 0)
        self._seq[sender] = seq + 1
        if isinstance(message, Message):
            item = envelope(self.charter, sender, seq, message, to=ONE)
        else:
            item = Envelope(self.charter.session, PartyId(sender), ONE, seq, *message)
        item = msgspec.structs.replace(item, **changes)
        self.entries.append(Sent(at=0, envelope=encode_envelope(item)))
        self.again(sender, repeat=False)

    def pass_by(self, sender: str, message: Message) -> Envelope:
        """Record a delivery that party-1 has not read yet."""
        item = envelope(self.charter, sender, self._seq.get(sender, 0), message, to=ONE)
        self._seq[sender] = item.seq + 1
        self.entries.append(Sent(at=0, envelope=encode_envelope(item)))
        self._deliver(item, repeat=False)
        return item

    def again(self, sender: str, *, repeat: bool = True) -> None:
        """Deliver the last envelope of a sender, by default as the network's own duplicate."""
        item = next(
            e
            for entry in reversed(self.entries)
            if isinstance(entry, Sent) and (e := decode_envelope(entry.envelope)).sender == sender
        )
        self._deliver(item, repeat=repeat)
        self.machine.receive(item, self._now)
        self._listen()

    def flood(self, sender: str, times: int, first: int = 1000) -> None:
        """Deliver one message of each of so many rounds."""
        for i in range(times):
            self.say(sender, Turn(first + i, "junk"))

    def wait(self) -> None:
        """Let every deadline pass."""
        self._now += 100.0
        self.machine.expire(self._now)
        self._listen()

    def said(self) -> list[Message]:
        """What party-1 has said, but for its head."""
        decode = self.charter.codec.decode
        sent = [
            decode_envelope(entry.envelope) for entry in self.entries if isinstance(entry, Sent)
        ]
        return [decode(e.kind, e.body) for e in sent if e.sender == ONE and e.kind != "Head"]

    def follows(self) -> bool | None:
        """Whether party-1's words follow from the record."""
        known = Disclosure(
            member=ONE,
            stream=STREAMS.stream(ONE, ROLE_STREAM),
            identity=identities_of(self.charter)[ONE],
            records=answers(SURVEY, 1),
        )
        return replay_member(self.charter, known, self.entries).follows

    def _listen(self) -> None:
        for item in self.machine.take():
            self.entries.append(Sent(at=0, envelope=encode_envelope(item)))

    def _deliver(self, item: Envelope, *, repeat: bool) -> None:
        entry = Delivered(at=0, sender=item.sender, recipient=ONE, seq=item.seq, repeat=repeat)
        self.entries.append(entry)


def noted(seen: Seen) -> Heard:
    """All that is in it, with its senders."""
    return [(sender, message) for (sender, _), message in seen._messages.items()]


def _watched(role: Role, heeded: tuple[type[Message], ...] | None, log: list[Heard]) -> Variant:
    class Watched(Variant, frozen=True):
        heeds = heeded
        whole_roster = True

        def kinds(self, parties: int) -> tuple[Kind, ...]:
            values = ArraySpec(dtype="u2", shape=(Bounds(0, 1),))
            return (Kind(Word), Kind(Turn), Kind(Numbers, values=values))

        async def party(self, me: Me, records: Records) -> None:
            await role(me)

        def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
            if isinstance(message, Numbers):
                log.append(noted(seen))
            return Public()

    return Watched(survey=SURVEY)
