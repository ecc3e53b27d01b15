"""The machine: roles that break the rules, and parties that spend."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Generator
from types import coroutine
from typing import Any, cast

import pytest
import trio
import trio.lowlevel

from protocol import (
    AGGREGATOR,
    KeepUniform,
    LocalProtocolError,
    Me,
    Message,
    PartyId,
    Plain,
    PrivacyError,
    PrivacyEvent,
    ProtocolError,
    Randomized,
    RemoteProtocolError,
    Stream,
    UnsupportedEventError,
)
from protocol.messages import Closed, Declined, Left
from protocol.session.machine import Machine
from tests.protocol.sessions import (
    SURVEY,
    Turn,
    Word,
    answers,
    charter_of,
    machine_of,
    talk,
    words_sent,
)
from tests.protocol.talks import (
    ALL,
    ONE,
    THREE,
    TWO,
    aggregator,
    hear,
    party,
    reasons,
    said,
    started,
)


@pytest.mark.parametrize(
    ("wait", "why"),
    [
        (lambda me: me.gather(Turn, ALL), "give a round if, and only if"),
        (lambda me: me.gather(Word, ALL, round=1), "give a round if, and only if"),
        (lambda me: me.gather(Closed, ALL, round=1), "is not a kind that members send"),
        (lambda me: me.gather(Declined, ALL), "is not a kind that members send"),
        (lambda me: me.gather(type("Stranger", (Word,), {}, frozen=True), ALL), "is not a kind"),
        (lambda me: me.gather(Word, (ONE, ONE)), "awaited twice"),
        (lambda me: me.gather(Word, (AGGREGATOR,)), "sender 'aggregator' is not another member"),
        (lambda me: me.gather(Word, (PartyId("nobody"),)), "sender 'nobody' is not another"),
        (lambda me: me.gather(Word, ALL, within=-1.0), "expected at least 0 seconds"),
        (lambda me: me.gather(Word, ALL, within=math.nan), "expected at least 0 seconds"),
        (lambda me: me.send(AGGREGATOR, Word("x")), "is not another member"),
        (lambda me: me.send(PartyId("nobody"), Word("x")), "is not another member"),
        (lambda me: me.send(ONE, Word("\ud800")), "cannot send"),
        (lambda me: me.send(ONE, Turn(2**64, "x")), "cannot send"),
        (lambda me: me.send(ONE, cast(Any, Left)(ONE, 3)), "cannot send"),
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
    # The others learn why it goes no further: somebody else broke the rules.
    assert [envelope.kind for envelope in words_sent(machine)] == ["Declined"]


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
    assert "expected Send or Gather" in str(failure)
    assert closed


def test_a_role_that_is_closed_and_raises_has_only_failed() -> None:
    async def messy(me: Me) -> None:
        try:
            await Foreign()
        finally:
            raise OSError("no room to clean up")

    failure = started(party(messy)).failure
    assert isinstance(failure, LocalProtocolError)
    assert "expected Send or Gather" in str(failure)


async def doze(me: Me) -> None:
    """A role that wants to be a task."""
    await trio.lowlevel.checkpoint()


def test_awaiting_trio_outside_of_trio() -> None:
    assert isinstance(started(party(doze)).failure, LocalProtocolError)


async def test_awaiting_trio_inside_of_trio() -> None:
    machine = started(party(doze))
    assert isinstance(machine.failure, LocalProtocolError)
    assert "expected Send or Gather" in str(machine.failure)
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
        assert sent[-1] == (AGGREGATOR, Declined("terms"))


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
    assert reasons(machine) == ["the role has ended"]


def test_a_party_needs_records_and_the_aggregator_has_none() -> None:
    charter = charter_of(talk())
    good = machine_of(charter, ONE)
    with pytest.raises(LocalProtocolError, match="records"):
        Machine(charter, ONE, good._side.stream)


def test_nothing_of_the_records_shows() -> None:
    machine = party(chat)
    assert repr(machine) == "Machine('party-1', round 0)"
    assert repr(answers(machine.charter.variant.survey, 1)) == "<Records: k=1, m=2>"


def test_what_a_role_notes_for_its_member_stays_with_it() -> None:
    """Whatever it notes, it says and shows the same."""

    async def noting(me: Me) -> None:
        await me.send(AGGREGATOR, Word("before"))
        for text in notices:
            me.notice(text)
        await me.receive(Word, AGGREGATOR)
        raise RemoteProtocolError("no")

    shown = []
    notices: tuple[str, ...]
    for notices in ((), ("something is wrong", "and this too")):
        machine = started(party(noting))
        assert machine.notices == notices
        assert not machine.finished
        hear(machine, AGGREGATOR, Word("go on"))
        assert machine.notices == notices
        shown.append((repr(machine), str(machine.failure), machine.result, machine.take()))
    assert shown[0] == shown[1]


def test_where_nobody_keeps_notices_they_are_lost() -> None:
    charter = charter_of(talk())
    Me(ONE, charter.roster, Stream(bytes(32)), session=charter.session).notice("unheard")


def test_a_party_that_needs_all_members_says_so() -> None:
    async def role(me: Me) -> None:
        await me.send(TWO, Word("x"))

    class Alone(type(talk()), frozen=True):  # type: ignore[misc]  # a class found at run time
        whole_roster = False

        async def party(self, me: Me, records: object) -> None:
            await role(me)

    machine = started(machine_of(charter_of(Alone(survey=SURVEY)), ONE))
    assert "'party-2' is not another member" in str(machine.failure)
    hear(machine, TWO, Word("x"))
    assert "'party-2' is not another member" in reasons(machine)[0]
    assert started(party(role)).failure is None
