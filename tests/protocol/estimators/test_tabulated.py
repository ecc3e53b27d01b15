"""Estimates from tables: exact counts have no error, and pairs the error of their own reports."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol.errors import SurveyError
from protocol.estimators.counts import Counts
from protocol.estimators.joint import Block, JointEstimate
from protocol.estimators.tabulated import ExactEstimate, PairwiseEstimate
from protocol.randomizers import KeepUniform
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from protocol.variants.sums.pair_rr import pair_randomizers, pairwise_estimate
from tests.protocol.sessions import answers
from tests.statistical import ALPHA, WRONG, mean_p_value

WIDE = Survey(
    "wide",
    tuple(
        Attribute(name=name, categories=tuple(map(str, range(size))))
        for name, size in (("a", 2), ("b", 3), ("c", 4))
    ),
)
RECORDS = answers(WIDE, 50)
PAIRS = list(combinations(WIDE.names, 2))


def tables(records: Records, *named: tuple[str, ...]) -> dict[tuple[str, ...], Any]:
    return {names: records.counts(names).astype(np.int64) for names in named}


def given_errors(errors: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Errors that there are."""
    assert errors is not None
    return errors


EXACT = ExactEstimate(WIDE, tables(RECORDS, *PAIRS))


@settings(deadline=None, max_examples=60)
@given(st.permutations(WIDE.names), st.integers(1, 2), st.permutations(WIDE.names))
def test_exact_counts_of_whatever_one_table_holds(
    order: list[str], length: int, stored: list[str]
) -> None:
    names = tuple(order[:length])
    assert np.array_equal(EXACT.exact(*names), RECORDS.counts(names))
    whole = ExactEstimate(WIDE, tables(RECORDS, tuple(stored)))
    for some in (names, tuple(order)):
        assert np.array_equal(whole.exact(*some), RECORDS.counts(some))
        assert np.allclose(whole.table(*some).values, RECORDS.distribution(some), atol=1e-15)


def test_exact_tables_have_no_error_but_that_of_the_population() -> None:
    table = EXACT.table("c", "a")
    shares = RECORDS.distribution(("c", "a"))
    assert table.names == ("c", "a")
    assert table.categories == (("0", "1", "2", "3"), ("0", "1"))
    assert table.n == EXACT.n == 50
    assert np.array_equal(given_errors(table.standard_errors), np.zeros((4, 2)))
    assert np.allclose(
        given_errors(table.population_errors), np.sqrt(shares * (1 - shares) / 50), atol=1e-15
    )
    assert repr(EXACT) == "<ExactEstimate: n=50, 3 tables>"
    projected = EXACT.table("c", "a", projection="simplex")
    assert np.allclose(projected.values, shares, atol=1e-12)


def test_exact_queries_and_pairs() -> None:
    weights = np.arange(6.0).reshape(3, 2)
    answer = EXACT.query(("b", "a"), weights)
    expected = float((RECORDS.distribution(("b", "a")) * weights).sum())
    assert answer.value == pytest.approx(expected, abs=1e-12)
    assert answer.standard_error == 0.0
    assert [table.names for table in EXACT.pairs()] == PAIRS
    some = ExactEstimate(WIDE, tables(RECORDS, ("c", "b"), ("a",)))
    assert [table.names for table in some.pairs()] == [("b", "c")]


def test_what_was_not_counted_together_is_refused() -> None:
    single = ExactEstimate(WIDE, tables(RECORDS, ("a",), ("b",), ("c",)))
    assert single.pairs() == []
    with pytest.raises(ValueError, match="no table has a, b together"):
        single.table("a", "b")
    with pytest.raises(ValueError, match="no table has a, b, c together"):
        EXACT.exact("a", "b", "c")
    with pytest.raises(ValueError, match="expected at least one attribute"):
        EXACT.exact()
    for names in (("z",), ("a", "a")):
        with pytest.raises(SurveyError):
            EXACT.exact(*names)


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
        ExactEstimate(WIDE, counts)


def pairwise(p: float = 0.6, records: Records = RECORDS) -> PairwiseEstimate:
    """As if the tables of reports were the true ones."""
    return pairwise_estimate(WIDE, pair_randomizers(WIDE, p), tables(records, *PAIRS))


