"""What a person has to decide before a messy table is asked about: named, and safe by default."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from scenarios import propose, read_plan
from scenarios.data.own_tables.coding import Coding
from scenarios.data.own_tables.proposals.codes import far_codes
from scenarios.data.own_tables.proposals.wordings import ordered_scale, tells_who
from scenarios.data.own_tables.question import Question
from tests.scenarios.command import sottovoce

ROWS = 1200


class Planned:
    """A table that was planned on the command line."""

    def __init__(
        self, folder: Path, names: Sequence[str], rows: Sequence[Sequence[object]], *options: object
    ) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, delimiter="\t").writerows([names, *rows])
        self.table = folder / "messy.csv"
        self.table.write_text(text.getvalue(), encoding="utf-8")
        self.path = folder / "plan.toml"
        said = sottovoce("plan", "--from", self.table, "--out", self.path, *options)
        assert said.code == 0, said.err
        self.lines = [line.strip() for line in said.err.splitlines() if line.startswith("  ")]
        self.text = self.path.read_text(encoding="utf-8")
        self.coding: Coding = read_plan(self.path).coding
        self.counts = {
            name: dict(zip(attribute.categories, map(int, counts), strict=True))
            for name, attribute in zip(
                self.coding.survey.names, self.coding.survey.attributes, strict=True
            )
            for counts in [self.coding.records(self.table).counts([name])]
        }

    def line(self, column: str, *said: str) -> str:
        """The one line that says all of this about a column; it is in the plan as well."""
        found = [x for x in self.lines if column in x.split(": ")[0] and all(y in x for y in said)]
        assert len(found) == 1, (column, said, self.lines)
        return found[0]

    def question(self, name: str) -> Question:
        [found] = [each for each in self.coding.questions if each.name == name]
        return found


def test_codes_far_from_the_rest_are_no_answer(tmp_path: Path) -> None:
    draw = Random(1)
    rows = [
        (
            -9 if n % 30 == 0 else draw.randint(18, 90),
            999999 if n % 60 == 1 else -9 if n % 40 == 0 else round(draw.lognormvariate(7.5, 0.5)),
            99 if n % 24 == 0 else n % 6,
            (1, 2, 2, 8)[n % 4] if n % 20 else 9,
            "refused" if n % 50 == 0 else 99 if n % 20 == 0 else "ja" if n % 3 else "nein",
        )
        for n in range(ROWS)
    ]
    planned = Planned(tmp_path, ("age", "income", "children", "smokes", "kept"), rows)
    assert "(40 rows)" in planned.line("age", "-9 beside 18 to 90", "taken for no answer")
    assert "(50 rows)" in planned.line("income", "-9, 999999 beside ")
    assert "(50 rows)" in planned.line("children", "99 beside 0 to 5")
    planned.line("smokes", "8, 9 beside 1 to 2")
    planned.line("smokes", "1, 2: codes without labels")
    assert "(48 rows)" in planned.line("kept", "99 among texts")
    assert planned.counts["age"]["no answer"] == 40
    assert sum(planned.counts["income"].values()) == ROWS
    assert planned.counts["income"]["no answer"] == 50
    assert planned.counts["children"]["no answer"] == 50
    assert planned.question("smokes").categories == ("1", "2", "no answer")
    # No range is a different one because of them: as many are in each.
    ages = [times for name, times in planned.counts["age"].items() if name != "no answer"]
    assert max(ages) < 1.3 * min(ages)
    assert (
        "# decide: -9 beside 18 to 90: missing, it seems; taken for no answer (40" in planned.text
    )


@pytest.mark.parametrize(
    ("numbers", "codes"),
    [
        ([1, 2, 3, 4, 5, 99], [99]),
        ([1, 2, 3, 4, 5, 98, 99], [98, 99]),
        ([*range(11), -1], [-1]),
        ([1, 2, 3, -9, -8], [-9, -8]),
        ([*range(18, 90), 8888], [8888]),
        ([*range(18, 90), 999], [999]),
        ([0, 1, 9], [9]),
        ([20.5, 30.5, 36.6, 999.0], [999]),
        ([-12.5, 3.5, 7.25, 20.0, -999], [-999]),
        # These are answers.
        ([-2, -1, 0, 1, 2], []),
        ([-1, 0, 1], []),
        ([*range(1, 11)], []),
        ([*range(1, 8)], []),
        ([*range(18, 100)], []),
        ([*range(18, 98), 99], []),
        ([*range(-30, 31, 3)], []),
        ([10, 20, 30, 99.5], []),
        ([5, 6, 7, 8, 9], []),
        ([99], []),
        ([-9], []),
        ([7, 99], []),
    ],
)
def test_only_codes_far_from_the_rest_are_taken_for_no_answer(
    numbers: list[float], codes: list[float]
) -> None:
    assert far_codes(Counter(dict.fromkeys(map(float, numbers), 60))) == codes


def test_a_number_that_one_person_has_is_an_answer() -> None:
    assert far_codes(Counter({1.0: 600, 2.0: 500, 3.0: 99, 99.0: 1})) == []


def test_a_ticked_list_is_a_yes_or_no_for_each_answer(tmp_path: Path) -> None:
    draw = Random(2)
    names = ("asthma", "diabetes", "heart", "cancer")
    listed = [[x for x in names if draw.random() < 0.2] for _ in range(ROWS)]
    spoken = [[x for x in ("de", "en", "fr") if draw.random() < 0.4] for _ in range(ROWS)]
    rows = [
        ("|".join(one), ", ".join(other + ["xx"] * (n < 4)), "Yes, often" if n % 3 else "No")
        for n, (one, other) in enumerate(zip(listed, spoken, strict=True))
    ]
    planned = Planned(tmp_path, ("illnesses", "languages", "smokes"), rows)
    planned.line("illnesses", "lists what was ticked, with '|' between")
    planned.line("languages", "lists what was ticked, with ',' between")
    planned.line("illnesses", "empty cells: taken for nothing ticked")
    assert "(4 rows)" in planned.line("languages", "ticked too rarely, left out: 'xx'")
    for name in names:
        true = sum(name in one for one in listed)
        assert planned.counts[f"illnesses: {name}"] == {"no": ROWS - true, "yes": true}
    for name in ("de", "en", "fr"):
        true = sum(name in one for one in spoken)
        assert planned.counts[f"languages: {name}"] == {"no": ROWS - true, "yes": true}
    assert planned.question("smokes").categories == ("No", "Yes, often")
    assert planned.text.count('column = "illnesses"\n') == 4


@pytest.mark.parametrize(
    "answers",
    [
        ["Yes, often", "Yes, sometimes", "Yes, rarely", "No"],
        ["Bern, CH", "Chur, CH", "Paris, FR", "Lyon, FR"],
        ["young, male", "young, female", "old, male", "old, female"],
        [f"{one}, {other}" for one in "abcde" for other in "vwxyz"],
        ["a", "b", "c"],
    ],
)
def test_a_comma_within_an_answer_lists_nothing(answers: list[str]) -> None:
    [column] = propose({"x": answers * 50}).columns
    assert [question.ticked for question in column.questions] == [None]
    assert column.questions[0].categories == tuple(sorted(answers))


def test_cells_for_no_answer_are_not_ticked(tmp_path: Path) -> None:
    rows = [(("a;b", "a", "b", "", "NA")[n % 5], n % 2) for n in range(500)]
    planned = Planned(tmp_path, ("x", "y"), rows)
    assert planned.counts["x: a"] == {"no": 200, "yes": 200, "no answer": 100}


def test_an_answer_of_a_list_is_not_called_like_a_column(tmp_path: Path) -> None:
    rows = [(("a;b", "a", "b")[n % 3], "yes" if n % 2 else "no") for n in range(300)]
    planned = Planned(tmp_path, ("x", "x: a"), rows)
    assert planned.coding.survey.names == ("(x: a)", "x: b", "x: a")


def test_dates_are_months_quarters_or_years(tmp_path: Path) -> None:
    rows = []
    for n in range(ROWS):
        month, day = n % 4 + 1, n % 28 + 1
        born = f"{1940 + n % 60}-{n % 12 + 1:02}-{day:02}"
        moved = f"{n % 12 + 1}/{day}/20{10 + n % 2}"
        rows.append(
            (
                f"{day:02}.{month:02}.2024",
                born,
                moved,
                f"{2001 + n % 6}-{n % 12 + 1:02}-01 10:0{n % 10}:00",
                "1900-01-01"
                if n % 100 == 0
                else "unknown"
                if n % 50 == 1
                else "2020-05-05"
                if n % 2
                else "2020-07-07",
                f"2020-02-{day:02}",
            )
        )
    names = ("interviewed", "born", "moved", "year", "paid", "same month")
    planned = Planned(tmp_path, names, rows)
    planned.line("interviewed", "4 ranges of months, read as d.m.y")
    assert planned.question("interviewed").categories == (
        "before 2024-02",
        "2024-02",
        "2024-03",
        "2024-04 or later",
    )
    assert [*planned.counts["interviewed"].values()] == [ROWS // 4] * 4
    planned.line("born", "dates from 1940-01-01 to 1999-12-", "8 ranges of years")
    assert sum(planned.counts["born"].values()) == ROWS
    assert max(planned.counts["born"].values()) < 1.3 * min(planned.counts["born"].values())
    planned.line("moved", "8 ranges of quarters, read as m/d/y")
    planned.line("year", "6 ranges of years")
    assert planned.question("year").categories[1] == "2002"
    planned.line("paid", "1900-01-01: no such days, it seems; taken for no answer (12 rows)")
    planned.line("paid", "no dates, so joined as 'other': 'unknown' (24 rows)")
    assert planned.counts["paid"]["no answer"] == 12
    planned.line("same month", "left out: all dates are in 2020-02")
    # Other ranges take one line, and no categories.
    [told] = [x for x in planned.text.replace("\n# ", " ").splitlines() if "for quarters" in x][:1]
    edges = told.partition("for quarters: ")[2].partition(";")[0].rstrip(".")
    assert edges == "edges = [2024-04-01]"


def test_a_date_that_may_be_read_in_two_ways_is_said(tmp_path: Path) -> None:
    rows = [(f"{n % 12 + 1:02}/{n % 7 + 1:02}/2024",) for n in range(ROWS)]
    planned = Planned(tmp_path, ("day",), rows)
    planned.line("day", "read as d/m/y (they could be m/d/y)")
    assert planned.question("day").dates == "d/m/y"


def test_what_identifies_people_is_left_out(tmp_path: Path) -> None:
    draw = Random(3)
    rows = [
        (
            n + 1,
            f"user{draw.randrange(150)}@example.org",
            f"0{draw.randrange(150, 180)} {draw.randrange(10**6, 10**7)}",
            draw.randrange(10000, 99999),
            draw.randrange(10000, 99999),
            f"I think that it is {draw.randrange(400)}" if n % 4 == 0 else "",
            f"N{draw.randrange(90)}",
            ("yes", "no", "YES", "Yes ", "no")[n % 5],
            unicodedata.normalize("NFD" if n % 4 == 0 else "NFC", "Süd") if n % 2 == 0 else "Nord",
        )
        for n in range(ROWS)
    ]
    names = ("Nr", "e-mail", "phone", "postcode", "area", "remark", "last_name", "vote", "region")
    planned = Planned(tmp_path, names, rows)
    planned.line("Nr", "so they number the rows")
    planned.line("e-mail", "e-mail addresses, which identify people")
    planned.line("phone", "telephone numbers, which identify people")
    planned.line("postcode", "identifies people, by its name")
    planned.line("area", "nearly all different, 5 digits each")
    planned.line("remark", "free text")
    planned.line("last_name", "identifies people, by its name")
    assert "(480 rows)" in planned.line("vote", "spellings of one answer joined: 'YES' =")
    planned.line("region", "spellings joined that differ only in blanks or accents: 'Süd'")
    assert planned.coding.survey.names == ("vote", "region")
    assert sorted(planned.counts["vote"].values()) == [480, 720]
    # What changes answers is said before what is left out.
    assert planned.lines.index(planned.line("vote")) < planned.lines.index(planned.line("Nr"))


def test_a_cell_that_is_long_or_has_a_long_number_is_a_text() -> None:
    cells = ["x@" + 100_000 * "." + "@", 5000 * "9" + " km", "2 km", "3 km"]
    first, _ = propose({"x": cells * 30, "y": [1, 2, 3, 4] * 30}).columns
    assert first.questions


def test_scales_are_ordered_and_their_codes_are_none(tmp_path: Path) -> None:
    agrees = ["strongly disagree", "disagree", "neutral", "agree", "strongly agree"]
    rows = [
        (
            99 if n % 20 == 0 else n % 5 + 1,
            -1 if n % 25 == 0 else n % 11,
            agrees[n % 5],
            n % 5 + 1,
            n % 5 + 1,
            ["18-24", "25-34", "35+", "9-17"][n % 4],
            ["red", "green", "blue"][n % 3],
        )
        for n in range(ROWS)
    ]
    names = ("satisfied (1-5)", "pain 0-10", "agrees", "q1", "q2", "age", "colour")
    planned = Planned(tmp_path, names, rows)
    assert "(60 rows)" in planned.line("satisfied (1-5)", "99 beside 1 to 5")
    assert "(48 rows)" in planned.line("pain 0-10", "-1 beside 0 to 10")
    planned.line("pain 0-10", "0 to 10: a scale, taken without its order, in which 'no answer' has")
    assert not planned.question("pain 0-10").ordinal
    planned.line("agrees", "'strongly disagree' to 'strongly agree': taken for an ordered scale")
    assert planned.question("agrees").categories == tuple(agrees)
    assert planned.question("agrees").ordinal
    assert planned.question("age").categories == ("9-17", "18-24", "25-34", "35+")
    assert not planned.question("colour").ordinal
    # Of columns of which the same is to be decided there is one line.
    assert planned.line("q1").startswith("q1, q2: 1 to 5: taken for an ordered scale")


def test_of_one_answer_in_several_spellings_nothing_is_asked() -> None:
    first, _ = propose({"x": ["Yes", "yes", "YES "] * 40, "y": [1, 2, 3] * 40}).columns
    assert not first.questions
    assert first.decisions[-1].said == "left out: all rows are the same, but for case or blanks"


@pytest.mark.parametrize(
    ("answers", "ordered"),
    [
        (["often", "never", "sometimes"], ["never", "sometimes", "often"]),
        (["gut", "Sehr gut", "schlecht"], ["schlecht", "gut", "Sehr gut"]),
        (
            ["satisfied", "dissatisfied", "very satisfied"],
            ["dissatisfied", "satisfied", "very satisfied"],
        ),
        (["yes", "no"], None),
        (["2 or more", "none", "1"], None),
    ],
)
def test_usual_scales_are_known(answers: list[str], ordered: list[str] | None) -> None:
    assert ordered_scale(answers) == ordered


def test_names_of_columns_tell_whom_they_identify() -> None:
    assert all(map(tells_who, ("E-Mail", "Name", "last_name", "Postcode", "PLZ", "Matrikel-Nr")))
    assert not any(map(tells_who, ("filename", "married", "idea", "north", "telling")))


def test_the_list_is_short_and_the_file_has_the_rest(tmp_path: Path) -> None:
    rows = [[f"{'yes' if n % 2 else 'YES'} {column}" for column in range(20)] for n in range(ROWS)]
    rows = [[*row, n % 2] for n, row in enumerate(rows)] + [["no"] * 20 + [0]] * ROWS
    names = [*(f"q{column}" for column in range(20)), "sex"]
    planned = Planned(tmp_path, names, rows, "--epsilon", 500)
    assert len(planned.lines) == 13
    assert planned.lines[-1] == "and 9 more, in the file"
    assert planned.text.count("# decide: ") == 21


def test_what_rare_answers_lose_is_said_by_rows(tmp_path: Path) -> None:
    rows = [[f"town {n}" if n % 4 == 0 else "ABC"[n % 3]] for n in range(ROWS)]
    planned = Planned(tmp_path, ("town",), rows)
    planned.line("town", "caution, 25% of the answers are lost: joined as 'other'", "(300 rows)")


def test_codes_with_a_leading_zero_are_no_scale() -> None:
    proposal = propose({"area": [f"0{code}" for code in (1001, 1002, 1003)] * 40})
    assert not proposal.columns[0].questions[0].ordinal
    assert not proposal.decisions()


def test_answers_that_people_choose_in_place_of_one_are_named() -> None:
    answers = ["yes"] * 50 + ["no"] * 40 + ["Don't know"] * 20 + ["refused"] * 10 + ["N.A."] * 5
    proposal = propose({"drinks": answers})
    [line] = proposal.decisions()
    assert line == ("drinks: \"Don't know\", 'refused': taken as categories of their own (30 rows)")
    assert proposal.format.missing_cells == ("N.A.",)
