"""A plan says how useful its estimates will be, before it runs into useless ones."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from tests.scenarios.command import sottovoce

ROWS = 600
WORDS = ("good", "fair", "poor", "none")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Questions with two to four answers each."""
    draw, path = Random(4), tmp_path_factory.mktemp("table") / "staff.csv"
    rows = [",".join(draw.choice("abcd"[: 2 + n % 3]) for n in range(5)) for _ in range(ROWS)]
    path.write_text("\n".join(("q0,q1,q2,q3,q4", *rows)) + "\n")
    return path


def planned(table: Path, out: Path, *options: object) -> str:
    """What is said of a plan as it is proposed; it is in its file as well."""
    said = sottovoce("plan", "--from", table, "--out", out, *options)
    assert said.code == 0, said.err
    (line,) = [x for x in said.err.splitlines() if x.startswith("As proposed, ")]
    assert f"# {line}\nvariant = " in out.read_text().replace("\n# ", " ").replace(
        " As proposed", "\n# As proposed"
    )
    return line


def word(line: str) -> str:
    return line.partition(": ")[2].partition(".")[0]


@pytest.mark.parametrize(
    "options",
    [
        ("--epsilon", 0.5),
        ("--epsilon", 4),
        ("--epsilon", 10),
        ("--epsilon", 20),
        ("--variant", "secure-sum", "--parties", 100, "--epsilon", 0.05),
        ("--variant", "pair-counts", "--parties", 100, "--epsilon", 1),
        ("--variant", "secure-sum", "--noise", "none"),
    ],
)
def test_a_run_is_no_less_useful_than_its_plan_says(
    options: tuple[object, ...], table: Path, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.toml"
    said = planned(table, plan, *options)
    assert said.startswith("As proposed, with 600 respondents: ")
    tried = ("run", plan, "--records", table, "--seed", 1, "--parties", 100)
    found = sottovoce(*tried, "--transport", "local", "--json").json["usefulness"]["verdict"]
    assert WORDS.index(found) <= WORDS.index(word(said))
    assert (found in ("poor", "none")) == (word(said) in ("poor", "none"))


def test_what_is_said_to_mend_a_plan_does(table: Path, tmp_path: Path) -> None:
    line = planned(table, tmp_path / "plan.toml", "--epsilon", 2)
    assert word(line) == "poor"
    found = re.search(r"about ([0-9,]+) respondents; ε = ([0-9.]+); leaving out (.*)\.$", line)
    assert found is not None, line
    people, epsilon, dropped = found[1].replace(",", ""), float(found[2]), found[3].split(", ")
    for number, (options, expected) in enumerate(
        (
            (("--epsilon", 2, "--n", people), "fair"),
            (("--epsilon", 2, "--n", round(0.9 * int(people))), "poor"),
            (("--epsilon", epsilon), "fair"),
            (("--epsilon", epsilon - 0.1), "poor"),
        )
    ):
        assert word(planned(table, tmp_path / f"{number}.toml", *options)) == expected
    rows = [row.split(",") for row in table.read_text().splitlines()]
    for last, expected in ((len(dropped), "fair"), (len(dropped) - 1, "poor")):
        kept = [place for place, name in enumerate(rows[0]) if name not in dropped[:last]]
        fewer = tmp_path / f"{expected}.csv"
        fewer.write_text("\n".join(",".join(row[place] for place in kept) for row in rows) + "\n")
        out = tmp_path / f"{expected}.toml"
        assert word(planned(fewer, out, "--epsilon", 2)) == expected


def test_respondents_are_the_rows_or_as_many_parties_or_what_is_said(
    table: Path, tmp_path: Path
) -> None:
    coins = ("--variant", "secure-sum", "--parties", 2_000)
    for options, people in (((), 600), (coins, 2_000), ((*coins, "--n", 9_000), 9_000)):
        line = planned(table, tmp_path / f"{people}.toml", *options)
        assert line.startswith(f"As proposed, with {people:,} respondents: ")
