"""The randomizer with any matrix of exact rationals, for small domains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.crypto.randomness import WORDS, Stream
from protocol.randomizers.exact import Codes, Floats, check_codes, log_ratio
from protocol.randomizers.pairs import Dominating, ThreePoint
from protocol.randomizers.randomizer import Randomizer

MAX_SIZE = 2**10
"""The most categories: finding out whether a matrix has an inverse takes cubic time."""

ROW_TOLERANCE = 1e-9
"""Largest distance of the sum of a row of given probabilities from 1."""


class MatrixRandomizer(Randomizer, frozen=True, tag="matrix", dict=True):
    """Report category v given u with probability ``weights[u][v] / 2**64``.

    Raises:
        ValueError: the matrix is not square with 2 to 1,024 rows, a weight is negative, a row does
            not sum to exactly 2**64 or has all of it in one entry (which randomizes nothing), or
            the matrix is singular.
    """

    weights: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        size = len(self.weights)
        if size < 2:
            raise ValueError(f"{size} rows: expected at least 2")
        if size > MAX_SIZE:
            raise ValueError(f"{size:,} rows: at most {MAX_SIZE:,}")
        for place, row in enumerate(self.weights):
            if len(row) != size:
                raise ValueError(f"row {place}: {len(row)} weights, expected {size}")
            if min(row) < 0:
                raise ValueError(f"row {place}: a negative weight")
            if sum(row) != WORDS:
                raise ValueError(f"row {place}: the weights sum to {sum(row)}, expected 2**64")
            if max(row) == WORDS:
                raise ValueError(
                    f"row {place}: one category has probability 1, expected a randomized report"
                )
        if np.linalg.matrix_rank(self.matrix()) < size:
            raise ValueError("the matrix is singular: reports would not determine the answers")

    @classmethod
    def from_probabilities(cls, rows: ArrayLike) -> Self:
        """The nearest matrix of multiples of 2**-64; zeros stay zero and all else stays positive.

        The rest of the rounding goes to the largest entry of its row.

        Args:
            rows: shape (r, r), row u the distribution of the report given category u.

        Raises:
            ValueError: not square, not finite, negative, a row that does not sum to 1 within
                1e-9, or what the class refuses.
        """
        table = np.asarray(rows, np.float64)
        if table.ndim != 2 or table.shape[0] != table.shape[1]:
            raise ValueError(f"shape {table.shape}: expected a square matrix")
        if not np.all(np.isfinite(table)):
            raise ValueError("a probability is not finite")
        return cls(tuple(_weights(place, row) for place, row in enumerate(table.tolist())))

    @property
    def size(self) -> int:
        """The number of categories."""
        return len(self.weights)

    @property
    def epsilon(self) -> float:
        """The largest log ratio of two entries of one column; infinite if one of them is zero."""
        largest = 0.0
        for column in zip(*self.weights, strict=True):
            if min(column) == 0:
                return math.inf
            largest = max(largest, log_ratio(max(column), min(column)))
        return largest

    def row(self, code: int) -> Sequence[Fraction]:
        """The probabilities of the reports given a category."""
        return [Fraction(weight, WORDS) for weight in self.weights[code]]

    @property
    def dominating(self) -> Dominating:
        """Epsilon, and 1 minus the sum of the columns' minima. An upper bound."""
        columns = list(zip(*self.weights, strict=True))
        if any(min(column) == 0 for column in columns):
            return Dominating(None, False)
        ratio = max(Fraction(max(column), min(column)) for column in columns)
        # The overlap of any two rows is at least what all rows share.
        distance = 1 - Fraction(sum(map(min, columns)), WORDS)
        return Dominating((ThreePoint.bounded(ratio, distance),), False)

    def farthest(self, code: int) -> int:
        """The category with the largest log ratio to a report of this one."""
        with np.errstate(divide="ignore", invalid="ignore"):
            laws = np.log(self.matrix())
            apart = np.abs(laws - laws[code])
        largest = np.nan_to_num(apart, nan=0.0, posinf=1e300).max(axis=1)
        largest[code] = -1.0
        return int(np.argmax(largest))

    def matrix(self) -> Floats:
        """The matrix P, shape ``(size, size)``, rows the true category."""
        return np.array([[weight / WORDS for weight in row] for row in self.weights])

    @cached_property
    def _bounds(self) -> tuple[NDArray[np.uint64], ...]:
        """Cumulative weights of each row below 2**64; a word's category is how many it reaches."""
        bounds = []
        for row in self.weights:
            reached = 0
            below = []
            for weight in row:
                reached += weight
                if reached == WORDS:
                    break
                below.append(reached)
            bounds.append(np.array(below, np.uint64))
        return tuple(bounds)

    def randomize(self, codes: NDArray[Codes], stream: Stream) -> NDArray[Codes]:
        """Randomize every code by itself: the inverse distribution function of one word per code.

        Args:
            codes: category codes below ``size``, of any shape and an unsigned type that holds them.
            stream: the source of the draws.

        Raises:
            ValueError: the type of the codes is unsuitable, or a code is not below ``size``.
        """
        check_codes(codes, self.size)
        true = codes.reshape(-1)
        words = stream.words(true.size)
        randomized = np.empty_like(true)
        for code in np.flatnonzero(np.bincount(true.astype(np.intp), minlength=self.size)):
            chosen = np.flatnonzero(true == code)
            reports = np.searchsorted(self._bounds[code], words[chosen], side="right")
            randomized[chosen] = reports.astype(codes.dtype)
        return randomized.reshape(codes.shape)


def _weights(place: int, row: list[float]) -> tuple[int, ...]:
    """A row of probabilities as multiples of 2**-64 with a sum of exactly 2**64."""
    if min(row) < 0:
        raise ValueError(f"row {place}: a negative probability")
    if abs(math.fsum(row) - 1) > ROW_TOLERANCE:
        raise ValueError(f"row {place}: the probabilities sum to {math.fsum(row)}, expected 1")
    # A positive probability may not become zero: epsilon would jump to infinity.
    weights = [max(1, round(Fraction(entry) * WORDS)) if entry else 0 for entry in row]
    weights[weights.index(max(weights))] += WORDS - sum(weights)
    return tuple(weights)
