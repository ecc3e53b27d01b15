"""How many decimals figures have beside their intervals, and what legends say of these."""

from __future__ import annotations

import math

import pytest

from protocol.estimators.inference.intervals import Intervals, Shown
from scenarios.wording.decimals import decimals, legend_text


@pytest.mark.parametrize(
    ("widths", "digits"),
    [
        ((0.5, 0.2), 4),
        ((0.5, 0.01), 4),
        ((0.5, 0.0012), 4),
        ((0.0009,), 5),
        ((0.00005,), 6),
        ((0.0, math.nan, math.inf), 4),
        ((), 4),
        ((1e-30,), 12),
    ],
)
def test_the_narrowest_interval_shows_two_digits_of_its_width(
    widths: tuple[float, ...], digits: int
) -> None:
    assert decimals([Shown(0.0, 0.0, width) for width in widths]) == digits


def test_fewer_decimals_where_they_are_asked_for() -> None:
    assert decimals([Shown(0.0, 0.0, 0.04)], least=1) == 3
    assert decimals([Shown(0.0, 0.0, 0.04)], least=1, digits=1) == 2
    assert decimals([Shown(0.0, 0.0, 4.0)], least=1) == 1


@pytest.mark.parametrize("level", [0.95, 0.9, 0.57, 0.999, 0.99999999, 1e-9])
def test_a_legend_says_the_level_and_what_intervals_are_about(level: float) -> None:
    name = Intervals(level).name
    assert legend_text(Intervals(level)) == f"{name} about the respondents"
    assert legend_text(Intervals(level, "population")) == f"{name} about the population"
