"""Moments of scores and covariances, against every report of small designs and dense matrices."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from protocol import (
    Counts,
    Estimate,
    ExactTables,
    JointReports,
    LinearEstimate,
    ProductEstimate,
    Randomizer,
    SubsetSelection,
    Tallies,
)
from protocol.estimators.inference.laws import About
from protocol.estimators.inference.scores import inflation, weighted_law
from tests.enumeration import AB, BLOCKS, dense_law, keep, matrix, summing, survey_of

ABOUT: tuple[About, About] = ("respondents", "population")
NAMES = ("b", "a")


def drawn(shares: np.ndarray, n: int = 4000) -> Counts:
    """Reports in proportion to some shares of whole records, as near as whole numbers are."""
    counts = np.round(shares * n).astype(np.int64)
    codes = np.array(list(np.ndindex(*AB.sizes)), np.uint8)
    return Counts(
        sizes=AB.sizes,
        codes=codes[counts > 0],
        counts=counts[counts > 0],
        n=int(counts.sum()),
    )


@pytest.mark.parametrize("design", BLOCKS)
def test_cumulants_of_cells_are_those_of_all_reports(design: str) -> None:
    """About a population and given the answers, if the estimated shares are the true ones.

    Where a block has a dense matrix beside another block they are near: how its scores spread
    outside of a category is taken as the same whatever the other block's category is.
    """
    exact = 0.05 if design == "mixed" else 1e-5
    law = dense_law(AB, BLOCKS[design])
    truth = np.array([0.2, 0.05, 0.1, 0.25, 0.3, 0.1])
    scores = np.linalg.inv(law) @ summing(AB, NAMES)
    reported = truth @ law
    estimate = LinearEstimate(JointReports(AB, BLOCKS[design], drawn(reported, 10**9)))
    found = estimate.source.scores(NAMES)
    shares = truth @ summing(AB, NAMES)
    n = 50
    means = reported @ scores
    second, third = (reported @ (scores - means) ** power for power in (2, 3))
    variance, skew = found.cumulants(n, "population").at(shares.reshape(3, 2))
    np.testing.assert_allclose(variance.ravel(), second / n, rtol=exact)
    np.testing.assert_allclose(skew.ravel(), third / n**2, rtol=5 * exact, atol=1e-9)
    given = law @ scores
    second = truth @ (law @ scores**2 - given**2)
    third = truth @ (law @ scores**3 - 3 * given * (law @ scores**2) + 2 * given**3)
    variance, skew = found.cumulants(n, "respondents").at(shares.reshape(3, 2))
    np.testing.assert_allclose(variance.ravel(), second / n, rtol=exact)
    np.testing.assert_allclose(skew.ravel(), third / n**2, rtol=5 * exact, atol=1e-9)
    steps = np.ptp(scores, axis=0)
    np.testing.assert_allclose(found.step.ravel(), steps, rtol=1e-9)


@pytest.mark.parametrize("design", BLOCKS)
@pytest.mark.parametrize("about", ABOUT)
def test_covariances_are_those_of_all_reports(design: str, about: About) -> None:
    law = dense_law(AB, BLOCKS[design])
    reported = np.array([0.2, 0.1, 0.15, 0.15, 0.3, 0.1])
    estimate = LinearEstimate(JointReports(AB, BLOCKS[design], drawn(reported)))
    scores = np.linalg.inv(law) @ summing(AB, NAMES)
    shares = reported @ scores
    less = np.diag(shares) if about == "respondents" else np.outer(shares, shares)
    expected = (scores.T @ (reported[:, np.newaxis] * scores) - less) / estimate.n
    table = estimate.table(*NAMES)
    np.testing.assert_allclose(table.covariance(about), expected, atol=1e-12)
    errors = table.standard_errors if about == "respondents" else table.population_errors
    assert errors is not None
    np.testing.assert_allclose(np.diag(expected), errors.ravel() ** 2, atol=1e-12)


def oracles() -> list[Randomizer]:
    return [SubsetSelection.with_epsilon(6, epsilon=1.5), keep(6, 0.4), matrix(np.eye(6) + 0.2)]


@pytest.mark.parametrize("randomizer", oracles(), ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("about", ABOUT)
def test_a_query_has_the_error_of_the_covariance(randomizer: Randomizer, about: About) -> None:
    shares = np.array([0.3, 0.1, 0.2, 0.15, 0.05, 0.2])
    if isinstance(randomizer, SubsetSelection):
        support = randomizer.support
        likely = float(support.other) + float(support.gain) * shares
    else:
        likely = shares @ randomizer.matrix()
    totals = np.round(4000 * likely).astype(np.int64)
    estimate = LinearEstimate(Tallies(AB, ("a", "b"), randomizer, totals, 4000))
    check_errors(estimate, about)


@pytest.mark.parametrize("about", ABOUT)
def test_products_and_exact_counts_have_the_errors_of_their_covariances(about: About) -> None:
    joint = LinearEstimate(
        JointReports(AB, BLOCKS["independent"], drawn(np.array([0.2, 0.1, 0.15, 0.15, 0.3, 0.1])))
    )
    check_errors(ProductEstimate(joint), about)
    check_errors(
        LinearEstimate(
            ExactTables(AB, {("a", "b"): np.array([[700, 2000, 1100], [3000, 200, 900]])})
        ),
        about,
    )


def check_errors(estimate: Estimate, about: About) -> None:
    """A table's errors are the diagonal, and intervals of queries have about their width."""
    table = estimate.table(*NAMES)
    covariance = table.covariance(about)
    errors = table.standard_errors if about == "respondents" else table.population_errors
    assert errors is not None
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), errors.ravel(), atol=1e-9)
    weights = np.array([[0.1, 0.4], [0.9, 0.2], [0.5, 0.7]])
    low, high = estimate.query(NAMES, weights).interval(0.3, about)
    width = 2 * 0.3853 * math.sqrt(float(weights.ravel() @ covariance @ weights.ravel()))
    assert high - low == pytest.approx(width, rel=0.03, abs=1e-9)


