"""Nonresponse: how many of those asked have answered, and how far shares could be off for it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Response(NamedTuple):
    """Response: the number of those asked, and of those counted.

    Attributes:
        asked: at least ``answered``.
        answered: who was counted.
    """

    asked: int
    answered: int

    @property
    def rate(self) -> float:
        """The share that was counted; NaN if nobody was asked."""
        return self.answered / self.asked if self.asked else float("nan")

    @property
    def widest(self) -> float:
        """Largest distance of a share of all who were asked from that of those who were counted."""
        return 1 - self.rate

    def bounds(self, shares: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The least and the largest that shares of all who were asked can be.

        Whatever the others would have said: the least if none of them, the largest if all of them
        are in the cell (Manski, Anatomy of the Selection Problem, Journal of Human Resources 24,
        1989). With the ends of an interval for shares, it bounds what that leaves open too.

        Args:
            shares: of those who were counted.
        """
        counted = self.rate * np.asarray(shares, np.float64)
        return counted, counted + self.widest
