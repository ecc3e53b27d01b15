"""Privacy losses as distributions: compositions of dominating pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from protocol.randomizers import ThreePoint
from protocol.randomizers.coins import bernstein
from protocol.randomizers.exact import Floats

MOST_ATOMS = 2**20
"""The most distinct losses of a distribution before they go onto a grid."""

CELLS = 2**14
"""The number of cells of that grid."""

MOST_DRAWS = 10**6
"""The most draws of one mechanism in a composition."""

# Cells per standard deviation of one draw and of all, on a grid for repeated draws.
_FINENESS, _WHOLE = 16, 128
# The most cells of that grid for the losses of one draw.
_MOST_CELLS = 2**13
# The width of a composition, in standard deviations.
_WIDTH = 20
# The relative distance below which losses differ by rounding alone.
_SAME = 1e-13
# The mass below which masses underflow.
_UNDERFLOW = 1e-300


class Law(Protocol):
    """A pair of laws (P, Q) with the distribution of its losses; hashable."""

    @property
    def epsilon(self) -> float:
        """The largest loss, in nats; infinite if there is none."""

    def losses(self, draws: int, spare: float) -> LossDistribution:
        """The law of several independent draws, or one that dominates it.

        Args:
            draws: at least 1.
            spare: the probability of tails that may count as infinite.
        """


Pair: TypeAlias = ThreePoint | Law
"""A pair of laws with draws that can be composed."""

_Pair = TypeVar("_Pair", bound=Pair)


@dataclass(frozen=True)
class LossDistribution:
    """The law under P of the privacy loss of a composition: atoms, and a mass at infinity.

    Args:
        losses: shape (a,), rising, in nats.
        masses: shape (a,), their probabilities under P.
        infinite: the probability that counts as an infinite loss.
        step: the width of the grid that the losses were split onto; 0 without a grid.
    """

    losses: Floats
    masses: Floats
    infinite: float = 0.0
    step: float = 0.0

    @classmethod
    def of(
        cls,
        counts: Mapping[_Pair, int],
        *,
        spare: float = 0.0,
        most_atoms: int = MOST_ATOMS,
        cells: int = CELLS,
    ) -> LossDistribution:
        """The composition of each pair, repeated by its count.

        Exact while there are at most ``most_atoms`` different losses: the draws of one pair have a
        multinomial law, different pairs are convolved, and equal losses are merged. Beyond it each
        atom is split between its two neighbours on a grid, which keeps its probabilities under P
        and Q. Merging the two gives the atom back, so the split pair dominates and the result is an
        upper bound. So is the result from a law that was on a grid before.

        Args:
            counts: how often each pair is composed, each from 0 to 10**6.
            spare: the probability of tails that may count as infinite on a grid.
            most_atoms: the most losses that are kept apart.
            cells: the number of cells of the grid.

        Raises:
            ValueError: a count is out of bounds.
        """
        for count in counts.values():
            if not 0 <= count <= MOST_DRAWS:
                raise ValueError(f"{count} draws of one mechanism: expected 0 to {MOST_DRAWS}")
        parts = [power(pair, count, spare) for pair, count in counts.items() if count]
        parts.sort(key=lambda part: len(part.losses))
        whole = cls(np.zeros(1), np.ones(1))
        for place, part in enumerate(parts):
            if len(whole.losses) * len(part.losses) > most_atoms:
                return _on_grid([whole, *parts[place:]], spare, cells)
            whole = _convolved(whole, part)
        return whole

    @cached_property
    def _positive_losses(self) -> tuple[Floats, Floats]:
        """The atoms of positive loss, the only ones that count at an epsilon of 0 or more."""
        first = int(np.searchsorted(self.losses, 0.0, side="right"))
        return self.losses[first:], self.masses[first:]

    def delta(self, epsilon: float) -> float:
        """The hockey-stick divergence at ``e**epsilon``: the least delta for it.

        Raises:
            ValueError: ``epsilon`` is negative or not a number.
        """
        if not epsilon >= 0:
            raise ValueError(f"epsilon {epsilon}: expected at least 0")
        first = int(np.searchsorted(self._positive_losses[0], epsilon, side="right"))
        return self._excess(epsilon, first)

    def _excess(self, epsilon: float, first: int) -> float:
        losses, masses = self._positive_losses
        return self.infinite - float(masses[first:] @ np.expm1(epsilon - losses[first:]))

    def epsilon(self, delta: float) -> float:
        """The least epsilon for a delta, infinite if there is none.

        The interval between two losses is found by bisection; in it, delta is ``a - b e**epsilon``.

        Raises:
            ValueError: ``delta`` is not from 0 to 1.
        """
        if not 0 <= delta <= 1:
            raise ValueError(f"delta {delta}: expected 0 to 1")
        if self.infinite > delta:
            return math.inf
        losses, masses = self._positive_losses
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = -1, len(losses) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if self._excess(float(losses[middle]), middle + 1) <= delta:
                high = middle
            else:
                low = middle
        above = masses[high:]
        under_q = float(above @ np.exp(losses[high] - losses[high:]))
        missing = float(above.sum()) + self.infinite - delta
        return max(0.0, float(losses[high]) + min(0.0, math.log(missing / under_q)))


def power(pair: Pair, draws: int, spare: float = 0.0) -> LossDistribution:
    """The loss of several draws of one pair."""
    return _lattice(pair, draws) if isinstance(pair, ThreePoint) else pair.losses(draws, spare)


def _lattice(pair: ThreePoint, draws: int) -> LossDistribution:
    """The loss of several draws of one pair: ``epsilon`` times the excess of gains over losses.

    The counts of gains and losses are multinomial, so the masses of their differences are the
    coefficients of ``(p + z x + q x**2)**draws``. Neighbours' ratios follow a recurrence of
    positive terms (a power of a polynomial satisfies ``f (f**n)' = n f' f**n``), and a difference
    of -d has ``e**(-d epsilon)`` times the mass of d. Nothing cancels.
    """
    likely, neutral, rare = pair.masses
    epsilon = pair.epsilon
    if neutral == 0.0:
        gained = np.arange(1, draws + 1, dtype=np.float64)
        logs = accumulated(np.log((draws - gained + 1) / gained) + epsilon, round(draws * likely))
        differences = 2.0 * np.arange(draws + 1) - draws
    else:
        ratios = np.empty(draws)
        before = math.inf
        for j in range(1, draws + 1):
            before = ((draws - j + 1) * neutral + (2 * draws - j + 2) * rare / before) / (
                j * likely
            )
            ratios[j - 1] = before
        falling = accumulated(np.log(ratios), round(draws * (1 - likely + rare)))
        rising = falling[::-1]
        negative = np.arange(draws, 0, -1, dtype=np.float64)
        logs = np.concatenate([rising[:0:-1] - negative * epsilon, rising])
        differences = np.arange(-draws, draws + 1, dtype=np.float64)
    masses = np.exp(logs - logs.max())
    masses /= masses.sum()
    kept = masses > _UNDERFLOW
    lost = _UNDERFLOW * int(len(masses) - np.count_nonzero(kept))
    return LossDistribution(differences[kept] * epsilon, masses[kept], lost)


def accumulated(logs: Floats, start: int) -> Floats:
    """Logarithms of masses from those of their ratios; 0, and most exact, at ``start``."""
    found = np.zeros(len(logs) + 1)
    start = min(max(start, 0), len(logs))
    found[start + 1 :] = np.cumsum(logs[start:])
    found[:start] = -np.cumsum(logs[:start][::-1])[::-1]
    return found


def binomial(n: int, chance: float, tail: float) -> tuple[int, Floats]:
    """A binomial law without tails of at most ``tail``: its first value, and masses of sum 1."""
    if n == 0 or chance >= 1:
        return n, np.ones(1)
    mean, variance = n * chance, n * chance * (1 - chance)
    width = bernstein(variance, math.log(2) - math.log(tail))
    first, last = max(0, math.floor(mean - width)), min(n, math.ceil(mean + width))
    values = np.arange(first + 1, last + 1, dtype=np.float64)
    ratios = np.log((n - values + 1) / values * (chance / (1 - chance)))
    # Outwards from the mean, where rounding matters most.
    centre = min(max(round(mean), first), last) - first
    logs = accumulated(ratios, centre)
    masses = np.exp(logs - logs.max())
    whole: Floats = masses / masses.sum()
    return first, whole


def _convolved(one: LossDistribution, other: LossDistribution) -> LossDistribution:
    losses = np.add.outer(one.losses, other.losses).reshape(-1)
    masses = np.multiply.outer(one.masses, other.masses).reshape(-1)
    order = np.argsort(losses)
    losses, masses = losses[order], masses[order]
    near = _SAME * max(1.0, float(losses[-1]), -float(losses[0]))
    # Losses that differ by rounding alone count as the largest of them: an upper bound.
    starts = np.flatnonzero(np.diff(losses, prepend=-math.inf) > near)
    ends = np.append(starts[1:], len(losses)) - 1
    infinite = one.infinite + other.infinite
    step = max(one.step, other.step)
    return LossDistribution(losses[ends], np.add.reduceat(masses, starts), infinite, step)


def _trim_tails(part: LossDistribution, spare: float) -> LossDistribution:
    """The same without tails of at most ``spare``, with their mass moved to infinity."""
    below = int(np.searchsorted(np.cumsum(part.masses), spare / 2, side="right"))
    above = int(np.searchsorted(np.cumsum(part.masses[::-1]), spare / 2, side="right"))
    last = len(part.masses) - above
    if not (below or above) or below >= last:
        return part
    lost = float(part.masses[:below].sum() + part.masses[last:].sum())
    return LossDistribution(
        part.losses[below:last], part.masses[below:last], part.infinite + lost, part.step
    )


def _on_grid(parts: list[LossDistribution], spare: float, cells: int) -> LossDistribution:
    share = spare / (2 * len(parts))
    parts = [_trim_tails(part, share) for part in parts]
    width = math.fsum(_range(part) for part in parts)
    step = width / cells
    whole = _Gridded(0, np.ones(1), 0.0)
    for part in sorted(parts, key=_range):
        whole = _convolve_grids(whole, _split_atoms(part, step), share)
    return _ungridded(whole, max([step, *(part.step for part in parts)]), step)


def repeated(parts: Sequence[tuple[LossDistribution, int]], spare: float) -> LossDistribution:
    """The composition of independent, repeated draws of some laws, on one grid.

    Atoms are split as in ``LossDistribution.of``. A split adds at most a quarter of a squared cell
    to a draw's variance, so cells are narrow relative to its standard deviation.

    Args:
        parts: each law, with its number of draws, at least 1.
        spare: the probability of tails that counts as infinite.
    """
    draws = sum(count for _, count in parts)
    variance = math.fsum(count * _variance(part) for part, count in parts)
    whole = math.fsum(count * _range(part) for part, count in parts)
    width = min(whole, _WIDTH * math.sqrt(variance))
    largest = max(float(abs(part.losses).max()) for part, _ in parts)
    cells = max(_FINENESS * math.sqrt(draws), _WHOLE)
    step = max(math.sqrt(variance) / cells, width / CELLS, largest / _MOST_CELLS) or 1.0
    share = spare / (4 * draws)
    found = _Gridded(0, np.ones(1), 0.0)
    for part, count in parts:
        square, left = _split_atoms(_trim_tails(part, share), step), count
        while left:
            if left % 2:
                found = _convolve_grids(found, square, share)
            left //= 2
            if left:
                square = _convolve_grids(square, square, share)
    return _ungridded(found, max([step, *(part.step for part, _ in parts)]), step)


def _range(part: LossDistribution) -> float:
    return float(part.losses[-1] - part.losses[0])


def _variance(part: LossDistribution) -> float:
    mass = float(part.masses.sum())
    mean = float(part.losses @ part.masses) / mass
    return float((part.losses - mean) ** 2 @ part.masses) / mass


def upper_parts(losses: Floats, below: Floats, step: float) -> Floats:
    """Part of each atom at its upper neighbour l2 on a grid; the rest is at the lower, l1.

    For an atom at l it is ``(e**-l1 - e**-l) / (e**-l1 - e**-l2)``, which keeps its mass under Q.

    Args:
        losses: of the atoms.
        below: the numbers of the lower neighbours.
        step: the width of the grid.
    """
    found: Floats = np.expm1(below * step - losses) / math.expm1(-step)
    return found.clip(0.0, 1.0)


class _Gridded(NamedTuple):
    """Masses of losses that are multiples of a step, from ``start`` steps on."""

    start: int
    masses: Floats
    infinite: float


def _convolve_grids(one: _Gridded, other: _Gridded, spare: float) -> _Gridded:
    """The sum of two losses, without tails of at most ``spare``."""
    # Term by term, not by a Fourier transform, whose errors are as large as the rarest masses.
    masses = np.convolve(one.masses, other.masses).astype(np.float64)
    places: Floats = np.arange(len(masses), dtype=np.float64)
    kept = _trim_tails(LossDistribution(places, masses), spare)
    start = one.start + other.start + int(kept.losses[0])
    infinite = one.infinite + other.infinite * (1 - one.infinite) + kept.infinite
    return _Gridded(start, kept.masses, infinite)


def _ungridded(whole: _Gridded, widest: float, step: float) -> LossDistribution:
    losses: Floats = (whole.start + np.arange(len(whole.masses), dtype=np.float64)) * step
    return LossDistribution(losses, whole.masses, whole.infinite, widest)


def _split_atoms(part: LossDistribution, step: float) -> _Gridded:
    """Losses on a grid, with every atom split between its neighbours."""
    below = np.floor(part.losses / step)
    upper = part.masses * upper_parts(part.losses, below, step)
    first = int(below[0])
    places = below.astype(np.int64) - first
    masses = np.zeros(int(places[-1]) + 2)
    masses[:-1] += np.bincount(places, part.masses - upper)
    masses[1:] += np.bincount(places, upper)
    return _Gridded(first, masses, part.infinite)
