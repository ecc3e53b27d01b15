"""The randomizer that keeps an answer with probability a and else draws uniformly.

Its randomization matrix is ``P = aI + (1-a)/r J`` over r categories, with a an exact multiple of
2**-64, so every probability and epsilon follows from integers (Domingo-Ferrer and Soria-Comas,
Multi-Dimensional Randomized Response, Proposition 1 and section 6.3, as corrected).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import WORDS, Stream, modulo
from protocol.randomizers.exact import DIGITS, Codes, Floats, check_codes, log_ratio, odds
from protocol.randomizers.guesses import guess_of_keeps
from protocol.randomizers.mixing import FakesMixing
from protocol.randomizers.pairs import Dominating, ThreePoint
from protocol.randomizers.randomizer import OutputClass, Randomizer, Support
from protocol.randomizers.unmixing import KeepUnmixing, check_places
from protocol.wire.arrays import Array

_NONE = np.zeros(0, np.intp)


class KeepUniform(Randomizer, frozen=True, tag="keep"):
    """Keep a code with probability ``a = threshold / 2**64``, else draw one of all ``size`` codes.

    The diagonal of its matrix is ``a + (1-a)/size``, every other entry ``(1-a)/size``.

    Raises:
        ValueError: ``size`` is not in 2..2**64-1, or ``threshold`` is not in 1..2**64-1.
    """

    symmetric = True

    size: int
    threshold: int

    def __post_init__(self) -> None:
        if not 2 <= self.size < WORDS:
            raise ValueError(f"size {self.size}: expected 2 to 2**64 - 1 categories")
        if not 1 <= self.threshold < WORDS:
            raise ValueError(f"threshold {self.threshold}: expected 1 to 2**64 - 1")

    @classmethod
    def with_keep(cls, size: int, *, p: float) -> KeepUniform:
        """Keep with the multiple of 2**-64 nearest to probability ``p``.

        Raises:
            ValueError: ``p`` is not strictly between 0 and 1, or is below 2**-65.
        """
        if not 0 < p < 1:
            raise ValueError(f"keep probability {p}: expected more than 0 and less than 1")
        return cls(size, _nearest(Fraction(p), f"keep probability {p}"))

    @classmethod
    def with_diagonal(cls, size: int, *, diagonal: float) -> KeepUniform:
        """Report the true category with probability ``diagonal``, uniform draws included.

        Raises:
            ValueError: ``diagonal`` is not strictly between ``1/size``, where the matrix is
                singular, and 1.
        """
        if size < 2 or not 0 < diagonal < 1 or Fraction(diagonal) * size <= 1:
            raise ValueError(
                f"diagonal {diagonal} of {size} categories: expected at least 2 categories "
                "and a diagonal of more than 1/size and less than 1"
            )
        keep = (Fraction(diagonal) * size - 1) / (size - 1)
        return cls(size, _nearest(keep, f"diagonal {diagonal}"))

    @classmethod
    def with_epsilon(cls, size: int, *, epsilon: float) -> KeepUniform:
        """The largest keep probability whose epsilon does not exceed ``epsilon``.

        ``a = (e**epsilon - 1) / (e**epsilon + size - 1)``, rounded down to a multiple of 2**-64 by
        decimal arithmetic, so the threshold is the same on every platform.

        Raises:
            ValueError: ``epsilon`` is not positive and finite, or too small for any threshold.
        """
        context = Context(prec=DIGITS)
        gained = context.subtract(odds(epsilon), Decimal(1))
        keep = context.divide(gained, context.add(gained, Decimal(size)))
        threshold = min(int(context.multiply(keep, Decimal(WORDS))), WORDS - 1)
        if threshold < 1:
            raise ValueError(f"epsilon {epsilon}: too small for a keep probability of 2**-64")
        return cls(size, threshold)

    @property
    def keep(self) -> float:
        """The keep probability a."""
        return self.threshold / WORDS

    @property
    def diagonal(self) -> float:
        """The probability of reporting the true category, ``a + (1-a)/size``."""
        return (self.size * self.threshold + WORDS - self.threshold) / (self.size * WORDS)

    @property
    def off_diagonal(self) -> float:
        """The probability of reporting one given other category, ``(1-a)/size``."""
        return (WORDS - self.threshold) / (self.size * WORDS)

    @property
    def epsilon(self) -> float:
        """``ln(1 + size a/(1-a))`` of the exact threshold, rounded once."""
        rest = WORDS - self.threshold
        return log_ratio(self.size * self.threshold + rest, rest)

    @property
    def redrawn(self) -> Fraction:
        """``1 - a``."""
        return Fraction(WORDS - self.threshold, WORDS)

    @property
    def uniform_keep(self) -> float:
        """The keep probability a."""
        return self.keep

    def row(self, code: int) -> Sequence[Fraction]:
        """The probabilities of the reports given a category."""
        rest = Fraction(WORDS - self.threshold, self.size * WORDS)
        row = [rest] * self.size
        row[code] += Fraction(self.threshold, WORDS)
        return row

    def law(self, first: int, second: int) -> tuple[OutputClass, ...]:
        """A report is the first category, the second one, or any other."""
        rest = Fraction(WORDS - self.threshold, self.size * WORDS)
        own = rest + Fraction(self.threshold, WORDS)
        others = (self.size - 2) * rest
        return (
            OutputClass(own, rest, (True, False)),
            OutputClass(rest, own, (False, True)),
            OutputClass(others, others, (False, False)),
        )

    def classify(self, reports: Array, first: int, second: int) -> NDArray[np.intp]:
        """The class of every report, shape (k,)."""
        return np.where(reports == first, 0, np.where(reports == second, 1, 2))

    @property
    def dominating(self) -> Dominating:
        """Any two categories have the losses epsilon, 0 and -epsilon. Exact."""
        rest = WORDS - self.threshold
        ratio = Fraction(self.size * self.threshold + rest, rest)
        return Dominating((ThreePoint(ratio, Fraction(self.threshold, WORDS)),), True)

    @property
    def support(self) -> Support:
        """A report counts for the category that it is."""
        rest = Fraction(WORDS - self.threshold, self.size * WORDS)
        own = rest + Fraction(self.threshold, WORDS)
        return Support(hit=own, other=rest, both_hit=Fraction(0), both_other=Fraction(0))

    def tally(self, reports: Array) -> NDArray[np.int64]:
        """Number of reports of each category, shape ``(size,)``."""
        check_codes(reports, self.size)
        return np.bincount(reports.astype(np.intp), minlength=self.size).astype(np.int64)

    def best_guess(self, *others: Randomizer) -> float | None:
        """Exact for reports by such randomizers of one size, if these are not too many."""
        keeps = [one for one in (self, *others) if type(one) is KeepUniform]
        if len(keeps) <= len(others) or {one.size for one in keeps} != {self.size}:
            return None
        return guess_of_keeps(self.size, tuple(sorted(one.threshold for one in keeps)))

    def unmixing(self, sizes: Sequence[int], kept: Sequence[int]) -> KeepUnmixing:
        """A marginal has a keep randomizer with the same a, on the smaller product."""
        check_places(self.size, sizes, kept)
        cells = math.prod(sizes[place] for place in kept)
        return KeepUnmixing(
            tabulated=tuple(kept),
            cells=cells,
            alpha=WORDS / self.threshold,
            beta=(self.threshold - WORDS) / (self.threshold * cells),
        )

    def mixing(self, sizes: Sequence[int], kept: Sequence[int]) -> FakesMixing:
        """A marginal has a keep randomizer with the same a, on the smaller product."""
        check_places(self.size, sizes, kept)
        cells = math.prod(sizes[place] for place in kept)
        return FakesMixing(
            places=tuple(kept),
            keep=self.keep,
            fakes=np.full(cells, (WORDS - self.threshold) / (WORDS * cells)),
        )

    def matrix(self) -> Floats:
        """The matrix P, shape ``(size, size)``, rows the true category. For small sizes only."""
        dense = np.full((self.size, self.size), self.off_diagonal)
        np.fill_diagonal(dense, self.diagonal)
        return dense

    def randomize(self, codes: NDArray[Codes], stream: Stream) -> NDArray[Codes]:
        """Randomize every code by itself.

        One word w per code serves both draws: below the threshold t the code is kept, else
        ``w - t`` is uniform on the other ``2**64 - t`` words and is taken modulo ``size``; words
        in the incomplete last run are replaced by fresh draws. So the law is exactly P.

        Args:
            codes: category codes below ``size``, of any shape and an unsigned type that holds them.
            stream: the source of the draws.

        Raises:
            ValueError: the type of the codes is unsuitable, or a code is not below ``size``.
        """
        check_codes(codes, self.size)
        words = stream.words(codes.size)
        kept = words < np.uint64(self.threshold)
        # Nearly always the largest word shows that none is refused.
        last = np.uint64(self.last)
        refused = np.flatnonzero(words > last) if words.max(initial=0) > last else _NONE
        words -= np.uint64(self.threshold)
        randomized = modulo(words, self.size).astype(codes.dtype)
        if refused.size:
            randomized[refused] = stream.integers(self.size, refused.size).astype(codes.dtype)
        # All bits of the kept ones: a choice without branches, which coins would mislead.
        differing = codes.reshape(-1) ^ randomized
        differing &= np.negative(kept.astype(codes.dtype))
        randomized ^= differing
        return randomized.reshape(codes.shape)

    @property
    def last(self) -> int:
        """The last word that is not refused: above it the run of ``size`` values is incomplete."""
        return WORDS - 1 - (WORDS - self.threshold) % self.size


def exact_response(randomizer: Randomizer) -> KeepUniform | None:
    """The randomizer itself, if it surely draws as ``KeepUniform`` does; a subclass may not."""
    return randomizer if type(randomizer) is KeepUniform else None


def _nearest(keep: Fraction, what: str) -> int:
    """The threshold nearest to an exact probability."""
    threshold = round(keep * WORDS)
    if not 1 <= threshold < WORDS:
        raise ValueError(f"{what}: rounds to 0 or 1 at a precision of 2**-64")
    return threshold
