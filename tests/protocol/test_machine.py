"""The machine: what a role may do, and what may happen to it."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Generator
from types import coroutine
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import (
    LocalProtocolError,
    PrivacyError,
    ProtocolError,
    QuorumError,
    RemoteProtocolError,
    UnsupportedEventError,
)
from protocol.machine import EARLY_PER_SENDER, KEPT, Machine
from protocol.messages import (
    AGGREGATOR,
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
from protocol.privacy.events import Plain, PrivacyEvent, Public, Randomized
from protocol.randomizers import KeepUniform
from protocol.roles import Me
from tests.protocol.simulation import (
    Role,
    Turn,
    Word,
    answers,
    charter_of,
    envelope,
    machine_of,
    talk,
)

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
    return [(e.recipient, decode(e.kind, e.body)) for e in machine.take()]


def reasons(machine: Machine) -> list[str]:
    return [kept.reason for kept in machine.kept]


async def collect(me: Me) -> Message:
    """Gather a word of each, and publish them."""
    words = await me.gather(Word, ALL, within=10.0)
    return Word(" ".join(f"{sender}={word.text}" for sender, word in words.items()))


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
        (RECORD, Closed("Word", NO_ROUND, everyone, everyone)),
        (RECORD, published),
    ]
    assert machine.result == published
    assert machine.kept == []


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
    assert closed == Closed("Word", NO_ROUND, bitmap(ALL), bitmap((TWO,)))


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
        "after the end of the role",
    ]
    assert [k.envelope.sender for k in machine.kept] == [ONE, TWO, THREE, THREE, ONE, ONE]
    assert machine.kept_count == 6


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
        ({"kind": "Closed", "body": msgspec.msgpack.encode(("Word", -1, b"", b""))}, "kind"),
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
    assert machine.kept_count == 1


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
    assert machine.kept_count == 2
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


@pytest.mark.parametrize(
    ("wait", "why"),
    [
        (lambda me: me.gather(Turn, ALL), "by round"),
        (lambda me: me.gather(Word, ALL, round=1), "by round"),
        (lambda me: me.gather(Closed, ALL, round=1), "no kind"),
        (lambda me: me.gather(Declined, ALL), "no kind"),
        (lambda me: me.gather(type("Stranger", (Word,), {}, frozen=True), ALL), "no kind"),
        (lambda me: me.gather(Word, (ONE, ONE)), "awaited twice"),
        (lambda me: me.gather(Word, (AGGREGATOR,)), "no member"),
        (lambda me: me.gather(Word, (PartyId("nobody"),)), "no member"),
        (lambda me: me.gather(Word, ALL, within=-1.0), "cannot wait"),
        (lambda me: me.gather(Word, ALL, within=math.nan), "cannot wait"),
        (lambda me: me.send(AGGREGATOR, Word("x")), "no member"),
        (lambda me: me.send(PartyId("nobody"), Word("x")), "no member"),
        (lambda me: me.send(ONE, Word("\ud800")), "cannot send"),
        (lambda me: me.send(ONE, Turn(2**64, "x")), "cannot send"),
        (lambda me: me.send(ONE, Left(ONE, 3)), "cannot send"),
    ],
)
def test_wrong_effects_are_the_roles_fault(wait: Callable[[Me], Any], why: str) -> None:
    reached = False

    async def role(me: Me) -> None:
        nonlocal reached
        await wait(me)
        reached = True

    failure = started(aggregator(role)).failure
    assert isinstance(failure, LocalProtocolError)
    assert why in str(failure)
    assert (failure.party, failure.role, failure.round) == (AGGREGATOR, "aggregator", 0)
    assert not reached


def test_a_kind_is_awaited_once_or_by_round() -> None:
    async def twice(me: Me) -> None:
        await me.gather(Word, (ONE, TWO), within=0.0)
        await me.gather(Word, (THREE,), within=0.0)
        await me.gather(Turn, ALL, round=0, within=0.0)
        await me.gather(Turn, ALL, round=1, within=0.0)
        await me.gather(Word, (TWO, THREE))

    machine = started(aggregator(twice))
    for _ in range(4):
        assert not machine.finished
        machine.expire(0.0)
    assert isinstance(machine.failure, LocalProtocolError)
    assert "awaited twice" in str(machine.failure)
    assert machine.failure.round == 4


def test_waiting_without_end_has_no_deadline() -> None:
    async def patient(me: Me) -> None:
        await me.gather(Word, ALL, within=math.inf)

    machine = started(aggregator(patient))
    assert machine.deadline is None
    machine.expire(1e300)
    assert not machine.finished


def test_a_role_that_raises_is_named() -> None:
    async def stumble(me: Me) -> None:
        await me.gather(Word, ALL, within=0.0)
        raise KeyError("x")

    machine = started(aggregator(stumble))
    machine.expire(0.0)
    failure = machine.failure
    assert isinstance(failure, LocalProtocolError)
    assert (failure.party, failure.role, failure.round) == (AGGREGATOR, "aggregator", 1)
    assert isinstance(failure.__cause__, KeyError)
    assert "KeyError" in str(failure)


def test_errors_of_the_protocol_come_out_as_they_are() -> None:
    error = RemoteProtocolError("nonsense", field="Word.text")

    async def refuse(me: Me) -> None:
        raise error

    machine = started(party(refuse))
    assert machine.failure is error
    assert machine.take() == []


class Foreign:
    """An awaitable that is no effect."""

    def __await__(self) -> Generator[str, None, None]:
        yield "foreign"


@coroutine
def bare() -> Generator[None, None, None]:
    yield


@pytest.mark.parametrize("awaitable", [Foreign, bare])
def test_awaiting_what_is_no_effect(awaitable: Callable[[], Any]) -> None:
    closed = False

    async def stray(me: Me) -> None:
        nonlocal closed
        try:
            await awaitable()
        finally:
            closed = True

    failure = started(party(stray)).failure
    assert isinstance(failure, LocalProtocolError)
    assert (failure.party, failure.role, failure.round) == (ONE, "party", 0)
    assert "no effect" in str(failure)
    assert closed


def test_a_role_that_is_closed_and_raises_has_only_failed() -> None:
    async def messy(me: Me) -> None:
        try:
            await Foreign()
        finally:
            raise OSError("no room to clean up")

    failure = started(party(messy)).failure
    assert isinstance(failure, LocalProtocolError)
    assert "no effect" in str(failure)


async def doze(me: Me) -> None:
    """A role that wants to be a task."""
    await trio.sleep(0)


def test_awaiting_trio_outside_of_trio() -> None:
    assert isinstance(started(party(doze)).failure, LocalProtocolError)


async def test_awaiting_trio_inside_of_trio() -> None:
    machine = started(party(doze))
    assert isinstance(machine.failure, LocalProtocolError)
    assert "no effect" in str(machine.failure)
    await trio.lowlevel.checkpoint()


def test_returning_what_is_no_message() -> None:
    async def number(me: Me) -> Any:
        return 3

    failure = started(aggregator(number)).failure
    assert isinstance(failure, LocalProtocolError)
    assert "'int', not a message" in str(failure)
    assert failure.party == AGGREGATOR


def test_returning_what_cannot_be_sent() -> None:
    async def foreign(me: Me) -> Message:
        return Word("x" * 5000)

    machine = started(aggregator(foreign))
    assert isinstance(machine.failure, LocalProtocolError)
    assert machine.result is None
    assert machine.finished


KEEP = KeepUniform.with_keep(2, p=0.5)
COSTLY = Randomized(KEEP, ("smokes",))


async def chat(me: Me) -> None:
    """Two turns to the aggregator."""
    for round_ in range(2):
        await me.send(AGGREGATOR, Turn(round_, "x"))


def test_what_was_told_is_counted() -> None:
    machine = started(party(chat, event=COSTLY))
    assert machine.failure is None
    assert machine.spent.record == 2 * KEEP.epsilon
    assert dict(machine.spent.attributes) == {"smokes": 2 * KEEP.epsilon}


@pytest.mark.parametrize(("budget", "turns"), [(2.0, 2), (1.99, 1), (1.0, 1), (0.99, 0), (0.0, 0)])
def test_nothing_is_sent_beyond_the_budget(budget: float, turns: int) -> None:
    machine = started(party(chat, event=COSTLY, budget=budget * KEEP.epsilon))
    assert machine.spent.record == turns * KEEP.epsilon
    sent = said(machine)
    assert [m.kind() for _, m in sent] == ["Turn"] * turns + ["Declined"] * (turns < 2)
    assert (machine.failure is None) == (turns == 2)
    if turns < 2:
        assert isinstance(machine.failure, PrivacyError)
        assert sent[-1] == (AGGREGATOR, Declined(str(machine.failure)))


def test_plain_answers_exceed_every_budget() -> None:
    machine = started(party(chat, event=Plain(("smokes",)), budget=1e9))
    assert [m.kind() for _, m in said(machine)] == ["Declined"]


def test_events_that_nobody_can_judge_are_not_sent() -> None:
    class Novel(PrivacyEvent, frozen=True):
        """An event that no accountant knows."""

    machine = started(party(chat, event=Novel()))
    assert isinstance(machine.failure, UnsupportedEventError)
    assert [m.kind() for _, m in said(machine)] == ["Declined"]


def test_a_role_may_answer_less_than_it_is_asked() -> None:
    async def adapt(me: Me) -> None:
        try:
            await chat(me)
        except PrivacyError:
            await me.gather(Word, (AGGREGATOR,), within=1.0)

    machine = started(party(adapt, event=COSTLY, budget=KEEP.epsilon))
    assert not machine.finished
    hear(machine, AGGREGATOR, Word("fine"))
    assert machine.failure is None


def test_a_refusal_is_a_departure() -> None:
    async def refuse(me: Me) -> None:
        raise PrivacyError("too dear" + "x" * 1000)

    refusing = started(party(refuse))
    ((recipient, declined),) = said(refusing)
    assert recipient == AGGREGATOR
    assert isinstance(declined, Declined)
    assert len(declined.reason) == 500
    machine = started(aggregator(collect))
    hear(machine, ONE, declined)
    assert machine.departed[ONE].startswith("declined: too dear")
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
    assert machine.kept_count == KEPT + 10
    assert len(machine.kept) == KEPT
    assert set(reasons(machine)) == {"too many messages of this sender are waiting"}
    hear(machine, TWO, Turn(0, "x"))
    assert machine.kept_count == KEPT + 10
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

    machine = aggregator(follow)
    half = EARLY_PER_SENDER // 2
    for seq in range(half):
        hear(machine, ONE, Turn(seq, "x"), seq=seq)
    machine.start(0.0)
    for seq in range(half, rounds):
        hear(machine, ONE, Turn(seq, "x"), seq=seq)
    assert machine.result == Word("done")
    assert machine.kept == []


def test_a_party_is_judged_by_the_message_that_it_acted_on() -> None:
    seen: list[str] = []

    async def answer(me: Me) -> None:
        await me.send(AGGREGATOR, await me.receive(Word, AGGREGATOR))

    variant = talk(party=answer)

    class Watched(type(variant), frozen=True):  # type: ignore[misc]
        def reveals(self, message: Message, seen_by_sender: Any) -> PrivacyEvent:
            first = seen_by_sender.last(Word, AGGREGATOR)
            seen.append(first.text)
            return Public()

    machine = machine_of(charter_of(Watched(survey=variant.survey)), ONE)
    hear(machine, AGGREGATOR, Word("first"))
    hear(machine, AGGREGATOR, Word("second"), seq=1)
    machine.start(0.0)
    assert said(machine) == [(AGGREGATOR, Word("first"))]
    assert seen == ["first"]


def test_a_machine_that_was_never_started_leaves_no_warning() -> None:
    machine = party(chat)
    machine.abandon("the session is over")
    assert isinstance(machine.failure, ProtocolError)
    del machine
    party(chat)
    gc.collect()


def test_abandoning_closes_the_role() -> None:
    closed = False

    async def wait(me: Me) -> None:
        nonlocal closed
        try:
            await me.receive(Word, AGGREGATOR)
        finally:
            closed = True

    machine = started(party(wait))
    machine.abandon("its link has ended")
    assert closed
    assert machine.finished
    assert str(machine.failure) == "party 'party-1': its link has ended"
    machine.abandon("again")
    assert str(machine.failure) == "party 'party-1': its link has ended"
    hear(machine, AGGREGATOR, Word("x"))
    assert reasons(machine) == ["after the end of the role"]


def test_a_party_needs_records_and_the_aggregator_has_none() -> None:
    charter = charter_of(talk())
    good = machine_of(charter, ONE)
    with pytest.raises(LocalProtocolError, match="records"):
        Machine(charter, ONE, good._side.stream)


def test_nothing_of_the_records_shows() -> None:
    machine = party(chat)
    assert repr(machine) == "Machine('party-1', round 0)"
    assert repr(answers(machine.charter.variant.survey, 1)) == "<Records: k=1, m=2>"
