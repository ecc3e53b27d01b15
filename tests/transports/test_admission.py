"""Admission by real sockets: who goes, who stays, and what is counted."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress

import pytest
import trio
import trio.testing

from transports import admission
from transports.admission import (
    LINES,
    LINES_OF_ONE,
    Admission,
    Incoming,
    Standing,
    Strangers,
    Sum,
    address_origin,
    trusted_network,
)
from transports.background import running
from transports.testing import HANGS

resource = pytest.importorskip("resource")

ANSWERED = b"a"
"""What has a connection wait for the server."""


class Door:
    """A server that reads a word of each connection, and then waits for more.

    Attributes:
        there: the sockets of those that it has heard of, by what they said.
    """

    def __init__(self, admission: Admission, port: int) -> None:
        self.admission = admission
        self.port = port

    async def attend(self, incoming: Incoming) -> None:
        while said := await incoming.wire.receive_some(1):
            if said == ANSWERED:
                incoming.heard = True
                incoming.stand(Standing.ANSWERED)
            await incoming.wire.send_all(said)

    async def settled(self, places: int) -> None:
        """Wait until so many places are taken."""
        with trio.fail_after(HANGS):
            while len(self.admission) != places:
                await trio.testing.wait_all_tasks_blocked(0.005)


@asynccontextmanager
async def opened(
    *, most: int = 8, each: int = 4, trusted: Sequence[str] = ()
) -> AsyncGenerator[Door]:
    networks = [trusted_network(text) for text in trusted]
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        made = Admission(most=most, each=each, trusted=networks)
        door = Door(made, listener.socket.getsockname()[1])
        async with running(lambda: made.serve([listener], door.attend)):
            yield door


@asynccontextmanager
async def callers(door: Door) -> AsyncGenerator[Crowd]:
    with ExitStack() as stack:
        yield Crowd(door, stack)


class Crowd:
    def __init__(self, door: Door, stack: ExitStack) -> None:
        self._door = door
        self._stack = stack

    async def call(self, address: str = "127.0.0.1", word: bytes = b"") -> socket.socket:
        """Connect from an address; with a word, once the server has heard it."""
        made = self._stack.enter_context(socket.socket())
        made.bind((address, 0))
        made.connect(("127.0.0.1", self._door.port))
        made.setblocking(False)
        if word:
            made.send(word)
            with trio.fail_after(HANGS):
                await trio.lowlevel.wait_readable(made)
            with suppress(ConnectionError):  # It may have heard that there is no place.
                made.recv(1)
        else:
            # The next one comes after it.
            await trio.testing.wait_all_tasks_blocked(0.002)
        return made


def is_open(made: socket.socket) -> bool:
    """Return whether the server has kept a connection."""
    try:
        return made.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


async def kept(crowd: Sequence[socket.socket]) -> list[bool]:
    """Which of them are open, once the server has done what there was to do."""
    await trio.testing.wait_all_tasks_blocked(0.01)
    return [is_open(each) for each in crowd]


async def test_of_one_address_the_oldest_go() -> None:
    async with opened(most=100) as door, callers(door) as crowd:
        held = [await crowd.call(word=b"x") for _ in range(7)]
        await door.settled(4)
        assert await kept(held) == [False] * 3 + [True] * 4


async def test_of_all_the_oldest_of_the_largest_crowd_goes() -> None:
    async with opened() as door, callers(door) as crowd:
        alone = [await crowd.call(f"127.0.0.{last}") for last in range(11, 16)]
        many = [await crowd.call("127.0.0.20") for _ in range(3)]
        late = await crowd.call("127.0.0.16", b"x")
        assert await kept(alone) == [True] * 5
        assert await kept(many) == [False, True, True]
        last = await crowd.call("127.0.0.17", b"x")
        assert await kept([*alone, *many, late, last]) == [True] * 5 + [
            False,
            False,
            True,
            True,
            True,
        ]


async def test_who_waits_for_the_server_does_not_go() -> None:
    async with opened() as door, callers(door) as crowd:
        held = [await crowd.call(f"127.0.0.{last}", ANSWERED) for last in range(11, 18)]
        silent = await crowd.call("127.0.0.30")
        assert is_open(silent)
        late = await crowd.call("127.0.0.31", ANSWERED)
        assert await kept([*held, silent, late]) == [True] * 7 + [False, True]
        # All places are theirs now: who comes is closed.
        refused = await crowd.call("127.0.0.32", b"x")
        assert await kept([*held, late, refused]) == [True] * 8 + [False]
        assert len(door.admission) == 8


async def test_trusted_addresses_get_in_when_all_places_are_taken() -> None:
    """Strangers neither push them out nor take the last places."""
    async with opened(trusted=["127.0.9.0/24"]) as door, callers(door) as crowd:
        strangers = [await crowd.call(f"127.0.0.{last}", ANSWERED) for last in range(11, 20)]
        assert await kept(strangers) == [True] * 6 + [False] * 3
        near = [await crowd.call(f"127.0.9.{last}", b"x") for last in (1, 2)]
        assert await kept(near) == [True] * 2
        assert len(door.admission) == 8
        for last in range(40, 60):
            await crowd.call(f"127.0.0.{last}", b"x")
        assert await kept([*strangers[:6], *near]) == [True] * 8


async def test_trusted_addresses_have_no_cap_of_their_own_and_go_for_each_other() -> None:
    async with opened(trusted=["127.0.9.9"]) as door, callers(door) as crowd:
        strangers = [await crowd.call("127.0.0.11") for _ in range(4)]
        near = [await crowd.call("127.0.9.9", b"x") for _ in range(10)]
        assert await kept(strangers) == [False] * 4
        assert await kept(near) == [False] * 2 + [True] * 8


async def test_fresh_callers_are_served_while_a_crowd_waits() -> None:
    """All that wait to be accepted come in at once, and the last of them are served."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        made = Admission(most=8, each=8)
        door = Door(made, listener.socket.getsockname()[1])
        with ExitStack() as stack:
            crowd = []
            for _ in range(300):
                call = socket.create_connection(("127.0.0.1", door.port))
                crowd.append(stack.enter_context(call))
                crowd[-1].send(b"x")
            async with running(lambda: made.serve([listener], door.attend)):
                await door.settled(8)
                crowd[-1].settimeout(HANGS)
                assert await trio.to_thread.run_sync(crowd[-1].recv, 1) == b"x"
                for each in crowd:
                    each.setblocking(False)
                assert await kept(crowd) == [False] * 292 + [True] * 8
    assert made.strangers.take() == Sum(300, 1)


