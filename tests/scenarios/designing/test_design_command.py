"""``sottovoce design`` as a person meets it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.scenarios.command import sottovoce

PLAN = """
title = "Habits"

[[attributes]]
name = "smokes"
categories = ["no", "yes"]

[[attributes]]
name = "drinks"
categories = ["never", "seldom", "often"]
"""

OWN = '''
from protocol import Message
from protocol.variants import RRJoint


class Doubled(RRJoint, frozen=True):
    """Says the same otherwise."""

    name = "doubled"

    def estimate(self, result: Message):
        return super().estimate(result)
'''


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN, encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_plan_without_a_variant_is_ranked(plan: Path, tmp_path: Path) -> None:
    out, plot = tmp_path / "designs.csv", tmp_path / "designs.svg"
    said = sottovoce(
        "design", plan, "--n", "2000", "--epsilon", "1,4", "--out", out, "--plot", plot, "--all"
    )
    assert said.code == 0, said.err
    assert "epsilon 1" in said.out
    assert "epsilon 4" in said.out
    assert "Not applicable" in said.out
    assert "privkv" in said.out
    assert "if all combinations of answers are equally" in " ".join(said.out.split())
    assert max(map(len, said.out.splitlines())) <= 100
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    assert {row["assumed"] for row in rows} == {"all combinations of answers are equally likely"}
    assert not any({"nan", "inf"} & {*row.values()} for row in rows)
    assert {row["epsilon"] for row in rows} == {"1.0", "4.0"}
    assert {"rr-independent", "rr-joint", "smp:oue", "inp-ps"} <= {row["name"] for row in rows}
    assert plot.read_bytes().startswith(b"<?xml")
    [taken] = [row for row in rows if "recommended" in row["picked"].split()]
    assert f"{taken['name']} at epsilon {float(taken['epsilon']):g}\n" in said.out


def test_the_best_comes_first_and_exact_counts_last(plan: Path) -> None:
    """What rests on honest others is ranked by itself, and never among what does not."""
    said = sottovoce("design", plan, "--n", "1e4", "--epsilon", "2", "--target", "pairs", "--json")
    designs = said.json["designs"]
    rests = [row["rests_on"] for row in designs]
    assert rests == sorted(rests, key=["nothing", "honest", "no bound"].index)
    alone, honest, exact = (
        [row for row in designs if row["rests_on"] == what]
        for what in ("nothing", "honest", "no bound")
    )
    for rows in (alone, honest):
        errors = [row["rmse"] for row in rows]
        assert errors == sorted(errors)
    assert all(row["record_epsilon"] <= 2 and row["honest"] is None for row in alone)
    assert [row["name"] for row in honest] == ["pair-counts:coins", "pair-rr:summed"]
    assert all(1.9 < row["epsilon_among_honest"] <= 2 and row["honest"] == 6500 for row in honest)
    assert [row["record_epsilon"] is None for row in honest] == [True, False]
    assert honest[0]["rmse"] < 0.2 * alone[0]["rmse"]
    assert [row["name"] for row in exact] == ["pair-counts"]
    assert 'noise = "none"' in exact[0]["plan"]
    assert 'noise = "coins"' in honest[0]["plan"]
    why = {row["variant"]: row["why"] for row in said.json["not_applicable"]}
    assert "does not estimate pairs" in why["spl:grr"]


def test_the_first_screen_says_what_to_do(plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recommendation with its lines for the plan, then two alternatives."""
    monkeypatch.setenv("COLUMNS", "80")
    said = sottovoce("design", plan, "--n", "20000", "--epsilon", "1,4", "--target", "pairs")
    assert said.code == 0, said.err
    screen = said.out.splitlines()[:24]
    assert max(map(len, screen)) <= 80
    assert "It is good from epsilon 1 on." in " ".join(" ".join(screen).split())


