"""The line that says how a survey goes."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from protocol import AGGREGATOR
from scenarios.errors import STOPPED
from scenarios.surveys.operating.live_line import progress_line, show
from scenarios.surveys.operating.progress import Counts, Phase, Progress
from tests.scenarios.command import ROOT, environment
from tests.scenarios.surveys.operating.held import until
from transports.background import running
from transports.testing import HANGS


def counts(**changes: object) -> Counts:
    values: Mapping[str, object] = {
        "phase": Phase.JOINING,
        "parties": 50,
        "joined": 37,
        "connected": 36,
        "awaiting": "",
        "awaited": 0,
        "answered": 0,
        "declined": 0,
        "closed": {},
        "gone": {},
        "refused": {},
        "messages": 0,
        "entries": 2,
        "durable": 2,
        "writing": 0.0,
        "left": 41.4,
    }
    return Counts(**{**values, **changes})  # type: ignore[arg-type]  # a test's own words


def test_while_parties_join() -> None:
    said = progress_line(counts(refused={"too slow": 2, "TLS": 1}))
    assert said == "joining: 37 of 50 joined; connections refused: 1 TLS, 2 too slow; 41 s left"


def test_while_witnesses_are_asked() -> None:
    said = progress_line(counts(phase=Phase.BEGINNING, parties=0, joined=0, cosigned=1, needed=2))
    assert said == "beginning: 1 of 2 witnesses have cosigned; 41 s left"


def test_while_answers_are_awaited() -> None:
    said = progress_line(
        counts(
            phase=Phase.ASKING,
            awaiting="Report",
            awaited=49,
            answered=31,
            declined=1,
            gone={"lost": 2, "never came": 13},
        )
    )
    assert said == (
        "asking: 37 of 50 joined; 31 of 49 answered (Report); 1 declined; "
        "gone: 2 lost, 13 never came; 41 s left"
    )


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.surveys.operating.live_line.EVERY", 0.001)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("wide", [30, 200])
async def test_it_is_written_over_and_removed(monkeypatch: pytest.MonkeyPatch, wide: int) -> None:
    monkeypatch.setenv("COLUMNS", str(wide))
    terminal = io.StringIO()
    async with running(functools.partial(show, Progress(), terminal)):
        await until(lambda: terminal.getvalue().count("beginning") >= 3)
    await until(lambda: terminal.getvalue().endswith("\r\x1b[K"))
    lines = terminal.getvalue().split("\r\x1b[K")
    assert {*lines} - {""} == {"beginning: 0 of 0 joined"[: wide - 1]}


@pytest.mark.usefixtures("often")
async def test_a_terminal_that_is_gone_ends_nothing() -> None:
    class Gone(io.StringIO):
        def flush(self) -> None:
            raise OSError(5, "Input/output error")

    terminal = Gone()
    async with running(functools.partial(show, Progress(), terminal)):
        await until(lambda: terminal.getvalue().count("joined") >= 3)


async def test_a_terminal_that_takes_nothing_holds_up_nothing() -> None:
    """As after Ctrl-S; the line is removed once it has been written."""
    let_go, reached = threading.Event(), threading.Event()

    class Stopped(io.StringIO):
        def write(self, text: str) -> int:
            reached.set()
            let_go.wait()
            return super().write(text)

    terminal = Stopped()
    async with running(functools.partial(show, Progress(), terminal)):
        await until(reached.is_set)
    let_go.set()
    await until(lambda: terminal.getvalue() == "\r\x1b[Kbeginning: 0 of 0 joined\r\x1b[K")


@pytest.mark.slow
def test_on_a_terminal_and_there_alone(keys: Path, tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    command = ("aggregate", keys / AGGREGATOR, "--listen", "127.0.0.1:0", "--out", tmp_path / "out")
    aggregator = subprocess.Popen(
        [sys.executable, "-m", "scenarios", *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=theirs,
        cwd=ROOT,
        env=environment(),
    )
    os.close(theirs)
    said = b""
    try:
        while b"joining: 0 of 3 joined; 60 s left" not in said:
            said += os.read(ours, 4096)
        aggregator.terminate()
        with contextlib.suppress(OSError):
            while part := os.read(ours, 4096):
                said += part
        out, _ = aggregator.communicate(timeout=HANGS)
    finally:
        aggregator.kill()
        aggregator.wait()
        os.close(ours)
    assert (out, aggregator.returncode) == (b"", STOPPED)
    *_, last = said.split(b"\r\x1b[K")
    assert last.startswith(b"sottovoce: stopped by SIGTERM: ")
