"""A plan tried on a person's own answers: its seed stays out of the record."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from parties.keeping.packing import Unpacked
from protocol import Stage
from protocol.simulation.populations.cohorts import Counted, Job
from protocol.transcript.entries import WITHHELD, Header
from protocol.transcript.reader import TranscriptReader
from scenarios.running import tabulating
from tests.scenarios.command import complaint, sottovoce
from tests.verifier.javascript import judged, needs_node

PLAN = """
title = "Trial"
epsilon = 2.0

[records]
delimiter = ";"

[[attributes]]
name = "age"
edges = [30, 60]

[[attributes]]
name = "smokes"
categories = ["no", "yes"]

[analysis]
tables = [["smokes"]]
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    rows = "".join(f"{20 + i % 60};{'yes' if i % 3 else 'no'}\n" for i in range(150))
    (tmp_path / "own.csv").write_text(f"age;smokes\n{rows}")
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


def make_header(path: Path) -> Header:
    return TranscriptReader(Unpacked(path.read_bytes())).header


def test_a_plan_is_tried_on_own_answers(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = ("run", plan, "--records", tmp_path / "own.csv", "--out", out)
    assert sottovoce(*run).code == 0
    assert make_header(out / "transcript.svt.zst").seed == WITHHELD
    values = json.loads((out / "result.json").read_text())
    assert values["seed"] == WITHHELD
    first = (out / "transcript.svt.zst").read_bytes()
    # Drawn anew, and a trial may be replaced as a simulation may.
    assert sottovoce(*run, "--set", "parties=10").code == 0
    assert (
        make_header(out / "transcript.svt.zst").nonce
        != TranscriptReader(Unpacked(first)).header.nonce
    )
    audited = sottovoce("audit", out / "transcript.svt.zst", "--json").json
    assert (audited["verdict"], audited["trial"], audited["simulated"]) == ("sound", True, False)


@pytest.mark.slow
def test_a_seed_that_is_asked_for_is_in_the_transcript(plan: Path, tmp_path: Path) -> None:
    run = ("run", plan, "--records", tmp_path / "own.csv", "--seed", 5, "--json")
    one, two = sottovoce(*run).json, sottovoce(*run).json
    assert (one["seed"], one["transcript"]) == (5, two["transcript"])
    assert sottovoce(*run, "--out", tmp_path / "out").code == 0
    transcript = tmp_path / "out" / "transcript.svt.zst"
    assert make_header(transcript).seed == 5
    audit = ("audit", transcript, "--records", tmp_path / "own.csv", "--json")
    assert "unknown category '20'" in complaint(sottovoce(*audit))
    replayed = sottovoce(*audit, "--plan", plan).json
    assert (replayed["replay"]["parties"], replayed["replay"]["follow"]) == (100, 100)


@pytest.mark.slow
def test_a_drawn_seed_is_in_no_file(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = 0x9ABC_DEF0_1234_5678
    monkeypatch.setattr(secrets, "randbits", lambda bits: seed)
    own, out = tmp_path / "own.csv", tmp_path / "out"
    beside = ("--html", out / "run.html", "--synthetic", out / "people.csv")
    said = [
        sottovoce("run", plan, "--records", own, "--out", out, *beside),
        sottovoce("tabulate", plan, "--records", own, "--n", 300, "--out", out / "law"),
        sottovoce(
            *("compare", plan, "--records", own, "--variant", "oue", "--epsilon", 1),
            *("--runs", 2, "--out", out / "compared"),
        ),
    ]
    assert [each.code for each in said] == [0, 0, 0]
    files = [path for path in out.rglob("*") if path.is_file()]
    assert {"transcript.svt.zst", "result.json", "compare.csv"} <= {path.name for path in files}
    texts = [path.read_bytes() for path in files]
    texts += [(each.out + each.err).encode() for each in said]
    forms = [str(seed).encode(), f"{seed:x}".encode(), f"{seed:X}".encode()]
    forms += [seed.to_bytes(8, "little"), seed.to_bytes(8, "big")]
    assert not any(form in text for form in forms for text in texts)


@pytest.mark.slow
@needs_node
def test_the_second_verifier_takes_a_trial(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert sottovoce("run", plan, "--records", tmp_path / "own.csv", "--out", out).code == 0
    [found] = judged(tmp_path, [b"".join(Unpacked((out / "transcript.svt.zst").read_bytes()))])
    assert (found["verdict"], found["broken"]) == ("sound", [])


def test_a_plan_is_tabulated_on_own_answers(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    law = ("tabulate", plan, "--records", tmp_path / "own.csv", "--n", "3000", "--cohort", "1000")
    said = sottovoce(*law, "--out", out)
    assert said.code == 0, said.err
    assert "3,000 people by law, drawn from 150 records of 'Trial'" in " ".join(said.out.split())
    assert "This was a trial" in said.out
    values = json.loads((out / "result.json").read_text())
    assert (values["seed"], values["respondents"]) == (WITHHELD, 3000)
    # Drawn anew each time, unless a seed is asked for.
    assert sottovoce(*law, "--json").json["digest"] != values["digest"]
    one, two = (sottovoce(*law, "--seed", 5, "--json").json for _ in range(2))
    assert (one["seed"], one["digest"]) == (5, two["digest"])


def test_a_tabulation_goes_on_with_the_seed_that_was_drawn(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    law = ("tabulate", plan, "--records", tmp_path / "own.csv", "--n", "3000", "--cohort", "1000")
    drawn = iter([7, 8])
    monkeypatch.setattr(secrets, "randbits", lambda bits: next(drawn))
    counted = tabulating.count_cohort

    def broken(job: Job, stage: Stage, cohort: int, k: int) -> Counted:
        if cohort == 2:
            raise KeyboardInterrupt
        return counted(job, stage, cohort, k)

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(tabulating, "count_cohort", broken)
        sottovoce(*law, "--out", out)
    assert (out / "cohorts.part").exists()
    done = sottovoce(*law, "--out", out, "--json")
    assert done.code == 0, done.err
    assert done.json["digest"] == sottovoce(*law, "--seed", 7, "--json").json["digest"]


def test_many_parties_are_said_to_cost(plan: Path, tmp_path: Path) -> None:
    run = ("run", plan, "--records", tmp_path / "own.csv")
    said = sottovoce(*run, "--parties", 20_000)
    assert said.err.startswith("20,000 live parties take 10 s and 0.3 GB or more; with fewer ")
    assert "more than the 150 records" in said.err


@pytest.mark.slow
def test_a_million_answers_of_eight_questions_fit_into_a_gigabyte(tmp_path: Path) -> None:
    n, draw = 1_000_000, np.random.default_rng(1)
    columns = [draw.lognormal(10, 1, n).round(2).tolist() for _ in range(4)]
    columns += [draw.choice([f"town {i}" for i in range(3000)], n).tolist() for _ in range(2)]
    columns += [draw.choice(["yes", "no", ""], n, p=[0.3, 0.6, 0.1]).tolist() for _ in range(2)]
    with (tmp_path / "own.csv").open("w") as file:
        file.write(";".join("abcdefgh") + "\n")
        file.writelines(";".join(map(str, row)) + "\n" for row in zip(*columns, strict=True))
    for command in (
        ("plan", "--from", "own.csv", "--out", "plan.toml"),
        ("run", "plan.toml", "--records", "own.csv", "--parties", "100", "--out", "trial"),
    ):
        running = subprocess.Popen([sys.executable, "-m", "scenarios", *command], cwd=tmp_path)
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        assert running.returncode == 0
        assert used.ru_maxrss < 2**20  # kilobytes
    values = json.loads((tmp_path / "trial" / "result.json").read_text())
    assert (values["respondents"], values["parties"]) == (n, 100)


def test_a_party_answers_from_a_table_as_the_plan_reads_it(plan: Path, tmp_path: Path) -> None:
    unannounced, _, _ = plan.read_text().partition("[analysis]")
    plan.write_text(unannounced.replace("epsilon", "max_records = 150\nepsilon"))
    keys, own = tmp_path / "keys", tmp_path / "own.csv"
    assert sottovoce("keys", plan, "--party", "anna", "--out", keys).code == 0
    answer = ("answer", keys / "anna", "--connect", "127.0.0.1:1", "--waiting", "0")
    answer = (*answer, "--purse", tmp_path / "purse", "--records", own)
    assert "column 'age': unknown category '20'" in complaint(sottovoce(*answer))
    # It is read by now, and nobody listens.
    assert "127.0.0.1:1" in complaint(sottovoce(*answer, "--plan", plan), 69)
    check = ("preflight", keys / "anna", "--purse", tmp_path / "purse")
    said = sottovoce(*check, "--records", own, "--plan", plan)
    assert "150 respondents, every answer has a category" in said.out
    assert "--plan: expected --records" in complaint(sottovoce(*check, "--plan", plan))
    assert "is for a member's folder" in complaint(
        sottovoce("preflight", plan, "--records", own, "--plan", plan)
    )
    other = tmp_path / "other.toml"
    for old, new, why in (
        ('title = "Trial"', 'title = "Other"', "asks 'Other', and this survey is 'Trial'"),
        ('name = "age"', 'name = "years"', "asks about years, smokes, and this survey about age"),
        ("edges = [30, 60]", "edges = [30]", "asks about age with other categories"),
    ):
        other.write_text(plan.read_text().replace(old, new))
        assert why in complaint(sottovoce(*answer, "--plan", other))
