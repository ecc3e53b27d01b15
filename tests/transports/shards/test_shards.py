"""Shards keep the contract of transports, and let nobody in but the worker that was handed one."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import AsyncGenerator, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from protocol import AGGREGATOR, PartyId
from protocol.messages import LINK_CLOSED, SWITCH
from protocol.session.charter import Charter
from protocol.session.roster import Identity
from protocol.transcript.entries import Refused
from tests.live import LOOPBACK, Certificates, framed
from transports import handshake
from transports.base import Limits, Link
from transports.shards.hub import ShardHub, open_shards
from transports.shards.shard import SECRET_BYTES, VERSION, Shard
from transports.shards.worker import WorkerShard, connect_shard
from transports.switch import Switch
from transports.tcp import connect_tcp
from transports.testing import HANGS, Post, check_transport, identify, make_charter


class Workers:
    """A hub whose parties, in this process, live in shards."""

    def __init__(
        self, switch: Switch, hub: ShardHub, port: int, workers: dict[Shard, WorkerShard]
    ) -> None:
        self.hub = hub
        self.port = port
        self.workers = workers
        self._position = switch.exchange.charter.roster.position

    def connect(self, member: PartyId) -> AbstractAsyncContextManager[Link]:
        if member == AGGREGATOR:
            return self.hub.connect(member)
        place = self._position[member]
        [worker] = [w for s, w in self.workers.items() if s.first <= place <= s.last]
        return worker.connect(member)

    async def joined(self, members: Iterable[PartyId], *, within: float) -> None:
        await self.hub.joined(members, within=within)


def split_shards(switch: Switch, count: int) -> list[Shard]:
    parties = len(switch.exchange.charter.roster.parties)
    ends = [parties * i // count for i in range(count + 1)]
    return [Shard(i + 1, ends[i] + 1, ends[i + 1], os.urandom(SECRET_BYTES)) for i in range(count)]


@asynccontextmanager
async def workers(
    switch: Switch, count: int, certificates: Certificates | None = None
) -> AsyncGenerator[Workers]:
    shards = split_shards(switch, count)
    server = certificates.server(identify(AGGREGATOR)) if certificates else None
    async with (
        open_shards(switch, shards, tls=server) as (hub, port),
        AsyncExitStack() as stack,
    ):
        entered = {}
        for shard in shards:
            client = certificates.client(Identity(shard.name, shard.key)) if certificates else None
            connecting = connect_shard(
                LOOPBACK,
                port,
                charter=switch.exchange.charter,
                shard=shard,
                tls=client,
                limits=switch.limits,
            )
            entered[shard] = await stack.enter_async_context(connecting)
        yield Workers(switch, hub, port, entered)


@pytest.mark.slow
async def test_shards_keep_the_contract() -> None:
    await check_transport(partial(workers, count=1))


@pytest.mark.slow
async def test_shards_over_tls_keep_the_contract(tmp_path: Path) -> None:
    await check_transport(partial(workers, count=7, certificates=Certificates(tmp_path)))


A, B, C, Z = (PartyId(f"party-{i}") for i in (1, 2, 3, 49))


@asynccontextmanager
async def listening(
    certificates: Certificates | None = None, limits: Limits | None = None
) -> AsyncGenerator[tuple[Post, Shard, ShardHub, int]]:
    """A hub of one shard, whose worker has not come."""
    post = Post(limits)
    [shard] = split_shards(post.switch, 1)
    tls = certificates.server(identify(AGGREGATOR)) if certificates else None
    async with open_shards(post.switch, [shard], tls=tls) as (hub, port):
        yield post, shard, hub, port


async def enter(
    port: int, shard: Shard, *, charter: Charter | None = None, tls: ssl.SSLContext | None = None
) -> str:
    """Try to get in; the one line that says why not."""
    with pytest.raises(ConnectionError) as caught:
        async with connect_shard(
            LOOPBACK, port, charter=charter or make_charter(), shard=shard, tls=tls
        ):
            raise AssertionError("it was let in")
    [line] = str(caught.value).splitlines()
    return line


async def recorded(post: Post, hub: ShardHub) -> str:
    """Why the hub refused, once it has; nobody but the refused may have been recorded."""
    with trio.fail_after(HANGS):
        while not hub.refused:
            await trio.testing.wait_all_tasks_blocked(0.01)
        await post.switch.emptied()
    [refused] = [entry for entry in post.entries() if isinstance(entry, Refused)]
    assert refused.link == ""
    return refused.reason


async def test_a_worker_with_another_key() -> None:
    async with listening() as (post, shard, hub, port):
        other = msgspec.structs.replace(shard, key=bytes(SECRET_BYTES))
        # It finds out first: the hub has proved that it has the key.
        assert "the challenge was made with another key" in await enter(port, other)
        assert "ended" in await recorded(post, hub)


async def test_a_proof_by_another_key() -> None:
    async with listening() as (post, shard, hub, port):
        hello = handshake.Hello(VERSION, post.charter.survey_id, shard.name, bytes(32))
        async with await trio.open_tcp_stream(LOOPBACK, port) as wire:
            await wire.send_all(framed(handshake.encode(hello)))
            challenge = handshake.decode(handshake.Challenge, (await wire.receive_some())[4:])
            forged = handshake.Proof(challenge.signature)
            await wire.send_all(framed(handshake.encode(forged)))
            assert b"another key" in await wire.receive_some()
        assert "the proof was made with another key" in await recorded(post, hub)


async def test_an_unknown_worker() -> None:
    async with listening() as (post, shard, hub, port):
        other = msgspec.structs.replace(shard, number=2)
        assert "'worker-2' is not a worker" in await enter(port, other)
        assert "'worker-2' is not a worker" in await recorded(post, hub)


async def test_another_session() -> None:
    async with listening() as (post, shard, hub, port):
        other = msgspec.structs.replace(make_charter(), nonce=b"x" * 16)
        assert "another survey" in await enter(port, shard, charter=other)
        assert "another survey" in await recorded(post, hub)


async def test_a_party_is_no_worker() -> None:
    async with listening() as (post, _, hub, port):
        with pytest.raises(ConnectionError, match="version"):
            async with connect_tcp(LOOPBACK, port, charter=make_charter(), identity=identify(A)):
                raise AssertionError("it was let in")
        assert "version" in await recorded(post, hub)


async def test_a_worker_comes_once() -> None:
    async with listening() as (post, shard, hub, port):
        async with connect_shard(LOOPBACK, port, charter=make_charter(), shard=shard):
            assert "'worker-1' has come already" in await enter(port, shard)
        assert "'worker-1' has come already" in await recorded(post, hub)


async def test_a_worker_without_its_certificate(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    async with listening(certificates) as (post, shard, hub, port):
        tls = certificates.client(identify(A))
        line = await enter(port, shard, tls=tls)
        assert "the certificate names party-1, expected 'worker-1'" in line
        assert "expected 'worker-1'" in await recorded(post, hub)


async def test_strangers_have_a_deadline() -> None:
    async with listening(limits=Limits(handshake=0.2)) as (post, _, hub, port):
        async with await trio.open_tcp_stream(LOOPBACK, port) as wire:
            with trio.fail_after(HANGS):
                assert await wire.receive_some() == b""
        assert "took too long" in await recorded(post, hub)


async def test_parties_are_those_of_the_shard() -> None:
    post = Post(None)
    async with workers(post.switch, 2) as hub:
        first, second = hub.workers.values()
        async with first.connect(A) as a:
            with pytest.raises(ConnectionError, match="'party-1' is not of this shard"):
                async with second.connect(A):
                    raise AssertionError("it was let in")
            # Whatever a worker says of others' parties, its own are cut off for it.
            first.say((49).to_bytes(4, "big"))
            with pytest.raises(trio.EndOfChannel):
                await a.receive()
        assert post.switch.exchange.departed[A] == (
            "lost with worker 1: refused: place: 49 is not of this shard"
        )
        assert Z not in post.switch.exchange.departed


async def test_who_does_not_read_holds_up_nobody_else() -> None:
    post = Post(Limits(mailbox=4, stall=float("inf")))
    async with (
        workers(post.switch, 1) as hub,
        hub.connect(A) as a,
        hub.connect(B) as b,
        hub.connect(C) as c,
        trio.open_nursery() as nursery,
    ):
        nursery.cancel_scope.deadline = trio.current_time() + 60.0
        # C does not read.
        nursery.start_soon(a.send_many, post.parcels(A, C, range(100)))
        await trio.testing.wait_all_tasks_blocked(0.05)
        parcels = post.parcels(B, A, range(100))
        nursery.start_soon(b.send_many, parcels)
        assert [await a.receive() for _ in parcels] == parcels
        assert [post.number(await c.receive()) for _ in range(100)] == list(range(100))
    assert not nursery.cancel_scope.cancelled_caught


async def test_a_worker_that_says_more_than_there_is_room_for() -> None:
    post = Post(Limits(mailbox=4, stall=float("inf")))
    async with (
        workers(post.switch, 1) as hub,
        hub.connect(A) as a,
        hub.connect(C),
        trio.open_nursery() as nursery,
    ):
        nursery.cancel_scope.deadline = trio.current_time() + 10.0
        # It does not count what is under way, and C does not read.
        a.more_room(1000)
        assert a.send_nowait(post.parcels(A, C, range(100))) == 100
        with pytest.raises(trio.EndOfChannel):
            await a.receive()
        assert "more envelopes than there is room for" in post.switch.exchange.departed[A]
    assert not nursery.cancel_scope.cancelled_caught


async def test_a_connection_that_breaks_takes_its_parties_along() -> None:
    post = Post(None)
    async with workers(post.switch, 2) as hub:
        first, second = hub.workers.values()
        async with second.connect(Z) as z, first.connect(A) as a, first.connect(B):
            await a.send_many(post.parcels(A, Z, range(3)))
            assert len([await z.receive() for _ in range(3)]) == 3
            with socket.socket(fileno=os.dup(first._connection._wire.socket.fileno())) as raw:
                raw.shutdown(socket.SHUT_WR)
            assert (await z.receive()).sender == SWITCH
            with pytest.raises(trio.EndOfChannel):
                await a.receive()
            # Whoever speaks or connects now is told so.
            with pytest.raises(trio.BrokenResourceError):
                a.send_nowait(post.parcels(A, B, [0]))
            with pytest.raises(ConnectionError, match="'party-3' is gone"):
                async with first.connect(C):
                    raise AssertionError("it was let in")
            gone = post.switch.exchange.departed
            assert gone[A] == gone[C] == "lost with worker 1: the connection ended"
            assert Z not in gone


async def test_goodbyes_are_heard_one_by_one_and_at_once() -> None:
    post = Post(None)
    async with workers(post.switch, 1) as hub:
        async with hub.connect(A), hub.connect(B):
            pass
        gone = post.switch.exchange.departed
        while len(gone) < 2:
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert dict(gone) == {A: LINK_CLOSED, B: LINK_CLOSED}
    assert gone[C] == LINK_CLOSED
    assert len(gone) == len(post.parties)


async def test_a_worker_that_is_dismissed() -> None:
    post = Post(None)
    async with workers(post.switch, 1) as hub:
        [worker] = hub.workers.values()
        assert not worker.dismissed.is_set()
        hub.hub.dismiss()
        with trio.fail_after(HANGS):
            await worker.dismissed.wait()


async def test_too_much_that_waits_makes_everybody_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transports.shards.worker.WAITING_BYTES", 1000)
    post = Post(None)
    async with workers(post.switch, 1) as hub, hub.connect(A) as a, hub.connect(B) as b:
        parcels = post.parcels(A, B, range(200), bytes(100))
        assert a.send_nowait(parcels[:100]) == 100
        assert a.send_nowait(parcels[100:]) == 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(a.send_many, parcels[100:])
            assert [await b.receive() for _ in parcels] == parcels


async def test_junk_ends_the_link_of_its_party_alone() -> None:
    post = Post(None)
    async with workers(post.switch, 1) as hub, hub.connect(A) as a, hub.connect(B) as b:
        [worker] = hub.workers.values()
        worker.say((1).to_bytes(4, "big") + b"\x93garbage")
        with pytest.raises(trio.EndOfChannel):
            await a.receive()
        parcels = post.parcels(B, C, [0])
        await b.send_many(parcels)
        async with hub.connect(C) as c:
            assert [await c.receive()] == parcels
    [refused] = [entry for entry in post.entries() if isinstance(entry, Refused)]
    assert (refused.link, refused.excerpt) == (A, b"")
    assert "envelope" in refused.reason


@pytest.mark.parametrize("frame", [b"", b"\0\0\1", b"\0\0\0\0\0"])
async def test_a_frame_of_nobody_ends_the_connection(frame: bytes) -> None:
    post = Post(None)
    async with workers(post.switch, 1) as hub, hub.connect(A) as a:
        [worker] = hub.workers.values()
        worker.say(frame)
        with pytest.raises(trio.EndOfChannel):
            await a.receive()
        assert "place" in post.switch.exchange.departed[A]
    [refused] = [entry for entry in post.entries() if isinstance(entry, Refused)]
    assert (refused.link, refused.excerpt) == ("", b"")
    assert refused.reason.startswith("worker-1: place: ")
