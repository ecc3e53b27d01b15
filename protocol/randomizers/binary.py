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

MAX_BINARY_ATTRIBUTES = 24
"""The most binary attributes of a record."""


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
