"""Files of SPSS and Stata are tables with labels: a plan is proposed from one, and reads it."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyreadstat
import pytest

from protocol.surveys.texts import Wording
from scenarios import plan_text, propose, read_plan
from scenarios.data.own_tables import statistics_files
from scenarios.errors import install_command
from scenarios.surveys.survey_plan import Plan
from tests.scenarios.command import complaint, sottovoce

ROWS = 600
COLUMNS: dict[str, list[Any]] = {
    "sex": [(1.0, 2.0, 2.0, 9.0)[row % 4] for row in range(ROWS)],
    "mood": [float(1 + row % 3) for row in range(ROWS)],
    "age": [999.0 if row % 50 == 0 else 18.0 + row % 70 for row in range(ROWS)],
    "town": [("Bern", "Chur", "")[row % 3] for row in range(ROWS)],
    "land": [("CH", "DE", "XX")[row % 3] for row in range(ROWS)],
    "born": [datetime.date(1950 + row % 40, 1 + row % 12, 15) for row in range(ROWS)],
}
LABELS: dict[str, dict[Any, str]] = {
    "sex": {2.0: "Male", 1.0: "Female", 3.0: "Another", 9.0: "refused"},
    "mood": {1.0: "Bad", 2.0: "Fair", 3.0: "Good"},
    "age": {999.0: "refused"},
    "land": {"CH": "Switzerland", "DE": "Germany", "XX": "unknown"},
}


def write_spss(path: Path, **changed: Any) -> Path:
    given = {
        "column_labels": {"sex": "Your sex?", "age": "Your age?"},
        "variable_value_labels": LABELS,
        "missing_ranges": {"sex": [9], "age": [{"lo": 900, "hi": 999}], "land": ["XX"]},
        "variable_measure": {"mood": "ordinal"},
    }
    pyreadstat.write_sav(pd.DataFrame(COLUMNS), str(path), **{**given, **changed})
    return path


def write_stata(path: Path) -> Path:
    """The same, without missing codes of one's own."""
    labels = {name: {int(code): label for code, label in LABELS[name].items()} for name in ("sex",)}
    table = pd.DataFrame(COLUMNS).replace({"sex": {9.0: None}, "age": {999.0: None}})
    table = table.astype({"sex": float, "age": float})
    names = {"sex": "Your sex?"}
    pyreadstat.write_dta(table, str(path), column_labels=names, variable_value_labels=labels)
    return path


def plan_of(path: Path, folder: Path) -> Plan:
    plan = folder / "plan.toml"
    plan.write_text(plan_text(propose(path, language="en"), "Own"), encoding="utf-8")
    return read_plan(plan)


def test_a_file_of_spss_is_planned_run_and_estimated(tmp_path: Path) -> None:
    path, plan = write_spss(tmp_path / "own.sav"), tmp_path / "plan.toml"
    said = sottovoce("plan", "--from", path, "--language", "en", "--out", plan)
    assert said.code == 0, said.err
    assert "600 rows, 6 attributes" in said.err
    ran = sottovoce("run", plan, "--records", path, "--seed", 1, "--out", tmp_path / "trial")
    assert ran.code == 0, ran.err
    assert sottovoce("preflight", plan, "--records", path).code == 0
    records = read_plan(plan).records(path)
    assert records.to_rows()[1] == (
        {"sex": "2", "mood": "2", "age": "below 27", "town": "Chur", "land": "DE"}
        | {"born": "before 1955"}
    )
    assert records.counts(["sex"]).tolist() == [150, 300, 0, 150]
    assert records.counts(["age"])[-1] == 12
    assert records.counts(["land"]).tolist() == [200, 200, 200]
    estimated = sottovoce("estimate", tmp_path / "trial" / "transcript.svt.zst", "--table", "sex")
    assert estimated.code == 0, estimated.err


def test_labels_are_words_and_codes_are_categories_in_their_order(tmp_path: Path) -> None:
    plan = plan_of(write_spss(tmp_path / "own.sav"), tmp_path)
    survey = plan.variant.survey
    sex = survey.attribute("sex")
    assert (sex.categories, sex.missing) == (("1", "2", "3", "no answer"), "no answer")
    assert survey.attribute("mood").ordinal
    assert plan.coding.questions[0].missing_cells == ("9",)
    [texts] = survey.texts
    named = {each.attribute: each for each in texts.questions}
    labels = ("Female", "Male", "Another", "no answer")
    assert named["sex"] == Wording(attribute="sex", ask="Your sex?", labels=labels)
    assert named["age"] == Wording(attribute="age", ask="Your age?")
    assert named["mood"].labels == ("Bad", "Fair", "Good")
    assert "town" not in named
    text = (tmp_path / "plan.toml").read_text()
    assert "# no answer, by the file: 9 'refused'\n" in text
    assert "# no answer, by the file: 900 to 999\n" in text


