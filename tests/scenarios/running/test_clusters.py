"""RR-Clusters and RR-Ind-Joint on Adult, from the command line."""

from __future__ import annotations

import csv
import json
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protocol import Records
from protocol.estimators.dependence.dependence import dependences
from protocol.variants import RRClusters
from protocol.variants.clusters.clustering import cluster
from scenarios import adult
from tests.pages import Page
from tests.scenarios.command import sottovoce
from tests.tiers import thinned

RESPONDENTS = 2000


@pytest.fixture(scope="module")
def records() -> Records:
    return adult(None).take(RESPONDENTS)


def run(*settings: str, options: tuple[object, ...] = ()) -> Any:
    flags = [part for setting in settings for part in ("--set", setting)]
    common = ("--set", f"records={RESPONDENTS}", "--set", "parties=12")
    return sottovoce("run", "adult-clusters", *common, *flags, *options, "--json").json


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["sparse", "literal"])
def test_exact_counts_lead_to_the_clusters_of_the_truth(
    profile: str, records: Records, tmp_path: Path
) -> None:
    settings = ("tv=300", "td=0.1", "dependence=secure-sum", f"profile={profile}")
    result = run(*settings, options=("--out", tmp_path, "--transport", "memory"))
    tables = [records.counts(pair) for pair in combinations(records.survey.names, 2)]
    true = dependences(tables, records.survey, method="secure-sum", epsilon=math.inf)
    expected = cluster(true, records.survey, tv=300, td=0.1)
    assert result["clusters"] == [list(names) for names in expected]
    assert any(len(names) > 1 for names in expected)
    found = result["dependence"]
    assert found["attributes"] == list(records.survey.names)
    assert found["method"] == "secure-sum"
    assert found["epsilon"] is None
    assert np.array_equal(found["matrix"], true.matrix)
    assert result["privacy"]["record_epsilon"] is None
    assert result["variant"] == RRClusters.name
    transcript = tmp_path / "transcript.svt.zst"
    for command in ("verify", "audit"):
        assert sottovoce(command, transcript, "--json").code == 0
    audited = sottovoce("audit", transcript).out
    assert "exact counts of" in audited
    assert "Record: sound. " in audited


def test_counts_with_coins_lead_to_clusters_that_are_as_stable_as_they_are() -> None:
    """So few parties that coins leave little in doubt at a large epsilon."""
    result = run("noise=coins", "epsilon=50", "tv=50", "td=0.3")
    assert result["dependence"]["method"] == "secure-sum"
    assert result["dependence"]["epsilon"] is None
    assert result["dependence"]["standard_errors"] is None
    assert any({"relationship", "sex"} <= set(names) for names in result["clusters"])
    stable = result["stability"]
    assert stable["redraws"] == 200
    assert 0 < stable["same"] <= min(stable["clusters"]) <= 1


def test_what_learning_with_coins_rests_on_is_said() -> None:
    flags = ("--set", "noise=coins", "--set", "records=200", "--set", "parties=6")
    said = " ".join(sottovoce("run", "adult-clusters", *flags).out.split())
    assert "Stability: of 200 sums with other coins by law " in said
    assert (
        "Learning: Of a respondent the sum tells epsilon 0.9996 at delta 1e-06 if at least 4 of "
        "the 6 parties are honest and stay; no bound if all others conspire."
    ) in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dependence", "pilots"), thinned([("rr", 8), ("rr-debiased", 8), ("pair-rr", 28)], 2)
)
def test_negotiation_and_release_are_both_charged(dependence: str, pilots: int) -> None:
    result = run(f"dependence={dependence}", "tv=50", "td=0.05")
    sizes = [9, 16, 7, 15, 6, 5, 2, 2]
    domains = sizes if pilots == 8 else [a * b for a, b in combinations(sizes, 2)]
    learned = math.fsum(math.log1p(size * 0.7 / 0.3) for size in domains)
    released = math.fsum(math.log1p(size * 0.7 / 0.3) for size in sizes)
    assert result["dependence"]["method"] == dependence
    assert result["dependence"]["epsilon"] == pytest.approx(learned, abs=1e-9)
    assert result["privacy"]["record_epsilon"] == pytest.approx(learned + released, abs=1e-6)
    assert result["privacy"]["record_epsilon"] <= learned + released + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("dependence", thinned(["rr", "rr-debiased", "pair-rr"], 2))
def test_biased_dependences_have_no_standard_errors(dependence: str) -> None:
    found = run(f"dependence={dependence}")["dependence"]
    assert found["standard_errors"] is None
    assert found["biased"]


@pytest.mark.slow
def test_a_run_reports_intervals_tests_and_the_stability_of_its_clusters() -> None:
    options = ("--level", "0.9", "--about", "population")
    result = run("dependence=rr-debiased", "tv=100", options=options)
    found, stable = result["dependence"], result["stability"]
    low, high = (np.array(found["intervals"][end]) for end in ("low", "high"))
    assert (found["intervals"]["level"], found["intervals"]["about"]) == (0.9, "population")
    matrix = np.array(found["matrix"])
    assert ((low <= matrix) & (matrix <= high)).all()
    assert (low < high)[~np.eye(8, dtype=bool)].all()
    assert [row[place] for place, row in enumerate(found["p_values"])] == [None] * 8
    assert stable["redraws"] == 200
    assert len(stable["clusters"]) == len(result["clusters"])
    assert 0 <= stable["same"] <= min(stable["clusters"]) <= 1
    assert np.array(stable["together"]).shape == (8, 8)
    certain = run("dependence=secure-sum")
    assert (certain["stability"]["redraws"], certain["stability"]["same"]) == (0, 1)
    ends = certain["dependence"]["intervals"]
    assert np.allclose(ends["low"], certain["dependence"]["matrix"], atol=1e-12)
    assert np.allclose(ends["high"], certain["dependence"]["matrix"], atol=1e-12)


