"""A survey goes on though nobody reads, or can read, what its members say on standard error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from protocol import AGGREGATOR
from tests.scenarios.command import ROOT, environment
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import ROWS, table
from tests.scenarios.surveys.operating.test_stopping import free_port
from tests.tiers import thinned
from transports.testing import HANGS


@contextmanager
def unread(*arguments: object) -> Generator[subprocess.Popen[str]]:
    """Python with a standard error whose reader is gone; killed when the block ends."""
    reading, written = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=written,
        text=True,
        cwd=ROOT,
        env=environment(),
    ) as process:
        os.close(written)
        try:
            yield process
        finally:
            process.kill()


CLOSED = ("sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "scenarios")


@pytest.mark.slow
def test_a_survey_is_held_with_standard_error_closed(keys: Path, tmp_path: Path) -> None:
    records, out = table(tmp_path / "r.csv", *ROWS), tmp_path / "out"
    where = f"127.0.0.1:{free_port()}"
    asking = ("aggregate", keys / AGGREGATOR, "--listen", where, "--out", out, "--json")
    answering = ("--connect", where, "--records", records, "--waiting", "60")
    members = [asking] + [("answer", keys / name, *answering) for name in ("anna", "bert", "carl")]
    running = [
        subprocess.Popen(
            [*CLOSED, *map(str, member)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment(),
        )
        for member in members
    ]
    try:
        said = [process.communicate(timeout=HANGS)[0] for process in running]
    finally:
        for process in running:
            process.kill()
            process.communicate()
    assert [process.returncode for process in running] == [0, 0, 0, 0]
    assert json.loads(said[0])["counted"] == 3
    assert (out / "transcript.svt.zst").exists()


def test_bad_input_has_its_exit_code_with_standard_error_closed() -> None:
    assert subprocess.run([*CLOSED, "verify", "nowhere"], cwd=ROOT, check=False).returncode == 2


@pytest.mark.slow
def test_a_survey_is_published_though_nobody_hears_that_it_listens(
    keys: Path, tmp_path: Path
) -> None:
    records, out = table(tmp_path / "r.csv", *ROWS), tmp_path / "out"
    where = f"127.0.0.1:{free_port()}"
    command = ("aggregate", keys / AGGREGATOR, "--listen", where, "--out", out, "--json")
    with unread("-m", "scenarios", *command) as aggregator:
        options = ("--connect", where, "--records", records, "--waiting", 60)
        parties = [Program("answer", keys / name, *options) for name in ("anna", "bert", "carl")]
        try:
            said, _ = aggregator.communicate(timeout=HANGS)
        finally:
            for party in parties:
                party.kill()
                party.communicate()
    assert aggregator.returncode == 0
    assert json.loads(said)["counted"] == 3
    assert (out / "transcript.svt.zst").exists()


@pytest.mark.parametrize(
    ("code", "expected"),
    thinned(
        [
            ("from scenarios.errors import say; say('one'); say('two'); print('done')", 0),
            ("from scenarios.cli import main; main(['verify', 'nowhere'])", 2),
        ],
        1,
    ),
)
def test_what_nobody_reads_leaves_the_exit_code(code: str, expected: int) -> None:
    with unread("-c", code) as process:
        process.communicate(timeout=HANGS)
    assert process.returncode == expected
