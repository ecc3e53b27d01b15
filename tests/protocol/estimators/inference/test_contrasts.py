"""Differences, ratios, odds ratios and p-values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from protocol.estimators.inference.contrasts import difference, odds_ratio, p_value, ratio
from protocol.estimators.tabulated import ExactEstimate
from tests.enumeration import survey_of

SURVEY = survey_of(2, 2)
ESTIMATE = ExactEstimate(SURVEY, {("a", "b"): np.array([[40, 60], [20, 80]])})
TABLE = ESTIMATE.table("a", "b")
FIRST, SECOND = np.array([[1, 0], [0, 0]]), np.array([[0, 0], [1, 0]])


def test_a_difference_of_multinomial_shares() -> None:
    found = difference(TABLE, FIRST, SECOND, about="population")
    error = math.sqrt((0.2 + 0.1 - 0.1**2) / 200)
    assert found.value == pytest.approx(0.1)
    assert (found.high - found.low) / 2 == pytest.approx(1.959964 * error, rel=1e-6)
    assert found.p_value == pytest.approx(math.erfc(0.1 / error / math.sqrt(2)))


def test_a_ratio_ends_where_the_contrast_is_not_told_from_nothing() -> None:
    found = ratio(TABLE, FIRST, SECOND, about="population")
    covariance = TABLE.covariance("population")
    for end in (found.low, found.high):
        slope = np.array([1, 0, -end, 0])
        distance = abs(0.2 - end * 0.1) / math.sqrt(slope @ covariance @ slope)
        assert distance == pytest.approx(1.959964, rel=1e-6)
    assert found.low < found.value < found.high
    assert found.p_value == difference(TABLE, FIRST, SECOND, about="population").p_value


def test_a_ratio_to_what_may_be_nothing_has_no_upper_end() -> None:
    few = ExactEstimate(SURVEY, {("a", "b"): np.array([[10, 60], [1, 80]])}).table("a", "b")
    found = ratio(few, FIRST, SECOND, about="population")
    assert found.high == math.inf
    assert 0 < found.low < 10


def test_the_odds_ratio_of_multinomial_shares() -> None:
    found = odds_ratio(TABLE, (0, 1), (0, 1), about="population")
    error = math.sqrt(1 / 40 + 1 / 60 + 1 / 20 + 1 / 80)
    assert found.value == pytest.approx(40 * 80 / (60 * 20))
    assert math.log(found.high / found.low) == pytest.approx(2 * 1.959964 * error, rel=1e-6)
    turned = odds_ratio(TABLE, (1, 0), (0, 1), about="population")
    assert turned.value == pytest.approx(1 / found.value)
    assert turned.p_value == pytest.approx(found.p_value)
    empty = ExactEstimate(SURVEY, {("a", "b"): np.array([[0, 60], [20, 80]])}).table("a", "b")
    assert math.isnan(odds_ratio(empty, (0, 1), (0, 1)).low)


def test_exact_shares_have_exact_contrasts() -> None:
    assert difference(TABLE, FIRST, SECOND) == pytest.approx((0.1, 0.1, 0.1, 0.0))
    assert ratio(TABLE, FIRST, SECOND) == pytest.approx((2.0, 2.0, 2.0, 0.0))
    assert odds_ratio(TABLE, (0, 1), (0, 1)) == pytest.approx((8 / 3, 8 / 3, 8 / 3, 0.0))
    assert difference(TABLE, FIRST, FIRST) == (0.0, 0.0, 0.0, 1.0)


def test_a_test_rejects_what_the_interval_does_not_hold() -> None:
    share = ESTIMATE.query(("a", "b"), FIRST)
    for level in (0.5, 0.99):
        for end in share.interval(level, "population"):
            assert p_value(share, float(end), about="population") == pytest.approx(
                1 - level, rel=1e-3
            )
    assert p_value(share, 0.9, about="population") < 1e-10
    assert p_value(share, 0.2, about="respondents") == pytest.approx(1.0)
    assert p_value(share, 0.21, about="respondents") < 1e-10


def test_what_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="projected by 'clip': expected the raw table"):
        difference(TABLE.projected("clip"), FIRST, SECOND)
    with pytest.raises(ValueError, match=r"weights of shape \(2,\), expected \(2, 2\)"):
        ratio(TABLE, FIRST, np.ones(2))
    with pytest.raises(ValueError, match="table of 1 attributes: expected 2"):
        odds_ratio(ESTIMATE.table("a"), (0, 1), (0, 1))
