"""Tables brought out of transcripts: what the library says of the published result."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from protocol.estimators.inference.words import Intervals
from protocol.estimators.tables import Estimated
from protocol.variants import RRIndependent
from scenarios import simulate, town
from scenarios.cli.surveys.estimating import _figures
from scenarios.running.outcomes import Outcome
from tests.scenarios.command import complaint, sottovoce


@pytest.fixture(scope="module")
def transcript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("estimate") / "transcript.svt"


@pytest.fixture(scope="module")
def outcome(transcript: Path) -> Outcome:
    records = town(400, seed=3)
    variant = RRIndependent.with_keep(records.survey, p=0.6)
    return simulate(variant, records, path=transcript, parties=20)


def test_a_table_is_written_as_a_file(outcome: Outcome, transcript: Path, tmp_path: Path) -> None:
    out = tmp_path / "table.csv"
    said = sottovoce(
        "estimate", transcript, "--table", "smokes, clinic", "--about", "population",
        "--level", 0.9, "--out", out,
    )  # fmt: skip
    assert (said.code, said.out) == (0, f"written: {out}\n")
    table = outcome.estimate.table("smokes", "clinic")
    low, high = table.interval(0.9, "population")
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["value"]) for row in rows] == table.values.ravel().tolist()
    assert [float(row["low"]) for row in rows] == low.ravel().tolist()
    assert [float(row["high"]) for row in rows] == high.ravel().tolist()
    assert {(row["level"], row["about"]) for row in rows} == {("0.9", "population")}
    assert table.population_errors is not None
    errors = [float(row["standard_error"]) for row in rows]
    assert errors == table.population_errors.ravel().tolist()
    assert [row["clinic"] for row in rows[:4]] == list(table.categories[1])


def test_every_attribute_by_itself(outcome: Outcome, transcript: Path, tmp_path: Path) -> None:
    out = tmp_path / "all.json"
    assert sottovoce("estimate", transcript, "--project", "simplex", "--out", out).code == 0
    values = json.loads(out.read_text())
    assert values == sottovoce("estimate", transcript, "--project", "simplex", "--json").json
    assert (values["respondents"], values["projection"]) == (400, "simplex")
    for name, table in outcome.estimate.marginals("simplex").items():
        rows = [row for row in values["rows"] if row["attribute"] == name]
        assert [row["value"] for row in rows] == table.values.tolist()


def test_a_count_of_those_who_answered_so(outcome: Outcome, transcript: Path) -> None:
    wanted = ("--where", "smokes=yes", "--where", "clinic=asthma", "--where", "clinic=diabetes")
    [row] = sottovoce("estimate", transcript, *wanted, "--json").json["rows"]
    count = outcome.estimate.count({"smokes": ["yes"], "clinic": ["asthma", "diabetes"]})
    assert (row["smokes"], row["clinic"]) == ("yes", "asthma or diabetes")
    assert (row["value"], row["standard_error"]) == (count.value, count.standard_error)
    assert [row["low"], row["high"]] == [float(end) for end in count.interval()]
    said = sottovoce("estimate", transcript, *wanted).out
    assert f"{count.value:.1f}" in said
    assert "95 % interval" in said


def test_what_does_not_follow_is_not_brought_out(
    outcome: Outcome, transcript: Path, tmp_path: Path
) -> None:
    content = bytearray(transcript.read_bytes())
    content[len(content) // 2] ^= 1
    broken = tmp_path / "broken.svt"
    broken.write_bytes(content)
    out = tmp_path / "table.csv"
    said = sottovoce("estimate", broken, "--out", out)
    assert said.code == 1
    assert said.out == ""
    assert not out.exists()
    [line] = said.err.splitlines()
    assert "does not accept it" in line


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--table", "smokes,nothing"), "no attribute 'nothing'"),
        (("--table", "smokes,smokes"), "named twice"),
        (("--where", "smokes"), "expected NAME=CATEGORY"),
        (("--where", "smokes=maybe"), "unknown category 'maybe'"),
        (("--where", "smokes=yes", "--table", "smokes"), "expected one table, or conditions"),
        (("--table", "smokes", "--table", "clinic"), "expected one table, or conditions"),
        (("--where", "smokes=yes", "--project", "clip"), "a count is not projected"),
        (("--out", "table.txt"), "ends in .csv or .json"),
        (("--level", "1.5"), "1.5"),
    ],
)
def test_bad_options_are_refused_in_a_line(
    outcome: Outcome, transcript: Path, options: tuple[str, ...], said: str
) -> None:
    assert said in complaint(sottovoce("estimate", transcript, *options))


def test_means_of_numbers(tmp_path: Path) -> None:
    out = tmp_path / "means"
    assert sottovoce("run", "town-means", "--set", "residents=300", "--out", out).code == 0
    rows = sottovoce("estimate", out / "transcript.svt", "--json").json["rows"]
    means = json.loads((out / "result.json").read_text())["estimate"]["means"]
    assert {row["attribute"]: row["value"] for row in rows} == {
        name: mean["mean"] for name, mean in means.items()
    }


def test_an_unknown_interval_of_a_number_is_empty_as_that_of_a_cell() -> None:
    row = _figures(Estimated(0.5, None), Intervals())
    assert row == {"value": 0.5, "standard_error": None, "low": None, "high": None}
