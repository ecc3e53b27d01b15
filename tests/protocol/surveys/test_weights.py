"""Design weights: strata, and the parties in them."""

from __future__ import annotations

import math

import pytest

from protocol import SurveyError
from protocol.surveys.weights import MAX_STRATA, check_strata, check_weights, find_stratum

WEIGHTS = {"north": 2.5, "north-east": 0.5, "south": 0.8}


def test_the_name_of_a_party_begins_with_its_stratum() -> None:
    assert find_stratum("north-12", WEIGHTS) == "north"
    assert find_stratum("north-east-12", WEIGHTS) == "north-east"
    assert find_stratum("south-", WEIGHTS) == "south"


@pytest.mark.parametrize("name", ["party-1", "north", "northern-1", "", "North-1"])
def test_another_party_is_in_no_stratum(name: str) -> None:
    with pytest.raises(SurveyError, match=r"is in no stratum; .* such as north-1"):
        find_stratum(name, WEIGHTS)


@pytest.mark.parametrize("weight", [0.0, -0.5, math.nan, math.inf, -math.inf, 1e10, 1e-10])
def test_a_weight_is_a_positive_number(weight: float) -> None:
    with pytest.raises(ValueError, match=rf"south = {weight}: expected a number above 0"):
        check_weights({**WEIGHTS, "south": weight})


def test_there_are_some_strata_with_names() -> None:
    check_weights({str(place): 1.0 for place in range(MAX_STRATA)})
    for weights in ({}, {str(place): 1.0 for place in range(MAX_STRATA + 1)}):
        with pytest.raises(ValueError, match="strata, expected 1 to 256"):
            check_weights(weights)
    with pytest.raises(ValueError, match="a stratum without a name"):
        check_weights({" ": 1.0})


def test_a_respondent_of_another_stratum_is_named() -> None:
    check_strata(["south", "north"], WEIGHTS)
    with pytest.raises(SurveyError, match=r"^row 2: unknown stratum 'west'; weights has 'north',"):
        check_strata(["south", "west"], WEIGHTS)