def test_a_recommendation_is_in_the_json(plan: Path) -> None:
    said = sottovoce("design", plan, "--n", "20000", "--epsilon", "1,4", "--json").json
    taken, private, exact = (said[name] for name in ("recommended", "most_private", "most_exact"))
    rows = {(row["name"], row["epsilon"]): row for row in said["designs"]}
    for one in (taken, private, exact):
        row = rows[one["name"], one["epsilon"]]
        alike = ("chosen", "rests_on", "usefulness", "plan")
        assert [one[name] for name in alike] == [row[name] for name in alike]
        assert len(one["reasons"]) >= 3
    assert taken["usefulness"] == "good"
    assert (taken["rests_on"], exact["rests_on"]) == ("nothing", "honest")
    assert private["epsilon"] <= taken["epsilon"]
    assert taken["margin"] < 0.03
    assert "least epsilon that is good" in said["rule"]


@pytest.mark.slow
def test_nothing_useful_is_said_to_be_so(plan: Path) -> None:
    design = ("design", plan, "--n", "200", "--epsilon", "0.5")
    assert sottovoce(*design, "--json").json["most_private"] is None


@pytest.mark.slow
def test_records_are_said_to_be_told_of(plan: Path, tmp_path: Path) -> None:
    records = tmp_path / "own.csv"
    records.write_text("smokes,drinks\n" + "yes,never\nno,often\n" * 200, encoding="utf-8")
    out, plot = tmp_path / "new" / "designs.csv", tmp_path / "new" / "designs.svg"
    design = ("design", plan, "--epsilon", "2", "--records", records)
    said = sottovoce(*design, "--out", out, "--plot", plot)
    assert said.code == 0, said.err
    assert "in the records given" in out.read_text(encoding="utf-8")
    assert "in the records given" in plot.read_text(encoding="utf-8")


@pytest.mark.slow
def test_dropouts_leave_fewer_and_end_what_needs_all(plan: Path) -> None:
    arguments = ("design", plan, "--n", "1000", "--epsilon", "2", "--json")
    few, all_ = (
        {row["name"]: row for row in sottovoce(*arguments, *more).json["designs"]}
        for more in (("--dropout", "0.6"), ())
    )
    assert few["rr-joint"]["rmse"] == pytest.approx(all_["rr-joint"]["rmse"] / 0.4**0.5)
    assert all_["rr-joint"]["withstands_dropouts"]
    assert not few["rr-joint"]["withstands_dropouts"]


@pytest.mark.slow
def test_the_other_way_round(plan: Path, tmp_path: Path) -> None:
    by_n = sottovoce("design", plan, "--n", "10000", "--error", "0.02", "--json").json
    assert by_n["assumed"].startswith("the worst of these")
    names = {row["variant"]: row["epsilon"] for row in by_n["needed"]}
    epsilon = names["rr-independent"]
    back = sottovoce("design", plan, "--epsilon", epsilon, "--error", "0.02", "--json").json
    [one] = [row for row in back["needed"] if row["variant"] == "rr-independent"]
    assert 9900 < one["respondents"] <= 10000
    # As many parties as it takes, in the lines of a plan.
    needed = sottovoce("design", plan, "--epsilon", "2", "--error", "0.02", "--json").json["needed"]
    [block] = [row for row in needed if row["variant"] == "rrba"]
    assert f"block = {block['respondents']}" in block["plan"]


@pytest.mark.slow
def test_a_variant_of_ones_own_is_simulated_and_said_to_be(plan: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(OWN, encoding="utf-8")
    said = sottovoce(
        "design", plan, "--n", "500", "--epsilon", "2", "--variant", f"{own}:Doubled", "--json"
    )
    rows = {row["name"]: row for row in said.json["designs"]}
    assert 4 < rows["doubled"]["simulated_runs"] <= 40
    assert rows["doubled"]["monte_carlo_error"] > 0
    assert rows["rr-joint"]["simulated_runs"] == 0
    assert rows["doubled"]["rmse"] == pytest.approx(rows["rr-joint"]["rmse"], rel=0.7)


@pytest.mark.slow
def test_a_variant_whose_code_fails_is_named_with_the_reason(plan: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(OWN.replace("return super()", "raise KeyError(7)  # "), encoding="utf-8")
    said = sottovoce(
        "design", plan, "--n", "500", "--epsilon", "2", "--variant", f"{own}:Doubled", "--json"
    )
    why = {row["variant"]: row["why"] for row in said.json["not_applicable"]}
    assert why["doubled"] == "its code fails: KeyError: 7"
