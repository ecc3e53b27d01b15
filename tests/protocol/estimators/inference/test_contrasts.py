"""Differences, ratios, odds ratios and p-values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from protocol import (
    Block,
    Counts,
    ExactTables,
    JointReports,
    KeepUniform,
    LinearEstimate,
    difference,
    odds_ratio,
    p_value,
    ratio,
)
from tests.enumeration import survey_of

SURVEY = survey_of(2, 2)
ESTIMATE = LinearEstimate(ExactTables(SURVEY, {("a", "b"): np.array([[40, 60], [20, 80]])}))
TABLE = ESTIMATE.table("a", "b")
FIRST, SECOND = np.array([[1, 0], [0, 0]]), np.array([[0, 0], [1, 0]])


def test_a_difference_of_multinomial_shares() -> None:
    found = difference(TABLE, FIRST, SECOND, about="population")
    # One report more in each of the two cells adds 1 / n**2.
    error = math.sqrt((0.2 + 0.1 - 0.1**2) / 200 + 2 / 200**2)
    assert found.value == pytest.approx(0.1)
    assert (found.high - found.low) / 2 == pytest.approx(1.959964 * error, rel=1e-6)
    assert found.p_value == pytest.approx(math.erfc(0.1 / error / math.sqrt(2)))


def test_a_ratio_ends_where_the_contrast_is_not_told_from_nothing() -> None:
    found = ratio(TABLE, FIRST, SECOND, about="population")
    covariance = TABLE.covariance("population") + np.eye(4) / 200**2
    for end in (found.low, found.high):
        slope = np.array([1, 0, -end, 0])
        distance = abs(0.2 - end * 0.1) / math.sqrt(slope @ covariance @ slope)
        assert distance == pytest.approx(1.959964, rel=1e-6)
    assert found.low < found.value < found.high
    assert found.p_value == difference(TABLE, FIRST, SECOND, about="population").p_value


def test_a_ratio_to_what_may_be_nothing_has_no_upper_end() -> None:
    few = LinearEstimate(ExactTables(SURVEY, {("a", "b"): np.array([[10, 60], [1, 80]])})).table(
        "a", "b"
    )
    found = ratio(few, FIRST, SECOND, about="population")
    assert found.high == math.inf
    assert 0 < found.low < 10


def test_the_odds_ratio_of_many_is_that_of_its_logarithm() -> None:
    counts = 10_000 * np.array([[40, 60], [20, 80]])
    table = LinearEstimate(ExactTables(SURVEY, {("a", "b"): counts})).table("a", "b")
    found = odds_ratio(table, (0, 1), (0, 1), about="population")
    error = math.sqrt((1 / 40 + 1 / 60 + 1 / 20 + 1 / 80) / 10_000)
    assert found.value == pytest.approx(40 * 80 / (60 * 20))
    assert math.log(found.high / found.low) == pytest.approx(2 * 1.959964 * error, rel=1e-3)
    turned = odds_ratio(table, (1, 0), (0, 1), about="population")
    assert turned.value == pytest.approx(1 / found.value)
    assert turned.low == pytest.approx(1 / found.high, rel=1e-6)
    assert turned.p_value == pytest.approx(found.p_value)


def test_the_odds_ratio_ends_where_the_products_are_told_apart() -> None:
    found = odds_ratio(TABLE, (0, 1), (0, 1), about="population")
    rng = np.random.default_rng(3)
    drawn = rng.multinomial(200, [0.2, 0.3, 0.1, 0.4], 400_000) / 200
    one, two = drawn[:, 0] * drawn[:, 3], drawn[:, 1] * drawn[:, 2]
    for end in (found.low, found.high):
        # The variance is that of the products of drawn shares, and of one report more in each cell.
        more = (0.2**2 + 0.4**2 + end**2 * (0.3**2 + 0.1**2)) / 200**2
        error = math.sqrt(np.var(one - end * two) + more)
        assert abs(0.08 - end * 0.03) / error == pytest.approx(1.96, rel=0.02)


def test_an_odds_ratio_with_a_negative_share_has_an_interval_and_no_value() -> None:
    blocks = tuple(Block((name,), KeepUniform.with_keep(2, p=0.5)) for name in ("a", "b"))
    reports = Counts.from_table(np.array([[100, 215], [215, 270]]))
    table = LinearEstimate(JointReports(SURVEY, blocks, reports)).table("a", "b")
    assert table.values[0, 0] < 0
    found = odds_ratio(table, (0, 1), (0, 1))
    assert math.isnan(found.value)
    assert found.low == 0
    assert found.high > 0
    assert 0 < found.p_value < 1
    # That nobody of a few counts in a cell does not say that nobody of a population would.
    empty = LinearEstimate(ExactTables(SURVEY, {("a", "b"): np.array([[0, 60], [20, 80]])})).table(
        "a", "b"
    )
    found = odds_ratio(empty, (0, 1), (0, 1), about="population")
    assert found.low == 0
    assert 0.05 < found.high < 1


def test_an_odds_ratio_of_what_may_be_any_share_is_unknown() -> None:
    blocks = tuple(Block((name,), KeepUniform.with_keep(2, p=0.1)) for name in ("a", "b"))
    reports = Counts.from_table(np.array([[27, 24], [23, 26]]))
    table = LinearEstimate(JointReports(SURVEY, blocks, reports)).table("a", "b")
    low, high = table.interval()
    assert ((low == 0) & (high == 1)).any()
    found = odds_ratio(table, (0, 1), (0, 1))
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_two_cells_that_nobody_is_counted_in_may_differ_in_a_population() -> None:
    none = LinearEstimate(ExactTables(SURVEY, {("a", "b"): np.array([[0, 30], [0, 10]])})).table(
        "a", "b"
    )
    found = difference(none, FIRST, SECOND, about="population")
    assert found.high == -found.low == pytest.approx(1.959964 * math.sqrt(2) / 40)
    assert difference(none, FIRST, SECOND)[:3] == (0, 0, 0)


def test_differences_are_cut_to_those_that_there_are() -> None:
    blocks = tuple(Block((name,), KeepUniform.with_keep(2, p=0.1)) for name in ("a", "b"))
    reports = Counts.from_table(np.array([[4, 0], [0, 0]]))
    found = difference(
        LinearEstimate(JointReports(SURVEY, blocks, reports)).table("a", "b"), FIRST, SECOND
    )
    assert found.value > 1
    assert (found.low, found.high) == (-1, 1)


def test_exact_shares_have_exact_contrasts() -> None:
    assert difference(TABLE, FIRST, SECOND) == pytest.approx((0.1, 0.1, 0.1, 0.0))
    assert ratio(TABLE, FIRST, SECOND) == pytest.approx((2.0, 2.0, 2.0, 0.0))
    assert odds_ratio(TABLE, (0, 1), (0, 1)) == pytest.approx((8 / 3, 8 / 3, 8 / 3, 0.0))
    assert difference(TABLE, FIRST, FIRST) == (0.0, 0.0, 0.0, 1.0)


@pytest.mark.slow
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
