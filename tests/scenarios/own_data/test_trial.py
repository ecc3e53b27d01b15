"""A plan tried on a person's own answers: its seed stays out of the record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from protocol.transcript.entries import WITHHELD, Header
from protocol.transcript.reader import TranscriptReader
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


def header_of(path: Path) -> Header:
    return TranscriptReader(path.read_bytes()).header


def test_a_plan_is_tried_on_own_answers(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = ("run", plan, "--records", tmp_path / "own.csv", "--out", out)
    said = sottovoce(*run)
    assert said.code == 0, said.err
    assert "100 of 100 parties, 150 respondents" in said.out
    assert "announced" in said.out.lower()
    assert "This was a trial" in said.out
    assert "seed is in the transcript" not in said.out
    assert header_of(out / "transcript.svt").seed == WITHHELD
    values = json.loads((out / "result.json").read_text())
    assert values["seed"] == WITHHELD
    first = (out / "transcript.svt").read_bytes()
    # Drawn anew, and a trial may be replaced as a simulation may.
    assert sottovoce(*run, "--set", "parties=10").code == 0
    assert header_of(out / "transcript.svt").nonce != TranscriptReader(first).header.nonce
    audited = sottovoce("audit", out / "transcript.svt", "--json").json
    assert (audited["accepted"], audited["trial"], audited["simulated"]) == (True, True, False)
    text = sottovoce("audit", out / "transcript.svt").out
    assert "A trial: one program held all answers." in " ".join(text.split())


def test_a_seed_that_is_asked_for_is_in_the_transcript(plan: Path, tmp_path: Path) -> None:
    run = ("run", plan, "--records", tmp_path / "own.csv", "--seed", 5, "--json")
    one, two = sottovoce(*run).json, sottovoce(*run).json
    assert (one["seed"], one["transcript"]) == (5, two["transcript"])
    assert sottovoce(*run, "--out", tmp_path / "out").code == 0
    assert header_of(tmp_path / "out" / "transcript.svt").seed == 5


@needs_node
def test_the_second_verifier_takes_a_trial(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert sottovoce("run", plan, "--records", tmp_path / "own.csv", "--out", out).code == 0
    [found] = judged(tmp_path, [(out / "transcript.svt").read_bytes()])
    assert (found["verdict"], found["broken"]) == ("accepted", [])


def test_records_go_with_a_plan_alone(plan: Path, tmp_path: Path) -> None:
    assert "expected --records too" in complaint(sottovoce("run", plan))
    own = tmp_path / "own.csv"
    assert "expected a plan" in complaint(sottovoce("run", "quickstart", "--records", own))
    own.write_text("age;smokes\nold;yes\n")
    assert "row 1, column 'age': 'old': expected a number" in complaint(
        sottovoce("run", plan, "--records", own)
    )
