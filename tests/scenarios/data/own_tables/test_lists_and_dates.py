"""Columns that list what was ticked, and columns of dates: what a plan says of them is read so."""

from __future__ import annotations

import datetime
from pathlib import Path

import pandas as pd
import pytest

from protocol.errors import UsageError
from scenarios import propose, read_plan
from scenarios.data.own_tables.coding import Coding
from scenarios.data.own_tables.dates import date_in, date_orders
from scenarios.surveys.respondents import coding_for, read_respondents
from tests.scenarios.command import sottovoce

TERMS = 'title = "Own"\nepsilon = 4.0\n'
TICKED = """
[[attributes]]
name = "cancer"
column = "illnesses"
ticked = "cancer"
separator = ";"

[[attributes]]
name = "asthma"
column = "illnesses"
ticked = "Asthma"
separator = ";"
ignore_case = true
missing_cells = ["", "NA"]
missing = "no answer"
"""
DATED = """
[[attributes]]
name = "joined"
edges = [2024-02-01, 2024-04-01]
dates = "d.m.y"
"""
LISTS = ("asthma; cancer", "cancer", " ASTHMA", "", "cancerous;x", "NA;cancer")


def coding_of(folder: Path, text: str) -> Coding:
    plan = folder / "plan.toml"
    plan.write_text(TERMS + text, encoding="utf-8")
    return read_plan(plan).coding


def table(folder: Path, *lines: str) -> Path:
    path = folder / "own.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_several_attributes_are_read_from_one_column(tmp_path: Path) -> None:
    coding = coding_of(tmp_path, TICKED)
    assert [each.categories for each in coding.survey.attributes] == [
        ("no", "yes"),
        ("no", "yes", "no answer"),
    ]
    path = table(tmp_path, "illnesses,n", *(f'"{cell}",1' for cell in LISTS))
    read = [tuple(row.values()) for row in coding.records(path).to_rows()]
    assert read == [
        ("yes", "yes"),
        ("yes", "no"),
        ("no", "yes"),
        ("no", "no answer"),
        ("no", "no"),
        ("yes", "no"),
    ]
    # A table in memory and a Parquet file say the same.
    frame = pd.DataFrame({"illnesses": [cell or None for cell in LISTS], "n": 1})
    frame.to_parquet(tmp_path / "own.parquet")
    for source in (frame, tmp_path / "own.parquet"):
        assert [tuple(row.values()) for row in coding.records(source).to_rows()] == read


def test_a_cell_for_no_answer_takes_a_category_in_a_list_too(tmp_path: Path) -> None:
    coding = coding_of(tmp_path, '[records]\nmissing_cells = ["?"]\n' + TICKED)
    with pytest.raises(UsageError, match="row 2, column 'illnesses': the answer is missing"):
        coding.records(table(tmp_path, "illnesses,n", "asthma,1", "?,1"))


def test_edges_may_be_dates(tmp_path: Path) -> None:
    coding = coding_of(tmp_path, DATED)
    assert coding.survey.attributes[0].categories == (
        "before 2024-02-01",
        "2024-02-01 to before 2024-04-01",
        "2024-04-01 or later",
    )
    days = ("31.1.2024", "01.02.2024", "31. 3. 2024", "01.04.2024 09:30", "24.12.1999")
    path = table(tmp_path, "joined,n", *(f"{day},1" for day in days))
    assert coding.records(path).codes[:, 0].tolist() == [0, 1, 1, 2, 0]
    other = coding_of(tmp_path, f'{DATED}other = "unknown"\nmissing = "none"\n')
    path = table(tmp_path, "joined,n", "soon,1", ",1", "01.02.2024,1")
    assert other.records(path).counts(["joined"]).tolist() == [0, 1, 0, 1, 1]


