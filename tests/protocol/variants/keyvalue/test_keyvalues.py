"""Keys with values as a survey: what is offered, what is refused, and who holds what."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from protocol import Attribute, Records, Survey, SurveyError, key_records, key_survey
from protocol.variants.keyvalue.records import HELD, MISSING, held_records, key_values

NAN = math.nan
LEVELS = ((-1.0, 0.1, 1.0), (0.3,))
SURVEY = key_survey("films", ("heat", "ran"), LEVELS)


def test_codes_stand_for_the_values_that_were_given() -> None:
    np.testing.assert_array_equal(key_values(SURVEY), [[NAN, -1, 0.1, 1], [NAN, 0.3, NAN, NAN]])
    assert SURVEY.attributes[0].missing == MISSING


def test_holdings_are_records_and_an_empty_cell_is_a_missing_key() -> None:
    records = key_records(SURVEY, [{"ran": 0.3}, {}, {"heat": 0.1, "ran": 0.3}])
    assert records.codes.tolist() == [[0, 1], [0, 0], [2, 1]]
    assert Records.from_csv(SURVEY, "heat,ran\n,0.3\n,\n0.1,0.3\n") == records
    held = held_records(records)
    assert held.survey.attributes[1].categories == (MISSING, HELD)
    assert held.codes.tolist() == [[0, 1], [0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("holding", "message"),
    [
        ({"alien": 0.3}, r"row 2.*unknown key 'alien'; the survey has 'heat', 'ran'"),
        ({"heat": 1.5}, r"'heat'.*1\.5 is outside \[-1, 1\]"),
        ({"heat": NAN}, r"nan is outside \[-1, 1\]"),
        ({"heat": 0.2}, r"0\.2 is not offered; expected one of '-1\.0', '0\.1', '1\.0'"),
    ],
)
def test_what_nobody_can_hold_is_refused(holding: Mapping[str, float], message: str) -> None:
    with pytest.raises(SurveyError, match=message):
        key_records(SURVEY, [{}, holding])


@pytest.mark.parametrize(
    ("keys", "levels", "message"),
    [
        (("a",), ((1.5,),), r"'1\.5': expected a number in \[-1, 1\]"),
        (("a",), ((NAN,),), r"'nan': expected a number"),
        (("a",), ((),), "fewer than 2 categories"),
        (("a",), ((0.1, 0.1),), "repeated"),
        (("a", "b"), ((0.1,),), "2 keys, but the values of 1"),
    ],
)
def test_a_survey_of_what_is_no_key_is_refused(keys: Any, levels: Any, message: str) -> None:
    with pytest.raises(SurveyError, match=message):
        key_survey("x", keys, levels)


@pytest.mark.parametrize(
    "attribute",
    [
        Attribute(name="a", categories=("no", "0.5"), missing="no"),
        Attribute(name="a", categories=(MISSING, "0.5")),
        Attribute(name="a", categories=("0.5", MISSING), missing=MISSING),
        Attribute(name="a", categories=(MISSING, "much"), missing=MISSING),
    ],
)
def test_other_attributes_are_no_keys(attribute: Attribute) -> None:
    with pytest.raises(SurveyError, match=r"'a'.*expected"):
        key_values(Survey("x", (attribute,)))
