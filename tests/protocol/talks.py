"""Ways to run one machine by hand, for the tests of the machine; no tests."""

from __future__ import annotations

from protocol import AGGREGATOR, Me, Message, PartyId, PrivacyEvent
from protocol.session.machine import Machine
from tests.protocol.sessions import Role, Word, charter_of, envelope, machine_of, talk, words_sent

ONE, TWO, THREE = (PartyId(f"party-{i}") for i in (1, 2, 3))
ALL = (ONE, TWO, THREE)


def aggregator(role: Role) -> Machine:
    """An aggregator's machine, not started."""
    return machine_of(charter_of(talk(aggregator=role)), AGGREGATOR)


def party(role: Role, *, event: PrivacyEvent | None = None, budget: float | None = None) -> Machine:
    """The machine of party-1, not started."""
    return machine_of(charter_of(talk(party=role, event=event)), ONE, budget=budget)


def started(machine: Machine, now: float = 0.0) -> Machine:
    machine.start(now)
    return machine


def hear(
    machine: Machine, sender: str, message: Message, *, seq: int = 0, now: float = 0.0
) -> None:
    machine.receive(envelope(machine.charter, sender, seq, message, to=machine.me), now)


def said(machine: Machine) -> list[tuple[PartyId, Message]]:
    """Recipient and message of what is in the outbox."""
    decode = machine.charter.codec.decode
    return [(e.recipient, decode(e.kind, e.body)) for e in words_sent(machine)]


def reasons(machine: Machine) -> list[str]:
    return [kept.reason for kept in machine.kept]


async def collect(me: Me) -> Message:
    """Gather a word of each, and publish them."""
    words = await me.gather(Word, ALL, within=10.0)
    return Word(" ".join(f"{sender}={word.text}" for sender, word in words.items()))
