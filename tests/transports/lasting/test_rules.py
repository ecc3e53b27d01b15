"""Neither end of a lasting link believes a number that cannot be, or goes on for ever."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
import trio.testing

from protocol import AGGREGATOR, PartyId, RemoteProtocolError
from protocol.transcript.receipts import Acknowledgement
from protocol.wire.codec import ENVELOPE_BYTES, encode_envelope
from transports.background import running
from transports.base import Limits
from transports.connection import Connection
from transports.lasting.frames import (
    Accepted,
    Acknowledged,
    Alive,
    Durable,
    Goodbye,
    Received,
    Replaced,
    encode,
    read_frame,
)
from transports.lasting.hub import GRACE, LastingHub, Line, Visit
from transports.lasting.link import LATE, SOON, LastingLink
from transports.testing import Post, identify

A = PartyId("party-1")
CAP = 1 << 20
PATIENCE = 60.0
FEW = Limits(envelopes=10)
WELCOME = encode(Accepted(0, 0))
ALIVE = encode(Alive())
GIVEN = Acknowledgement(
    size=2,
    root=bytes(32),
    signature=bytes(64),
    index=1,
    at=0,
    salt=bytes(16),
    path=(bytes(32),),
    roster=(),
)
GOODBYE = encode(Goodbye())

StapledMemory = trio.StapledStream[trio.testing.MemorySendStream, trio.testing.MemoryReceiveStream]

Says = Callable[[Connection, int], Awaitable[None]]
"""What a hub does with a connection, given how many there were before."""


class Dialed:
    """How often a party has connected."""

    times = 0


@asynccontextmanager
async def against(
    says: Says, limits: Limits | None = None
) -> AsyncGenerator[tuple[LastingLink, Dialed]]:
    """A party's link to a hub that does as a test says; its clock is the test's."""
    limits = limits or Limits()
    dialed = Dialed()
    async with trio.open_nursery() as nursery:

        async def say(connection: Connection, number: int) -> None:
            await says(connection, number)
            await connection.aclose()

        async def dial(within: float) -> Connection:
            near, far = trio.testing.memory_stream_pair()
            hub = Connection(far, cap=CAP, limits=limits)
            nursery.start_soon(say, hub, dialed.times)
            dialed.times += 1
            return Connection(near, cap=CAP, limits=limits)

        link = LastingLink(dial, A, limits, PATIENCE)

        async def carried() -> None:
            await link.run(await dial(PATIENCE))

        async with running(carried):
            yield link, dialed
        nursery.cancel_scope.cancel()


def saying(*scripts: Sequence[bytes]) -> Says:
    """A hub that says these frames, the last ones again and again; it ends all but the last."""

    async def say(connection: Connection, number: int) -> None:
        await connection.send(scripts[min(number, len(scripts) - 1)])
        if number >= len(scripts) - 1:
            await trio.sleep_forever()

    return say


async def ends_with(says: Says, why: str, limits: Limits | None = None) -> int:
    """How often a party connects until its link ends for that reason."""
    post = Post(None)
    with trio.fail_after(10):
        async with against(says, limits) as (link, dialed):
            with pytest.raises(trio.BrokenResourceError, match=why):
                await link.receive()
            with pytest.raises(trio.BrokenResourceError, match=why):
                await link.send_many(post.parcels(A, AGGREGATOR, [0]))
        return dialed.times


@pytest.mark.parametrize(
    "frames",
    [
        (WELCOME, encode(Durable(1))),
        (WELCOME, encode(Durable(0))),
        (WELCOME, encode(Durable(2**64 - 1))),
        (encode(Accepted(2, 0)), encode(Durable(3))),
        (encode(Accepted(2, 0)), encode(Durable(2)), encode(Durable(1))),
        (encode(Accepted(2, 0)), encode(Durable(2)), encode(Durable(2))),
        (encode(Accepted(1_000_001, 0)),),
        (WELCOME, WELCOME),
        (WELCOME, encode(Received(0))),
        (WELCOME, msgspec.msgpack.encode({"type": "Durable"})),
        (WELCOME, msgspec.msgpack.encode({"type": "Durable", "envelopes": -1})),
        (WELCOME, b""),
        (WELCOME, encode(Acknowledged(GIVEN)), encode(Acknowledged(GIVEN))),
        (WELCOME, encode(Acknowledged(msgspec.structs.replace(GIVEN, salt=bytes(15))))),
        (WELCOME, encode(Acknowledged(msgspec.structs.replace(GIVEN, path=(bytes(32),) * 64)))),
        (encode(Acknowledged(GIVEN)),),
        (encode(Durable(0)),),
        (ALIVE,),
        (GOODBYE,),
    ],
)
async def test_what_no_hub_has_reason_to_say_ends_the_link(
    frames: Sequence[bytes], autojump_clock: object
) -> None:
    assert await ends_with(saying(frames), "broke the rules of the link") == 1


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"", "malformed envelope"),
        (b"?", "malformed envelope"),
        (b"\x90", "malformed envelope"),
        (msgspec.msgpack.encode({"type": "Durable"}), "malformed frame of 14 B"),
        (msgspec.msgpack.encode({"type": "Durable", "envelopes": -1}), "malformed frame of 25 B"),
        (msgspec.msgpack.encode({"type": "Alive", "secret": 1}), "malformed frame of 20 B"),
        (msgspec.msgpack.encode({"type": "secret"}), "malformed frame of 13 B"),
        (encode(Alive()) + b"secret", "malformed frame of 18 B"),
        (b"\x81" * 5000, "malformed frame of 5000 B"),
    ],
)
def test_a_malformed_frame_is_not_quoted(payload: bytes, said: str) -> None:
    with pytest.raises(RemoteProtocolError, match=said) as caught:
        read_frame(payload)
    assert "secret" not in str(caught.value)


async def test_a_hub_may_give_a_receipt_over_every_connection(autojump_clock: object) -> None:
    """The first is kept; without any, all that was said may be durable, and there is none."""
    other = msgspec.structs.replace(GIVEN, at=1)
    script = (encode(Accepted(1, 0)), encode(Durable(1)))
    given = (*script, encode(Acknowledged(GIVEN))), (*script, encode(Acknowledged(other)))
    with trio.fail_after(10):
        async with against(saying(*given, script)) as (link, dialed):
            await link.send_many(Post(None).parcels(A, AGGREGATOR, [0]))
            await trio.sleep(1.0)
            assert dialed.times == 3
            assert await link.acknowledgement() == GIVEN
            link.close()
    with trio.fail_after(10 * PATIENCE):
        async with against(saying(script)) as (link, _):
            await link.send_many(Post(None).parcels(A, AGGREGATOR, [0]))
            assert await link.acknowledged()
            assert await link.acknowledgement() is None
            link.close()


async def test_a_hub_that_keeps_the_rules_is_believed(autojump_clock: object) -> None:
    post = Post(None)
    heard = []

    async def say(connection: Connection, number: int) -> None:
        await connection.send([WELCOME])
        await connection.receive()
        for _ in range(2):
            heard.append(await connection.receive())
        await connection.send([encode(Durable(1)), encode(Durable(2))])
        await trio.sleep_forever()

    said = post.parcels(A, AGGREGATOR, range(2))
    with trio.fail_after(10):
        async with against(say) as (link, _):
            await link.send_many(said)
            assert await link.acknowledged()
    assert heard == [encode_envelope(envelope) for envelope in said]


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ((2, 0), (1, 0), "has begun anew"),
        ((2, 0), (3, 0), "3 accepted, of 2 at most"),
        ((2, 3), (2, 2), None),
    ],
)
async def test_a_count_does_not_change_between_connections(
    first: tuple[int, int], second: tuple[int, int], why: str | None, autojump_clock: object
) -> None:
    says = saying([encode(Accepted(*first)), encode(Durable(2))], [encode(Accepted(*second))])
    if why is None:
        # What was handed over and has not arrived may be lost: nobody has acted on it.
        with pytest.raises(trio.TooSlowError):
            await ends_with(says, "never")
    else:
        assert await ends_with(says, why) == 2


async def test_what_was_accepted_and_not_acknowledged_is_said_again(
    autojump_clock: object,
) -> None:
    post = Post(None)
    heard: list[list[bytes]] = []
    counts = [0, 2, 1]

    async def say(connection: Connection, number: int) -> None:
        await connection.send([encode(Accepted(counts[number], 0))])
        await connection.receive()
        heard.append([])
        for _ in range(2 - counts[number]):
            heard[-1].append(await connection.receive())
        if number == 0:
            await connection.send([encode(Durable(1))])
        elif number == 2:
            await connection.send([encode(Durable(2))])
            await trio.sleep_forever()

    said = post.parcels(A, AGGREGATOR, range(2))
    first, second = (encode_envelope(envelope) for envelope in said)
    with trio.fail_after(30):
        async with against(say) as (link, _):
            await link.send_many(said)
            assert await link.acknowledged()
    assert heard == [[first, second], [], [second]]


async def test_who_is_replaced_before_it_has_begun_does_not_come_back(
    autojump_clock: object,
) -> None:
    assert await ends_with(saying([encode(Replaced())]), "another program") == 1


async def test_a_hub_says_only_so_often_that_it_is_there(autojump_clock: object) -> None:
    frames = [WELCOME, *[ALIVE] * FEW.envelopes]
    assert await ends_with(saying([*frames, ALIVE]), "broke the rules", FEW) == 1
    with pytest.raises(trio.TooSlowError):
        await ends_with(saying(frames), "broke the rules", FEW)


@pytest.mark.parametrize("frames", [(), (WELCOME,), (WELCOME, ALIVE)])
async def test_a_hub_that_ends_each_connection_wears_out_patience(
    frames: Sequence[bytes], autojump_clock: object
) -> None:
    async def say(connection: Connection, number: int) -> None:
        await connection.send(frames)

    began = trio.current_time()
    with trio.fail_after(10 * PATIENCE):
        async with against(say) as (link, dialed):
            with pytest.raises(trio.BrokenResourceError, match="the connection ended"):
                await link.receive()
    assert trio.current_time() - began == pytest.approx(PATIENCE)
    # The pauses double from a tenth of a second on, and are drawn from the longer half.
    assert dialed.times <= 10 + 2 * PATIENCE / LATE


async def test_a_connection_by_which_something_comes_is_made_again_at_once(
    autojump_clock: object,
) -> None:
    post = Post(None)
    parcels = post.parcels(AGGREGATOR, A, range(100))

    async def say(connection: Connection, number: int) -> None:
        await connection.send([encode(Accepted(0, number + 1))])
        await connection.send([encode_envelope(parcels[number])])

    began = trio.current_time()
    async with against(say) as (link, _):
        assert [await link.receive() for _ in parcels] == parcels
    assert trio.current_time() == began


async def test_a_connection_that_lasts_is_no_try_that_failed(autojump_clock: object) -> None:
    limits = Limits()

    async def say(connection: Connection, number: int) -> None:
        await connection.send([WELCOME])
        await trio.sleep(limits.alive + 1)

    async with against(say) as (link, dialed):
        with trio.move_on_after(100 * PATIENCE):
            await link.receive()
        assert link.why is None
    assert dialed.times == pytest.approx(100 * PATIENCE / (limits.alive + 1), abs=2)


async def test_a_hub_that_is_there_and_acknowledges_nothing_is_left(
    autojump_clock: object,
) -> None:
    post = Post(None)
    limits = Limits()

    async def say(connection: Connection, number: int) -> None:
        await connection.send([WELCOME])
        while True:
            await trio.sleep(limits.alive)
            await connection.send([ALIVE])

    async with against(say) as (link, _):
        await link.send_many(post.parcels(A, AGGREGATOR, [0]))
        began = trio.current_time()
        assert not await link.acknowledged()
        assert trio.current_time() - began == pytest.approx(max(PATIENCE, limits.goodbye))


class Visited:
    """A party's line at a hub, whose connections are the test's.

    Attributes:
        line: what the hub knows of the party.
        port: what has come for the aggregator.
    """

    def __init__(self, post: Post, nursery: trio.Nursery) -> None:
        self.switch = post.switch
        self._limits = post.switch.limits
        self._nursery = nursery
        self.hub = LastingHub(post.switch, identify(AGGREGATOR))
        self.line = Line(self.hub, post.switch, A)
        self.port = post.switch.attach(AGGREGATOR)
        self._wires: list[StapledMemory] = []

    def visit(self, *, mute: bool = False) -> Connection:
        """The party's end of a new connection; a mute hub's words get stuck after the first."""
        near, far = trio.testing.memory_stream_pair()
        if mute:
            _stuck_after_one(far)
        self._wires += near, far
        visit = Visit(self.line)
        visit.enter()
        self._nursery.start_soon(visit.carry, Connection(far, cap=CAP, limits=self._limits))
        return Connection(near, cap=CAP, limits=self._limits)

    def silence(self) -> None:
        """Nothing arrives any more by the connections so far, and nobody is told."""
        for wire in self._wires:
            wire.send_stream.send_all_hook = wire.send_stream.close_hook = None


def _stuck_after_one(wire: StapledMemory) -> None:
    """Have a stream carry one write and keep the next."""
    pump = wire.send_stream.send_all_hook
    assert pump is not None
    writes = [pump]

    async def hook() -> None:
        await (writes.pop() if writes else trio.sleep_forever)()

    wire.send_stream.send_all_hook = hook


@asynccontextmanager
async def visited(post: Post) -> AsyncGenerator[Visited]:
    with trio.fail_after(3600):
        async with trio.open_nursery() as nursery:
            yield Visited(post, nursery)
            nursery.cancel_scope.cancel()


async def test_who_has_received_more_than_there_was_is_lost(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transports.lasting.hub.KEPT_BYTES", 0)
    post = Post(Limits(mailbox=1))
    async with visited(post) as at:
        at.hub.keep(1)
        liar = at.visit()
        assert await liar.receive() == WELCOME
        await liar.send([encode(Received(2**64 - 1))])
        with pytest.raises(trio.EndOfChannel):
            await liar.receive()
        assert A not in post.switch.exchange.departed
        [parcel] = post.parcels(AGGREGATOR, A, [0])
        post.switch.relay_nowait(AGGREGATOR, [parcel])
        again = at.visit()
        await again.receive()
        await again.send([encode(Received(0))])
        assert await again.receive() == encode_envelope(parcel)


async def test_a_party_says_only_so_often_that_it_is_there(autojump_clock: object) -> None:
    post = Post(FEW)
    async with visited(post) as at:
        for _ in range(2):
            party = at.visit()
            await party.receive()
            await party.send([encode(Received(0)), *[ALIVE] * (FEW.envelopes // 2)])
            await trio.testing.wait_all_tasks_blocked()
            assert A not in post.switch.exchange.departed
        await party.send([ALIVE])
        while (said := await party.receive()) == ALIVE:
            pass
        assert said == GOODBYE
    assert post.switch.exchange.departed[A].startswith("refused: link: it has said more than 10")


async def test_a_party_that_says_that_it_is_there_is_told_the_same_at_once(
    autojump_clock: object,
) -> None:
    post = Post(None)
    async with visited(post) as at:
        party = at.visit()
        await party.receive()
        await party.send([encode(Received(0))])
        for _ in range(3):
            await trio.sleep(1.0)
            began = trio.current_time()
            await party.send([ALIVE])
            assert await party.receive() == ALIVE
            assert trio.current_time() == began
        # Nobody answers an answer.
        with trio.move_on_after(Limits().alive - 1.0) as waited:
            await party.receive()
        assert waited.cancelled_caught


async def test_small_deliveries_are_kept_at_the_size_that_they_take(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transports.lasting.hub.KEPT_BYTES", 20 * ENVELOPE_BYTES)
    post = Post(Limits(mailbox=4))
    async with visited(post) as at:
        party = at.visit()
        await party.receive()
        await party.send([encode(Received(0))])
        for parcel in post.parcels(AGGREGATOR, A, range(40)):
            post.switch.relay_nowait(AGGREGATOR, [parcel])
            assert await party.receive() == encode_envelope(parcel)
        assert at.line.end == 40
        assert at.line.first() >= 20


async def test_a_party_that_reads_nothing_is_handed_nothing_more(autojump_clock: object) -> None:
    post = Post(Limits(write=1))
    async with visited(post) as at:
        party = at.visit(mute=True)
        for parcel in post.parcels(AGGREGATOR, A, range(20)):
            post.switch.relay_nowait(AGGREGATOR, [parcel])
        for _ in range(10):
            await party.receive()
            await party.send([encode(Received(0))])
            await trio.testing.wait_all_tasks_blocked()
            party = at.visit(mute=True)
        assert at.line.end == 1


async def test_a_party_that_comes_and_goes_and_reads_nothing_is_given_up(
    autojump_clock: object,
) -> None:
    post = Post(None)

    async def come_and_go(at: Visited) -> None:
        while True:
            party = at.visit()
            await party.receive()
            await party.send([encode(Received(0))])
            await trio.sleep(1.0)
            await party.aclose()
            await trio.sleep(1.0)

    async with visited(post) as at, running(at.hub.watch):
        post.switch.relay_nowait(AGGREGATOR, post.parcels(AGGREGATOR, A, [0]))
        began = trio.current_time()
        with pytest.raises(RemoteProtocolError, match="has left this session"):
            await come_and_go(at)
        assert GRACE <= trio.current_time() - began <= GRACE + 5.0


async def test_a_party_that_loses_its_connection_now_and_then_is_not_given_up(
    autojump_clock: object,
) -> None:
    post = Post(None)
    async with visited(post) as at, running(at.hub.watch):
        for number in range(20):
            for _ in range(2):
                # Once there is something for it, and once it has only waited.
                party = at.visit()
                await party.receive()
                await party.send([encode(Received(number))])
                await trio.sleep(post.switch.limits.alive)
                await party.aclose()
                await trio.sleep(GRACE - 1)
            post.switch.relay_nowait(AGGREGATOR, post.parcels(AGGREGATOR, A, [number]))
            party = at.visit()
            await party.receive()
            await party.send([encode(Received(number))])
            await party.receive()
            await party.aclose()
        assert A not in post.switch.exchange.departed


async def test_a_short_connection_after_a_long_one_has_its_own_grace(
    autojump_clock: object,
) -> None:
    post = Post(None)
    async with visited(post) as at, running(at.hub.watch):
        for lasts in (1.0, 10 * GRACE, 1.0):
            # The second is not lost, but replaced.
            party = at.visit()
            await party.receive()
            await party.send([encode(Received(0))])
            await trio.sleep(lasts)
            if lasts == 1.0:
                await party.aclose()
        await trio.sleep(GRACE - 1)
        assert A not in post.switch.exchange.departed
        await trio.sleep(2)
        assert A in post.switch.exchange.departed


async def test_who_was_lost_and_is_back_has_come(autojump_clock: object) -> None:
    post = Post(None)
    async with visited(post) as at:
        await at.visit().aclose()
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(1.0):
            await post.switch.joined([A], within=60.0)
            raise AssertionError("it is lost")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(joined, post, 60.0)
            await trio.testing.wait_all_tasks_blocked()
            at.visit()
        assert A not in post.switch.exchange.departed


async def joined(post: Post, within: float) -> None:
    await post.switch.joined([A], within=within)


async def test_nothing_is_kept_for_who_is_cut_off(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transports.lasting.hub.KEPT_BYTES", 0)
    post = Post(None)
    async with visited(post) as at:
        party = at.visit()
        await party.receive()
        await party.send([encode(Received(0))])
        post.switch.relay_nowait(AGGREGATOR, post.parcels(AGGREGATOR, A, [0]))
        await party.receive()
        assert at.hub.crowded
        await party.send([b"?"])
        await trio.testing.wait_all_tasks_blocked()
        assert A in post.switch.exchange.departed
        assert not at.hub.crowded


async def test_connections_that_are_over_are_forgotten(autojump_clock: object) -> None:
    post = Post(None)
    async with visited(post) as at:
        for _ in range(10):
            visit = Visit(at.line)
            visit.enter()
            visit.leave("it broke")
        assert visit.before is None


WAITING = Limits(idle=60.0)
"""Limits of a deployed survey: three signs of life in the longest silence."""


@asynccontextmanager
async def linked(at: Visited) -> AsyncGenerator[tuple[LastingLink, list[float]]]:
    """A party's link to a hub, both as they are, and when it has connected."""
    dialed: list[float] = []

    async def dial(within: float) -> Connection:
        dialed.append(trio.current_time())
        return at.visit()

    link = LastingLink(dial, A, WAITING, PATIENCE)

    async def carried() -> None:
        await link.run(await dial(PATIENCE))

    async with running(carried, at.hub.watch):
        yield link, dialed


