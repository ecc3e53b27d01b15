"""Estimates from exact counts: they have no error but that of sampling."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol import ExactTables, LinearEstimate, Records, SurveyError
from tests.enumeration import survey_of
from tests.protocol.sessions import answers

WIDE = survey_of(2, 3, 4)
RECORDS = answers(WIDE, 50)
PAIRS = list(combinations(WIDE.names, 2))


def tables(records: Records, *named: tuple[str, ...]) -> dict[tuple[str, ...], Any]:
    return {names: records.counts(names).astype(np.int64) for names in named}


def given_errors(errors: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Errors that there are."""
    assert errors is not None
    return errors


EXACT = LinearEstimate(ExactTables(WIDE, tables(RECORDS, *PAIRS)))


@settings(deadline=None, max_examples=60)
@given(st.permutations(WIDE.names), st.integers(1, 2), st.permutations(WIDE.names))
def test_exact_counts_of_whatever_one_table_holds(
    order: list[str], length: int, stored: list[str]
) -> None:
    names = tuple(order[:length])
    assert np.array_equal(EXACT.source.exact(*names), RECORDS.counts(names))
    whole = LinearEstimate(ExactTables(WIDE, tables(RECORDS, tuple(stored))))
    for some in (names, tuple(order)):
        assert np.array_equal(whole.source.exact(*some), RECORDS.counts(some))
        assert np.allclose(whole.table(*some).values, RECORDS.distribution(some), atol=1e-15)


def test_exact_tables_have_no_error_but_that_of_the_population() -> None:
    table = EXACT.table("c", "a")
    shares = RECORDS.distribution(("c", "a"))
    assert table.names == ("c", "a")
    assert table.categories == (("c0", "c1", "c2", "c3"), ("a0", "a1"))
    assert table.n == EXACT.n == 50
    assert np.array_equal(given_errors(table.standard_errors), np.zeros((4, 2)))
    assert np.allclose(
        given_errors(table.population_errors), np.sqrt(shares * (1 - shares) / 50), atol=1e-15
    )
    assert repr(EXACT) == "<LinearEstimate from <ExactTables: n=50, 3 tables>>"
    projected = EXACT.table("c", "a", projection="simplex")
    assert np.allclose(projected.values, shares, atol=1e-12)


def test_exact_queries_and_pairs() -> None:
    weights = np.arange(6.0).reshape(3, 2)
    answer = EXACT.query(("b", "a"), weights)
    expected = float((RECORDS.distribution(("b", "a")) * weights).sum())
    assert answer.value == pytest.approx(expected, abs=1e-12)
    assert answer.standard_error == 0.0
    assert [table.names for table in EXACT.pairs()] == PAIRS
    some = LinearEstimate(ExactTables(WIDE, tables(RECORDS, ("c", "b"), ("a",))))
    assert [table.names for table in some.pairs()] == [("b", "c")]


def test_what_was_not_counted_together_is_refused() -> None:
    single = LinearEstimate(ExactTables(WIDE, tables(RECORDS, ("a",), ("b",), ("c",))))
    assert single.pairs() == []
    with pytest.raises(ValueError, match="no table has a, b together"):
        single.table("a", "b")
    with pytest.raises(ValueError, match="no table has a, b, c together"):
        EXACT.source.exact("a", "b", "c")
    with pytest.raises(ValueError, match="expected at least one attribute"):
        EXACT.source.exact()
    for names in (("z",), ("a", "a")):
        with pytest.raises(SurveyError):
            EXACT.source.exact(*names)


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ({}, "at least one table"),
        ({("a",): np.array([1, 2, 3])}, r"the table of \('a',\) has shape \(3,\)"),
        ({("a",): np.array([1, 2]), ("b",): np.array([1, 1, 2])}, "must have one total"),
        ({("a",): np.array([0, 0])}, "must be positive"),
        (
            {("a",): np.array([2, 1]), ("b", "a"): np.array([[1, 0], [0, 1], [0, 1]])},
            "the tables disagree on the counts of 'a'",
        ),
        (
            {
                ("a", "b"): np.array([[1, 0, 0], [0, 1, 0]]),
                ("b", "a"): np.array([[2, 0]] + 2 * [[0, 0]]),
            },
            "the tables disagree on the counts of '[ab]'",
        ),
    ],
)
def test_tables_that_do_not_fit_are_refused(counts: dict[Any, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        LinearEstimate(ExactTables(WIDE, counts))
