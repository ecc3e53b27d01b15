"""What every engine does: one contract."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol import QuorumError
from protocol.errors import UsageError
from scenarios import open_engine
from scenarios.errors import EngineError
from scenarios.running.engines.engine import Engine, Lost, completed, in_order
from scenarios.running.loading import load_module
from tests.scenarios.running.engines import kernels
from tests.scenarios.running.engines.ray_apart import ON_RAY

WITH_WORKERS = ("ray",) if ON_RAY in os.environ else ("processes",)
ALL = WITH_WORKERS if ON_RAY in os.environ else ("here", *WITH_WORKERS)
"""Ray has a process of its own: it does not shut down without a warning."""


@pytest.fixture(scope="module", autouse=True)
def started() -> Iterator[None]:
    """Ray, started once: an engine takes what is there."""
    if ON_RAY not in os.environ:
        yield
        return
    with open_engine("ray", jobs=2):
        yield


def opened(name: str) -> Engine:
    return open_engine(name, jobs=None if name == "here" else 2)


@pytest.fixture(params=ALL)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with opened(request.param) as found:
        yield found


@pytest.fixture(params=WITH_WORKERS)
def workers(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """An engine with workers, which may die."""
    with opened(request.param) as found:
        yield found


def test_results_are_in_order(engine: Engine) -> None:
    assert in_order(engine, kernels.later, range(8)) == [*range(8)]
    assert engine.under_way == 0
    assert engine.drain() == []


def test_keys_come_back_with_their_results(engine: Engine) -> None:
    tasks = [(key, key + 1) for key in (5, 900, 2**40)]
    assert dict(completed(engine, kernels.square, tasks)) == {
        k: (k + 1) ** 2 for k in (5, 900, 2**40)
    }


def test_no_more_are_under_way_than_the_window(engine: Engine) -> None:
    taken = 0

    def tasks() -> Iterator[tuple[int, int]]:
        nonlocal taken
        for key in range(20):
            taken += 1
            yield key, key

    handed_back = 0
    for _ in completed(engine, kernels.square, tasks()):
        handed_back += 1
        # One more has been taken than there is room for.
        assert taken - handed_back <= engine.window
    assert (taken, handed_back) == (20, 20)
    for key in range(engine.window):
        engine.submit(key, kernels.square, key)
    with pytest.raises(RuntimeError, match="window is full"):
        engine.submit(99, kernels.square, 99)


def test_what_is_large_arrives(engine: Engine) -> None:
    content = bytes(10**7)
    assert in_order(engine, kernels.size, [content] * 5) == [len(content)] * 5


def test_floats_are_the_same_to_the_last_digit(engine: Engine) -> None:
    assert in_order(engine, kernels.solved, [100, 300]) == [*map(kernels.solved, (100, 300))]


def test_an_error_is_raised_after_what_was_done(engine: Engine) -> None:
    handed_back = completed(engine, kernels.fails_at_three, enumerate(range(4)))
    with pytest.raises(ValueError, match="number 3") as raised:
        dict(handed_back)
    if engine.name != "here":
        assert "in fails_at_three" in str(raised.value.__cause__)
    if engine.under_way:
        engine.drain()
    assert in_order(engine, kernels.square, [3]) == [9]


def test_errors_keep_what_they_carry(engine: Engine) -> None:
    with pytest.raises(QuorumError, match="1 of 3 sent 'Report'") as raised:
        in_order(engine, kernels.misses, [("a", "b")])
    assert raised.value.missing == ("a", "b")


def test_an_error_that_cannot_be_sent_says_what_it_said(workers: Engine) -> None:
    with pytest.raises(EngineError, match="a task failed: Locked: behind a door"):
        in_order(workers, kernels.locks, ["behind a door"])


def test_a_result_that_cannot_be_sent_is_an_error(workers: Engine) -> None:
    with pytest.raises(AttributeError, match="pickle"):
        in_order(workers, kernels.unsendable, [None])


def test_what_workers_cannot_find_is_refused(
    workers: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="top of a module"):
        workers.submit(1, lambda number: number, 1)
    monkeypatch.setattr(kernels.square, "__module__", "__main__")
    with pytest.raises(UsageError, match="'square' is defined in the script"):
        workers.submit(1, kernels.square, 1)
    assert workers.under_way == 0


def test_a_file_that_a_person_named_travels(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text("class Own:\n    n = 3\n\ndef kernel(own):\n    return own, own.n\n", "utf-8")
    own = load_module(path)
    path.unlink()
    [(thing, number)] = in_order(engine, own.kernel, [own.Own()])
    assert type(thing) is own.Own
    assert number == 3
    path.write_text("def kernel(number):\n    return -number\n", encoding="utf-8")
    assert in_order(engine, load_module(path).kernel, [1]) == [-1]


@pytest.mark.slow
def test_a_task_is_done_again_when_its_worker_is_killed(workers: Engine, tmp_path: Path) -> None:
    arguments = [kernels.Marked(number, tmp_path / f"{number}") for number in range(6)]
    assert in_order(workers, kernels.dies_once, arguments) == [*range(6)]


@pytest.mark.slow
def test_a_task_that_is_done_once_is_lost_and_others_live_on(workers: Engine) -> None:
    workers.submit(1, kernels.dies, None, again=False)
    workers.submit(2, kernels.later, 1, again=False)
    found = {}
    while workers.under_way:
        found |= dict(workers.drain())
    assert isinstance(found[1], Lost)
    assert "worker" in found[1].reason
    assert found[2] == 1


@pytest.mark.slow
def test_a_task_that_kills_every_worker_is_given_up(workers: Engine) -> None:
    with pytest.raises(EngineError, match=r"task 0: given up after 3 "):
        in_order(workers, kernels.exits, [7])
    assert in_order(workers, kernels.square, [4]) == [16]


def test_a_closed_engine_takes_nothing(engine: Engine) -> None:
    engine.submit(1, kernels.later, 1)
    engine.close()
    engine.close()
    assert engine.under_way == 0
    with pytest.raises(RuntimeError, match="closed"):
        engine.submit(2, kernels.square, 2)
