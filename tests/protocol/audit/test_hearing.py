"""What reached a party's role: its machine and the ledger go by the same, whatever is sent."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol import (
    AGGREGATOR,
    Block,
    KeepUniform,
    Me,
    Message,
    PartyId,
    QuorumError,
    RemoteProtocolError,
    SecureSum,
)
from protocol.audit.hearing import collect_heads
from protocol.audit.ledger import LedgerWriter
from protocol.messages import NO_ROUND, Closed, Declined, Envelope, Head, Left
from protocol.session.exchange import Exchange, Ruling
from protocol.session.roles import EARLY_PER_SENDER
from protocol.sharing.messages import Tagged
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import make_setting
from protocol.transcript.verification import verify
from protocol.variants import RRBA, RRClusters
from protocol.variants.clusters.rr_clusters import Clustered
from protocol.variants.reports.reports import Ask
from protocol.variants.rrba.blocks import steepest
from protocol.variants.rrba.rrba import Question
from tests.protocol.lockstep import Lockstep
from tests.protocol.sessions import Numbers, Turn, Word
from tests.protocol.sharing.test_sums import LITERAL, SPARSE
from tests.protocol.talks import THREE, TWO, hear, party, reasons, said, started
from tests.protocol.variants.clusters.test_rr_clusters import THREEFOLD, dependent
from tests.recorded.runs import SURVEY, answers

FLOOD = EARLY_PER_SENDER + 1


async def speak(me: Me) -> None:
    """Say something that is judged by what has been heard."""
    await me.send(AGGREGATOR, Numbers(np.zeros(0, np.uint16)))


async def patient(me: Me) -> None:
    """Wait for one word of the aggregator, for a while, and for a turn, for ever."""
    with contextlib.suppress(QuorumError):
        await me.receive(Word, AGGREGATOR, within=5.0)
    await speak(me)
    await me.receive(Turn, AGGREGATOR, round=0)
    await speak(me)


def test_a_flood_of_the_aggregator_ends_the_role() -> None:
    both = Lockstep(patient)
    both.flood(AGGREGATOR, EARLY_PER_SENDER)
    both.say(AGGREGATOR, Turn(0, "cheap"))
    both.say(AGGREGATOR, Word("x"))
    both.say(AGGREGATOR, Turn(0, "dear"))
    assert both.machine.finished
    assert isinstance(both.machine.failure, RemoteProtocolError)
    (declined,) = both.said()
    why = f"Turn: the aggregator sent more than {EARLY_PER_SENDER} messages that were not awaited"
    assert declined == Declined("message")
    assert str(both.machine.failure) == why
    assert both.follows() is True


def test_a_flood_before_the_start_ends_the_role() -> None:
    machine = party(patient)
    for i in range(FLOOD):
        hear(machine, AGGREGATOR, Turn(i, "junk"), seq=i)
    assert machine.finished
    started(machine)
    ((recipient, declined),) = said(machine)
    assert recipient == AGGREGATOR
    assert isinstance(declined, Declined)


def test_what_the_aggregator_asks_once_always_has_room() -> None:
    """A flood of one kind takes no room from another."""
    both = Lockstep(patient)
    both.wait()
    both.flood(AGGREGATOR, EARLY_PER_SENDER)
    both.say(AGGREGATOR, Numbers(np.zeros(1, np.uint16)))
    assert not both.machine.finished
    assert both.machine.kept == []


@pytest.mark.parametrize("times", [EARLY_PER_SENDER, FLOOD])
@pytest.mark.parametrize("heeds", [None, (Turn,), (Word,), ()])
def test_what_the_role_never_took_is_not_heard(
    times: int, heeds: tuple[type[Message], ...] | None
) -> None:
    both = Lockstep(patient, heeds=heeds)
    both.say(TWO, Word("a peer's"))
    both.flood(TWO, times)
    both.say(THREE, Turn(0, "another peer's"))
    both.say(AGGREGATOR, Word("x"))
    both.say(AGGREGATOR, Turn(0, "y"))
    assert both.machine.failure is None
    assert both.machine.finished
    word, turn = (AGGREGATOR, Word("x")), (AGGREGATOR, Turn(0, "y"))
    kinds = (Word, Turn) if heeds is None else heeds
    first = [item for item in (word,) if Word in kinds]
    assert both.spent == both.charged == [first, [*first, *([turn] if Turn in kinds else [])]]
    assert both.follows() is True


def test_all_that_the_role_took_is_heard() -> None:
    """Of one peer, too, however much that is."""

    async def follow(me: Me) -> None:
        for round_ in range(FLOOD):
            await me.receive(Turn, TWO, round=round_)
            await speak(me)

    both = Lockstep(follow)
    for round_ in range(FLOOD):
        both.say(TWO, Turn(round_, "x"))
    assert both.machine.failure is None
    assert both.machine.finished
    assert both.spent == both.charged
    assert [len(seen) for seen in both.charged] == [*range(1, FLOOD + 1)]


def test_what_comes_when_a_wait_is_over_is_not_heard() -> None:
    both = Lockstep(patient)
    both.wait()
    both.say(AGGREGATOR, Word("late"))
    both.say(AGGREGATOR, Turn(0, "y"))
    assert both.spent == both.charged == [[], [(AGGREGATOR, Turn(0, "y"))]]


def test_what_was_under_way_when_a_wait_ran_out_is_not_heard() -> None:
    """The record has the delivery before the closing; the party had not read it yet."""
    both = Lockstep(patient)
    late = both.pass_by(AGGREGATOR, Word("late"))
    both.wait()
    both.machine.receive(late, 200.0)
    both.say(AGGREGATOR, Turn(0, "y"))
    assert both.spent == both.charged == [[], [(AGGREGATOR, Turn(0, "y"))]]


def test_who_was_counted_stays_when_others_were_not() -> None:
    async def gather(me: Me) -> None:
        await me.gather(Turn, (TWO, THREE), round=0, within=5.0)
        await me.gather(Turn, (AGGREGATOR,), round=0, within=5.0)
        await me.receive(Word, AGGREGATOR)
        await speak(me)

    both = Lockstep(gather, heeds=(Turn,))
    both.say(TWO, Turn(0, "in time"))
    both.wait()
    both.wait()
    both.say(THREE, Turn(0, "late"))
    both.say(AGGREGATOR, Turn(0, "late too"))
    both.say(AGGREGATOR, Word("x"))
    assert both.spent == both.charged == [[(TWO, Turn(0, "in time"))]]


def test_a_flood_in_a_timed_wait_follows_from_the_record() -> None:
    both = Lockstep(patient)
    both.flood(TWO, 5)
    both.flood(AGGREGATOR, FLOOD)
    assert [type(message) for message in both.said()] == [Declined]
    assert both.follows() is True


def test_kinds_of_the_kernel_are_not_heard() -> None:
    both = Lockstep(patient, heeds=(Word, Turn, Closed, Declined, Left))
    for message in (Closed("Word", NO_ROUND, 0, b"", b""), Declined("terms"), Left(TWO, "x")):
        both.say(AGGREGATOR, message)
        both.say(TWO, message)
    both.say(AGGREGATOR, Word("x"))
    assert both.spent == both.charged == [[(AGGREGATOR, Word("x"))]]
    assert both.machine.departed == {}
    assert {reason.split(":")[0] for reason in reasons(both.machine)} == {"kind"}


def test_a_class_of_the_same_name_is_another_kind() -> None:
    stranger = type("Word", (Message,), {"__annotations__": {"text": str}}, frozen=True)
    both = Lockstep(patient, heeds=(stranger,))
    both.say(AGGREGATOR, Word("x"))
    assert both.spent == both.charged == [[]]


async def early_then_late(me: Me) -> None:
    """Say something after every wait, whatever came of it."""
    for wait in (
        lambda: me.receive(Word, AGGREGATOR, within=5.0),
        lambda: me.gather(Turn, (AGGREGATOR, TWO), round=0, within=5.0),
        lambda: me.gather(Turn, (THREE,), round=0, within=5.0),
        lambda: me.receive(Word, TWO, within=5.0),
        lambda: me.receive(Turn, AGGREGATOR, round=1, within=5.0),
        lambda: me.receive(Turn, AGGREGATOR, round=2),
        lambda: me.gather(Turn, (TWO, THREE), round=1, within=5.0),
    ):
        await speak(me)
        with contextlib.suppress(QuorumError):
            await wait()
    await speak(me)


senders = st.sampled_from((AGGREGATOR, TWO, THREE))
words = st.sampled_from(
    [
        *(Turn(round_, text) for round_ in range(-1, 4) for text in "ab"),
        *(Word(text) for text in "ab"),
        Declined("terms"),
        Left(TWO, "x"),
        Closed("Turn", 0, 0, b"\x0f", b"\x00"),
        ("Turn", b"\xc1"),
        ("Word", b""),
        ("Nothing", b""),
    ]
)
steps = st.one_of(
    st.tuples(st.just("say"), senders, words),
    st.tuples(st.just("again"), senders),
    st.tuples(st.just("elsewhere"), senders, words),
    st.tuples(st.just("flood"), senders, st.integers(60, 70), st.sampled_from((0, 2, 1000))),
    st.tuples(st.just("wait")),
)


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@example([("wait",), ("say", AGGREGATOR, Word("late")), ("wait",)], None)
@example([("flood", AGGREGATOR, 64, 1000), ("say", AGGREGATOR, Turn(1, "a")), ("wait",)], None)
@example([("flood", TWO, 70, 0), ("wait",), ("wait",), ("say", TWO, Turn(1, "a"))], (Turn,))
@example([("say", AGGREGATOR, Declined("terms")), ("wait",)], None)
@given(
    st.lists(steps, max_size=30),
    st.sampled_from([None, (Turn,), (Word,), (Word, Declined), ()]),
)
def test_a_ledger_goes_by_what_the_machine_went_by(
    schedule: Sequence[tuple[Any, ...]], heeds: tuple[type[Message], ...] | None
) -> None:
    both = Lockstep(early_then_late, heeds=heeds)
    spoken = set()
    for what, *arguments in schedule:
        if what == "say":
            both.say(*arguments)
            spoken.add(arguments[0])
        elif what == "elsewhere":
            both.say(*arguments, session=bytes(16))
        elif what == "flood":
            both.flood(*arguments)
        elif what == "again" and arguments[0] in spoken:
            both.again(*arguments)
        elif what == "wait":
            both.wait()
    # Whatever it waits for comes or runs out, so that it ends and signs.
    for _ in range(8):
        both.wait()
    both.say(AGGREGATOR, Turn(2, "the end"))
    both.wait()
    assert both.machine.finished
    assert both.spent == both.charged
    # An exchange would have refused what is of another session; a replay need not reckon with it.
    if all(what != "elsewhere" for what, *_ in schedule):
        assert both.follows() is not False


class Hostile(RRClusters, frozen=True, kw_only=True):
    """An aggregator that hides a cheap question from the parties, and not from the record."""

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Clustered:
        blocks = self.negotiation.pilot
        cheap = tuple(
            Block(block.attributes, KeepUniform.with_keep(block.randomizer.size, p=0.001))
            for block in blocks
        )
        neighbours = len(parties) - 1
        tags = np.zeros((neighbours, 16), np.uint8)
        for number in range(EARLY_PER_SENDER):
            junk = Tagged(1000 + number, np.zeros(neighbours, np.uint8), tags)
            await me.broadcast(parties, junk)
        await me.broadcast(parties, Ask(self.survey.digest, cheap))
        return await super().aggregator(me, parties)


@pytest.mark.parametrize("sums", [SPARSE, LITERAL], ids=["sparse", "literal"])
def test_a_question_hidden_by_a_flood_makes_nothing_cheaper(sums: SecureSum) -> None:
    hostile = Hostile(survey=THREEFOLD, p=0.7, tv=6, td=0.3, dependence="pair-rr", sums=sums)
    rehearsal = Rehearsal(make_setting(hostile, dependent(6), seed=1))
    ledger = rehearsal.ledger(AGGREGATOR)
    for name in rehearsal.charter.roster.parties:
        machine = rehearsal.machine(name)
        machine.start(0.0)
        for item in rehearsal.heard[name]:
            machine.receive(item, 0.0)
        assert machine.spent.record > 6.0
        assert ledger.accounts[name].loss == machine.spent


ADAPTIVE = RRBA(survey=SURVEY, p=0.5, mix=0.3, block=8)


class TwoTables(Exchange):
    """Puts a table on record, and hands out another one that tells more."""

    def accept(self, link: PartyId, envelopes: Sequence[Envelope], **rest: Any) -> Ruling:
        ruling = super().accept(link, envelopes, **rest)
        told = tuple(
            msgspec.structs.replace(each, envelope=self.told(each.envelope))
            for each in ruling.deliveries
        )
        return msgspec.structs.replace(ruling, deliveries=told)

    def told(self, envelope: Envelope) -> Envelope:
        codec = self.charter.codec
        question = codec.decode(envelope.kind, envelope.body)
        if not isinstance(question, Question) or question.over:
            return envelope
        sizes = ADAPTIVE.plan.layout.groups
        steep = [steepest(sizes[group], ADAPTIVE.mix) for group in question.groups.tolist()]
        weights = np.array([weight for table in steep for weight in table], np.uint64)
        other = msgspec.structs.replace(question, weights=weights)
        return msgspec.structs.replace(envelope, body=codec.encode(other))


class Taking(TwoTables):
    """Takes every head as well, whatever is in it."""

    def _check(self, link: PartyId, envelope: Envelope, expected: int) -> None:
        if envelope.kind != Head.kind():
            super()._check(link, envelope, expected)


def test_another_question_than_the_one_on_record_fails_the_head() -> None:
    """The record says that the first table was delivered; the parties have signed for the other."""
    honest, refusing, lying = (
        Rehearsal(make_setting(ADAPTIVE, answers(SURVEY, 8), seed=1), exchange=exchange)
        for exchange in (Exchange, TwoTables, Taking)
    )
    assert verify(honest.content, digest=honest.digest).signed == "all"
    found = verify(lying.content, digest=lying.digest)
    assert [fault.rule for fault in found.faults] == ["head"] * 8
    assert (found.signed, len(found.unsigned)) == ("none", 8)
    # A hub that checks heads has no such record: it refuses them.
    assert verify(refusing.content).faults == ()
    assert verify(refusing.content).signed == "none"
    assert all("has not signed" in ending for ending in refusing.endings.values())
    # Charged the most that they consent to: what they have told, and the record does not show.
    shown, true = (LedgerWriter(lying.charter) for _ in range(2))
    shown.start(collect_heads(lying.entries))
    true.start(found.heads)
    for step in lying.steps:
        shown.add(step)
        true.add(step)
    hub = TwoTables(lying.charter)
    for name in found.unsigned:
        machine = lying.machine(name)
        machine.start(0.0)
        for item in lying.heard[name]:
            machine.receive(hub.told(item), 0.0)
        spent = machine.spent.record
        assert shown.ledger(AGGREGATOR).accounts[name].loss.record < spent
        assert true.ledger(AGGREGATOR).unsigned[name].loss.record >= spent
