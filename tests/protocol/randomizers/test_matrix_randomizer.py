"""The randomizer of any matrix: exact weights, epsilon, and the sampler."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import KeepUniform, MatrixRandomizer
from protocol.crypto.randomness import WORDS

HALF = WORDS // 2
ROWS = [[0.7, 0.2, 0.1], [0.0, 0.6, 0.4], [0.25, 0.25, 0.5]]

sizes = st.integers(2, 40)
probabilities = st.floats(1e-6, 1 - 1e-6)


def test_matrix_of_probabilities_is_exact_to_a_word() -> None:
    randomizer = MatrixRandomizer.from_probabilities(ROWS)
    for weights, row in zip(randomizer.weights, ROWS, strict=True):
        assert sum(weights) == WORDS
        for weight, p in zip(weights, row, strict=True):
            assert abs(Fraction(weight, WORDS) - Fraction(p)) < Fraction(2, 2**53)
            assert (weight == 0) == (p == 0)
    np.testing.assert_allclose(randomizer.matrix(), ROWS, atol=1e-15)


def test_residual_goes_to_the_largest_entry_and_the_least_stays_positive() -> None:
    randomizer = MatrixRandomizer.from_probabilities([[1 - 1e-16, 1e-30], [1e-9, 1 - 1.5e-9]])
    assert randomizer.weights[0][1] == 1
    assert randomizer.weights[1][0] == round(Fraction(1e-9) * WORDS)
    assert sum(randomizer.weights[1]) == WORDS


@settings(deadline=None, max_examples=50)
@given(st.integers(2, 12), st.floats(0.01, 0.99))
def test_matrix_randomizer_of_a_keep_matrix_has_its_epsilon(size: int, p: float) -> None:
    keep = KeepUniform.with_keep(size, p=p)
    randomizer = MatrixRandomizer.from_probabilities(keep.matrix())
    assert randomizer.epsilon == pytest.approx(keep.epsilon, rel=1e-12)
    np.testing.assert_allclose(randomizer.matrix(), keep.matrix(), rtol=1e-12)


def test_epsilon_of_a_matrix_is_the_largest_over_columns() -> None:
    rows = [[0.5, 0.25, 0.25], [0.125, 0.75, 0.125], [0.25, 0.125, 0.625]]
    assert MatrixRandomizer.from_probabilities(rows).epsilon == math.log(6)
    assert MatrixRandomizer.from_probabilities(ROWS).epsilon == math.inf


@pytest.mark.parametrize(
    "rows",
    [
        [[1.0]],
        [[0.5, 0.5]],
        [0.5, 0.5],
        [[0.5, 0.5], [0.6, 0.5]],
        [[1.2, -0.2], [0.5, 0.5]],
        [[0.5, 0.5], [0.5, 0.5]],
        [[1.0, 0.0], [0.5, 0.5]],
        [[math.nan, 0.5], [0.5, 0.5]],
        [[math.inf, -math.inf], [0.5, 0.5]],
    ],
)
def test_matrices_that_are_no_randomization_are_refused(rows: list[list[float]]) -> None:
    with pytest.raises(ValueError, match=r"row|shape|singular|finite"):
        MatrixRandomizer.from_probabilities(rows)


@pytest.mark.parametrize(
    "weights",
    [
        ((HALF, HALF), (1, WORDS - 2)),
        ((HALF, HALF), (-1, WORDS + 1)),
        ((HALF, HALF), (1, 1, WORDS - 2)),
        ((HALF, HALF), (0, WORDS)),
        ((HALF, HALF), (HALF, HALF)),
        ((WORDS,),),
        (),
    ],
)
def test_weights_that_are_no_randomization_are_refused(
    weights: tuple[tuple[int, ...], ...],
) -> None:
    with pytest.raises(ValueError, match=r"row|singular"):
        MatrixRandomizer(weights)