async def test_who_is_gone_before_it_is_accepted_takes_no_place() -> None:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        made = Admission(most=8, each=8)
        door = Door(made, listener.socket.getsockname()[1])
        with socket.create_connection(("127.0.0.1", door.port)) as there:
            there.send(b"x")
            for said in (b"", b"x") * 10:
                gone = socket.create_connection(("127.0.0.1", door.port))
                if said:
                    # It is reset, whatever it said.
                    gone.send(said)
                    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0" + bytes(4))
                gone.close()
            async with running(lambda: made.serve([listener], door.attend)):
                there.settimeout(HANGS)
                assert await trio.to_thread.run_sync(there.recv, 1) == b"x"
                assert len(made) == 1
                assert made.strangers.take() == Sum(20, 1)


async def test_when_file_descriptors_run_short_strangers_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some are left to the rest of the program, whatever strangers do."""
    async with opened(most=1000, each=1000) as door, callers(door) as crowd:
        first = await crowd.call(word=b"x")
        monkeypatch.setattr(admission, "_most_descriptors", lambda: first.fileno() + 1 + 60 + 16)
        for _ in range(100):
            await crowd.call(word=b"x")
        # Half of the descriptors are the callers' own.
        assert 10 < len(door.admission) < 70
        assert door.admission.strangers.scarce
        door.admission.strangers.take()
        assert not door.admission.strangers.scarce


async def test_an_accept_that_fails_ends_nothing() -> None:
    """At the limit itself: nobody can be accepted, and then somebody can."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with opened(most=1000, each=1000) as door, callers(door) as crowd:
        held = [await crowd.call(word=b"x") for _ in range(4)]
        with socket.socket() as waiting:
            resource.setrlimit(resource.RLIMIT_NOFILE, (waiting.fileno() + 1, hard))
            try:
                waiting.connect(("127.0.0.1", door.port))
                with trio.fail_after(HANGS):
                    while is_open(held[0]):
                        await trio.testing.wait_all_tasks_blocked(0.01)
                assert door.admission.strangers.scarce
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert is_open(await crowd.call(word=b"x"))


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("nobody", "nobody"),
    ],
)
def test_what_counts_as_one_address(address: str, origin: str) -> None:
    assert address_origin(address) == origin


@pytest.mark.parametrize(
    ("words", "addresses", "others"),
    [
        ("192.0.2.7", ["192.0.2.7", "::ffff:192.0.2.7"], ["192.0.2.8", "nobody"]),
        ("192.0.2.0/30", ["192.0.2.3"], ["192.0.2.4"]),
        ("2001:db8::/32", ["2001:db8:1::1", "2001:db8::1%eth0"], ["2001:db9::1", "192.0.2.7"]),
    ],
)
def test_who_is_trusted(words: str, addresses: list[str], others: list[str]) -> None:
    made = Admission(most=8, each=8, trusted=[trusted_network(words)])
    assert all(map(made.trusts, addresses))
    assert not any(map(made.trusts, others))
    assert not any(map(Admission(most=8, each=8).trusts, addresses))


@pytest.mark.parametrize("words", ["", "here", "192.0.2.7/24", "192.0.2.0/33", "0.0.0.0/0", "::/0"])
def test_what_is_no_trusted_address(words: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        trusted_network(words)


def test_lines_of_strangers_are_few_and_the_rest_is_summed_up() -> None:
    strangers = Strangers()
    assert [strangers.gets_line("192.0.2.1") for _ in range(8)] == [True] * LINES_OF_ONE + [
        False
    ] * (8 - LINES_OF_ONE)
    # One address does not take the lines of another.
    assert strangers.gets_line("192.0.2.2")
    lines = sum(strangers.gets_line(f"198.51.100.{i}") for i in range(200))
    assert lines == LINES - LINES_OF_ONE - 1
    assert strangers.take() == Sum(8 - LINES_OF_ONE + 200 - lines, 1 + 200 - lines)
    assert strangers.take() == Sum(0, 0)
    assert strangers.gets_line("192.0.2.1")


def test_no_more_addresses_are_told_apart_than_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "REMEMBERED", 3)
    strangers = Strangers()
    for last in range(10):
        strangers.note(f"192.0.2.{last}")
    assert "192" not in repr(strangers)
    assert strangers.take() == Sum(10, 3)
