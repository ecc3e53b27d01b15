"""A session sees every member to its end, whatever becomes of the others."""

from __future__ import annotations

import errno
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from parties.actor import run_aggregator, run_machine
from parties.session import run_session
from protocol import AGGREGATOR, LocalProtocolError, Me, Message, PartyId, QuorumError, Records
from protocol.messages import DONE, ROLE_STREAM
from protocol.session.exchange import Exchange
from protocol.session.machine import Machine
from protocol.variants import RRIndependent
from tests.live import Sockets, entered, hub_of, run_live, town
from tests.parties.adversaries import Mute
from tests.protocol.sessions import SURVEY
from tests.recorded.runs import Run
from tests.tiers import thinned
from transports.base import Limits, Link
from transports.faults import Fault, crash, delay, drop, faults
from transports.memory import MemoryHub, open_memory
from transports.switch import Switch
from transports.testing import HANGS

FIRST, SECOND = PartyId("party-1"), PartyId("party-2")


def counted(result: Message) -> int:
    return int(result.counts.sum())


async def test_a_survey_without_faults_counts_everybody_at_once(autojump_clock: object) -> None:
    done = await run_live(town(12, patience=60.0))
    assert counted(done.published) == 12
    assert set(done.endings.values()) == {DONE}
    assert all(entry.at == 0 for entry in done.entries)


async def test_the_aggregator_waits_for_its_patience_and_no_longer(autojump_clock: object) -> None:
    where = town(5, patience=30.0)
    started = trio.current_time()
    # The first party stays and says nothing.
    done = await run_live(where, adversaries={FIRST: Mute})
    assert trio.current_time() - started == 30.0
    assert counted(done.published) == 4
    assert done.endings[FIRST] == DONE


async def test_what_comes_at_the_deadline_counts_and_what_comes_later_does_not(
    autojump_clock: object,
) -> None:
    def late(seconds: float) -> list[Fault]:
        return [delay(seconds, kind="Report")]

    where = town(1, patience=30.0, quorum=1)
    assert counted((await run_live(where, fate=faults(late(29.999), seed=1))).published) == 1
    with pytest.raises(QuorumError):
        await run_live(where, fate=faults(late(30.001), seed=1))


async def test_a_quorum_that_is_missed_is_the_sessions_error(autojump_clock: object) -> None:
    where = town(4, quorum=3, patience=10.0)
    lost = [
        Fault(verdict=rule.verdict, sender=name) for rule in [drop(1.0)] for name in (FIRST, SECOND)
    ]
    with pytest.raises(QuorumError) as caught:
        await run_live(where, fate=faults(lost, seed=1))
    assert caught.value.missing == (FIRST, SECOND)
    assert caught.value.answered == 2


async def test_parties_that_crash_are_counted_out_without_waiting(autojump_clock: object) -> None:
    where = town(20, patience=60.0)
    started = trio.current_time()
    done = await run_live(where, fate=faults([crash(0.4)], seed=1))
    assert trio.current_time() == started
    crashed = [name for name, why in done.departed().items() if why == "crashed"]
    assert 0 < len(crashed) < 20
    assert counted(done.published) == 20 - len(crashed)


async def test_parties_without_records_never_come_and_nobody_waits_for_them(
    autojump_clock: object,
) -> None:
    where = town(6)
    started = trio.current_time()
    there = {name: held for name, held in where.holdings.items() if name != FIRST}
    done = await run_live(where, holdings=there)
    assert trio.current_time() == started
    assert done.endings[FIRST] == "never came"
    assert done.departed()[FIRST] == "never came"
    assert counted(done.published) == 5


class Unreachable:
    """A hub that some members cannot reach, or reach late."""

    def __init__(self, hub: MemoryHub, *, never: Sequence[PartyId] = (), late: float = 0.0) -> None:
        self._hub = hub
        self._never = never
        self._late = late

    @asynccontextmanager
    async def connect(self, member: PartyId) -> AsyncGenerator[Link]:
        if member in self._never:
            raise ConnectionRefusedError("nobody there")
        if member == SECOND:
            await trio.sleep(self._late)
        async with self._hub.connect(member) as link:
            yield link

    async def joined(self, members: Iterable[PartyId], *, within: float) -> None:
        await self._hub.joined(members, within=within)


@pytest.mark.parametrize(("late", "ending", "count"), [(4.0, DONE, 4), (6.0, "has left", 3)])
async def test_the_aggregator_waits_for_parties_to_join(
    late: float, ending: str, count: int, autojump_clock: object
) -> None:
    where = town(5)
    async with open_memory(Switch(Exchange(where.charter))) as hub:
        run = await run_session(
            where.charter,
            Unreachable(hub, never=[FIRST], late=late),
            where.streams,
            where.holdings,
            joining=5.0,
        )
    assert run.endings[FIRST] == "could not connect: nobody there"
    assert ending in run.endings[SECOND]
    assert counted(run.result) == count


