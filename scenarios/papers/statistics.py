"""Figures over runs: means, medians and shares, each with its standard error."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.randomizers.exact import Floats

_Z = 1.959963984540054
"""Quantile of the normal law for an interval of 95 %."""

CHANCE = 0.0027
"""Probability that a figure with the law of the printed one is called different: that of a normal
variable beyond three standard errors.
"""


class Figure(NamedTuple):
    """A figure over runs.

    Args:
        value: the figure.
        error: its standard error; NaN where there are too few values to tell.
        single: the standard error of the same figure of a single run.
        degrees: of freedom with which the error is known.
    """

    value: float
    error: float
    single: float
    degrees: float

    def tolerance(self, printed_runs: int | None) -> float:
        """Distance by which this and a printed figure of the same law may be apart by chance.

        The printed figure's own standard error follows from that of a single run here. The error is
        estimated, so Student's law decides.

        Args:
            printed_runs: what the printed figure is of; None if it is exact.
        """
        # Imported here: scenarios are listed without it.
        from scipy.special import stdtrit

        own = 0.0 if printed_runs is None else self.single / math.sqrt(printed_runs)
        if math.isnan(self.error) or math.isnan(own) or self.degrees < 1:
            return math.nan
        return float(stdtrit(self.degrees, 1 - CHANCE / 2)) * math.hypot(self.error, own)


def mean(values: NDArray[Any]) -> Figure:
    """The mean over runs, (runs,), that are independent.

    Where all came out alike its error is unknown, not 0.
    """
    found = np.asarray(values, np.float64)
    runs = len(found)
    single = float(found.std(ddof=1)) if runs > 1 and np.ptp(found) > 0 else math.nan
    return Figure(float(found.mean()), single / math.sqrt(runs), single, runs - 1)


def share(values: NDArray[np.bool_]) -> Figure:
    """The share of the runs, (runs,), in which something holds.

    Where all came out alike the error is that of the share which one run more of either outcome
    would make: never 0, and about ``1/runs``.
    """
    runs, value = len(values), float(values.mean())
    if runs < 2:
        return Figure(value, math.nan, math.nan, 0)
    likely = 1 / (runs + 2) if value in (0.0, 1.0) else value
    single = math.sqrt(likely * (1 - likely))
    return Figure(value, single / math.sqrt(runs), single, runs - 1)


def median(values: Floats) -> Figure:
    """The median of values that may be infinite, with its standard error by order statistics.

    The share of values below the true median has the standard error s. The values of the ranks
    ``n/2 -+ 1.96 n s`` are the ends of a 95 % interval, and the error is its length over 2 * 1.96
    (McKean and Schrader 1984). For independent values s is ``1/(2 sqrt(n))``; values of one run
    depend on each other, so s is taken from the shares of the runs. The length is a sum of as many
    spacings as there are ranks between. Its uncertainty is that of the root of a mean square with
    half as many degrees of freedom.

    Args:
        values: shape (runs,), or (runs, questions) for several values per run.
    """
    ranked = np.sort(values, axis=None)
    alone, _ = _by_ranks(ranked, 0.5 / math.sqrt(ranked.size))
    single = alone * math.sqrt(ranked.size)
    value = float((ranked[(ranked.size - 1) // 2] + ranked[ranked.size // 2]) / 2)
    if value == math.inf:
        return Figure(value, math.nan, math.nan, 0)
    if values.ndim == 1:
        error, ranks = _by_ranks(ranked, 0.5 / math.sqrt(ranked.size))
        return Figure(value, error, single, ranks / 2)
    if len(values) < 2:
        return Figure(value, math.nan, single, 0)
    # A value that is the median itself counts half.
    below = (np.sign(value - values) + 1).mean(axis=1) / 2
    error, ranks = _by_ranks(ranked, float(below.std(ddof=1)) / math.sqrt(len(values)))
    return Figure(value, error, single, min(ranks / 2, len(values) - 1))


def _by_ranks(ranked: Floats, share_error: float) -> tuple[float, int]:
    """Standard error of a median, and the number of ranks behind it."""
    n = ranked.size
    rank = math.floor((n + 1) / 2 - _Z * n * share_error)
    if rank < 1 or ranked[n - rank] == math.inf:
        return math.nan, 0
    return float(ranked[n - rank] - ranked[rank - 1]) / (2 * _Z), n - 2 * rank + 1
