"""Usefulness is stated beside privacy, wherever estimates are."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from protocol import Attribute, MarginOfError, Records, Survey
from protocol.estimators.usefulness import MEANS_SAY, SCALE_SAYS, Subject, margins_of_error
from protocol.variants import NumericMean
from scenarios import tabulate
from scenarios.statement.usefulness.verdict import UsefulnessVerdict, on_usefulness
from tests.pages import Page
from tests.scenarios.command import sottovoce

FEW = ("run", "quickstart", "--set", "residents=12", "--seed", 1)
SOME = (
    *("run", "quickstart", "--set", "p=0.6", "--set", "residents=1500", "--set", "parties=10"),
    *("--seed", 1),
)


def verdict_of(*of: MarginOfError, pairs: tuple[MarginOfError, ...] = ()) -> UsefulnessVerdict:
    (verdict,) = on_usefulness(of, pairs=pairs)
    return verdict


def test_the_word_is_that_of_the_least_useful_of_what_was_asked_for() -> None:
    good, fair = MarginOfError(("a",), 2, 0.02), MarginOfError(("b",), 3, 0.08)
    pair = MarginOfError(("a", "b"), 6, 0.09)
    verdict = verdict_of(good, fair, pairs=(pair,))
    assert (verdict.word, verdict.state) == ("fair", "note")
    assert verdict.says == (
        "Shares of b may be off by up to 8.0 points; 1 of 2 estimates are better. "
        "Only large differences between estimates are reliable."
    )
    assert verdict.headline == (
        "Usefulness: fair. Shares of b may be off by up to 8.0 points; 1 of 2 estimates are better."
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
        (math.nan, "unknown", "How far shares of a may be off is not known."),
        (math.inf, "none", "The result says nothing about shares of a."),
        # No share is off by more than 100 points, however far a raw one is out of range.
        (1.287, "none", "The result says nothing about shares of a."),
        (0.95, "none", "Shares of a may be off by up to 95.0 points."),
        (0.002, "good", "Shares of a may be off by up to 0.20 points."),
        (0.0, "good", "All estimates are exact."),
    ],
)
def test_what_is_not_known_and_what_is_not_said(margin: float, word: str, says: str) -> None:
    verdict = verdict_of(MarginOfError(("a",), 2, margin))
    assert verdict.headline == f"Usefulness: {word}. {says}"
    assert verdict.says == f"{says} {verdict.means}"
    stated = verdict.values["tables"][0]["margin"]
    assert math.isnan(margin) or stated == (margin if math.isinf(margin) else min(1.0, margin))


@pytest.mark.parametrize(
    ("of", "says"),
    [
        ("mean", "The mean of a may be off by up to 20.0 % of its range."),
        ("count", "The count by a may be off by up to 20.0 % of all respondents."),
    ],
)
def test_a_number_is_called_what_it_is(of: Subject, says: str) -> None:
    number = MarginOfError(("a",), 2, 0.2, of)
    verdict = verdict_of(number, MarginOfError(("a",), 2, 0.01))
    assert verdict.off == f"{says[:-1]}; 1 of 2 estimates are better."
    assert verdict.reasons == (
        "Good: a (1.0 points).",
        f"Poor: {of} of a (20.0 %).",
        f"{SCALE_SAYS} {MEANS_SAY}",
    )
    assert verdict_of(number).reasons == (MEANS_SAY,)


def test_a_headline_is_short_whatever_attributes_are_called() -> None:
    long = MarginOfError(("income " * 40, "age " * 40), 4, 0.2)
    assert len(verdict_of(long, MarginOfError(("b",), 2, 0.01)).headline) <= 160


def test_its_brief_form_has_the_largest_margin_and_what_is_bad() -> None:
    good, fair = MarginOfError(("a",), 2, 0.02), MarginOfError(("b",), 3, 0.08)
    pair = MarginOfError(("a", "b"), 6, 0.3)
    first = (
        "In 95 of 100 surveys shares of b are off by at most 8.0 points; 1 of 2 estimates are "
        "better."
    )
    assert verdict_of(good, fair).brief == (first,)
    assert verdict_of(good, fair, pairs=(MarginOfError(("a", "b"), 6, 0.09),)).brief == (first,)
    warned = verdict_of(good, fair, pairs=(pair,)).brief
    assert warned is not None
    assert warned[1:] == (
        "The 1 pair of attributes is poor; the least exact is a by b, off by up to 30.0 points.",
    )
    assert verdict_of(pair).brief == (
        "In 95 of 100 surveys shares of a by b are off by at most 30.0 points. Only very large "
        "differences between estimates are reliable.",
    )


def test_nothing_is_judged_where_nothing_is_estimated() -> None:
    assert on_usefulness(()) == ()


def test_means_are_judged_by_their_range() -> None:
    asked = Survey("hours", (Attribute(name="hours", categories=tuple(map(str, range(9)))),))
    held = Records(asked, np.arange(9, dtype=asked.dtype).reshape(-1, 1))
    variant = NumericMean(survey=asked, epsilon=2.0)
    words = []
    for n in (90, 700, 20_000):
        (margin,) = margins_of_error(tabulate(variant, held, n=n).estimate, "population")
        words.append(margin.word)
    assert words == ["poor", "fair", "good"]
    assert verdict_of(margin).off.startswith("The mean of hours may be off by up to 0.")


def test_a_run_states_it_once_after_privacy(tmp_path: Path) -> None:
    files = ("--out", tmp_path / "out", "--html", tmp_path / "page.html")
    said = sottovoce(*SOME, *files, "--details")
    text = " ".join(said.out.split())
    assert text.index("Privacy of the design:") < text.index("Usefulness: fair.")
    assert text.count(SCALE_SAYS) == 1
    assert "For good estimates it would take one of these: about " in text
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
