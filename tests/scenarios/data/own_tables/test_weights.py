"""Design weights in a plan: what is estimated, recorded and audited, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scenarios import read_plan
from tests.scenarios.command import sottovoce

PLAN = """
title = "Weights"
variant = "rr-independent"
p = 0.8

[weights]
north = 4
south = 0.5

[records]
stratum = "region"

[[attributes]]
name = "age"
edges = [30, 60]

[[attributes]]
name = "smokes"
categories = ["no", "yes"]

[analysis]
tables = [["smokes"]]
level = 0.9
about = "population"
"""
ROWS = [("north", 20 + i, "yes" if i % 4 else "no") for i in range(40)] + [
    ("south", 20 + i % 60, "no" if i % 4 else "yes") for i in range(160)
]
N = 200
EFFECTIVE = (40 * 4 + 160 * 0.5) ** 2 / (40 * 4**2 + 160 * 0.5**2)
TRUE = (40 * 0.75 * 4 + 160 * 0.25 * 0.5) / (40 * 4 + 160 * 0.5)


def written(folder: Path, text: str = PLAN, rows: list[tuple[str, int, str]] = ROWS) -> Path:
    """A plan beside its table."""
    lines = (f"{region},{age},{smokes}" for region, age, smokes in rows)
    (folder / "own.csv").write_text("\n".join(("region,age,smokes", *lines)) + "\n")
    path = folder / "plan.toml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a trial."""
    folder = tmp_path_factory.mktemp("weights")
    plan = written(folder)
    said = sottovoce(
        "run", plan, "--records", folder / "own.csv", "--out", folder / "out", "--set", "parties=9"
    )
    assert said.code == 0, said.err
    (folder / "said.txt").write_text(" ".join(said.out.split()))
    return folder


def kernel_result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "result.json").read_text())
    return found


def test_a_trial_shows_the_weighted_truth_and_the_effective_sample_size(ran: Path) -> None:
    values = kernel_result(ran)
    assert values["truth"]["marginals"]["smokes"]["yes"] == pytest.approx(TRUE)
    assert values["estimate"]["respondents"] == N
    assert values["estimate"]["effective_sample_size"] == pytest.approx(EFFECTIVE)
    said = (ran / "said.txt").read_text()
    assert said.count(f"weighted (effective sample size {EFFECTIVE:,.0f})") == 1
    assert "is not known (the survey has weights)" in said


def test_the_audit_computes_the_weighted_estimate_from_the_transcript(ran: Path) -> None:
    transcript = ran / "out" / "transcript.svt.zst"
    audited = sottovoce("audit", transcript, "--json")
    assert audited.code == 0, audited.err
    found = json.loads(audited.out)["result"]
    assert found["follows"] is True
    assert found["effective_sample_size"] == pytest.approx(EFFECTIVE)
    values = kernel_result(ran)["estimate"]["marginals"]
    for name, shares in found["marginals"].items():
        assert shares == pytest.approx(values[name])
    assert "200 respondents, weighted (effective sample size" in sottovoce("audit", transcript).out


def test_an_estimate_is_weighted_and_its_announced_interval_too(ran: Path) -> None:
    transcript = ran / "out" / "transcript.svt.zst"
    asked = ("--table", "smokes", "--level", 0.9, "--about", "population", "--json")
    said = sottovoce("estimate", transcript, *asked)
    assert said.code == 0, said.err
    estimate = json.loads(said.out)
    assert estimate["effective_sample_size"] == pytest.approx(EFFECTIVE)
    [_, row] = estimate["rows"]
    values = kernel_result(ran)
    [table] = values["analysis"]["tables"]
    cell = table["cells"][1]
    assert (row["value"], row["low"], row["high"]) == (cell["value"], cell["low"], cell["high"])
    assert row["value"] == pytest.approx(values["estimate"]["marginals"]["smokes"]["yes"])
    # Not narrower than that of so many respondents with answers that nobody randomized.
    sampled = (row["value"] * (1 - row["value"]) / EFFECTIVE) ** 0.5
    assert row["high"] - row["low"] > 2 * 1.645 * sampled


def test_who_answers_needs_no_column_of_strata(tmp_path: Path) -> None:
    plan = written(tmp_path)
    (tmp_path / "one.csv").write_text("age,smokes\n44,yes\n")
    assert len(read_plan(plan).records(tmp_path / "one.csv")) == 1
