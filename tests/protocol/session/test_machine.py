"""The machine: what comes in, what waits, what is kept, and when a gather returns."""

from __future__ import annotations

import weakref
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import (
    AGGREGATOR,
    RECORD,
    Kind,
    Me,
    Message,
    PartyId,
    PrivacyError,
    PrivacyEvent,
    Public,
    QuorumError,
    Records,
    Seen,
    Variant,
)
from protocol.messages import NO_ROUND, SWITCH, Closed, Declined, Envelope, Left
from protocol.session.inbox import KEPT
from protocol.session.machine import Machine
from protocol.session.roles import EARLY_PER_SENDER
from tests.protocol.sessions import SURVEY, Turn, Word, charter_of, envelope, machine_of, talk
from tests.protocol.talks import (
    ALL,
    ONE,
    THREE,
    TWO,
    aggregator,
    collect,
    hear,
    party,
    reasons,
    said,
    started,
)


def test_a_conversation() -> None:
    async def ask(me: Me) -> Message:
        await me.broadcast(ALL, Word("hello"))
        return await collect(me)

    machine = started(aggregator(ask))
    sent = machine.take()
    assert [(e.sender, e.recipient, e.seq, e.kind) for e in sent] == [
        (AGGREGATOR, name, i, "Word") for i, name in enumerate(ALL)
    ]
    assert len({id(e.body) for e in sent}) == 1
    assert machine.take() == []
    for name in (TWO, THREE, ONE):
        assert not machine.finished
        hear(machine, name, Word(name[-1]))
    assert machine.finished
    assert machine.failure is None
    published = Word("party-1=1 party-2=2 party-3=3")
    everyone = machine.charter.roster.bitmap(ALL)
    assert said(machine) == [
        (RECORD, Closed("Word", NO_ROUND, 0, everyone, everyone)),
        (RECORD, published),
    ]
    assert machine.result == published
    assert machine.kept == []


def test_a_machine_that_has_ended_is_freed_with_its_last_user() -> None:
    async def answer(me: Me) -> None:
        me.afford(Public())
        me.notice("answered")
        await me.send(AGGREGATOR, Word("yes"))

    machine = started(party(answer))
    assert machine.finished
    assert machine.failure is None
    gone = weakref.ref(machine)
    del machine
    assert gone() is None


def test_numbers_go_on_whoever_they_go_to() -> None:
    async def speak(me: Me) -> None:
        await me.send(ONE, Word("a"))
        await me.note(Word("b"))
        await me.broadcast((TWO, THREE), Word("c"))

    machine = started(aggregator(speak))
    assert [(e.seq, e.recipient) for e in machine.take()] == [
        (0, ONE),
        (1, RECORD),
        (2, TWO),
        (3, THREE),
    ]
    assert machine.finished
    assert machine.result is None


def test_receiving_one_is_not_on_record() -> None:
    async def listen(me: Me) -> None:
        await me.send(AGGREGATOR, await me.receive(Word, TWO))

    machine = started(party(listen))
    hear(machine, TWO, Word("x"))
    assert said(machine) == [(AGGREGATOR, Word("x"))]


async def three_rounds(me: Me) -> Message:
    """Each round depends on what came in the one before."""
    text = ""
    for round_ in range(3):
        turns = await me.gather(Turn, ALL, round=round_)
        text += "|" + ",".join(turn.text for turn in turns.values())
        await me.broadcast(ALL, Turn(round_, text))
    word = await me.gather(Word, (TWO,))
    return Word(text + word[TWO].text)


@settings(deadline=None, max_examples=60)
@given(order=st.permutations([name for name in ALL for _ in range(4)]))
def test_any_interleaving_gives_the_same_words(order: list[PartyId]) -> None:
    def run(arrivals: list[PartyId]) -> list[Envelope]:
        machine = started(aggregator(three_rounds))
        sent = machine.take()
        counts = dict.fromkeys(ALL, 0)
        for name in arrivals:
            seq = counts[name]
            # The fourth of each comes out of turn: it is awaited last, or never.
            message = Turn(seq, f"{name}{seq}") if seq < 3 else Word(name)
            hear(machine, name, message, seq=seq)
            counts[name] += 1
            sent += machine.take()
        assert machine.finished
        assert len(machine.kept) == 2
        return sent

    assert run(order) == run([name for name in ALL for _ in range(4)])


def test_messages_before_the_start_wait() -> None:
    machine = aggregator(collect)
    for name in ALL:
        hear(machine, name, Word(name[-1]))
    machine.start(0.0)
    assert machine.result == Word("party-1=1 party-2=2 party-3=3")


