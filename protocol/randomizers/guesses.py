"""Probability of the best guess of a category from several reports by keep randomizers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

from protocol.crypto.randomness import WORDS

MOST_ALIKE = 48
"""The most reports by one randomizer for which the best guess is computed."""

MOST_UNLIKE = 8
"""The most by different ones: all ways in which reports can agree are gone through."""


@lru_cache(maxsize=256)
def guess_of_keeps(size: int, thresholds: tuple[int, ...]) -> float | None:
    """Probability of the best guess of a category from a report of each keep randomizer.

    The prior is uniform. The probability is the sum over all reports of the largest likelihood of a
    category, divided by the number of categories. It is computed with rational numbers and rounded
    once.

    Args:
        size: the number of categories.
        thresholds: of the keep randomizers, rising.

    Returns:
        None if there are too many reports to enumerate.
    """
    alike = len(set(thresholds)) == 1
    if len(thresholds) > (MOST_ALIKE if alike else MOST_UNLIKE):
        return None
    # A report has probability other_i, and ratio_i times that if it is the truth.
    others = [Fraction(WORDS - threshold, size * WORDS) for threshold in thresholds]
    ratios = [1 + Fraction(size * threshold, WORDS - threshold) for threshold in thresholds]
    agreeing = _alike if alike else _unlike
    return float(math.prod(others) * agreeing(ratios, size) / size)


def _alike(ratios: Sequence[Fraction], size: int) -> Fraction:
    """The sum, over all sequences of reports, of the ratio to the count of the most frequent one.

    The number of sequences with at most c of each category follows from the generating function
    ``m! [z^m] (sum over j <= c of z^j / j!) ** size``.
    """
    m, ratio = len(ratios), ratios[0]
    whole = Fraction(0)
    before = 0
    for most in range(1, m + 1):
        upto = _sequences(m, size, most)
        whole += (upto - before) * ratio**most
        before = upto
    return whole


def _sequences(m: int, size: int, most: int) -> int:
    """Number of sequences of m of ``size`` categories, each at most ``most`` times."""
    base = [Fraction(1, math.factorial(j)) if j <= most else Fraction(0) for j in range(m + 1)]
    # P = base**size by its differential equation, base P' = size base' P, term by term.
    power = [Fraction(1)] + [Fraction(0)] * m
    for j in range(1, m + 1):
        power[j] = sum(
            ((size + 1) * i - j) * base[i] * power[j - i] for i in range(1, min(j, most) + 1)
        ) / Fraction(j)
    return int(power[m] * math.factorial(m))


def _unlike(ratios: Sequence[Fraction], size: int) -> Fraction:
    """The same sum for reports with different ratios: over all partitions into equal reports."""
    weights: Counter[tuple[int, Fraction]] = Counter()
    for blocks in _partitions(len(ratios)):
        one = Fraction(1)
        heaviest = max(math.prod((ratios[i] for i in block), start=one) for block in blocks)
        weights[len(blocks), heaviest] += 1
    # More blocks than categories cannot have different ones: perm is 0.
    return sum(
        (
            times * math.perm(size, blocks) * heaviest
            for (blocks, heaviest), times in weights.items()
        ),
        Fraction(0),
    )


def _partitions(m: int) -> Iterator[list[list[int]]]:
    """All partitions of 0 to m - 1 into blocks."""
    if m == 0:
        yield []
        return
    for blocks in _partitions(m - 1):
        for i in range(len(blocks)):
            yield [*blocks[:i], [*blocks[i], m - 1], *blocks[i + 1 :]]
        yield [*blocks, [m - 1]]
