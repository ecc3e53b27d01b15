"""The log of a survey: lines of JSON, with counts and nothing else."""

from __future__ import annotations

import datetime
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from protocol import AGGREGATOR
from protocol.errors import UsageError
from scenarios import Outcome
from scenarios.surveys.operating import logs
from scenarios.surveys.operating.logs import json_log
from scenarios.surveys.operating.outfit import operating
from tests.scenarios.command import ROOT, complaint, environment, sottovoce
from tests.scenarios.surveys.operating.held import closed_when, hold
from transports.testing import HANGS

EVENTS = {
    "listening",
    "asking",
    "progress",
    "wait closed",
    "ended",
    "published",
    "stopping",
    "stopped",
    "failed",
}
WORDS = {
    *("INFO", "ERROR", "QuorumError"),
    *("joining", "asking", "ending", "stopping"),
    *("Report", ""),
    *("never came", "ended", "lost"),
}
"""What a log of these surveys may say besides numbers and names of fields."""


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def words(values: object) -> set[str]:
    """All strings and keys in values."""
    if isinstance(values, str):
        return {values}
    if isinstance(values, dict):
        return set(values).union(*map(words, values.values()))
    return set()


def test_a_survey_is_logged_in_counts(keys: Path, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    with operating(keys / AGGREGATOR, log=str(path)) as (operation, where):
        closed_when(operation, keys, 2)
        outcome, _ = hold(keys, tmp_path / "out", operation, ["anna", "bert"])
    assert isinstance(outcome, Outcome)
    assert where == ""
    said = lines(path)
    once = [line["event"] for line in said if line["event"] != "progress"]
    assert once == ["listening", "asking", "wait closed", "ended", "published"]
    [closed] = [line for line in said if line["event"] == "wait closed"]
    assert closed == {
        "time": closed["time"],
        "level": "INFO",
        "event": "wait closed",
        "kind": "Report",
        "round": -1,
        "awaited": 3,
        "counted": 2,
    }
    for line in said:
        assert datetime.datetime.fromisoformat(line.pop("time")).tzinfo is datetime.UTC
        assert line.pop("event") in EVENTS
        for field, values in line.items():
            assert words(values) <= WORDS, field


def test_a_survey_that_fails_is_logged(keys: Path, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    said = sottovoce(
        *("aggregate", keys / "aggregator", "--listen", "127.0.0.1:0", "--out", tmp_path / "out"),
        *("--joining", 0, "--log-json", path),
    )
    assert said.code == 1
    last = lines(path)[-1]
    assert (last["level"], last["event"], last["error"]) == ("ERROR", "failed", "QuorumError")


def test_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    with json_log("-") as tell:
        tell("listening", {"parties": 3})
    line = json.loads(capfd.readouterr().err)
    assert (line["event"], line["parties"]) == ("listening", 3)


def test_a_log_goes_on_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    for event in ("listening", "stopped"):
        with json_log(str(path)) as tell:
            tell(event, {})
    assert [line["event"] for line in lines(path)] == ["listening", "stopped"]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"-----BEGIN", b'{"a": 1}\n', b"\xff\xfe", b"[" * 5000])
def test_another_file_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "identity.key"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is not a log"), json_log(str(path)):
        pass
    assert path.read_bytes() == content


def test_a_link_is_not_followed(keys: Path, tmp_path: Path) -> None:
    (tmp_path / "log.json").symlink_to(tmp_path / "elsewhere")
    said = sottovoce(
        *("aggregate", keys / "aggregator", "--listen", "127.0.0.1:0", "--out", tmp_path / "out"),
        *("--log-json", tmp_path / "log.json"),
    )
    assert "log.json" in complaint(said)
    assert not (tmp_path / "elsewhere").exists()


def test_a_log_that_cannot_be_written_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logs, "_standard_error", lambda: io.FileIO("/dev/full", "w"))
    with json_log("-") as tell:
        tell("listening", {})
        tell("asking", {})
    assert capsys.readouterr().err == "sottovoce: the log cannot be written\n"


def test_a_pipe_that_nobody_reads_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    monkeypatch.setattr(logs, "LAST_SECONDS", 0.0)
    count = 3 * logs.WAITING
    with os.fdopen(writer, "w", buffering=1) as pipe, os.fdopen(reader) as read:
        monkeypatch.setattr("sys.stderr", pipe)
        with json_log("-") as tell:
            for number in range(count):
                tell("progress", {"messages": number, "said": "x" * 100})
        # Once somebody reads, it says how many lines are missing.
        shown: list[int] = []
        lost = 0
        while len(shown) + lost < count:
            line = json.loads(read.readline())
            if line["event"] == "lost":
                lost += line["lines"]
            else:
                shown.append(line["messages"])
        assert lost > 0
        assert shown == sorted(set(shown))


UNREAD = """
import select
import time
from scenarios.surveys.operating import logs

logs.LAST_SECONDS = 0.0
with logs.json_log("-") as tell:
    for number in range(logs.WAITING):
        tell("progress", {"said": "x" * 1000})
    while select.select([], [2], [], 0)[1]:
        time.sleep(0.001)
print("left")
"""


def test_a_pipe_that_nobody_reads_does_not_hold_up_the_end_of_the_program() -> None:
    """The lines that may wait, 1 MB, are more than a pipe takes."""
    with subprocess.Popen(
        [sys.executable, "-c", UNREAD],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
    ) as program:
        try:
            assert program.wait(timeout=HANGS) == 0
        finally:
            program.kill()
        assert program.stdout is not None
        assert program.stdout.read() == b"left\n"
