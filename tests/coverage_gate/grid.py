"""The stated grid: how many reports, how rare the answer, how much noise, how many categories."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

EXPECTED = (1, 3, 10, 30, 100, 1_000, 10_000, 1_000_000)
"""How many reports are expected to count for the cell that an interval is about."""

SHARES = (0.001, 0.01, 0.1, 0.5)
"""The share of the population in that cell."""

KEEPS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""The probability of keeping an answer."""

CATEGORIES = (2, 3, 10, 50)
"""How many categories an attribute has."""


class Point(NamedTuple):
    """A point of the grid.

    Args:
        expected: reports that are expected to count for the cell.
        share: of the population in the cell.
        keep: the probability of keeping an answer.
        categories: of an attribute.
    """

    expected: int
    share: float
    keep: float
    categories: int

    @property
    def epsilon(self) -> float:
        """What a report costs that keeps with ``keep`` and else draws one of the categories."""
        return math.log1p(self.categories * self.keep / (1 - self.keep))

    def respondents(self, chance: float) -> int:
        """How many respondents it takes.

        Args:
            chance: the probability that a respondent's report counts for the cell.
        """
        return max(1, round(self.expected / chance))

    def __str__(self) -> str:
        return f"{self.expected:,} expected, share {self.share}, p {self.keep}, r {self.categories}"


def grid(
    *,
    expected: Sequence[int] = EXPECTED,
    shares: Sequence[float] = SHARES,
    keeps: Sequence[float] = KEEPS,
    categories: Sequence[int] = CATEGORIES,
) -> tuple[Point, ...]:
    """All points with these coordinates."""
    return tuple(Point(*at) for at in product(expected, shares, keeps, categories))


def between(categories: Sequence[int]) -> tuple[Point, ...]:
    """Points off the grid, where a coverage that sways with the count may be at its lowest."""
    return grid(
        expected=(2, 5, 7, 15, 20, 45, 70),
        shares=(0.003, 0.03, 0.2, 0.35, 0.7, 0.9, 0.99),
        keeps=(0.2, 0.6, 0.85),
        categories=categories,
    )


def fraction(categories: Sequence[int], *, shares: Sequence[float] = SHARES) -> tuple[Point, ...]:
    """A part of the grid for what is drawn: each number of reports with each share.

    Keep probabilities and categories take turns, so that each meets each share and each number.
    """
    return tuple(
        Point(expected, share, KEEPS[(i + 2 * j) % 5], categories[(i + j) % len(categories)])
        for i, expected in enumerate(EXPECTED)
        for j, share in enumerate(shares)
    )
