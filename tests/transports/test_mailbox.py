"""A mailbox wakes who waits, loses nothing, and never forgets a writer."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from transports.mailbox import Mailbox
from transports.testing import HANGS


async def test_batches_come_in_order() -> None:
    box: Mailbox[int] = Mailbox(3)
    for i in range(5):
        box.put(i)
    assert box.full
    assert len(box) == 5
    assert box.take_nowait(2) == [0, 1]
    assert box.take_until(lambda item: item >= 3) == [2, 3]
    assert box.take_until(lambda item: False) == [4]
    assert box.take_nowait() == []
    assert box.takes == 3


async def test_closing_drops_and_wakes_everybody() -> None:
    box: Mailbox[int] = Mailbox(1)
    box.put(1)
    ended = []
    async with trio.open_nursery() as nursery:

        async def write() -> None:
            await box.room()
            ended.append("writer")

        nursery.start_soon(write)
        await trio.testing.wait_all_tasks_blocked()
        box.close()
    assert ended == ["writer"]
    assert not box.full
    box.put(2)
    assert len(box) == 0
    with pytest.raises(trio.EndOfChannel):
        await box.wait()


async def test_as_many_writers_wake_as_there_is_room_for() -> None:
    box: Mailbox[int] = Mailbox(2)
    box.put(0)
    box.put(0)
    woken = []
    async with trio.open_nursery() as nursery:

        async def write(i: int) -> None:
            await box.room()
            woken.append(i)
            box.put(i)

        for i in range(5):
            nursery.start_soon(write, i)
        await trio.testing.wait_all_tasks_blocked()
        for expected in (1, 3, 5):
            box.take_nowait(2 if woken else 1)
            await trio.testing.wait_all_tasks_blocked()
            assert len(woken) == expected
            assert len(box) == 2


async def test_a_writer_that_gives_up_passes_its_turn_on() -> None:
    box: Mailbox[int] = Mailbox(1)
    box.put(0)
    went = []
    async with trio.open_nursery() as nursery:

        async def give_up() -> None:
            await box.room()
            box.pass_on()

        async def write() -> None:
            await box.room()
            went.append(True)

        nursery.start_soon(give_up)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(write)
        await trio.testing.wait_all_tasks_blocked()
        box.take_nowait()
    assert went == [True]


async def test_a_cancelled_wait_loses_nothing() -> None:
    box: Mailbox[int] = Mailbox(1)
    with trio.CancelScope() as scope:
        scope.cancel()
        await box.wait()
    box.put(7)
    await box.wait()
    assert box.take_nowait() == [7]


@given(
    capacity=st.integers(1, 4),
    counts=st.lists(st.integers(0, 12), min_size=1, max_size=5),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=5),
)
@settings(deadline=None, max_examples=40)
async def test_whatever_the_pace_all_of_it_arrives(
    capacity: int, counts: list[int], sizes: list[int]
) -> None:
    box: Mailbox[tuple[int, int]] = Mailbox(capacity)
    got: list[tuple[int, int]] = []
    with trio.fail_after(HANGS):
        async with trio.open_nursery() as nursery:

            async def write(writer: int, count: int) -> None:
                for i in range(count):
                    while box.full:
                        await box.room()
                    box.put((writer, i))

            for writer, count in enumerate(counts):
                nursery.start_soon(write, writer, count)
            turn = 0
            while len(got) < sum(counts):
                await box.wait()
                assert len(box) <= capacity
                got += box.take_nowait(sizes[turn % len(sizes)])
                turn += 1
    for writer, count in enumerate(counts):
        assert [i for who, i in got if who == writer] == list(range(count))
