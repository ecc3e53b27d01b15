"""Dominating pairs of a sum over honest parties, table by table.

One respondent's record is replaced by another, and the observer knows all other records. In each
table the respondent moves from one cell to another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from protocol.accounting.losses import LossDistribution, binomial, repeated, upper_parts
from protocol.accounting.shuffling import MOST_RESPONDENTS
from protocol.randomizers.coins import SIDES
from protocol.randomizers.exact import Floats
from protocol.randomizers.keep import KeepUniform

MOST_COINS = 2**30
"""The most coins of a cell that are counted; more would only lower epsilon."""

# The tail of a law that is given up if none is spared, and the least.
_NONE, _LEAST = 1e-30, 1e-300
# Cells of a grid for one table's losses, within a standard deviation and up to the largest.
_FINE, _WHOLE, _MOST_CELLS = 40, 1000, 2**20
# Steps within a standard deviation of a number of draws.
_STEPS = 16
# The most that the standard deviation of the loss is raised where games are put together.
_TOGETHER = 0.0015
# The most numbers of draws of which none are put together.
_FEW = 64


@dataclass(frozen=True, slots=True)
class CoinTable:
    """A table of counts with coins: one cell gains a count, and another loses one.

    The coins of all honest parties are a binomial number in each cell. The two cells are
    independent, and exchange their roles with the records, so the pair is exact and the same in
    both directions.

    Args:
        trials: one party's coins of a cell.
        chance: of a coin, in units of 2**-16.
        honest: number of parties that add such coins.
    """

    trials: int
    chance: int
    honest: int

    @property
    def epsilon(self) -> float:
        """Infinite: there may be as many heads as coins."""
        return math.inf

    @property
    def coins(self) -> int:
        """Number of coins in a cell that are counted."""
        return min(self.trials * self.honest, MOST_COINS)

    @property
    def probability(self) -> float:
        """Probability that a coin is 1."""
        return self.chance / SIDES

    def losses(self, draws: int, spare: float) -> LossDistribution:
        """The law of several tables: an upper bound, on a grid."""
        tail = _tail(spare, draws)
        gains, loses = _cells(self.coins, self.probability, tail)
        if 2 * self.chance == SIDES:  # Heads are as likely as tails: both cells have one law.
            return repeated([(gains, 2 * draws)], spare)
        return repeated([(gains, draws), (loses, draws)], spare)


def _tail(spare: float, draws: int) -> float:
    return max(spare / (4 * draws), _LEAST) if spare else _NONE


def _cells(coins: int, chance: float, tail: float) -> tuple[LossDistribution, LossDistribution]:
    """Losses of the cell that has one count more under P, and of the cell that has one less.

    With y heads they are the logarithms of ``b(y) / b(y+1)`` and of ``b(y) / b(y-1)``.
    """
    first, masses = binomial(coins, chance, tail)
    heads = first + np.arange(len(masses), dtype=np.float64)
    odds = chance / (1 - chance)
    with np.errstate(divide="ignore"):
        gains = np.log((heads + 1) / ((coins - heads) * odds))
        loses = np.log((coins - heads + 1) * odds / heads)
    return _finite(gains, masses, tail), _finite(loses[::-1], masses[::-1], tail)


def _finite(losses: Floats, masses: Floats, tail: float) -> LossDistribution:
    """A law of rising losses, the last of which may be infinite."""
    kept = np.isfinite(losses)
    return LossDistribution(losses[kept], masses[kept], tail + float(masses[~kept].sum()))


@dataclass(frozen=True, slots=True)
class SummedResponse:
    """A table of randomized responses of honest parties: the game of ``shuffling``.

    There T draws of k values are tallied, one of them the respondent's report. The number S of
    draws of value 0 or 1 has one law under P and Q. Given T and S, the report is a kept answer with
    probability ``w = S / (S + 2c)``, where ``c = q T / (p-q)``, and under P it is then one of the
    n0 draws of value 0. The loss is ``ln((c + n0) / (c + S - n0))``. Fewer draws, or a larger w,
    give an upper bound, so T, S and c are rounded down where there are many.

    Args:
        keep: everybody's randomizer.
        honest: number of parties that report with it, from 1 to 10**8.

    Raises:
        ValueError: ``honest`` is out of these bounds.
    """

    keep: KeepUniform
    honest: int

    def __post_init__(self) -> None:
        if not 1 <= self.honest <= MOST_RESPONDENTS:
            raise ValueError(f"{self.honest} honest parties: expected 1 to {MOST_RESPONDENTS}")

    @property
    def epsilon(self) -> float:
        """Epsilon of the respondent's own report."""
        return self.keep.epsilon

    def losses(self, draws: int, spare: float) -> LossDistribution:
        """The law of several tables: an upper bound, on a grid."""
        table = _responses(self.keep, self.honest, _tail(spare, draws))
        return table if draws == 1 else repeated([(table, draws)], spare)


