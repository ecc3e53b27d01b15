"""The reproductions of marginal release: draws of counts against live reports, rows and notes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from protocol import LinearEstimate, join_codes
from protocol.estimators.measures import total_variation
from protocol.randomizers.marginals import METHODS, MarginalPlan, Method, Unary
from protocol.variants.marginals.counts import MarginalCounts
from protocol.variants.marginals.estimate import ReleasedMarginals
from scenarios import Context, taxi
from scenarios.data.taxi import taxi_survey
from scenarios.papers.marginals.experiments import (
    EPSILONS,
    WAYS,
    distances,
    drawn_counts,
    drawn_estimate,
    statistics,
)
from tests.scenarios.reproduced import measured, reproduce
from tests.scripted import seeded
from tests.statistical import ALPHA, WRONG, mean_p_value
from tests.tiers import thinned

# Draws


@pytest.mark.slow
@pytest.mark.parametrize(("method", "unary"), thinned(product(METHODS, ["sue", "oue"]), 1))
def test_drawn_counts_are_those_of_live_reports(method: Method, unary: Unary) -> None:
    """Mean and variance of every figure that is counted, by one random projection."""
    records = taxi(60, d=4, seed=5)
    cells = join_codes(records.codes, records.survey.sizes)
    counted = records.counts(records.survey.names).ravel()
    if unary == "oue" and not method.endswith("RR"):
        pytest.skip("sends no bit for each cell")
    plan = MarginalPlan.with_epsilon(method, d=4, k=2, epsilon=2.0, unary=unary)
    wrong = MarginalPlan.with_epsilon(method, d=4, k=2, epsilon=2.0 * WRONG, unary=unary)
    runs = 1500
    stream, generator = seeded(4), np.random.default_rng(4)
    live = np.array(
        [MarginalCounts.of(plan, plan.randomize(cells, stream)).totals.ravel() for _ in range(runs)]
    )
    drawn, other = (
        np.array([drawn_counts(p, counted, generator).totals.ravel() for _ in range(runs)])
        for p in (plan, wrong)
    )
    weights = live.mean(axis=0) - other.mean(axis=0)
    centre = float((live @ weights).mean())
    # Two samples of one mean: their differences, run by run, have the mean 0.
    assert mean_p_value((live - drawn) @ weights, 0.0) > ALPHA
    spread = [((values @ weights) - centre) ** 2 for values in (live, drawn)]
    assert mean_p_value(spread[0] - spread[1], 0.0) > ALPHA
    for place in range(live.shape[1]):
        if live[:, place].std() > 0:
            assert mean_p_value(live[:, place] - drawn[:, place], 0.0) > ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("method", thinned(METHODS, 2))
def test_estimates_of_draws_are_unbiased(method: Method) -> None:
    cells = taxi(60_000, d=4, seed=5).counts(taxi_survey(4).names).ravel()
    generator = np.random.default_rng(8)
    plan = MarginalPlan.with_epsilon(method, d=4, k=2, epsilon=2.0)
    wrong = MarginalPlan.with_epsilon(method, d=4, k=2, epsilon=2.0 * WRONG)
    true = cells.reshape(2, 2, 2, 2).sum(axis=(1, 3))[1, 1] / 60_000
    names = taxi_survey(4).names
    values, biased = [], []
    for _ in range(300):
        counts = drawn_counts(wrong, cells, generator)
        values.append(
            LinearEstimate(ReleasedMarginals(survey=taxi_survey(4), counts=counts))
            .table(names[0], names[2])
            .values
        )
        # The same counts, read by another plan: the power arm.
        read = MarginalCounts(plan=plan, reports=counts.reports.copy(), totals=counts.totals.copy())
        biased.append(
            LinearEstimate(ReleasedMarginals(survey=taxi_survey(4), counts=read))
            .table(names[0], names[2])
            .values
        )
    assert mean_p_value(np.array(values)[:, 1, 1], true) > ALPHA
    assert mean_p_value(np.array(biased)[:, 1, 1], true) < ALPHA


def test_distances_are_those_of_the_tables() -> None:
    cells = taxi(5000, d=5, seed=2).counts(taxi_survey(5).names).ravel()
    plan = MarginalPlan.with_epsilon("MargPS", d=5, k=2, epsilon=1.0)
    estimate = drawn_estimate(plan, cells, np.random.default_rng(1))
    records = taxi(5000, d=5, seed=2)
    expected = {
        projection: np.mean(
            [
                total_variation(table.values, records.distribution(table.names))
                for table in LinearEstimate(estimate).pairs(projection)
            ]
        )
        for projection in ("none", "simplex")
    }
    found = distances(estimate, cells)
    assert found == pytest.approx((expected["none"], expected["simplex"]))


# Figures


@pytest.mark.slow
def test_figure_6_has_every_method_and_says_their_order() -> None:
    done = reproduce("marginals-figure-6", runs=2, n=2**14)
    assert len(done.rows) == len(WAYS) * len(EPSILONS) * (len(METHODS) + 2)
    by = {(r.settings["k"], r.settings["epsilon"], r.settings["method"]): r for r in done.rows}
    for k in WAYS:
        for method in METHODS:
            first, last = (measured(by[k, e, method])["raw"] for e in (0.2, 1.4))
            assert last < first / 3
    # For pairs, at 1.4, the paper's best is many times nearer than the worst.
    best, worst = (measured(by[2, 1.4, method])["raw"] for method in ("InpHT", "InpPS"))
    assert best < worst / 3


def test_figure_7_shows_what_the_naive_test_does() -> None:
    done = reproduce("marginals-figure-7", runs=12)
    assert len(done.rows) == 2 * 28
    shares = {
        (test, independent): np.mean(
            [
                measured(row)[f"{test} rejects"]
                for row in done.rows
                if row.settings["independent"] == independent
            ]
        )
        for test in ("naive", "wald")
        for independent in ("yes", "no")
    }
    assert shares["naive", "yes"] > 0.8
    assert shares["wald", "yes"] < 0.12
    assert shares["wald", "no"] > 0.5
    for row in done.rows:
        if row.settings["pair"] == "Night_pick - Night_drop":
            assert measured(row)["naive"] == pytest.approx(measured(row)["exact"], rel=0.2)
            assert 0 < measured(row)["wald"] < measured(row)["exact"] / 50


@pytest.mark.slow
def test_wald_statistics_are_chi_squared_where_pairs_are_independent() -> None:
    cells = np.full(2**8, 2**10)
    plan = MarginalPlan.with_epsilon("InpHT", d=8, k=2, epsilon=1.1)
    generator = np.random.default_rng(6)
    found = np.array([statistics(drawn_estimate(plan, cells, generator)) for _ in range(30)])
    wald = found[:, 1, 0].ravel()
    assert wald.size == 30 * 28
    assert mean_p_value(wald, 1.0) > ALPHA
    assert mean_p_value(found[:, 0, 0].ravel(), WRONG) < ALPHA


@pytest.mark.parametrize("method", thinned(["InpHT", "MargRR, oue"], 1))
def test_by_messages_any_method_is_run(method: str) -> None:
    given = {"k": 2, "epsilon": 1.4, "method": method}
    done = reproduce("marginals-figure-6", Context(by_messages=True), n=3_000, **given)
    assert done.outcome is not None
    assert len(done.outcome.endings) == 256
    drawn = reproduce("marginals-figure-6", n=3_000, **given)
    assert measured(done.rows[0])["raw"] == pytest.approx(measured(drawn.rows[0])["raw"], rel=0.5)


@pytest.mark.slow
def test_the_same_trips_are_asked_in_every_run_of_figure_7() -> None:
    heard = reproduce("marginals-figure-7", Context(by_messages=True), n=30_000)
    drawn = reproduce("marginals-figure-7", n=30_000, runs=1, method="InpHT")
    for row, other in zip(heard.rows, drawn.rows, strict=True):
        assert measured(row)["exact"] == measured(other)["exact"]
