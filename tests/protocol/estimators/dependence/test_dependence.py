"""Measures of dependence and their deviations: closed forms, expected reports, repeated runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from scipy.stats.contingency import association

from protocol import (
    Attribute,
    Block,
    Counts,
    JointReports,
    LinearEstimate,
    Survey,
    debiased_dependences,
    split_codes,
)
from protocol.estimators.dependence.dependence import (
    MEASURES,
    Dependences,
    Measure,
    covariance,
    cramers_v,
    dependences,
    measure_for,
    pairwise_dependences,
    pearson,
    raw_dependences,
    report_epsilon,
)
from tests.enumeration import ROWS, Floats, dense_law, keep, matrix, summing, survey_of
from tests.statistical import ALPHA, WRONG, mean_p_value
from tests.tiers import slow

# Measures of a table

COUNTS = np.array([[30, 5, 0, 12], [4, 22, 9, 1], [7, 3, 31, 8]])
small_tables = st.lists(
    st.lists(st.integers(0, 50), min_size=4, max_size=4), min_size=2, max_size=5
).filter(lambda rows: any(map(any, rows)))


def test_cramers_v_by_hand() -> None:
    # Expected counts are 12, 8, 18, 12; chi squared is 64 (1/12 + 1/8 + 1/18 + 1/12) = 200/9.
    assert cramers_v([[20, 0], [10, 20]]) == pytest.approx(math.sqrt(200 / 9 / 50), rel=1e-12)
    assert cramers_v([[20, 0, 0], [0, 10, 0], [0, 0, 5]]) == 1
    assert cramers_v(np.outer([1, 2, 3], [4, 5])) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("v", [0.0, 0.25, 0.8, 1.0])
def test_cramers_v_of_tables_with_a_known_one(v: float) -> None:
    margin = np.array([0.1, 0.2, 0.3, 0.4])
    table = v * np.diag(margin) + (1 - v) * np.outer(margin, margin)
    assert cramers_v(table) == pytest.approx(v, abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(small_tables)
def test_cramers_v_agrees_with_scipy_on_what_is_not_empty(rows: list[list[int]]) -> None:
    table = np.array(rows)
    filled = table[table.any(axis=1)][:, table.any(axis=0)]
    value = cramers_v(table)
    assert 0 <= value <= 1
    expected = association(filled, method="cramer") if min(filled.shape) > 1 else 0.0
    assert value == pytest.approx(expected, abs=1e-12)
    assert cramers_v(table.T) == pytest.approx(value, abs=1e-12)
    assert cramers_v(table[::-1] / 7) == pytest.approx(value, abs=1e-12)


def test_rounding_of_an_empty_row_does_not_count_as_a_row() -> None:
    # With three rows instead of two the divisor would be 2.
    table = np.array([[0.4, 0.1, 0.0], [0.0, 0.2, 0.3], [1e-17, 0.0, 0.0]])
    assert cramers_v(table) == pytest.approx(cramers_v(table[:2]), rel=1e-12)


def test_correlation_and_covariance_are_those_of_the_codes() -> None:
    codes = np.repeat(np.argwhere(COUNTS >= 0), COUNTS.ravel(), axis=0).astype(float)
    first, second = codes.T
    assert pearson(COUNTS) == pytest.approx(abs(np.corrcoef(first, second)[0, 1]), rel=1e-12)
    expected = abs(np.cov(first, second, bias=True)[0, 1])
    assert covariance(COUNTS) == pytest.approx(expected, rel=1e-12)
    assert pearson(COUNTS[::-1]) == pytest.approx(pearson(COUNTS), rel=1e-12)
    assert covariance(COUNTS / 3) == pytest.approx(expected, rel=1e-12)


def test_a_constant_attribute_depends_on_nothing() -> None:
    for table in ([[0, 5, 0], [0, 7, 0]], [[3, 1, 2], [0, 0, 0]], [[4, 0], [0, 0]]):
        for measure in MEASURES.values():
            assert measure(table) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    "table", [[1, 2], [[1, -1], [2, 3]], [[0, 0], [0, 0]], [[1, math.nan], [1, 1]], [[[1]]]]
)
def test_what_is_no_table_of_counts_is_refused(measure: str, table: ArrayLike) -> None:
    with pytest.raises(ValueError, match=r"expected two axes|no entry is positive|not finite"):
        MEASURES[measure](table)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("order", [1, -1])
def test_slopes_are_the_derivatives_of_the_measures(measure: str, order: int) -> None:
    shares = (COUNTS[::order] / COUNTS.sum())[:, [0, 2, 1, 3]]
    slope = MEASURES[measure].measured(shares)[1]
    assert slope is not None
    assert float(np.sum(shares * slope)) == pytest.approx(0, abs=1e-12)
    for cell in np.argwhere(shares > 0):
        step = np.zeros_like(shares)
        step[tuple(cell)] = 1e-6
        # Counts of any total: the measure sees them rescaled, which is what shifts the slope.
        rise = MEASURES[measure](shares + step) - MEASURES[measure](shares - step)
        assert rise / 2e-6 == pytest.approx(slope[tuple(cell)], rel=1e-5, abs=1e-7)


def test_the_automatic_measure() -> None:
    first, second = (
        Attribute(name=name, categories=("0", "1", "2"), ordinal=True) for name in "ab"
    )
    nominal = Attribute(name="c", categories=("x", "y"))
    assert measure_for(first, second) is pearson
    assert measure_for(first, nominal) is measure_for(nominal, nominal) is cramers_v
    assert measure_for(first, second, "covariance") is covariance
    with pytest.raises(ValueError, match="'chi'"):
        measure_for(first, second, "chi")
    table = np.array([[5, 0, 1], [2, 6, 1], [3, 0, 7]])
    others = [np.array([[3, 1], [1, 3], [2, 2]])] * 2
    survey = Survey("s", (first, second, nominal))
    found = dependences([table, *others], survey, method="exact", epsilon=math.inf)
    assert found.matrix[0, 1] == pearson(table) != cramers_v(table)
    assert found.matrix[0, 2] == cramers_v(others[0])
    assert found.measure == "auto"


# What is learnt of a survey


def test_dependences_of_exact_counts() -> None:
    survey = survey_of(2, 2, 2)
    strong, weak = np.array([[8, 2], [2, 8]]), np.array([[6, 4], [4, 6]])
    found = dependences([weak, strong, weak], survey, method="secure-sum", epsilon=math.inf)
    assert found.names == ("a", "b", "c")
    np.testing.assert_allclose(found.matrix, [[1, 0.2, 0.6], [0.2, 1, 0.2], [0.6, 0.2, 1]])
    np.testing.assert_array_equal(found.deviations, np.zeros((3, 3)))
    assert found.standard_errors is found.deviations
    assert found.biased == ""
    assert [pair[:2] for pair in found.pairs()] == [("a", "c"), ("a", "b"), ("b", "c")]
    strongest = next(found.pairs())
    assert strongest.value == pytest.approx(0.6)
    assert strongest.deviation == 0
    assert not any(array.flags.writeable for array in (found.matrix, found.deviations))
    assert repr(found) == "<Dependences: m=3, auto, secure-sum, epsilon=inf>"
    with pytest.raises(ValueError, match="shapes"):
        dependences([weak, strong], survey, method="exact", epsilon=math.inf)
    with pytest.raises(ValueError, match="shapes"):
        dependences([weak, strong, np.ones((2, 3))], survey, method="exact", epsilon=math.inf)


@pytest.mark.parametrize(
    ("matrix_", "deviations", "epsilon"),
    [
        (np.eye(3), np.eye(2), 1.0),
        (np.eye(2), np.eye(3), 1.0),
        ([[1, 0.5], [0.4, 1]], np.eye(2), 1.0),
        ([[1, math.inf], [math.inf, 1]], np.eye(2), 1.0),
        (np.eye(2), [[0, -1], [-1, 0]], 1.0),
        (np.eye(2), [[0, math.nan], [math.nan, 0]], 1.0),
        (np.eye(2), np.eye(2), -1.0),
        (np.eye(2), np.eye(2), math.nan),
    ],
)
def test_dependences_that_cannot_be_are_refused(
    matrix_: Floats, deviations: Floats, epsilon: float
) -> None:
    with pytest.raises(ValueError, match=r"symmetric|not finite, or"):
        Dependences(("a", "b"), "auto", "x", np.array(matrix_), np.array(deviations), epsilon)


# Randomized reports, in exact proportion to their law

TABLE = np.array([[30, 8, 4, 2], [6, 20, 10, 4], [2, 6, 12, 26]])
SURVEY = survey_of(3, 4)
KEEPS = (Block(("a",), keep(3, 0.6)), Block(("b",), keep(4, 0.75)))
TOGETHER = (Block(("b", "a"), keep(12, 0.5)),)


def unmixed(
    estimate: LinearEstimate[JointReports], *, measure: str | Measure = "auto"
) -> Dependences:
    """Of the one pair that there is."""
    return pairwise_dependences(estimate.survey, [estimate], measure=measure)


def expected(
    survey: Survey, blocks: tuple[Block, ...], answers: NDArray[np.integer], scale: int
) -> Counts:
    """Counts of reports in exact proportion to the law; ``scale`` clears its denominators."""
    law = np.rint(dense_law(survey, blocks) * scale).astype(np.int64)
    np.testing.assert_allclose(law / scale, dense_law(survey, blocks), atol=1e-12)
    frequencies = answers.ravel().astype(np.int64) @ law
    codes = split_codes(np.arange(survey.cells, dtype=np.uint64), survey.sizes)
    return Counts(survey.sizes, codes, frequencies, int(frequencies.sum()))


@pytest.mark.parametrize(("blocks", "scale"), [(KEEPS, 1200), (TOGETHER, 24)])
def test_the_measures_of_estimated_tables_are_the_truth_on_expected_reports(
    blocks: tuple[Block, ...], scale: int
) -> None:
    estimate = LinearEstimate(JointReports(SURVEY, blocks, expected(SURVEY, blocks, TABLE, scale)))
    for measure in MEASURES.values():
        found = unmixed(estimate, measure=measure)
        assert found.matrix[0, 1] == pytest.approx(measure(TABLE), rel=1e-9)
        assert found.measure == measure.name
        assert 0 < found.deviations[0, 1] < 0.1
    epsilons = [block.randomizer.epsilon for block in blocks]
    assert unmixed(estimate).epsilon == math.fsum(epsilons) == report_epsilon(estimate)


def test_randomizing_shrinks_covariance_by_exactly_the_keep_probabilities() -> None:
    # Proposition 1.
    estimate = LinearEstimate(JointReports(SURVEY, KEEPS, expected(SURVEY, KEEPS, TABLE, 1200)))
    raw = raw_dependences(estimate, measure="covariance")
    assert raw.matrix[0, 1] == pytest.approx(0.6 * 0.75 * covariance(TABLE), rel=1e-9)
    assert (raw.method, raw.epsilon) == ("raw", report_epsilon(estimate))


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("blocks", "scale"),
    [(KEEPS, 1200), ((Block(("a",), matrix(ROWS)), KEEPS[1]), 320), (TOGETHER, 24)],
)
def test_debiased_measures_are_the_truth_but_for_the_noise_of_as_many_reports(
    blocks: tuple[Block, ...], scale: int, measure: str
) -> None:
    found = debiased_dependences(
        LinearEstimate(JointReports(SURVEY, blocks, expected(SURVEY, blocks, TABLE, 1000 * scale))),
        measure=measure,
    )
    truth = MEASURES[measure](TABLE)
    # On expected reports the square is the truth less what noise would add.
    assert found.law is not None
    law = found.law("respondents")
    square = (law.estimate + law.noise).item() / law.scale.item()
    assert square == pytest.approx(truth**2, rel=1e-3)
    assert found.matrix[0, 1] == pytest.approx(law.measure.item(), rel=1e-12)
    assert 0 < law.noise.item() < 0.1 * truth**2 * law.scale.item()


def test_a_square_below_0_is_a_dependence_of_0_that_may_deviate_from_it() -> None:
    codes = np.argwhere(np.ones((3, 4))).repeat(5, axis=0).astype(np.uint8)
    codes[0] = (1, 1)
    estimate = LinearEstimate(JointReports(SURVEY, KEEPS, Counts.of(codes, SURVEY.sizes)))
    raw, debiased = raw_dependences(estimate), debiased_dependences(estimate)
    assert raw.matrix[0, 1] > 0
    assert debiased.matrix[0, 1] == 0
    # About what noise alone would give: the root of 6 / 60 / 2 is 0.22, over 0.45.
    assert 0.2 < debiased.deviations[0, 1] <= 1
    low, high = debiased.interval()
    assert low[0, 1] == 0 < high[0, 1]


@pytest.mark.parametrize(
    "learn", [raw_dependences, debiased_dependences, unmixed], ids=lambda f: f.__name__
)
def test_what_randomizing_biases_has_no_standard_errors(
    learn: Callable[..., Dependences],
) -> None:
    found = learn(LinearEstimate(JointReports(SURVEY, KEEPS, expected(SURVEY, KEEPS, TABLE, 1200))))
    assert found.biased
    assert found.standard_errors is None
    assert (found.deviations[~np.eye(2, dtype=bool)] > 0).all()


def test_no_interval_around_dependences_of_reports_holds_the_truth() -> None:
    counts = expected(SURVEY, KEEPS, TABLE, 1200)
    raw = raw_dependences(LinearEstimate(JointReports(SURVEY, KEEPS, counts)))
    # In this many expected reports chance is next to nothing, and the bias is what it was.
    assert cramers_v(TABLE) - raw.matrix[0, 1] > 10 * raw.deviations[0, 1]


def test_what_one_matrix_randomized_together_has_no_law() -> None:
    blocks = (Block(("a", "b"), matrix(keep(12, 0.5).matrix())),)
    estimate = LinearEstimate(JointReports(SURVEY, blocks, expected(SURVEY, blocks, TABLE, 24)))
    with pytest.raises(ValueError, match="a and b: one matrix randomized them together"):
        debiased_dependences(estimate)
    found = unmixed(estimate)
    assert np.isnan(found.interval().low[0, 1])
    assert np.isnan(found.p_values()[0, 1])


def test_estimated_tables_are_clipped_and_rescaled_first() -> None:
    codes = np.array([[0, 0], [0, 0], [1, 1], [1, 2], [2, 3], [2, 3], [0, 3]], np.uint8)
    estimate = LinearEstimate(JointReports(SURVEY, KEEPS, Counts.of(codes, SURVEY.sizes)))
    raw, clipped = (estimate.table("a", "b", projection=how).values for how in ("none", "clip"))
    assert (raw < 0).any()
    found = unmixed(estimate, measure="covariance")
    assert found.matrix[0, 1] == covariance(clipped)
    # The slope by a raw entry: 0 where it was clipped, and by all others of a smaller total.
    slope = covariance.measured(clipped)[1]
    assert slope is not None
    per_answer = np.where(raw > 0, slope, 0) / raw[raw > 0].sum()
    expected_error = estimate.query(("a", "b"), per_answer).standard_error
    assert found.deviations[0, 1] == pytest.approx(expected_error, rel=1e-12)
    assert raw[raw > 0].sum() > 1.1


def test_where_nothing_is_known_the_deviation_is_the_largest_value() -> None:
    codes = np.array([[0, 1], [0, 1]], np.uint8)
    estimate = LinearEstimate(JointReports(SURVEY, TOGETHER, Counts.of(codes, SURVEY.sizes)))
    found = unmixed(estimate)
    assert (found.matrix[0, 1], found.deviations[0, 1]) == (0, 1)
    assert raw_dependences(estimate, measure="pearson").deviations[0, 1] == 1


def test_pairs_that_are_randomized_one_by_one_cost_their_sum() -> None:
    survey = survey_of(2, 3, 2)
    estimates = []
    for place, (first, second) in enumerate(combinations(survey.names, 2)):
        pair = survey.project((first, second))
        blocks = (Block(pair.names, keep(pair.cells, 0.5)),)
        answers = np.arange(1, pair.cells + 1).reshape(pair.sizes) ** (place + 1)
        counts = expected(pair, blocks, answers, 2 * pair.cells)
        estimates.append(LinearEstimate(JointReports(pair, blocks, counts)))
    found = pairwise_dependences(survey, estimates)
    one_by_one = [unmixed(estimate) for estimate in estimates]
    for (i, j), alone in zip(combinations(range(3), 2), one_by_one, strict=True):
        assert found.matrix[i, j] == found.matrix[j, i] == alone.matrix[0, 1]
        assert found.deviations[i, j] == alone.deviations[0, 1]
    assert found.epsilon == math.fsum(alone.epsilon for alone in one_by_one)
    with pytest.raises(ValueError, match="one estimate of each pair"):
        pairwise_dependences(survey, estimates[::-1])


# Deviations


def linear(weights: Floats) -> Measure:
    """A measure whose deviation has an exact closed form."""

    def measured(shares: Floats) -> tuple[float, Floats]:
        value = float(np.sum(shares * weights))
        return value, weights - value

    return Measure(name="linear", measured=measured, largest=math.inf)


@pytest.mark.parametrize(
    ("blocks", "scale"),
    [
        (tuple(Block((name,), keep(2, 0.5)) for name in "abc"), 64),
        ((Block(("c",), keep(2, 0.6)), *(Block((name,), keep(2, 0.5)) for name in "ab")), 80),
    ],
)
def test_deviations_of_the_reports_measure_have_their_closed_form(
    blocks: tuple[Block, ...], scale: int
) -> None:
    survey = survey_of(2, 2, 2)
    answers = np.array([5, 1, 2, 7, 3, 3, 1, 6])
    counts = expected(survey, blocks, answers, scale)
    law, weights = dense_law(survey, blocks), np.array([[0.3, -1.0], [2.0, 0.7]])
    found = raw_dependences(
        LinearEstimate(JointReports(survey, blocks, counts)), measure=linear(weights)
    )
    for i, j in combinations(range(3), 2):
        names = (survey.names[i], survey.names[j])
        per_report = summing(survey, names) @ weights.ravel()
        variances = law @ per_report**2 - (law @ per_report) ** 2
        exact = float(answers @ variances) / answers.sum() / counts.n
        assert found.deviations[i, j] ** 2 == pytest.approx(exact, rel=1e-9)


N = 6000
RUNS = 5000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learn", "measure", "blocks"),
    [
        slow(raw_dependences, "cramers-v", KEEPS),
        slow(debiased_dependences, "cramers-v", KEEPS),
        (unmixed, "cramers-v", KEEPS),
        slow(unmixed, "pearson", KEEPS),
        slow(raw_dependences, "covariance", KEEPS),
    ],
)
def test_deviations_are_those_of_repeated_runs(
    learn: Callable[..., Dependences], measure: str, blocks: tuple[Block, ...]
) -> None:
    answers = TABLE.ravel() * N // TABLE.sum()
    law = dense_law(SURVEY, blocks)
    made = np.random.default_rng(7)
    tables = sum(made.multinomial(k, row, RUNS) for k, row in zip(answers, law, strict=True))
    codes = split_codes(np.arange(12, dtype=np.uint64), SURVEY.sizes)
    values, squares = np.empty(RUNS), np.empty(RUNS)
    for run, table in enumerate(np.asarray(tables)):
        counts = Counts(SURVEY.sizes, codes, table, int(table.sum()))
        found = learn(LinearEstimate(JointReports(SURVEY, blocks, counts)), measure=measure)
        values[run], squares[run] = found.matrix[0, 1], found.deviations[0, 1] ** 2
    deviations = (values - values.mean()) ** 2
    assert mean_p_value(deviations, squares.mean()) > ALPHA
    assert mean_p_value(deviations, squares.mean() * WRONG**2) < ALPHA
    assert mean_p_value(deviations, squares.mean() / WRONG**2) < ALPHA
