"""A command that reads somebody else's file takes so much and no more, and says so."""

from __future__ import annotations

import contextlib
import gc
import io
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import scenarios.files.budget
import scenarios.surveys.watching.reading
from protocol.errors import UsageError
from scenarios.cli import CRASHED
from scenarios.cli.options import print_json, print_report
from scenarios.errors import CANNOT_FINISH, CannotFinishError
from scenarios.files.budget import (
    BYTES_PER_BYTE,
    MEGABYTES,
    SECONDS,
    SMALL,
    usual_budget,
    within_budget,
    within_usual_budget,
)
from scenarios.files.toml import read_toml
from tests.recorded.forgeries import Forgery, packed
from tests.recorded.signed import signed_run
from tests.recorded.transcripts import sample
from tests.scenarios.command import complaint, python, sottovoce
from tests.tiers import thinned

COMMANDS = {
    "verify": ("verify",),
    "audit": ("audit",),
    "show": ("show",),
    "query": ("query", "SELECT count(*) FROM sent"),
    "prove": ("prove", "party-1"),
}


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    path = tmp_path / "transcript.svt.zst"
    path.write_bytes(signed_run().content)
    return path


@pytest.mark.parametrize("name", thinned(["audit", "query"], 1))
def test_a_command_keeps_to_its_seconds(name: str, transcript: Path) -> None:
    command, *rest = COMMANDS[name]
    said = python("-m", "scenarios", command, transcript, *rest, "--seconds", 1e-4)
    assert complaint(said, CANNOT_FINISH) == "could not finish within 0 s; --seconds allows more"


def test_a_command_keeps_to_its_memory(transcript: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(path: Path) -> None:
        bytearray(2**32)
        raise AssertionError("it got 4 GB")

    before = resource.getrlimit(resource.RLIMIT_DATA)
    monkeypatch.setattr(scenarios.surveys.watching.reading, "open_transcript", greedy)
    says = complaint(sottovoce("verify", transcript, "--memory", 100), CANNOT_FINISH)
    assert says == "could not finish with 100 MB of memory; --memory allows more"
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_what_a_bug_ends_with_is_no_verdict(
    transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(path: Path) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(scenarios.surveys.watching.reading, "open_transcript", bug)
    said = sottovoce("verify", transcript)
    assert said.code == CRASHED
    assert "ZeroDivisionError" in said.err


def test_the_usual_budget_grows_with_the_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(10_000_000))
    larger = tmp_path / "larger"
    with larger.open("wb") as file:
        file.truncate(SMALL + 2**21)
    assert usual_budget([]) == usual_budget([tmp_path / "missing"]) == (SECONDS, MEGABYTES)
    assert usual_budget([path]) == (SECONDS + 200, MEGABYTES)
    assert usual_budget([larger])[1] == MEGABYTES + 2 * BYTES_PER_BYTE


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_budget_ends_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is looked at, nothing is raised while the block is left, or after it."""
    monkeypatch.setattr(scenarios.files.budget, "_TICK", 1e-5)
    monkeypatch.setattr(scenarios.files.budget, "_AGAIN", 0.02)

    def forever() -> None:
        with within_budget(1e-4, 1000):
            while True:
                pass

    # A finalizer that is interrupted goes to a hook of the tests, which fails if it is, too.
    gc.collect()
    gc.disable()
    try:
        for _ in range(30):
            with pytest.raises(CannotFinishError):
                forever()
    finally:
        gc.enable()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_budget_holds_where_something_swallows_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios.files.budget, "_AGAIN", 0.05)

    def careless() -> None:
        with within_budget(1e-3, 1000):
            with contextlib.suppress(BaseException):
                while True:
                    pass
            while True:
                pass

    with pytest.raises(CannotFinishError):
        careless()


def test_an_alarm_that_is_late_ends_nothing() -> None:
    """It may have gone to another thread, which was not running."""
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    try:
        with within_budget(60.0, 1000):
            pass
        signal.raise_signal(signal.SIGALRM)
        signal.signal(signal.SIGALRM, heard := lambda number, frame: None)
        with within_budget(60.0, 1000):
            pass
        assert signal.getsignal(signal.SIGALRM) is heard
    finally:
        signal.signal(signal.SIGALRM, before)


class SlowTerminal(io.StringIO):
    """What is written to it takes longer than the budget."""

    def write(self, text: str) -> int:
        if text:
            time.sleep(1.1)
        return super().write(text)


@pytest.mark.parametrize(
    ("say", "text"),
    [
        (lambda: print_json({"a": 1}), '{\n "a": 1\n}\n'),
        (lambda: print_report(["a", "b"]), "a\nb\n"),
    ],
    ids=["json", "report"],
)
def test_what_is_said_is_said_whole(
    say: Callable[[], None], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    say()  # What it imports is there.
    terminal = SlowTerminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    with within_budget(1.0, 1000):
        say()
    assert terminal.getvalue() == text


def test_reading_has_the_usual_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios.files.budget, "SECONDS", 0.05)
    plan = tmp_path / "plan.toml"
    plan.write_text("a = 1\n" * 4 + "[" * 1000 + "]" * 1000)
    with pytest.raises(UsageError, match=r"plan.toml: (not valid TOML|nested)"):
        read_toml(plan, dict[str, int])

    def reads_on() -> None:
        with within_usual_budget(plan):
            while True:
                signal.pause()

    with pytest.raises(CannotFinishError, match=r"plan.toml: could not finish within 0 s$"):
        reads_on()


def test_what_cannot_be_unpacked_has_no_verdict(tmp_path: Path) -> None:
    parts = sample().content[:1500], sample().content[1500:]
    content = bytearray(packed(parts))
    content[-40] ^= 1
    path = tmp_path / "transcript.svt.zst"
    path.write_bytes(content)
    for command, *rest in (COMMANDS[name] for name in ("verify", "show", "query")):
        assert sottovoce(command, path, *rest).code == CANNOT_FINISH


def test_a_fault_decides_whatever_cannot_be_unpacked_after_it(tmp_path: Path) -> None:
    forged = Forgery(signed_run().content)
    forged.entries.insert(1, forged.entries[0])
    path = tmp_path / "transcript.svt.zst"
    path.write_bytes(packed([forged.write()]) + b"not a frame")
    for command in ("verify", "audit"):
        said = sottovoce(command, path)
        assert said.code == 1
        assert "Record: broken. " in said.out
