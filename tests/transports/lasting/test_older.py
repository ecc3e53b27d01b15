"""A hub is shown what its parties hold of its record, and shows that it still has it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from msgspec.structs import replace

from protocol import AGGREGATOR, PartyId, RemoteProtocolError
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.roster import Identity
from protocol.session.terms import attempt_at
from protocol.transcript.checkpoints import SignedCheckpoint, sign_checkpoint
from protocol.transcript.consistency import Consistency, consistency_problems
from protocol.transcript.header import make_header
from protocol.transcript.log import LOG_SECRET_BYTES
from protocol.transcript.receipts import Shown
from protocol.transcript.recorder import Recorder
from tests.live import LOOPBACK
from transports.base import Limits
from transports.dialing import TurnedAwayError
from transports.handshake import Hello
from transports.lasting.hub import open_lasting
from transports.lasting.link import LastingLink, connect_lasting
from transports.lasting.older import OlderRecordError, checkpoint_in
from transports.records.commits import Commits
from transports.records.recording import recording
from transports.switch import Switch
from transports.testing import HANGS, Post, identify, make_charter

A = PartyId("party-1")


def signed(
    size: int, root: bytes, *, attempt: int = 1, by: PartyId = AGGREGATOR
) -> SignedCheckpoint:
    """What somebody has signed of a record of the survey."""
    session = attempt_at(make_charter().session, attempt)
    return sign_checkpoint(identify(by), session=session, size=size, root=root)


class Holding:
    """A party that holds a checkpoint, and notes what it is shown."""

    def __init__(self, held: SignedCheckpoint | None) -> None:
        self.held = held
        self.shown: list[tuple[Consistency | None, Shown | None]] = []
        self.told = trio.Event()

    def newest(self) -> SignedCheckpoint | None:
        return self.held

    def missing(self, log: Consistency | None, restored: Shown | None) -> str | None:
        self.shown.append((log, restored))
        self.told.set()
        if self.held is None or (log is not None and not consistency_problems(log, self.held)):
            return None
        return None if restored is not None else "it is older"


class Recorded:
    """A hub whose record is in memory."""

    def __init__(self, port: int, recorder: Recorder, charter: Charter) -> None:
        self.port = port
        self.recorder = recorder
        self._charter = charter

    @asynccontextmanager
    async def link(self, holding: Holding) -> AsyncGenerator[LastingLink]:
        connected = connect_lasting(
            LOOPBACK,
            self.port,
            charter=self._charter,
            identity=identify(A),
            holding=holding,
            join=lambda attempt: None,
            patience=5.0,
        )
        async with connected as link:
            yield link

    def checkpoint(self) -> SignedCheckpoint:
        """The record's last."""
        last = self.recorder.checkpoint
        assert last is not None
        return last


@asynccontextmanager
async def recorded(attempt: int = 1) -> AsyncGenerator[Recorded]:
    post = Post(None)
    charter = post.charter.again(attempt)
    recorder = Recorder(
        lambda content: None,
        make_header(charter, transport="check"),
        signer=identify(AGGREGATOR),
        secret=bytes(LOG_SECRET_BYTES),
        acknowledging=True,
    )
    commits = Commits(recorder, lambda: None)
    with trio.fail_after(HANGS):
        async with recording(recorder, commits):
            switch = Switch(Exchange(charter, recorder=recorder), Limits())
            opened = open_lasting(switch, identify(AGGREGATOR), commits=commits)
            async with opened as (_, port):
                yield Recorded(port, recorder, charter)


async def test_a_record_that_has_grown_shows_that_it_extends_it() -> None:
    async with recorded() as hub:
        holding = Holding(hub.checkpoint())
        hub.recorder.refused("", "somebody", b"", now=0.0)
        async with hub.link(holding) as link:
            await holding.told.wait()
            assert link.why is None
        [(log, restored)] = holding.shown
        assert log is not None
        assert (log.old, restored) == (1, None)
        assert consistency_problems(log, hub.checkpoint()) == ()


