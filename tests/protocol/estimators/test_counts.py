"""Counts of randomized records: canonical form and tables."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol import Counts, Stream, secret_of


@settings(deadline=None, max_examples=100)
@given(st.sampled_from([(2, 3), (300, 2), (2**20, 2**20, 2**30), (2**40, 2**40), (7,)]), st.data())
def test_counts_are_those_of_a_counter_in_any_order(
    sizes: tuple[int, ...], data: st.DataObject
) -> None:
    row = st.tuples(*(st.sampled_from(sorted({0, 1, r - 1})) for r in sizes))
    rows = data.draw(st.lists(row, max_size=30))
    codes = np.array(rows, np.uint64).reshape(-1, len(sizes))
    counts = Counts.of(codes, sizes)
    expected = sorted(Counter(rows).items())
    assert counts.codes.tolist() == [list(row) for row, _ in expected]
    assert counts.counts.tolist() == [count for _, count in expected]
    assert counts.n == len(rows)
    shuffled = Counts.of(codes[Stream(bytes(32)).permutation(len(rows))], sizes)
    assert shuffled.codes.tobytes() == counts.codes.tobytes()
    assert shuffled.counts.tobytes() == counts.counts.tobytes()
    assert shuffled.codes.dtype == counts.codes.dtype


def test_dense_and_sparse_counting_agree() -> None:
    sizes = (3, 4, 2)
    codes = Stream(secret_of(3)).integers(np.array(sizes), (200, 3)).astype(np.uint8)
    dense = Counts.of(codes, sizes)
    # The same records on larger domains are counted by sorting.
    sparse = Counts.of(codes, (200, 200, 200))
    np.testing.assert_array_equal(dense.codes, sparse.codes)
    np.testing.assert_array_equal(dense.counts, sparse.counts)
    assert dense.codes.dtype == sparse.codes.dtype == np.uint8


def test_tables_of_counts_follow_the_order_given() -> None:
    codes = np.array([[0, 2, 1], [0, 2, 0], [1, 0, 1], [0, 2, 1]], np.uint8)
    counts = Counts.of(codes, (2, 3, 2))
    table = counts.table((1, 0))
    assert table.dtype == np.int64
    assert table.tolist() == [[0, 1], [0, 0], [3, 0]]
    np.testing.assert_array_equal(counts.table((0, 1)), table.T)
    assert counts.table((2,)).tolist() == [1, 3]
    assert counts.table((0, 1, 2)).sum() == 4
    for axes in ((), (0, 0), (3,), (-1,)):
        with pytest.raises(ValueError, match="axes"):
            counts.table(axes)


def test_tables_beyond_memory_are_refused() -> None:
    counts = Counts.of(np.zeros((1, 3), np.uint32), (2**20, 2**20, 2))
    with pytest.raises(ValueError, match="cells"):
        counts.table((0, 1))
    assert counts.table((2,)).tolist() == [1, 0]


@pytest.mark.parametrize(
    "codes", [np.zeros((2, 3), np.uint8), np.zeros(2, np.uint8), np.zeros((2, 2), np.int64)]
)
def test_counts_refuse_codes_of_another_form(codes: NDArray[np.uint8]) -> None:
    with pytest.raises(ValueError, match="codes of"):
        Counts.of(codes, (2, 3))


def test_counts_refuse_codes_outside_the_domain_and_do_not_show_records() -> None:
    with pytest.raises(ValueError, match="code 3"):
        Counts.of(np.array([[1, 3]], np.uint8), (2, 3))
    counts = Counts.of(np.array([[1, 2], [1, 2]], np.uint8), (2, 3))
    assert repr(counts) == "<Counts: n=2, m=2, 1 distinct>"
    with pytest.raises(ValueError, match="read-only"):
        counts.counts[0] = 5
