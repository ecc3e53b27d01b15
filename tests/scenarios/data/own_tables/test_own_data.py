"""From a person's table to a plan, and from that to records: what is found, kept and lost."""

from __future__ import annotations

import csv
import io
import tomllib
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol.errors import UsageError
from scenarios import plan_text, propose, read_plan
from scenarios.data.own_tables.coding import Coding, number_in
from scenarios.data.own_tables.opening import open_sheet
from scenarios.data.own_tables.question import Question
from scenarios.data.own_tables.sheets import Format
from scenarios.surveys.rehearsing import split_records
from tests.scenarios.command import sottovoce


def table(folder: Path, text: str, *, encoding: str = "utf-8") -> Path:
    path = folder / "own.csv"
    path.write_bytes(text.encode(encoding))
    return path


def planned(folder: Path, data: Path, **limits: int) -> Coding:
    """What a plan says that is proposed, written and read."""
    plan = folder / "plan.toml"
    plan.write_text(plan_text(propose(data, **limits), "Own"), encoding="utf-8")
    return read_plan(plan).coding


def texts(coding: Coding, data: Path) -> list[tuple[str, ...]]:
    return [tuple(row.values()) for row in coding.records(data).to_rows()]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1"])
def test_delimiter_and_encoding_are_found(tmp_path: Path, delimiter: str, encoding: str) -> None:
    rows = [["Größe", "nö, oder; ja|x"], ["groß", "nö"], ["klein", 'sagt "ja"'], ["groß", "nö"]]
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter).writerows(rows)
    path = table(tmp_path, text.getvalue(), encoding=encoding)
    sheet = open_sheet(path)
    assert sheet.names == tuple(rows[0])
    assert sheet.delimiter == delimiter
    assert texts(planned(tmp_path, path), path) == [tuple(row) for row in rows[1:]]


