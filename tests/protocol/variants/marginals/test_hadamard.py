"""The transform against its definition, and marginals from few coefficients."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol.randomizers.binary import coefficients, subsets
from protocol.randomizers.walsh import wht
from protocol.variants.marginals.hadamard import (
    Coefficients,
    Noise,
    coefficient_places,
    from_coefficients,
    low_transform,
    marginal_tables,
)


def signs(m: int) -> NDArray[np.int64]:
    """The matrix of the definition: -1 where two numbers share an odd number of bits."""
    return np.array([[1 - 2 * ((x & y).bit_count() % 2) for x in range(2**m)] for y in range(2**m)])


def test_the_matrix_of_the_paper() -> None:
    # Figure 4, row 6: 1 1 -1 -1 -1 -1 1 1.
    assert wht(np.eye(8, dtype=np.int64))[6].tolist() == [1, 1, -1, -1, -1, -1, 1, 1]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 6), st.integers(1, 3), st.integers(0, 2**32))
def test_transform_is_its_definition(m: int, rows: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(-1000, 1000, (rows, 2**m))
    given_values = values.copy()
    found = wht(values)
    assert found is values
    np.testing.assert_array_equal(found, given_values @ signs(m))
    np.testing.assert_array_equal(wht(found), given_values * 2**m)
    floats = given_values / 7
    np.testing.assert_allclose(wht(floats.copy()), floats @ signs(m), atol=1e-10)


@pytest.mark.parametrize("values", [np.ones(3), np.ones((4, 6)), np.ones(()), np.ones((2, 0))])
def test_lengths_that_are_no_power_of_two_are_refused(values: NDArray[np.float64]) -> None:
    with pytest.raises(ValueError, match="power of 2"):
        wht(values)


def test_arrays_that_cannot_be_changed_in_place_are_refused() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        wht(np.ones((4, 4)).T[:, :2])
    with pytest.raises(ValueError, match="contiguous"):
        wht(np.ones(4, np.uint64))


@pytest.mark.parametrize("d", [1, 2, 5, 7])
def test_few_coefficients_are_those_of_the_whole(d: int) -> None:
    table = np.random.default_rng(d).integers(0, 100, 2**d)
    before = table.copy()
    for k in range(d + 1):
        found = low_transform(table, k)
        np.testing.assert_array_equal(found, wht(table.copy())[coefficients(d, k)])
    np.testing.assert_array_equal(table, before)
    assert low_transform(table.astype(np.int32), 1).dtype == np.int32
    for wrong in (table.reshape(1, -1), np.ones(3)):
        with pytest.raises(ValueError, match="shape"):
            low_transform(wrong, 1)
    for k in (-1, d + 1):
        with pytest.raises(ValueError, match="coefficients of"):
            low_transform(table, k)


@pytest.mark.parametrize(("d", "k"), [(3, 3), (5, 2), (6, 4)])
def test_marginals_from_coefficients_and_back(d: int, k: int) -> None:
    joint = np.random.default_rng(d).dirichlet(np.ones(2**d)).reshape((2,) * d)
    low = low_transform(joint.reshape(-1), k)
    assert low[0] == pytest.approx(1, abs=1e-14)
    for ways in range(1, k + 1):
        tables = marginal_tables(low, subsets(d, ways), d=d, k=k)
        for table, places in zip(tables, itertools.combinations(range(d), ways), strict=True):
            summed = joint.sum(axis=tuple(axis for axis in range(d) if axis not in places))
            np.testing.assert_allclose(table.reshape(summed.shape), summed, atol=1e-14)
        np.testing.assert_allclose(from_coefficients(wht(tables.copy())), tables, atol=1e-14)


def test_sets_that_have_no_coefficient_are_refused() -> None:
    for mask in (0b111, 0b1000):
        with pytest.raises(ValueError, match="at most 2 of 3"):
            coefficient_places(np.array([mask], np.uint32), d=3, k=2)
    with pytest.raises(ValueError, match="at most 2 of 3"):
        marginal_tables(np.ones(7), subsets(3, 3), d=3, k=2)


def test_table_covariance_is_the_transform_of_that_of_coefficients() -> None:
    reports = np.array([[9, 9, 9, 9], [1, 1, 9, 9]])
    place = np.arange(4)
    found = Coefficients(
        values=np.array([[1, 0.2, -0.4, 0.5], [1, 0.2, -0.4, 0.5]]),
        reports=reports,
        common=reports[:, place[:, None] | place],
        noise=Noise(own=3.0, shared=0.5, gain=0.5),
        n=40,
    )
    for population in (False, True):
        inner = found.covariance(population=population)
        outer = found.table_covariance(population=population)
        np.testing.assert_allclose(outer[0], signs(2) @ inner[0] @ signs(2) / 16, atol=1e-15)
        np.testing.assert_allclose(outer[0], outer[0].T, atol=1e-16)
        np.testing.assert_allclose(outer[0].sum(axis=0), 0, atol=1e-15)
        errors = found.table_errors(population=population)
        np.testing.assert_allclose(errors[0] ** 2, np.diagonal(outer[0]), atol=1e-15)
        # A coefficient of one report: its variance is not known, and so no cell's.
        assert np.isnan(inner[1, 1, 1])
        assert np.isnan(errors[1]).all()
        assert np.isnan(outer[1]).all()