def test_a_deadline_is_a_number() -> None:
    machine = started(aggregator(collect), now=100.0)
    assert machine.deadline == 110.0
    hear(machine, TWO, Word("b"), now=105.0)
    machine.expire(109.999)
    assert not machine.finished
    assert machine.deadline == 110.0
    machine.expire(110.0)
    assert machine.result == Word("party-2=b")
    assert machine.deadline is None
    closed = said(machine)[0][1]
    bitmap = machine.charter.roster.bitmap
    assert closed == Closed("Word", NO_ROUND, 0, bitmap(ALL), bitmap((TWO,)))


def test_late_repeated_and_unexpected_messages_are_kept() -> None:
    async def then_a_turn(me: Me) -> None:
        await me.gather(Word, (ONE, TWO), within=10.0)
        await me.gather(Turn, (ONE,), round=4)

    machine = started(aggregator(then_a_turn))
    hear(machine, ONE, Word("a"))
    hear(machine, ONE, Word("again"), seq=1)
    machine.expire(10.0)
    hear(machine, TWO, Word("late"))
    hear(machine, THREE, Word("early or unexpected"))
    hear(machine, THREE, Word("twice"), seq=1)
    hear(machine, ONE, Turn(3, "another round"), seq=2)
    hear(machine, ONE, Turn(4, "x"), seq=3)
    assert machine.finished
    hear(machine, ONE, Turn(5, "x"), seq=4)
    assert reasons(machine) == [
        "late or repeated: this sender's answer is no longer awaited",
        "late or repeated: this sender's answer is no longer awaited",
        "repeated: one of this kind and round is waiting already",
        "unexpected: the role never awaited it",
        "unexpected: the role never awaited it",
        "the role has ended",
    ]
    assert [k.sender for k in machine.kept] == [ONE, TWO, THREE, THREE, ONE, ONE]
    assert len(machine.kept) == 6


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"session": bytes(16)}, "session"),
        ({"recipient": TWO}, "recipient"),
        ({"sender": PartyId("nobody")}, "sender"),
        ({"sender": AGGREGATOR}, "sender"),
        ({"sender": RECORD}, "sender"),
        ({"body": b"\xc1"}, "Word"),
        ({"kind": "Nothing"}, "kind"),
        ({"kind": "Closed", "body": msgspec.msgpack.encode(("Word", -1, 0, b"", b""))}, "kind"),
        ({"kind": "Left", "body": msgspec.msgpack.encode(("party-2", "x"))}, "kind"),
    ],
)
def test_what_must_be_refused_is_kept_with_the_reason(change: dict[str, Any], why: str) -> None:
    machine = started(aggregator(collect))
    good = envelope(machine.charter, ONE, 0, Word("x"))
    machine.receive(msgspec.structs.replace(good, **change), 0.0)
    (reason,) = reasons(machine)
    assert reason.startswith(f"{why}:")
    assert machine.departed == {}
    assert not machine.finished
    hear(machine, ONE, Word("x"), seq=1)
    assert len(machine.kept) == 1


def test_numbers_that_were_seen_are_refused() -> None:
    machine = started(aggregator(three_rounds))
    hear(machine, ONE, Turn(0, "x"), seq=5)
    hear(machine, ONE, Turn(1, "x"), seq=5)
    hear(machine, ONE, Turn(1, "x"), seq=4)
    assert reasons(machine) == ["seq: repeated: this number has been seen"] * 2


def test_who_is_gone_is_not_waited_for() -> None:
    machine = started(aggregator(collect))
    hear(machine, ONE, Word("a"))
    machine.gone(TWO, "crashed", 0.0)
    assert not machine.finished
    notice = Left(THREE, "closed its link")
    machine.receive(envelope(machine.charter, SWITCH, 0, notice), 0.0)
    assert machine.result == Word("party-1=a")
    assert machine.departed == {TWO: "crashed", THREE: "closed its link"}


def test_who_left_before_is_not_waited_for_but_what_it_said_counts() -> None:
    machine = aggregator(collect)
    hear(machine, ONE, Word("a"))
    for name in ALL:
        machine.gone(name, "closed its link", 0.0)
    machine.start(0.0)
    assert machine.result == Word("party-1=a")


def test_the_switch_gives_notice_of_departures_only() -> None:
    machine = started(aggregator(collect))
    machine.receive(envelope(machine.charter, SWITCH, 0, Word("x")), 0.0)
    machine.receive(Envelope(machine.charter.session, SWITCH, AGGREGATOR, 1, "Left", b""), 0.0)
    assert len(machine.kept) == 2
    assert machine.departed == {}


