"""Usefulness that is predicted before anybody is asked is that of the survey that is then held."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from protocol.estimators.usefulness import SCALE_SAYS, least_exact
from protocol.surveys.records import Records
from protocol.variants import BUILT_IN, RRClusters
from scenarios import simulate
from scenarios.running.making import make_variant
from scenarios.statement.usefulness.predicted import predicted_sentence
from scenarios.statement.usefulness.verdict import margins_of
from tests.enumeration import survey_of
from tests.scenarios.command import sottovoce

SURVEY = survey_of(2, 3)
PLAN = """\
title = "Staff"
variant = "rr-independent"
epsilon = 3.0

[[attributes]]
name = "smokes"
categories = ["no", "yes"]

[[attributes]]
name = "age"
categories = ["18-29", "30-44", "45-64", "65+"]
"""


@pytest.mark.parametrize(
    ("name", "parameters", "n"),
    [
        ("rr-independent", {"epsilon": 2.0}, 60),
        ("rr-independent", {"epsilon": 6.0}, 1_200),
        ("rr-joint", {"epsilon": 9.0}, 1_200),
        ("secure-sum", {"noise": "none"}, 60),
    ],
)
def test_a_survey_is_as_useful_as_was_predicted(
    name: str, parameters: dict[str, object], n: int
) -> None:
    variant = make_variant(BUILT_IN[name], SURVEY, parameters, strict=True)
    codes = np.random.default_rng(2).integers(SURVEY.sizes, size=(n, 2)).astype(SURVEY.dtype)
    held = simulate(variant, Records(SURVEY, codes), seed=1, transport="local").estimate
    word = least_exact(margins_of(held, "respondents")).word
    assert predicted_sentence(variant, n).startswith(f"predicted of {n:,} respondents: {word}. ")


def test_nothing_is_predicted_of_few_or_without_a_formula() -> None:
    variant = make_variant(BUILT_IN["rr-independent"], SURVEY, {"epsilon": 2.0}, strict=True)
    assert predicted_sentence(variant, 49) == ""
    clusters = RRClusters(survey=SURVEY, p=0.5, tv=12, td=0.1)
    assert predicted_sentence(clusters, 500) == ""


def test_preflight_and_design_say_it_beforehand(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    facts = sottovoce("preflight", plan, "--parties", 500, "--json").json["facts"]
    (said,) = [fact["says"] for fact in facts if fact["about"] == "usefulness"]
    assert said.startswith("predicted of 500 respondents: fair. ")
    assert said.endswith(SCALE_SAYS)
    assert "As predicted, good would take about " in said
    assert "usefulness" not in sottovoce("preflight", plan).out
    words = ("design", plan, "--n", 500, "--epsilon", "3,30")
    rows = sottovoce(*words, "--json").json["designs"]
    found = {(row["epsilon"], row["variant"]): row["usefulness"] for row in rows}
    assert found[3, "rr-independent"] == "fair"
    assert found[30, "rr-independent"] == "good"
    assert found[3, "rr-clusters"] is None
    assert " ".join(sottovoce(*words).out.split()).count(SCALE_SAYS) == 1
