"""Witnesses in processes of their own, for tests."""

from __future__ import annotations

import http.client
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from protocol.transcript.checkpoints import SignedCheckpoint, log_origin, to_base64
from scenarios.surveys.witnessing.asking import WitnessAt, witness_at
from scenarios.surveys.witnessing.state import make_witness
from tests.scenarios.command import ROOT, environment
from transports.testing import HANGS

NAME = "witness.example/w1"


class Files(NamedTuple):
    """A witness's key and state."""

    key: Path
    state: Path
    vkey: str


def files(folder: Path, name: str = NAME) -> Files:
    key, state = folder / "witness.key", folder / "state"
    return Files(key, state, make_witness(key, state, name).text)


def origin(checkpoint: SignedCheckpoint) -> str:
    return log_origin(checkpoint.session, checkpoint.key)


class Running(NamedTuple):
    """A witness at work."""

    process: subprocess.Popen[str]
    at: WitnessAt
    port: int

    def ask(self, old: int, note: str, path: Sequence[bytes] = ()) -> tuple[int, str | None, str]:
        """Status, type and body of what it answers."""
        body = "\n".join([f"old {old}", *map(to_base64, path), "", note]).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANGS)
        try:
            connection.request("POST", "/add-checkpoint", body)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Content-Type"), answer.read().decode()
        finally:
            connection.close()

    def said(self) -> str:
        """End it, and all that it has said since it began to listen."""
        self.process.kill()
        return self.process.communicate()[1]


@contextmanager
def running(
    made: Files,
    origins: Sequence[str],
    program: Sequence[str] = ("-m", "scenarios"),
    *,
    port: int = 0,
    trusted: Sequence[str] = (),
) -> Generator[Running]:
    """A witness, started as a user does."""
    trust = [word for each in origins for word in ("--trust", each)]
    trust += [word for each in trusted for word in ("--trusted-address", each)]
    options = ["--key", str(made.key), "--state", str(made.state), "--port", str(port), *trust]
    process = subprocess.Popen(
        [sys.executable, *program, "witness", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment(),
    )
    assert process.stderr is not None
    try:
        first, second = process.stderr.readline(), process.stderr.readline()
        assert first == f"witness {made.vkey}\n", first
        where = second.removeprefix("listening on ").strip()
        port = int(where.rpartition(":")[2])
        yield Running(process, witness_at(f"http://{where}", made.vkey), port)
    finally:
        process.kill()
        process.communicate()