def test_what_a_program_exports_as_text_is_read_by_the_same_plan(tmp_path: Path) -> None:
    path = write_spss(tmp_path / "own.sav", missing_ranges={"sex": [9], "land": ["XX"]})
    plan = plan_of(path, tmp_path)
    table = pd.DataFrame(COLUMNS).astype({"sex": int, "mood": int, "age": int})
    table.to_csv(tmp_path / "own.csv", index=False)
    assert plan.records(tmp_path / "own.csv") == plan.records(path)


def test_stata_says_what_spss_says(tmp_path: Path) -> None:
    stata = write_stata(tmp_path / "own.dta")
    plan = plan_of(stata, tmp_path)
    assert plan.variant.survey.attribute("sex").categories == ("1", "2", "3", "9", "no answer")
    counts = plan.records(stata).counts(["sex"]).tolist()
    assert counts == [150, 300, 0, 0, 150]
    [texts] = plan.variant.survey.texts
    assert texts.questions[0].ask == "Your sex?"
    assert texts.questions[0].labels == ("Female", "Male", "Another", "refused", "no answer")


def test_kinds_of_no_answer_of_stata_are_no_categories(tmp_path: Path) -> None:
    path = tmp_path / "own.dta"
    table = pd.DataFrame({"sex": [1, 2, 2, "a"] * 20})
    pyreadstat.write_dta(
        table,
        str(path),
        variable_value_labels={"sex": {1: "Female", 2: "Male", "a": "refused"}},
        missing_user_values={"sex": ["a"]},
    )
    plan = plan_of(path, tmp_path)
    assert plan.variant.survey.attribute("sex").categories == ("1", "2", "no answer")
    assert plan.records(path).counts(["sex"]).tolist() == [20, 40, 20]


def test_answers_without_labels_are_planned_as_those_of_any_table(tmp_path: Path) -> None:
    labels = {"mood": {1.0: "Bad"}, "age": {18.0: "young"}}
    path = write_spss(tmp_path / "own.sav", variable_value_labels=labels, missing_ranges={})
    plan = plan_of(path, tmp_path)
    mood = plan.variant.survey.attribute("mood")
    assert mood.categories == ("1", "2", "3")
    assert plan.coding.questions[2].edges
    [texts] = plan.variant.survey.texts
    assert {each.attribute: each.labels for each in texts.questions} == {
        "sex": (),
        "mood": ("Bad", "2", "3"),
        "age": (),
    }


def test_more_labels_than_an_attribute_may_have_join_rare_answers(tmp_path: Path) -> None:
    labels = {"mood": {float(code): f"mood {code}" for code in range(1, 100)}}
    path = write_spss(tmp_path / "own.sav", variable_value_labels=labels)
    column = propose(path).columns[1]
    assert column.questions[0].categories == ("1", "2", "3")
    assert column.words is not None
    assert column.words.wordings[0].labels == ("mood 1", "mood 2", "mood 3")


def test_a_long_file_is_read_part_by_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_spss(tmp_path / "own.zsav", compress=True)
    plan = plan_of(path, tmp_path)
    whole = plan.records(path)
    monkeypatch.setattr(statistics_files, "BLOCK", 100)
    monkeypatch.setattr(statistics_files, "_CELLS", 1)
    parts: list[int] = []
    read = pyreadstat.read_sav

    def seen(*args: Any, **given: Any) -> Any:
        parts.append(given.get("row_offset", -1))
        return read(*args, **given)

    monkeypatch.setattr(pyreadstat, "read_sav", seen)
    assert plan.records(path) == whole
    assert parts == [-1, *range(0, 700, 100)]


@pytest.mark.parametrize("name", ["own.sav", "own.zsav", "own.dta"])
@pytest.mark.parametrize("content", [b"", b"$FL2" + bytes(400), b"number,smokes\n1,yes\n" * 50])
def test_another_file_by_that_name_is_named(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    said = complaint(sottovoce("plan", "--from", path))
    assert said.startswith(f"{path}: cannot be read as a file of SPSS or Stata: ")


def test_a_cut_or_changed_file_is_named_or_read(tmp_path: Path) -> None:
    whole = write_spss(tmp_path / "whole.sav").read_bytes()
    path = tmp_path / "own.sav"
    for place in range(0, len(whole), len(whole) // 40):
        for content in (
            whole[:place],
            whole[:place] + bytes([whole[place] ^ 0x80]) + whole[place + 1 :],
        ):
            path.write_bytes(content)
            said = sottovoce("plan", "--from", path)
            assert said.code in (0, 2), said.err
            if said.code:
                assert said.err.startswith(f"sottovoce: {path}: ")


def test_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_spss(tmp_path / "own.sav")
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    said = complaint(sottovoce("plan", "--from", path))
    command = install_command("readstat")
    assert said == f"{path}: a file of SPSS or Stata needs pyreadstat: {command}"
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    book = tmp_path / "form.xlsx"
    book.write_bytes(b"PK\x03\x04")
    said = complaint(sottovoce("plan", "--from", book))
    assert said == f"{book}: a workbook needs openpyxl: {install_command('xlsx')}"
