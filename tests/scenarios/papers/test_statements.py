"""Statements of the papers, on both sides: what has to hold of the experiments about them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from scenarios.papers.rr.shared import (
    adult_population,
    product_of_blocks,
    report,
    single_blocks,
)
from tests.scenarios.command import sottovoce
from tests.scripted import seeded

Rows = list[dict[str, Any]]


def run(name: str, *settings: str, options: tuple[str, ...] = ()) -> Rows:
    flags = [part for setting in settings for part in ("--set", setting)]
    rows: Rows = sottovoce("run", name, *flags, *options, "--json").json["rows"]
    return rows


def test_bounds_hold_as_often_as_they_say_and_not_at_another_level() -> None:
    for row in run("rr-largest-errors", "runs=400", "attribute=education"):
        found = row["measured"]
        # Three deviations of a share of 95 % among 400 runs.
        assert min(found["Definition 1 holds"], found["Definition 2 holds"]) > 0.917
        assert 0.917 < found["answers within their bound"] < 0.983
    wrong = run("rr-largest-errors", "runs=400", "attribute=education", "alpha=0.5")
    assert all(row["measured"]["answers within their bound"] < 0.75 for row in wrong)


def test_propagation_is_within_the_eigenvalue_ratio() -> None:
    for row in run("rr-matrix", "runs=20", "attribute=sex"):
        found = row["measured"]
        assert found["within the ratio"] == 1
        assert 1 < found["propagation"] <= found["eigenvalue ratio"]
        assert found["epsilon of (4)"] == pytest.approx(found["epsilon charged"])


def test_covariances_keep_their_order_and_no_other_measure_does() -> None:
    for row in run("rr-proposition-1"):
        found, by = row["measured"], row["measure"]
        exactly = found["largest distance from p p times that of the answers"] < 1e-9
        assert exactly == (by == "covariance")
        assert (found["in the same order"] == found["couples of pairs"]) == (by == "covariance")


def test_the_printed_diagonal_is_no_probability() -> None:
    for row in run("rr-matrices"):
        found = row["measured"]
        assert found["row sum of 6.3.1"] < 1
        assert 0 < found["p_C"] < 1
        assert not 0 <= found["p_C as printed"] <= 1
        assert found["epsilon of the cluster"] == pytest.approx(found["sum of epsilon_A"])


def test_relative_errors_grow_with_the_combinations() -> None:
    rows = [row["measured"] for row in run("rr-accuracy")]
    assert rows[0]["RR-Joint"] == rows[0]["RR-Independent"]
    assert all(one["RR-Joint"] < other["RR-Joint"] for one, other in pairwise(rows))
    assert rows[-1]["combinations"] == 1_814_400


def test_products_of_any_attributes_are_those_of_pairs() -> None:
    population = adult_population(None)
    estimate = report(population.records, single_blocks(population.survey, 0.7), seeded(3))
    product = product_of_blocks(estimate)
    names = population.survey.names
    first, second = (estimate.table(names[place], projection="clip").values for place in (0, 6))
    np.testing.assert_allclose(product((0, 6)), estimate.n * np.outer(first, second))
    three = product((6, 0, 3))
    assert three.shape == (2, 9, 15)
    np.testing.assert_allclose(three.sum(axis=2).T, product((0, 6)))


@pytest.mark.slow
def test_queries_on_more_attributes() -> None:
    rows = run("rr-query-sizes", "runs=2", "p=0.7", "attributes=3")
    errors = {row["method"]: row["measured"] for row in rows}
    assert len(errors) == 7
    assert all(len(found) == 4 for found in errors.values())
    joint, clusters, raw = (
        errors[method]["sigma 0.1"] for method in ("RR-Joint", "RR-Clusters", "Randomized")
    )
    assert joint < clusters < raw


def test_the_theorem_on_squared_errors_holds_and_its_remark_does_not() -> None:
    rows = run("ind-joint-theorem-3")
    for row in rows:
        found = row["measured"]
        middle = found["largest expected cell times V^2 (d-1)/d^2"]
        assert found["MSE of RR-Ind"] <= middle < found["V^2/d"]
    ratios = {row["d"]: row["measured"]["MAE over V/sqrt(d)"] for row in rows}
    assert ratios[20] < 0.1 * ratios[2]


def test_composed_matrices_cost_the_sum() -> None:
    for row in run("ind-joint-theorems", "epsilon=1", "sizes=9 x 7 x 2"):
        found = row["measured"]
        assert found["epsilon of the composed matrix"] == pytest.approx(3)
        assert found["largest distance of the inverses"] < 1e-9


def test_nothing_near_the_projection_is_better_by_the_elastic_net() -> None:
    for row in run("rrba-equation-7", "runs=10"):
        assert row["measured"]["better table found"] == 0
        assert row["measured"]["moved"] > 0.01


def test_an_estimate_needs_the_table_of_its_reports() -> None:
    for row in run("rrba-equation-4"):
        found = row["measured"]
        assert found["Equation 4 with the table of the reports"] < 1e-12
        assert found["with another table"] > 0.001


@pytest.mark.slow
def test_tables_that_agree_are_nearer() -> None:
    [row] = run("rrba-consistency", "runs=3", "network=survey", "p=0.5")
    found = row["measured"]
    assert found["disagreement"] > 0.05 > 1e-9 > found["disagreement afterwards"]
    assert found["l2, tables that agree"] < found["l2, each table projected"]


@pytest.mark.slow
def test_tables_that_agree_by_messages_have_the_law() -> None:
    settings = ("n=2000", "network=survey", "p=0.5")
    [law] = run("rrba-consistency", *settings, "runs=60")
    live = run("rrba-consistency", *settings, "repeats=12", options=("--by-messages",))
    for name, value in live[0]["measured"].items():
        error = np.hypot(law["standard_error"][name], live[0]["standard_error"][name])
        assert abs(value - law["measured"][name]) < 5 * error + 1e-9, name


def test_means_without_fakes_are_the_limit_of_virtual_rounds() -> None:
    rows = {row["virtual"]: row["measured"] for row in run("privkv-virtual", "data=Gaussian")}
    biases = [rows[virtual]["bias, squared"] for virtual in (0, 1, 2, 5, 20)]
    assert biases == sorted(biases, reverse=True)
    assert rows[20]["MSE of means"] == pytest.approx(rows[20]["debiased"], rel=0.02)


def test_expected_counts_give_the_truth_back_to_three_states_alone() -> None:
    for row in run("privkv-theorem-1"):
        found = row["measured"]
        assert found["means, maximum likelihood"] < 1e-6
        assert min(found["means, EM"], found["means, PrivKV"]) > 0.1
        assert found["frequencies, PrivKV"] < 1e-9
