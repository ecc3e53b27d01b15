"""Rules by which an RRBA survey asks no further block."""

from __future__ import annotations

from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np

from protocol.randomizers.exact import Floats
from protocol.variants.rrba.blocks import Running

Stopping: TypeAlias = Literal["never", "pooled", "printed", "widened"]
"""Rule by which no further block is asked: never; by the pooled half-width; by the printed rule on
two blocks; or by that with its interval widened by 1/p, as an estimate from reports is.
"""

_STEEPEST = 300.0
"""Largest logarithm of a factor of odds, so that none overflows."""


def enough(running: Running, stopping: Stopping, *, alpha: float, width: float) -> bool:
    """Check whether the survey stops.

    Args:
        running: the state after some blocks.
        stopping: the rule.
        alpha: 1 less the level of the intervals.
        width: the half-width that ``pooled`` waits for.
    """
    if stopping == "never":
        return False
    if stopping == "pooled":
        return bool((quantile(alpha) * running.errors() <= width).all())
    return settled(running, alpha, widened=stopping == "widened")


def settled(running: Running, alpha: float, *, widened: bool = False) -> bool:
    """Check whether two estimates in a row differ by less than an interval everywhere (section 5).

    The estimates are those of two blocks, or under the update ``average`` the averages after
    them; v is the mean of the two.

    Args:
        running: what is known after some blocks.
        alpha: 1 less the level of the interval, with z its normal quantile.
        widened: whether v is the share of reports, and the width is divided by the keep
            probability, as for an estimate from reports. Otherwise as printed: ``2 z sqrt(v (1 - v)
            / n)`` for a block of n reports if n v is above 5, else by the log odds.
    """
    if len(running.compared) < 2:
        return False
    z = quantile(alpha)
    n = np.maximum(running.reports[running.cells.group] / running.blocks, 1.0)
    shares = np.clip(np.mean(running.compared, axis=0), 0.0, 1.0)
    if widened:
        reported = running.keeps * shares + (1 - running.keeps) * running.cells.uniform()
        width = 2 * z * np.sqrt(reported * (1 - reported) / n) / running.keeps
    else:
        width = printed_width(shares, n, alpha)
    return bool((np.abs(running.compared[1] - running.compared[0]) < width).all())


def quantile(alpha: float) -> float:
    """Number of standard errors on either side of an interval of level ``1 - alpha``."""
    return NormalDist().inv_cdf(1 - alpha / 2)


def printed_width(shares: Floats, n: Floats | float, alpha: float) -> Floats:
    """The width of the interval of a share of n true answers (section 5).

    ``2 z sqrt(v (1 - v) / n)`` if n v is above 5. Otherwise the width of the interval of the log
    odds, with standard error ``1 / sqrt(n v (1 - v))``; 0 for a share of 0 or 1, which has none.
    """
    z = quantile(alpha)
    variance = shares * (1 - shares)
    width: Floats = 2 * z * np.sqrt(variance / n)
    rare = (n * shares <= 5) & (variance > 0)
    # The odds times and over exp(z / sqrt(n v (1 - v))), as shares.
    factor = np.exp(np.minimum(z / np.sqrt(np.where(rare, n * variance, 1.0)), _STEEPEST))
    odds = shares / np.where(rare, 1 - shares, 1.0)
    high, low = odds * factor, odds / factor
    return np.where(rare, high / (1 + high) - low / (1 + low), width)
