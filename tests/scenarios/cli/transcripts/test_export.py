"""``export``: the tables of a transcript as Parquet, whole or not at all, as ``query`` has them."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet
import pytest

from parties.keeping.writing import whole_folder
from protocol import AGGREGATOR
from protocol.variants import RRIndependent
from scenarios import Outcome, open_transcript, simulate, town
from scenarios.errors import install_command
from scenarios.report import exporting
from scenarios.report.record_tables import TABLES, record_rows
from tests.recorded.forgeries import Forgery
from tests.scenarios.command import OWN, complaint, sottovoce
from transports.faults import crash, duplicate

QUESTIONS = (
    "SELECT count(*) AS n FROM {}",
    "SELECT * FROM {} ORDER BY 1 LIMIT 50",
)
JOINED = """
    SELECT s.round AS round, s.kind AS kind, count(*) AS n, max(d.at - s.at) > 0 AS later,
           sum(CASE WHEN d.repeated THEN 1 ELSE 0 END) AS again
    FROM sent AS s JOIN delivered AS d USING (sender, seq) GROUP BY 1, 2 ORDER BY 1, 2
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export") / "transcript.svt.zst"


@pytest.fixture(scope="module")
def outcome(path: Path) -> Outcome:
    records = town(60, seed=2)
    variant = RRIndependent.with_keep(records.survey, 0.6)
    rules = [crash(0.2), duplicate(0.3)]
    return simulate(variant, records, path=path, transport="memory", rules=rules)


@pytest.fixture(scope="module")
def folder(outcome: Outcome, path: Path) -> Path:
    folder = path.with_name("tables")
    folder.mkdir()
    said = sottovoce("export", path, "--to", folder)
    assert (said.code, said.err) == (0, "")
    lines = dict(line.split(": ") for line in said.out.splitlines())
    assert [*lines] == [f"{folder / table.name}.parquet" for table in TABLES]
    assert lines[f"{folder}/closing.parquet"] == "1 row"
    assert folder.stat().st_mode & 0o777 == 0o700
    return folder


@pytest.fixture(scope="module")
def duck(folder: Path) -> Iterator[Any]:
    with contextlib.closing(duckdb.connect()) as database:
        for table in TABLES:
            database.execute(
                f"CREATE VIEW {table.name} AS SELECT * FROM '{folder / table.name}.parquet'"
            )
        yield database


def answers(duck: Any, question: str) -> list[dict[str, object]]:
    found = duck.execute(question)
    names = [column[0] for column in found.description]
    return [
        {
            name: cell.hex() if isinstance(cell, bytes) else cell
            for name, cell in zip(names, row, strict=True)
        }
        for row in found.fetchall()
    ]


@pytest.mark.parametrize("table", [table.name for table in TABLES])
def test_every_table_is_that_of_a_query(table: str, path: Path, duck: Any) -> None:
    for text in QUESTIONS:
        question = text.format(table)
        asked = sottovoce("query", path, question, "--json").json
        assert asked == answers(duck, question)
        assert asked or table in ("hindered", "refused", "restored")


def test_a_question_over_two_tables_has_one_answer(path: Path, duck: Any) -> None:
    asked = sottovoce("query", path, JOINED, "--json").json
    assert asked == answers(duck, JOINED)
    assert {row["kind"] for row in asked} == {"Ask", "Report"}
    assert any(row["again"] for row in asked)


def test_the_ledger_is_that_of_the_audit(outcome: Outcome, path: Path, duck: Any) -> None:
    found = outcome.transcript.audit(RRIndependent).ledger
    rows = answers(
        duck, "SELECT party, sum(epsilon) AS e, bool_and(signed) AS s FROM ledger GROUP BY 1"
    )
    assert {row["party"]: row["e"] for row in rows} == pytest.approx(
        {party: account.loss.record for party, account in found.everybody.items()}
    )
    assert {row["party"] for row in rows if row["s"]} >= found.accounts.keys() - {AGGREGATOR}
    [row] = answers(duck, "SELECT DISTINCT attributes ->> 'smokes' AS smokes FROM ledger")
    assert float(str(row["smokes"])) == pytest.approx(found.attribute_epsilon["smokes"])
    [closing] = answers(duck, "SELECT kind, of_round, awaited, counted FROM closing")
    counted = outcome.counted
    assert closing == {"kind": "Report", "of_round": None, "awaited": 60, "counted": counted}
    assert counted < 60


