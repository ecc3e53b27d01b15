"""Intervals of products of independent estimates."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from protocol.estimators.inference.laws import Interval, critical
from protocol.randomizers.exact import Floats

_PARTS = 8


def product_interval(
    shares: Sequence[Floats], intervals: Sequence[Callable[[float], Interval]], level: float
) -> Interval:
    """The products of all shares that independent estimates do not contradict together.

    Truths that are z_g standard errors from the estimates, each by its own law, are not
    contradicted where the sum of ``z_g**2`` is at most the square of the critical value. The
    smallest and the largest of their products are found with that square shared out in eighths.
    With few reports the interval is longer on one side, which the first-order error of a product
    does not show.

    Args:
        shares: the estimates, cut to 0 and 1, of shapes that broadcast.
        intervals: of each, by the level, of the same shapes.
        level: the confidence level.
    """
    z = critical(level)
    lows = highs = [np.ones(())] * (_PARTS + 1)
    for share, interval in zip(shares, intervals, strict=True):
        inside = np.clip(share, 0.0, 1.0)
        ends = [Interval(inside, inside)]
        for part in range(1, _PARTS + 1):
            own = math.erf(z * math.sqrt(part / _PARTS / 2))
            ends.append(interval(min(own, math.nextafter(1, 0))))
        lows = _shared_out(lows, [end.low for end in ends], np.minimum)
        highs = _shared_out(highs, [end.high for end in ends], np.maximum)
    return Interval(lows[-1], highs[-1])


def _shared_out(
    products: Sequence[Floats], ends: Sequence[Floats], farther: Callable[[Floats, Floats], Floats]
) -> list[Floats]:
    """The farthest products with one more factor, by the number of parts spent so far."""
    return [
        functools.reduce(farther, [products[spent - own] * ends[own] for own in range(spent + 1)])
        for spent in range(len(ends))
    ]