@pytest.mark.parametrize("about", ABOUT)
def test_sets_of_categories_are_cells_of_a_coarser_table(about: About) -> None:
    """All ways to ask for one set have one interval, and its complement the mirrored one."""
    estimate = LinearEstimate(
        JointReports(AB, BLOCKS["mixed"], drawn(np.array([0.2, 0.1, 0.15, 0.15, 0.3, 0.1]), 60))
    )
    inside = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
    low, high = estimate.query(NAMES, inside).interval(0.9, about)
    turned = estimate.query(("a", "b"), inside.T).interval(0.9, about)
    rest = estimate.query(NAMES, 1 - inside).interval(0.9, about)
    scaled = estimate.query(NAMES, 5 - 2 * inside).interval(0.9, about)
    np.testing.assert_allclose(turned, (low, high), atol=1e-9)
    np.testing.assert_allclose(rest, (1 - high, 1 - low), atol=1e-9)
    np.testing.assert_allclose(scaled, (5 - 2 * high, 5 - 2 * low), atol=1e-9)
    one = np.zeros((3, 2))
    one[1, 0] = 1
    cell = estimate.table(*NAMES).interval(0.9, about)
    asked = estimate.query(NAMES, one).interval(0.9, about)
    np.testing.assert_allclose(asked, (cell.low[1, 0], cell.high[1, 0]), atol=1e-9)


