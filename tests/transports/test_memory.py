"""The memory transport keeps the contract; a link's own edges."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from protocol import AGGREGATOR, PartyId
from protocol.session.exchange import Exchange
from protocol.session.fates import Fate, Verdict
from tests.recorded.runs import fate_of
from transports.base import Limits
from transports.memory import open_memory
from transports.switch import Switch
from transports.testing import Post, check_transport, make_charter

A, B = PartyId("party-1"), PartyId("party-2")


async def test_keeps_the_contract() -> None:
    await check_transport(open_memory)


async def test_send_nowait_stops_where_there_is_no_room() -> None:
    post = Post(Limits(mailbox=4))
    async with open_memory(post.switch) as hub, hub.connect(A) as a, hub.connect(B) as b:
        parcels = post.parcels(A, B, range(10))
        assert a.send_nowait(parcels) == 4
        assert b.receive_nowait() == parcels[:4]
        assert a.send_nowait(parcels[4:]) == 4


async def test_two_readers_of_one_link_share_what_comes() -> None:
    post = Post(None)
    async with open_memory(post.switch) as hub, hub.connect(A) as a, hub.connect(B) as b:
        parcels = post.parcels(A, B, range(6))
        got = []

        async def read() -> None:
            for _ in range(3):
                got.append(await b.receive())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            nursery.start_soon(read)
            for parcel in parcels:
                await a.send(parcel)
        assert sorted(envelope.seq for envelope in got) == list(range(6))


async def test_a_reader_waits_on_if_another_was_quicker() -> None:
    post = Post(None)
    async with open_memory(post.switch) as hub, hub.connect(A) as a, hub.connect(B) as b:
        for _ in range(20):
            a.send_nowait(post.parcels(A, B, [0]))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(b.receive)
                await trio.lowlevel.checkpoint()
                b.receive_nowait()
                # Whether it waits by now or has got something, this ends it.
                a.send_nowait(post.parcels(A, B, [1]))
            b.receive_nowait()


async def test_the_aggregator_is_not_cut_off_for_its_backlog(autojump_clock: object) -> None:
    post = Post(Limits(mailbox=1, stall=1.0))
    room = 2 * len(post.charter.roster)
    async with (
        open_memory(post.switch) as hub,
        hub.connect(AGGREGATOR) as aggregator,
        hub.connect(A) as a,
    ):
        parcels = post.parcels(A, AGGREGATOR, range(room + 1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(a.send_many, parcels)
            await trio.sleep(100.0)
            got = []
            while len(got) < len(parcels):
                got += await aggregator.receive_many()
        assert got == parcels


async def test_who_reads_slowly_but_reads_is_not_cut_off(autojump_clock: object) -> None:
    post = Post(Limits(mailbox=2, stall=1.0))
    async with open_memory(post.switch) as hub, hub.connect(B) as b, trio.open_nursery() as nursery:
        for name in post.parties[2:12]:

            async def send(name: PartyId = name) -> None:
                async with hub.connect(name) as link:
                    for parcel in post.parcels(name, B, range(3)):
                        await link.send(parcel)

            nursery.start_soon(send)
        parcels = 0
        while parcels < 30:
            await trio.sleep(0.9)
            parcels += (await b.receive()).kind == "Parcel"
    assert post.switch.exchange.departed[B] == "closed its link"


async def test_a_flood_is_cut_off() -> None:
    post = Post(Limits(envelopes=5))
    async with open_memory(post.switch) as hub, hub.connect(A) as a, hub.connect(B) as b:
        with pytest.raises(trio.BrokenResourceError, match="more than 5 envelopes"):
            await a.send_many(post.parcels(A, B, range(6)))
        assert [envelope.kind for envelope in b.receive_nowait()] == ["Parcel"] * 5 + ["Left"]
    assert "more than 5 envelopes" in post.switch.exchange.departed[A]


async def test_delayed_envelopes_are_not_overtaken(autojump_clock: object) -> None:
    post = Post(None)
    switch = Switch(Exchange(post.charter, fate=fate_of(Fate(delay=5.0), seq=0)))
    async with open_memory(switch) as hub, hub.connect(A) as a, hub.connect(B) as b:
        first, second, third = post.parcels(A, B, range(3))
        await a.send(first)
        await a.send(second)
        # Sent in the very moment at which the others are due, before the switch has seen to them.
        trio.lowlevel.current_clock().jump(5.0)
        a.send_nowait([third])
        got = []
        while len(got) < 3:
            got += await b.receive_many()
        assert [envelope.seq for envelope in got] == [0, 1, 2]


async def test_errors_of_a_block_come_out_as_they_are() -> None:
    switch = Switch(Exchange(make_charter(1)))
    with pytest.raises(LookupError, match="mine"):
        async with open_memory(switch):
            raise LookupError("mine")


async def test_who_is_not_on_the_roster_cannot_connect() -> None:
    async with open_memory(Switch(Exchange(make_charter(1)))) as hub:
        with pytest.raises(ConnectionError, match="not on the roster"):
            async with hub.connect(PartyId("stranger")):
                pass


async def test_who_has_not_joined_in_time_never_came(autojump_clock: object) -> None:
    switch = Switch(Exchange(make_charter(2)))
    async with open_memory(switch) as hub, hub.connect(AGGREGATOR) as link, hub.connect(A):
        await hub.joined([A, B], within=10.0)
        assert switch.now == 10.0
        [notice] = link.receive_nowait()
        assert b"never came" in notice.body
        assert dict(switch.exchange.departed) == {B: "never came"}
        with pytest.raises(ConnectionError, match="has left"):
            async with hub.connect(B):
                pass


async def test_emptied_waits_for_the_last_one() -> None:
    switch = Switch(Exchange(make_charter(2)))
    seen = []
    async with open_memory(switch) as hub, trio.open_nursery() as nursery, hub.connect(B):
        async with hub.connect(A):

            async def watch() -> None:
                await hub.emptied()
                seen.append(set(switch.exchange.departed))

            nursery.start_soon(watch)
            await trio.testing.wait_all_tasks_blocked()
        await trio.testing.wait_all_tasks_blocked()
        assert seen == []
    assert seen == [{A, B}]


async def test_room_that_is_not_used_is_passed_on(autojump_clock: object) -> None:
    """A writer is woken for room, and its envelope is lost on the way: the next one may write."""
    c, d = PartyId("party-3"), PartyId("party-4")
    post = Post(Limits(mailbox=1))

    switch = Switch(Exchange(post.charter, fate=fate_of(Fate(Verdict.DROP), c)), Limits(mailbox=1))
    async with (
        open_memory(switch) as hub,
        hub.connect(A) as a,
        hub.connect(B) as b,
        hub.connect(c) as lost,
        hub.connect(d) as last,
    ):
        await b.send(post.parcels(B, A, [0])[0])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lost.send, post.parcels(c, A, [1])[0])
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(last.send, post.parcels(d, A, [2])[0])
            await trio.testing.wait_all_tasks_blocked()
            start = trio.current_time()
            assert [post.number(await a.receive()) for _ in range(2)] == [0, 2]
            assert trio.current_time() == start
