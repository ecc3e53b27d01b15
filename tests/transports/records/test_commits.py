"""Output commit: nothing leaves before what it follows from is durable, and syncs are shared."""

from __future__ import annotations

import errno
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from protocol import AGGREGATOR, PartyId
from protocol.session.exchange import Exchange
from protocol.transcript.entries import Delivered, Entry, Sent
from protocol.transcript.header import make_header
from protocol.transcript.log import LOG_SECRET_BYTES
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.receipts import Acknowledgement, receipt_for, receipt_problems
from protocol.transcript.recorder import Recorder
from protocol.wire.codec import encode_envelope
from tests.recorded.checkpointed import checkpoints_of
from tests.transports.lasting.hubs import Lasting, lasting, refusal
from transports.records.commits import Commits
from transports.records.recording import recording
from transports.switch import Switch
from transports.testing import HANGS, Post, identify

A, B = PartyId("party-1"), PartyId("party-2")


class Disk:
    """A disk whose syncs end when the test says so.

    Attributes:
        written: the bytes that were written.
        durable: how many of them had been when the last sync began that has ended.
        syncs: how many have begun.
    """

    def __init__(self, *, slow: bool = False, failure: OSError | None = None) -> None:
        self.written = b""
        self.durable = 0
        self.syncs = 0
        self.failure = failure
        self.go = threading.Semaphore(0 if slow else 1_000_000)

    def write(self, content: bytes) -> None:
        self.written += content

    def sync(self) -> None:
        self.syncs += 1
        size = len(self.written)
        assert self.go.acquire(timeout=HANGS)
        if self.failure is not None:
            raise self.failure
        self.durable = size

    @property
    def entries(self) -> list[Entry]:
        """What is durable."""
        durable = self.written[: self.durable]
        return list(TranscriptReader(durable)) if durable else []

    def delivered(self) -> list[tuple[PartyId, int]]:
        """The senders and numbers of what was delivered."""
        return [(e.sender, e.seq) for e in self.entries if isinstance(e, Delivered)]


@asynccontextmanager
async def durable_hub(disk: Disk) -> AsyncGenerator[tuple[Post, Lasting, Commits]]:
    """A hub whose record is on this disk."""
    post = Post(None)
    recorder = Recorder(
        disk.write,
        make_header(post.charter, transport="check"),
        signer=identify(AGGREGATOR),
        secret=bytes(LOG_SECRET_BYTES),
        acknowledging=True,
    )
    commits = Commits(recorder, disk.sync)
    async with recording(recorder, commits):
        post.switch = Switch(Exchange(post.charter, recorder=recorder))
        async with lasting(post.switch, commits=commits) as hub:
            yield post, hub, commits


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(HANGS):
        while not holds():
            await trio.testing.wait_all_tasks_blocked(0.005)


@pytest.mark.slow
async def test_nothing_leaves_while_a_sync_is_under_way() -> None:
    disk = Disk(slow=True)
    async with (
        durable_hub(disk) as (post, hub, _),
        hub.connect(AGGREGATOR) as asks,
        hub.connect(A) as answers,
    ):
        [asked] = post.parcels(AGGREGATOR, A, (1,))
        await asks.send(asked)
        await until(lambda: disk.syncs > 0)
        with trio.move_on_after(0.1):
            raise AssertionError(await answers.receive())
        # The first sync may have begun before the question was handed over.
        while not disk.delivered():
            disk.go.release()
            await trio.sleep(0.01)
        with trio.fail_after(HANGS):
            assert await answers.receive() == asked
        assert disk.delivered() == [(AGGREGATOR, 0)]
        disk.go.release(1_000_000)


async def test_what_a_party_has_heard_is_durable() -> None:
    disk = Disk()
    async with (
        durable_hub(disk) as (post, hub, _),
        hub.connect(A) as says,
        hub.connect(B) as hears,
    ):
        for number in range(50):
            [said] = post.parcels(A, B, (number,))
            await says.send(said)
            with trio.fail_after(HANGS):
                assert await hears.receive() == said
            assert (A, number) in disk.delivered()
            sent = [entry.envelope for entry in disk.entries if isinstance(entry, Sent)]
            assert encode_envelope(said) in sent


async def test_a_disk_that_fails_ends_the_survey_and_nothing_leaves() -> None:
    disk = Disk(failure=OSError(errno.EIO, "Input/output error"))
    heard = []

    async def ask() -> None:
        async with (
            durable_hub(disk) as (post, hub, _),
            hub.connect(AGGREGATOR) as asks,
            hub.connect(A) as answers,
        ):
            await asks.send(post.parcels(AGGREGATOR, A, (1,))[0])
            heard.append(await answers.receive())

    with pytest.raises(OSError, match="Input/output error"):
        await ask()
    assert (heard, disk.syncs) == ([], 1)


