"""The piecewise mechanism: a number is reported as one near it, or as any.

Wang et al., Collecting and Analyzing Multidimensional Data with Local Differential Privacy, ICDE
2019, section III-B. There, reports are real numbers from -C to C with
``C = (e**(epsilon/2) + 1) / (e**(epsilon/2) - 1)``, a window of which is likelier by e**epsilon.
Here they are equally spaced numbers, so that every probability is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import WORDS, Stream
from protocol.randomizers.exact import (
    DIGITS,
    check_column,
    check_epsilon,
    log_fraction,
    odds,
)
from protocol.randomizers.means.grid import check_grid, grid
from protocol.randomizers.means.means import MeanRandomizer
from protocol.randomizers.pairs import Dominating, ThreePoint
from protocol.wire.arrays import Array, ArraySpec, dtype_name, smallest_dtype

MAX_PLACES = 2**18
"""The most different reports."""

# As many different reports as a byte holds, where the grid of inputs is not too fine for that.
_FEW_PLACES = 2**8


class PiecewiseMean(MeanRandomizer, frozen=True, tag="piecewise"):
    """A value as a place in its window with probability a, else as any place.

    The inputs are ``size`` equally spaced values from -1 to 1. The window of code i is the
    ``window`` places from ``step i`` on; there are ``window + step (size - 1)`` places in all, and
    ``a = threshold / 2**64``. The score of a place is its distance from the middle one, in units of
    ``2 / (a step (size - 1))``: so its mean is the value exactly.

    Raises:
        ValueError: ``size`` is not in 2..2**16, ``step`` or ``window`` less than 1, there are more
            than 2**18 places, or ``threshold`` is not in 1..2**64-1.
    """

    size: int
    step: int
    window: int
    threshold: int

    def __post_init__(self) -> None:
        check_grid(self.size)
        if self.step < 1 or self.window < 1 or self.places > MAX_PLACES:
            raise ValueError(
                f"step {self.step}, window {self.window}: expected at least 1 each, and at most "
                f"2**18 places in all, not {self.places:,}"
            )
        if not 1 <= self.threshold < WORDS:
            raise ValueError(f"threshold {self.threshold}: expected 1 to 2**64 - 1")

    @classmethod
    def with_epsilon(cls, size: int, *, epsilon: float, step: int | None = None) -> PiecewiseMean:
        """The paper's window, and the largest a whose epsilon does not exceed ``epsilon``.

        The window is ``e**(-epsilon/2)`` times as long as the way that it moves, rounded to places,
        and at least 1. ``a = (e**epsilon - 1) w / ((e**epsilon - 1) w + r)`` for windows of w of r
        places, rounded down to a multiple of 2**-64. All by decimal arithmetic, so that both are
        the same on every platform.

        Args:
            size: the number of values.
            epsilon: in nats.
            step: the places from one value to the next; by default as many as make at most 256
                places in all, and at least 1.

        Raises:
            ValueError: ``epsilon`` is not positive and finite, or too small for any threshold.
        """
        check_grid(size)
        check_epsilon(epsilon)
        if step is None:
            step = max(1, _FEW_PLACES // (size - 1))
            while (
                step > 1 and step * (size - 1) + _window(step * (size - 1), epsilon) > _FEW_PLACES
            ):
                step -= 1
        window = _window(step * (size - 1), epsilon)
        context = Context(prec=DIGITS)
        within = context.multiply(context.subtract(odds(epsilon), Decimal(1)), Decimal(window))
        places = Decimal(window + step * (size - 1))
        share = context.divide(within, context.add(within, places))
        threshold = context.multiply(share, Decimal(WORDS)).to_integral_value(ROUND_FLOOR, context)
        if threshold < 1:
            raise ValueError(f"epsilon {epsilon}: too small for a probability of 2**-64")
        return cls(size, step, window, min(int(threshold), WORDS - 1))

    @property
    def places(self) -> int:
        """The number of different reports."""
        return self.window + self.step * (self.size - 1)

    @property
    def keep(self) -> Fraction:
        """The probability a that a report is drawn from its window."""
        return Fraction(self.threshold, WORDS)

    @property
    def redrawn(self) -> Fraction:
        """``1 - a``."""
        return 1 - self.keep

    @property
    def report(self) -> ArraySpec:
        """A place."""
        return ArraySpec(dtype=dtype_name(smallest_dtype(self.places)), shape=(), high=self.places)

    @property
    def values(self) -> Sequence[Fraction]:
        """``size`` equally spaced values from -1 to 1."""
        return grid(self.size)

    @property
    def scores(self) -> Sequence[Fraction]:
        """The score of every place."""
        return _scores(self)

    @property
    def epsilon(self) -> float:
        """``ln(1 + a r / ((1-a) w))`` of the exact threshold, rounded once."""
        return log_fraction(self._ratio)

    @property
    def _ratio(self) -> Fraction:
        rest = (WORDS - self.threshold) * self.window
        return 1 + Fraction(self.threshold * self.places, rest)

    @property
    def dominating(self) -> Dominating:
        """Dominating pair of the two ends of the grid, with the least common part of windows."""
        apart = min(self.window, self.step * (self.size - 1))
        distance = self.keep * Fraction(apart, self.window)
        return Dominating((ThreePoint(self._ratio, distance),), self.size == 2)

    def row(self, code: int) -> Sequence[Fraction]:
        """The probabilities of the places given a value."""
        rest = (1 - self.keep) / self.places
        likely = rest + self.keep / self.window
        start = self.step * code
        after = self.places - start - self.window
        return [*[rest] * start, *[likely] * self.window, *[rest] * after]

    @property
    def squares(self) -> tuple[Fraction, Fraction]:
        """Squares of the value 0, were it on the grid, and ``1/a``."""
        return self._spread, 1 / self.keep

    def noise(self, totals: NDArray[np.integer]) -> float | None:
        """The variance of ``mean`` given the answers, estimated without bias.

        The square of a score has the expectation ``c + t**2 / a``, and so ``a c + (1-a) s**2`` of a
        score s that of ``variance``.
        """
        n = int(totals.sum())
        if n < 1:
            return None
        a, squares = float(self.keep), (float(self._unit) * self._distances) ** 2
        # ``1 - a`` is exact, as ``redrawn`` may be far below the last digit of 1.
        noise = a * float(self._spread) + float(self.redrawn) * float(totals @ squares) / n
        return noise / n

    @property
    def outcomes(self) -> int:
        """The number of places."""
        return self.places

    @property
    def _distances(self) -> NDArray[np.float64]:
        """The distance of every place from the middle one."""
        return np.arange(self.places, dtype=np.float64) - (self.places - 1) / 2

    @property
    def _spread(self) -> Fraction:
        """The variance at the value 0, even if it is not on the grid."""
        a = self.keep
        spread = a * (self.window**2 - 1) + (1 - a) * (self.places**2 - 1)
        return self._unit**2 * spread / 12

    @property
    def _unit(self) -> Fraction:
        """Difference of the scores of two neighbouring places."""
        return 2 / (self.keep * self.step * (self.size - 1))

    def randomize(self, codes: NDArray[np.unsignedinteger], stream: Stream) -> Array:
        """Randomize every value by itself: one word decides between its window and all places.

        Both are drawn for each, so that the time does not reveal the decision.

        Args:
            codes: below ``size``, shape (k,), of an unsigned type that holds them.
            stream: the source of the draws.

        Returns:
            Shape (k,): places, as ``report`` says.

        Raises:
            ValueError: another shape, an unsuitable type, or a code that is not below ``size``.
        """
        check_column(codes, self.size)
        near = stream.bernoulli(self.threshold, len(codes))
        places = stream.integers(self.window, len(codes))
        places += codes.astype(np.uint64) * np.uint64(self.step)
        anywhere = stream.integers(self.places, len(codes))
        return np.where(near, places, anywhere).astype(smallest_dtype(self.places))


@lru_cache(maxsize=16)
def _scores(randomizer: PiecewiseMean) -> Sequence[Fraction]:
    unit, last = randomizer._unit, randomizer.places - 1
    return tuple(unit * Fraction(2 * place - last, 2) for place in range(last + 1))


def _window(way: int, epsilon: float) -> int:
    """``way e**(-epsilon/2)``, rounded, and at least 1."""
    context = Context(prec=DIGITS)
    length = context.divide(Decimal(way), odds(epsilon, 2))
    return max(1, int(length.to_integral_value(ROUND_HALF_EVEN, context)))
