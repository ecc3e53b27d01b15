"""Grids of equally spaced values from -1 to 1."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

MAX_VALUES = 2**16
"""The most values of a grid."""


def check_grid(size: int) -> None:
    """Refuse too few or too many values.

    Raises:
        ValueError: ``size`` is not in 2..2**16.
    """
    if not 2 <= size <= MAX_VALUES:
        raise ValueError(f"size {size}: expected 2 to 2**16 values")


@lru_cache(maxsize=16)
def grid(size: int) -> Sequence[Fraction]:
    """``-1 + 2 i / (size - 1)`` for every code i."""
    return tuple(Fraction(2 * code - (size - 1), size - 1) for code in range(size))
