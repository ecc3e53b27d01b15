"""Mistakes that take more than a command and its files: other processes, forged records, bytes.

All others are in ``tests/cases/mistakes``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from parties.keeping.packing import Unpacked
from protocol.errors import UsageError
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.verification import verify
from protocol.variants import RRIndependent
from scenarios import simulate
from scenarios.errors import printable
from scenarios.running.loopback import allow_connections
from tests.every_variant import BITS
from tests.pages import independent
from tests.recorded.forgeries import Forgery
from tests.recorded.runs import recorded
from tests.scenarios.command import (
    OWN,
    ROOT,
    complaint,
    environment,
    python,
    sottovoce,
    write_adult,
)
from tests.scenarios.survey_folders import PLAN, make_folders, plan_file, table
from tests.tiers import slow, thinned
from transports.testing import HANGS

QUICK = ("run", "quickstart", "--set", "residents=20")


def set_(*settings: str) -> tuple[str, ...]:
    return tuple(part for setting in settings for part in ("--set", setting))


def test_of_data_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "adult.data").write_bytes(b"\xff\xfe\x00")
    assert "not text" in complaint(sottovoce("run", "adult-joint", "--data", tmp_path))
    assert "not text" in complaint(sottovoce("run", "adult-joint", "--data", tmp_path, "--json"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_of_a_table_without_permission(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", "no,young")
    path.chmod(0)
    assert complaint(sottovoce("plan", "--from", path)) == f"{path}: no permission"


def test_of_a_place_that_takes_no_folders() -> None:
    assert "/proc" in complaint(sottovoce(*QUICK, "--out", "/proc/nosuch"))


def test_too_many_sockets() -> None:
    with pytest.raises(
        UsageError, match=r"\d+ open files allowed by the system: use fewer parties"
    ):
        allow_connections(2**31)


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["tcp", "tls"])
def test_too_many_parties_for_sockets_leave_no_record(transport: str, tmp_path: Path) -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)); "
        "from scenarios.cli import main; main()"
    )
    said = python("-c", program, *QUICK, "--transport", transport, "--out", tmp_path)
    assert "20 sockets" not in said.err
    assert "40 sockets needed in one process, 100 open files allowed by the system" in complaint(
        said
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("transport", thinned(["local", "memory", "tcp", "tls"], 1))
def test_a_failed_run_keeps_its_record_and_the_earlier_one(transport: str, tmp_path: Path) -> None:
    write_adult(tmp_path / "data", 50)
    run = ("run", "adult-joint", "--data", tmp_path / "data", "--transport", transport)
    out = tmp_path / "out"
    assert sottovoce(*run, "--out", out).code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    said = sottovoce(*run, "--out", out, *set_("drop=0.999999"), "--json")
    assert complaint(said, code=1).startswith("0 of 50 sent 'Report', at least 25 needed; missing:")
    after = {path.name: path.read_bytes() for path in out.iterdir()}
    failed = after.pop("transcript.svt.zst.partial")
    assert after == before
    verification = verify(Unpacked(failed))
    assert not verification.faults
    assert not verification.complete
    assert verification.ending is not None
    assert verification.ending.reason == "QuorumError"


@pytest.mark.slow
@pytest.mark.parametrize("transport", thinned(["local", "memory", "tcp"], 2))
def test_an_interrupt_in_the_middle(transport: str, tmp_path: Path) -> None:
    said = python(
        *("-m", "scenarios", "run", f"{OWN}:interrupted"),
        *("--transport", transport, "--out", tmp_path),
    )
    assert said.code == 130
    assert "Traceback" not in said.err
    assert said.err == "interrupted\n"
    [partial] = tmp_path.iterdir()
    reader = TranscriptReader(Unpacked(partial.read_bytes()))
    assert len(list(reader)) >= 4
    assert reader.ending is not None
    assert not reader.ending.complete


@pytest.mark.parametrize(
    "arguments",
    [("list",), ("run", "quickstart", "--set", "residents=20", "--json"), slow(("--help",))],
)
def test_a_closed_stdout_is_no_complaint(arguments: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "scenarios", *arguments],
        stdout=write,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
        timeout=HANGS,
        check=False,
    )
    os.close(write)
    assert done.stderr == b""
    assert done.returncode == 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device")
def test_a_full_disk_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "scenarios", *QUICK, "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
            text=True,
            timeout=HANGS,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "sottovoce: the disk is full\n"


@pytest.mark.slow
def test_bad_input_in_a_process_of_its_own(tmp_path: Path) -> None:
    said = python("-m", "scenarios", "run", "quickstart", "--set", "p=2", cwd=ROOT)
    assert complaint(said) == "parameter 'p' = '2': expected a number below 1"


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert printable("a\x1b[31m\n\udc80é") == "a\\x1b[31m\\n\\x80é"
    assert "\x1b" not in complaint(sottovoce("run", "\x1b[31mred"))
    assert "\\x1b" in complaint(sottovoce("verify", "/\x1b[31mred"))


@pytest.mark.parametrize(
    ("seed", "says"),
    [(-1, "seed -1, expected at least 0"), (-(2**63), "expected at least 0"), (2**64 - 1, "")],
)
def test_of_a_header(seed: int, says: str, tmp_path: Path) -> None:
    forgery = Forgery(recorded(RRIndependent.with_keep(BITS, 0.6), 3, signed=True).content)
    forgery.header["seed"] = seed
    path = tmp_path / "t.svt"
    path.write_bytes(forgery.write())
    verified = sottovoce("verify", path)
    assert verified.code == 1
    assert ("a negative seed" in verified.out) == bool(says)
    for options in ((), ("--json",), ("--html", tmp_path / "page.html"), ("--worst", "1")):
        said = sottovoce("audit", path, *options)
        assert says in complaint(said) if says else said.code == 1
    [row] = sottovoce("query", path, "SELECT value FROM header WHERE key = 'seed'", "--json").json
    assert row == {"value": str(seed)}
    asked = "SELECT value FROM header WHERE key = 'seed'"
    assert sottovoce("query", path, asked, "--json").json == [{"value": str(seed)}]


def test_of_a_question(tmp_path: Path) -> None:
    path = tmp_path / "t.svt"
    path.write_bytes(independent())
    said = sottovoce("query", path, "SELECT '\udcff'")
    assert "surrogates not allowed" in complaint(said)


@pytest.mark.parametrize("address", ["n\udcff:1", "a" * 300 + ":1"])
def test_of_an_address(address: str, tmp_path: Path) -> None:
    folders = make_folders(tmp_path)
    records = table(tmp_path / "anna.csv", "no,young")
    for command in (
        ("aggregate", folders / "aggregator", "--listen", address, "--out", tmp_path / "out"),
        ("answer", folders / "anna", "--connect", address, "--records", records),
    ):
        said = complaint(sottovoce(*command))
        assert said.endswith((": expected HOST:PORT", "is not a valid host name"))


def test_of_a_plan_of_large_messages(tmp_path: Path) -> None:
    questions = "".join(
        f'[[attributes]]\nname = "q{i}"\ncategories = ["no", "yes"]\n' for i in range(80)
    )
    plan = plan_file(
        tmp_path, PLAN.replace("max_records = 3", f"max_records = {2**20}") + questions
    )
    said = complaint(sottovoce("keys", plan, "--count", 2, "--out", tmp_path / "k"))
    assert f"max_records = {2**20}: a message could have" in said
    assert not (tmp_path / "k").exists()


def test_of_a_charter(tmp_path: Path) -> None:
    folder = make_folders(tmp_path) / "anna"
    charter = json.loads((folder / "charter.json").read_text())
    records = table(tmp_path / "anna.csv", "no,young")
    for field, value, says in (
        ("nonce", "", "nonce: expected bytes, at least 16"),
        ("nonce", "A" * 24, "nonce: expected bytes, at most 16"),
        ("parameters", {**charter["parameters"], "quorum": -1}, "at least 1"),
        ("parameters", {**charter["parameters"], "quorum": 2**64}, "quorum"),
        ("parameters", {**charter["parameters"], "max_records": 10**30}, "max_records"),
    ):
        (folder / "charter.json").write_text(json.dumps({**charter, field: value}))
        said = sottovoce(
            "answer", folder, "--waiting", 0, "--connect", "localhost:1", "--records", records
        )
        assert says in complaint(said)


@pytest.mark.slow
def test_a_bug_is_not_dressed_up_as_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    source = OWN.read_text().replace("town(40, seed=context.seed)", "1 / 0", 1)
    path.write_text(source)
    said = python("-m", "scenarios", "run", f"{path}:plain")
    assert said.code == 70
    assert "ZeroDivisionError" in said.err


def test_simulate_is_as_strict_about_transports() -> None:
    from protocol.variants import RRJoint
    from scenarios import town

    records = town(2, seed=1)
    with pytest.raises(UsageError, match="pigeon"):
        simulate(RRJoint.with_keep(records.survey, 0.5), records, transport="pigeon")