@lru_cache(maxsize=256)
def _responses(keep: KeepUniform, honest: int, tail: float) -> LossDistribution:
    k, kept, blanket = keep.size, keep.keep, keep.size * keep.off_diagonal
    shares, pivots, columns = _columns(keep, honest, tail)
    largest = math.log1p(float(columns[-1, 1] / pivots[0]))
    spread = kept * math.sqrt(2 * k / (1 + (honest - 1) * blanket))
    step = max(min(spread / _FINE, keep.epsilon / _WHOLE), 2 * largest / _MOST_CELLS)
    middle = math.ceil(largest / step) + 1
    masses: Floats = np.zeros(2 * middle + 2)
    for column, (least, most) in zip(shares.T, columns, strict=True):
        present = np.flatnonzero(column)
        if not most:  # Nobody reported either value.
            masses[middle] += column.sum()
            continue
        first, fair = binomial(int(least), 0.5, tail / 8)
        zeros = first + np.arange(len(fair), dtype=np.float64)
        pivot = (pivots[present] * (least / most))[:, None]
        law = column[present, None] * fair * ((pivot + zeros) / (pivot + least / 2))
        ones = least - zeros
        # By the rarer of both, as the pivot may be far less than a draw, or far more than all.
        excess = np.log1p(abs(zeros - ones) / (pivot + np.minimum(zeros, ones)))
        losses = np.where(zeros < ones, -excess, excess)
        below = np.floor(losses / step)
        upper = law * upper_parts(losses, below, step)
        cells = below.astype(np.int64).ravel() + middle
        masses[:-1] += np.bincount(cells, (law - upper).ravel(), minlength=len(masses) - 1)
        masses[1:] += np.bincount(cells, upper.ravel(), minlength=len(masses) - 1)
    found = np.flatnonzero(masses)
    places = (found - middle).astype(np.float64)
    return LossDistribution(places * step, masses[found], tail, step)


def _columns(keep: KeepUniform, honest: int, tail: float) -> tuple[Floats, Floats, Floats]:
    """The games that make up a table.

    Returns:
        The probability of each, shape (c, s); its c, rounded down, shape (c,), rising; and the
        least and the largest S of each group, shape (s, 2), rising.
    """
    k, kept, blanket = keep.size, keep.keep, keep.size * keep.off_diagonal
    first, chances = binomial(honest - 1, blanket, tail / 4)
    draws = 1 + first + np.arange(len(chances), dtype=np.int64)
    unit = max(1, int(math.sqrt((honest - 1) * blanket * kept) / _STEPS))
    draws, places = np.unique(np.maximum(draws // unit * unit, 1), return_inverse=True)
    masses = np.bincount(places, chances)
    pivots = keep.off_diagonal / kept * draws
    if len(draws) > _FEW:
        ratio = min(_TOGETHER / blanket, 0.05)
        pivots = np.exp(np.floor(np.log(pivots) / ratio) * ratio)
    pivots, rows = np.unique(pivots, return_inverse=True)
    unit = max(1, int(math.sqrt(float(draws[-1]) * 2 / k * (1 - 2 / k)) / _STEPS))
    shares: Floats = np.zeros((len(pivots), int(draws[-1]) // unit + 1))
    for each, chance, place in zip(draws.tolist(), masses.tolist(), rows, strict=True):
        # Under P and Q a number of them is up to k/2 times as likely as it is without the report.
        start, given = binomial(each, 2 / k, tail / (4 * k))
        both = start + np.arange(len(given), dtype=np.int64)
        law = chance * given * (blanket + kept * k * both / (2 * each))
        start //= unit
        added = np.bincount(both // unit - start, law)
        shares[place, start : start + len(added)] += added
    counts = np.flatnonzero(shares.any(axis=0))
    least, most = counts * unit, counts * unit + unit - 1
    columns = np.stack([np.where(most > 0, np.maximum(least, 1), 0), most], axis=1)
    return shares[:, counts], pivots, columns.astype(np.float64)
