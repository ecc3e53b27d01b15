"""RRBA and secure sums from the command line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from protocol.variants import RRBA
from scenarios import Context, Finished, Scenario, adult
from scenarios.rrba import convergence
from tests.scenarios.command import sottovoce
from tests.tiers import thinned


def run(name: str, *settings: str, options: tuple[object, ...] = ()) -> Any:
    flags = [part for setting in settings for part in ("--set", setting)]
    return sottovoce("run", name, *flags, *options, "--json").json


@pytest.mark.slow
def test_the_survey_in_blocks_is_verified_and_audited(tmp_path: Path) -> None:
    settings = ("n=800", "block=100", "parties=80", "lambda=0.4")
    result = run("rrba-survey", *settings, options=("--out", tmp_path))
    assert result["variant"] == "rrba"
    assert result["parameters"]["lambda"] == 0.4
    assert result["blocks"] == 1
    assert len(result["views"]) == 5
    assert all(len(view) == 3 for view in result["views"])
    assert set(result["error"]["groups"]) == {"total_variation", "l2", "jensen_shannon"}
    worst = math.log1p(0.5 * 9 / (0.5 * 0.4))
    assert 0 < result["privacy"]["record_epsilon"] <= worst
    assert result["privacy"]["claims"][0]["epsilon"] == pytest.approx(math.log(2))
    transcript = tmp_path / "transcript.svt.zst"
    assert sottovoce("verify", transcript).code == 0
    assert sottovoce("audit", transcript).code == 0


@pytest.mark.slow
def test_tables_are_made_to_agree_on_request() -> None:
    settings = ("n=800", "block=20", "parties=40")
    raw, agreed = (run("rrba-survey", *settings, f"project={p}") for p in ("none", "consistent"))
    assert agreed["transcript"]["digest"] == raw["transcript"]["digest"]
    assert agreed["disagreement"]["before"] > 0.05
    assert agreed["disagreement"]["after"] < 1e-12
    assert "disagreement" not in raw
    assert len(agreed["estimate"]["pairs"]) == 15
    off: list[float] = []
    least: list[float] = []
    for result in (raw, agreed):
        worst = lowest = 0.0
        for pair in result["estimate"]["pairs"]:
            table = np.array(pair["table"])
            lowest = min(lowest, table.min())
            for axis, name in enumerate(pair["attributes"]):
                shares = list(result["estimate"]["marginals"][name].values())
                worst = max(worst, np.abs(table.sum(axis=1 - axis) - shares).max())
        off.append(worst)
        least.append(lowest)
    assert off[0] > 0.02
    assert off[1] < 1e-12
    assert least[0] < 0 == least[1]
    assert agreed["error"]["groups"]["l2"] < raw["error"]["groups"]["l2"]
    errors = agreed["estimate"]["standard_errors"].values()
    assert {error for of_one in errors for error in of_one.values()} == {None}
    arguments = [part for s in (*settings, "project=consistent") for part in ("--set", s)]
    shown = " ".join(sottovoce("run", "rrba-survey", *arguments).out.split())
    assert f"differ by up to {agreed['disagreement']['before']:.3g}; the tables reported" in shown


@pytest.mark.slow
def test_every_transport_gives_one_digest() -> None:
    settings = ("n=60", "block=20", "lambda=0.5")
    digests = {
        run("rrba-survey", *settings, options=("--transport", transport))["transcript"]["digest"]
        for transport in ("local", "memory", "tcp", "tls")
    }
    assert len(digests) == 1


@pytest.mark.slow
def test_two_hundred_clients_over_tls() -> None:
    result = run("rrba-alarm", "n=200", "block=50", options=("--transport", "tls"))
    assert result["counted"] == 200
    assert len(result["views"]) == 37


@pytest.mark.slow
def test_who_vanishes_is_left_out() -> None:
    result = run("rrba-child", "n=100", "block=25", "drop=0.2")
    assert 0 < result["estimate"]["respondents"] < 100
    assert result["trouble"]


@pytest.mark.slow
def test_the_convergence_is_read_from_the_record() -> None:
    scenario = _scenario("rrba-survey")
    parameters = scenario.configure({"n": 600, "block": 50, "lambda": 0.3})
    finished = scenario.run(parameters, Context())
    assert isinstance(finished, Finished)
    variant = finished.outcome.variant
    assert isinstance(variant, RRBA)
    trace, errors = convergence(variant, finished.outcome)
    assert trace.shape == (12, variant.plan.layout.cells)
    result: Any = finished.outcome.result
    assert np.allclose(trace[-1], result.shares, atol=1e-12)
    assert errors.shape == trace.shape
    assert errors[-1].mean() < errors[2].mean()  # They shrink as blocks arrive.


def _scenario(name: str) -> Scenario[Any]:
    from scenarios import find_scenario

    return find_scenario(name)


@pytest.mark.parametrize("counted", thinned(["attributes", "pairs"], 1))
def test_exact_counts_of_adult(counted: str) -> None:
    result = run("adult-counts", f"counted={counted}", "noise=none", "parties=12", "records=300")
    truth = adult(None).take(300).distribution(["sex"])
    assert list(result["estimate"]["marginals"]["sex"].values()) == pytest.approx(truth.tolist())
    assert result["privacy"]["record_epsilon"] is None


@pytest.mark.parametrize("counted", thinned(["pairs", "attributes"], 1))
def test_counts_of_adult_have_coins_unless_none_are_asked_for(counted: str) -> None:
    given = ("adult-counts", f"counted={counted}", "parties=12", "records=300")
    several = [run(*given, f"epsilon={epsilon}") for epsilon in (1, 4)]
    truth = adult(None).take(300).distribution(["sex"])
    off = [abs(result["estimate"]["marginals"]["sex"]["Male"] - truth[1]) for result in several]
    assert min(off) > 0
    errors = [result["estimate"]["standard_errors"]["sex"]["Male"] for result in several]
    assert 2 < errors[0] / errors[1] < 4


@pytest.mark.parametrize("counted", thinned(["attributes", "pairs"], 1))
def test_what_coins_of_adult_rest_on_is_said(counted: str) -> None:
    given = ("run", "adult-counts", "--set", f"counted={counted}", "--set", "records=60")
    given = (*given, "--set", "parties=12")
    said = " ".join(sottovoce(*given, "--set", "epsilon=2").out.split())
    told = float(said.split("the sum tells epsilon ")[1].split(" ")[0])
    assert 1.9 < told <= 2
    assert "if at least 7 of the 12 parties are honest and stay; no bound" in said
    exact = " ".join(sottovoce(*given, "--set", "noise=none").out.split())
    assert "No epsilon bounds what exact sums tell of a respondent." in exact
    assert "are honest and stay" not in exact


@pytest.mark.slow
def test_parties_that_vanish_leave_the_exact_total_of_the_others() -> None:
    result = run("adult-counts", "noise=none", "parties=40", "records=400", "drop=0.1")
    assert result["trouble"]
    assert result["estimate"]["respondents"] < 400
    said = sottovoce(
        "run",
        "adult-counts",
        "--set",
        "profile=literal",
        "--set",
        "parties=40",
        "--set",
        "drop=0.1",
    )
    assert said.code == 1
    assert "missing: party-" in said.err


def test_the_errors_of_one_answer_are_unknown(tmp_path: Path) -> None:
    settings = ("--set", "n=1", "--set", "groups=view", "--set", "block=1")
    arguments = ("run", "rrba-survey", *settings, "--out", tmp_path, "--transport", "local")
    said = sottovoce(*arguments)
    assert said.code == 0, said.err
    result = json.loads((tmp_path / "result.json").read_text())
    errors = [e for of in result["estimate"]["standard_errors"].values() for e in of.values()]
    assert set(errors) == {None}
    # No share contradicts a single answer.
    assert said.out.count(" [0.0000, 1.0000] │") == len(errors)


@pytest.mark.parametrize("settings", [(), ("project=simplex",), ("k=1", "groups=view", "n=2")])
def test_what_nobody_was_asked_is_unknown(settings: tuple[str, ...], tmp_path: Path) -> None:
    settings = ("n=1", "parties=1", *settings)
    result = run("rrba-survey", *settings, options=("--out", tmp_path))
    estimate, error = result["estimate"], result["error"]["marginals_tv"]
    unknown = {name for name, shares in estimate["marginals"].items() if None in shares.values()}
    asked = {name for group in estimate["pairs"] for name in group["attributes"]}
    if "k=1" not in settings:
        assert unknown == estimate["marginals"].keys() - asked
        assert len(asked) == 2
    for name in unknown:
        assert set(estimate["marginals"][name].values()) == {None}
        assert set(estimate["standard_errors"][name].values()) == {None}
    assert {name for name, distance in error.items() if distance is None} == unknown
    flags = [part for setting in settings for part in ("--set", setting)]
    assert sottovoce("run", "rrba-survey", *flags).code == 0
    page = tmp_path / "page.html"
    audited = sottovoce("audit", tmp_path / "transcript.svt.zst", "--html", page, "--json").json
    assert audited["verdict"] == "sound"
    assert audited["result"]["marginals"].keys() == estimate["marginals"].keys()
