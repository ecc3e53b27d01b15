"""Tables brought out of transcripts: what the library says of the published result."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from pathlib import Path

import numpy as np
import pandas
import pyarrow.parquet
import pytest

from protocol import Attribute, Estimated, Records, Survey, exact_test
from protocol.estimators.inference.intervals import Intervals
from protocol.variants import RRBA, RRIndependent
from scenarios import Outcome, simulate, town
from scenarios.cli.surveys.estimating import _figures
from scenarios.errors import install_command
from scenarios.files.parquet import encode_parquet
from scenarios.report.beside import write_synthetic
from scenarios.statement.tables import rows_values
from scenarios.wording.formatting import as_json
from tests.scenarios.command import complaint, sottovoce


@pytest.fixture(scope="module")
def transcript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("estimate") / "transcript.svt.zst"


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
    said_of = {(row["level"], row["about"], row["source"]) for row in rows}
    assert said_of == {("0.9", "population", "simulation")}
    assert table.population_errors is not None
    errors = [float(row["standard_error"]) for row in rows]
    assert errors == table.population_errors.ravel().tolist()
    assert [row["clinic"] for row in rows[:4]] == list(table.categories[1])


def exact(file: Path) -> pandas.DataFrame:
    """A CSV file whose numbers are what is written: pandas itself rounds some, by its version."""

    def numbers(column: pandas.Series) -> pandas.Series:
        try:
            return column.map(float)
        except ValueError:
            return column

    return pandas.read_csv(file, keep_default_na=False, dtype=str).apply(numbers)


def test_several_tables_stand_below_each_other(
    outcome: Outcome, transcript: Path, tmp_path: Path
) -> None:
    out = tmp_path / "tables.csv"
    asked = ("--table", "smokes,clinic", "--table", "clinic,age")
    assert sottovoce("estimate", transcript, *asked, "--out", out).code == 0
    frame = exact(out)
    assert [*frame.columns][:4] == ["table", "smokes", "clinic", "age"]
    for names in (["smokes", "clinic"], ["clinic", "age"]):
        rows = frame[frame["table"] == ",".join(names)]
        table = outcome.estimate.table(*names)
        assert rows["value"].tolist() == table.values.ravel().tolist()
        for name, column in table.columns().items():
            assert name not in names or rows[name].tolist() == column.tolist()
        [absent] = {"smokes", "clinic", "age"} - {*names}
        assert set(rows[absent]) == {""}
    first = sottovoce("estimate", transcript, *asked, "--json").json["rows"][0]
    assert (first["table"], first["age"]) == ("smokes,clinic", None)


def test_a_parquet_file_has_what_a_csv_file_has(
    outcome: Outcome, transcript: Path, tmp_path: Path
) -> None:
    asked = ("--table", "smokes,clinic", "--table", "age", "--level", 0.9)
    out, text = tmp_path / "t.parquet", tmp_path / "t.csv"
    for file in (out, text):
        assert sottovoce("estimate", transcript, *asked, "--out", file).code == 0
    found = pyarrow.parquet.read_table(out)
    with text.open(newline="") as lines:
        written = list(csv.DictReader(lines))
    assert [
        {name: "" if cell is None else str(cell) for name, cell in row.items()}
        for row in found.to_pylist()
    ] == written
    assert pyarrow.types.is_dictionary(found.schema.field("clinic").type)
    assert pyarrow.types.is_float64(found.schema.field("low").type)
    said = {key.decode(): value.decode() for key, value in found.schema.metadata.items()}
    assert said == {
        "sottovoce.variant": "rr-independent",
        "sottovoce.source": "simulation",
        "sottovoce.digest": outcome.digest.hex(),
        "sottovoce.respondents": "400",
        "sottovoce.level": "0.9",
        "sottovoce.about": "respondents",
        "sottovoce.projection": "none",
    }


def test_what_is_unknown_is_null_in_parquet() -> None:
    columns = {"a": np.array(["x", None], np.object_), "value": np.array([math.nan, 0.5])}
    found = pyarrow.parquet.read_table(io.BytesIO(encode_parquet(columns, {})))
    assert found.to_pydict() == {"a": ["x", None], "value": [None, 0.5]}


def test_without_pyarrow_the_extra_is_named(
    outcome: Outcome, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    said = complaint(sottovoce("estimate", transcript, "--out", "x.parquet"))
    assert said == f"--out x.parquet needs pyarrow: {install_command('parquet')}"


def test_synthetic_records_are_those_of_the_run(
    outcome: Outcome, transcript: Path, tmp_path: Path
) -> None:
    first, again = tmp_path / "first.csv", tmp_path / "again.csv"
    said = sottovoce("estimate", transcript, "--synthetic", first, "--out", tmp_path / "t.csv")
    assert said.out.splitlines() == [f"written: {tmp_path / 't.csv'}", f"written: {first}"]
    assert len(first.read_text().splitlines()) == 401
    write_synthetic(again, outcome.estimate, outcome.digest)
    assert first.read_text() == again.read_text()
    write_synthetic(again, outcome.estimate, bytes(32))
    assert first.read_text() != again.read_text()


def test_a_trial_is_stamped(tmp_path: Path) -> None:
    plan, records, out = tmp_path / "plan.toml", tmp_path / "r.csv", tmp_path / "out"
    attribute = '[[attributes]]\nname = "value"\ncategories = ["x", "y"]\n'
    plan.write_text(f'title = "T"\nepsilon = 2.0\n{attribute}')
    records.write_text("value\n" + "x\n" * 30 + "y\n" * 10)
    assert sottovoce("run", plan, "--records", records, "--out", out).code == 0
    said = sottovoce("estimate", out / "transcript.svt.zst")
    assert "The record is of a trial" in said.out
    assert sottovoce("estimate", out / "transcript.svt.zst", "--json").json["source"] == "trial"


def test_an_attribute_may_have_the_name_of_another_column(tmp_path: Path) -> None:
    names, file = ("value", "level", "x"), tmp_path / "t.csv"
    survey = Survey("T", tuple(Attribute(name=name, categories=("p", "q")) for name in names))
    records = Records(survey, np.arange(120).reshape(40, 3) % 2)
    variant = RRIndependent.with_keep(survey, p=0.6)
    outcome = simulate(variant, records, path=tmp_path / "t.svt")
    command = ("estimate", tmp_path / "t.svt")
    assert sottovoce(*command, "--table", "value,x", "--table", "level", "--out", file).code == 0
    frame = exact(file)
    assert [*frame.columns][:5] == ["table", "attribute value", "x", "attribute level", "value"]
    assert frame["attribute level"].tolist() == ["", "", "", "", "p", "q"]
    shares = [
        outcome.estimate.table(*asked).values.ravel() for asked in (("value", "x"), ("level",))
    ]
    assert frame["value"].tolist() == np.concatenate(shares).tolist()
    assert set(frame["level"]) == {0.95}
    [row] = sottovoce(*command, "--where", "level=q", "--json").json["rows"]
    assert row["attribute level"] == "q"
    assert sottovoce(*command, "--out", file).code == 0
    assert pandas.read_csv(file)["attribute"].tolist() == [n for n in names for _ in range(2)]


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


def test_what_does_not_follow_is_not_brought_out(
    outcome: Outcome, transcript: Path, tmp_path: Path
) -> None:
    content = bytearray(transcript.read_bytes())
    content[len(content) // 2] ^= 1
    broken = tmp_path / "broken.svt"
    broken.write_bytes(content)
    out = tmp_path / "table.csv"
    said = sottovoce("estimate", broken, "--out", out)
    # Of what cannot be unpacked nobody can tell whether it follows.
    assert said.code == 3
    assert said.out == ""
    assert not out.exists()
    [line] = said.err.splitlines()
    assert "its audit cannot be finished" in line


def test_means_of_numbers(tmp_path: Path) -> None:
    out = tmp_path / "means"
    assert sottovoce("run", "town-means", "--set", "residents=300", "--out", out).code == 0
    rows = sottovoce("estimate", out / "transcript.svt.zst", "--json").json["rows"]
    means = json.loads((out / "result.json").read_text())["estimate"]["means"]
    assert {row["attribute"]: row["value"] for row in rows} == {
        name: mean["mean"] for name, mean in means.items()
    }


def test_an_unknown_interval_of_a_number_is_empty_as_that_of_a_cell() -> None:
    [row] = as_json(rows_values(_figures(Estimated(0.5, None), Intervals()), {})["rows"])
    assert row == {"value": 0.5, "standard_error": None, "low": None, "high": None}


@pytest.mark.slow
def test_pairs_are_tested_for_independence(outcome: Outcome, transcript: Path) -> None:
    tested = ("--independent", "smokes,clinic", "--independent", "district, clinic")
    said = sottovoce("estimate", transcript, *tested, "--json").json
    rows = {(row["first"], row["second"]): row for row in said["rows"]}
    # Attributes that were randomized apart: the exact test of the reports.
    axes = outcome.estimate.survey.axes(("smokes", "clinic"))
    reports = exact_test(outcome.estimate.source.counts.table(axes))
    row = rows["smokes", "clinic"]
    assert (row["test"], row["statistic"]) == ("exact", float(reports.statistic))
    assert row["p_value"] == float(reports.p_value) <= row["p_holm"]
    assert said["about"] == "population"


def test_tables_of_groups_are_made_to_agree(tmp_path: Path) -> None:
    path, records = tmp_path / "transcript.svt.zst", town(600, seed=3)
    variant = RRBA(survey=records.survey, k=2, epsilon=3.0, block=10)
    made = simulate(variant, records, path=path, parties=20)
    tables = ("--table", "smokes,clinic", "--table", "smokes,age")
    shares = []
    for flags in ((), ("--consistent",)):
        rows = sottovoce("estimate", path, *tables, *flags, "--json").json["rows"]
        of = [
            sum(r["value"] for r in rows if r["table"] == name and r["smokes"] == "yes")
            for name in ("smokes,clinic", "smokes,age")
        ]
        shares.append(abs(of[0] - of[1]))
    assert shares[0] > 0.001 > 1e-9 > shares[1]
    tested = sottovoce("estimate", path, "--independent", "smokes,clinic", "--json").json["rows"]
    assert tested[0]["test"] == "noise-aware"
    assert tested[0]["p_value"] == float(made.estimate.independence("smokes", "clinic").p_value)
