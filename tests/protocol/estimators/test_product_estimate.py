"""Products of margins (RR-Ind): against enumeration, and what their errors are and are not."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import (
    Block,
    Counts,
    JointReports,
    KeepUniform,
    LinearEstimate,
    ProductEstimate,
    Stream,
    SurveyError,
    randomize_columns,
    secret_of,
)
from protocol.estimators.independent import product_mean_squared_error
from tests.enumeration import AB, BLOCKS, Floats, dense_law, every_outcome, keep, survey_of
from tests.statistical import ALPHA, WRONG, mean_p_value
from tests.tiers import thinned

ABC = survey_of(2, 3, 2)
TRUTH = [1, 5, 1]


def singles(*keeps: float, sizes: tuple[int, ...]) -> tuple[Block, ...]:
    pairs = zip("abcd"[: len(sizes)], sizes, keeps, strict=True)
    return tuple(Block((name,), keep(size, p)) for name, size, p in pairs)


def estimate_of(
    sizes: tuple[int, ...], keeps: tuple[float, ...], *, n: int = 500, seed: int = 1
) -> LinearEstimate[JointReports]:
    """From n dependent records (every attribute follows the first), randomized one by one."""
    survey, blocks = survey_of(*sizes), singles(*keeps, sizes=sizes)
    first = np.arange(n) % sizes[0]
    codes = np.stack([(first + (np.arange(n) % 7 == 0)) % size for size in sizes], axis=1)
    randomizers = tuple(block.randomizer for block in blocks)
    reports = randomize_columns(randomizers, codes.astype(np.uint8), Stream(secret_of(seed)))
    return LinearEstimate(JointReports(survey, blocks, Counts.of(reports, sizes)))


# Against enumeration and dense matrices


@pytest.mark.slow
@pytest.mark.parametrize("design", thinned(["independent", "mixed"], 1))
def test_mean_is_the_product_of_the_true_margins_over_every_outcome(design: str) -> None:
    blocks = BLOCKS[design]
    pi = (np.bincount(TRUTH, minlength=6) / 3).reshape(2, 3)
    product = np.multiply.outer(pi.sum(axis=1), pi.sum(axis=0))
    mean, flipped = np.zeros((2, 3)), np.zeros((3, 2))
    for probability, counts in every_outcome(AB, dense_law(AB, blocks), TRUTH):
        estimate = ProductEstimate(LinearEstimate(JointReports(AB, blocks, counts)))
        mean += probability * estimate.table("a", "b").values
        flipped += probability * estimate.table("b", "a").values
    np.testing.assert_allclose(mean, product, atol=1e-12)
    np.testing.assert_allclose(flipped, product.T, atol=1e-12)
    assert np.abs(product - pi).max() > 0.1


def test_mean_squared_error_is_exact_over_every_outcome() -> None:
    blocks = BLOCKS["independent"]
    pi = (np.bincount(TRUTH, minlength=6) / 3).reshape(2, 3)
    error = 0.0
    for probability, counts in every_outcome(AB, dense_law(AB, blocks), TRUTH):
        values = (
            ProductEstimate(LinearEstimate(JointReports(AB, blocks, counts))).table("a", "b").values
        )
        error += probability * float(np.mean((values - pi) ** 2))
    predicted = product_mean_squared_error(pi, [keep(2, 0.4), keep(3, 0.7)], 3)
    assert predicted.total == pytest.approx(error, rel=1e-10)
    product = np.multiply.outer(pi.sum(axis=1), pi.sum(axis=0))
    assert predicted.squared_bias == pytest.approx(np.mean((product - pi) ** 2), rel=1e-12)


def influences(estimate: LinearEstimate[JointReports]) -> tuple[Floats, Floats, Floats]:
    """Every report's influence on every cell by dense matrices, the reports' shares, the margins.

    Influences have one row per possible report and one column per cell of the whole table.
    """
    sizes = estimate.survey.sizes
    shares = estimate.source.counts.table(range(len(sizes))) / estimate.n
    inverses = [np.linalg.inv(block.randomizer.matrix()) for block in estimate.source.blocks]
    margins = [
        shares.sum(axis=tuple(k for k in range(len(sizes)) if k != j)) @ inverse
        for j, inverse in enumerate(inverses)
    ]
    cells = list(itertools.product(*map(range, sizes)))
    table = np.array(
        [
            [
                sum(
                    inverses[j][y[j], v[j]]
                    * math.prod(margins[k][v[k]] for k in range(len(sizes)) if k != j)
                    for j in range(len(sizes))
                )
                for v in cells
            ]
            for y in cells
        ]
    )
    product = np.array([math.prod(margins[j][v[j]] for j in range(len(sizes))) for v in cells])
    return table, shares.ravel(), product


@pytest.mark.parametrize(("sizes", "keeps"), [((2, 3), (0.5, 0.7)), ((2, 3, 2), (0.6, 0.4, 0.8))])
def test_errors_are_those_of_the_influences(
    sizes: tuple[int, ...], keeps: tuple[float, ...]
) -> None:
    joint = estimate_of(sizes, keeps)
    names = joint.survey.names
    table = ProductEstimate(joint).table(*names)
    per_report, shares, product = influences(joint)
    np.testing.assert_allclose(table.values.ravel(), product, atol=1e-12)
    sampled = shares @ per_report**2 - (shares @ per_report) ** 2
    np.testing.assert_allclose(table.population_errors.ravel() ** 2, sampled / joint.n, atol=1e-14)
    # Given the data: the reports' variance, less that of their means given the true record.
    truth = joint.table(*names).values.ravel()
    cells = list(itertools.product(*map(range, sizes)))
    margins = [joint.table(name).values for name in names]
    expected_given = np.array(
        [
            [
                sum(
                    (x[j] == v[j])
                    * math.prod(margins[k][v[k]] for k in range(len(sizes)) if k != j)
                    for j in range(len(sizes))
                )
                for v in cells
            ]
            for x in cells
        ]
    )
    among = truth @ expected_given**2 - (truth @ expected_given) ** 2
    np.testing.assert_allclose(
        table.standard_errors.ravel() ** 2, (sampled - among) / joint.n, atol=1e-14
    )


def test_tables_of_fewer_attributes_and_in_other_orders() -> None:
    estimate = ProductEstimate(estimate_of((2, 3, 4), (0.6, 0.7, 0.8)))
    whole = estimate.table("a", "b", "c")
    assert whole.values.shape == (2, 3, 4)
    np.testing.assert_allclose(whole.values.sum(), 1)
    for names in itertools.permutations("abc", 2):
        table = estimate.table(*names)
        rest = next(axis for axis, name in enumerate("abc") if name not in names)
        expected = whole.values.sum(axis=rest)
        if list(names) != sorted(names):
            expected = expected.T
        np.testing.assert_allclose(table.values, expected, atol=1e-12)
        assert table.names == names
        assert table.categories == tuple(estimate.survey.attribute(n).categories for n in names)
        mirrored = estimate.table(*reversed(names))
        np.testing.assert_allclose(table.standard_errors, mirrored.standard_errors.T)
        np.testing.assert_allclose(table.population_errors, mirrored.population_errors.T)
    single, same = estimate.table("b"), estimate.joint.table("b")
    np.testing.assert_array_equal(single.values, same.values)
    np.testing.assert_allclose(single.standard_errors, same.standard_errors)
    np.testing.assert_allclose(single.population_errors, same.population_errors)


def test_error_is_around_the_product_and_does_not_know_the_bias() -> None:
    joint = estimate_of((2, 2), (0.9, 0.9), n=100_000)
    table = ProductEstimate(joint).table("a", "b")
    truth = joint.table("a", "b").values
    assert np.abs(table.values - truth).max() > 20 * table.standard_errors.max()


def test_projection_is_applied_to_the_product() -> None:
    joint = estimate_of((2, 3), (0.1, 0.1), n=40)
    raw = ProductEstimate(joint).table("a", "b")
    assert raw.values.min() < 0
    clipped = ProductEstimate(joint).table("a", "b", projection="clip")
    np.testing.assert_allclose(clipped.values, raw.projected("clip").values)
    np.testing.assert_array_equal(clipped.standard_errors, raw.standard_errors)


# Groups


def test_groups_are_the_blocks_unless_given() -> None:
    blocks = (Block(("c", "a"), keep(4, 0.6)), Block(("b",), keep(3, 0.5)))
    codes = np.stack([np.arange(300) % size for size in ABC.sizes], axis=1).astype(np.uint8)
    joint = LinearEstimate(JointReports(ABC, blocks, Counts.of(codes, ABC.sizes)))
    estimate = ProductEstimate(joint)
    assert estimate.groups == (("c", "a"), ("b",))
    together, alone = joint.table("a", "c").values, joint.table("b").values
    expected = np.einsum("ac,b->abc", together, alone)
    np.testing.assert_allclose(estimate.table("a", "b", "c").values, expected)
    # Inside a group nothing is multiplied.
    np.testing.assert_allclose(estimate.table("c", "a").values, together.T)
    whole = ProductEstimate(joint, (("a", "b", "c"),))
    same = joint.table("a", "b", "c")
    np.testing.assert_allclose(whole.table("a", "b", "c").values, same.values)
    np.testing.assert_allclose(whole.table("a", "b", "c").standard_errors, same.standard_errors)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ((("a", "b"),), "exactly once"),
        ((("a", "c"), ("b",), ("b",)), "exactly once"),
        ((("a", "c"), ("b",), ()), "a cluster is empty"),
        ((("a",), ("b",), ("c",)), "randomized together"),
        ((("a", "c"), ("b", "x")), "no attribute"),
    ],
)
def test_groups_that_do_not_fit(groups: tuple[tuple[str, ...], ...], message: str) -> None:
    blocks = (Block(("a", "c"), keep(4, 0.6)), Block(("b",), keep(3, 0.5)))
    joint = LinearEstimate(
        JointReports(ABC, blocks, Counts.of(np.zeros((1, 3), np.uint8), ABC.sizes))
    )
    with pytest.raises(ValueError, match=message):
        ProductEstimate(joint, groups)


# Queries


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=20)
def test_query_is_the_weighted_table(seed: int) -> None:
    estimate = ProductEstimate(estimate_of((2, 3, 2), (0.6, 0.4, 0.8)))
    weights = np.random.default_rng(seed).normal(size=(3, 2, 2))
    names = ("b", "c", "a")
    answer = estimate.query(names, weights)
    assert answer.value == pytest.approx(np.sum(weights * estimate.table(*names).values))
    # One cell alone: the error of the table.
    cell = tuple(np.unravel_index(seed % 12, (3, 2, 2)))
    alone = np.zeros((3, 2, 2))
    alone[cell] = 1
    error = estimate.query(names, alone).standard_error
    assert error == pytest.approx(estimate.table(*names).standard_errors[cell], rel=1e-9)


def test_query_error_counts_dependent_cells_together() -> None:
    # A margin summed from the cells of a product: its error is the margin's own, though the
    # errors of the cells are larger together.
    estimate = ProductEstimate(estimate_of((2, 3), (0.6, 0.5)))
    weights = np.zeros((2, 3))
    weights[1] = 1
    answer = estimate.query(["a", "b"], weights)
    alone = estimate.table("a")
    assert answer.value == pytest.approx(alone.values[1])
    assert answer.standard_error == pytest.approx(alone.standard_errors[1])
    counted = estimate.count({"a": ["a1"], "b": ["b0", "b1", "b2"]})
    assert counted.standard_error == pytest.approx(alone.standard_errors[1] * estimate.n)


def test_refusals() -> None:
    estimate = ProductEstimate(estimate_of((2, 3), (0.6, 0.5)))
    with pytest.raises(ValueError, match="at least one attribute"):
        estimate.table()
    with pytest.raises(SurveyError, match="no attribute"):
        estimate.table("a", "x")
    with pytest.raises(SurveyError, match="named twice"):
        estimate.table("a", "a")
    with pytest.raises(ValueError, match="weights of shape"):
        estimate.query(["a"], [1.0])
    wide = survey_of(*[64] * 8)
    blocks = tuple(Block((name,), keep(64, 0.5)) for name in wide.names)
    counts = Counts.of(np.zeros((1, 8), np.uint8), wide.sizes)
    with pytest.raises(ValueError, match="281474976710656 cells"):
        ProductEstimate(LinearEstimate(JointReports(wide, blocks, counts))).table(*wide.names)
    with pytest.raises(ValueError, match="one axis"):
        product_mean_squared_error(np.full((2, 2), 0.25), [keep(2, 0.5)], 10)
    with pytest.raises(ValueError, match="one axis"):
        product_mean_squared_error(np.ones(()), [], 10)


# The law of the error


def runs_of(truth: Floats, randomizers: tuple[KeepUniform, ...], runs: int) -> Floats:
    """The squared error per cell of many repeats on the same records, which are in proportion."""
    n = 200
    counts = np.rint(truth * n).astype(int)
    codes = np.repeat(np.array(list(np.ndindex(truth.shape)), np.uint8), counts.ravel(), axis=0)
    survey = survey_of(*truth.shape)
    blocks = tuple(
        Block((name,), keep) for name, keep in zip(survey.names, randomizers, strict=True)
    )
    stream = Stream(secret_of(20))
    errors = []
    for _ in range(runs):
        reports = Counts.of(randomize_columns(randomizers, codes, stream), survey.sizes)
        table = ProductEstimate(LinearEstimate(JointReports(survey, blocks, reports))).table(
            *survey.names
        )
        errors.append(np.mean((table.values - truth) ** 2))
    return np.array(errors)


@pytest.mark.slow
def test_closed_form_is_the_error_of_repeated_runs() -> None:
    truth = np.array([[0.3, 0.1, 0.1], [0.1, 0.2, 0.2]])
    randomizers = (keep(2, 0.4), keep(3, 0.5))
    errors = runs_of(truth, randomizers, 4000)
    predicted = product_mean_squared_error(truth, randomizers, 200)
    assert mean_p_value(errors, predicted.total) > ALPHA
    wrong = product_mean_squared_error(truth, (keep(2, 0.4 * WRONG), randomizers[1]), 200)
    assert mean_p_value(errors, wrong.total) < ALPHA
    assert mean_p_value(errors, predicted.variance) < ALPHA


@given(
    st.lists(st.floats(0.05, 0.95), min_size=1, max_size=3),
    st.integers(1, 10**6),
    st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=40)
def test_only_the_variance_falls_with_n(keeps: list[float], n: int, seed: int) -> None:
    shape = (2, 3, 4)[: len(keeps)]
    truth = np.random.default_rng(seed).dirichlet(np.ones(math.prod(shape))).reshape(shape)
    randomizers = [keep(size, p) for size, p in zip(shape, keeps, strict=True)]
    few = product_mean_squared_error(truth, randomizers, n)
    many = product_mean_squared_error(truth, randomizers, 10 * n)
    assert 0 < many.variance < few.variance
    assert many.squared_bias == few.squared_bias
    assert few.total == few.variance + few.squared_bias
    if len(keeps) == 1:
        assert few.squared_bias == pytest.approx(0, abs=1e-30)
