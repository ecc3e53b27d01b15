"""The Walsh-Hadamard transform."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Signed = TypeVar("Signed", bound=np.signedinteger | np.floating)


def wht(values: NDArray[Signed]) -> NDArray[Signed]:
    """The Walsh-Hadamard transform of every last axis, in place: ``sum_x v[x] (-1)**|x & alpha|``.

    Twice gives the values back, times their number K. It takes ``K log2 K`` additions.

    Args:
        values: C-contiguous, the last axis of a power of 2; it is overwritten.

    Returns:
        The same array.

    Raises:
        ValueError: another length, an array that is not contiguous, or a type without a sign.
    """
    cells = values.shape[-1] if values.ndim else 0
    if cells < 1 or cells & (cells - 1):
        raise ValueError(f"an array of shape {values.shape}: expected a last axis of a power of 2")
    if not values.flags.c_contiguous or values.dtype.kind not in "if":
        raise ValueError(f"type {values.dtype}: expected a contiguous array of signed numbers")
    step = 1
    while step < cells:
        pairs = values.reshape(-1, cells // (2 * step), 2, step)
        first, second = pairs[:, :, 0], pairs[:, :, 1]
        difference = first - second
        np.add(first, second, out=first)
        second[...] = difference
        step *= 2
    return values