async def test_a_file_that_cannot_be_written_is_no_lost_connection(autojump_clock: object) -> None:
    class Full(Unreachable):
        @asynccontextmanager
        async def connect(self, member: PartyId) -> AsyncGenerator[Link]:
            if member == FIRST:
                raise OSError(errno.ENOSPC, "no space left", "transcript")
            async with super().connect(member) as link:
                yield link

    where = town(2)
    async with open_memory(Switch(Exchange(where.charter))) as hub:
        with pytest.raises(ExceptionGroup) as caught:
            await run_session(where.charter, Full(hub), where.streams, where.holdings)
    [error] = caught.value.exceptions
    assert isinstance(error, OSError)
    assert error.filename == "transcript"


async def test_a_party_that_declines_is_counted_out_and_says_why(autojump_clock: object) -> None:
    where = town(3, patience=60.0)
    started = trio.current_time()
    with pytest.raises(QuorumError):
        await run_live(where, budget=0.01)
    assert trio.current_time() == started


class Moody(RRIndependent, frozen=True):
    """Its first party's role fails, its second waits for ever."""

    name = "moody"

    async def party(self, me: Me, records: Records) -> None:
        if me.id == FIRST:
            raise LookupError("a bug of this role")
        if me.id == SECOND:
            await me.gather(self.kinds(1)[0].message, [AGGREGATOR])
            await me.gather(self.kinds(1)[1].message, [PartyId("party-3")])
        await super().party(me, records)


async def test_a_party_that_fails_does_not_end_the_survey(autojump_clock: object) -> None:
    where = town(4, variant=Moody.with_keep(SURVEY, 0.7), patience=20.0)
    done = await run_live(where)
    assert "LookupError: a bug of this role" in done.endings[FIRST]
    assert counted(done.published) == 2


class Lost(RRIndependent, frozen=True):
    """The aggregator's role fails."""

    name = "lost"

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Message:
        raise ZeroDivisionError("a bug of the aggregator")


@pytest.mark.parametrize("transport", ["memory", "tcp", "tls"])
async def test_a_failing_aggregator_ends_the_session_and_everybody_in_it(
    transport: str, tmp_path: Path
) -> None:
    where = town(6, variant=Lost.with_keep(SURVEY, 0.7))
    with pytest.raises(LocalProtocolError, match="a bug of the aggregator"):
        await run_live(where, transport, folder=tmp_path)


class Endless(RRIndependent, frozen=True):
    """Its parties answer and then wait for what never comes."""

    name = "endless"
    whole_roster = True

    async def party(self, me: Me, records: Records) -> None:
        await super().party(me, records)
        others = [name for name in me.roster.parties if name != me.id]
        await me.gather(self.kinds(1)[1].message, others)


async def test_who_does_not_end_is_given_some_time(autojump_clock: object) -> None:
    where = town(3, variant=Endless.with_keep(SURVEY, 0.7))
    started = trio.current_time()
    done = await run_live(where, linger=7.0)
    assert trio.current_time() - started == 7.0
    assert set(done.endings.values()) == {"did not end in time"}
    assert counted(done.published) == 3


@pytest.mark.parametrize("transport", thinned(["memory", "tcp", "tls"], 1))
async def test_no_report_is_lost_when_all_leave_at_once(transport: str, tmp_path: Path) -> None:
    """Parties close right after they have sent; 200 do so together, before small mailboxes."""
    where = town(200)
    done = await run_live(where, transport, folder=tmp_path, limits=Limits(mailbox=2))
    assert counted(done.published) == 200
    assert set(done.endings.values()) == {DONE}
    assert not done.refused()
    assert done.digest == Run(where).digest


async def test_a_party_whose_connection_breaks_is_counted_out() -> None:
    """As if a cable was pulled: after its welcome a party's stream just ends, without a goodbye."""
    where = town(4)
    exchange = Exchange(where.charter)
    async with hub_of("tcp", Switch(exchange), where) as hub, trio.open_nursery() as nursery:
        assert isinstance(hub, Sockets)

        async def live(me: PartyId) -> None:
            async with hub.connect(me) as link:
                stream = where.streams.stream(me, ROLE_STREAM)
                machine = Machine(where.charter, me, stream, records=where.holdings[me])
                await run_machine(machine, link)
            assert machine.failure is None

        async def pull() -> None:
            async with entered(hub, where.charter, where.identities[FIRST]):
                pass

        for name in where.holdings:
            if name != FIRST:
                nursery.start_soon(live, name)
        nursery.start_soon(pull)
        with trio.fail_after(HANGS):
            async with hub.connect(AGGREGATOR) as link:
                await hub.joined(where.charter.roster.parties, within=10.0)
                machine = await run_aggregator(where.charter, link, streams=where.streams)
    assert machine.result is not None
    assert counted(machine.result) == 3
    assert "closed its link" not in exchange.departed[FIRST]
