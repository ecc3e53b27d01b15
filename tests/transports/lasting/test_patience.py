"""A party goes for so long without a sign of life of its hub, and for no longer."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from protocol import AGGREGATOR, PartyId
from tests.live import LOOPBACK, Certificates
from transports.base import Limits
from transports.connection import Connection
from transports.dialing import BESIDE, StrangerError, TurnedAwayError, race
from transports.lasting import link as lasting_link
from transports.lasting.frames import Accepted, Alive, encode, read_frame
from transports.lasting.hub import LastingHub, Line, Visit, open_lasting
from transports.lasting.link import LastingLink, connect_lasting
from transports.testing import HANGS, Post, identify, make_charter

A = PartyId("party-1")
CAP = 1 << 20
LONGER = 5.0
"""How much longer than its patience a party may take, in seconds."""

PATIENCES = (0.0, 0.3, 3.0, 40.0, 300.0)

StapledMemory = trio.StapledStream[trio.testing.MemorySendStream, trio.testing.MemoryReceiveStream]
Hub = Callable[[StapledMemory], Awaitable[None]]
"""What is at the other end of a connection."""


class Party:
    """When a party has connected."""

    def __init__(self) -> None:
        self.dialed: list[float] = []


@asynccontextmanager
async def party(
    hub: Hub, patience: float, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[tuple[Party, LastingLink]]:
    """A party's link over connections that are made in memory, without TLS and handshake."""
    found = Party()
    async with trio.open_nursery() as nursery:

        async def dial(
            address: str, port: int, enter: object, *, within: float, limits: Limits, tls: object
        ) -> tuple[Connection, None]:
            found.dialed.append(trio.current_time())
            near, far = trio.testing.memory_stream_pair()
            nursery.start_soon(hub, far)
            return Connection(near, cap=CAP, limits=limits, patient=True), None

        with monkeypatch.context() as patched:
            patched.setattr(lasting_link, "dial", dial)
            connected = connect_lasting(
                LOOPBACK,
                1,
                charter=make_charter(),
                identity=identify(A),
                limits=Limits(idle=60.0),
                patience=patience,
            )
            async with connected as link:
                yield found, link
        nursery.cancel_scope.cancel()


async def _forever(stream: StapledMemory) -> None:
    await trio.sleep_forever()


def welcoming(then: Hub, first: Sequence[bytes] = ()) -> Hub:
    """A hub that goes on with a link, and then does something else."""

    async def hub(stream: StapledMemory) -> None:
        there = Connection(stream, cap=CAP, limits=Limits())
        await there.send([encode(Accepted(0, 0)), *first])
        await there.receive()
        await then(stream)

    return hub


async def _ends(link: LastingLink) -> str:
    with pytest.raises(trio.BrokenResourceError) as caught:
        await link.receive()
    return str(caught.value)