def inverse(table: Any, p: float) -> Any:
    """Equation 2, with the matrix written out."""
    matrix = p * np.eye(table.size) + (1 - p) / table.size
    return (table.reshape(-1) / table.sum() @ np.linalg.inv(matrix)).reshape(table.shape)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_pair_is_estimated_from_its_own_reports(pair: tuple[str, str]) -> None:
    estimate = pairwise()
    expected = inverse(RECORDS.counts(pair), 0.6)
    assert np.allclose(estimate.table(*pair).values, expected, atol=1e-12)
    assert np.allclose(estimate.table(*pair[::-1]).values, expected.T, atol=1e-12)
    [own] = [e for e in estimate.estimates if e.survey.names == pair]
    alone, table = own.table(*pair), estimate.table(*pair)
    assert np.allclose(
        given_errors(table.standard_errors), given_errors(alone.standard_errors), atol=1e-15
    )


def test_a_marginal_is_the_mean_of_those_of_its_pairs() -> None:
    estimate = pairwise()
    found = [inverse(RECORDS.counts(pair), 0.6) for pair in (("a", "b"), ("a", "c"))]
    expected = (found[0].sum(axis=1) + found[1].sum(axis=1)) / 2
    table = estimate.table("a")
    assert np.allclose(table.values, expected, atol=1e-12)
    errors = [given_errors(e.table("a").standard_errors) for e in estimate.estimates[:2]]
    combined = np.sqrt(np.square(errors[0]) + np.square(errors[1])) / 2
    assert np.allclose(given_errors(table.standard_errors), combined, atol=1e-15)
    sampled = np.maximum(expected * (1 - expected), 0) / 50
    assert np.allclose(
        given_errors(table.population_errors), np.sqrt(combined**2 + sampled), atol=1e-12
    )
    assert repr(estimate) == "<PairwiseEstimate: n=50, 3 pairs>"


def test_queries_of_pairs_and_of_single_attributes() -> None:
    estimate = pairwise()
    weights = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0]])
    answer = estimate.query(("a", "b"), weights)
    expected = float((estimate.table("a", "b").values * weights).sum())
    assert answer.value == pytest.approx(expected, abs=1e-12)
    indicator = estimate.query(("a",), [0.0, 1.0])
    table = estimate.table("a")
    assert indicator.value == pytest.approx(float(table.values[1]), abs=1e-12)
    assert indicator.standard_error == pytest.approx(
        float(given_errors(table.standard_errors)[1]), abs=1e-12
    )


@pytest.mark.parametrize("names", [(), ("a", "b", "c")])
def test_only_pairs_were_randomized_together(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="pairs were randomized together"):
        pairwise().table(*names)
    for bad in (("a", "a"), ("z",)):
        with pytest.raises(SurveyError):
            pairwise().table(*bad)


def test_other_pairs_are_refused() -> None:
    estimates = pairwise().estimates
    for some in ((), estimates[:2], estimates[::-1], (*estimates, estimates[0])):
        with pytest.raises(ValueError, match="one estimate of each pair"):
            PairwiseEstimate(WIDE, some)


def test_reports_drawn_by_their_law_are_estimated_without_bias() -> None:
    """Eight respondents for each of the records, many times."""
    p, n, runs = 0.6, 400, 300
    rng = np.random.default_rng(11)
    pairs = {pair: RECORDS.counts(pair) for pair in PAIRS}
    truth = RECORDS.distribution(("a",))[1]
    found = []
    for _ in range(runs):
        estimates = []
        for pair, counts in pairs.items():
            reported = np.zeros(counts.size, np.int64)
            for cell, count in enumerate(counts.reshape(-1).tolist()):
                law = np.full(counts.size, (1 - p) / counts.size)
                law[cell] += p
                reported += rng.multinomial(count * n // 50, law)
            survey = Survey(WIDE.title, tuple(WIDE.attribute(name) for name in pair))
            block = Block(pair, KeepUniform.with_keep(counts.size, p=p))
            table = Counts.from_table(reported.reshape(counts.shape))
            estimates.append(JointEstimate(survey, (block,), table))
        table_ = PairwiseEstimate(WIDE, tuple(estimates)).table("a")
        found.append(float(table_.values[1]))
    assert mean_p_value(found, truth) > ALPHA
    assert mean_p_value(found, truth * WRONG) < ALPHA