async def test_what_nobody_waits_for_is_made_durable_in_time() -> None:
    disk = Disk()
    async with durable_hub(disk) as (post, hub, commits), hub.connect(A) as says:
        await says.send(post.parcels(A, AGGREGATOR, (1,))[0])
        await until(lambda: len(disk.entries) == 1)
        assert commits.durable == 2


class Counted:
    """A record of which only the size is known."""

    def __init__(self) -> None:
        self.size = 1
        self.flushed = 0

    def flush(self) -> None:
        self.flushed = self.size

    def acknowledge(self) -> Mapping[PartyId, Acknowledgement]:
        return {}


async def test_those_who_wait_share_a_sync() -> None:
    recorder, disk = Counted(), Disk(slow=True)
    commits = Commits(recorder, disk.sync)
    done = []

    async def wait(number: int) -> None:
        recorder.size += 1
        await commits.caught_up()
        assert recorder.flushed >= number
        done.append(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(commits.run)
        nursery.start_soon(wait, 1)
        await until(lambda: disk.syncs == 1)
        for number in range(2, 102):
            nursery.start_soon(wait, number)
        await trio.testing.wait_all_tasks_blocked()
        assert done == []
        disk.go.release()
        await until(lambda: done == [1])
        disk.go.release()
        await until(lambda: len(done) == 101)
        assert disk.syncs == 2
        # Nothing new, so nothing to wait for.
        await commits.caught_up()
        nursery.cancel_scope.cancel()
    assert disk.syncs == 2


@pytest.mark.slow
async def test_what_is_acknowledged_is_durable() -> None:
    disk = Disk(slow=True)
    async with durable_hub(disk) as (post, hub, _), hub.connect(AGGREGATOR), hub.party(A) as says:
        said = post.parcels(A, AGGREGATOR, range(20))
        await says.send_many(said)
        acknowledged = []

        async def wait() -> None:
            acknowledged.append(await says.acknowledged())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            # All of it is with the hub, and the disk is not yet done.
            await until(lambda: post.switch.exchange.accepted(A) == len(said))
            await trio.sleep(0.1)
            assert not acknowledged
            while not acknowledged:
                disk.go.release()
                await trio.sleep(0.02)
                durable = [entry for entry in disk.entries if isinstance(entry, Sent)]
                assert not acknowledged or len(durable) == len(said)
        disk.go.release(1_000_000)
    assert acknowledged == [True]


async def test_a_receipt_is_durable_before_it_leaves() -> None:
    disk = Disk(slow=True)
    async with durable_hub(disk) as (post, hub, _), hub.connect(AGGREGATOR), hub.party(A) as says:
        declined, head = refusal(post.charter, A)
        await says.send_many((declined, head.envelope))
        given: list[Acknowledgement | None] = []

        async def wait() -> None:
            given.append(await says.acknowledgement())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await until(lambda: post.switch.exchange.has_ended(A))
            await trio.sleep(0.1)
            assert not given
            while not given:
                disk.go.release()
                await trio.sleep(0.02)
                found = checkpoints_of(disk.written[: disk.durable]) if disk.durable else []
                if given:
                    [it] = given
                    assert it is not None
                    receipt, checkpoint = receipt_for(
                        post.charter,
                        head,
                        it,
                        said=[encode_envelope(declined)],
                        reports=(),
                    )
                    assert receipt_problems(receipt, checkpoint) == ()
                    assert checkpoint in found
        disk.go.release(1_000_000)


@pytest.mark.slow
async def test_who_comes_back_gets_its_receipt_again() -> None:
    """The same program over another connection, and another program."""
    disk = Disk(slow=True)
    async with durable_hub(disk) as (post, hub, _), hub.connect(AGGREGATOR):
        declined, head = refusal(post.charter, A)
        said = (declined, head.envelope)
        async with hub.party(A) as says:
            await says.send_many(said)
            await until(lambda: post.switch.exchange.has_ended(A))
            hub.road.lose()
            disk.go.release(1_000_000)
            with trio.fail_after(HANGS):
                first = await says.acknowledgement()
            assert first is not None
        async with hub.party(A) as again:
            await again.send_many(said)
            with trio.fail_after(HANGS):
                assert await again.acknowledgement() == first