@pytest.mark.parametrize("patience", PATIENCES)
@pytest.mark.parametrize(
    "hub",
    [_forever, welcoming(_forever), welcoming(_forever, [encode(Alive())])],
    ids=["nothing", "welcomes", "one sign"],
)
async def test_a_hub_that_falls_silent_is_given_up_in_time(
    patience: float, hub: Hub, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it has said before, it takes the next connection and goes silent as before."""
    with trio.fail_after(10_000):
        async with party(hub, patience, monkeypatch) as (found, link):
            began = trio.current_time()
            assert "silent for too long" in await _ends(link)
            took = trio.current_time() - began
            assert isinstance(link.lost, ConnectionError)
            # One that goes silent each time is tried again, as long as there is time.
            assert took <= 2 * patience + 2 * LONGER
            assert len(found.dialed) >= 2


@pytest.mark.parametrize("patience", PATIENCES)
async def test_a_hub_that_is_gone_is_given_up_in_time(
    patience: float, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen hub: its system takes connections, and nobody says a word."""
    frozen, signs = trio.Event(), [0.0]

    async def hub(stream: StapledMemory) -> None:
        if frozen.is_set():
            await trio.sleep_forever()
        there = Connection(stream, cap=CAP, limits=Limits())
        await there.send([encode(Accepted(0, 0))])
        while not frozen.is_set():
            frame = read_frame(await there.receive())
            if isinstance(frame, Alive) and not frozen.is_set():
                await there.send([encode(Alive())])
                signs.append(trio.current_time())
        await trio.sleep_forever()

    with trio.fail_after(100_000):
        async with party(hub, patience, monkeypatch) as (found, link):
            await trio.sleep(10 * patience + 7.3)
            assert link.why is None
            assert len(found.dialed) == 1
            frozen.set()
            assert "silent for too long" in await _ends(link)
            took = trio.current_time() - max(signs)
            assert patience <= took <= patience + LONGER


@pytest.mark.parametrize("patience", PATIENCES)
async def test_a_hub_that_is_gone_before_it_acknowledges_is_given_up_in_time(
    patience: float, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    async def hub(stream: StapledMemory) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            await welcoming(_forever)(stream)
        await trio.sleep_forever()

    with trio.fail_after(10_000):
        async with party(hub, patience, monkeypatch) as (_, link):
            began = trio.current_time()
            await link.send_many(Post(None).parcels(A, AGGREGATOR, [0]))
            assert await link.acknowledgement() is None
            assert patience <= trio.current_time() - began <= patience + LONGER
    assert trio.current_time() - began <= patience + LONGER


@pytest.mark.parametrize("patience", PATIENCES)
async def test_a_deaf_hub_is_given_up_in_time(
    patience: float, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads nothing any more."""
    calls = 0

    async def hub(stream: StapledMemory) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            there = Connection(stream, cap=CAP, limits=Limits())
            await there.send([encode(Accepted(0, 0))])
            await there.receive()
        await trio.sleep_forever()

    with trio.fail_after(10_000):
        async with party(hub, patience, monkeypatch) as (_, link):
            began = trio.current_time()
            await link.send_many(Post(None).parcels(A, AGGREGATOR, range(50)))
            await _ends(link)
            assert trio.current_time() - began <= patience + LONGER


@pytest.mark.parametrize("patience", [3.0, 40.0])
async def test_a_hub_that_is_alive_and_says_nothing_more_is_waited_for(
    patience: float, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub is a real one. A survey takes far longer than patience."""
    post = Post(Limits(idle=60.0))
    hub = LastingHub(post.switch, identify(AGGREGATOR))
    line = Line(hub, post.switch, A)
    post.switch.attach(AGGREGATOR)

    async def real(stream: StapledMemory) -> None:
        visit = Visit(line)
        visit.enter()
        await visit.carry(Connection(stream, cap=CAP, limits=post.switch.limits))

    with trio.fail_after(100_000):
        async with party(real, patience, monkeypatch) as (found, link):
            await trio.sleep(400 * patience)
            assert len(found.dialed) == 1
            asked = post.parcels(AGGREGATOR, A, [1])
            post.switch.relay_nowait(AGGREGATOR, asked)
            assert await link.receive() == asked[0]
            link.close()


async def test_a_party_that_comes_back_late_has_time_to_hear_the_hub(
    autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last try succeeds, and the survey goes on."""
    post = Post(Limits(idle=60.0))
    hub = LastingHub(post.switch, identify(AGGREGATOR), grace=1000.0)
    line = Line(hub, post.switch, A)
    post.switch.attach(AGGREGATOR)
    patience = 300.0
    began = trio.current_time()
    lost, back = began + 20.0, began + 20.0 + patience - 1.0

    async def real(stream: StapledMemory) -> None:
        if lost <= trio.current_time() < back:
            await stream.aclose()
            return
        visit = Visit(line)
        visit.enter()
        with trio.move_on_at(lost if trio.current_time() < lost else math.inf):
            await visit.carry(Connection(stream, cap=CAP, limits=post.switch.limits))
        await stream.aclose()

    with trio.fail_after(100_000):
        async with party(real, patience, monkeypatch) as (found, link):
            await trio.sleep(2000.0)
            assert link.why is None
            assert found.dialed[-1] >= back
            link.close()


# From the first connection to the welcome


@asynccontextmanager
async def silent_host() -> AsyncGenerator[int]:
    """A port at which connections are taken, and nobody says a word."""
    [listener] = await trio.open_tcp_listeners(0, host=LOOPBACK)
    async with listener:
        yield listener.socket.getsockname()[1]


@pytest.mark.parametrize("patience", [0.0, 1.0])
@pytest.mark.parametrize("secured", [False, True])
async def test_a_hub_that_hangs_in_the_handshake_is_given_up_in_time(
    patience: float, secured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By sockets: the clock is the system's, and the last try is cut short."""
    monkeypatch.setattr(lasting_link, "LAST", 0.5)
    tls = Certificates(tmp_path).client(identify(A)) if secured else None
    found = "takes connections and says nothing" if secured else "no welcome in time"
    with trio.fail_after(HANGS):
        async with silent_host() as port:
            with pytest.raises(ConnectionError, match=found):
                async with connect_lasting(
                    LOOPBACK,
                    port,
                    charter=make_charter(),
                    identity=identify(A),
                    tls=tls,
                    patience=patience,
                ):
                    raise AssertionError("it was let in")


async def test_a_name_of_which_one_address_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The aggregator is at the second address of its name."""
    post = Post(None)
    monkeypatch.setattr("transports.dialing.BESIDE", 0.2)

    async def found(host: str, port: int, *, within: float) -> Sequence[str]:
        assert host == "aggregator.example"
        return "127.0.0.2", LOOPBACK

    monkeypatch.setattr(lasting_link, "resolve_addresses", found)
    with trio.fail_after(HANGS):
        async with (
            open_lasting(post.switch, identify(AGGREGATOR)) as (hub, port),
            hub.connect(AGGREGATOR) as aggregator,
        ):
            [silent] = await trio.open_tcp_listeners(port, host="127.0.0.2")
            connected = connect_lasting(
                "aggregator.example", port, charter=make_charter(), identity=identify(A)
            )
            async with silent, connected as link:
                asked = post.parcels(AGGREGATOR, A, [1])
                await aggregator.send_many(asked)
                assert await link.receive() == asked[0]


# Which of several connections


class Dialers:
    """Connections that do as a test says, by their number."""

    def __init__(self, *delays: float | Exception) -> None:
        self.delays = delays
        self.began: list[tuple[float, str]] = []
        self.ended: list[str] = []

    async def contend(self, address: str, alone: Callable[[], None]) -> Connection:
        number = len(self.began)
        self.began.append((trio.current_time(), address))
        what = self.delays[min(number, len(self.delays) - 1)]
        try:
            if isinstance(what, Exception):
                raise what
            await trio.sleep(what)
            alone()
            await trio.sleep(BESIDE)
            near, _ = trio.testing.memory_stream_pair()
            return Connection(near, cap=CAP, limits=Limits())
        finally:
            self.ended.append(address)


async def test_another_connection_is_tried_beside_one_that_hangs(autojump_clock: object) -> None:
    began = trio.current_time()
    for addresses, tried in (("a",), "aa"), (("a", "b", "c"), "ab"):
        dialers = Dialers(math.inf, 1.0)
        start = trio.current_time()
        await race(addresses, dialers.contend)
        assert "".join(address for _, address in dialers.began) == tried
        assert [at - start for at, _ in dialers.began] == [0.0, BESIDE]
        assert trio.current_time() - start == pytest.approx(BESIDE + 1.0 + BESIDE)
        assert len(dialers.ended) == 2
    assert trio.current_time() > began


async def test_who_is_challenged_goes_on_alone(autojump_clock: object) -> None:
    """The slow one is challenged while the other one waits: that one never proves anything."""
    dialers = Dialers(BESIDE + 1.0, 0.5)
    with trio.fail_after(100):
        await race(["a", "b"], dialers.contend)
    assert dialers.ended == ["a", "b"]
    dialers = Dialers(BESIDE + 0.5, 0.5)
    with trio.fail_after(100):
        await race(["a", "b"], dialers.contend)
    assert len(dialers.ended) == 2


async def test_no_more_than_so_many_are_tried_beside_each_other(autojump_clock: object) -> None:
    for addresses, most in (["a"], 2), (["a", "b", "c"], 3), ([*"abcdefgh"], 4):
        dialers = Dialers(math.inf)
        with trio.move_on_after(100):
            await race(addresses, dialers.contend)
        assert len(dialers.began) == most


async def test_the_next_address_is_tried_at_once_when_one_fails(autojump_clock: object) -> None:
    start = trio.current_time()
    dialers = Dialers(ConnectionError("one"), ConnectionError("two"), 0.0)
    await race(["a", "b", "c"], dialers.contend)
    assert [at - start for at, _ in dialers.began] == [0.0, 0.0, 0.0]
    dialers = Dialers(ConnectionError("one"), ConnectionError("two"))
    with pytest.raises(ConnectionError, match="two"):
        await race(["a", "b"], dialers.contend)
    # The same again is for the next round.
    assert len(dialers.began) == 2


@pytest.mark.parametrize("error", [TurnedAwayError("no"), StrangerError("no"), ValueError("no")])
async def test_an_error_that_no_other_try_would_mend_is_the_last(
    error: Exception, autojump_clock: object
) -> None:
    dialers = Dialers(ConnectionError("one"), error)
    with pytest.raises(type(error), match="no"):
        await race(["a", "b", "c"], dialers.contend)
    assert len(dialers.began) == 2


async def test_nothing_is_left_of_a_race_that_is_cancelled(autojump_clock: object) -> None:
    dialers = Dialers(math.inf)
    with trio.move_on_after(2 * BESIDE):
        await race(["a", "b"], dialers.contend)
    assert sorted(dialers.ended) == ["a", "b"]
