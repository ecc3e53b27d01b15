"""One bit of a number: the likelier to be 1, the larger the number.

Duchi, Jordan and Wainwright, Minimax Optimal Procedures for Locally Private Estimation, Journal of
the American Statistical Association 2018, section 3.2, in one dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import WORDS, Stream
from protocol.randomizers.exact import DIGITS, check_column, log_ratio, odds
from protocol.randomizers.means.grid import check_grid, grid
from protocol.randomizers.means.means import MeanRandomizer
from protocol.randomizers.pairs import Dominating, ThreePoint
from protocol.wire.arrays import ArraySpec

_HALF = WORDS // 2


class OneBitMean(MeanRandomizer, frozen=True, tag="one-bit"):
    """A value t as one bit, which is 1 with probability ``(1 + g t) / 2``.

    The inputs are ``size`` equally spaced values from -1 to 1. Each is ``step / 2**63`` likelier
    than the one before to be reported as 1, so that ``g = step (size - 1) / 2**63``, and a 1
    scores ``1/g``, a 0 ``-1/g``.

    Raises:
        ValueError: ``size`` is not in 2..2**16, or ``step`` not at least 1 with
            ``step (size - 1) < 2**63``.
    """

    size: int
    step: int

    def __post_init__(self) -> None:
        check_grid(self.size)
        if not 0 < self.step * (self.size - 1) < _HALF:
            raise ValueError(
                f"step {self.step} of {self.size} values: expected at least 1 and less than "
                f"2**63 / {self.size - 1}"
            )

    @classmethod
    def with_epsilon(cls, size: int, *, epsilon: float) -> OneBitMean:
        """The largest g whose epsilon does not exceed ``epsilon``.

        ``g = (e**epsilon - 1) / (e**epsilon + 1)``, with ``step`` rounded down by decimal
        arithmetic, so that it is the same on every platform.

        Raises:
            ValueError: ``epsilon`` is not positive and finite, or too small for any step.
        """
        check_grid(size)
        context = Context(prec=DIGITS)
        told = odds(epsilon)
        gain = context.divide(context.subtract(told, Decimal(1)), context.add(told, Decimal(1)))
        whole = int(context.multiply(gain, Decimal(_HALF)).to_integral_value(ROUND_FLOOR, context))
        step = min(whole, _HALF - 1) // (size - 1)
        if step < 1:
            raise ValueError(f"epsilon {epsilon}: too small for {size} values")
        return cls(size, step)

    @property
    def gain(self) -> Fraction:
        """``g``: the difference of the probabilities of a 1 between the values 1 and -1."""
        return Fraction(self.step * (self.size - 1), _HALF)

    @property
    def report(self) -> ArraySpec:
        """One bit."""
        return ArraySpec(dtype="u1", shape=(), high=2)

    @property
    def values(self) -> Sequence[Fraction]:
        """``size`` equally spaced values from -1 to 1."""
        return grid(self.size)

    @property
    def scores(self) -> Sequence[Fraction]:
        """``-1/g`` and ``1/g``."""
        return [-1 / self.gain, 1 / self.gain]

    @property
    def epsilon(self) -> float:
        """``ln((1+g) / (1-g))`` of the exact steps, rounded once."""
        most = self.step * (self.size - 1)
        return log_ratio(_HALF + most, _HALF - most)

    @property
    def dominating(self) -> Dominating:
        """The values 1 and -1, of which a report is binary randomized response."""
        return Dominating((ThreePoint.binary((1 + self.gain) / (1 - self.gain)),), self.size == 2)

    def row(self, code: int) -> Sequence[Fraction]:
        """The probabilities of 0 and of 1 given a value."""
        one = Fraction(self._ones(code), WORDS)
        return [1 - one, one]

    def randomize(self, codes: NDArray[np.unsignedinteger], stream: Stream) -> NDArray[np.uint8]:
        """Randomize every value by itself: one word below its threshold makes a 1.

        Args:
            codes: below ``size``, shape (k,), of an unsigned type that holds them.
            stream: the source of the draws.

        Returns:
            Shape (k,), 0 or 1.

        Raises:
            ValueError: another shape, an unsuitable type, or a code that is not below ``size``.
        """
        check_column(codes, self.size)
        steps = codes.astype(np.uint64) * np.uint64(2 * self.step)
        ones = np.uint64(self._ones(0)) + steps
        return (stream.words(len(codes)) < ones).astype(np.uint8)

    def _ones(self, code: int) -> int:
        """Number of words for which a code is reported as 1."""
        return _HALF + self.step * (2 * code - (self.size - 1))