async def test_a_link_by_which_nothing_is_said_stays_up(autojump_clock: object) -> None:
    """Both ends wait far longer than a silence may last: each says that it is there."""
    post = Post(WAITING)
    async with visited(post) as at, linked(at) as (link, dialed):
        await trio.sleep(20 * WAITING.idle)
        assert len(dialed) == 1
        asked, answer = post.parcels(AGGREGATOR, A, [1]), post.parcels(A, AGGREGATOR, [2])
        post.switch.relay_nowait(AGGREGATOR, asked)
        assert await link.receive() == asked[0]
        await link.send_many(answer)
        assert await link.acknowledged()
        assert [each.envelope for each in at.port.take_nowait()] == answer
        assert len(dialed) == 1
        link.close()


async def test_a_half_open_link_on_which_both_wait_is_made_again(autojump_clock: object) -> None:
    post = Post(WAITING)
    async with visited(post) as at, linked(at) as (link, dialed):
        await trio.sleep(10 * WAITING.idle)
        assert len(dialed) == 1
        at.silence()
        began = trio.current_time()
        await trio.sleep(WAITING.idle + 1.0)
        assert len(dialed) == 2
        assert WAITING.idle - WAITING.alive <= dialed[1] - began <= WAITING.idle
        asked = post.parcels(AGGREGATOR, A, [1])
        post.switch.relay_nowait(AGGREGATOR, asked)
        assert await link.receive() == asked[0]
        link.close()


