"""A data dictionary of REDCap becomes a plan, by which what REDCap exports is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.errors import UsageError
from protocol.surveys.texts import Group, Wording
from scenarios import propose, read_plan
from tests.scenarios.command import sottovoce
from tests.scenarios.data.own_tables.forms.workbooks import write_text

HEADER = [
    *("Variable / Field Name", "Form Name", "Section Header", "Field Type", "Field Label"),
    *("Choices, Calculations, OR Slider Labels", "Field Note"),
    *("Text Validation Type OR Show Slider Number", "Text Validation Min", "Text Validation Max"),
    *("Identifier?", "Branching Logic (Show field only if...)", "Required Field?"),
    *("Custom Alignment", "Question Number (surveys only)", "Matrix Group Name"),
    *("Matrix Ranking?", "Field Annotation"),
]
OF_API = [
    *("field_name", "form_name", "section_header", "field_type", "field_label"),
    *("select_choices_or_calculations", "field_note"),
    *("text_validation_type_or_show_slider_number", "text_validation_min", "text_validation_max"),
    *("identifier", "branching_logic", "required_field"),
    *("custom_alignment", "question_number", "matrix_group_name"),
    *("matrix_ranking", "field_annotation"),
]


def field(
    name: str,
    kind: str,
    label: str = "",
    choices: str = "",
    note: str = "",
    validation: tuple[str, str, str] = ("", "", ""),
    identifier: str = "",
    branching: str = "",
    required: str = "",
) -> list[object]:
    row = [name, "visit", "", kind, label, choices, note, *validation]
    return [*row, identifier, branching, required]


FIELDS = [
    field("record_id", "text", "Study ID"),
    field("mail", "text", "E-mail", validation=("email", "", ""), identifier="y"),
    field("sex", "radio", "<b>Sex</b> at birth", "1, Female | 2, Male", required="y"),
    field("mood", "dropdown", "Mood, [sex]?", "1, Bad | 2, So, so", branching="[sex] = '1'"),
    field("smokes", "yesno", "Do you smoke?", note="Rarely, too", required="y"),
    field("sure", "truefalse", "Are you sure?", required="y"),
    field("ill", "checkbox", "Illnesses", "1, Asthma | B, Flu | -1, None of them"),
    field("pain", "slider", "Pain", "none | some | much", required="y"),
    field("age", "text", "Age", validation=("integer", "0", "120"), required="y"),
    field("weight", "text", "Weight", validation=("number_1dp", "40", "")),
    field("born", "text", "Born", validation=("date_dmy", "2000-01-01", "2003-12-31")),
    field("dose", "text", "Dose", validation=("number_comma_decimal", "0", "1")),
    field("phone", "text", "Telephone", validation=("phone", "", "")),
    field("bmi", "calc", "BMI", "[weight]/2"),
    field("remark", "notes", "Remarks"),
    field("scan", "file", "Scan"),
    field("thanks", "descriptive", "Thank you"),
]
EXPORTED = """record_id,mail,sex,mood,smokes,sure,ill___1,ill___b,ill____1,pain,age,born,complete
1,a@example.org,1,2,0,1,1,1,0,0,17,2000-02-29,2
2,b@example.org,2,,1,0,0,0,1,100,99,,2
"""


@pytest.fixture(scope="module")
def dictionary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("redcap") / "dictionary.csv", [HEADER, *FIELDS])


def test_a_dictionary_is_planned_and_exported_records_are_read(
    dictionary: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.toml"
    said = sottovoce("plan", "--from", dictionary, "--language", "en", "--out", plan)
    assert said.code == 0, said.err
    assert "17 questions, 10 attributes, without record_id, mail, weight, dose, phone" in said.err
    records = tmp_path / "exported.csv"
    records.write_text(EXPORTED)
    ran = sottovoce("run", plan, "--records", records, "--seed", 1, "--out", tmp_path / "trial")
    assert ran.code == 0, ran.err
    assert read_plan(plan).records(records).to_rows() == [
        {"sex": "1", "mood": "2", "smokes": "0", "sure": "1", "ill: 1": "1", "ill: B": "1"}
        | {"ill: -1": "0", "pain": "below 20", "age": "below 20", "born": "before 2001"},
        {"sex": "2", "mood": "no answer", "smokes": "1", "sure": "0", "ill: 1": "0"}
        | {"ill: B": "0", "ill: -1": "1", "pain": "80 or more", "age": "80 to below 100"}
        | {"born": "no answer"},
    ]
    estimated = sottovoce("estimate", tmp_path / "trial" / "transcript.svt.zst", "--table", "sex")
    assert estimated.code == 0, estimated.err


def test_words_are_the_labels(dictionary: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    assert sottovoce("plan", "--from", dictionary, "--language", "en", "--out", plan).code == 0
    [texts] = read_plan(plan).variant.survey.texts
    named = {each.attribute: each for each in texts.questions}
    assert named["sex"] == Wording(attribute="sex", ask="Sex at birth", labels=("Female", "Male"))
    assert named["mood"].labels == ("Bad", "So, so", "no answer")
    assert named["smokes"].help == "Rarely, too"
    assert named["smokes"].labels == ("Yes", "No")
    assert named["ill: -1"].ask == "None of them"
    assert texts.groups == (Group(attributes=("ill: 1", "ill: B", "ill: -1"), ask="Illnesses"),)


def test_what_programs_fetch_says_the_same(dictionary: Path, tmp_path: Path) -> None:
    fetched = write_text(tmp_path / "dictionary.csv", [OF_API, *FIELDS])
    assert propose(fetched)._replace(source="") == propose(dictionary)._replace(source="")


def test_more_choices_than_an_attribute_may_have_are_left_out(tmp_path: Path) -> None:
    choices = " | ".join(f"{place}, place {place}" for place in range(10))
    rows = [HEADER, FIELDS[0], field("place", "radio", "Where?", choices), FIELDS[4]]
    path = write_text(tmp_path / "dictionary.csv", rows)
    assert len(propose(path).columns[1].questions[0].categories) == 11
    [_, place, _] = propose(path, most=10).columns
    assert place.decisions[0].said == "left out: 10 choices; --most 10 allows fewer"
    with pytest.raises(UsageError, match="language 'x': expected a tag"):
        propose(path, language="x")
