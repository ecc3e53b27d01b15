"""Decimals of figures with intervals, and shares in percent."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable

from protocol.estimators.inference.intervals import Intervals, Shown
from scenarios.wording.formatting import signed

_MOST = 12
"""Maximum number of decimals of a figure."""


def decimals(figures: Iterable[Shown], *, least: int = 4, digits: int = 2) -> int:
    """Number of decimals that give the narrowest interval so many digits."""
    widths = [figure.high - figure.low for figure in figures]
    narrowest = min((width for width in widths if 0 < width < math.inf), default=1.0)
    return min(max(least, digits - 1 - math.floor(math.log10(narrowest))), _MOST)


def in_percent(shares: Collection[Shown]) -> Callable[[float], str]:
    """Writes shares in percent, without the sign, with the decimals that their intervals need."""
    digits = decimals(shares, least=3, digits=1) - 2
    return lambda share: signed(100 * share, digits)


def decimal(figures: Collection[Shown]) -> Callable[[float], str]:
    """Writes numbers with the decimals that their intervals need."""
    digits = decimals(figures, least=0)
    return lambda value: signed(value, digits)


def legend_text(intervals: Intervals) -> str:
    """Name and subject of intervals, short enough for a picture."""
    return f"{intervals.name} about the {intervals.about}"
