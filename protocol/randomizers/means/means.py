"""Randomizers of numbers: the mean of the score of a report is the true value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.randomizers.exact import Floats, check_codes
from protocol.randomizers.randomizer import Randomizer
from protocol.wire.arrays import Array


class Mean(NamedTuple):
    """An estimated mean.

    Args:
        value: unbiased, if no respondent is left out.
        standard_error: where the respondents are a sample of a population.
    """

    value: float
    standard_error: float


class MeanRandomizer(Randomizer, frozen=True):
    """Base of randomizers whose inputs are values on a grid, and whose reports have scores.

    A subclass supplies ``values`` and ``scores``, and the law as a table (``row``). The expectation
    of a report's score is the value of the input. The mean of the inputs is estimated, and not
    their shares.
    """

    @property
    def values(self) -> Sequence[Fraction]:
        """The value of every input, rising."""
        self._refuse("the values of its inputs")

    @property
    def scores(self) -> Sequence[Fraction]:
        """The score of every report."""
        self._refuse("the scores of its reports")

    @property
    def outcomes(self) -> int:
        """Number of different reports, and so the length of a tally."""
        return len(self.scores)

    def farthest(self, code: int) -> int:
        """The end of the grid that is farther away."""
        return self.size - 1 if code < self.size / 2 else 0

    def tally(self, reports: Array) -> NDArray[np.int64]:
        """Number of reports of each, shape ``(outcomes,)``.

        Raises:
            ValueError: another shape or type, or a number that is not below ``outcomes``.
        """
        if reports.ndim != 1:
            raise ValueError(f"reports of shape {reports.shape}: expected (k,)")
        check_codes(reports, self.outcomes)
        return np.bincount(reports.astype(np.intp), minlength=self.outcomes).astype(np.int64)

    def average(self, totals: NDArray[np.integer]) -> float:
        """The mean of the scores: the ``value`` of ``mean``, of one report too."""
        return float(totals @ _floats(self)) / int(totals.sum())

    def mean(self, totals: NDArray[np.integer]) -> Mean:
        """The mean of the values of the reporters.

        Args:
            totals: the result of ``tally``, the number of each report.

        Raises:
            ValueError: fewer than two reports.
        """
        n = int(totals.sum())
        if n < 2:
            raise ValueError(f"{n} reports: expected at least 2")
        scores, value = _floats(self), self.average(totals)
        spread = float(totals @ (scores - value) ** 2) / (n - 1)
        return Mean(value, math.sqrt(spread / n))

    def noise(self, totals: NDArray[np.integer]) -> float | None:
        """The estimated variance of ``mean`` given the answers.

        By default the variance if the answers are a random sample. It includes the spread of the
        answers, so it is never too small on average. A subclass with reports that determine the
        spread leaves it out.

        Args:
            totals: of ``tally``.

        Returns:
            None if the reports are too few or too similar.
        """
        n = int(totals.sum())
        if n < 2 or np.count_nonzero(totals) < 2:
            return None
        return self.mean(totals).standard_error ** 2

    @property
    def squares(self) -> tuple[Fraction, Fraction] | None:
        """The mean square of a score given a value t, as the factors of 1 and ``t**2``.

        None where it does not follow from ``t**2``.
        """
        return None


@lru_cache(maxsize=64)
def _floats(randomizer: MeanRandomizer) -> Floats:
    return np.array([float(score) for score in randomizer.scores])
