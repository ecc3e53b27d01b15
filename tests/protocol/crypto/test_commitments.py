"""Commitments to shares: what they are, and that nothing else opens them."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol.crypto.commitments import COMMITMENT_BYTES, SALT_BYTES, commit, opens
from tests.scripted import seeded

CONTEXT = b"session, attempt, dealer"


def drawn(k: int, length: int, seed: int = 1) -> NDArray[np.uint8]:
    return np.frombuffer(seeded(seed).bytes(k * length), np.uint8).reshape(k, length).copy()


@pytest.mark.parametrize(("k", "length"), [(0, 32), (1, 32), (100, 48), (3, 0)])
def test_a_commitment_is_the_start_of_a_hash(k: int, length: int) -> None:
    salts, shares = drawn(k, SALT_BYTES), drawn(k, length, 2)
    commitments = commit(salts, shares, context=CONTEXT)
    assert commitments.shape == (k, COMMITMENT_BYTES)
    assert [row.tobytes() for row in commitments] == [
        hashlib.sha256(CONTEXT + salt.tobytes() + share.tobytes()).digest()[:16]
        for salt, share in zip(salts, shares, strict=True)
    ]
    assert opens(commitments, salts, shares, context=CONTEXT).tolist() == [True] * k


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(["commitments", "salts", "shares"]), st.integers(0, 4), st.data())
def test_a_flipped_bit_closes_its_row_and_no_other(
    where: str, row: int, data: st.DataObject
) -> None:
    arrays = {"salts": drawn(5, SALT_BYTES), "shares": drawn(5, 33, 2)}
    arrays["commitments"] = commit(arrays["salts"], arrays["shares"], context=CONTEXT).copy()
    column = data.draw(st.integers(0, arrays[where].shape[1] - 1))
    arrays[where][row, column] ^= 1 << data.draw(st.integers(0, 7))
    assert opens(**arrays, context=CONTEXT).tolist() == [i != row for i in range(5)]


def test_the_salt_hides_equal_shares() -> None:
    commitments = commit(drawn(50, SALT_BYTES), np.zeros((50, 1), np.uint8), context=CONTEXT)
    assert len({row.tobytes() for row in commitments}) == 50


@pytest.mark.parametrize(
    ("salts", "shares"),
    [
        (np.zeros((2, 15), np.uint8), np.zeros((2, 4), np.uint8)),
        (np.zeros((2, 16), np.int64), np.zeros((2, 4), np.uint8)),
        (np.zeros(16, np.uint8), np.zeros((2, 4), np.uint8)),
        (np.zeros((2, 16), np.uint8), np.zeros((3, 4), np.uint8)),
        (np.zeros((2, 16), np.uint8), np.zeros(2, np.uint8)),
        (np.zeros((2, 16), np.uint8), np.zeros((2, 4), np.uint16)),
    ],
)
def test_what_does_not_fit_is_refused(salts: NDArray[np.uint8], shares: NDArray[np.uint8]) -> None:
    with pytest.raises(ValueError, match="expected bytes"):
        commit(salts, shares, context=CONTEXT)


@pytest.mark.parametrize("commitments", [np.zeros((1, 16), np.uint8), np.zeros((2, 16), np.int64)])
def test_commitments_that_do_not_fit_are_refused(commitments: NDArray[np.uint8]) -> None:
    with pytest.raises(ValueError, match="expected bytes"):
        opens(commitments, drawn(2, SALT_BYTES), drawn(2, 8), context=CONTEXT)
