"""Nonresponse: the response rate, and bounds on shares of all who were asked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Response(NamedTuple):
    """Response: the numbers of those asked and of those counted.

    Attributes:
        asked: at least ``answered``.
        answered: the number of those counted.
    """

    asked: int
    answered: int

    @property
    def rate(self) -> float:
        """The share that was counted; NaN if nobody was asked."""
        return self.answered / self.asked if self.asked else float("nan")

    @property
    def widest(self) -> float:
        """Largest difference between the share of all asked and of all counted."""
        return 1 - self.rate

    def bounds(self, shares: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The least and the largest possible shares of all who were asked.

        They are reached if none, or all, of the others are in the cell (Manski, Anatomy of the
        Selection Problem, Journal of Human Resources 24, 1989). Given the ends of an interval, the
        bounds include its uncertainty.

        Args:
            shares: of those that were counted.
        """
        counted = self.rate * np.asarray(shares, np.float64)
        return counted, counted + self.widest
