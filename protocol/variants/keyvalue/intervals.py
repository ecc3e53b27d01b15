"""Intervals of the means of keys' values, from counts of PrivKV's reports.

With f the share of those who hold a key, their mean m is a ratio. The reports give unbiased
estimates of f m and of f, and so of ``f m - m f``, which is 0 (Fieller, Some Problems in Interval
Estimation, JRSS B 16, 1954). An interval has every m for which this estimate is not in the tails of
its law, with the likeliest f if m is the mean. Where the reports are compatible with nobody holding
the key, it has every m.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from protocol.estimators.inference.cumulants import (
    Errors,
    above,
    below,
    crossing,
    left_by_sampling,
)
from protocol.estimators.inference.laws import Interval, critical
from protocol.randomizers.exact import Floats
from protocol.randomizers.keyvalue import ABSENT, MINUS, PLUS, PrivKV
from protocol.variants.keyvalue.counts import checked
from protocol.variants.keyvalue.moments import likeliest_share, symbol_laws

_GRID = 129
_FINE = 2.0**-36


def mean_intervals(
    counts: ArrayLike,
    randomizer: PrivKV,
    *,
    level: float,
    fakes: ArrayLike = 0.0,
    of: ArrayLike = math.inf,
) -> Interval:
    """Confidence intervals of the means of each key, shape (..., d).

    Args:
        counts: as from ``tally``.
        randomizer: that of the reports; for PrivKVM, that of one round.
        level: the confidence level, above 0 and below 1.
        fakes: the mean of the fakes, one for all or of shape (..., d).
        of: the number of respondents that the mean is about, if all values are -1 or 1, and those
            who report on the key are a random sample of them; one for all, or of shape (..., d). By
            default the mean is about a population.

    Returns:
        Within [-1, 1]; NaN for a key without a report.

    Raises:
        ValueError: as ``moment``, or the level is out of range.
    """
    critical(level)
    table = checked(counts)
    shape = table.shape[:-1]
    laws = np.broadcast_to(symbol_laws(randomizer, fakes, shape), (*shape, 3, 3)).reshape(-1, 3, 3)
    rows = table.reshape(-1, 3)
    asked = np.flatnonzero(rows.sum(axis=-1))
    low, high = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    people = np.broadcast_to(np.asarray(of, np.float64), shape).reshape(-1)
    reports = _Reports.of(rows[asked], laws[asked], people[asked])
    low[asked], high[asked] = _accepted(reports, (1 - level) / 2)
    return Interval(low.reshape(shape), high.reshape(shape))


class _Reports(NamedTuple):
    """The reports on k keys.

    Attributes:
        total: their numbers, shape (k,).
        shares: of the symbols, shape (k, 3).
        laws: of the symbol by the state, shape (k, 3, 3).
        by_total, by_frequency: the score of a symbol for f m and for f, shape (k, 3).
        left, turned: ``left_by_sampling`` of those who report, shape (k,).
    """

    total: Floats
    shares: Floats
    laws: Floats
    by_total: Floats
    by_frequency: Floats
    left: Floats
    turned: Floats

    @classmethod
    def of(cls, rows: Floats, laws: Floats, people: Floats) -> _Reports:
        total, inverse = rows.sum(axis=-1), np.asarray(np.linalg.inv(laws), np.float64)
        return cls(
            total,
            rows / total[:, np.newaxis],
            laws,
            inverse[..., PLUS] - inverse[..., MINUS],
            1 - inverse[..., ABSENT],
            *left_by_sampling(total, people),
        )


def _accepted(reports: _Reports, tail: float) -> tuple[Floats, Floats]:
    """The least and the largest mean that is not rejected: first on a grid, then refined."""
    keys = np.arange(len(reports.total))
    grid = _grid(reports)
    excess = np.stack([_smaller_tail(reports, means) for means in grid]) - tail
    held = excess >= 0
    # If all means are rejected, the estimate is far outside, and the nearest mean remains.
    held[excess.argmax(axis=0), keys] = True
    end = len(grid) - 1
    first, last = held.argmax(axis=0), end - held[::-1].argmax(axis=0)

    def refined(inner: Floats, outer: Floats) -> Floats:
        found = crossing(lambda m: _smaller_tail(reports, m) - tail, inner, outer, fine=_FINE)
        return np.where(np.isnan(found), inner, found)

    low = refined(grid[first, keys], grid[np.maximum(first - 1, 0), keys])
    high = refined(grid[last, keys], grid[np.minimum(last + 1, end), keys])
    return low, high


def _grid(reports: _Reports) -> Floats:
    """Means to try, rising, shape (tries, k): evenly from -1 to 1, and the estimate of each key.

    With many reports all means that are not rejected may lie between two of the even ones.
    """
    even = np.broadcast_to(np.linspace(-1, 1, _GRID)[:, np.newaxis], (_GRID, len(reports.total)))
    total = (reports.shares * reports.by_total).sum(axis=-1)
    held = (reports.shares * reports.by_frequency).sum(axis=-1)
    estimate = np.divide(total, held, out=np.zeros_like(total), where=held > 0)
    return np.sort(np.vstack([even, np.clip(estimate, -1, 1)]), axis=0)


def _smaller_tail(reports: _Reports, means: Floats) -> Floats:
    """Smaller tail of the reports on each key, given its mean."""
    scores = reports.by_total - means[:, np.newaxis] * reports.by_frequency
    plus = (1 + means) / 2
    absent, positive, negative = (reports.laws[:, state] for state in (ABSENT, PLUS, MINUS))
    held = plus[:, np.newaxis] * positive + (1 - plus)[:, np.newaxis] * negative
    f = likeliest_share(reports.shares, absent, held)
    states = np.stack([1 - f, f * plus, f * (1 - plus)], axis=-1)
    # Cumulants of the score of a report, given the state of its respondent.
    firsts = (reports.laws * scores[:, np.newaxis]).sum(axis=-1)
    centred = scores[:, np.newaxis] - firsts[..., np.newaxis]
    seconds = (reports.laws * centred**2).sum(axis=-1)
    thirds = (reports.laws * centred**3).sum(axis=-1)

    def mean(values: Floats) -> Floats:
        found: Floats = (states * values).sum(axis=-1)
        return found

    left, turned = reports.left, reports.turned
    errors = Errors(
        (reports.shares * scores).sum(axis=-1),
        (mean(seconds) + left * mean(firsts**2)) / reports.total,
        (mean(thirds) + left * (3 * mean(seconds * firsts) + turned * mean(firsts**3)))
        / reports.total**2,
        np.ptp(scores, axis=-1) / reports.total,
    )
    return np.minimum(below(errors), above(errors))