async def test_a_party_that_falls_silent_while_the_hub_waits_is_given_up(
    autojump_clock: object,
) -> None:
    post = Post(WAITING)
    async with visited(post) as at:
        async with linked(at) as (link, dialed):
            await trio.sleep(10 * WAITING.idle)
            assert len(dialed) == 1
            at.silence()
            began = trio.current_time()
            link.close()
        async with running(at.hub.watch):
            await trio.sleep_until(began + WAITING.idle - WAITING.alive + GRACE - 1.0)
            assert A not in post.switch.exchange.departed
            await trio.sleep_until(began + WAITING.idle + GRACE + 1.0)
            assert post.switch.exchange.departed == {A: "silent for too long"}


async def test_parties_that_lose_their_hub_together_do_not_come_back_together(
    autojump_clock: object,
) -> None:
    dialed: list[list[float]] = []

    async def come_back() -> None:
        mine: list[float] = []
        dialed.append(mine)

        async def say(connection: Connection, number: int) -> None:
            mine.append(trio.current_time())

        async with against(say) as (link, _):
            with pytest.raises(trio.BrokenResourceError):
                await link.receive()

    random.seed(1)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(come_back)
    # The first try is at once, and the last pause ends with their patience, which is the same.
    assert {at for mine in dialed for at in mine[:2]} == {began}
    again = [at for mine in dialed for at in mine[2:] if at < began + PATIENCE]
    assert len(again) > 20 * 8
    assert len({*again}) == len(again)
    pauses = [mine[2] - began for mine in dialed]
    assert SOON / 2 <= min(pauses) < 0.6 * SOON < 0.9 * SOON < max(pauses) <= SOON
