"""Rows of bytes and arrays of them."""

from __future__ import annotations

import numpy as np

from protocol.crypto.octets import row_bytes, stacked

ROWS = [b"abc", b"\0\0\0", b"d\0\0"]


def test_rows_are_stacked_and_taken_apart() -> None:
    octets = stacked(ROWS, 3)
    assert octets.shape == (3, 3)
    assert octets[:, 0].tobytes() == b"a\0d"
    # Trailing zeros are kept.
    assert row_bytes(octets) == ROWS


def test_no_rows() -> None:
    assert stacked([], 16).shape == (0, 16)
    assert row_bytes(stacked([], 16)) == []


def test_rows_that_do_not_lie_side_by_side() -> None:
    octets = np.arange(24, dtype=np.uint8).reshape(3, 2, 4)
    assert row_bytes(octets[:, 1]) == [bytes(range(start, start + 4)) for start in (4, 12, 20)]
    assert row_bytes(octets[0, :, ::2]) == [b"\0\2", b"\4\6"]
