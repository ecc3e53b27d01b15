"""Design weights in a plan: what is estimated, recorded and audited, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scenarios import read_plan
from tests.scenarios.command import complaint, sottovoce

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
    assert "cannot be known (the survey has weights)" in said


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


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("south = 0.5", "south = 0", "weights: south = 0.0: expected a number above 0"),
        ("south = 0.5", "south = -1.5", "weights: south = -1.5: expected a number above 0"),
        ("south = 0.5", "south = nan", "weights: south = nan: expected a number above 0"),
        ("south = 0.5", "south = inf", "weights: south = inf: expected a number above 0"),
        ("south = 0.5", 'south = "much"', "expected a number, not a text"),
        ("north = 4\nsouth = 0.5", "", "weights: 0 strata, expected 1 to 256"),
        ("south = 0.5", "west = 0.5", "own.csv: column 'region', row 41: unknown stratum 'south'"),
        ('stratum = "region"', "", "weights: expected stratum in [records] too"),
        ('stratum = "region"', 'stratum = "Regoin"', "own.csv: no column 'Regoin'"),
        ('stratum = "region"', 'stratum = "smokes"', "stratum 'smokes' is asked by the survey"),
        ('"rr-independent"\np = 0.8', '"secure-sum"', "weights: variant 'secure-sum' publishes no"),
    ],
)
def test_bad_weights_are_refused_in_a_line(old: str, new: str, why: str, tmp_path: Path) -> None:
    assert old in PLAN
    plan = written(tmp_path, PLAN.replace(old, new))
    out, own = tmp_path / "out", tmp_path / "own.csv"
    said = sottovoce("run", plan, "--records", own, "--out", out, "--set", "parties=9")
    assert why in complaint(said)
    assert not out.exists() or not [*out.iterdir()]


def test_there_are_at_least_as_many_parties_as_strata(tmp_path: Path) -> None:
    plan = written(tmp_path)
    said = sottovoce("run", plan, "--records", tmp_path / "own.csv", "--set", "parties=1")
    assert "1 parties: expected at least 2, one for each stratum" in complaint(said)


@pytest.mark.parametrize(
    "command",
    [
        ("design", "--n", 100, "--epsilon", 1),
        ("compare", "--records", "own.csv", "--variant", "rr-joint", "--epsilon", 1),
        ("tabulate", "--records", "own.csv", "--n", 100),
    ],
    ids=lambda command: command[0],
)
def test_what_takes_respondents_to_count_alike_refuses_weights(
    command: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path)
    monkeypatch.chdir(tmp_path)
    name, *options = command
    assert complaint(sottovoce(name, "plan.toml", *options)).startswith("weights: ")


def test_parties_of_a_real_survey_are_named_after_their_strata(tmp_path: Path) -> None:
    plan = written(tmp_path)
    ours, theirs = (
        sottovoce("keys", plan, "--party", "north-1", "--party", other, "--out", tmp_path / other)
        for other in ("south-1", "east-1")
    )
    assert ours.code == 0, ours.err
    assert "party 'east-1' is in no stratum; expected a name that begins" in complaint(theirs)
    assert not (tmp_path / "east-1").exists()
    said = sottovoce("preflight", plan)
    assert "north 4, south 0.5" in " ".join(said.out.split())


def test_who_answers_needs_no_column_of_strata(tmp_path: Path) -> None:
    plan = written(tmp_path)
    (tmp_path / "one.csv").write_text("age,smokes\n44,yes\n")
    assert len(read_plan(plan).records(tmp_path / "one.csv")) == 1
