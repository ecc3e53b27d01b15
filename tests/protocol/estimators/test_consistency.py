"""Tables made to agree and extended: against dense projections, general solvers and exact laws."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.estimators.overlapping.consistency import (
    Agreement,
    Extension,
    disagreement,
    higher_marginal,
    reconcile,
)
from protocol.estimators.overlapping.overlaps import Names
from protocol.surveys.survey import Attribute, Survey
from tests.enumeration import Floats, summing, survey_of
from tests.protocol.variants.rrba.test_views import (
    PATTERNS,
    Case,
    case,
    cases,
    cell_weights,
    constraints,
    flat,
    marginal,
    nearest_by_solver,
    tables_of,
)


def distance(
    one: Mapping[Names, Floats], other: Mapping[Names, Floats], w: dict[Names, float]
) -> float:
    return math.sqrt(sum(w[names] * float(((one[names] - other[names]) ** 2).sum()) for names in w))


def assert_proper(tables: Mapping[Names, Floats], atol: float) -> None:
    for names, table in tables.items():
        assert table.min() >= 0
        assert table.sum() == pytest.approx(1, abs=1e-12)
        assert not table.flags.writeable, names
    for one, other in combinations(tables, 2):
        common = [name for name in one if name in other]
        np.testing.assert_allclose(
            marginal(one, tables[one], common), marginal(other, tables[other], common), atol=atol
        )


# Least squares


@settings(deadline=None, max_examples=60)
@given(cases())
def test_reconciled_tables_agree_and_are_not_farther_from_the_truth(one: Case) -> None:
    result = reconcile(one.raw, one.survey, weights=one.weights)
    assert result.converged
    assert result.residual <= 1e-12
    assert result.disagreement <= 1e-13
    assert list(result.tables) == list(one.raw)
    assert_proper(result.tables, 1e-13)
    before = distance(one.raw, one.exact, one.weights)
    assert distance(result.tables, one.exact, one.weights) <= before + 1e-10
    # Nearest points of a convex set: the whole triangle is obtuse there.
    moved = distance(result.tables, one.raw, one.weights)
    assert distance(result.tables, one.exact, one.weights) ** 2 <= before**2 - moved**2 + 1e-9


@pytest.mark.parametrize("method", ["least-squares", "ipf"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_exact_tables_come_back_unchanged(method: Agreement, pattern: tuple[str, ...]) -> None:
    one = case((2, 3, 2, 2), pattern, 2)
    result = reconcile(one.exact, one.survey, method=method, weights=one.weights)
    assert result.iterations == 1
    for names, table in one.exact.items():
        np.testing.assert_allclose(result.tables[names], table, atol=1e-14)
    # A second time nothing is left to do.
    raw = {names: np.abs(table) + 0.01 for names, table in one.raw.items()}
    once = reconcile(raw, one.survey, method=method)
    twice = reconcile(once.tables, one.survey, method=method)
    for names, table in once.tables.items():
        np.testing.assert_allclose(twice.tables[names], table, atol=1e-11)


@pytest.mark.parametrize("pattern", PATTERNS[:5])
@pytest.mark.parametrize("seed", [3, 4])
def test_least_squares_against_a_general_solver(pattern: tuple[str, ...], seed: int) -> None:
    one = case((2, 3, 2, 2), pattern, seed, noise=0.3)
    assert min(table.min() for table in one.raw.values()) < 0
    c, b = constraints(one.survey, list(one.raw))
    solved = nearest_by_solver(c, b, flat(one.exact), flat(one.raw), cell_weights(one))
    result = reconcile(one.raw, one.survey, weights=one.weights)
    np.testing.assert_allclose(flat(result.tables), solved, atol=5e-6)
    # The weights matter, by far more than that.
    even = reconcile(one.raw, one.survey)
    assert np.abs(flat(even.tables) - solved).max() > 1e-3


def test_a_single_table_is_projected_onto_the_simplex() -> None:
    survey = survey_of(2, 2)
    result = reconcile({("b", "a"): np.array([[0.6, 0.5], [-0.1, 0.0]])}, survey)
    wanted = np.array([[0.55, 0.45], [0, 0]])
    np.testing.assert_allclose(result.tables["b", "a"], wanted, atol=1e-12)


def test_reports_are_what_tables_weigh() -> None:
    """Two tables of one attribute: the mean by their numbers of reports, in closed form."""
    survey = survey_of(2, 2, 2)
    one, other = np.full((2, 2), [[0.3], [0.2]]), np.full((2, 2), [[0.1], [0.4]])
    tables: dict[Names, Floats] = {("a", "b"): one, ("a", "c"): other}
    result = reconcile(tables, survey, weights={("a", "b"): 300, ("a", "c"): 100})
    for table in result.tables.values():
        np.testing.assert_allclose(table.sum(axis=1), [0.5, 0.5], atol=1e-12)
    assert result.iterations == 1


def test_tables_agree_however_early_one_stops() -> None:
    one = case((3, 3, 3, 3), ("abc", "bcd", "cda", "dab"), 5, noise=0.3)
    result = reconcile(one.raw, one.survey, iterations=2)
    assert (result.iterations, result.converged) == (2, False)
    assert result.residual > 1e-6
    assert_proper(result.tables, 1e-12)
    assert "2 iterations" in repr(result)
    # With Dykstra's steps alone it takes 802, with momentum that is never restarted 577.
    assert reconcile(one.raw, one.survey).iterations < 250


def test_all_pairs_of_many_attributes() -> None:
    sizes = (2, 3, 4) * 4
    rng = np.random.default_rng(6)
    names = tuple("abcdefghijkl")
    survey = Survey(
        "many",
        tuple(
            Attribute(name=name, categories=tuple(str(code) for code in range(size)))
            for name, size in zip(names, sizes, strict=True)
        ),
    )
    law = [rng.dirichlet(np.ones(size)) for size in sizes]
    exact: dict[Names, Floats] = {
        (names[i], names[j]): np.outer(law[i], law[j]) for i, j in combinations(range(12), 2)
    }
    raw = {pair: table + 0.05 * rng.normal(size=table.shape) for pair, table in exact.items()}
    result = reconcile(raw, survey)
    assert result.converged
    assert result.iterations < 200
    assert disagreement(raw, survey) > 0.1
    assert disagreement(result.tables, survey) < 1e-12
    assert_proper(result.tables, 1e-12)


# IPF


@pytest.mark.parametrize("pattern", PATTERNS[:5])
def test_ipf_minimizes_the_divergence(pattern: tuple[str, ...]) -> None:
    one = case((2, 3, 2, 2), pattern, 7, noise=0.0)
    rng = np.random.default_rng(8)
    raw = {n: (t + 0.02) * rng.uniform(0.5, 2, t.shape) for n, t in one.exact.items()}
    result = reconcile(raw, one.survey, method="ipf", weights=one.weights)
    assert result.converged
    assert result.residual == result.disagreement <= 1e-12
    assert_proper(result.tables, 1e-11)
    # Optimality: w (ln X - ln T) is orthogonal to every move that keeps the tables agreed.
    c, _ = constraints(one.survey, list(raw))
    _, s, right = np.linalg.svd(c)
    moves = right[int((s > 1e-9).sum()) :]
    gradient = cell_weights(one) * np.log(flat(result.tables) / flat(raw))
    np.testing.assert_allclose(moves @ gradient, 0, atol=1e-9)
    assert np.abs(moves @ (gradient / cell_weights(one))).max() > 1e-3


def test_ipf_keeps_the_interactions_of_a_table() -> None:
    one = case((2, 2, 2), ("ab", "ac"), 9, noise=0.0)
    raw = {
        n: t + 0.05 * (1 + i) * np.array([[1, 2], [3, 1]])
        for i, (n, t) in enumerate(one.exact.items())
    }
    result = reconcile(raw, one.survey, method="ipf")
    for names, table in result.tables.items():
        ratios = [t[0, 0] * t[1, 1] / (t[0, 1] * t[1, 0]) for t in (table, raw[names])]
        assert ratios[0] == pytest.approx(ratios[1], rel=1e-9)


def test_ipf_keeps_zeros_and_says_when_nothing_is_left() -> None:
    survey = survey_of(2, 2, 2)
    zero, full = np.array([[0.0, 0.0], [0.3, 0.7]]), np.full((2, 2), 0.25)
    result = reconcile({("a", "b"): zero, ("a", "c"): full}, survey, method="ipf")
    assert_proper(result.tables, 1e-12)
    np.testing.assert_array_equal(result.tables["a", "c"], [[0, 0], [0.5, 0.5]])
    with pytest.raises(ValueError, match="no positive cell in common"):
        reconcile({("a", "b"): zero, ("a", "c"): zero[::-1]}, survey, method="ipf")
    with pytest.raises(ValueError, match="no positive cell in common"):
        reconcile({("a", "b"): np.zeros((2, 2))}, survey, method="ipf")
    with pytest.raises(ValueError, match="a negative entry"):
        reconcile({("a", "b"): full - 0.3}, survey, method="ipf")


# Higher marginals


def norm_by_solver(one: Case, names: str) -> Floats:
    """The least norm by SLSQP, from the truth."""
    survey = one.survey.project(tuple(names))
    rows, right = [], []
    for key, table in one.exact.items():
        if kept := [name for name in key if name in names]:
            rows.append(summing(survey, kept).T)
            right.append(marginal(key, table, kept).ravel())
    start = marginal(one.survey.names, one.truth, names).ravel()
    zero, even = np.zeros(len(start)), np.ones(len(start))
    solved = nearest_by_solver(np.vstack(rows), np.concatenate(right), start, zero, even)
    return solved.reshape(survey.sizes)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (("ab", "ac", "bc"), "abc"),
        (("ab", "ac", "bc"), "cab"),
        (("ab", "cd", "bd", "ca", "bc", "ad"), "dbca"),
        (("abc", "bcd", "cda"), "abd"),
        (("cab", "bd", "dc", "a"), "bcd"),
    ],
)
@pytest.mark.parametrize("seed", [10, 11, 12])
def test_the_least_norm_against_a_general_solver(
    pattern: tuple[str, ...], names: str, seed: int
) -> None:
    one = case((2, 3, 2, 2), pattern, seed)
    result = higher_marginal(one.exact, tuple(names), one.survey)
    assert result.converged
    assert result.residual < 1e-9
    assert result.values.min() >= 0
    np.testing.assert_allclose(result.values, norm_by_solver(one, names), atol=5e-6)


@settings(deadline=None, max_examples=30)
@given(cases(), st.sampled_from(["least-squares", "maximum-entropy"]), st.permutations("abcd"))
def test_known_marginals_are_kept(one: Case, method: Extension, order: list[str]) -> None:
    pairs = tables_of(one.survey, one.truth, ["ab", "bc", "cd", "da"])
    names = tuple(order)
    limits = {"iterations": 3000, "tolerance": 1e-7}
    result = higher_marginal(pairs, names, one.survey, method=method, **limits)  # type: ignore[arg-type]
    assert result.values.shape == tuple(one.survey.attribute(name).size for name in names)
    assert result.values.min() >= 0
    assert result.values.sum() == pytest.approx(1, abs=1e-9)
    assert not result.values.flags.writeable
    worst = max(
        float(np.abs(marginal(names, result.values, p) - table).max()) for p, table in pairs.items()
    )
    assert worst == pytest.approx(result.residual, abs=1e-12)
    assert worst < 1e-5
    # The truth is one of the candidates.
    same = marginal(one.survey.names, one.truth, names)
    if method == "least-squares":
        assert (result.values**2).sum() <= (same**2).sum() + 1e-6
    else:
        entropies = [-float((t[t > 0] * np.log(t[t > 0])).sum()) for t in (result.values, same)]
        assert entropies[0] >= entropies[1] - 1e-4


def test_maximum_entropy_of_a_chain_is_conditional_independence() -> None:
    one = case((2, 3, 4), ("ab", "bc"), 13)
    ab, bc = one.exact["a", "b"], one.exact["b", "c"]
    chain = ab[:, :, np.newaxis] * bc / ab.sum(axis=0)[:, np.newaxis]
    result = higher_marginal(one.exact, ("a", "b", "c"), one.survey, method="maximum-entropy")
    np.testing.assert_allclose(result.values, chain, atol=1e-12)
    assert result.iterations == 2
    # Signed, the least norm of a chain is a sum: here it is far from the product.
    least = higher_marginal(one.exact, ("a", "b", "c"), one.survey)
    assert np.abs(least.values - chain).max() > 1e-3


def test_a_table_that_has_all_attributes_is_summed_up() -> None:
    one = case((2, 3, 2, 2), ("cabd", "bc"), 14)
    methods: tuple[Extension, ...] = ("least-squares", "maximum-entropy")
    for method in methods:
        result = higher_marginal(one.exact, ("b", "c"), one.survey, method=method)
        assert (result.iterations, result.converged) == (0, True)
        wanted = marginal(("c", "a", "b", "d"), one.exact["c", "a", "b", "d"], "bc")
        np.testing.assert_allclose(result.values, wanted, atol=1e-15)


@pytest.mark.parametrize("method", ["least-squares", "maximum-entropy"])
def test_tables_that_agree_may_still_be_of_no_joint_table(method: Extension) -> None:
    """Three coins, each pair nearly always different: every two agree, all three cannot be."""
    survey = survey_of(2, 2, 2)
    differ = np.array([[0.01, 0.49], [0.49, 0.01]])
    tables: dict[Names, Floats] = {pair: differ for pair in (("a", "b"), ("b", "c"), ("a", "c"))}
    assert disagreement(tables, survey) == 0
    result = higher_marginal(tables, ("a", "b", "c"), survey, method=method, iterations=300)
    assert not result.converged
    assert result.residual > 0.1
    assert result.values.min() >= 0
    assert result.values.sum() == pytest.approx(1)
    assert "not converged" in repr(result)


def test_marginals_whose_zeros_exclude_each_other_are_refused() -> None:
    survey = survey_of(2, 2, 2)
    differ = np.array([[0.0, 0.5], [0.5, 0.0]])
    tables: dict[Names, Floats] = {pair: differ for pair in (("a", "b"), ("b", "c"), ("a", "c"))}
    with pytest.raises(ValueError, match="no table has the known marginals"):
        higher_marginal(tables, ("a", "b", "c"), survey, method="maximum-entropy")
    # What cannot be placed is missing from every sweep, but not from the total.
    partly: dict[Names, Floats] = {**tables, ("a", "c"): np.array([[0.1, 0.4], [0.4, 0.1]])}
    even = higher_marginal(partly, ("a", "b", "c"), survey, method="maximum-entropy", iterations=3)
    assert even.values.sum() == pytest.approx(1)
    assert even.residual == pytest.approx(0.4)
    result = higher_marginal(tables, ("a", "b", "c"), survey, iterations=300)
    assert not result.converged
    np.testing.assert_allclose(
        result.values, [[[0, 1 / 6], [1 / 6, 1 / 6]], [[1 / 6, 1 / 6], [1 / 6, 0]]], atol=1e-3
    )


def test_tables_after_reconciling_can_be_extended() -> None:
    one = case((2, 3, 2, 2), ("ab", "cd", "bd", "ca", "bc", "ad"), 15, noise=0.02)
    agreed = reconcile(one.raw, one.survey, weights=one.weights)
    result = higher_marginal(agreed.tables, ("d", "a", "b"), one.survey, method="maximum-entropy")
    for pair in (("a", "d"), ("a", "b")):
        np.testing.assert_allclose(
            marginal(("d", "a", "b"), result.values, pair), agreed.tables[pair], atol=1e-7
        )
    with pytest.raises(ValueError, match="reconcile"):
        higher_marginal(one.raw, ("d", "a", "b"), one.survey)


# What is refused

PAIR: dict[Names, Floats] = {("a", "b"): np.full((2, 2), 0.25)}
UNLIKE: dict[Names, Floats] = {
    ("a", "b"): np.full((2, 2), 0.25),
    ("a", "c"): np.array([[0.3, 0.3], [0.2, 0.2]]),
}


def test_limits_and_names_are_checked() -> None:
    survey = survey_of(2, 2, 2)
    for limits in ({"iterations": 0}, {"tolerance": -1.0}, {"tolerance": math.nan}):
        with pytest.raises(ValueError, match="iterations"):
            reconcile(PAIR, survey, **limits)
        with pytest.raises(ValueError, match="iterations"):
            higher_marginal(PAIR, ("a",), survey, **limits)
    with pytest.raises(ValueError, match="method 'lp'"):
        reconcile(PAIR, survey, method="lp")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="method 'lp'"):
        higher_marginal(PAIR, ("a",), survey, method="lp")  # type: ignore[arg-type]
    wrong: list[tuple[dict[Names, float], str]] = [
        ({}, "expected one for each table"),
        ({("a", "c"): 1.0}, "expected one for each table"),
        ({("a", "b"): 0.0}, "positive"),
        ({("a", "b"): math.inf}, "positive"),
    ]
    for weights, message in wrong:
        with pytest.raises(ValueError, match=message):
            reconcile(PAIR, survey, weights=weights)


@pytest.mark.parametrize(
    ("tables", "names", "message"),
    [
        (PAIR, (), "at least 1 attribute"),
        (PAIR, ("z",), "no attribute 'z'"),
        (PAIR, ("a", "c"), "no table has the attribute 'c'"),
        ({}, ("a",), "no table has the attribute 'a'"),
        (UNLIKE, ("a", "b"), "reconcile"),
        ({("a", "b"): np.full((2, 2), 0.3)}, ("a",), "reconcile"),
        ({("a", "b"): np.array([[0.6, 0.5], [-0.1, 0.0]])}, ("a", "b"), "reconcile"),
        ({("a", "b"): np.full((2, 3), 1 / 6)}, ("a",), "shape"),
    ],
)
def test_higher_marginals_that_are_none(
    tables: dict[Names, Floats], names: Names, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        higher_marginal(tables, names, survey_of(2, 2, 2))


def test_what_is_too_large_is_refused_before_it_is_made() -> None:
    large = survey_of(2, 2, 2000, 2000)
    pairs: dict[Names, Floats] = {
        ("a", "c"): np.full((2, 2000), 1 / 4000),
        ("d",): np.full(2000, 1 / 2000),
    }
    with pytest.raises(ValueError, match=r"8000000 cells: .* at most 4194304 cells"):
        higher_marginal(pairs, ("a", "c", "d"), large)
    wide = survey_of(*[8] * 8)
    with pytest.raises(ValueError, match="tables too large"):
        reconcile({tuple("abcdefg"): np.broadcast_to(8.0**-7, (8,) * 7)}, wide)