def test_what_is_unbounded_is_null_and_says_why(tmp_path: Path) -> None:
    out, tables = tmp_path / "out", tmp_path / "tables"
    assert sottovoce("run", f"{OWN}:plain", "--out", out).code == 0
    record = out / "transcript.svt.zst"
    assert "no variant 'plain-answers'" in complaint(sottovoce("export", record, "--to", tables))
    question = "SELECT DISTINCT epsilon, unbounded, attributes FROM ledger"
    assert "--variant" in complaint(sottovoce("query", record, question))
    variant = ("--variant", f"{OWN}:PlainAnswers")
    assert sottovoce("export", record, "--to", tables, *variant).code == 0
    [row] = pyarrow.parquet.read_table(tables / "ledger.parquet").to_pylist()[:1]
    assert row["epsilon"] is None
    assert row["unbounded"].startswith("the true answers to ")
    [asked] = sottovoce("query", record, question, *variant, "--json").json
    assert asked == {name: row[name] for name in ("epsilon", "unbounded", "attributes")}


def test_columns_and_tables_say_what_they_hold(folder: Path) -> None:
    for table in TABLES:
        schema = pyarrow.parquet.read_schema(folder / f"{table.name}.parquet")
        assert schema.metadata[b"description"].decode() == table.says
        assert [(field.name, field.metadata[b"description"].decode()) for field in schema] == [
            (column.name, column.says) for column in table.columns
        ]


def test_rows_are_written_in_batches(
    outcome: Outcome, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "BATCH_ROWS", 50)
    reader = open_transcript(path).entries()
    rows = record_rows(outcome.transcript, outcome.charter.roster, reader, RRIndependent)
    with whole_folder(tmp_path / "tables") as new:
        counts = exporting.export(new, rows)
    groups = pyarrow.parquet.ParquetFile(tmp_path / "tables" / "sent.parquet").num_row_groups
    assert groups == math.ceil(counts["sent"] / 50) > 2


def test_all_files_are_there_or_none(
    outcome: Outcome, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Iterator[Any]:
        yield "header", ("variant", "x")
        raise KeyboardInterrupt

    monkeypatch.setattr("scenarios.report.record_tables.record_rows", broken)
    assert sottovoce("export", path, "--to", tmp_path / "deep" / "tables").code == 130
    assert list(tmp_path.rglob("*")) == [tmp_path / "deep"]


def test_a_folder_that_is_not_empty_is_left_alone(
    outcome: Outcome, path: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("x")
    said = complaint(sottovoce("export", path, "--to", tmp_path))
    assert said == f"{tmp_path}: exists and is not empty"
    (tmp_path / "link").symlink_to(tmp_path / "other")
    said = complaint(sottovoce("export", path, "--to", tmp_path / "link"))
    assert "exists and is not a folder" in said
    assert {file.name for file in tmp_path.iterdir()} == {"mine", "link"}


def test_a_torn_transcript_gives_what_can_be_read(
    outcome: Outcome, path: Path, tmp_path: Path
) -> None:
    torn, tables = tmp_path / "torn.svt", tmp_path / "tables"
    torn.write_bytes(Forgery(path.read_bytes()).write()[:-3000])
    said = sottovoce("export", torn, "--to", tables)
    last = "the record is not whole: these files hold what could be read of it"
    assert said.out.splitlines()[-1] == last
    assert (said.code, said.err) == (1, "sottovoce: incomplete: the file has no end\n")
    asked = sottovoce("query", torn, "SELECT count(*) AS n FROM sent", "--json").out
    many = pyarrow.parquet.read_metadata(tables / "sent.parquet").num_rows
    assert json.loads(asked) == [{"n": many}]
    assert many > 50


def test_without_pyarrow_the_extra_is_named(
    outcome: Outcome, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    said = complaint(sottovoce("export", path, "--to", tmp_path / "tables"))
    assert said == f"export needs pyarrow: {install_command('parquet')}"
    assert not (tmp_path / "tables").exists()
