"""Usefulness is stated beside privacy, wherever estimates are."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from protocol.estimators.usefulness import SCALE_SAYS, MarginOfError
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from protocol.variants import NumericMean
from scenarios.running.tabulating import tabulate
from scenarios.statement.usefulness.verdict import UsefulnessVerdict, margins_of, on_usefulness
from tests.pages import Page
from tests.scenarios.command import sottovoce

FEW = ("run", "quickstart", "--set", "residents=12", "--seed", 1)
SOME = ("run", "quickstart", "--set", "residents=1500", "--set", "parties=10", "--seed", 1)


def verdict_of(*of: MarginOfError, pairs: tuple[MarginOfError, ...] = ()) -> UsefulnessVerdict:
    (verdict,) = on_usefulness(of, pairs=pairs)
    return verdict


def test_the_word_is_that_of_the_least_useful_of_what_was_asked_for() -> None:
    good, fair = MarginOfError(("a",), 2, 0.02), MarginOfError(("b",), 3, 0.08)
    pair = MarginOfError(("a", "b"), 6, 0.09)
    verdict = verdict_of(good, fair, pairs=(pair,))
    assert (verdict.word, verdict.state) == ("fair", "note")
    assert verdict.says == (
        "Large differences between shares can be told: those of b may be off by 8.0 points."
    )
    assert verdict.reasons == (
        "Good: a (2.0 points).",
        "Fair: b (8.0 points).",
        "The 1 pair of attributes is fair; the least exact is a by b, off by up to 9.0 points.",
        SCALE_SAYS,
    )
    assert verdict.values["pairs"]["counted"] == {"fair": 1}


@pytest.mark.parametrize(
    ("margin", "word", "says"),
    [
        (
            math.nan,
            "unknown",
            "is not known: neither a formula nor the reports tell it of a.",
        ),
        (math.inf, "none", "no more than a guess without any answers: nothing is said of a."),
        (0.95, "none", "no more than a guess without any answers: those of a may be off by 95.0"),
        (0.0, "good", "Shares can be compared and ranked: those of a may be off by 0.00 points."),
    ],
)
def test_what_is_not_known_and_what_is_not_said(margin: float, word: str, says: str) -> None:
    verdict = verdict_of(MarginOfError(("a",), 2, margin))
    assert verdict.word == word
    assert says in verdict.says


def test_nothing_is_judged_where_nothing_is_estimated() -> None:
    assert on_usefulness(()) == ()


def test_means_are_judged_by_their_range() -> None:
    asked = Survey("hours", (Attribute(name="hours", categories=tuple(map(str, range(9)))),))
    held = Records(asked, np.arange(9, dtype=asked.dtype).reshape(-1, 1))
    variant = NumericMean(survey=asked, epsilon=2.0)
    words = []
    for n in (90, 700, 20_000):
        (margin,) = margins_of(tabulate(variant, held, n=n).estimate, "population")
        words.append(margin.word)
    assert words == ["poor", "fair", "good"]
    assert "the estimate of hours may be off by" in verdict_of(margin).says
    assert verdict_of(margin).says.endswith("% of its range.")


def test_a_run_states_it_once_before_privacy(tmp_path: Path) -> None:
    said = sottovoce(*SOME, "--out", tmp_path / "out", "--html", tmp_path / "page.html")
    text = " ".join(said.out.split())
    assert text.index("Usefulness: fair.") < text.index("Privacy of the design:")
    assert text.count(SCALE_SAYS) == 1
    assert "As predicted, good would take about " in text
    result = json.loads((tmp_path / "out" / "result.json").read_text())["usefulness"]
    assert result["verdict"] == "fair"
    assert [each["attributes"] for each in result["tables"]] == [
        ["district"],
        ["age"],
        ["smokes"],
        ["clinic"],
    ]
    assert sum(result["pairs"]["counted"].values()) == 6
    assert result["mending"]["respondents"] > 1500
    page = Page((tmp_path / "page.html").read_text())
    assert page.said.count(SCALE_SAYS) == 1
    assert "Usefulness: fair" in page.said
    transcript = tmp_path / "out" / "transcript.svt.zst"
    audit = sottovoce("audit", transcript, "--json").json["statement"]
    assert audit["usefulness"]["verdict"] == "fair"
    assert audit["usefulness"]["tables"] == result["tables"]
    pair = sottovoce("estimate", transcript, "--table", "age,clinic", "--json").json
    assert [each["attributes"] for each in pair["usefulness"]["tables"]] == [["age", "clinic"]]
    count = sottovoce("estimate", transcript, "--where", "smokes=yes")
    assert "Usefulness: " in count.out
    tested = sottovoce("estimate", transcript, "--independent", "age,clinic")
    assert "Usefulness" not in tested.out


def test_a_sound_record_of_useless_estimates_says_so(tmp_path: Path) -> None:
    assert sottovoce(*FEW, "--out", tmp_path / "out").code == 0
    said = sottovoce("audit", tmp_path / "out" / "transcript.svt.zst").out
    assert "Record: sound" in said
    assert any(f"Usefulness: {word}." in said for word in ("none", "poor", "unknown"))
    assert "Usefulness: good" not in said


def test_people_by_law_are_judged_as_a_population() -> None:
    words = ("tabulate", "quickstart", "--seed", 1)
    few = sottovoce(*words, "--n", 400, "--json").json["usefulness"]
    many = sottovoce(*words, "--n", 4_000_000, "--json").json["usefulness"]
    assert few["verdict"] == "poor"
    assert many["verdict"] == "good"
    assert many["mending"] is None
