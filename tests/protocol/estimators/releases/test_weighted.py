"""Weighted estimates: against sums over single reports, and how often intervals hold the truth."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import Block, Counts, JointReports, LinearEstimate, Stream, Survey, secret_of
from protocol.estimators.inference.laws import SIDES, About
from protocol.estimators.releases.weighted import Stratum, Weighted
from tests.enumeration import BLOCKS, Floats, dense_law, keep, survey_of

AB = survey_of(2, 3)
WEIGHTS = (3.0, 0.5, 1.25)
# No cell is rare, so that every error is known.
TABLES = (
    np.array([[9, 12, 8], [15, 11, 17]]),
    np.array([[40, 22, 31], [28, 19, 25]]),
    np.array([[7, 9, 12], [13, 8, 10]]),
)


def weighted(
    survey: Survey,
    blocks: tuple[Block, ...],
    tables: Sequence[NDArray[np.integer]],
    weights: Sequence[float] = WEIGHTS,
) -> LinearEstimate[Weighted]:
    strata = tuple(
        Stratum(weight, JointReports(survey, blocks, Counts.from_table(table)))
        for weight, table in zip(weights, tables, strict=True)
    )
    return LinearEstimate(Weighted(survey, strata))


def dense(blocks: tuple[Block, ...], about: About) -> tuple[Floats, Floats]:
    """Weighted shares of all cells and their covariances, report by report."""
    inverse = np.linalg.inv(dense_law(AB, blocks))
    rows = [
        (w, r) for w, t in zip(WEIGHTS, TABLES, strict=True) for r in np.repeat(range(6), t.flat)
    ]
    w = np.array([weight for weight, _ in rows])
    scores = inverse[[report for _, report in rows]]
    shares = w @ scores / w.sum()
    if about == "population":
        off = scores - shares
        return shares, (off * w[:, np.newaxis] ** 2).T @ off / w.sum() ** 2
    squares = (scores * w[:, np.newaxis] ** 2).T @ scores - np.diag(w**2 @ scores)
    return shares, squares / w.sum() ** 2


@pytest.mark.parametrize("about", SIDES)
@pytest.mark.parametrize("blocks", BLOCKS.values(), ids=BLOCKS)
def test_shares_and_covariances_are_those_of_weighted_reports(
    blocks: tuple[Block, ...], about: About
) -> None:
    table = weighted(AB, blocks, TABLES).table("a", "b")
    shares, covariance = dense(blocks, about)
    assert table.values.ravel() == pytest.approx(shares, abs=1e-12)
    assert table.covariance(about) == pytest.approx(covariance, abs=1e-12)
    errors = table.standard_errors if about == "respondents" else table.population_errors
    assert errors is not None
    known = ~np.isnan(errors.ravel())
    assert errors.ravel()[known] == pytest.approx(np.sqrt(covariance.diagonal())[known], abs=1e-12)
    assert known.any()


def test_the_effective_sample_size_is_that_of_single_weights() -> None:
    estimate = weighted(AB, BLOCKS["joint"], TABLES)
    each = np.repeat(WEIGHTS, [int(table.sum()) for table in TABLES])
    assert estimate.weighted_n == pytest.approx(each.sum() ** 2 / (each**2).sum())
    assert estimate.n == len(each)


def test_equal_weights_change_nothing_but_the_last_digits() -> None:
    blocks = BLOCKS["joint"]
    alike = weighted(AB, blocks, TABLES, (2.0, 2.0, 2.0))
    pooled = LinearEstimate(JointReports(AB, blocks, Counts.from_table(sum(TABLES))))
    assert alike.weighted_n == pytest.approx(alike.n)
    for projection in ("none", "em"):
        one, other = (each.table("b", projection=projection) for each in (alike, pooled))
        assert one.values == pytest.approx(other.values, abs=1e-9)
    for about in SIDES:
        one, other = (each.table("b").interval(0.95, about) for each in (alike, pooled))
        # The variance given the answers is that of strata, which adds up to the same.
        assert np.ravel(one) == pytest.approx(np.ravel(other), abs=2e-3)


def test_intervals_are_as_wide_as_strata_that_differ_make_them() -> None:
    tables = (np.array([400, 600]), np.array([100, 9900]))
    survey, weights = survey_of(2), (10.0, 1.0)
    estimate = weighted(survey, (Block(("a",), keep(2, 0.99)),), tables, weights)
    table = estimate.table("a")
    assert table.population_errors is not None
    [share, _], [error, _] = table.values, table.population_errors
    low, high = table.interval(0.95, "population")
    assert high[0] - low[0] == pytest.approx(2 * 1.96 * error, rel=0.05)
    # Those of the effective sample size would be too narrow: the heavy stratum has the cell.
    assert estimate.weighted_n is not None
    assert error > 1.2 * math.sqrt(share * (1 - share) / estimate.weighted_n)


def test_a_rare_cell_of_a_stratum_has_an_interval() -> None:
    tables = (np.array([40, 30, 0]), np.array([300, 200, 4]))
    survey = survey_of(3)
    table = weighted(survey, (Block(("a",), keep(3, 0.95)),), tables, (8.0, 1.0)).table("a")
    for about in SIDES:
        low, high = table.interval(0.95, about)
        assert ((low >= 0) & (low < high) & (high <= 1)).all()


@pytest.mark.parametrize("about", SIDES)
def test_a_query_of_a_cell_is_at_least_as_uncertain_as_the_cell(about: About) -> None:
    """In a stratum of one report the estimated variance is far too small."""
    single = (np.array([[0, 0, 0], [0, 1, 0]]), *TABLES[1:])
    estimate = weighted(AB, BLOCKS["joint"], single)
    table = estimate.table("a", "b")
    errors = table.standard_errors if about == "respondents" else table.population_errors
    assert errors is not None
    assert (table.covariance(about).diagonal() >= 0.999 * errors.ravel() ** 2).all()
    if about == "respondents":
        weights = np.zeros(errors.shape)
        weights[1, 1] = 1.0
        error = estimate.mean(("a", "b"), weights).standard_error
        assert error is not None
        assert error >= 0.999 * errors[1, 1]


def test_em_counts_reports_by_their_weights() -> None:
    blocks = BLOCKS["joint"]
    estimate = weighted(AB, blocks, TABLES)
    total = sum(float(one.counts.sum()) for one in estimate.reported(("a",)))
    assert total == pytest.approx(estimate.weighted_n)
    raw = estimate.table("a")
    # Shares far from 0 are the likeliest ones as well.
    assert estimate.table("a", projection="em").values == pytest.approx(raw.values, abs=0.05)


def test_a_weight_is_a_positive_number() -> None:
    for weight in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="expected a number above 0"):
            weighted(AB, BLOCKS["joint"], TABLES, (1.0, weight, 1.0))
    with pytest.raises(ValueError, match="0 strata"):
        Weighted(AB, ())


SHARES = np.array([[0.9, 0.09, 0.01], [0.05, 0.9, 0.05], [0.6, 0.3, 0.1]])
PARTS = np.array([0.5, 0.3, 0.2])
RUNS = 200


@pytest.mark.slow
@pytest.mark.parametrize(("p", "n"), [(0.9, 400), (0.5, 1500)])
def test_intervals_hold_the_weighted_truth(p: float, n: int) -> None:
    """Respondents are drawn one by one, with probabilities that are inverse to their weights."""
    survey, stream = survey_of(3), Stream(secret_of(5))
    block = Block(("a",), keep(3, p))
    weights = np.array([4.0, 1.0, 0.5])
    chances = PARTS / weights / (PARTS / weights).sum()
    # The law of stratum and answer together, as one draw.
    law = np.cumsum((chances[:, np.newaxis] * SHARES).ravel())
    held = {about: np.zeros(3) for about in SIDES}
    unweighted = 0.0
    for _ in range(RUNS):
        drawn = np.searchsorted(law, stream.words(n) / 2.0**64).clip(max=8)
        strata, answers = np.divmod(drawn, 3)
        reports = block.randomizer.randomize(answers.astype(np.uint8), stream)
        tables = [np.bincount(reports[strata == h], minlength=3) for h in range(3)]
        table = weighted(survey, (block,), tables, weights.tolist()).table("a")
        each = weights[strata]
        true = np.bincount(answers, weights=each, minlength=3) / each.sum()
        for about, truth in (("respondents", true), ("population", PARTS @ SHARES)):
            low, high = table.interval(0.95, about)
            held[about] += (low <= truth) & (truth <= high)
        alike = LinearEstimate(JointReports(survey, (block,), Counts.from_table(sum(tables))))
        low, high = alike.table("a").interval(0.95, "population")
        unweighted += float(low[0] <= (PARTS @ SHARES)[0] <= high[0])
    for about in SIDES:
        # Of 200 runs at 95 %, fewer than 177 or all three at 200 is 1 in 10**4 or less.
        assert (held[about] >= 177).all(), (about, held[about])
        assert held[about].sum() < 3 * RUNS
    assert unweighted < RUNS / 2
