"""``sottovoce close``: the joining of a survey ends early."""

from __future__ import annotations

from pathlib import Path

import trio
import trio.testing

from protocol import AGGREGATOR
from scenarios import Outcome
from scenarios.surveys.operating.joining import EVERY, JOINING, joining_file
from scenarios.surveys.operating.operation import Operation
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.surveys.operating.held import hold, until


def test_the_joining_ends_early(keys: Path, tmp_path: Path) -> None:
    operation = Operation(folder=keys / AGGREGATOR)
    said = []

    async def close() -> None:
        await until(lambda: operation.progress.counts().connected == 2)
        said.append(await trio.to_thread.run_sync(sottovoce, "close", keys / AGGREGATOR))

    operation.tasks = (close,)
    outcome, _ = hold(keys, tmp_path / "out", operation, ["anna", "bert"], joining=3600.0)
    assert isinstance(outcome, Outcome)
    assert outcome.endings == {"anna": "done", "bert": "done", "carl": "never came"}
    [closed] = said
    assert (closed.code, closed.err) == (0, "")
    nothing = complaint(sottovoce("close", keys / AGGREGATOR))
    assert nothing == f"{keys / AGGREGATOR}: no survey waits for anybody here"


def test_a_file_that_a_killed_program_has_left_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / JOINING).touch(0o600)
    assert complaint(sottovoce("close", tmp_path)).endswith("no survey waits for anybody here")


async def test_a_file_that_is_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / JOINING).touch(0o600)
    ended = trio.Event()
    async with joining_file(tmp_path, ended.set):
        assert not ended.is_set()
        (tmp_path / JOINING).unlink()
        await ended.wait()
    assert not (tmp_path / JOINING).exists()


async def test_a_folder_that_is_moved_ends_nothing(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    folder, moved, ended = tmp_path / "one", tmp_path / "two", trio.Event()
    folder.mkdir()
    async with joining_file(folder, ended.set):
        folder.rename(moved)
        await trio.sleep(4 * EVERY)
        assert not ended.is_set()
        (moved / JOINING).unlink()
        await ended.wait()