async def test_who_holds_nothing_is_shown_nothing() -> None:
    async with recorded() as hub:
        holding = Holding(None)
        async with hub.link(holding):
            await holding.told.wait()
        assert holding.shown == [(None, None)]


@pytest.mark.parametrize("size", [1, 2, 1000])
async def test_an_older_record_ends_the_hub_by_name(size: int) -> None:
    holding = Holding(signed(size, bytes(32)))

    async def comes() -> None:
        async with recorded() as hub, hub.link(holding) as link:
            with pytest.raises(trio.BrokenResourceError, match="it is older"):
                await link.receive()
            await trio.sleep_forever()

    with pytest.raises(OlderRecordError, match="older than what 'party-1' holds") as raised:
        await comes()
    [(log, restored)] = holding.shown
    assert log is not None
    assert (raised.value.held, raised.value.own) == (holding.held, log.later)
    assert (log.later.size, restored) == (1, None)


async def test_so_does_one_who_has_left_by_the_record() -> None:
    holding = Holding(signed(1000, bytes(32)))

    async def comes() -> None:
        async with recorded() as hub:
            async with hub.link(Holding(None)):
                pass
            with pytest.raises(TurnedAwayError, match="older than what 'party-1' holds"):
                async with hub.link(holding):
                    raise AssertionError("it was let in")
            await trio.sleep_forever()

    with pytest.raises(OlderRecordError, match="older than what 'party-1' holds"):
        await comes()


async def test_so_does_one_of_a_later_attempt() -> None:
    """The party comes no further itself: it does not go back."""
    holding = Holding(signed(10, bytes(32), attempt=3))

    async def comes() -> None:
        async with recorded(attempt=2) as hub, hub.link(holding):
            await trio.sleep_forever()

    with pytest.raises(OlderRecordError, match="in attempt 3, which is not begun here") as raised:
        await comes()
    assert raised.value.own is None


async def test_what_is_held_of_an_earlier_attempt_is_passed_over() -> None:
    holding = Holding(signed(10, bytes(32)))
    async with recorded(attempt=2) as hub:
        with pytest.raises(trio.BrokenResourceError, match="it is older"):
            async with hub.link(holding) as link:
                await link.receive()
        assert holding.shown == [(None, None)]


async def test_a_record_that_was_restored_shows_that() -> None:
    holding = Holding(signed(1000, bytes(32)))
    async with recorded() as hub:
        hub.recorder.restore(now=0.0)
        async with hub.link(holding) as link:
            await holding.told.wait()
            assert link.why is None
        [(_, restored)] = holding.shown
        assert restored is not None
        assert restored.is_in(hub.checkpoint())


FORGED: list[tuple[SignedCheckpoint, str]] = [
    (signed(10, bytes(32), by=A), "has not signed"),
    (replace(signed(10, bytes(32)), root=bytes([1]) * 32), "has not signed"),
    (
        sign_checkpoint(identify(AGGREGATOR), session=bytes(32), size=10, root=bytes(32)),
        "of another survey",
    ),
]


@pytest.mark.parametrize(("held", "why"), FORGED)
async def test_nobody_ends_a_hub_by_what_it_has_not_signed(
    held: SignedCheckpoint, why: str
) -> None:
    async with recorded() as hub:
        with pytest.raises(TurnedAwayError, match=why):
            async with hub.link(Holding(held)):
                raise AssertionError("it was let in")
        async with hub.link(Holding(hub.checkpoint())) as link:
            await trio.sleep(0.05)
            assert link.why is None


def test_a_key_that_is_not_the_aggregators_signs_nothing() -> None:
    charter = make_charter()
    other = Identity(AGGREGATOR, bytes([7]) * 32)
    held = sign_checkpoint(other, session=charter.session, size=9, root=bytes(32))
    hello = Hello("", charter.survey_id, A, bytes(32), held)
    with pytest.raises(RemoteProtocolError, match="has not signed"):
        checkpoint_in(hello, charter)
