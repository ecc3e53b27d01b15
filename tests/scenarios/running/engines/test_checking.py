"""Signatures that are checked in processes come out as they do here."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from protocol import PartyId
from protocol.session.roster import Identity, Signed
from scenarios.errors import EngineError
from scenarios.running.engines import checking
from scenarios.running.engines.checking import ChecksMeanwhile
from scenarios.running.engines.processes import Processes
from tests.scenarios.command import sottovoce

ONE = Identity(PartyId("party-1"), bytes(32))
FORGED = (2, 7)


COUNT = 60


def checked(checks: ChecksMeanwhile, times: int = 1) -> None:
    """Signatures in many batches are each answered for in their place."""
    said = [f"word {i}".encode() for i in range(COUNT)]
    claims = [
        Signed(ONE.sign(word), b"another" if i in FORGED else word, ONE.public)
        for i, word in enumerate(said)
    ]
    for _ in range(times):
        for i in range(0, COUNT, 3):
            checks.begin(claims[i : i + 3])
        assert checks.found() == [i not in FORGED for i in range(COUNT)]


@pytest.mark.parametrize("worth", [4, 1000])
def test_each_signature_is_answered_for_in_its_place(
    worth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "WORTH", worth)
    with ChecksMeanwhile() as checks:
        checked(checks, times=2)


def test_who_can_start_no_process_checks_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError("no further processes")

    monkeypatch.setattr(checking, "WORTH", 4)
    monkeypatch.setattr(subprocess, "Popen", refused)
    with ChecksMeanwhile() as checks:
        checked(checks, times=2)


def test_what_processes_leave_is_checked_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "WORTH", 4)
    drain, calls = Processes.drain, []

    def breaks(engine: Processes) -> list[tuple[int, Any]]:
        calls.append(engine)
        if len(calls) > 2:
            raise EngineError("given up after 3 workers died")
        return drain(engine)

    monkeypatch.setattr(Processes, "drain", breaks)
    with ChecksMeanwhile() as checks:
        checked(checks, times=2)
    assert len(calls) == 3


@pytest.fixture(scope="module")
def transcript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    assert sottovoce("run", "quickstart", "--set", "residents=60", "--out", folder).code == 0
    return folder / "transcript.svt.zst"


@pytest.mark.parametrize("command", ["verify", "audit", "estimate", "explain"])
def test_commands_leave_signatures_to_processes(
    command: str, transcript: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found, answers = ChecksMeanwhile.found, []

    def counted(checks: ChecksMeanwhile) -> list[bool]:
        answers.append(found(checks))
        return answers[-1]

    monkeypatch.setattr(ChecksMeanwhile, "found", counted)
    who = ("party-01",) if command == "explain" else ()
    said = sottovoce(command, transcript, *who)
    assert said.code == 0, said.err
    assert [all(one) and len(one) for one in answers] == [60]


def test_no_signature_at_all() -> None:
    with ChecksMeanwhile() as checks:
        assert checks.found() == []
