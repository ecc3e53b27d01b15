"""Tables from CSV, Parquet and memory say the same; what is wrong with one is said by its name."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import Attribute, Records, Survey, SurveyError
from protocol.errors import UsageError
from protocol.surveys.dataframes import Cell, Frame
from scenarios import plan_text, propose, read_plan
from scenarios.data.own_tables import coding as coding_module
from scenarios.data.own_tables import counting
from scenarios.data.own_tables.coding import Coding
from scenarios.data.own_tables.question import Question
from scenarios.data.own_tables.sheets import BLOCK, Format, Sheet
from scenarios.errors import install_command
from tests.scenarios.command import complaint, sottovoce

COLUMNS = {
    "age": [20.5 + i % 60 if i % 7 else None for i in range(300)],
    "sex": ["f" if i % 3 else " m" for i in range(300)],
    "smokes": [bool(i % 2) for i in range(300)],
    "rooms": [i % 4 for i in range(300)],
}
KINDS = {
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas with its own types": lambda: pd.DataFrame(COLUMNS).convert_dtypes(),
    "pandas with categories": lambda: pd.DataFrame(COLUMNS).astype({"sex": "category"}),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "Arrow": lambda: pa.table(COLUMNS),
    "Arrow in a batch": lambda: pa.RecordBatch.from_pydict(COLUMNS),
    "columns": lambda: {name: np.array(cells, object) for name, cells in COLUMNS.items()},
}
SURVEY = Survey(
    "Rooms",
    (
        Attribute(name="rooms", categories=("0", "1", "2", "3")),
        Attribute(name="sex", categories=("f", "m")),
        Attribute(name="smokes", categories=("False", "True"), missing="False"),
    ),
)


def csv_of(path: Path) -> Path:
    rows = zip(*COLUMNS.values(), strict=True)
    texts = (",".join("" if cell is None else str(cell) for cell in row) for row in rows)
    path.write_text("\n".join([",".join(COLUMNS), *texts]) + "\n")
    return path


def plan_of(source: object, folder: Path, *, ignore_case: bool = True) -> Coding:
    path = folder / "plan.toml"
    path.write_text(plan_text(propose(source, ignore_case=ignore_case), "Own"), encoding="utf-8")
    return read_plan(path).coding


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_in_memory_says_what_its_file_says(kind: str, tmp_path: Path) -> None:
    table = KINDS[kind]()
    records = Records.from_frame(SURVEY, table)
    assert [row["rooms"] for row in records.to_rows()[:5]] == ["0", "1", "2", "3", "0"]
    assert [row["smokes"] for row in records.to_rows()[:2]] == ["False", "True"]
    csv = csv_of(tmp_path / "own.csv")
    coding = plan_of(csv, tmp_path)
    assert coding.survey.names == tuple(COLUMNS)
    assert coding.survey.attribute("age").missing == "no answer"
    assert coding.records(table) == coding.records(csv)
    assert plan_of(table, tmp_path).survey == coding.survey


def test_parquet_says_what_csv_says(tmp_path: Path) -> None:
    pq.write_table(pa.table(COLUMNS), tmp_path / "own.parquet", row_group_size=70)
    (tmp_path / "own.parquet").rename(tmp_path / "own.data")  # Found by what is in it.
    csv, parquet = csv_of(tmp_path / "own.csv"), tmp_path / "own.data"
    coding = plan_of(parquet, tmp_path)
    assert coding.format == Format()
    assert coding.survey == plan_of(csv, tmp_path).survey
    assert coding.records(parquet) == coding.records(csv)
    # Numbers are written with the comma of a plan.
    question = Question(name="age", categories=("21,5", "x"), other="x", missing="x")
    survey = Survey("T", (question.attribute(),))
    given = Coding.of(survey, (question,), Format(decimal=","))
    assert given.records(parquet).counts(["age"]).tolist() == [5, 295]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "the table has no columns"),
        ({1: ["a"]}, "the name of column 1 is 1, a int; expected text"),
        ({"rooms": [1], "sex": ["f", "f"]}, "column 'sex': has 2 rows, but column 'rooms' has 1"),
        ({"rooms": "123"}, "column 'rooms': expected an array or a sequence of cells, got str"),
        ([["1", "f", "True"]], "expected a table of pandas, polars or Arrow"),
        (pl.LazyFrame(COLUMNS), "got LazyFrame; call its collect() first"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "column 'a': the table names this column"),
        (pd.DataFrame({"rooms": [1]}), "column 'sex': no such column; the table has 'rooms'"),
        ({**COLUMNS, "sex": ["f"] * 299 + [["f"]]}, "row 300, column 'sex': expected text, a"),
        ({**COLUMNS, "rooms": [1] * 299 + [7]}, "row 300, column 'rooms': unknown category '7'"),
        ({**COLUMNS, "rooms": [1] * 299 + [math.nan]}, "row 300, column 'rooms': the answer is"),
        ({**COLUMNS, "rooms": [1] * 299 + [pd.NA]}, "row 300, column 'rooms': the answer is"),
    ],
)
def test_what_is_wrong_with_a_table_is_named(table: object, said: str) -> None:
    with pytest.raises(SurveyError) as refused:
        Records.from_frame(SURVEY, table)
    assert said in str(refused.value)


def test_a_cell_of_another_kind_is_named_whatever_its_block() -> None:
    with pytest.raises(SurveyError, match=f"row {BLOCK + 2}, column 'a'"):
        list(Frame.of({"a": [1] * (BLOCK + 1) + [b"x"]}).blocks([0], BLOCK))
    with pytest.raises(UsageError, match="the table: row 2, column 'a'"):
        propose({"a": ["x", ("y",)]})


def test_arguments_in_another_order_are_named() -> None:
    table = pd.DataFrame(COLUMNS)
    with pytest.raises(SurveyError, match="first argument is a DataFrame; expected the survey"):
        Records.from_frame(table, SURVEY)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(SurveyError, match="first argument is a str; expected the survey"):
        Records.from_csv("rooms\n1\n", SURVEY)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(SurveyError, match=r"a DataFrame has columns; expected Records\.from_frame"):
        Records.from_rows(SURVEY, table)


@pytest.mark.parametrize("path", ["own.csv", "data/Own.CSV", Path("own.txt")])
def test_a_path_for_text_is_named(path: str | Path) -> None:
    with pytest.raises(SurveyError, match="is a path; expected an open text file"):
        Records.from_csv(SURVEY, path)  # type: ignore[arg-type]  # the mistake


def test_nan_in_rows_is_no_answer() -> None:
    rows = [{"rooms": "1", "sex": "f", "smokes": math.nan}]
    assert Records.from_rows(SURVEY, rows).to_rows()[0]["smokes"] == "False"  # type: ignore[arg-type]  # as pandas has it


def test_the_extra_for_parquet_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "own.parquet"
    path.write_bytes(b"PAR1")
    said = complaint(sottovoce("plan", "--from", path))
    assert said.endswith(f"a Parquet file needs pyarrow: {install_command('parquet')}")


def test_a_file_without_names_is_refused_or_named_by_place(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("".join(f"{20 + i % 50},{'yes' if i % 3 else 'no'}\n" for i in range(90)))
    said = complaint(sottovoce("plan", "--from", path))
    assert "the first row looks like a record, not like names: '20', 'no'; expected names" in said
    plan = tmp_path / "plan.toml"
    assert sottovoce("plan", "--from", path, "--no-header", "--out", plan).code == 0
    coding = read_plan(plan).coding
    assert coding.survey.names == ("column 1", "column 2")
    assert coding.records(path).counts(["column 2"]).tolist() == [30, 60]
    # Whoever says that they are names is believed.
    assert sottovoce("plan", "--from", path, "--header").code == 0


def test_answers_that_differ_by_case_are_named_and_joined_unless_kept(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("town\n" + "New York\n" * 30 + "new  york\n" * 20 + "Bonn\n" * 50)
    for ignore_case, said in ((True, "of one answer joined"), (False, "by case or blanks, kept")):
        [decision] = propose(path, ignore_case=ignore_case).columns[0].decisions
        assert said in decision.said
        assert "'New York' = 'new  york'" in decision.said
        assert decision.rows == 20
    assert plan_of(path, tmp_path, ignore_case=False).survey.sizes == (3,)
    joined = plan_of(path, tmp_path)
    assert joined.survey.attributes[0].categories == ("Bonn", "New York")
    assert joined.records(path).counts(["town"]).tolist() == [50, 50]
    with pytest.raises(SurveyError, match="ignore_case: categories 'a' and 'A' differ by case"):
        Question(name="x", categories=("a", "A"), ignore_case=True).attribute()


def test_a_column_has_cells_of_its_own_for_no_answer() -> None:
    names = {"a": ("1", "99", "none"), "b": ("1", "99", "none")}
    questions = (
        Question(name="a", categories=names["a"], missing="none", missing_cells=("99",)),
        Question(name="b", categories=names["b"], missing="none"),
        Question(name="c", edges=(50.0,), missing="none", missing_cells=("99",)),
    )
    survey = Survey("T", tuple(each.attribute() for each in questions))
    table = {name: ["1", "99", "?"] for name in "abc"}
    coding = Coding.of(survey, questions, Format(missing_cells=("?",)))
    rows = [tuple(row.values()) for row in coding.records(table).to_rows()]
    assert rows == [
        ("1", "1", "below 50"),
        ("none", "99", "none"),
        ("none", "none", "none"),
    ]
    with pytest.raises(SurveyError, match="missing_cells: expected missing too"):
        Question(name="a", categories=("x", "y"), missing_cells=("9",)).attribute()


def test_a_mistyped_column_is_named_with_the_nearest(tmp_path: Path) -> None:
    coding = Coding.of(SURVEY)
    with pytest.raises(UsageError) as refused:
        coding.records({"romms": [1], "sex": ["f"], "smokes": ["True"]})
    assert "the table: no column 'rooms'; did you mean 'romms'?" in str(refused.value)


def test_codes_of_cells_are_forgotten_and_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    names = tuple(f"c{i}" for i in range(50))
    survey = Survey("T", (Attribute(name="a", categories=names),))
    cells = [names[i * 7 % 50] for i in range(3 * BLOCK)]
    expected = [i * 7 % 50 for i in range(3 * BLOCK)]
    monkeypatch.setattr(coding_module, "_KNOWN", 3)
    assert Coding.of(survey).records({"a": cells}).codes[:, 0].tolist() == expected


NUMBERS = ["1", "2.5", " 7 ", "1_0", "nan", "inf", "-3e2", "1,234.5", "1.234,5", "1,5", "x", ""]


@settings(deadline=None)
@given(
    cells=st.lists(st.sampled_from(["99", *NUMBERS, *NUMBERS[:3] * 4]), min_size=1, max_size=8),
    decimal=st.sampled_from([".", ","]),
)
def test_numbers_are_judged_together_as_one_by_one(cells: list[str], decimal: str) -> None:
    question = Question(
        name="n", edges=(1.5, 50.0, 1000.0), missing="none", other="text", missing_cells=("99",)
    )
    coding = Coding.of(Survey("T", (question.attribute(),)), (question,), Format(decimal=decimal))
    together = coding.records({"n": cells}).codes
    one_by_one = [coding.records({"n": [cell]}).codes[0] for cell in cells]
    assert together.tolist() == np.array(one_by_one).tolist()


def test_columns_that_are_too_much_at_once_are_counted_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = {"a": [*range(5000)], "b": [f"t{i % 9}" for i in range(5000)], "c": [*range(5000)]}
    expected = plan_text(propose(table), "Own")
    monkeypatch.setattr(counting, "_MOST_CELLS", 3000)
    assert plan_text(propose(table), "Own") == expected
    passes: list[list[int]] = []

    def read(places: Sequence[int]) -> Iterator[list[Sequence[Cell]]]:
        passes.append([*places])
        yield [[*range(5000)] for _ in places]

    sheet = Sheet("t", ("a", "b", "c"), read)
    assert sorted((name, len(cells)) for name, cells in counting.count_answers(sheet)) == [
        ("a", 5000),
        ("b", 5000),
        ("c", 5000),
    ]
    assert list(map(len, passes)) == [3, 2, 1]


@pytest.mark.parametrize(("pairs", "more"), [(12, ""), (13, " and 1 more")])
def test_of_many_answers_that_differ_by_case_some_are_named(
    tmp_path: Path, pairs: int, more: str
) -> None:
    path = tmp_path / "own.csv"
    towns = [f"Town {chr(97 + place)}" for place in range(pairs)]
    rows = [text for town in towns for text in [town] * 30 + [town.upper()] * 20]
    path.write_text("town\n" + "\n".join(rows) + "\n")
    [decision] = propose(path).columns[0].decisions
    assert decision.said.count(" = 'TOWN ") == 12
    assert decision.said.endswith(f"'TOWN L'{more}")
