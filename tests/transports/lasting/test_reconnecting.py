"""A party that loses its connection has not left: both sides go on where they were."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from parties.session import run_session
from protocol import AGGREGATOR, PartyId
from protocol.messages import DONE
from protocol.simulation.setting import Setting
from protocol.transcript.entries import Departed, Sent
from protocol.variants import RRClusters, RRIndependent
from protocol.wire.codec import encode_envelope
from tests.live import LOOPBACK, Certificates, Live, run_over_memory, town
from tests.recorded.runs import SURVEY
from tests.tiers import paired
from tests.transports.lasting.hubs import Lasting, lasting, refusal
from transports.base import Limits
from transports.dialing import TurnedAwayError
from transports.lasting.hub import open_lasting
from transports.lasting.link import connect_lasting
from transports.switch import Switch
from transports.testing import HANGS, Post, identify, make_charter

A, B = PartyId("party-1"), PartyId("party-2")
VARIANTS = {
    "reports": RRIndependent.with_keep(SURVEY, 0.7),
    "clusters": RRClusters(survey=SURVEY, p=0.6, tv=50, td=0.1, dependence="secure-sum"),
}
QUICK = Limits(idle=0.3, alive=0.1, handshake=1.0)
"""Limits with which a connection that says nothing is soon taken to be lost."""


async def run_over_a_road(
    where: Setting, most: int | None, folder: Path | None
) -> tuple[Live, int]:
    """A survey over lasting links, whose road loses a connection every so many bytes."""
    live = Live(where)
    certificates = Certificates(folder) if folder else None
    identify = where.identities.__getitem__
    try:
        with trio.fail_after(HANGS):
            async with lasting(
                Switch(live.exchange), certificates, grace=30.0, identify=identify
            ) as hub:
                hub.road.most = most
                live.run = await run_session(
                    where.charter,
                    hub,
                    where.streams,
                    holdings=where.holdings,
                    identities=where.identities,
                )
    finally:
        live.close()
    return live, hub.road.lost


@pytest.mark.parametrize(("variant", "secured"), paired(["reports", "clusters"], [False, True]))
async def test_a_survey_over_a_road_that_loses_connections(
    variant: str, secured: bool, tmp_path: Path
) -> None:
    where = town(8)
    if variant == "clusters":
        where = town(
            8, variant=RRClusters(survey=SURVEY, p=0.6, tv=50, td=0.1, dependence="secure-sum")
        )
    folder = tmp_path if secured else None
    smooth = await trio.to_thread.run_sync(functools.partial(run_over_memory, where))
    rough, lost = await run_over_a_road(where, 8000 if secured else 1500, folder)
    assert lost >= 3
    assert rough.endings == smooth.endings
    assert set(rough.endings.values()) == {DONE}
    assert rough.digest == smooth.digest
    assert rough.result_bytes == smooth.result_bytes
    assert set(rough.departed().values()) <= {"closed its link", "the connection ended"}
    # Connections that were lost before anybody had proved who it is are on record as ever.
    assert {entry.link for entry in rough.refused()} <= {""}


@asynccontextmanager
async def connected(
    limits: Limits | None = None, *, grace: float = 30.0
) -> AsyncGenerator[tuple[Post, Lasting]]:
    post = Post(limits)
    with trio.fail_after(HANGS):
        async with lasting(post.switch, grace=grace) as hub:
            yield post, hub


async def test_what_was_under_way_when_a_connection_was_lost_arrives_once() -> None:
    async with connected() as (post, hub), hub.connect(A) as a, hub.connect(B) as b:
        parcels = post.parcels(A, B, range(300))
        for i in range(0, len(parcels), 30):
            await a.send_many(parcels[i : i + 30])
            hub.road.lose()
        received = []
        while len(received) < len(parcels):
            received += await b.receive_many()
        assert received == parcels
        assert hub.road.lost >= 2
    departed = [entry.reason for entry in post.entries() if isinstance(entry, Departed)]
    assert departed == ["closed its link"] * 2


async def test_a_half_open_connection_is_noticed_and_taken_over() -> None:
    async with connected(QUICK) as (post, hub), hub.connect(A) as a, hub.connect(B) as b:
        one, two, three = post.parcels(A, B, range(3))
        await a.send(one)
        assert await b.receive() == one
        hub.road.silent = True
        await a.send(two)
        await trio.sleep(0.1)
        hub.road.silent = False
        # What is silent stays so; only a new connection gets through.
        await a.send(three)
        assert await b.receive() == two
        assert await b.receive() == three


async def test_who_does_not_come_back_is_given_up() -> None:
    async with (
        connected(grace=0.3) as (post, hub),
        hub.connect(AGGREGATOR) as link,
        hub.connect(A) as a,
    ):
        await a.send(post.parcels(A, AGGREGATOR, [0])[0])
        await link.receive()
        hub.road.open = False
        hub.road.lose()
        left = await link.receive()
        assert left.kind == "Left"
        hub.road.open = True
        with pytest.raises(trio.BrokenResourceError, match="has left this session"):
            await a.receive()
    [departed] = [e for e in post.entries() if isinstance(e, Departed) and e.party == A]
    assert departed.reason == "the connection ended"


async def test_a_program_that_starts_again_hears_and_says_the_same() -> None:
    async with connected() as (post, hub), hub.connect(AGGREGATOR) as link:
        asked = post.parcels(AGGREGATOR, A, range(3))
        said = post.parcels(A, AGGREGATOR, range(4))
        with trio.CancelScope() as killed:
            async with hub.connect(A) as a:
                await link.send_many(asked[:2])
                assert [await a.receive() for _ in asked[:2]] == asked[:2]
                await a.send_many(said[:2])
                assert [await link.receive() for _ in said[:2]] == said[:2]
                killed.cancel()
        async with hub.party(A) as again:
            assert [await again.receive() for _ in asked[:2]] == asked[:2]
            await link.send(asked[2])
            assert await again.receive() == asked[2]
            await again.send_many(said)
            assert [await link.receive() for _ in said[2:]] == said[2:]
            assert await again.acknowledged()


async def test_notices_are_heard_again_and_have_no_numbers() -> None:
    async with connected() as (post, hub):
        parcels = post.parcels(B, A, range(2))
        async with hub.party(A) as a:
            async with hub.connect(B) as b:
                await b.send_many(parcels)
                assert [await a.receive() for _ in parcels] == parcels
            left = await a.receive()
            assert left.kind == "Left"
            hub.road.lose()
            # The same program has had the parcels, and the notice comes once more.
            assert await a.receive() == left
        assert post.switch.exchange.departed.keys() == {A, B}
    async with connected() as (post, hub), hub.connect(AGGREGATOR) as link:
        one, two = post.parcels(B, A, range(1))[0], post.parcels(AGGREGATOR, A, range(1))[0]
        with trio.CancelScope() as killed:
            async with hub.party(A) as a:
                async with hub.connect(B) as b:
                    await b.send(one)
                    assert await a.receive() == one
                assert (await a.receive()).kind == "Left"
                await link.send(two)
                assert await a.receive() == two
                killed.cancel()
        async with hub.party(A) as again:
            heard = [await again.receive() for _ in range(3)]
            assert [envelope.kind for envelope in heard] == [one.kind, "Left", two.kind]


async def test_what_is_kept_to_be_handed_over_again_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("transports.lasting.hub.KEPT_BYTES", 100)
    async with connected(Limits(mailbox=4)) as (post, hub), hub.connect(AGGREGATOR) as link:
        parcels = post.parcels(AGGREGATOR, A, range(40))
        async with hub.party(A) as a:
            for parcel in parcels[:-2]:
                await link.send(parcel)
                assert await a.receive() == parcel
            # Who goes on needs none of it.
            hub.road.lose()
            await link.send(parcels[-2])
            assert await a.receive() == parcels[-2]
            async with hub.party(A) as again:
                with pytest.raises(trio.BrokenResourceError, match="has left this session"):
                    await again.receive()
    assert post.switch.exchange.departed[A] == "refused: link: more was sent to it than is kept"


async def test_who_declines_comes_back_to_say_its_head() -> None:
    async with connected() as (post, hub), hub.connect(AGGREGATOR) as link:
        declined, (head, *_) = refusal(post.charter, A)
        async with hub.party(A) as a:
            await a.send(declined)
            assert await link.receive() == declined
            hub.road.open = False
            hub.road.lose()
            await trio.testing.wait_all_tasks_blocked(0.01)
            await a.send(head)
            hub.road.open = True
            assert await a.acknowledged()
            assert post.switch.exchange.has_ended(A)
    assert encode_envelope(head) in [e.envelope for e in post.entries() if isinstance(e, Sent)]


async def test_who_has_ended_comes_back_for_its_acknowledgement() -> None:
    async with connected() as (post, hub), hub.connect(AGGREGATOR) as link:
        declined, (head, *_) = refusal(post.charter, A)
        said = (declined, head)
        async with hub.party(A) as a:
            await a.send_many(said)
            assert await link.receive() == said[0]
            while not post.switch.exchange.has_ended(A):
                await trio.testing.wait_all_tasks_blocked(0.01)
            hub.road.open = False
            hub.road.lose()
            left = await link.receive()
            assert left.kind == "Left"
            hub.road.open = True
            await a.send_many(())
            assert await a.acknowledged()
        async with hub.party(A) as again:
            await again.send_many(said)
            assert await again.acknowledged()
    assert [e.party for e in post.entries() if isinstance(e, Departed)][:1] == [A]


async def test_who_had_ended_before_a_restart_comes_back_after_it_was_given_up() -> None:
    async with connected() as (post, hub):
        exchange = post.switch.exchange
        declined, (head, *_) = refusal(post.charter, A)
        exchange.attach(A)
        for envelope in (declined, head):
            exchange.accept(A, [envelope], now=0.0)
        hub.hub.expect({A: []}, within=0.0)
        while A not in exchange.departed:
            await trio.testing.wait_all_tasks_blocked(0.01)
        async with hub.party(A) as again:
            await again.send_many((declined, head))
            assert await again.acknowledged()


async def test_a_party_waits_for_an_aggregator_that_is_late() -> None:
    post = Post(None)
    [free] = await trio.open_tcp_listeners(0, host=LOOPBACK)
    port = free.socket.getsockname()[1]
    await free.aclose()
    heard = []

    async def answer() -> None:
        async with connect_lasting(
            LOOPBACK, port, charter=post.charter, identity=identify(A), patience=20.0
        ) as link:
            heard.append(await link.receive())

    with trio.fail_after(HANGS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            await trio.sleep(0.3)
            opened = open_lasting(post.switch, identify(AGGREGATOR), port=port)
            async with opened as (hub, _), hub.connect(AGGREGATOR) as link:
                await hub.joined([A], within=20.0)
                await link.send_many(post.parcels(AGGREGATOR, A, [7]))
                while not heard:
                    await trio.testing.wait_all_tasks_blocked(0.01)
    assert [post.number(envelope) for envelope in heard] == [7]


async def test_a_party_gives_up_in_time_and_does_not_try_where_it_is_refused() -> None:
    connect = functools.partial(connect_lasting, LOOPBACK, charter=make_charter())
    with trio.fail_after(HANGS), pytest.raises(ConnectionError):
        async with connect(1, identity=identify(A), patience=0.3):
            raise AssertionError("it was let in")
    async with connected() as (_, hub):
        other = msgspec.structs.replace(make_charter(), nonce=b"x" * 16)
        with trio.fail_after(HANGS), pytest.raises(TurnedAwayError, match="another survey"):
            async with connect_lasting(
                LOOPBACK, hub.road.port, charter=other, identity=identify(A)
            ):
                raise AssertionError("it was let in")


async def test_an_aggregator_that_has_begun_anew_is_told_apart() -> None:
    async with connected() as (post, hub), hub.connect(AGGREGATOR) as link, hub.party(A) as a:
        await link.send_many(post.parcels(AGGREGATOR, A, [0]))
        await a.receive()
        fresh = Post(None)
        async with open_lasting(fresh.switch, identify(AGGREGATOR)) as (_, port):
            hub.road.hub = port
            hub.road.lose()
            with pytest.raises(trio.BrokenResourceError, match="has begun anew"):
                await a.receive()
            assert A not in fresh.switch.exchange.departed
        assert RRIndependent.name
