"""Hadamard response: a code is reported as one of the places where its row of signs is 1.

Acharya, Sun and Zhang, Hadamard Response: Estimating Distributions Privately, Efficiently, and with
Little Communication, AISTATS 2019, section 4: the form for high privacy, of one block. It is
private at any epsilon; of much more than 1 its errors are larger than those of other oracles.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import WORDS, Stream
from protocol.randomizers.exact import Floats, check_column, group_sums, log_fraction
from protocol.randomizers.keep import KeepUniform
from protocol.randomizers.pairs import Dominating, ThreePoint
from protocol.randomizers.randomizer import OutputClass, Randomizer, Support
from protocol.randomizers.walsh import wht
from protocol.wire.arrays import Array, ArraySpec, dtype_name, smallest_dtype

MAX_INPUTS = 2**22
"""The most inputs: a tally takes a number for each report."""

# Numbers that are transformed at one time: 32 MiB.
_TRANSFORMED_AT_ONCE = 2**22


class HadamardResponse(Randomizer, frozen=True, tag="hadamard"):
    """A code x as a place y where row ``x + 1`` of the Hadamard matrix is 1, with probability p.

    The matrix has ``places`` rows and columns, the smallest power of 2 above ``size``, and its sign
    at (x, y) is -1 if x and y share an odd number of bits; row 0 is 1 everywhere and is not used.
    ``p = threshold / 2**64``; all places where the sign is 1 are equally likely, and so are all
    where it is -1. A report is the place.

    Raises:
        ValueError: ``size`` is not in 2..2**22, or ``threshold`` not in 2**63+1..2**64-1.
    """

    symmetric = True

    size: int
    threshold: int

    def __post_init__(self) -> None:
        if not 2 <= self.size <= MAX_INPUTS:
            raise ValueError(f"size {self.size}: expected 2 to 2**22 inputs")
        if not WORDS // 2 < self.threshold < WORDS:
            raise ValueError(f"threshold {self.threshold}: expected 2**63 + 1 to 2**64 - 1")

    @classmethod
    def with_epsilon(cls, size: int, *, epsilon: float) -> HadamardResponse:
        """The largest p whose epsilon does not exceed ``epsilon``: ``1 / (1 + e**-epsilon)``.

        Rounded down to a multiple of 2**-63 by decimal arithmetic, so the threshold is the same on
        every platform.

        Raises:
            ValueError: ``epsilon`` is not positive and finite, or too small for any threshold.
        """
        # A sign is kept or drawn anew, and is then right half of the time.
        keep = KeepUniform.with_epsilon(2, epsilon=epsilon).threshold
        if keep < 2:
            raise ValueError(f"epsilon {epsilon}: too small for a probability above 1/2")
        return cls(size, WORDS // 2 + keep // 2)

    @property
    def p(self) -> Fraction:
        """The probability that the sign at the reported place is 1."""
        return Fraction(self.threshold, WORDS)

    @property
    def places(self) -> int:
        """The number of different reports, K."""
        return 1 << self.size.bit_length()

    @property
    def report(self) -> ArraySpec:
        """A place."""
        return ArraySpec(dtype=dtype_name(smallest_dtype(self.places)), shape=(), high=self.places)

    @property
    def epsilon(self) -> float:
        """``ln(p / (1-p))`` of the exact threshold, rounded once."""
        return log_fraction(self.p / (1 - self.p))

    @property
    def dominating(self) -> Dominating:
        """Any two codes have the losses epsilon, 0 and -epsilon. Exact."""
        return Dominating((ThreePoint(self.p / (1 - self.p), self.p - Fraction(1, 2)),), True)

    def law(self, first: int, second: int) -> tuple[OutputClass, ...]:
        """A place by its signs in the two codes' rows: 1 in neither, the first, the second, both.

        Each of these is a quarter of all places.
        """
        right, wrong = self.p / 2, (1 - self.p) / 2
        return (
            OutputClass(wrong, wrong, (False, False)),
            OutputClass(right, wrong, (True, False)),
            OutputClass(wrong, right, (False, True)),
            OutputClass(right, right, (True, True)),
        )

    def classify(self, reports: Array, first: int, second: int) -> NDArray[np.uint8]:
        """The class of every report, shape (k,)."""
        one, two = (1 - _odd(reports, code + 1) for code in (first, second))
        classes: NDArray[np.uint8] = one + 2 * two
        return classes

    @property
    def support(self) -> Support:
        """Support: a report counts for every code with a 1 in its row.

        The probability to count for two others depends on whether one row is the product of the
        others (``covariance``).
        """
        return Support(hit=self.p, other=Fraction(1, 2), both_hit=self.p / 2)

    def tally(self, reports: Array) -> NDArray[np.int64]:
        """Number of reports that count for every code, shape ``(size,)``: one fast transform.

        Raises:
            ValueError: another shape or dtype, or a number that is not a place.
        """
        if not self.fits(reports):
            raise ValueError(
                f"reports of type {reports.dtype} and shape {reports.shape}: expected unsigned "
                f"numbers below {self.places}, shape (k,)"
            )
        signs = wht(np.bincount(reports.astype(np.intp), minlength=self.places).astype(np.int64))
        counted: NDArray[np.int64] = (len(reports) + signs[1 : self.size + 1]) // 2
        return counted

    def covariance(self, shares: Floats, n: int) -> Floats:
        """The covariance matrix of ``shares`` given the answers, shape ``(size, size)``.

        The product of two rows is a third one. Of two codes the covariance is
        ``f / (n (2p - 1))`` with f the share of the code of that row; 0 if no code has it.
        """
        rows = np.arange(1, self.size + 1)
        found: Floats = self._by_row(shares)[rows[:, np.newaxis] ^ rows] / (
            n * (2 * float(self.p) - 1)
        )
        np.fill_diagonal(found, self.variances(shares, n))
        return found

    def sum_variances(
        self, shares: Floats, n: int, groups: NDArray[np.integer], weights: Floats
    ) -> Floats:
        """The variances of weighted sums of shares, as ``Randomizer.sum_variances``.

        By the transforms of the weights of each group, or pair by pair if groups are small.
        """
        number, largest = int(groups.max()) + 1, int(np.bincount(groups).max())
        between = self._by_row(shares) / (n * (2 * float(self.p) - 1))
        found = group_sums(groups, weights**2 * self.variances(shares, n), number)
        if largest**2 <= self.places:
            order = np.argsort(groups, kind="stable")
            for step in range(1, largest):
                one, two = order[:-step], order[step:]
                alike = groups[one] == groups[two]
                one, two = one[alike], two[alike]
                pairs = 2 * weights[one] * weights[two] * between[(one + 1) ^ (two + 1)]
                found += group_sums(groups[one], pairs, number)
            return found
        spectrum = wht(between) / self.places
        at_once = max(1, _TRANSFORMED_AT_ONCE // self.places)
        for start in range(0, number, at_once):
            rows = np.zeros((min(at_once, number - start), self.places))
            own = np.flatnonzero((groups >= start) & (groups < start + at_once))
            rows[groups[own] - start, own + 1] = weights[own]
            found[start : start + at_once] += wht(rows) ** 2 @ spectrum
        return found

    def randomize(self, codes: NDArray[np.unsignedinteger], stream: Stream) -> Array:
        """Randomize every code by itself: draw a place, and move it to change its sign.

        The lowest bit of the row that is 1 joins the places of one sign with those of the other.

        Args:
            codes: below ``size``, shape (k,), of an unsigned type that holds them.
            stream: the source of the draws.

        Returns:
            Shape (k,): places, as ``report`` says.

        Raises:
            ValueError: another shape, an unsuitable type, or a code that is not below ``size``.
        """
        check_column(codes, self.size)
        rows = codes.astype(np.uint32) + np.uint32(1)
        missed = ~stream.bernoulli(self.threshold, len(codes))
        places = stream.integers(self.places, len(codes)).astype(np.uint32)
        moved = (_odd(places, rows) != missed).astype(np.uint32)
        places ^= moved * (rows & (~rows + np.uint32(1)))
        return places.astype(smallest_dtype(self.places))

    def _by_row(self, shares: Floats) -> Floats:
        """The shares of the codes in the order of the rows of the matrix, shape ``(places,)``."""
        found = np.zeros(self.places)
        found[1 : self.size + 1] = shares
        return found


def _odd(places: Array, rows: int | NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Parity of the number of bits that a place and a row share."""
    shared = places.astype(np.uint32) & np.asarray(rows, np.uint32)
    found: NDArray[np.uint8] = np.bitwise_count(shared) & np.uint8(1)
    return found