def test_a_byte_that_only_latin_1_has_is_read(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_bytes(b"a,b\n\x81,1\nx,2\n")
    assert open_sheet(path).encoding == "latin-1"


def test_what_is_written_in_two_ways_is_one_answer(tmp_path: Path) -> None:
    apart = unicodedata.normalize("NFD", "München")
    path = table(tmp_path, f"Ort\nMünchen\n{apart}\n  München \nBonn\n")
    proposal = propose(path)
    [column] = proposal.columns
    [decision] = column.decisions
    assert decision.said == "spellings joined that differ only in blanks or accents: 'München'"
    assert decision.rows == 2
    coding = planned(tmp_path, path)
    assert texts(coding, path) == [("München",)] * 3 + [("Bonn",)]
    # A plan that is written in the other way asks the same.
    other = Coding.of(coding.survey, (Question(name="Ort", categories=("Bonn", apart)),), Format())
    assert texts(other, path) == texts(coding, path)


def test_missing_answers_have_a_category_and_are_counted(tmp_path: Path) -> None:
    path = table(tmp_path, "a,b\nyes,1\nNA,2\n,3\nno,?\n")
    first, second = propose(path).columns
    assert first.notes[0] == "2 of 4 without an answer"
    [asked] = first.questions
    assert asked.categories == ("no", "yes", "no answer")
    [asked] = second.questions
    assert (asked.missing, asked.ordinal) == ("no answer", False)
    coding = planned(tmp_path, path)
    assert coding.format.missing_cells == ("?", "NA")
    assert [row[0] for row in texts(coding, path)] == ["yes", "no answer", "no answer", "no"]


def test_numbers_are_cut_where_about_as_many_rows_are_on_both_sides(tmp_path: Path) -> None:
    path = table(tmp_path, "n\n" + "".join(f"{i**2 / 10}\n" for i in range(1000)))
    coding = planned(tmp_path, path, bins=4)
    [question] = coding.questions
    assert len(question.edges) == 3
    counts = coding.records(path).counts(["n"])
    assert (abs(counts - 250) <= 10).all()
    # By brute force: which range a number is in.
    for i, row in enumerate(texts(coding, path)):
        place = sum(i**2 / 10 >= edge for edge in question.edges)
        assert row[0] == coding.survey.attributes[0].categories[place]


def test_an_edge_belongs_to_what_is_above_it() -> None:
    question = Question(name="age", edges=(18.0, 65.0), missing="none", categories=())
    assert question.attribute().categories == ("below 18", "18 to below 65", "65 or more", "none")


@pytest.mark.parametrize(
    ("cell", "decimal", "number"),
    [
        ("1,5", ",", 1.5),
        ("1.234,5", ",", 1234.5),
        ("1.234", ",", 1234.0),
        ("1.5", ",", None),
        ("1,234.5", ".", 1234.5),
        ("1,5", ".", None),
        ("-3e2", ".", -300.0),
        ("nan", ".", None),
        ("inf", ".", None),
        ("1_000", ".", None),
        ("", ".", None),
    ],
)
def test_numbers_are_read_as_people_write_them(
    cell: str, decimal: str, number: float | None
) -> None:
    assert number_in(cell, decimal) == number


def test_the_decimal_comma_is_found(tmp_path: Path) -> None:
    path = table(tmp_path, "a;b\n" + "".join(f"{i},5;x{i % 2}\n" for i in range(200)))
    assert propose(path).format.decimal == ","
    assert planned(tmp_path, path).questions[0].edges


def test_rare_answers_are_joined_and_named(tmp_path: Path) -> None:
    rows = ["a"] * 600 + ["b"] * 395 + ["c"] * 3 + ["d"] * 2
    path = table(tmp_path, "x\n" + "\n".join(rows) + "\n")
    [column] = propose(path).columns
    [question] = column.questions
    assert question.categories == ("a", "b", "other")
    assert (column.decisions[-1].said, column.decisions[-1].rows) == (
        "joined as 'other': 'c', 'd'",
        5,
    )
    assert [row[0] for row in texts(planned(tmp_path, path), path)][-6:] == ["b"] + ["other"] * 5
    written = (tmp_path / "plan.toml").read_text()
    assert "# decide: joined as 'other': 'c', 'd' (5 rows)." in written


def test_of_many_categories_the_most_frequent_are_kept(tmp_path: Path) -> None:
    rows = [f"c{i:04}" for i in range(3000) for _ in range(12 if i < 10 else 11)]
    path = table(tmp_path, "x\n" + "\n".join(rows) + "\n")
    [column] = propose(path, most=12).columns
    [question] = column.questions
    assert question.categories[:11] == tuple(f"c{i:04}" for i in range(11))
    assert question.other == "other"
    [decision] = column.decisions
    assert "and 2,977 more" in decision.said
    assert decision.said.startswith("caution, 100% of the answers are lost: joined as 'other': ")


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ([str(i) for i in range(1, 101)], "left out: 1 to 100, each once, so they number the rows"),
        ([f"n{i}" for i in range(100)], "left out: 100 different texts"),
        (["same"] * 100, "left out: all rows are the same"),
        (["NA"] * 100, "left out: it is empty"),
        (
            [f"n{i % 400}" for i in range(2000)],
            "left out: every answer is too rare, or cannot be a category",
        ),
    ],
)
def test_what_tells_who_or_nothing_is_left_out(tmp_path: Path, cells: list[str], why: str) -> None:
    path = table(tmp_path, "x,y\n" + "".join(f"{c},{i % 3}\n" for i, c in enumerate(cells)))
    first, second = propose(path).columns
    assert not first.questions
    assert first.decisions[-1].said.startswith(why)
    assert second.questions
    assert planned(tmp_path, path).survey.names == ("y",)


def test_thousands_that_points_set_apart_are_not_decimals(tmp_path: Path) -> None:
    rows = "".join(f"{i % 2};{i % 3}.{i:03};{900 + i % 90}\n" for i in range(100, 400))
    path = table(tmp_path, f"a;b;c\n{rows}")
    assert propose(path).format.decimal == ","
    [_, question, _] = planned(tmp_path, path).questions
    assert question.edges
    assert min(question.edges) >= 100


