"""Wald's test against the delta method and its level; Chow-Liu trees against all trees."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from protocol import ExactTables, LinearEstimate, Records, Survey, SurveyError, exact_test
from protocol.estimators.dependence.association import wald_test
from protocol.estimators.dependence.trees import ChowLiuTree, chow_liu, mutual_information
from protocol.randomizers.marginals import MarginalPlan, MarginalReports, Method
from protocol.variants.marginals.counts import MarginalCounts
from protocol.variants.marginals.estimate import ReleasedMarginals
from tests.enumeration import survey_of
from tests.scripted import seeded
from tests.statistical import ALPHA, WRONG, mean_p_value

Floats = NDArray[np.float64]
SURVEY = survey_of(2, 3, 2, 2)


def chained(n: int = 400) -> Records:
    """Records in which b and d depend on c, and a on b."""
    generator = np.random.default_rng(1)
    c = generator.integers(0, 2, n)
    b = (c + (generator.random(n) < 0.3) + (generator.random(n) < 0.1)) % 3
    a = (b > 0) ^ (generator.random(n) < 0.2)
    d = c ^ (generator.random(n) < 0.1)
    return Records(SURVEY, np.stack([a, b, c, d], axis=1).astype(np.int64))


def exactly(records: Records) -> LinearEstimate[ExactTables]:
    names = records.survey.names
    return LinearEstimate(ExactTables(records.survey, {names: records.counts(names)}))


# Wald's test


@pytest.mark.parametrize("shape", [(2, 2), (2, 3), (3, 4)])
def test_statistic_is_that_of_the_delta_method(shape: tuple[int, int]) -> None:
    generator = np.random.default_rng(3)
    cells = shape[0] * shape[1]
    table = generator.dirichlet(np.ones(cells)).reshape(shape) * 1.07
    root = generator.normal(size=(cells, cells)) / 50
    covariance = root @ root.T

    def distance(flat: Floats) -> Floats:
        t = flat.reshape(shape)
        return (t.sum() * t - np.outer(t.sum(axis=1), t.sum(axis=0)))[:-1, :-1].reshape(-1)

    step = 1e-6
    slope = np.array(
        [
            (distance(table.reshape(-1) + step * e) - distance(table.reshape(-1) - step * e))
            / (2 * step)
            for e in np.eye(cells)
        ]
    ).T
    d = distance(table.reshape(-1))
    expected = d @ np.linalg.solve(slope @ covariance @ slope.T, d)
    found = wald_test(table, covariance)
    freedom = (shape[0] - 1) * (shape[1] - 1)
    assert found.statistic == pytest.approx(expected, rel=1e-7)
    assert found.degrees is not None
    assert int(found.degrees) == freedom
    assert found.p_value == pytest.approx(stats.chi2.sf(expected, freedom), rel=1e-7)
    # Which attribute comes first and the unit of the table are no part of it.
    turned = np.arange(cells).reshape(shape).T.reshape(-1)
    other = wald_test(table.T, covariance[np.ix_(turned, turned)])
    assert other.statistic == pytest.approx(expected, rel=1e-7)
    scaled = wald_test(table * 9, covariance * 81)
    assert scaled.statistic == pytest.approx(expected, rel=1e-7)
    many = wald_test(np.stack([table, 9 * table]), np.stack([covariance, 81 * covariance]))
    np.testing.assert_allclose(many.statistic, expected, rtol=1e-7)


def test_of_exact_shares_it_is_close_to_pearson_s() -> None:
    counts = np.array([[260, 240], [230, 270]])
    shares = counts.reshape(-1) / 1000
    covariance = (np.diag(shares) - np.outer(shares, shares)) / 1000
    found = wald_test(counts / 1000, covariance)
    assert found.statistic == pytest.approx(float(exact_test(counts).statistic), rel=0.01)


def wald_statistics(method: Method, *, lift: float, runs: int) -> list[float]:
    """Of randomized reports of 600 respondents on two attributes, independent for no lift."""
    n = 600
    plan = MarginalPlan.with_epsilon(method, d=2, k=2, epsilon=3.0)
    law = np.outer([0.4, 0.6], [0.7, 0.3]) + lift * np.array([[0.25, -0.25], [-0.25, 0.25]])
    cells = np.random.default_rng(4).choice(4, n * runs, p=law.reshape(-1)).astype(np.uint8)
    choices, answers = plan.randomize(cells, seeded(3))
    tables, covariances = [], []
    for run in range(runs):
        cut = slice(run * n, (run + 1) * n)
        counts = MarginalCounts.of(plan, MarginalReports(choices[cut], answers[cut]))
        estimate = LinearEstimate(ReleasedMarginals(survey=survey_of(2, 2), counts=counts))
        tables.append(estimate.table("a", "b").values)
        covariances.append(estimate.source.covariance("a", "b", population=True))
    return wald_test(np.array(tables), np.array(covariances)).statistic.tolist()


@pytest.mark.slow
def test_level_and_power() -> None:
    methods: list[Method] = ["InpHT", "MargPS", "MargRR"]
    alike = [s for method in methods for s in wald_statistics(method, lift=0.0, runs=1200)]
    law = stats.chi2(1)
    assert stats.kstest(alike, law.cdf).pvalue > ALPHA
    assert mean_p_value(alike, 1.0) > ALPHA
    # With standard errors that are 10 % too small.
    assert mean_p_value(np.array(alike) * WRONG**2, 1.0) < ALPHA
    for method in methods:
        assert stats.kstest(wald_statistics(method, lift=0.2, runs=100), law.cdf).pvalue < ALPHA


def test_tables_without_a_test_are_refused() -> None:
    table = np.full((2, 2), 0.25)
    for spread, message in (
        (np.full((4, 4), np.inf), "not finite"),
        (np.zeros((4, 4)), "not positive definite"),
    ):
        with pytest.raises(ValueError, match=message):
            wald_test(table, spread)


# Mutual information


def test_information_of_round_tables() -> None:
    assert mutual_information(np.eye(4) / 4) == pytest.approx(math.log(4), rel=1e-15)
    assert mutual_information(np.full((3, 5), 1 / 15)) == 0
    assert mutual_information(np.array([[0.25, 0.25], [0.0, 0.5]])) == pytest.approx(
        0.25 * math.log(2) + 0.25 * math.log(2 / 3) + 0.5 * math.log(4 / 3), rel=1e-14
    )
    tiny = 1e-300
    assert mutual_information(np.array([[tiny, 0.0], [0.0, 1.0]])) == pytest.approx(0.0, abs=1e-297)


# Trees


def joint_of(tree: ChowLiuTree) -> Floats:
    """The whole distribution, by einsum."""
    names = tree.survey.names
    factors = [(tree.root, names[:1]), *zip(tree.conditionals, tree.edges, strict=True)]
    operands = [part for table, axes in factors for part in (table, list(map(names.index, axes)))]
    return np.asarray(np.einsum(*operands, list(range(len(names)))))


def entropy(shares: Floats) -> float:
    positive = shares[shares > 0]
    return -float((positive * np.log(positive)).sum())


def test_of_all_trees_it_is_the_likeliest() -> None:
    records = chained()
    exact = exactly(records)
    tree = chow_liu(exact)
    information = {
        pair: mutual_information(records.distribution(pair))
        for pair in itertools.combinations(SURVEY.names, 2)
    }
    totals = {}
    for edges in itertools.combinations(information, 3):
        parts = {name: {name} for name in SURVEY.names}
        for first, second in edges:
            union = parts[first] | parts[second]
            parts.update(dict.fromkeys(union, union))
        if len(parts["a"]) == 4:
            totals[edges] = sum(information[edge] for edge in edges)
    assert len(totals) == 16
    best = max(totals, key=lambda edges: totals[edges])
    assert {frozenset(edge) for edge in tree.edges} == {frozenset(edge) for edge in best}
    assert tree.edges == (("a", "b"), ("b", "c"), ("c", "d"))
    assert sum(tree.information) == pytest.approx(totals[best], rel=1e-14)
    # The mean log-likelihood of a tree of exact tables: its information less all entropies.
    entropies = sum(entropy(records.distribution([name])) for name in SURVEY.names)
    assert tree.log_likelihood(records) == pytest.approx(totals[best] - entropies, rel=1e-13)
    joint = joint_of(tree)
    assert joint.sum() == pytest.approx(1, abs=1e-14)
    by_record = np.log(joint[tuple(records.codes.T)]).mean()
    assert tree.log_likelihood(records) == pytest.approx(by_record, rel=1e-13)
    for edge in tree.edges:
        axes = SURVEY.axes(edge)
        summed = joint.sum(axis=tuple(axis for axis in range(4) if axis not in axes))
        np.testing.assert_allclose(summed, records.distribution(edge), atol=1e-14)


def test_a_child_may_come_before_its_parent_in_the_survey() -> None:
    records = chained()
    reordered = records.survey.project(("c", "a", "d", "b"))
    turned = Records(reordered, records.codes[:, [2, 0, 3, 1]])
    tree = chow_liu(exactly(turned))
    assert set(tree.edges) == {("c", "b"), ("c", "d"), ("b", "a")}
    expected = chow_liu(exactly(records))
    np.testing.assert_allclose(joint_of(tree), joint_of(expected).transpose(2, 0, 3, 1), atol=1e-14)
    # Records of more attributes, in another order, will do.
    assert tree.log_likelihood(records) == pytest.approx(expected.log_likelihood(turned), rel=1e-13)


def test_ties_go_to_the_first_pairs() -> None:
    survey = survey_of(2, 2, 2, 2, 2)
    codes = np.array(list(itertools.product((0, 1), repeat=5)))
    tree = chow_liu(exactly(Records(survey, codes)))
    assert tree.edges == (("a", "b"), ("a", "c"), ("a", "d"), ("a", "e"))
    assert tree.information == (0.0,) * 4


def test_mixing_leaves_no_record_impossible() -> None:
    survey = survey_of(2, 3)
    exact = exactly(Records(survey, np.array([[0, 0], [0, 1]])))
    other = Records(survey, np.array([[1, 2], [0, 0]]))
    tree = chow_liu(exact)
    assert tree.log_likelihood(other) == -math.inf
    np.testing.assert_array_equal(tree.conditionals[0], [[0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]])
    mixed = chow_liu(exact, mix=0.3)
    expected = 0.7 * np.array([[0.5, 0.5, 0], [0, 0, 0]]) + 0.3 / 6
    np.testing.assert_allclose(joint_of(mixed), expected, atol=1e-15)
    assert mixed.log_likelihood(other) == pytest.approx(np.log([0.05, 0.4]).mean(), rel=1e-13)


def test_a_chain_is_found_from_randomized_reports() -> None:
    survey = survey_of(2, 2, 2, 2, 2, 2)
    generator = np.random.default_rng(5)
    columns = [generator.integers(0, 2, 60_000)]
    for _ in range(5):
        columns.append(columns[-1] ^ (generator.random(60_000) < 0.2))
    codes = np.stack(columns, axis=1)
    plan = MarginalPlan.with_epsilon("InpHT", d=6, k=2, epsilon=2.0)
    cells = (codes @ (2 ** np.arange(6)[::-1])).astype(np.uint8)
    counts = MarginalCounts.of(plan, plan.randomize(cells, seeded(2)))
    tree = chow_liu(LinearEstimate(ReleasedMarginals(survey=survey, counts=counts)), mix=0.01)
    assert tree.edges == tuple(itertools.pairwise("abcdef"))
    best = chow_liu(exactly(Records(survey, codes)))
    records = Records(survey, codes)
    gap = best.log_likelihood(records) - tree.log_likelihood(records)
    assert 0 < gap < 0.02


def test_what_is_no_tree_is_refused() -> None:
    exact = exactly(chained())
    for mix in (-0.1, 1.0, math.nan):
        with pytest.raises(ValueError, match="mix"):
            chow_liu(exact, mix=mix)
    partial = LinearEstimate(ExactTables(SURVEY, {("a", "b"): exact.source.exact("a", "b")}))
    with pytest.raises(ValueError, match="every pair"):
        chow_liu(partial)
    single = Survey("one", SURVEY.attributes[:1])
    with pytest.raises(ValueError, match="at least 2 attributes"):
        chow_liu(LinearEstimate(ExactTables(single, {("a",): exact.source.exact("a")})))


def test_records_of_other_attributes_are_refused() -> None:
    tree = chow_liu(exactly(chained()))
    with pytest.raises(SurveyError, match="no attribute"):
        tree.log_likelihood(Records(survey_of(2, 3, 2), np.zeros((1, 3), np.int64)))
