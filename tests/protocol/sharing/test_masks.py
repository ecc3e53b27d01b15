"""Masks and additive shares: exact sums, and what is uniform whatever the values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import DTypeLike, NDArray

from protocol.sharing.masks import MAX_MODULUS, Bits, sum_modulo, zero_shares
from tests.scripted import seeded

SEED = bytes(range(32))
BITS: tuple[Bits, ...] = (16, 32)

seeds = st.lists(st.binary(min_size=32, max_size=32), max_size=4)
sizes = st.sampled_from(BITS)


@settings(deadline=None, max_examples=100)
@given(
    st.integers(0, 6),
    st.integers(1, 6),
    st.one_of(st.integers(1, 300), st.integers(1, MAX_MODULUS)),
)
def test_shares_sum_to_zero(cells: int, parties: int, modulus: int) -> None:
    shares = zero_shares(cells, parties=parties, modulus=modulus, stream=seeded())
    assert shares.shape == (parties, cells)
    assert (shares < modulus).all()
    assert [sum(column) % modulus for column in shares.T.tolist()] == [0] * cells
    assert sum_modulo(shares, modulus).tolist() == [0] * cells


@pytest.mark.parametrize(
    ("modulus", "dtype"),
    [(1, "u1"), (256, "u1"), (257, "u2"), (2**16, "u2"), (2**16 + 1, "u4"), (2**32, "u4")],
)
def test_shares_are_of_the_smallest_type(modulus: int, dtype: str) -> None:
    shares = zero_shares(3, parties=2, modulus=modulus, stream=seeded())
    assert shares.dtype == dtype
    assert sum_modulo(shares, modulus).dtype == dtype


@settings(deadline=None, max_examples=50)
@given(st.integers(1, MAX_MODULUS), st.integers(0, 50), st.sampled_from(["u1", "u2", "u4"]))
def test_rows_are_summed_without_overflow(modulus: int, n: int, dtype: DTypeLike) -> None:
    largest = int(np.iinfo(dtype).max)
    rows = np.full((n, 3), largest, dtype)
    assert sum_modulo(rows, modulus).tolist() == [n * largest % modulus] * 3


@pytest.mark.parametrize(
    "rows", [np.zeros(3, np.uint8), np.zeros((2, 3), np.int32), np.zeros((2, 3), np.uint64)]
)
def test_rows_that_are_no_residues_are_refused(rows: NDArray[np.uint32]) -> None:
    with pytest.raises(ValueError, match="rows of"):
        sum_modulo(rows, 5)
    with pytest.raises(ValueError, match="modulus"):
        sum_modulo(np.zeros((2, 3), np.uint8), 0)
