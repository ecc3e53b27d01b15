"""Faults planted in every variant: the contract is met, and an active attack finds each."""

from __future__ import annotations

import pytest

from protocol.testing import check_variant
from protocol.variants import BUILT_IN
from tests.protocol.attack.planted.plants import EARLIER, ORACLES, Plant, every

FAST = ("unworried", "sparing", "eager")
"""Those that are quickly found."""


def plants() -> list[object]:
    """All plants; only some of them every time."""
    return [
        pytest.param(plant, id=name, marks=() if name in FAST else pytest.mark.slow)
        for name, plant in every()
    ]


def test_something_is_planted_in_every_variant() -> None:
    assert sorted(plant.of for plant in ORACLES.values()) == sorted(BUILT_IN)
    assert {plant.of for plant in EARLIER.values()} < set(BUILT_IN)


@pytest.mark.parametrize("plant", plants())
def test_no_honest_run_shows_it(plant: Plant) -> None:
    variant, records = plant.example(respondents=6)
    with plant.during():
        check_variant(variant, records, executors={}, rare=plant.rare)
