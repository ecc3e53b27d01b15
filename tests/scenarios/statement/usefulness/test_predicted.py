"""Usefulness that is predicted before anybody is asked is that of the survey that is then held."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from protocol import Attribute, Records, Survey, Variant, key_survey
from protocol.estimators.usefulness import SCALE_SAYS, least_exact, margins_of_error
from protocol.variants import BUILT_IN, RRClusters
from scenarios import simulate
from scenarios.designing.predicting import NotEstimatedError
from scenarios.running.making import make_variant
from scenarios.statement.usefulness.predicted import predicted_sentence, predicted_verdict
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
        ("rr-independent", {"epsilon": 1.0}, 10),
        ("secure-sum", {"noise": "none"}, 60),
        ("secure-sum", {"noise": "coins", "epsilon": 1.0, "parties": 60}, 60),
        ("rrba", {"epsilon": 6.0, "k": 2, "block": 600}, 600),
    ],
)
def test_a_survey_is_as_useful_as_was_predicted(
    name: str, parameters: dict[str, object], n: int
) -> None:
    variant = make_variant(BUILT_IN[name], SURVEY, parameters, strict=True)
    codes = np.random.default_rng(2).integers(SURVEY.sizes, size=(n, 2)).astype(SURVEY.dtype)
    held = simulate(variant, Records(SURVEY, codes), seed=1, transport="local").estimate
    word = least_exact(margins_of_error(held, "respondents")).word
    assert predicted_verdict(variant, n).word == word


@pytest.mark.parametrize("name", ["privkv", "privkvm"])
@pytest.mark.parametrize("n", [400, 4_000])
def test_keys_are_as_useful_as_was_predicted(name: str, n: int) -> None:
    survey = key_survey("keys", ["a", "b"], [[-1, 0, 1]] * 2)
    variant = make_variant(BUILT_IN[name], survey, {"epsilon": 3.0}, strict=True)
    as_predicted(variant, n)


@pytest.mark.parametrize("mechanism", ["one-bit", "piecewise"])
@pytest.mark.parametrize("n", [60, 2_000])
def test_means_are_as_useful_as_was_predicted(mechanism: str, n: int) -> None:
    names = ("x", "y")
    survey = Survey("n", tuple(Attribute(name=x, categories=("0", "1", "2")) for x in names))
    parameters = {"epsilon": 2.0, "mechanism": mechanism}
    as_predicted(make_variant(BUILT_IN["numeric-mean"], survey, parameters, strict=True), n)


def as_predicted(variant: Variant, n: int) -> None:
    """All margins of error are about those predicted."""
    survey = variant.survey
    codes = np.random.default_rng(2).integers(survey.sizes, size=(n, len(survey.sizes)))
    records = Records(survey, codes.astype(survey.dtype))
    held = margins_of_error(
        simulate(variant, records, seed=1, transport="local", parties=20).estimate, "respondents"
    )
    foreseen = predicted_verdict(variant, n).of
    assert [(one.names, one.of) for one in foreseen] == [(one.names, one.of) for one in held]
    for before, after in zip(foreseen, held, strict=True):
        assert after.word == "none" or after.margin == pytest.approx(before.margin, rel=0.3)
        assert (after.word == "none") <= (before.word in ("none", "poor"))


@pytest.mark.parametrize(
    ("variant", "n", "why"),
    [
        (
            RRClusters(survey=SURVEY, p=0.5, tv=12, td=0.1),
            500,
            "no formula of the errors of rr-clusters is known for it",
        ),
        (
            make_variant(BUILT_IN["smp"], SURVEY, {"epsilon": 1.0}, strict=True),
            99,
            "each respondent answers one of 2 questions, and fewer than 50 respondents would "
            "answer each",
        ),
    ],
)
def test_without_a_prediction_the_reason_is_said(variant: Variant, n: int, why: str) -> None:
    assert predicted_sentence(variant, n) == f"unknown. There is no prediction: {why}."
    with pytest.raises(NotEstimatedError, match=why):
        predicted_verdict(variant, n)


def test_preflight_and_design_say_it_beforehand(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    facts = sottovoce("preflight", plan, "--parties", 500, "--json").json["facts"]
    (said,) = [fact["says"] for fact in facts if fact["about"] == "usefulness"]
    assert said.startswith("predicted for 500 respondents: fair. ")
    assert said.endswith(SCALE_SAYS)
    assert "For good estimates it would take one of these: about " in said
    assert "usefulness" not in sottovoce("preflight", plan).out
    # A trial's records are the respondents; parties that speak for several are one each at least.
    table = tmp_path / "table.csv"
    table.write_text("smokes,age\n" + "no,65+\n" * 300)
    plan.write_text(PLAN.replace("epsilon = 3.0", "epsilon = 3.0\nmax_records = 300"))
    assert "predicted for 300 respondents, those of the records alone: poor. " in one_line(
        "preflight", plan, "--records", table
    )
    assert "predicted for 40 respondents, one for each party: " in one_line(
        "preflight", plan, "--records", table, "--parties", 40
    )
    plan.write_text(PLAN)
    words = ("design", plan, "--n", 500, "--epsilon", "3,30")
    rows = sottovoce(*words, "--json").json["designs"]
    found = {(row["epsilon"], row["variant"]): row["usefulness"] for row in rows}
    assert found[3, "rr-independent"] == "fair"
    assert found[30, "rr-independent"] == "good"
    assert found[3, "rr-clusters"] == "poor"
    assert " ".join(sottovoce(*words).out.split()).count(SCALE_SAYS) == 1


def one_line(*words: object) -> str:
    return " ".join(sottovoce(*words).out.split())
