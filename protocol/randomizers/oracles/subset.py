"""Subset selection: a code is reported as a set of codes that is likelier to hold it.

Ye and Barg, Optimal Schemes for Discrete Distribution Estimation under Locally Differential
Privacy, IEEE Transactions on Information Theory 2018, section III; Wang et al., Mutual Information
Optimally Local Private Discrete Distribution Estimation, 2016, section 4 (omega-subset mechanism).
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import WORDS, Stream
from protocol.randomizers.exact import DIGITS, check_column, log_fraction, odds
from protocol.randomizers.oracles.packed import (
    MAX_BITS,
    classes_of_bits,
    packed_bits,
    tally_packed,
)
from protocol.randomizers.pairs import Dominating, ThreePoint
from protocol.randomizers.randomizer import OutputClass, Randomizer, Support
from protocol.wire.arrays import Array, ArraySpec

# Ranks drawn at one time for the codes of reports: 8 MiB.
_RANKS_AT_ONCE = 2**21


class SubsetSelection(Randomizer, frozen=True, tag="subset"):
    """A code as a set of ``chosen`` codes, which contains it with probability p.

    ``p = threshold / 2**64``. All sets of ``chosen`` codes that hold it are equally likely, and so
    are all that do not. A report is packed: bit v is 1 if code v is in the set, the lowest first,
    in ``ceil(size / 8)`` bytes whose last bits may be unused, and are 0.

    Raises:
        ValueError: ``size`` is not in 2..2**16, ``chosen`` not in 1..size-1, or p not more than
            ``chosen / size``, where a report reveals nothing, and less than 1.
    """

    symmetric = True

    size: int
    chosen: int
    threshold: int

    def __post_init__(self) -> None:
        if not 2 <= self.size <= MAX_BITS:
            raise ValueError(f"size {self.size}: expected 2 to 2**16 codes")
        if not 1 <= self.chosen < self.size:
            raise ValueError(f"chosen {self.chosen}: expected 1 to {self.size - 1}")
        if not self.chosen * WORDS < self.threshold * self.size < WORDS * self.size:
            raise ValueError(
                f"threshold {self.threshold}: expected more than 2**64 * {self.chosen}/{self.size} "
                "and less than 2**64"
            )

    @classmethod
    def with_epsilon(
        cls, size: int, *, epsilon: float, chosen: int | None = None
    ) -> SubsetSelection:
        """The largest p whose epsilon does not exceed ``epsilon``.

        ``p = chosen e**epsilon / (chosen e**epsilon + size - chosen)``, rounded down to a multiple
        of 2**-64 by decimal arithmetic, so the threshold is the same on every platform.

        Args:
            size: the number of codes.
            epsilon: in nats.
            chosen: the number of codes of a set; by default ``size / (e**epsilon + 1)``, where the
                variance is least, rounded, and at least 1.

        Raises:
            ValueError: ``epsilon`` is not positive and finite, or too small for any threshold.
        """
        context = Context(prec=DIGITS)
        told = odds(epsilon)
        if chosen is None:
            best = context.divide(Decimal(size), context.add(told, Decimal(1)))
            chosen = max(1, int(best.to_integral_value(ROUND_HALF_EVEN, context)))
        within = context.multiply(told, Decimal(chosen))
        share = context.divide(within, context.add(within, Decimal(size - chosen)))
        threshold = context.multiply(share, Decimal(WORDS)).to_integral_value(ROUND_FLOOR, context)
        return cls(size, chosen, min(int(threshold), WORDS - 1))

    @property
    def p(self) -> Fraction:
        """The probability that the set holds the true code."""
        return Fraction(self.threshold, WORDS)

    @property
    def report(self) -> ArraySpec:
        """Packed bits."""
        return packed_bits(self.size)

    @property
    def epsilon(self) -> float:
        """``ln(p (size - chosen) / ((1-p) chosen))`` of the exact threshold, rounded once."""
        return log_fraction(self._ratio)

    @property
    def _ratio(self) -> Fraction:
        return self.p * (self.size - self.chosen) / ((1 - self.p) * self.chosen)

    @property
    def dominating(self) -> Dominating:
        """Any two codes have the losses epsilon, 0 and -epsilon. Exact."""
        support = self.support
        return Dominating((ThreePoint(self._ratio, support.hit - support.other),), True)

    def law(self, first: int, second: int) -> tuple[OutputClass, ...]:
        """A set by the two codes: it holds neither, the first, the second, or both."""
        p, others = self.p, self.size - 1
        neither = (1 - p) * Fraction(others - self.chosen, others)
        own = p * Fraction(self.size - self.chosen, others)
        its = (1 - p) * Fraction(self.chosen, others)
        both = p * Fraction(self.chosen - 1, others)
        return (
            OutputClass(neither, neither, (False, False)),
            OutputClass(own, its, (True, False)),
            OutputClass(its, own, (False, True)),
            OutputClass(both, both, (True, True)),
        )

    def classify(self, reports: Array, first: int, second: int) -> NDArray[np.uint8]:
        """The class of every report, shape (k,)."""
        return classes_of_bits(reports, first, second)

    @property
    def support(self) -> Support:
        """A report counts for every code of its set."""
        p, chosen, others = self.p, self.chosen, self.size - 1
        pairs = max(1, others * (others - 1))
        return Support(
            hit=p,
            other=(chosen - p) / others,
            both_hit=p * (chosen - 1) / others,
            both_other=(chosen - 1) * (chosen - 2 * p) / pairs,
        )

    def fits(self, reports: Array) -> bool:
        """True if an array holds packed sets of ``chosen`` codes, one each along its first axis."""
        return super().fits(reports) and not self._wrong(reports).size

    def tally(self, reports: Array) -> NDArray[np.int64]:
        """Number of reports that hold each code, shape ``(size,)``.

        Raises:
            ValueError: another shape or dtype, an unused bit that is 1, or a set of another size.
        """
        totals = tally_packed(reports, self.size)
        wrong = self._wrong(reports)
        if wrong.size:
            raise ValueError(f"a report of {wrong[0]} codes: expected {self.chosen}")
        return totals

    def _wrong(self, reports: Array) -> NDArray[np.int64]:
        """Sizes of the sets with another number of codes than ``chosen``."""
        held = np.bitwise_count(reports).sum(axis=1, dtype=np.int64)
        wrong: NDArray[np.int64] = held[held != self.chosen]
        return wrong

    def best_guess(self, *others: Randomizer) -> float | None:
        """``p / chosen`` from one report: any code of the set. Of several, epsilon bounds it."""
        return None if others else float(self.p / self.chosen)

    def randomize(self, codes: NDArray[np.unsignedinteger], stream: Stream) -> NDArray[np.uint8]:
        """Randomize every code by itself.

        One word below the threshold puts the code into its set. Every other code is ranked by half
        a word, and the lowest ones fill the set: all subsets of the others are equally likely
        unless the rank of the last one in is that of the first one out. Then all ranks of the
        report are drawn anew.

        Args:
            codes: below ``size``, shape (k,), of an unsigned type that holds them.
            stream: the source of the draws.

        Returns:
            Shape ``(k, ceil(size / 8))``; unused bits are 0.

        Raises:
            ValueError: another shape, an unsuitable type, or a code that is not below ``size``.
        """
        check_column(codes, self.size)
        reports = np.empty((len(codes), -(-self.size // 8)), np.uint8)
        rows = max(1, _RANKS_AT_ONCE // self.size)
        for start in range(0, len(codes), rows):
            part = codes[start : start + rows].astype(np.intp)
            held = stream.bernoulli(self.threshold, len(part))
            bits = self._sets(part, held, stream)
            reports[start : start + rows] = np.packbits(bits, axis=1, bitorder="little")
        return reports

    def _sets(
        self, codes: NDArray[np.intp], held: NDArray[np.bool_], stream: Stream
    ) -> NDArray[np.bool_]:
        """Sets with or without their own code, as given, and a uniform choice of other codes."""
        bits = np.empty((len(codes), self.size), np.bool_)
        left = np.arange(len(codes))
        while left.size:
            words = -(-left.size * self.size // 2)
            halves = stream.words(words).astype("<u8", copy=False).view("<u4")
            ranks = halves[: left.size * self.size].reshape(left.size, self.size)
            own = np.arange(left.size), codes[left]
            # Its own code comes first or last, for any draw.
            ranks[own] = np.where(held[left], np.uint32(0), np.uint32(2**32 - 1))
            lasts = np.partition(ranks, self.chosen - 1, axis=1)[:, self.chosen - 1]
            found = ranks <= lasts[:, np.newaxis]
            bits[left] = found
            left = left[np.count_nonzero(found, axis=1) != self.chosen]
        return bits
