"""An actor reads while it writes, and takes a broken link for what it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from parties.actor import run_aggregator, run_machine
from protocol import (
    AGGREGATOR,
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
from protocol.messages import DONE, ROLE_STREAM, Envelope
from protocol.session.machine import Machine
from tests.live import run_live, town
from tests.protocol.sessions import SURVEY
from tests.recorded.runs import Run
from tests.tiers import thinned
from transports.base import Limits

BULK = 400_000


class Piece(Message, frozen=True):
    round: int
    content: bytes


class Total(Message, frozen=True):
    size: int


class Everybody(Variant, frozen=True):
    """All send to all, several rounds of large messages, before they hear anything."""

    name = "everybody"
    whole_roster = True
    rounds: int = 3

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        return (Kind(Piece, scalar_bytes=BULK + 64), Kind(Total))

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        return Public()

    async def talk(self, me: Me) -> int:
        others = [name for name, _ in me.roster.members if name != me.id]
        for round in range(self.rounds):
            await me.broadcast(others, Piece(round, me.id.encode() * (BULK // len(me.id))))
        heard = 0
        for round in range(self.rounds):
            pieces = await me.gather(Piece, others, round=round, at_least=len(others))
            heard += sum(len(piece.content) for piece in pieces.values())
        return heard

    async def party(self, me: Me, records: Records) -> None:
        await self.talk(me)

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Total:
        return Total(await self.talk(me))


@pytest.mark.parametrize("transport", thinned(["memory", "tcp", "tls"], 1))
async def test_all_to_all_of_large_messages_does_not_deadlock(
    transport: str, tmp_path: Path
) -> None:
    where = town(6, variant=Everybody(survey=SURVEY))
    limits = Limits(mailbox=1)
    done = await run_live(where, transport, folder=tmp_path, limits=limits)
    assert set(done.endings.values()) == {DONE}
    assert done.digest == Run(where).digest


class Script:
    """A link whose behaviour a test writes down."""

    def __init__(self, *, sending: Exception | None = None) -> None:
        self._sending = sending
        self.sent: list[Envelope] = []

    def send_nowait(self, envelopes: Sequence[Envelope]) -> int:
        return 0

    async def send_many(self, envelopes: Sequence[Envelope]) -> None:
        await trio.lowlevel.checkpoint()
        if self._sending is not None:
            raise self._sending
        self.sent += envelopes

    async def receive_many(self) -> list[Envelope]:
        await trio.lowlevel.checkpoint()
        raise trio.EndOfChannel

    def receive_nowait(self) -> list[Envelope]:
        return []


def machine_of(parties: int = 2) -> Machine:
    where = town(parties, variant=Everybody(survey=SURVEY, rounds=1))
    name = PartyId("party-1")
    return Machine(
        where.charter, name, where.streams.stream(name, "role"), records=where.holdings[name]
    )


async def test_a_link_that_ends_ends_the_machine() -> None:
    link = Script()
    machine = await run_machine(machine_of(), link)
    assert machine.finished
    assert "its link has ended" in str(machine.failure)
    assert [envelope.recipient for envelope in link.sent] == [AGGREGATOR, "party-2"]


async def test_a_link_that_breaks_while_it_writes_ends_the_machine() -> None:
    link = Script(sending=trio.BrokenResourceError("the cable"))
    machine = await run_machine(machine_of(), link)
    assert "its link broke: the cable" in str(machine.failure)


async def test_a_bug_of_a_link_comes_out() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await run_machine(machine_of(), Script(sending=LookupError("a bug")))
    assert caught.group_contains(LookupError, match="a bug")


class Punctual(Script):
    """A link at which a report arrives in the very moment of the deadline."""

    def __init__(self, report: Envelope) -> None:
        super().__init__()
        self._report = report

    async def receive_many(self) -> list[Envelope]:
        await trio.sleep_forever()
        raise AssertionError("unreachable")

    def receive_nowait(self) -> list[Envelope]:
        return [self._report]


class Asking(Script):
    """A link that brings one envelope."""

    def __init__(self, ask: Envelope) -> None:
        super().__init__()
        self._ask = ask

    async def receive_many(self) -> list[Envelope]:
        await trio.lowlevel.checkpoint()
        return [self._ask]


async def test_mail_that_is_there_at_the_deadline_is_read(autojump_clock: object) -> None:
    where = town(1, patience=10.0)
    [name] = where.holdings
    probe = Machine(where.charter, AGGREGATOR, where.streams.stream(AGGREGATOR, "role"))
    probe.start(0.0)
    [ask] = probe.take()
    link = Asking(ask)
    stream = where.streams.stream(name, ROLE_STREAM)
    party = Machine(where.charter, name, stream, records=where.holdings[name])
    await run_machine(party, link)
    [report] = link.sent
    started = trio.current_time()
    machine = await run_aggregator(where.charter, Punctual(report), streams=where.streams)
    assert trio.current_time() - started == 10.0
    assert machine.failure is None
    assert machine.result is not None
