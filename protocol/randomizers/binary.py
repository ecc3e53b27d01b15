"""The one-hot randomizer, and cells and sets of binary attributes as bits.

A record of d binary attributes is one cell of ``2**d``, in row-major order: the first attribute is
the highest bit. The same places make a set of attributes a mask.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, Context, Decimal
from functools import lru_cache
from itertools import combinations

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import WORDS, Stream
from protocol.randomizers.keep import check_codes, log_ratio
from protocol.wire.arrays import smallest_dtype

MAX_ATTRIBUTES = 24
"""The most binary attributes of a record."""

MAX_ONE_HOT = 2**16
"""The most bits of a one-hot report."""

# Words drawn at one time for the bits of one-hot reports: 8 MiB.
_WORDS_AT_ONCE = 2**20
_LARGEST_MATRIX = 12
_LARGEST_EPSILON = 200.0
_DIGITS = 60


class OneHot(msgspec.Struct, frozen=True, tag="one-hot"):
    """A code as ``size`` bits of which one is 1, each flipped with ``threshold / 2**64``.

    Two codes differ in two bits, so epsilon is exactly twice that of one bit. A report is packed:
    bit v of cell v, the lowest first, in ``ceil(size / 8)`` bytes whose last bits may be unused.

    Raises:
        ValueError: ``size`` is not in 2..2**16, or ``threshold`` not in 1..2**63-1 (at 2**63 a
            report says nothing).
    """

    size: int
    threshold: int

    def __post_init__(self) -> None:
        if not 2 <= self.size <= MAX_ONE_HOT:
            raise ValueError(f"size {self.size}: expected 2 to 2**16 bits")
        if not 1 <= self.threshold < WORDS // 2:
            raise ValueError(f"threshold {self.threshold}: expected 1 to 2**63 - 1")

    @classmethod
    def with_epsilon(cls, size: int, *, epsilon: float) -> OneHot:
        """The smallest flip probability whose epsilon does not exceed ``epsilon``.

        ``1 / (1 + e**(epsilon/2))``, rounded up to a multiple of 2**-64 by decimal arithmetic, so
        the threshold is the same on every platform.

        Raises:
            ValueError: ``epsilon`` is not positive and finite, or so small that only a probability
                of 1/2 would do.
        """
        if not (epsilon > 0 and math.isfinite(epsilon)):
            raise ValueError(f"epsilon {epsilon}: expected a positive finite number")
        context = Context(prec=_DIGITS)
        half = context.divide(Decimal(min(epsilon, _LARGEST_EPSILON)), Decimal(2))
        odds = context.add(context.exp(half), Decimal(1))
        exact = context.divide(Decimal(WORDS), odds)
        threshold = int(exact.to_integral_value(ROUND_CEILING, context))
        if threshold >= WORDS // 2:
            raise ValueError(f"epsilon {epsilon}: too small for a flip probability below 1/2")
        return cls(size, threshold)

    @property
    def flip(self) -> float:
        """The probability f of flipping a bit."""
        return self.threshold / WORDS

    @property
    def scale(self) -> float:
        """``1 - 2f``: what a bit's difference between two codes shrinks to."""
        return (WORDS - 2 * self.threshold) / WORDS

    @property
    def epsilon(self) -> float:
        """``2 ln((1-f)/f)`` of the exact threshold, rounded once."""
        return log_ratio((WORDS - self.threshold) ** 2, self.threshold**2)

    @property
    def octets(self) -> int:
        """The bytes of a report."""
        return -(-self.size // 8)

    def matrix(self) -> NDArray[np.float64]:
        """The law of a report: shape ``(size, 2**size)``, rows the code, columns the bits' number.

        Raises:
            ValueError: more than 12 cells.
        """
        if self.size > _LARGEST_MATRIX:
            raise ValueError(f"size {self.size}: expected at most {_LARGEST_MATRIX} for a matrix")
        codes = np.arange(self.size, dtype=np.uint64)[:, None]
        reports = np.arange(2**self.size, dtype=np.uint64)
        flipped = np.bitwise_count(reports ^ (np.uint64(1) << codes)).astype(np.int64)
        truthful = (WORDS - self.threshold) / WORDS
        dense: NDArray[np.float64] = self.flip**flipped * truthful ** (self.size - flipped)
        return dense

    def randomize(self, codes: NDArray[np.unsignedinteger], stream: Stream) -> NDArray[np.uint8]:
        """Randomize every code by itself, with one word per bit.

        Args:
            codes: below ``size``, shape (n,), of an unsigned type that holds them.
            stream: the source of the draws.

        Returns:
            Shape ``(n, octets)``; unused bits are 0.

        Raises:
            ValueError: another shape, an unsuitable type, or a code that is not below ``size``.
        """
        if codes.ndim != 1:
            raise ValueError(f"codes of shape {codes.shape}: expected (n,)")
        check_codes(codes, self.size)
        reports = np.empty((len(codes), self.octets), np.uint8)
        rows = max(1, _WORDS_AT_ONCE // self.size)
        for start in range(0, len(codes), rows):
            part = codes[start : start + rows]
            bits = stream.bernoulli(self.threshold, (len(part), self.size))
            bits[np.arange(len(part)), part] ^= True
            reports[start : start + rows] = np.packbits(bits, axis=1, bitorder="little")
        return reports


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
