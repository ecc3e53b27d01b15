"""How many decimals figures have beside their intervals."""

from __future__ import annotations

import math

import pytest

from protocol.estimators.inference.words import Shown
from scenarios.wording.decimals import decimals


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
