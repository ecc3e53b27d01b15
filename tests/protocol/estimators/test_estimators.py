"""Joint estimates: unbiasedness and variances against enumeration, and their closed forms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from protocol import (
    Block,
    Counts,
    JointReports,
    KeepUniform,
    LinearEstimate,
    Stream,
    Survey,
    join_codes,
    secret_of,
    split_codes,
)
from protocol.crypto.randomness import WORDS
from protocol.estimators.inference.laws import About
from protocol.estimators.joint import mean_squared_error
from tests.enumeration import (
    AB,
    BLOCKS,
    FAKED,
    Floats,
    dense_law,
    every_outcome,
    keep,
    summing,
    survey_of,
)
from tests.tiers import paired

DESIGNS = BLOCKS | FAKED

# The estimate against enumeration of everything that can be reported


@pytest.mark.parametrize(
    ("design", "names"), paired([*DESIGNS], [("a",), ("b",), ("a", "b"), ("b", "a")])
)
def test_estimate_and_variance_are_exact_over_every_outcome(
    design: str, names: tuple[str, ...]
) -> None:
    blocks = DESIGNS[design]
    law = dense_law(AB, blocks)
    full = np.linalg.inv(law) @ summing(AB, names)
    truth = [1, 5, 1]
    shape = [AB.attribute(name).size for name in names]
    pi = (np.bincount(truth, minlength=6) / 3) @ summing(AB, names)
    total, mean, second = 0.0, np.zeros(shape), np.zeros(shape)
    for probability, counts in every_outcome(AB, law, truth):
        table = LinearEstimate(JointReports(AB, blocks, counts)).table(*names)
        shares = counts.table((0, 1)).ravel() / 3
        value = shares @ full
        given_data = (shares @ full**2 - value) / 3
        sampled = (shares @ full**2 - value**2) / 3
        np.testing.assert_allclose(table.values.ravel(), value, atol=1e-12)
        # A root doubles the error of a variance of nearly zero: compare squares.
        kinds: tuple[tuple[About, Floats, Floats], ...] = (
            ("respondents", table.standard_errors, given_data),
            ("population", table.population_errors, sampled),
        )
        for about, errors, variances in kinds:
            found = table.covariance(about).diagonal()
            np.testing.assert_allclose(found, variances, atol=1e-12)
            # Of so few reports an error is often unknown.
            unknown = np.isnan(errors.ravel())
            assert unknown[variances < 1e-10].all()
            np.testing.assert_allclose(
                errors.ravel()[~unknown] ** 2, variances[~unknown], atol=1e-12
            )
        total += probability
        mean += probability * table.values
        second += probability * table.values**2
    assert total == pytest.approx(1)
    np.testing.assert_allclose(mean.ravel(), pi, atol=1e-12)
    # The law of the reports given the data, in the formula that the standard errors estimate.
    shares = np.bincount(truth, minlength=6) / 3 @ law
    exact = (shares @ full**2 - pi) / 3
    np.testing.assert_allclose((second - mean**2).ravel(), exact, atol=1e-12)


@pytest.mark.parametrize("design", BLOCKS)
def test_population_variance_is_exact_over_every_sample_and_outcome(design: str) -> None:
    blocks = BLOCKS[design]
    law = dense_law(AB, blocks)
    full = np.linalg.inv(law)
    population = np.array([0.1, 0.25, 0.05, 0.3, 0.1, 0.2])
    second = np.zeros(6)
    mean = np.zeros(6)
    for truth in itertools.product(range(6), repeat=2):
        for reports in itertools.product(range(6), repeat=2):
            chance = math.prod(
                population[x] * law[x, y] for x, y in zip(truth, reports, strict=True)
            )
            estimate = full[list(reports)].mean(axis=0)
            mean += chance * estimate
            second += chance * estimate**2
    np.testing.assert_allclose(mean, population, atol=1e-12)
    exact = ((population @ law) @ full**2 - population**2) / 2
    np.testing.assert_allclose(second - mean**2, exact, atol=1e-12)


# The estimate on expected reports, where it must give the truth


def halved(survey: Survey, parts: Sequence[str]) -> tuple[Block, ...]:
    """Blocks of attributes with names of one letter, each block kept with a = 1/2."""
    blocks = []
    for part in parts:
        names = tuple(part)
        blocks.append(Block(names, keep(math.prod(survey.project(names).sizes), 0.5)))
    return tuple(blocks)


def expected_counts(survey: Survey, blocks: Sequence[Block]) -> tuple[Counts, Floats]:
    """Counts in exact proportion to the law of the reports, and the true proportions."""
    answers = np.arange(1, survey.cells + 1) ** 2 % 11 + 1
    # With a = 1/2 every entry of P is a multiple of 1 / (2r).
    scale = math.prod(2 * block.randomizer.size for block in blocks)
    law = np.rint(dense_law(survey, blocks) * scale).astype(np.int64)
    frequencies = answers @ law
    codes = split_codes(np.arange(survey.cells, dtype=np.uint64), survey.sizes)
    counts = Counts(survey.sizes, codes, frequencies, int(frequencies.sum()))
    return counts, (answers / answers.sum()).reshape(survey.sizes)


@pytest.mark.parametrize(
    "parts", [("a", "b", "c"), ("abc",), ("ca", "b"), ("c", "ba"), ("b", "c", "a")]
)
def test_any_table_in_any_order_is_the_truth_on_expected_reports(parts: tuple[str, ...]) -> None:
    survey = survey_of(2, 3, 4)
    blocks = halved(survey, parts)
    counts, truth = expected_counts(survey, blocks)
    estimate = LinearEstimate(JointReports(survey, blocks, counts))
    for length in (1, 2, 3):
        for names in itertools.permutations("abc", length):
            table = estimate.table(*names)
            assert table.names == names
            assert table.categories == tuple(survey.attribute(n).categories for n in names)
            rest = tuple(axis for axis, name in enumerate("abc") if name not in names)
            kept = sorted(names)
            expected = truth.sum(axis=rest).transpose([kept.index(name) for name in names])
            np.testing.assert_allclose(table.values, expected, atol=1e-12)


def test_example_of_rr_ind_joint() -> None:
    # Kikuchi and Domingo-Ferrer, 3.3, on the frequencies observed there: 3, 2, 2, 3 of 10.
    survey = survey_of(2, 2)
    codes = np.repeat(np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.uint8), [3, 2, 2, 3], axis=0)
    blocks = tuple(Block((name,), KeepUniform.with_diagonal(2, diagonal=0.75)) for name in "ab")
    estimate = LinearEstimate(JointReports(survey, blocks, Counts.of(codes, (2, 2))))
    np.testing.assert_allclose(
        estimate.table("a", "b").values, [[0.45, 0.05], [0.05, 0.45]], atol=1e-12
    )
    np.testing.assert_allclose(estimate.table("a").values, [0.5, 0.5], atol=1e-12)


def test_a_table_sums_to_the_tables_of_its_attributes() -> None:
    survey = survey_of(3, 2, 4)
    codes = Stream(secret_of(5)).integers(np.array(survey.sizes), (500, 3)).astype(np.uint8)
    blocks = (Block(("c", "a"), keep(12, 0.3)), Block(("b",), keep(2, 0.6)))
    estimate = LinearEstimate(JointReports(survey, blocks, Counts.of(codes, survey.sizes)))
    whole = estimate.table("b", "c", "a").values
    np.testing.assert_allclose(whole.sum(), 1, atol=1e-12)
    np.testing.assert_allclose(whole.sum(axis=1), estimate.table("b", "a").values, atol=1e-12)
    assert list(estimate.marginals()) == ["a", "b", "c"]
    for name, table in estimate.marginals().items():
        np.testing.assert_allclose(table.values, estimate.table(name).values, atol=0)
    pairs = estimate.pairs("clip")
    assert [table.names for table in pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert {table.projection for table in pairs} == {"clip"}
    assert repr(estimate) == "<LinearEstimate from <JointReports: n=500, 2 blocks>>"


@pytest.mark.slow
def test_rr_joint_on_the_whole_domain_of_adult() -> None:
    survey = survey_of(9, 16, 7, 15, 6, 5, 2, 2)
    n = 2000
    stream = Stream(secret_of(6))
    true = stream.integers(np.array(survey.sizes), (n, 8)).astype(np.uint8)
    randomizer = keep(survey.cells, 0.5)
    joint = randomizer.randomize(join_codes(true, survey.sizes), stream)
    counts = Counts.of(split_codes(joint, survey.sizes), survey.sizes)
    table = LinearEstimate(JointReports(survey, (Block(survey.names, randomizer),), counts)).table(
        *survey.names
    )
    assert table.values.shape == survey.sizes
    assert table.values.sum() == pytest.approx(1, abs=1e-9)
    rest = -(WORDS - randomizer.threshold) / (randomizer.threshold * survey.cells)
    assert table.values.min() == pytest.approx(rest, rel=1e-9)
    # No cell has more than a report or two, so hardly an error is known.
    assert np.isnan(table.standard_errors).mean() > 0.999
    # The estimated variances add up to the closed form, whatever was reported.
    few = LinearEstimate(JointReports(survey, (Block(survey.names, randomizer),), counts)).table(
        "a", "b"
    )
    expected = mean_squared_error([keep(9 * 16, 0.5)], n)
    assert few.covariance().diagonal().mean() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ((Block(("a",), keep(2, 0.5)),), "exactly once"),
        ((Block(("a", "b"), keep(6, 0.5)), Block(("a",), keep(2, 0.5))), "exactly once"),
        ((Block(("a",), keep(2, 0.5)), Block(("b",), keep(2, 0.5))), "size 2, expected 3"),
        ((Block(("a", "c"), keep(6, 0.5)),), "no attribute 'c'"),
        ((Block(("a", "b"), keep(6, 0.5)), Block((), keep(2, 0.5))), "a cluster is empty"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(blocks: tuple[Block, ...], message: str) -> None:
    counts = Counts.of(np.zeros((1, 2), np.uint8), (2, 3))
    with pytest.raises(ValueError, match=message):
        LinearEstimate(JointReports(AB, blocks, counts))


def test_counts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="sizes"):
        LinearEstimate(
            JointReports(AB, BLOCKS["joint"], Counts.of(np.zeros((1, 2), np.uint8), (3, 2)))
        )
    with pytest.raises(ValueError, match="no report"):
        LinearEstimate(
            JointReports(AB, BLOCKS["joint"], Counts.of(np.zeros((0, 2), np.uint8), (2, 3)))
        )


# Closed forms of the error, and the whole chain by sampling


def test_closed_forms_of_the_papers() -> None:
    a, cells, n = 0.4, 12, 1000
    joint = (1 / a**2 - 1) * (1 - 1 / cells) / (n * cells)
    assert mean_squared_error([keep(cells, a)], n) == pytest.approx(joint, rel=1e-12)
    product = ((1 + (1 / 0.09 - 1) * (1 / 2)) * (1 + (1 / 0.64 - 1) * (2 / 3)) - 1) / (n * 6)
    assert mean_squared_error([keep(2, 0.3), keep(3, 0.8)], n) == pytest.approx(product, rel=1e-12)
    with pytest.raises(ValueError, match="at least 1"):
        mean_squared_error([], n)
    with pytest.raises(ValueError, match="at least 1"):
        mean_squared_error([keep(2, 0.5)], 0)


@pytest.mark.parametrize("design", ["independent", "joint"])
def test_closed_form_is_the_mean_variance_of_the_exact_law(design: str) -> None:
    blocks = BLOCKS[design]
    law = dense_law(AB, blocks)
    full = np.linalg.inv(law)
    truth = np.array([0.5, 0, 0, 0.25, 0.25, 0])
    variances = ((truth @ law) @ full**2 - truth) / 4
    randomizers = [block.randomizer for block in blocks]
    assert mean_squared_error(randomizers, 4) == pytest.approx(variances.mean(), rel=1e-12)
