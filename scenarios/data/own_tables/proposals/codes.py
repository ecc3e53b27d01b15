"""Codes for a missing answer among numbers, such as -9, 99 or 8888."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

_CODE = re.compile("6{2,}|7+|8+|9+|9+[5-9]")
_LEAST = -11
"""The lowest of the small negative numbers that surveys have for kinds of no answer."""

_MOST_BELOW = 4
_SCALE = 7
_FAR = 3
_PILED = 5


def is_code(number: float) -> bool:
    """Return whether surveys have a number for no answer, where it cannot be an answer."""
    if number != int(number):
        return False
    if _LEAST <= number < 0:
        return True
    return _CODE.fullmatch(str(abs(int(number)))) is not None


def far_codes(counts: Counter[float]) -> list[float]:
    """Numbers of a column that are such codes and far from the others, ascending.

    Args:
        counts: frequency of each number.
    """
    below = sorted(number for number in counts if number < 0)
    others = Counter({number: counts[number] for number in counts if number >= 0})
    is_scale = bool(below) and -below[0] == max(others, default=0)
    if len(others) > 1 and not is_scale and len(below) <= _MOST_BELOW and all(map(is_code, below)):
        return [*below, *_codes_at_end(others)]
    mirrored = Counter({-number: times for number, times in counts.items()})
    low = [-number for number in _codes_at_end(mirrored)]
    return [*reversed(low), *_codes_at_end(counts)]


def _codes_at_end(counts: Counter[float]) -> list[float]:
    """Codes at the upper end, in ascending order."""
    ordered = sorted(counts)
    start = len(ordered)
    while start and ordered[start - 1] > 0 and is_code(ordered[start - 1]):
        start -= 1
    for place in range(max(start, 2), len(ordered)):
        if _is_far(counts, ordered[:place], ordered[place:]):
            return ordered[place:]
    return []


def _is_far(counts: Counter[float], below: Sequence[float], codes: Sequence[float]) -> bool:
    """Check whether the gap before the codes exceeds all gaps among the other numbers."""
    times = sum(counts[code] for code in codes)
    gap = codes[0] - below[-1]
    if times < max(2, counts.total() / 1000):
        return False
    if codes[0] < 10:
        is_short = len(below) <= _SCALE and below[0] in (0, 1)
        steps = all(high - low == 1 for low, high in pairwise(below))
        return is_short and steps and gap >= _FAR and times >= counts.total() / 100
    upper = [number for number in below if number >= median(below)]
    step = max((high - low for low, high in pairwise(upper)), default=gap)
    highest = below[-max(1, len(below) // 10) :]
    is_piled = times >= _PILED and counts[codes[0]] > _PILED * max(map(counts.__getitem__, highest))
    return gap > _FAR * step or (is_piled and gap > step)
