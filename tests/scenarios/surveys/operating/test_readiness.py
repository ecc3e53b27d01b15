"""A service manager hears when a survey is ready, and when it is about to stop."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from protocol import AGGREGATOR
from scenarios.errors import StoppedError
from scenarios.surveys.operating.outfit import operating
from scenarios.surveys.operating.progress import Phase
from scenarios.surveys.operating.readiness import NOTIFY_SOCKET, notify
from tests.scenarios.surveys.operating.held import hold, until


@pytest.mark.parametrize("abstract", [False, True])
def test_ready_and_stopping(
    keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool
) -> None:
    name = f"@sottovoce-{os.getpid()}" if abstract else str(tmp_path / "n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0", 1) if abstract else name)
        manager.setblocking(False)
        monkeypatch.setenv(NOTIFY_SOCKET, name)
        said = []
        with operating(keys / AGGREGATOR) as (operation, _):

            async def stop() -> None:
                await until(lambda: operation.progress.phase is Phase.JOINING)
                said.append(manager.recv(100))
                signal.raise_signal(signal.SIGTERM)

            operation.tasks = (stop,)
            outcome, _ = hold(keys, tmp_path / "out", operation)
        assert isinstance(outcome, StoppedError)
        assert said == [b"READY=1"]
        assert manager.recv(100) == b"STOPPING=1"
        with pytest.raises(BlockingIOError):
            manager.recv(100)


@pytest.mark.parametrize("where", ["", "/nowhere/at/all", "@nobody-listens-here", "x" * 200])
def test_a_manager_that_cannot_be_told_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setenv(NOTIFY_SOCKET, where)
    notify("listening", {})


def test_a_manager_that_does_not_read_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = str(tmp_path / "n")
    kind = socket.AF_UNIX, socket.SOCK_DGRAM
    with socket.socket(*kind) as manager, socket.socket(*kind) as other:
        manager.bind(name)
        other.connect(name)
        other.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                other.send(b"x")
        monkeypatch.setenv(NOTIFY_SOCKET, name)
        notify("listening", {})
        assert manager.recv(100) == b"x"