def test_dates_in_memory_are_dates(tmp_path: Path) -> None:
    coding = coding_of(tmp_path, DATED.replace('dates = "d.m.y"\n', ""))
    days = [datetime.date(2024, 1, 31), datetime.date(2024, 3, 1), datetime.date(2025, 1, 1)]
    moments = [datetime.datetime.combine(day, datetime.time(9, 30)) for day in days]
    for cells in (days, moments, pd.Series(moments)):
        assert coding.records({"joined": cells}).codes[:, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("cell", "order", "day"),
    [
        ("03/20/2024", "m/d/y", (2024, 3, 20)),
        ("2024-03-20T10:15:00Z", "y-m-d", (2024, 3, 20)),
        ("2024-03-20 10:15", "y-m-d", (2024, 3, 20)),
        ("2024-03-20 maybe", "y-m-d", None),
        ("20.03.24", "d.m.y", None),
        ("30.02.2024", "d.m.y", None),
        ("20.03.2024", "d/m/y", None),
        ("٢٠.٠٣.٢٠٢٤", "d.m.y", None),
        ("00.00.0000", "d.m.y", None),
    ],
)
def test_dates_are_read_as_people_write_them(
    cell: str, order: str, day: tuple[int, int, int] | None
) -> None:
    assert date_in(cell, order) == (day and datetime.date(*day))


def test_the_order_of_dates_is_found() -> None:
    assert date_orders(["01/02/2024", "13/02/2024"]) == ["d/m/y"]
    assert date_orders(["01/02/2024"])[:2] == ["d/m/y", "m/d/y"]
    assert date_orders(["2024-05-06"])[0] == "y-m-d"
    assert date_orders(["13/02/2024", "02/13/2024"]) == []


def test_every_command_reads_lists_and_dates(tmp_path: Path) -> None:
    """A proposal with both goes all the way."""
    lines = ["illnesses\tjoined\tsex"]
    for n in range(120):
        lines.append(f"{LISTS[n % 3]}\t{n % 28 + 1:02}.{n % 3 + 1:02}.2024\t{'fm'[n % 2]}")
    path, plan = table(tmp_path, *lines), tmp_path / "own.toml"
    assert sottovoce("plan", "--from", path, "--out", plan).code == 0
    names = [attribute.name for attribute in read_plan(plan).variant.survey.attributes]
    assert names == ["illnesses: asthma", "illnesses: cancer", "joined", "sex"]
    ready = sottovoce("preflight", plan, "--records", path)
    assert "120 respondents, every answer has a category" in ready.out
    designed = sottovoce("design", plan, "--epsilon", "2,4", "--records", path)
    assert designed.code == 0, designed.err
    options = ("--variant", "rr-independent", "--epsilon", 2, "--runs", 2, "--seed", 1)
    compared = sottovoce("compare", plan, "--records", path, *options)
    assert compared.code == 0, compared.err
    trial = ("--records", path, "--seed", 1, "--parties", 4, "--json")
    held = sottovoce("run", plan, *trial).json
    assert held["respondents"] == 120


def test_a_party_reads_its_table_so_and_keeps_its_column(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(TERMS + TICKED + DATED)
    coding = coding_for(read_plan(plan).variant.survey, plan)
    path = table(tmp_path, "illnesses,joined,who", "cancer;x,01.02.2024,anna", ",01.01.2024,ben")
    people = read_respondents(path, coding, "who")
    assert people.ids == ["anna", "ben"]
    assert people.records.codes.tolist() == [[1, 0, 1], [0, 2, 0]]
    with pytest.raises(UsageError, match="--id illnesses: is asked by the survey"):
        read_respondents(path, coding, "illnesses")


def test_a_birthday_among_others_is_a_day_and_a_default_is_none() -> None:
    days = [datetime.date(1940, 1, 1) + datetime.timedelta(97 * i) for i in range(200)]
    born = [day.isoformat() for day in days if day != datetime.date(1970, 1, 1)]

    def said(cells: list[str]) -> str:
        return " ".join(propose({"born": cells, "sex": ["f", "m"] * (len(cells) // 2)}).decisions())

    assert "no such days" not in said([*born, "1970-01-01"][-100:])
    assert "no such days" not in said(["1970-01-01", "1970-01-01", *born[:148]])
    assert "1970-01-01: no such days" in said([*["1970-01-01"] * 40, *born[:148]])
