"""The laws that counts are drawn by, written down here and not taken from the program."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import signal, stats

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_TAIL = 1e-10
"""What is left out at either end of a law."""


class Law(NamedTuple):
    """The law of a count.

    Args:
        first: the smallest count.
        chances: of it and of those that follow, one by one.
    """

    first: int
    chances: Floats

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        places = np.arange(len(self.chances))
        mean = float(places @ self.chances)
        return float(np.sqrt(((places - mean) ** 2) @ self.chances))


def binomial(n: int, chance: float) -> Law:
    """How many of n succeed."""
    if n == 0 or chance in (0.0, 1.0):
        return Law(round(n * chance), np.ones(1))
    law = stats.binom(n, chance)
    first, last = max(0, int(law.ppf(_TAIL)) - 1), min(n, int(law.isf(_TAIL)) + 1)
    return Law(first, np.asarray(law.pmf(np.arange(first, last + 1)), np.float64))


def sum_of(one: Law, other: Law) -> Law:
    """The sum of two independent counts."""
    chances = signal.convolve(one.chances, other.chances)
    return Law(one.first + other.first, np.maximum(chances, 0.0))


def counted(holders: int, others: int, *, hit: float, other: float) -> Law:
    """How many reports count for a cell, given how many respondents are in it.

    Args:
        holders: respondents in the cell.
        others: the others.
        hit: the chance that a report of the first counts.
        other: that of one of the second.
    """
    return sum_of(binomial(holders, hit), binomial(others, other))


def kept_else(
    rng: np.random.Generator, counts: Counts, axis: int, keep: float, fakes: Floats
) -> Counts:
    """Counts of answers, with one attribute randomized: kept, or drawn from a law of fakes.

    Args:
        rng: the source of the draws.
        counts: of combinations of answers, an axis for each attribute.
        axis: the attribute.
        keep: the probability of keeping its answer.
        fakes: the law of what is drawn else, along the axis.
    """
    moved = np.moveaxis(counts, axis, -1)
    kept = rng.binomial(moved, keep)
    redrawn = (moved - kept).sum(axis=-1)
    return np.moveaxis(kept + rng.multinomial(redrawn, fakes), -1, axis)


def kept_together(rng: np.random.Generator, counts: Counts, keep: float) -> Counts:
    """Counts of answers, all attributes randomized as one: kept, or any combination."""
    cells = counts.size
    flat = kept_else(rng, counts.reshape(1, cells), 1, keep, np.full(cells, 1 / cells))
    return flat.reshape(counts.shape)


def kept_apart(rng: np.random.Generator, counts: Counts, keep: float) -> Counts:
    """Counts of answers, every attribute randomized by itself: kept, or any category."""
    for axis, size in enumerate(counts.shape):
        counts = kept_else(rng, counts, axis, keep, np.full(size, 1 / size))
    return counts


def uneven(shape: tuple[int, ...], share: float) -> Floats:
    """A joint distribution with a share in its first cell, in which attributes depend.

    The other cells are the rarer, the higher their codes are, and the likelier, the more codes are
    alike.
    """
    places = np.indices(shape).reshape(len(shape), -1)
    weights = 1.0 / (1.0 + places).prod(axis=0) * (1.0 + 2.0 * (places == places[0]).all(axis=0))
    weights[0] = 0.0
    law = (1 - share) * weights / weights.sum()
    law[0] = share
    return law.reshape(shape)


def drawn(rng: np.random.Generator, n: int, law: Floats) -> Counts:
    """Counts of n respondents from a joint distribution."""
    return rng.multinomial(n, law.reshape(-1)).reshape(law.shape)
