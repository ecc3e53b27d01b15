"""Unary encodings: a code as bits, each randomized by itself.

Wang, Blocki, Li and Jha, Locally Differentially Private Protocols for Frequency Estimation, USENIX
Security 2017, section 4.2: the bit of the true code is 1 with probability p, every other one with
q. The symmetric encoding has ``p = 1 - q`` (basic RAPPOR), the optimised one ``p = 1/2``.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import WORDS, Stream
from protocol.randomizers.exact import DIGITS, Floats, check_column, log_fraction, odds
from protocol.randomizers.oracles.packed import (
    MAX_BITS,
    classes_of_bits,
    packed_bits,
    tally_packed,
)
from protocol.randomizers.pairs import Dominating, ThreePoint
from protocol.randomizers.randomizer import OutputClass, Randomizer, Support
from protocol.wire.arrays import Array, ArraySpec

# Words drawn at one time for the bits of reports: 8 MiB.
_WORDS_AT_ONCE = 2**20
_LARGEST_TABLE = 12


class UnaryEncoding(Randomizer, frozen=True, tag="unary"):
    """A code as ``size`` bits: its own is 1 with probability p, every other one with q.

    ``p = hit / 2**64`` and ``q = other / 2**64``. A report is packed: bit v of code v, the lowest
    first, in ``ceil(size / 8)`` bytes whose last bits may be unused, and are 0.

    Raises:
        ValueError: ``size`` is not in 2..2**16, or not ``0 < other < hit < 2**64``.
    """

    symmetric = True

    size: int
    hit: int
    other: int

    def __post_init__(self) -> None:
        if not 2 <= self.size <= MAX_BITS:
            raise ValueError(f"size {self.size}: expected 2 to 2**16 bits")
        if not 0 < self.other < self.hit < WORDS:
            raise ValueError(
                f"hit {self.hit}, other {self.other}: expected 0 < other < hit < 2**64"
            )

    @classmethod
    def flipping(cls, size: int, *, threshold: int) -> UnaryEncoding:
        """Each bit is flipped with probability ``threshold / 2**64``.

        Raises:
            ValueError: ``threshold`` is not in 1..2**63-1 (at 2**63 a report reveals nothing).
        """
        if not 1 <= threshold < WORDS // 2:
            raise ValueError(f"threshold {threshold}: expected 1 to 2**63 - 1")
        return cls(size, WORDS - threshold, threshold)

    @classmethod
    def symmetrized(cls, size: int, *, epsilon: float) -> UnaryEncoding:
        """The symmetric encoding (SUE), with the smallest flips that do not exceed ``epsilon``.

        Flips have probability ``1 / (1 + e**(epsilon/2))``, rounded up to a multiple of 2**-64 by
        decimal arithmetic, so that they are the same on every platform.

        Raises:
            ValueError: ``epsilon`` is not positive and finite, or so small that only a probability
                of 1/2 would do.
        """
        return cls.flipping(size, threshold=_rare(epsilon, 2))

    @classmethod
    def optimized(cls, size: int, *, epsilon: float) -> UnaryEncoding:
        """The optimised encoding (OUE): p = 1/2, and the smallest q within ``epsilon``.

        ``q = 1 / (1 + e**epsilon)``, rounded up to a multiple of 2**-64 by decimal arithmetic.

        Raises:
            ValueError: as ``symmetrized``.
        """
        return cls(size, WORDS // 2, _rare(epsilon, 1))

    @property
    def p(self) -> Fraction:
        """The probability that the bit of the true code is 1."""
        return Fraction(self.hit, WORDS)

    @property
    def q(self) -> Fraction:
        """The probability that any other bit is 1."""
        return Fraction(self.other, WORDS)

    @property
    def octets(self) -> int:
        """The bytes of a report."""
        return -(-self.size // 8)

    @property
    def report(self) -> ArraySpec:
        """Packed bits."""
        return packed_bits(self.size)

    @property
    def epsilon(self) -> float:
        """``ln(p (1-q) / (q (1-p)))`` of the exact thresholds, rounded once."""
        return log_fraction(self.p * (1 - self.q) / (self.q * (1 - self.p)))

    @property
    def dominating(self) -> Dominating:
        """Any two codes differ in two bits. Exact: the optimised encoding's loss has three values.

        The symmetric encoding's is that of two flips. Of any other the epsilon and the distance
        stand for it, which is exact too.
        """
        if self.hit + self.other == WORDS:
            bit = ThreePoint.binary(Fraction(self.hit, self.other))
            return Dominating((bit, bit), True)
        ratio = self.p * (1 - self.q) / (self.q * (1 - self.p))
        return Dominating((ThreePoint(ratio, self.p - self.q),), True)

    def law(self, first: int, second: int) -> tuple[OutputClass, ...]:
        """A report by its bits of the two codes: neither, the first, the second, both."""
        p, q = self.p, self.q
        one, two = p * (1 - q), q * (1 - p)
        return (
            OutputClass((1 - p) * (1 - q), (1 - p) * (1 - q), (False, False)),
            OutputClass(one, two, (True, False)),
            OutputClass(two, one, (False, True)),
            OutputClass(p * q, p * q, (True, True)),
        )

    def classify(self, reports: Array, first: int, second: int) -> NDArray[np.uint8]:
        """The class of every report, shape (k,)."""
        return classes_of_bits(reports, first, second)

    def row(self, code: int) -> Sequence[Fraction]:
        """The probabilities of all bits' numbers given a code, ``2**size`` of them.

        Raises:
            ValueError: more than 12 bits.
        """
        if self.size > _LARGEST_TABLE:
            raise ValueError(f"size {self.size}: expected at most {_LARGEST_TABLE} for a table")
        rest = self.size - 1
        others = [self.q**ones * (1 - self.q) ** (rest - ones) for ones in range(self.size)]
        shares = [[hit * other for other in others] for hit in (1 - self.p, self.p)]
        own = 1 << code
        return [
            shares[bool(report & own)][(report & ~own).bit_count()]
            for report in range(2**self.size)
        ]

    @property
    def support(self) -> Support:
        """Support: a report counts for every code with a bit of 1; bits are independent."""
        p, q = self.p, self.q
        return Support(hit=p, other=q, both_hit=p * q, both_other=q * q)

    def tally(self, reports: Array) -> NDArray[np.int64]:
        """Number of reports that have each bit, shape ``(size,)``.

        Raises:
            ValueError: another shape or dtype, or an unused bit that is 1.
        """
        return tally_packed(reports, self.size)

    def best_guess(self, *others: Randomizer) -> float | None:
        """Best guess: not known, only epsilon bounds it."""
        return None

    def matrix(self) -> Floats:
        """The law of a report: shape ``(size, 2**size)``, rows the code, columns the bits' number.

        Raises:
            ValueError: more than 12 bits.
        """
        return np.array([[float(share) for share in self.row(v)] for v in range(self.size)])

    def randomize(self, codes: NDArray[np.unsignedinteger], stream: Stream) -> NDArray[np.uint8]:
        """Randomize every code by itself, with one word per bit.

        A word below ``other`` makes a bit 1; the bit of the code itself is 1 unless its word is
        below ``2**64 - hit``.

        Args:
            codes: below ``size``, shape (k,), of an unsigned type that holds them.
            stream: the source of the draws.

        Returns:
            Shape ``(k, octets)``; unused bits are 0.

        Raises:
            ValueError: another shape, an unsuitable type, or a code that is not below ``size``.
        """
        check_column(codes, self.size)
        reports = np.empty((len(codes), self.octets), np.uint8)
        missed = np.uint64(WORDS - self.hit)
        rows = max(1, _WORDS_AT_ONCE // self.size)
        for start in range(0, len(codes), rows):
            part = codes[start : start + rows]
            words = stream.words(len(part) * self.size).reshape(len(part), self.size)
            bits = words < np.uint64(self.other)
            own = np.arange(len(part)), part
            bits[own] = words[own] >= missed
            reports[start : start + rows] = np.packbits(bits, axis=1, bitorder="little")
        return reports


def _rare(epsilon: float, parts: int) -> int:
    """``2**64 / (1 + e**(epsilon/parts))``, rounded up."""
    context = Context(prec=DIGITS)
    rare = context.divide(Decimal(WORDS), context.add(odds(epsilon, parts), Decimal(1)))
    threshold = int(rare.to_integral_value(ROUND_CEILING, context))
    if threshold >= WORDS // 2:
        raise ValueError(f"epsilon {epsilon}: too small for a flip probability below 1/2")
    return threshold