def test_too_few_answers_name_who_is_missing() -> None:
    async def quorate(me: Me) -> None:
        await me.gather(Word, ALL, within=5.0, at_least=2)

    machine = started(aggregator(quorate))
    hear(machine, TWO, Word("b"))
    machine.expire(5.0)
    assert isinstance(machine.failure, QuorumError)
    assert machine.failure.missing == (ONE, THREE)
    assert (machine.failure.answered, machine.failure.at_least) == (1, 2)
    assert "party-1, party-3" in str(machine.failure)
    assert [m.kind() for _, m in said(machine)] == ["Closed"]


def test_a_role_may_live_with_too_few() -> None:
    async def content(me: Me) -> Message:
        try:
            await me.receive(Word, ONE, within=1.0)
        except QuorumError as error:
            return Word(error.missing[0])
        return Word("came")

    machine = started(aggregator(content))
    machine.expire(1.0)
    assert machine.result == Word(ONE)


def test_a_refusal_is_a_departure() -> None:
    async def refuse(me: Me) -> None:
        raise PrivacyError("too dear")

    refusing = started(party(refuse))
    ((recipient, declined),) = said(refusing)
    assert recipient == AGGREGATOR
    assert declined == Declined("terms")
    machine = started(aggregator(collect))
    hear(machine, ONE, declined)
    assert machine.departed[ONE] == "declined: it did not agree to what it was asked"
    assert machine.kept == []


def test_an_aggregator_that_refuses_tells_nobody() -> None:
    async def refuse(me: Me) -> None:
        raise PrivacyError("x")

    machine = started(aggregator(refuse))
    assert isinstance(machine.failure, PrivacyError)
    assert machine.take() == []


def test_the_same_envelopes_and_stream_give_the_same_words() -> None:
    async def draw(me: Me) -> None:
        for round_ in range(3):
            turn = await me.receive(Turn, AGGREGATOR, round=round_)
            drawn = me.stream.bytes(8).hex() + me.stream.derive(turn.text).bytes(8).hex()
            await me.send(AGGREGATOR, Turn(round_, drawn))

    def run(machine: Machine, texts: str) -> list[Envelope]:
        machine.start(0.0)
        for seq, text in enumerate(texts):
            hear(machine, AGGREGATOR, Turn(seq, text), seq=seq)
        assert machine.failure is None
        return machine.take()

    charter = charter_of(talk(party=draw))
    one = run(machine_of(charter, ONE), "abc")
    assert run(machine_of(charter, ONE), "abc") == one
    assert run(machine_of(charter, ONE), "abd")[:2] == one[:2]
    assert run(machine_of(charter, ONE), "abd")[2] != one[2]
    assert run(machine_of(charter, TWO), "abc")[0].body != one[0].body


def test_a_sender_cannot_fill_the_memory() -> None:
    machine = started(aggregator(collect))
    flood = EARLY_PER_SENDER + KEPT + 10
    for i in range(flood):
        hear(machine, ONE, Turn(i, "x"), seq=i)
    assert len(machine.kept) == KEPT
    assert set(reasons(machine)) == {"too many messages of this kind and sender are waiting"}
    hear(machine, TWO, Turn(0, "x"))
    assert len(machine.kept) == KEPT
    hear(machine, ONE, Word("a"), seq=flood)
    hear(machine, TWO, Word("b"), seq=1)
    hear(machine, THREE, Word("c"))
    assert machine.result == Word("party-1=a party-2=b party-3=c")


def test_room_for_early_messages_comes_back() -> None:
    rounds = 3 * EARLY_PER_SENDER

    async def follow(me: Me) -> Message:
        for round_ in range(rounds):
            await me.gather(Turn, (ONE,), round=round_)
        return Word("done")

    machine = started(aggregator(follow))
    for seq in range(rounds):
        # Each pair of rounds comes in reverse, so every other message waits for its turn.
        hear(machine, ONE, Turn(seq ^ 1, "x"), seq=seq)
    assert machine.result == Word("done")
    assert machine.kept == []


def test_a_party_is_judged_by_the_message_that_it_acted_on() -> None:
    judged: list[str] = []

    class Watched(Variant, frozen=True):
        def kinds(self, parties: int) -> tuple[Kind, ...]:
            return (Kind(Word),)

        async def party(self, me: Me, records: Records) -> None:
            await me.send(AGGREGATOR, await me.receive(Word, AGGREGATOR))

        def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
            question = seen.get(Word, AGGREGATOR)
            assert question is not None
            judged.append(question.text)
            return Public()

    machine = machine_of(charter_of(Watched(survey=SURVEY)), ONE)
    hear(machine, AGGREGATOR, Word("first"))
    hear(machine, AGGREGATOR, Word("second"), seq=1)
    machine.start(0.0)
    assert said(machine) == [(AGGREGATOR, Word("first"))]
    assert judged == ["first"]
