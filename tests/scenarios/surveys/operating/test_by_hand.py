"""What is done to a survey by hand: a line in the aggregator's folder, before it takes effect."""

from __future__ import annotations

import json
import os
import pwd
import socket
from pathlib import Path

import pytest
import trio

from protocol import AGGREGATOR
from protocol.errors import UsageError
from scenarios import Outcome
from scenarios.errors import StoppedError
from scenarios.surveys.holding.attempts import abandon_survey
from scenarios.surveys.members import read_member
from scenarios.surveys.operating.by_hand import BY_HAND, acts_in
from scenarios.surveys.operating.operation import Operation
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.surveys.operating.held import hold, until


def done(keys: Path) -> list[tuple[str, int | None, str]]:
    """What was done, to which attempt, and in which wait."""
    return [(act.done, act.attempt, act.wait) for act in acts_in(keys / AGGREGATOR)]


def interrupt(keys: Path, out: Path) -> None:
    """Begin a survey that stops while parties join, or go on with one."""

    async def stop() -> None:
        await until(lambda: operation.progress.counts().parties == 3)
        raise StoppedError("stopped by hand")

    operation = Operation(folder=keys / AGGREGATOR)
    operation.tasks = (stop,)
    outcome, _ = hold(keys, out, operation, joining=3600.0, resume=True)
    assert isinstance(outcome, StoppedError)


def test_who_begins_resumes_closes_and_abandons_is_on_file(keys: Path, tmp_path: Path) -> None:
    folder = keys / AGGREGATOR
    assert acts_in(folder) == []
    interrupt(keys, tmp_path / "one")
    interrupt(keys, tmp_path / "one")
    assert done(keys) == [("begin", 1, ""), ("resume", 1, "")]
    abandon_survey(read_member(folder), tmp_path / "one" / "transcript.svt.zst")
    operation = Operation(folder=folder)

    async def close() -> None:
        await until(lambda: operation.progress.counts().connected == 2)
        assert (await trio.to_thread.run_sync(sottovoce, "close", folder)).code == 0

    operation.tasks = (close,)
    outcome, _ = hold(keys, tmp_path / "two", operation, ["anna", "bert"], joining=3600.0)
    assert isinstance(outcome, Outcome)
    assert done(keys)[2:] == [("abandon", 1, ""), ("begin", 2, ""), ("close", 2, "joining")]
    assert {act.user for act in acts_in(folder)} == {pwd.getpwuid(os.getuid()).pw_name}
    assert {act.pid for act in acts_in(folder)} == {os.getpid()}
    assert (folder / BY_HAND).stat().st_mode & 0o777 == 0o600
    shown = sottovoce("status", folder)
    assert shown.out.splitlines()[:2] == ["attempt 1: over", "attempt 2: over"]
    last, act = shown.out.splitlines()[-1], acts_in(folder)[-1]
    assert last.endswith(f"close, attempt 2, joining: {act.user}, pid {act.pid}")
    values = json.loads(sottovoce("status", folder, "--json").out)
    assert values["attempts"] == [{"attempt": number, "state": "over"} for number in (1, 2)]
    assert [act["done"] for act in values["by hand"]] == [act for act, _, _ in done(keys)]


def test_what_has_no_effect_is_not_on_file(keys: Path, tmp_path: Path) -> None:
    folder = keys / AGGREGATOR
    assert "no survey waits" in complaint(sottovoce("close", folder))
    assert "no attempt has begun" in complaint(sottovoce("abandon", folder, "--out", tmp_path))
    interrupt(keys, tmp_path / "one")
    refused = complaint(sottovoce("abandon", folder, "--out", tmp_path / "two"))
    assert refused.endswith("no such file; expected the record to resume")
    assert done(keys) == [("begin", 1, "")]
    gone = sottovoce("abandon", folder, "--out", tmp_path / "two", "--lost")
    assert gone.code == 0
    assert done(keys)[1:] == [("abandon --lost", 1, "")]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        held = sottovoce("aggregate", folder, "--listen", where, "--out", tmp_path / "three")
    assert (
        held.err.splitlines()[-1]
        == f"sottovoce: {where}: another program listens there: end it, or choose another port"
    )
    assert len(done(keys)) == 2


def test_what_cannot_be_written_down_does_not_take_effect(keys: Path, tmp_path: Path) -> None:
    folder, record = keys / AGGREGATOR, tmp_path / "one" / "transcript.svt.zst.partial"
    interrupt(keys, tmp_path / "one")
    before = record.read_bytes(), (folder / "attempts").read_bytes()
    (folder / BY_HAND).write_text("not a line\n")
    with pytest.raises(UsageError, match="what was done by hand is not known"):
        abandon_survey(read_member(folder), record.with_suffix(""))
    assert before == (record.read_bytes(), (folder / "attempts").read_bytes())
    said = complaint(sottovoce("status", folder))
    assert said.startswith(f"{folder / BY_HAND}: ")


def test_a_record_that_is_moved_aside_is_on_file(keys: Path, tmp_path: Path) -> None:
    folder, out = keys / AGGREGATOR, tmp_path / "one"
    interrupt(keys, out)
    abandon_survey(read_member(folder), out / "transcript.svt.zst")
    held = ("aggregate", folder, "--listen", "127.0.0.1:0", "--joining", 0, "--out", out)
    assert sottovoce(*held).code == 2
    assert len(done(keys)) == 2
    sottovoce(*held, "--force")
    assert done(keys)[2:] == [("force", None, ""), ("begin", 2, "")]
