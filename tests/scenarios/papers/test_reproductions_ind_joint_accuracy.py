"""Errors of RR-Ind and RR-Ind-Joint over repeats, and where they meet: against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol import Block, Counts, JointReports, KeepUniform, LinearEstimate, ProductEstimate
from protocol.estimators.independent import product_mean_squared_error
from protocol.estimators.joint import mean_squared_error
from scenarios.data.correlated import correlated_counts, correlated_distribution
from scenarios.papers.experiment import Sample
from scenarios.papers.ind_joint.accuracy import (
    Keeps,
    Reported,
    break_even_epsilon,
    break_even_n,
    break_even_v,
    joint_wins,
)
from scenarios.papers.ind_joint.experiments import Design
from scenarios.papers.laws import reported_pairs
from tests.enumeration import Floats, dense_law, survey_of
from tests.statistical import ALPHA, WRONG, mean_p_value

COUNTS = np.array([[60, 20, 10], [10, 40, 60]])
N = int(COUNTS.sum())


def keeps_of(*pairs: tuple[int, float]) -> Keeps:
    first, second = (KeepUniform.with_keep(size, p=p) for size, p in pairs)
    return first, second


KEEPS = keeps_of((2, 0.4), (3, 0.6))


def sampled(counts: NDArray[np.int64], keeps: Keeps, seed: int, *, runs: int) -> Reported:
    both, draws = (keeps[0].keep, keeps[1].keep), np.random.default_rng(seed)
    return Reported.counted(counts, keeps, reported_pairs(counts, both, draws, runs=runs))


# Tables of reports


def test_estimates_are_those_of_the_estimators() -> None:
    reported = sampled(COUNTS, KEEPS, 1, runs=3)
    survey = survey_of(2, 3)
    blocks = tuple(Block((name,), keep) for name, keep in zip("ab", KEEPS, strict=True))
    for run in range(3):
        counts = np.rint(reported.shares[run] * N).astype(int)
        codes = np.repeat(np.array(list(np.ndindex(2, 3)), np.uint8), counts.ravel(), axis=0)
        joint = LinearEstimate(JointReports(survey, blocks, Counts.of(codes, (2, 3))))
        np.testing.assert_allclose(reported.joint()[run], joint.table("a", "b").values, atol=1e-12)
        np.testing.assert_allclose(
            reported.product()[run], ProductEstimate(joint).table("a", "b").values, atol=1e-12
        )


def test_exact_reports_are_expected_ones_and_give_the_truth_back() -> None:
    truth = COUNTS / N
    reported = Reported.exact(truth, KEEPS)
    blocks = tuple(Block((name,), keep) for name, keep in zip("ab", KEEPS, strict=True))
    law = dense_law(survey_of(2, 3), blocks)
    np.testing.assert_allclose(reported.shares[0].ravel(), truth.ravel() @ law, atol=1e-15)
    np.testing.assert_allclose(reported.joint()[0], truth, atol=1e-14)
    product = np.outer(truth.sum(axis=1), truth.sum(axis=0))
    np.testing.assert_allclose(reported.product()[0], product, atol=1e-14)
    means = Sample.of(reported.errors()).exact
    bias = product_mean_squared_error(truth, KEEPS, N).squared_bias
    assert means["rr_ind_mse"] == pytest.approx(bias)
    assert means["rr_ind_mae"] == pytest.approx(np.abs(product - truth).mean())
    assert means["rr_ind_joint_mse"] < 1e-28
    assert set(means) == {f"rr_ind{of}_{by}" for of in ("", "_joint") for by in ("mse", "mae")}
    rounded = Reported.exact(truth, KEEPS, of=N).shares * N
    np.testing.assert_allclose(rounded, np.rint(reported.shares * N))


def test_errors_of_runs_are_the_closed_forms() -> None:
    reported = sampled(COUNTS, KEEPS, 2, runs=20_000)
    truth = COUNTS / N
    expected = {
        "product": (reported.product(), product_mean_squared_error(truth, KEEPS, N).total),
        "joint": (reported.joint(), mean_squared_error(KEEPS, N)),
    }
    wrong = keeps_of((2, 0.4 * WRONG), (3, 0.6 * WRONG))
    rejected = {
        "product": product_mean_squared_error(truth, wrong, N).total,
        "joint": mean_squared_error(wrong, N),
    }
    for name, (tables, error) in expected.items():
        of_runs = np.mean((tables - truth) ** 2, axis=(1, 2))
        assert mean_p_value(of_runs, error) > ALPHA
        assert mean_p_value(of_runs, rejected[name]) < ALPHA
    of_runs = np.mean((reported.joint() - truth) ** 2, axis=(1, 2))
    np.testing.assert_allclose(reported.errors()["rr_ind_joint_mse"], of_runs)


# Where they meet


def direct(truth: Floats, keeps: Keeps, n: int) -> tuple[float, float]:
    """The expected squared errors of RR-Ind and RR-Ind-Joint, cell by cell from dense matrices."""
    inverses = [np.linalg.inv(keep.matrix()) for keep in keeps]
    laws = [keep.matrix() for keep in keeps]
    margins = [truth.sum(axis=1), truth.sum(axis=0)]
    spreads = [
        ((margin @ law) @ inverse**2 - margin) / n
        for margin, law, inverse in zip(margins, laws, inverses, strict=True)
    ]
    product = np.outer(*margins)
    second = np.outer(margins[0] ** 2 + spreads[0], margins[1] ** 2 + spreads[1])
    rr_ind = np.mean(second - product**2 + (product - truth) ** 2)
    reports = laws[0].T @ truth @ laws[1]
    rr_ind_joint = np.mean(((inverses[0] ** 2).T @ reports @ inverses[1] ** 2 - truth) / n)
    return float(rr_ind), float(rr_ind_joint)


@given(st.floats(0.05, 1), st.floats(0.3, 0.95), st.floats(0.3, 0.95), st.integers(2, 4))
@settings(deadline=None, max_examples=40)
def test_break_even_n_is_the_first_and_for_good(v: float, p: float, q: float, d: int) -> None:
    truth, keeps = correlated_distribution(d, v=v), keeps_of((d, p), (d, q))
    found = break_even_n(truth, keeps)
    assert found == int(found) >= 2
    for n in (int(found), int(found) + 1, 2 * int(found), 100 * int(found)):
        rr_ind, rr_ind_joint = direct(truth, keeps, n)
        assert rr_ind_joint <= rr_ind * (1 + 1e-9)
        assert joint_wins(truth, keeps, n)
    for n in {int(found) - 1, int(found) // 2} - {0, 1}:
        rr_ind, rr_ind_joint = direct(truth, keeps, n)
        assert rr_ind_joint >= rr_ind * (1 - 1e-9)
        assert not joint_wins(truth, keeps, n)


def test_break_even_is_where_runs_change_sides() -> None:
    truth, keeps = correlated_distribution(3, v=0.5), Design(d=3).keeps
    n_star = int(break_even_n(truth, keeps))
    order = []
    for n in (n_star // 3, 3 * n_star):
        counts = correlated_counts(n, d=3, v=0.5)
        reported = sampled(counts, keeps, 3, runs=3000)
        away = (reported.product() - reported.truth, reported.joint() - reported.truth)
        rr_ind, rr_ind_joint = (np.mean(distance**2, axis=(1, 2)) for distance in away)
        assert mean_p_value(rr_ind_joint - rr_ind, 0.0) < ALPHA
        order.append(rr_ind_joint.mean() > rr_ind.mean())
    assert order == [True, False]


def test_break_even_epsilon_and_n_agree() -> None:
    truth = correlated_distribution(4, v=0.5)
    epsilon = break_even_epsilon(truth, lambda e: Design(d=4, epsilon=e).keeps, 1000)
    assert joint_wins(truth, Design(d=4, epsilon=epsilon + 1e-6).keeps, 1000)
    assert not joint_wins(truth, Design(d=4, epsilon=epsilon - 1e-6).keeps, 1000)
    assert break_even_n(truth, Design(d=4, epsilon=epsilon).keeps) == pytest.approx(1000, abs=1)


def test_break_even_v_is_where_the_errors_are_equal() -> None:
    keeps = Design(d=4).keeps
    v = break_even_v(lambda v: correlated_distribution(4, v=v), keeps, 2000)
    rr_ind, rr_ind_joint = direct(correlated_distribution(4, v=v), keeps, 2000)
    assert 0 < v < 1
    assert rr_ind == pytest.approx(rr_ind_joint, rel=1e-9)
    assert break_even_v(lambda v: correlated_distribution(4, v=v), keeps, 20) == math.inf


def test_independent_data_have_no_break_even() -> None:
    truth = correlated_distribution(5, v=0)
    assert break_even_n(truth, Design(d=5).keeps) == math.inf
    assert break_even_epsilon(truth, lambda e: Design(d=5, epsilon=e).keeps, 1000) == math.inf
