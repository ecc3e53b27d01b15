"""Nonresponse: its rate, and how far shares could be off because of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Response(NamedTuple):
    """Response: the numbers of those asked and of those counted.

    Attributes:
        asked: at least ``answered``.
        answered: the number that was counted.
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
        """The least and the largest possible shares of all that were asked.

        The least if none of the others is in the cell, the largest if all of them are (Manski,
        Anatomy of the Selection Problem, Journal of Human Resources 24, 1989). The ends of an
        interval for shares can be bounded in the same way.

        Args:
            shares: of those that were counted.
        """
        counted = self.rate * np.asarray(shares, np.float64)
        return counted, counted + self.widest
