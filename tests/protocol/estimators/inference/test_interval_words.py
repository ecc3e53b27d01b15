"""Intervals in words: level, subject, and what a reader has to know."""

from __future__ import annotations

import math

import numpy as np
import pytest

from protocol import Interval, Projection
from protocol.estimators.inference.interval_words import bracketed, sentences
from protocol.estimators.inference.intervals import Intervals, Shown, interval_figures, level_text

KNOWN, EXACT = Shown(0.3, 0.2, 0.4), Shown(0.3, 0.3, 0.3)
OPEN = Shown(0.3, math.nan, math.nan)
OUTSIDE = Shown(-0.1, 0.0, 0.2)


@pytest.mark.parametrize(
    ("level", "text"),
    [
        (0.95, "95 %"),
        (0.9, "90 %"),
        (0.57, "57 %"),
        (0.999, "99.9 %"),
        (0.99999999, "99.999999 %"),
        (1e-9, "1e-07 %"),
    ],
)
def test_a_level_is_said_as_it_is(level: float, text: str) -> None:
    assert level_text(level) == text
    assert Intervals(level).name == f"{text} interval"
    assert Intervals(level).says.startswith(f"{text} intervals about the respondents: ")
    population = Intervals(level, "population")
    assert "if the respondents are a simple random sample" in population.says


def test_an_interval_is_written_once() -> None:
    figure = "{:.2f}".format
    assert bracketed(KNOWN, figure) == "[0.20, 0.40]"
    assert bracketed(KNOWN, figure, " %") == "[0.20, 0.40] %"
    assert bracketed(EXACT, figure, " %") == "exact"
    assert bracketed(OPEN, figure, " %") == "unknown"
    assert bracketed(Shown(0.3, 0.1, math.nan), figure) == "unknown"
    assert bracketed(Shown(0.3, math.nan, 0.4), figure) == "unknown"


def test_figures_stand_beside_their_intervals() -> None:
    ends = Interval(np.array([[0.0, 0.1]]), np.array([[0.2, 0.3]]))
    assert interval_figures([[0.1, 0.2]], ends) == [Shown(0.1, 0.0, 0.2), Shown(0.2, 0.1, 0.3)]
    assert interval_figures(1.0, Interval(np.array(0.5), np.array(2.0))) == [Shown(1.0, 0.5, 2.0)]


@pytest.mark.parametrize(
    ("figures", "projection", "said"),
    [
        ((KNOWN, KNOWN), "none", ("",)),
        ((KNOWN, EXACT), "none", ("",)),
        ((KNOWN, OPEN), "none", ("", "is unknown where")),
        ((EXACT, OPEN), "none", ("", "is unknown where")),
        ((OPEN, OPEN), "none", ("", "is unknown where")),
        ((KNOWN, OUTSIDE), "none", ("", "then lies outside its interval")),
        ((OPEN, OUTSIDE), "none", ("", "is unknown where", "then lies outside its interval")),
        ((Shown(1.2, 0.8, 1.0),), "none", ("", "then lies outside its interval")),
        ((KNOWN, OUTSIDE), "clip", ("", "are projected (clip), which biases them. An interval")),
        ((KNOWN,), "em", ("", "are of maximum likelihood (em), which biases them.")),
        ((), "none", ("",)),
    ],
)
def test_what_a_reader_has_to_know(
    figures: tuple[Shown, ...], projection: Projection, said: tuple[str, ...]
) -> None:
    asked = Intervals(0.9, "population")
    found = sentences(asked, figures, projection)
    assert found[0] == f"{asked.says}."
    assert len(found) == len(said)
    assert all(part in sentence for part, sentence in zip(said, found, strict=True))


def test_exact_figures_have_nothing_else_to_be_said_of() -> None:
    assert sentences(Intervals(), (EXACT, EXACT)) == [
        "These are exact: nothing in them was randomized."
    ]
