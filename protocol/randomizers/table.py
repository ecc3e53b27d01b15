"""The randomizer that keeps an answer or else reports a fake from a public table.

Its randomization matrix is ``P = pI + (1-p) 1 T^T`` over r categories, with p and every T[v] an
exact multiple of 2**-64 (RRBA, section 4.1 and equation 3). With the uniform T it is the law of
``KeepUniform``, which costs the least privacy for a given p.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.crypto.randomness import WORDS, Stream
from protocol.randomizers.exact import Codes, Floats, check_codes, check_type, log_ratio
from protocol.randomizers.keep import KeepUniform
from protocol.randomizers.mixing import FakesMixing
from protocol.randomizers.pairs import Dominating, ThreePoint
from protocol.randomizers.randomizer import OutputClass, Randomizer
from protocol.randomizers.unmixing import TableUnmixing, check_places, marginal
from protocol.wire.arrays import Array


class KeepElseTable(
    Randomizer, frozen=True, kw_only=True, tag="keep-table", dict=True, cache_hash=True
):
    """Keep a code with probability ``p = threshold / 2**64``, else report v with probability T[v].

    ``T[v] = weights[v] / 2**64``. The diagonal of its matrix is ``p + (1-p) T[v]``, the rest of
    column v ``(1-p) T[v]``. A category of weight 0 is reported only as a true answer, so such a
    report reveals the answer: epsilon is infinite, also to the accountants.

    Raises:
        ValueError: ``threshold`` is not in 1..2**64-1, there are fewer than 2 weights, a weight is
            not in 0..2**64-1 (a larger one could not travel), or they do not sum to exactly 2**64.
    """

    threshold: int
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        if not 1 <= self.threshold < WORDS:
            raise ValueError(f"threshold {self.threshold}: expected 1 to 2**64 - 1")
        if len(self.weights) < 2:
            raise ValueError(f"{len(self.weights)} weights: expected at least 2")
        for weight in (min(self.weights), max(self.weights)):
            if not 0 <= weight < WORDS:
                raise ValueError(f"weight {weight}: expected 0 to 2**64 - 1")
        if (total := sum(self.weights)) != WORDS:
            raise ValueError(f"the weights sum to {total}, expected 2**64")

    @classmethod
    def with_table(cls, *, p: float, table: ArrayLike, mix: float) -> KeepElseTable:
        """Keep with probability ``p``; draw fakes from ``(1 - mix) T + mix/r``.

        T is the table with its negative entries set to 0, divided by its sum. All is computed
        exactly from the given floats and rounded last, to the nearest multiples of 2**-64, where
        positive weights stay positive. The rest of the rounding goes to the first of the largest
        weights. A T of one category alone has 2**64 - 1 there and 1 at the first other category,
        which is the nearest that can travel.

        Args:
            p: the probability of the true answer, before a fake may happen to be true as well.
            table: shape (r,), finite, for a product domain in row-major order; like an estimate, it
                need not be non-negative nor sum to 1.
            mix: lambda, the share of the uniform distribution, from 0 to 1. Above 0 every category
                has a positive weight, for any table; at 1 the table has no effect.

        Raises:
            ValueError: ``p`` is not strictly between 0 and 1 or is within 2**-65 of either, ``mix``
                is not in 0..1, or the table has another shape, fewer than 2 entries, one that is
                not finite, or none that is positive.
        """
        entries = np.asarray(table, np.float64)
        if entries.ndim != 1 or len(entries) < 2:
            raise ValueError(f"a table of shape {entries.shape}: expected (r,), r at least 2")
        if not np.isfinite(entries).all():
            raise ValueError("an entry of the table is not finite")
        if not (entries > 0).any():
            raise ValueError("no entry of the table is positive")
        if not 0 <= mix <= 1:
            raise ValueError(f"mix {mix}: expected 0 to 1")
        keep = KeepUniform.with_keep(len(entries), p=p)
        weights = _weights(np.maximum(entries, 0.0).tolist(), Fraction(mix))
        return cls(threshold=keep.threshold, weights=weights)

    @property
    def size(self) -> int:
        """The number of categories, r."""
        return len(self.weights)

    @property
    def keep(self) -> float:
        """The probability p of reporting the answer without drawing a fake."""
        return self.threshold / WORDS

    @cached_property
    def table(self) -> NDArray[np.float64]:
        """The law T of the fakes, shape ``(size,)``."""
        law = np.array(self.weights, np.float64) / WORDS
        law.flags.writeable = False
        return law

    @property
    def epsilon(self) -> float:
        """``ln(1 + p / ((1-p) min T))`` of the exact integers, infinite if a weight is 0."""
        least = min(self.weights)
        if least == 0:
            return math.inf
        fake = (WORDS - self.threshold) * least
        return log_ratio(WORDS * self.threshold + fake, fake)

    @property
    def redrawn(self) -> Fraction:
        """``1 - p``."""
        return Fraction(WORDS - self.threshold, WORDS)

    def row(self, code: int) -> Sequence[Fraction]:
        """The probabilities of the reports given a category."""
        row = [self._fake(report) for report in range(self.size)]
        row[code] += Fraction(self.threshold, WORDS)
        return row

    def law(self, first: int, second: int) -> tuple[OutputClass, ...]:
        """A report is the first category, the second one, or any other."""
        keep = Fraction(self.threshold, WORDS)
        one, two = self._fake(first), self._fake(second)
        others = 1 - keep - one - two
        return (
            OutputClass(keep + one, one, (True, False)),
            OutputClass(two, keep + two, (False, True)),
            OutputClass(others, others, (False, False)),
        )

    def classify(self, reports: Array, first: int, second: int) -> NDArray[np.intp]:
        """The class of every report, shape (k,)."""
        return np.where(reports == first, 0, np.where(reports == second, 1, 2))

    def _fake(self, report: int) -> Fraction:
        return Fraction((WORDS - self.threshold) * self.weights[report], WORDS**2)

    @property
    def dominating(self) -> Dominating:
        """Epsilon, and the distance p that any two categories have.

        An upper bound, unless all fakes are equally likely.
        """
        least = min(self.weights)
        if least == 0:
            return Dominating(None, False)
        fake = (WORDS - self.threshold) * least
        ratio = Fraction(WORDS * self.threshold + fake, fake)
        pair = ThreePoint(ratio, Fraction(self.threshold, WORDS))
        return Dominating((pair,), least == max(self.weights))

    def farthest(self, code: int) -> int:
        """The category with the rarest fakes, whose report is the most revealing."""
        others = [other for other in range(self.size) if other != code]
        return min(others, key=lambda other: self.weights[other])

    def unmixing(self, sizes: Sequence[int], kept: Sequence[int]) -> TableUnmixing:
        """A marginal has the same p, and the marginal of the table of fakes."""
        check_places(self.size, sizes, kept)
        rest = (WORDS - self.threshold) / self.threshold
        return TableUnmixing(
            tabulated=tuple(kept),
            alpha=WORDS / self.threshold,
            fakes=rest * marginal(self.table.reshape(sizes), kept),
        )

    def mixing(self, sizes: Sequence[int], kept: Sequence[int]) -> FakesMixing:
        """A marginal has the same p, and the marginal of the table of fakes."""
        check_places(self.size, sizes, kept)
        rest = (WORDS - self.threshold) / WORDS
        return FakesMixing(
            places=tuple(kept),
            keep=self.keep,
            fakes=rest * marginal(self.table.reshape(sizes), kept),
        )

    def matrix(self) -> Floats:
        """The matrix P, shape ``(size, size)``, rows the true category. For small sizes only."""
        rest = WORDS - self.threshold
        fakes = [rest * weight / WORDS**2 for weight in self.weights]
        dense = np.tile(fakes, (self.size, 1))
        diagonal = [(WORDS * self.threshold + rest * weight) / WORDS**2 for weight in self.weights]
        np.fill_diagonal(dense, diagonal)
        return dense

    @cached_property
    def _bounds(self) -> NDArray[np.uint64]:
        """The cumulative weights below 2**64. The number that a word reaches is its fake."""
        last = max(place for place, weight in enumerate(self.weights) if weight)
        # Up to the last positive weight the sums stay below 2**64, so nothing wraps.
        return np.cumsum(np.array(self.weights[:last], np.uint64), dtype=np.uint64)

    def randomize(self, codes: NDArray[Codes], stream: Stream) -> NDArray[Codes]:
        """Randomize every code by itself, with two words each: the coin's and the fake's.

        Both are drawn for either outcome of the coin. The code is kept if its first word is below
        the threshold; else the fake is the inverse distribution function of T at the second.

        Args:
            codes: category codes below ``size``, of any shape and an unsigned type that holds them.
            stream: the source of the draws.

        Raises:
            ValueError: the type of the codes is unsuitable, or a code is not below ``size``.
        """
        check_codes(codes, self.size)
        words = stream.words(2 * codes.size).reshape(-1, 2)
        faked = np.flatnonzero(words[:, 0] >= np.uint64(self.threshold))
        randomized = codes.reshape(-1).copy()
        fakes = np.searchsorted(self._bounds, words[faked, 1], side="right")
        randomized[faked] = fakes.astype(codes.dtype)
        return randomized.reshape(codes.shape)


class Tables:
    """Several randomizers of this kind: answers drawn with different ones are drawn in one pass.

    The draws are those of ``KeepElseTable.randomize`` of one after the other.

    Args:
        tables: at least one.
    """

    __slots__ = ("_bounds", "_largest", "_lengths", "_sizes", "_steps", "_thresholds", "_width")

    def __init__(self, tables: Sequence[KeepElseTable]) -> None:
        bounds = [table._bounds for table in tables]
        self._thresholds = np.array([table.threshold for table in tables], np.uint64)
        self._sizes = np.array([table.size for table in tables])
        self._largest = int(self._sizes.max())
        self._lengths = np.array([len(each) for each in bounds])
        # A search takes steps of falling powers of two; all rows are as long as it can go.
        steps = [1 << bit for bit in range(int(self._lengths.max()).bit_length())]
        self._steps, self._width = steps[::-1], sum(steps)
        padded = np.full((len(tables), self._width), WORDS - 1, np.uint64)
        for row, each in zip(padded, bounds, strict=True):
            row[: len(each)] = each
        self._bounds = padded.reshape(-1)

    def randomize(
        self, codes: NDArray[Codes], which: NDArray[np.int64], stream: Stream
    ) -> NDArray[Codes]:
        """Randomize every code by itself, with two words each.

        Args:
            codes: shape (n,), of an unsigned type that holds the categories of all randomizers.
            which: (n,) the place of the randomizer of each.
            stream: the source of the draws: of the first randomizer's codes first.

        Raises:
            ValueError: the type of the codes is unsuitable, or a code is out of range.
        """
        check_type(codes, self._largest)
        if np.count_nonzero(codes >= self._sizes[which]):
            raise ValueError("a code is not below the size of its randomizer")
        words = np.empty((len(codes), 2), np.uint64)
        words[which.argsort(kind="stable")] = stream.words(words.size).reshape(-1, 2)
        (faked,) = (words[:, 0] >= self._thresholds[which]).nonzero()
        randomized = codes.copy()
        randomized[faked] = self._fakes(which[faked], words[faked, 1])
        return randomized

    def _fakes(self, which: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Number of its randomizer's bounds that each word reaches, by one binary search."""
        found = starts = which * self._width
        for step in self._steps:
            found = found + step * (self._bounds[found + (step - 1)] <= words)
        # The largest word also reaches the padding of a row.
        places: NDArray[np.int64] = np.minimum(found - starts, self._lengths[which])
        return places


def _weights(table: list[float], mix: Fraction) -> tuple[int, ...]:
    """``(1 - mix) T + mix/r`` in multiples of 2**-64 that sum to exactly 2**64.

    ``table`` is not negative and not all zero.
    """
    ratios = [entry.as_integer_ratio() for entry in table]
    # Denominators of floats are powers of two, so the largest is a multiple of all.
    scale = max(denominator for _, denominator in ratios)
    masses = [numerator * (scale // denominator) for numerator, denominator in ratios]
    total, size = sum(masses), len(masses)
    tabled = (mix.denominator - mix.numerator) * size
    uniform = mix.numerator * total
    whole = mix.denominator * size * total
    shares = [tabled * mass + uniform for mass in masses]
    weights = [
        max(1, (2 * WORDS * share + whole) // (2 * whole)) if share else 0 for share in shares
    ]
    largest = weights.index(max(weights))
    weights[largest] += WORDS - sum(weights)
    if weights[largest] == WORDS:
        weights[largest] -= 1
        weights[0 if largest else 1] = 1
    return tuple(weights)