@pytest.mark.slow
def test_exact_dependences_have_standard_errors_of_0() -> None:
    found = run("dependence=secure-sum")["dependence"]
    assert found["standard_errors"] == np.zeros((8, 8)).tolist()
    assert "biased" not in found


@pytest.mark.slow
def test_who_vanished_between_two_rounds_is_in_the_estimate_by_the_first(tmp_path: Path) -> None:
    settings = ("--set", "dependence=rr", "--set", "drop=0.4", "--set", "parties=50")
    arguments = ("run", "adult-clusters", "--set", f"records={RESPONDENTS}", *settings)
    said = sottovoce(*arguments, "--out", tmp_path, "--transport", "local", "--details")
    result = json.loads((tmp_path / "result.json").read_text())
    gone = result["trouble"]["crashed"]
    assert 10 < gone < 30
    assert result["counted"] == 50
    assert result["estimate"]["respondents"] == RESPONDENTS
    rate = (50 - gone) / 50
    assert result["response"]["rate"] == 1
    assert result["rounds"] == [
        {"kind": "Join", "round": None, "awaited": 50, "counted": 50, "rate": 1.0},
        {"kind": "PilotReport", "round": None, "awaited": 50, "counted": 50, "rate": 1.0},
        {"kind": "Tags", "round": 1, "awaited": 50, "counted": 50, "rate": 1.0},
        {"kind": "Report", "round": None, "awaited": 50, "counted": 50 - gone, "rate": rate},
    ]
    words = " ".join(said.out.split())
    assert f"estimated from 50 of 50 parties, {RESPONDENTS:,} respondents" in words
    assert "PilotReport: 50 of 50 parties" in words
    assert f" Report: {50 - gone} of 50 parties" in words
    transcript, page = tmp_path / "transcript.svt.zst", tmp_path / "audit.html"
    audited = sottovoce("audit", transcript, "--html", page, "--details").out
    assert "50 of 50 parties were counted for the estimate" in audited
    complete = sottovoce("audit", transcript, "--json").json["completeness"]
    assert (complete["counted"], complete["parties"]) == (50, 50)
    shown = Page(page.read_text()).said
    assert shown.count("50 of 50 parties were counted for the estimate.") == 2


@pytest.mark.slow
def test_errors_are_measured_against_the_truth() -> None:
    result = run("dependence=rr-debiased")
    error = result["error"]
    assert 0 < error["pairs_tv"] < 1
    assert set(error["count_query"]) == {"0.1", "0.3", "0.5", "0.7", "0.9"}
    assert all(0 < value < 1 for value in error["count_query"].values())
    assert len(result["truth"]["pairs"]) == 28


@pytest.mark.slow
def test_exact_counts_make_margins_and_pairs_exact() -> None:
    result = run("dependence=secure-sum")
    assert result["error"]["pairs_tv"] == 0
    assert set(result["error"]["marginals_tv"].values()) == {0}
    assert set(result["error"]["count_query_absolute"].values()) == {0}
    for errors in result["estimate"]["standard_errors"].values():
        assert set(errors.values()) == {0}


@pytest.mark.slow
def test_adjustment_keeps_the_margins_and_has_no_standard_errors() -> None:
    plain, adjusted = run("project=clip"), run("adjust=true")
    assert plain["clusters"] == adjusted["clusters"]
    for names in plain["clusters"]:
        if len(names) == 1:
            (name,) = names
            before = plain["estimate"]["marginals"][name]
            after = adjusted["estimate"]["marginals"][name]
            assert after == pytest.approx(before, abs=1e-5)
    assert set(adjusted["estimate"]["standard_errors"].values()) == {None}


@pytest.mark.parametrize("adjust", thinned(["true", "false"], 1))
def test_synthetic_records_are_as_many_and_of_the_survey(adjust: str, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "synthetic.csv"
    run(f"adjust={adjust}", options=("--synthetic", file))
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    survey = adult(None).survey
    assert len(rows) == RESPONDENTS
    assert set(rows[0]) == set(survey.names)
    drawn = Records.from_rows(survey, rows)
    truth = adult(None).take(RESPONDENTS).distribution(["sex"])
    assert np.abs(drawn.distribution(["sex"]) - truth).max() < 0.1


def test_a_reproduction_has_nothing_to_draw_from(tmp_path: Path) -> None:
    said = sottovoce("run", "rr-figure-1", "--synthetic", tmp_path / "s.csv")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "estimates no joint distribution" in said.err


def test_ind_joint_estimates_any_pair() -> None:
    said = sottovoce("run", "adult-ind-joint", "--set", "parties=20", "--json")
    result = said.json
    assert result["variant"] == "rr-ind-joint"
    assert result["error"]["pairs_tv"] < 0.1
    expected = math.fsum(math.log1p(r * 0.7 / 0.3) for r in (9, 16, 7, 15, 6, 5, 2, 2))
    assert result["privacy"]["record_epsilon"] == pytest.approx(expected, abs=1e-9)
