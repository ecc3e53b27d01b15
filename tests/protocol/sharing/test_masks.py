"""Masks and additive shares: exact sums, and what is uniform whatever the values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import DTypeLike, NDArray

from protocol.crypto.randomness import WORDS, Stream
from protocol.sharing.masks import (
    MAX_MODULUS,
    Bits,
    deal_shares,
    expand_mask,
    modulus_bits,
    sum_modulo,
)
from tests.scripted import Scripted, seeded
from tests.statistical import ALPHA, WRONG, chi_square_p_value

SEED = bytes(range(32))
BITS: tuple[Bits, ...] = (16, 32)

seeds = st.lists(st.binary(min_size=32, max_size=32), max_size=4)
sizes = st.sampled_from(BITS)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("cells", [0, 1, 7, 1582])
def test_a_mask_is_the_keystream_read_little_endian(bits: Bits, cells: int) -> None:
    mask = expand_mask(SEED, cells, bits=bits)
    step = bits // 8
    keystream = Stream(SEED).bytes(cells * step)
    assert mask.dtype == f"u{step}"
    assert mask.tolist() == [
        int.from_bytes(keystream[i : i + step], "little") for i in range(0, len(keystream), step)
    ]
    assert not mask.flags.writeable


def test_a_known_mask() -> None:
    # The keystream of the zero key is published: GCM specification, test case 13.
    assert expand_mask(bytes(32), 2, bits=16).tolist() == [0x95DC, 0x78C0]
    assert expand_mask(bytes(32), 1, bits=32).tolist() == [0x78C095DC]


@pytest.mark.parametrize(
    ("respondents", "bits"), [(1, 16), (2**16 - 1, 16), (2**16, 32), (2**32 - 1, 32)]
)
def test_a_cell_holds_the_count_of_all_respondents(respondents: int, bits: int) -> None:
    assert modulus_bits(respondents) == bits


@pytest.mark.parametrize("respondents", [0, -1, 2**32])
def test_numbers_of_respondents_out_of_range_are_refused(respondents: int) -> None:
    with pytest.raises(ValueError, match="respondents"):
        modulus_bits(respondents)


def test_masks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        expand_mask(bytes(31), 5, bits=16)
    with pytest.raises(ValueError, match="bits"):
        expand_mask(SEED, 5, bits=8)  # type: ignore[arg-type]


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.integers(0, 255), min_size=1, max_size=6),
    st.sampled_from(["u1", "u2", "u4", "u8", "i2", "i4", "i8"]),
    st.integers(1, 6),
    st.one_of(st.integers(1, 300), st.integers(1, MAX_MODULUS)),
    st.data(),
)
def test_shares_sum_to_the_values(
    values: list[int], dtype: DTypeLike, parties: int, modulus: int, data: st.DataObject
) -> None:
    own = data.draw(st.none() | st.integers(0, parties - 1))
    shares = deal_shares(
        np.array(values, dtype), parties=parties, modulus=modulus, stream=seeded(), own=own
    )
    assert shares.shape == (parties, len(values))
    assert shares.max() < modulus
    expected = [value % modulus for value in values]
    assert [sum(column) % modulus for column in shares.T.tolist()] == expected
    assert sum_modulo(shares, modulus).tolist() == expected


def test_values_beyond_the_modulus_and_below_zero_are_reduced() -> None:
    values = np.array([-1, -7, 10**15, -(10**15), np.iinfo(np.int64).min])
    shares = deal_shares(values, parties=3, modulus=7, stream=seeded())
    assert sum_modulo(shares, 7).tolist() == [value % 7 for value in values.tolist()]
    large = np.array([2**64 - 1], np.uint64)
    shares = deal_shares(large, parties=3, modulus=MAX_MODULUS, stream=seeded())
    assert sum_modulo(shares, MAX_MODULUS).tolist() == [(2**64 - 1) % MAX_MODULUS]


@pytest.mark.parametrize("own", [None, 0, 2])
def test_only_the_own_row_depends_on_the_values(own: int | None) -> None:
    one, other = (
        deal_shares(np.array(values), parties=4, modulus=101, stream=seeded(3), own=own)
        for values in ([0, 1, 2], [100, 50, 2])
    )
    differs = (one != other).tolist()
    assert differs.pop(3 if own is None else own) == [True, True, False]
    assert differs == [[False] * 3] * 3


def test_shares_are_the_words_of_the_stream_reduced_and_never_biased() -> None:
    last = WORDS - WORDS % 7
    stream = Scripted(5, last, 7 + 2, last - 1, 0)
    shares = deal_shares(np.array([3, 4]), parties=3, modulus=7, stream=stream)
    # The second word is in the incomplete last run of 7: its draw is the next one after all.
    assert shares.tolist() == [[5, 0], [2, 6], [3, 5]]
    assert stream.left == 0


@pytest.mark.parametrize(
    ("modulus", "dtype"),
    [(1, "u1"), (256, "u1"), (257, "u2"), (2**16, "u2"), (2**16 + 1, "u4"), (2**32, "u4")],
)
def test_shares_are_of_the_smallest_type(modulus: int, dtype: str) -> None:
    shares = deal_shares(np.arange(3), parties=2, modulus=modulus, stream=seeded())
    assert shares.dtype == dtype
    assert sum_modulo(shares, modulus).dtype == dtype


@pytest.mark.parametrize("own", [None, 1])
def test_every_row_is_uniform_whatever_the_values(own: int | None) -> None:
    modulus = 5
    values = np.full(60_000, 3)
    shares = deal_shares(values, parties=3, modulus=modulus, stream=seeded(8), own=own)
    wrong = np.full(modulus, (1 - WRONG / modulus) / (modulus - 1))
    wrong[0] = WRONG / modulus
    for row in shares:
        counts = np.bincount(row, minlength=modulus)
        assert chi_square_p_value(counts, np.full(modulus, 1 / modulus)) > ALPHA
        assert chi_square_p_value(counts, wrong) < ALPHA
    # Any two of the three, too.
    for one, other in ((0, 1), (0, 2), (1, 2)):
        pairs = np.bincount(modulus * shares[one].astype(np.int64) + shares[other], minlength=25)
        assert chi_square_p_value(pairs, np.full(25, 1 / 25)) > ALPHA


@settings(deadline=None, max_examples=50)
@given(st.integers(1, MAX_MODULUS), st.integers(0, 50), st.sampled_from(["u1", "u2", "u4"]))
def test_rows_are_summed_without_overflow(modulus: int, n: int, dtype: DTypeLike) -> None:
    largest = int(np.iinfo(dtype).max)
    rows = np.full((n, 3), largest, dtype)
    assert sum_modulo(rows, modulus).tolist() == [n * largest % modulus] * 3


@pytest.mark.parametrize(
    ("parties", "modulus", "own"), [(0, 5, None), (3, 0, None), (3, 2**32 + 1, None), (3, 5, 3)]
)
def test_numbers_out_of_range_are_refused(parties: int, modulus: int, own: int | None) -> None:
    with pytest.raises(ValueError, match="expected"):
        deal_shares(np.arange(3), parties=parties, modulus=modulus, stream=seeded(), own=own)


@pytest.mark.parametrize("values", [np.zeros(3), np.zeros((1, 3), np.int64)])
def test_values_that_are_no_row_of_integers_are_refused(values: NDArray[np.int64]) -> None:
    with pytest.raises(ValueError, match="row of integers"):
        deal_shares(values, parties=3, modulus=5, stream=seeded())


@pytest.mark.parametrize(
    "rows", [np.zeros(3, np.uint8), np.zeros((2, 3), np.int32), np.zeros((2, 3), np.uint64)]
)
def test_rows_that_are_no_residues_are_refused(rows: NDArray[np.uint32]) -> None:
    with pytest.raises(ValueError, match="rows of"):
        sum_modulo(rows, 5)
    with pytest.raises(ValueError, match="modulus"):
        sum_modulo(np.zeros((2, 3), np.uint8), 0)
