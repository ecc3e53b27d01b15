"""Reports of one bit for each code, packed: bit v of code v, the lowest first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from protocol.wire.arrays import Array, ArraySpec

MAX_BITS = 2**16
"""The most bits of a report."""

# Rows of reports that are unpacked at one time, in bytes of a bit each.
_UNPACKED_AT_ONCE = 2**22


def packed_bits(size: int) -> ArraySpec:
    """Form of one packed report of bits: ``ceil(size / 8)`` bytes, with unused bits of 0."""
    octets = -(-size // 8)
    return ArraySpec(
        dtype="u1", shape=(octets,), high=(*[256] * (octets - 1), 1 << (size - 1) % 8 + 1)
    )


def check_packed(reports: Array, size: int) -> None:
    """Refuse rows that are not packed bits of this size.

    Raises:
        ValueError: another shape or dtype, or an unused bit that is 1.
    """
    octets = -(-size // 8)
    if reports.dtype != np.uint8 or reports.ndim != 2 or reports.shape[1] != octets:
        raise ValueError(
            f"packed bits of type {reports.dtype} and shape {reports.shape}: expected uint8, "
            f"(k, {octets})"
        )
    if size % 8 and (reports[:, -1] >> (size % 8)).any():
        raise ValueError("a report has a bit set beyond its cells")


def tally_packed(reports: Array, size: int) -> NDArray[np.int64]:
    """Number of reports that have each bit, shape ``(size,)``.

    Raises:
        ValueError: as ``check_packed``.
    """
    check_packed(reports, size)
    totals = np.zeros(size, np.int64)
    rows = max(1, _UNPACKED_AT_ONCE // size)
    for start in range(0, len(reports), rows):
        part = reports[start : start + rows]
        bits = np.unpackbits(part, axis=1, count=size, bitorder="little")
        totals += bits.sum(axis=0, dtype=np.int64)
    return totals


def classes_of_bits(reports: Array, first: int, second: int) -> NDArray[np.uint8]:
    """0 where neither of two bits is 1, 1 where the first is, 2 the second, 3 both; shape (k,)."""
    one, two = (reports[:, code // 8] >> (code % 8) & 1 for code in (first, second))
    classes: NDArray[np.uint8] = one + 2 * two
    return classes
