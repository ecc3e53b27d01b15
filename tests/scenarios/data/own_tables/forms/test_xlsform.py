"""An XLSForm becomes a plan that reads what its program exports; mistakes in it are named."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from protocol.errors import UsageError
from protocol.surveys.texts import Group, Wording
from scenarios import plan_text, propose, read_plan
from scenarios.data.own_tables.forms.constraints import bounds, day, number
from scenarios.data.own_tables.proposing import Proposal
from scenarios.surveys.survey_plan import Plan
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.data.own_tables.forms.workbooks import (
    Rows,
    write_book,
    write_folder,
    write_text,
)

SURVEY = [
    [
        *("type", "name", "label::English (en)", "label::Deutsch (de)", "hint::English (en)"),
        *("required", "relevant", "constraint", "parameters"),
    ],
    ["start", "start"],
    ["deviceid", "deviceid"],
    [],
    ["note", "intro", "Welcome"],
    ["begin_group", "who", "You"],
    ["select_one sex", "sex", "Your sex?", "Ihr Geschlecht?", "As you see it", "yes"],
    ["integer", "age", "How old?", "Wie alt?", "", "yes", "", ". >= 0 and . <= 120"],
    ["end_group"],
    ["select_one agree or_other", "agree", "Do you agree?"],
    ["select_one often", "often", "How often, ${sex}?", "", "", "yes", "${agree} = 'y'"],
    ["select_multiple ill", "ill", "Which?", "Welche?"],
    ["decimal", "height", "How tall?"],
    ["range", "pain", "Pain", "", "", "true", "", "", "start=0 end=5 step=1"],
    ["date", "born", "Born?", "", "", "yes", "", ". >= date('1950-01-01') and . < today()"],
    ["text", "name", "Name?"],
    ["calculate", "bmi"],
    ["geopoint", "gps", "Where?"],
]
CHOICES = [
    ["list_name", "name", "label::English (en)", "label::Deutsch (de)"],
    ["sex", 1, "Female", "Weiblich"],
    ["sex", 2, "Male", "Männlich"],
    ["agree", "y", "Yes"],
    ["agree", "n", "No"],
    [],
    ["often", "never", "Never"],
    ["often", "some", "Sometimes"],
    ["often", "always", "Always"],
    ["ill", "asthma", "Asthma"],
    ["ill", "flu", "Flu"],
]
SETTINGS = [["form_title", "default_language"], ["Health", "English (en)"]]
PLAIN = [["list name", "name", "label"], *(row[:3] for row in CHOICES[1:])]
FORM = {"survey": SURVEY, "choices": CHOICES, "settings": SETTINGS}
EXPORTED = """start,sex,age,agree,agree_other,often,ill,pain,name,_id
2024-05-01,1,17,y,,never,asthma flu,0,Anna,1
2024-05-01,2,20,other,perhaps,,,5,Bert,2
2024-05-01,2,121,,,always,flu,3,Carl,3
"""


@pytest.fixture(scope="module")
def form(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_book(tmp_path_factory.mktemp("form") / "form.xlsx", FORM)


def plan_of(proposal: Proposal, folder: Path) -> Plan:
    path = folder / "plan.toml"
    path.write_text(plan_text(proposal, proposal.title), encoding="utf-8")
    return read_plan(path)


def left_out(proposal: Proposal) -> dict[str, str]:
    return {each.column: each.decisions[0].said for each in proposal.columns if not each.questions}


def asked(*rows: list[object], choices: Rows = PLAIN) -> Mapping[str, Rows]:
    """A form with these questions."""
    header = ["type", "name", "label", "required", "relevant", "constraint", "parameters"]
    return {"survey": [header, *rows], "choices": choices}


def test_a_form_is_planned_and_answers_that_its_program_exports_are_read(
    form: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.toml"
    said = sottovoce("plan", "--from", form, "--out", plan)
    assert said.code == 0, said.err
    assert "14 questions, 7 attributes, without start, deviceid, intro, height, born" in said.err
    records = tmp_path / "exported.csv"
    records.write_text(EXPORTED)
    ran = sottovoce("run", plan, "--records", records, "--seed", 1, "--out", tmp_path / "trial")
    assert ran.code == 0, ran.err
    assert read_plan(plan).records(records).to_rows() == [
        {"sex": "1", "age": "below 20", "agree": "y", "often": "never"}
        | {"ill: asthma": "yes", "ill: flu": "yes", "pain": "0"},
        {"sex": "2", "age": "20 to below 40", "agree": "other", "often": "no answer"}
        | {"ill: asthma": "no", "ill: flu": "no", "pain": "5"},
        {"sex": "2", "age": "100 or more", "agree": "no answer", "often": "always"}
        | {"ill: asthma": "no", "ill: flu": "yes", "pain": "3"},
    ]
    estimated = sottovoce("estimate", tmp_path / "trial" / "transcript.svt.zst", "--table", "sex")
    assert estimated.code == 0, estimated.err


def test_a_folder_or_two_files_say_what_the_workbook_says(form: Path, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "form", FORM)
    of_book = propose(form)
    for source in (folder, folder / "survey.csv"):
        assert propose(source)._replace(source="") == of_book._replace(source="")


def test_words_are_those_of_the_form_in_its_language_or_another(form: Path, tmp_path: Path) -> None:
    proposal = propose(form)
    assert (proposal.title, proposal.language) == ("Health", "en")
    [texts] = plan_of(proposal, tmp_path).variant.survey.texts
    assert texts.questions[0] == Wording(
        attribute="sex", ask="Your sex?", help="As you see it", labels=("Female", "Male")
    )
    assert texts.questions[2].labels == ("Yes", "No", "Other", "no answer")
    assert texts.groups == (Group(attributes=("ill: asthma", "ill: flu"), ask="Which?"),)
    for name in ("de", "Deutsch (de)"):
        proposal = propose(form, language=name)
        assert proposal.language == "de"
        [texts] = plan_of(proposal, tmp_path).variant.survey.texts
        assert texts.questions[0].ask == "Ihr Geschlecht?"
        assert texts.questions[0].labels == ("Weiblich", "Männlich")
    with pytest.raises(UsageError, match=r"no language 'fr'; it has 'English \(en\)', 'Deutsch"):
        propose(form, language="fr")


def test_a_language_without_a_tag_is_to_be_decided(tmp_path: Path) -> None:
    sheets = asked(["select_one sex", "sex", "Your sex?"])
    proposal = propose(write_book(tmp_path / "form.xlsx", sheets))
    assert proposal.language == "und"
    assert proposal.decisions()[-1] == (
        "texts: their language is not known; write its tag, such as en"
    )
    assert propose(tmp_path / "form.xlsx", language="pt-BR").language == "pt-BR"
    with pytest.raises(UsageError, match="language 'Português': expected a tag such as 'en'"):
        propose(tmp_path / "form.xlsx", language="Português")


@pytest.mark.parametrize(("low", "high"), [("0", "5e-324"), ("-1e308", "1e308"), ("3", "3")])
def test_limits_that_cannot_be_cut_are_said(low: str, high: str, tmp_path: Path) -> None:
    constraint = f". >= {low} and . <= {high}"
    sheets = asked(["decimal", "n", "", "", "", constraint], ["select_one sex", "sex"])
    said = left_out(propose(write_book(tmp_path / "form.xlsx", sheets)))
    assert said["n"].startswith("left out: a number from ")


def test_the_default_language_is_that_of_words_without_one(tmp_path: Path) -> None:
    sheets = {
        **asked(["select_one sex", "sex", "Sexe ?"]),
        "settings": [["default_language"], ["fr"]],
    }
    assert propose(write_book(tmp_path / "form.xlsx", sheets)).language == "fr"


def test_tables_of_questions_are_left_out(tmp_path: Path) -> None:
    rows: list[list[object]] = [["begin_score", "q"], ["score__row", "a"], ["end_score"]]
    path = write_book(tmp_path / "form.xlsx", asked(*rows, ["select_one sex or other", "sex"]))
    proposal = propose(path)
    assert left_out(proposal) == dict.fromkeys(
        ("q", "a", "row 4"), "left out: a table of questions"
    )
    assert "other" in proposal.columns[-1].questions[0].categories


def test_a_scale_that_everybody_answers_has_its_order(tmp_path: Path) -> None:
    sheets = asked(["select_one often", "often", "How often?", "TRUE"], ["integer", "n", "", "yes"])
    [often, _] = propose(write_book(tmp_path / "form.xlsx", sheets)).columns
    assert often.questions[0].ordinal


@pytest.mark.parametrize(
    ("constraint", "low", "high"),
    [
        (". >= 0 and . <= 120", 0, 120),
        ("(.>0) and (.<120)", 1, 119),
        ("(. >= 0 and 120 >= .)", 0, 120),
        (". >= 0 and . <= 120 and . <= 90 and string-length(.) < 4", 0, 90),
        (". >= ${least} and . <= 5.5", None, 5.5),
        (". >= 0 and . <= 120 or . = 999", None, None),
        ("not(. > 3)", None, None),
        ("", None, None),
    ],
)
def test_limits_are_those_of_the_constraint(
    constraint: str, low: float | None, high: float | None
) -> None:
    assert bounds(constraint, number, whole=True) == (low, high)


def test_limits_of_dates(tmp_path: Path) -> None:
    constraint = "(. >= date('2020-01-01')) and . < date(\"2020-06-30\")"
    assert bounds(constraint, day) == (datetime.date(2020, 1, 1), datetime.date(2020, 6, 30))
    sheets = asked(["date", "day", "When?", "yes", "", constraint])
    [column] = propose(write_book(tmp_path / "form.xlsx", sheets)).columns
    assert column.questions[0].categories[:2] == ("before 2020-02", "2020-02")


@pytest.mark.parametrize(
    ("kind", "constraint", "edges", "categories"),
    [
        ("integer", ". >= 1 and . <= 5", (), 5),
        ("integer", ". >= 0 and . <= 1000000", (200000, 400000, 600000, 800000), 5),
        ("decimal", ". >= 0 and . <= 1", (0.2, 0.4, 0.6, 0.8), 5),
        ("decimal", ". >= -40 and . <= 60", (-20, 0, 20, 40), 5),
        ("integer", ". >= 18 and . <= 99", (40, 60, 80), 4),
        ("integer", ". >= 1 and . <= 101", (20, 40, 60, 80), 5),
    ],
)
def test_ranges_follow_from_limits(
    kind: str, constraint: str, edges: tuple[float, ...], categories: int, tmp_path: Path
) -> None:
    sheets = asked([kind, "n", "How many?", "yes", "", constraint])
    [column] = propose(write_book(tmp_path / "form.xlsx", sheets)).columns
    [question] = column.questions
    assert question.edges == edges
    assert len(question.attribute().categories) == categories


def test_a_table_called_survey_is_a_table(tmp_path: Path) -> None:
    path = write_text(tmp_path / "survey.csv", [["smokes"], *[["yes"], ["no"]] * 20])
    assert propose(path).rows == 40
    assert "a table has no words" in complaint(
        sottovoce("plan", "--from", path, "--language", "en")
    )


def test_what_spreadsheets_add_does_no_harm(tmp_path: Path) -> None:
    path = write_book(tmp_path / "form.xlsx", asked(["select_one sex", "sex", "Sex?", "yes"]))
    book: Any = openpyxl.load_workbook(path)
    sheet = book["survey"]
    sheet.insert_rows(1)
    sheet.merge_cells("C3:D3")
    sheet.column_dimensions["B"].hidden = True
    sheet.row_dimensions[3].hidden = True
    sheet["A9"], sheet["B9"], sheet["C9"] = "select_one agree", "agree", '="So" & "?"'
    sheet["AZ1000"] = "a remark below no name"
    book.save(path)
    [sex, agree] = propose(path).columns
    assert sex.questions[0].categories == ("1", "2", "no answer")  # D3 is merged, so it is empty.
    assert agree.words is not None
    assert agree.words.wordings[0].ask == "agree"  # Nobody has computed the formula.


def test_groups_may_have_questions_of_one_name(tmp_path: Path) -> None:
    group: list[list[object]] = [["begin group", "a"], ["select_one sex", "sex"], ["end group"]]
    rows = [*group, ["begin group", "b"], *group[1:]]
    proposal = propose(write_book(tmp_path / "form.xlsx", asked(*rows)))
    assert [each.column for each in proposal.columns] == ["sex", "b/sex"]


def refit(path: Path, bomb: Path, more: bytes) -> Path:
    """The same workbook with more rows in its first sheet."""
    with zipfile.ZipFile(path) as book, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as copy:
        for name in book.namelist():
            content = book.read(name)
            if name == "xl/worksheets/sheet1.xml":
                content = content.replace(b"</sheetData>", more + b"</sheetData>")
            copy.writestr(name, content)
    return bomb


def test_a_workbook_that_unpacks_to_too_much_is_refused(form: Path, tmp_path: Path) -> None:
    row = b'<row r="%d"><c r="A%d" t="inlineStr"><is><t>%s</t></is></c></row>'
    long = b"x" * (20 << 20)
    rows = b"".join(row % (place, place, long) for place in range(100, 130))
    bomb = refit(form, tmp_path / "bomb.xlsx", rows)
    assert bomb.stat().st_size < 1 << 20
    said = complaint(sottovoce("plan", "--from", bomb), 3)
    assert said == f"{bomb}: could not finish with 370 MB of memory"


def test_rows_beyond_all_spreadsheets_are_not_waited_for(form: Path, tmp_path: Path) -> None:
    far = refit(form, tmp_path / "far.xlsx", b'<row r="1000000000000"><c r="A1"><v>1</v></c></row>')
    assert propose(far).columns == propose(form).columns


@pytest.mark.parametrize("content", [b"PK\x03\x04", b"PK\x03\x04" + bytes(500)])
def test_an_archive_that_is_no_workbook_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "form.xlsx"
    path.write_bytes(content)
    assert "not a workbook that can be read: " in complaint(sottovoce("plan", "--from", path))
