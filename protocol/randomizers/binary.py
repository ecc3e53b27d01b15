"""Cells and sets of binary attributes as bits.

A record of d binary attributes is one cell of ``2**d``, in row-major order: the first attribute is
the highest bit. The same places make a set of attributes a mask.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from protocol.randomizers.exact import check_codes
from protocol.wire.arrays import smallest_dtype

MAX_ATTRIBUTES = 24
"""The most binary attributes of a record."""


def record_cells(codes: NDArray[np.unsignedinteger]) -> NDArray[np.unsignedinteger]:
    """Records of binary attributes as cells: what ``join_codes`` gives, only faster.

    Args:
        codes: shape (n, d), 0 or 1, d at most 24.

    Returns:
        Shape (n,), of the smallest unsigned type that holds ``2**d`` cells.

    Raises:
        ValueError: another shape, an unsuitable type, or a code above 1.
    """
    if codes.ndim != 2 or not 1 <= codes.shape[1] <= MAX_ATTRIBUTES:
        raise ValueError(f"codes of shape {codes.shape}: expected (n, d), d from 1 to 24")
    check_codes(codes, 2)
    d = codes.shape[1]
    octets = -(-d // 8)
    padded = codes
    if d % 8:
        padded = np.zeros((len(codes), 8 * octets), np.uint8)
        padded[:, -d:] = codes
    # All at once and without an axis, packbits is many times faster.
    packed = np.packbits(padded.astype(np.uint8, copy=False).reshape(-1)).reshape(-1, octets)
    cells = packed[:, 0].astype(smallest_dtype(1 << d))
    for octet in range(1, octets):
        cells <<= 8
        cells |= packed[:, octet]
    return cells


def coefficients(d: int, k: int) -> NDArray[np.uint32]:
    """The masks of at most k of d attributes, rising; the first is 0."""
    return _low_masks(d, k)


def subsets(d: int, k: int) -> NDArray[np.uint32]:
    """The masks of exactly k of d attributes, in the order of ``itertools.combinations``."""
    return _subsets(d, k)


def submasks(masks: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Every set of attributes within each of some sets of equally many, j.

    Returns:
        Shape ``(len(masks), 2**j)``; column c has the attributes whose bits are 1 in c, where the
        first attribute of a set is the highest bit: so column c of a table's Hadamard transform.
    """
    rest = masks.copy()
    inside = np.zeros((len(masks), 1), np.uint32)
    while rest.size and rest.any():
        lowest = rest & (~rest + np.uint32(1))
        inside = np.hstack([inside, inside | lowest[:, None]])
        rest &= ~lowest
    return inside


@lru_cache(maxsize=64)
def _low_masks(d: int, k: int) -> NDArray[np.uint32]:
    chosen = (_subsets(d, ways) for ways in range(k + 1))
    return frozen_masks(np.sort(np.concatenate(list(chosen))))


@lru_cache(maxsize=64)
def _subsets(d: int, k: int) -> NDArray[np.uint32]:
    return frozen_masks(
        [sum(1 << (d - 1 - i) for i in places) for places in combinations(range(d), k)]
    )


def frozen_masks(masks: Iterable[int] | NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Masks as a read-only array."""
    array = np.ascontiguousarray(masks, np.uint32)
    array.flags.writeable = False
    return array
