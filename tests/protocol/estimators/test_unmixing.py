"""The inverses of randomization matrices as operators, against dense matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import Randomizer
from tests.enumeration import AB, NONE_ALIKE, ROWS, keep, matrix, summing


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(2, 5), min_size=1, max_size=3), st.floats(0.01, 0.99), st.data())
def test_operators_of_a_keep_randomizer_invert_every_marginal(
    sizes: list[int], p: float, data: st.DataObject
) -> None:
    kept = data.draw(st.permutations(range(len(sizes))))
    kept = kept[: data.draw(st.integers(1, len(sizes)))]
    inverse = keep(math.prod(sizes), p).unmixing(sizes, kept)
    cells = math.prod(sizes[place] for place in kept)
    assert inverse.cells == cells
    assert inverse.tabulated == tuple(kept)
    law = keep(cells, p).matrix()
    scale = 1 / p**2
    np.testing.assert_allclose(inverse.apply(law, 1), np.eye(cells), atol=1e-12 * scale)
    np.testing.assert_allclose(inverse.apply_transposed(law, 0), np.eye(cells), atol=1e-12 * scale)
    q = inverse.apply(np.eye(cells), 1)
    np.testing.assert_allclose(inverse.apply_squared(np.eye(cells), 1), q**2, atol=1e-12 * scale**2)


@pytest.mark.parametrize("kept", [(0,), (1,), (0, 1), (1, 0)])
def test_operators_of_a_matrix_invert_the_block_and_sum_out_the_rest(kept: tuple[int, ...]) -> None:
    randomizer = matrix(NONE_ALIKE)
    inverse = randomizer.unmixing((2, 3), kept)
    assert inverse.tabulated == (0, 1)
    names = ["ab"[place] for place in kept]
    np.testing.assert_allclose(
        inverse.apply(randomizer.matrix(), 1), summing(AB, names), atol=1e-12
    )
    q = inverse.apply(np.eye(6), 1)
    np.testing.assert_allclose(inverse.apply_squared(np.eye(6), 1), q**2, atol=1e-12)
    np.testing.assert_allclose(inverse.apply_transposed(np.eye(inverse.cells), 0), q, atol=1e-12)


@pytest.mark.parametrize(
    "randomizers",
    [(keep(2, 0.3), keep(4, 0.8)), (keep(2, 0.3), matrix(ROWS)), (matrix(ROWS), keep(5, 0.5))],
)
def test_mode_products_are_the_kronecker_product(randomizers: tuple[Randomizer, ...]) -> None:
    sizes = [randomizer.size for randomizer in randomizers]
    full = np.kron(*(np.linalg.inv(randomizer.matrix()) for randomizer in randomizers))
    table = np.arange(math.prod(sizes), dtype=np.float64).reshape(sizes) ** 2
    applied = squared = transposed = table
    for axis, randomizer in enumerate(randomizers):
        inverse = randomizer.unmixing((randomizer.size,), (0,))
        applied = inverse.apply(applied, axis)
        squared = inverse.apply_squared(squared, axis)
        transposed = inverse.apply_transposed(transposed, axis)
    np.testing.assert_allclose(applied.ravel(), table.ravel() @ full, rtol=1e-9)
    np.testing.assert_allclose(squared.ravel(), table.ravel() @ full**2, rtol=1e-9)
    np.testing.assert_allclose(transposed.ravel(), full @ table.ravel(), rtol=1e-9)


@pytest.mark.parametrize(
    ("sizes", "kept"), [((2, 4), (0,)), ((2, 3), ()), ((2, 3), (2,)), ((2, 3), (0, 0))]
)
def test_inverses_of_what_is_not_there_are_refused(
    sizes: tuple[int, ...], kept: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match=r"size|places"):
        keep(6, 0.5).unmixing(sizes, kept)