@pytest.mark.parametrize("about", ABOUT)
@pytest.mark.parametrize(("size", "p"), [(2, 0.2), (2, 0.9), (5, 0.6)])
def test_intervals_of_a_cell_cover_by_exact_sums(size: int, p: float, about: About) -> None:
    """Over all counts of a cell, with no simulation; and planted ones that are too short do not."""
    randomizer = keep(size, p)
    survey = survey_of(size)
    n = 40
    own, other = randomizer.diagonal, randomizer.off_diagonal
    ends = []
    for count in range(n + 1):
        totals = np.zeros(size, np.int64)
        totals[0], totals[1] = count, n - count
        table = LinearEstimate(Tallies(survey, ("a",), randomizer, totals, n)).table("a")
        low, high = table.interval(0.95, about)
        ends.append((low[0], high[0]))
    least, shortened = 1.0, 1.0
    for holders in range(n + 1):
        share = holders / n
        if about == "respondents":
            law = np.convolve(binomial(holders, own), binomial(n - holders, other))
        else:
            law = binomial(n, other + share * (own - other))
        held = [low - 1e-9 <= share <= high + 1e-9 for low, high in ends]
        near = [low + (high - low) / 5 <= share <= high - (high - low) / 5 for low, high in ends]
        least, shortened = min(least, float(law @ held)), min(shortened, float(law @ near))
    assert least >= 0.93
    assert shortened < 0.9


def binomial(n: int, chance: float) -> np.ndarray:
    return np.array([math.comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(n + 1)])


def test_a_table_of_cells_that_nobody_reported_is_not_certain() -> None:
    """One report: no interval of what was randomized has no width."""
    for design, about in product(BLOCKS, ABOUT):
        counts = Counts.of(np.array([[1, 2]], np.uint8), AB.sizes)
        low, high = (
            LinearEstimate(JointReports(AB, BLOCKS[design], counts))
            .table(*NAMES)
            .interval(0.95, about)
        )
        assert (high - low > 0.1).all()
        assert (low >= 0).all()
        assert (high <= 1).all()


def test_all_cells_at_once_are_held_by_wider_intervals() -> None:
    estimate = LinearEstimate(
        JointReports(AB, BLOCKS["joint"], drawn(np.array([0.2, 0.1, 0.15, 0.15, 0.3, 0.1])))
    )
    table = estimate.table(*NAMES)
    np.testing.assert_array_equal(
        table.interval(0.94, simultaneous=True), table.interval(1 - 0.06 / 6)
    )
    with pytest.raises(ValueError, match="level 1: expected above 0 and below 1"):
        table.interval(1, simultaneous=True)


def test_large_covariances_are_refused() -> None:
    estimate = LinearEstimate(ExactTables(survey_of(2049), {("a",): np.ones(2049, np.int64)}))
    with pytest.raises(ValueError, match="2,049 cells: expected at most 2,048"):
        estimate.table("a").covariance()


@pytest.mark.parametrize("law", [(0.1, 0.6, 0.3), (0.05, 0.85, 0.1), (0.3, 0.4, 0.3)])
def test_a_mean_of_weights_is_covered_from_nine_reports(law: tuple[float, ...]) -> None:
    """Over all counts that nine respondents can give. Without what a variance from nine reports is
    widened by it would be 90, 84 and 92 %."""
    weights, n, covered = np.array([0.0, 0.5, 1.0]), 9, 0.0
    for counts in product(range(n + 1), repeat=2):
        if sum(counts) > n:
            continue
        shares = np.array([*counts, n - sum(counts)]) / n
        chance = stats.multinomial.pmf(n * shares, n, law)
        value, squares = float(shares @ weights), float(shares @ weights**2)
        found = weighted_law(value, weights, shares, n, squares=squares, least=0.0, most=1.0)
        low, high = found.interval(0.95, "population")
        covered += chance * (low <= np.dot(law, weights) <= high)
    assert covered > 0.94


def test_a_variance_from_many_reports_is_not_widened() -> None:
    weights, shares, n = np.array([0.0, 0.5, 1.0]), np.array([0.3, 0.4, 0.3]), 10**6
    found = weighted_law(0.5, weights, shares, n, squares=0.4, least=0.0, most=1.0)
    low, high = found.interval(0.95, "population")
    assert (high - low) / 2 == pytest.approx(1.959964 * math.sqrt(0.15 / n), rel=1e-4)


def test_a_variance_is_widened_as_that_of_student() -> None:
    # Of ten normal reports: nine degrees of freedom.
    assert inflation(4.0, 2 / 9 * 4.0**2) == pytest.approx(stats.t(9).var())
    assert inflation(0.0, 1.0) == 1.0
    assert inflation(1.0, 5.0) == pytest.approx(10.0)
