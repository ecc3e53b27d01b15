"""Synthetic data of a given Cramer's V, and Adult with age: distributions, counts and records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import SurveyError
from protocol.estimators.dependence.dependence import cramers_v
from scenarios import DatasetError, adult, adult_with_age, correlated
from scenarios.data.adult import ADULT, ADULT_WITH_AGE, FILE
from scenarios.data.correlated import (
    correlated_counts,
    correlated_distribution,
    correlated_margin,
    correlated_survey,
)
from scenarios.data.raw_files import VARIABLE

SHARES = st.floats(0, 1)

# The distribution


@given(st.integers(2, 30), SHARES)
@settings(deadline=None, max_examples=50)
def test_cramers_v_is_what_was_asked_for(d: int, v: float) -> None:
    table = correlated_distribution(d, v=v)
    assert table.shape == (d, d)
    margin = correlated_margin(d)
    np.testing.assert_allclose(table.sum(axis=0), margin, atol=1e-15)
    np.testing.assert_allclose(table.sum(axis=1), margin, atol=1e-15)
    # Written out, as the independent check: chi squared over n (d - 1).
    expected = np.outer(margin, margin)
    chi_squared = np.sum((table - expected) ** 2 / expected)
    assert np.sqrt(chi_squared / (d - 1)) == pytest.approx(v, abs=1e-12)
    assert cramers_v(table) == pytest.approx(v, abs=1e-7)


def test_margin_is_one_over_a_from_two() -> None:
    np.testing.assert_allclose(correlated_margin(3), [6 / 13, 4 / 13, 3 / 13], atol=1e-15)
    assert correlated_survey(3).attribute("B").categories == ("2", "3", "4")
    assert correlated_survey(3).names == ("A", "B")


def test_ends_are_independence_and_identity() -> None:
    margin = correlated_margin(4)
    np.testing.assert_allclose(correlated_distribution(4, v=0), np.outer(margin, margin))
    np.testing.assert_allclose(correlated_distribution(4, v=1), np.diag(margin))


# Whole respondents


@given(st.integers(1, 5000), st.integers(2, 12), SHARES)
@settings(deadline=None, max_examples=80)
def test_counts_are_the_nearest_whole_ones(n: int, d: int, v: float) -> None:
    counts = correlated_counts(n, d=d, v=v)
    expected = n * correlated_distribution(d, v=v)
    assert counts.sum() == n
    assert np.abs(counts - expected).max() < 1
    # Largest remainder: whoever was rounded up had lost no less than whoever was not.
    lost = expected - np.floor(expected)
    up = counts > np.floor(expected)
    if up.any() and not up.all():
        assert lost[up].min() >= lost[~up].max() - 1e-8


def test_ties_go_to_the_first_cells() -> None:
    # d = 2: the margins are 3/5 and 2/5. At n = 5 and v = 0 the products are 9, 6, 6 and 4 fifths.
    assert correlated_counts(5, d=2, v=0).tolist() == [[2, 1], [1, 1]]
    # At n = 25 nothing is lost; of one more, 0.36, 0.24, 0.24 and 0.16, the first loses most.
    assert correlated_counts(25, d=2, v=0).tolist() == [[9, 6], [6, 4]]
    assert correlated_counts(26, d=2, v=0).tolist() == [[10, 6], [6, 4]]
    # 18/25, 12/25, 12/25, 8/25: the second respondent has a tie of two cells.
    assert correlated_counts(2, d=2, v=0).tolist() == [[1, 1], [0, 0]]


def test_records_have_these_counts() -> None:
    records = correlated(200, d=4, v=0.3)
    assert len(records) == 200
    assert records.survey == correlated_survey(4)
    np.testing.assert_array_equal(records.counts(["A", "B"]), correlated_counts(200, d=4, v=0.3))
    assert records == correlated(200, d=4, v=0.3)
    # One respondent below the diagonal less than above it.
    assert correlated(2, d=2, v=0).codes.tolist() == [[0, 0], [0, 1]]


@pytest.mark.parametrize(
    ("n", "d", "v", "message"),
    [
        (0, 3, 0.5, "n = 0"),
        (5, 1, 0.5, "d = 1"),
        (5, 3, -0.1, "v = -0.1"),
        (5, 3, 1.1, "v = 1.1"),
        (5, 3, float("nan"), "v = nan"),
    ],
)
def test_parameters_out_of_range(n: int, d: int, v: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        correlated(n, d=d, v=v)


def test_survey_of_one_category() -> None:
    with pytest.raises(SurveyError, match="fewer than 2"):
        correlated_survey(1)


# Adult with age

LINE = "{age}, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, \
Male, 2174, 0, 40, United-States, <=50K\n"


def folder_of(path: Path, *ages: object) -> Path:
    (path / FILE).write_text("".join(LINE.format(age=age) for age in ages))
    return path


def test_age_is_in_bins_of_twenty_years(tmp_path: Path) -> None:
    ages = (0, 17, 19, 20, 39, 40, 59, 60, 79, 80, 90, 99)
    records = adult_with_age(folder_of(tmp_path, *ages))
    assert records.survey == ADULT_WITH_AGE
    assert records.codes[:, 0].tolist() == [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4]
    age = ADULT_WITH_AGE.attribute("age")
    assert age.categories == ("0-19", "20-39", "40-59", "60-79", "80-99")
    assert age.ordinal
    assert ADULT_WITH_AGE.attributes[1:] == ADULT.attributes
    assert records.to_rows()[1]["education"] == "Bachelors"


@pytest.mark.parametrize("age", [100, -1, "", "old"])
def test_an_age_that_is_none(tmp_path: Path, age: object) -> None:
    with pytest.raises(DatasetError, match=r"row 2.*'age'"):
        adult_with_age(folder_of(tmp_path, 30, age))


def test_folder_is_found_as_for_adult(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(folder_of(tmp_path, 30)))
    assert len(adult_with_age(None)) == 1
    with pytest.raises(DatasetError, match=r"expected a file adult\.data or adult/adult.data"):
        adult_with_age(tmp_path / "elsewhere")


def test_all_records_with_age() -> None:
    records, without = adult_with_age(None), adult(None)
    assert len(records) == 32_561
    np.testing.assert_array_equal(records.codes[:, 1:], without.codes)
    assert records.counts(["age"]).tolist() == [1657, 16667, 11593, 2523, 121]