def test_texts_among_numbers_are_joined_and_named(tmp_path: Path) -> None:
    cells = [str(i * 7) if i % 10 else "weiß nicht" for i in range(300)]
    path = table(tmp_path, "income\n" + "\n".join(cells) + "\n")
    [column] = propose(path).columns
    decision = column.decisions[-1]
    assert (decision.said, decision.rows) == ("no numbers, so joined as 'other': 'weiß nicht'", 30)
    coding = planned(tmp_path, path)
    assert coding.questions[0].edges
    found = [row[0] for row in texts(coding, path)]
    assert [i for i, category in enumerate(found) if category == "other"] == [*range(0, 300, 10)]


def test_lines_in_an_answer_become_one(tmp_path: Path) -> None:
    path = table(tmp_path, 'a,b\n"one\ntwo",x\none\u00a0two,y\nthree,x\n')
    assert [row[0] for row in texts(planned(tmp_path, path), path)] == ["one two"] * 2 + ["three"]


def test_codes_with_leading_zeros_stay_texts(tmp_path: Path) -> None:
    path = table(tmp_path, "zip\n" + "".join(f"0{1000 + i % 15}\n" for i in range(300)))
    [question] = planned(tmp_path, path).questions
    assert question.edges == ()
    assert question.categories[0] == "01000"


cell = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\r\n", exclude_categories=["Cs"]),
    max_size=6,
)
# Before a formula an apostrophe is no part of a cell.
name = (
    st.text("abcäß []#\"'=.", min_size=1, max_size=6)
    .map(lambda text: text.strip(" '"))
    .filter(bool)
)


@pytest.mark.slow
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    names=st.lists(name, min_size=2, max_size=4, unique=True),
    data=st.data(),
)
def test_a_proposed_plan_takes_every_row_of_its_table(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], data: st.DataObject
) -> None:
    kinds = (
        cell | st.sampled_from(["1", "2", "x", "", "NA"]),
        st.sampled_from(["1", "2", "3", "-9", "99", "1e3", "0", ""]),
        st.sampled_from(["a", "b", "a|b", "A| b", "", "NA", "|"]),
        st.sampled_from(["05.01.2024", "5.2.2024", "01.01.1900", "soon", "", "31.12.2020 10:00"]),
        st.sampled_from(["no", "No", "n o", "yes", "99", ""]),
    )
    row = st.tuples(*[data.draw(st.sampled_from(kinds)) for _ in names])
    rows = data.draw(st.lists(row, min_size=1, max_size=40))
    folder = tmp_path_factory.mktemp("own")
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=";", quoting=csv.QUOTE_ALL)
    writer.writerows([names, *rows])
    path = table(folder, text.getvalue())
    refused = ""
    try:
        written = plan_text(propose(path), "Own")
    except UsageError as error:
        refused = str(error)
    if refused:
        assert "no column to ask about" in refused
        return
    tomllib.loads(written)
    assert len(planned(folder, path).records(path)) == len(rows)


def test_columns_are_found_by_name_wherever_they_are(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'title = "T"\np = 0.5\n[[attributes]]\nname = "a"\ncolumn = "A"\nedges = [1]\n'
        '[[attributes]]\nname = "b"\ncategories = ["x", "y"]\n'
    )
    coding = read_plan(plan).coding
    assert texts(coding, table(tmp_path, "b,A\nx,0\ny,1\n")) == [
        ("below 1", "x"),
        ("1 or more", "y"),
    ]


def test_the_command_writes_what_check_and_rehearse_read(tmp_path: Path) -> None:
    rows = "".join(f"{20 + i % 50};{'ja' if i % 3 else 'nein'};{i}\n" for i in range(120))
    data = table(tmp_path, f"Größe;raucht;Nr\n{rows}", encoding="latin-1")
    plan = tmp_path / "plan.toml"
    ran = sottovoce("plan", "--from", str(data), "--out", str(plan), "--title", "Trial")
    assert ran.code == 0, ran.err
    assert ran.err.endswith("120 rows, 2 attributes, without Nr\n")
    read = read_plan(plan)
    assert read.variant.survey.names == ("Größe", "raucht")
    held = split_records(data, read, 2)
    assert [len(records) for records in held.values()] == [60, 60]
    checked = sottovoce("preflight", str(plan), "--records", str(data))
    assert checked.code == 0
    assert "120 respondents, every answer has a category" in checked.out
