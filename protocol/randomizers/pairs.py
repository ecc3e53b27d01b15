"""Dominating pairs: which two laws stand for one draw of a randomizer when draws are composed.

A pair (P, Q) of laws *dominates* a mechanism if for every two records its hockey-stick divergence
is at most that of P from Q at every ``alpha > 0``; then compositions of such pairs dominate
compositions of the mechanisms (Zhu, Dong and Wang, Optimal Accounting of Differential Privacy via
Characteristic Function, 2022, section 3).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from protocol.randomizers.exact import log_fraction


@dataclass(frozen=True, slots=True)
class ThreePoint:
    """A pair of laws (P, Q) on three outcomes with log ratios epsilon, 0 and -epsilon.

    P gives them ``t R/(R-1)``, the rest, and ``t/(R-1)``, where ``R = e**epsilon`` and t is the
    total variation distance of P and Q; Q gives them the reverse. Every epsilon-DP mechanism whose
    laws differ by at most t is dominated by it: its divergence at alpha is convex, at most t at
    alpha = 1 and 0 at R, hence below the chord between, which is the divergence of this pair.

    Args:
        ratio: R, more than 1.
        distance: t, at most ``(R-1)/(R+1)``, where no outcome is neutral.

    Raises:
        ValueError: ``ratio`` or ``distance`` is out of these bounds.
    """

    ratio: Fraction
    distance: Fraction

    def __post_init__(self) -> None:
        if not self.ratio > 1:
            raise ValueError(f"ratio {self.ratio}: expected more than 1")
        if not 0 < self.distance <= (self.ratio - 1) / (self.ratio + 1):
            raise ValueError(
                f"distance {self.distance}: expected more than 0 and at most (ratio - 1) / (ratio "
                "+ 1)"
            )

    @classmethod
    def binary(cls, ratio: Fraction) -> ThreePoint:
        """Binary randomized response, which dominates every mechanism of its epsilon.

        Kairouz, Oh and Viswanath, The Composition Theorem for Differential Privacy, 2015.
        """
        return cls(ratio, (ratio - 1) / (ratio + 1))

    @classmethod
    def bounded(cls, ratio: Fraction, distance: Fraction) -> ThreePoint:
        """The pair of this epsilon and at most this distance, which epsilon bounds too."""
        return cls(ratio, min(distance, (ratio - 1) / (ratio + 1)))

    @property
    def epsilon(self) -> float:
        """``ln R``, rounded once."""
        return log_fraction(self.ratio)

    @property
    def exact(self) -> tuple[Fraction, Fraction, Fraction]:
        """The probabilities under P of the losses epsilon, 0 and -epsilon."""
        rare = self.distance / (self.ratio - 1)
        likely = rare * self.ratio
        return likely, 1 - likely - rare, rare

    @property
    def masses(self) -> tuple[float, float, float]:
        """The probabilities under P of the losses epsilon, 0 and -epsilon, each rounded once."""
        likely, neutral, rare = self.exact
        return float(likely), float(neutral), float(rare)


class Dominating(NamedTuple):
    """Pair of laws that dominates one draw of a randomizer.

    Args:
        pairs: pairs that, composed, dominate the draw; None if a report can rule an answer out.
        tight: whether any two different answers have exactly this loss.
    """

    pairs: tuple[ThreePoint, ...] | None
    tight: bool


Two = tuple[Fraction, Fraction]
"""The probabilities of one outcome under two laws."""


def largest_ratio(law: Iterable[Two]) -> Fraction | None:
    """The largest ratio of the two probabilities of an outcome, either way; None if infinite."""
    largest = Fraction(1)
    for first, second in law:
        low, high = min(first, second), max(first, second)
        if high == 0:
            continue
        if low == 0:
            return None
        largest = max(largest, high / low)
    return largest


def total_variation_of_law(law: Iterable[Two]) -> Fraction:
    """The total variation distance of two laws."""
    return sum((max(first - second, Fraction(0)) for first, second in law), Fraction(0))


def dominating_of_laws(laws: Iterable[Sequence[Two]]) -> Dominating:
    """The pair of the largest epsilon and of the largest distance of some pairs of laws.

    It is tight if all of them have the losses epsilon, 0 and -epsilon with the same masses. It is
    empty if all laws are alike.
    """
    ratio, distance, shapes = Fraction(1), Fraction(0), set()
    for law in laws:
        own = largest_ratio(law)
        if own is None:
            return Dominating(None, False)
        apart = total_variation_of_law(law)
        three = all(
            first in (second, own * second) or second == own * first for first, second in law
        )
        shapes.add((own, apart, three))
        ratio, distance = max(ratio, own), max(distance, apart)
    if ratio == 1:
        return Dominating((), True)
    tight = len(shapes) == 1 and all(three for _, _, three in shapes)
    return Dominating((ThreePoint.bounded(ratio, distance),), tight)


def excess(law: Sequence[Two], pairs: Sequence[ThreePoint]) -> Fraction:
    """Bound on the divergence of two laws in excess of that of some pairs' composition.

    At the orders alpha where the composition's divergence has its corners: between two of them it
    is a line, and the laws' is convex, so it is nowhere exceeded by more. 0 if it dominates.
    """
    bound = _composed(pairs)
    corners = sorted({Fraction(1), *(ratio for ratio in bound if ratio > 1)}, reverse=True)
    composed = [(mass, mass / ratio) for ratio, mass in bound.items()]
    allowed = list(_divergences(composed, corners))
    most = Fraction(0)
    for one in (law, [(second, first) for first, second in law]):
        for found, most_allowed in zip(_divergences(one, corners), allowed, strict=True):
            most = max(most, found - most_allowed)
    return most


def count_ratios(pairs: Iterable[ThreePoint]) -> int:
    """Bound on the number of different ratios in the composition of some pairs."""
    return math.prod(2 * count + 1 for count in Counter(pairs).values())


def _composed(pairs: Sequence[ThreePoint]) -> Mapping[Fraction, Fraction]:
    """The probabilities under P of the ratios P/Q of the composition."""
    found: dict[Fraction, Fraction] = {Fraction(1): Fraction(1)}
    for pair in pairs:
        after: dict[Fraction, Fraction] = {}
        powers = (pair.ratio, Fraction(1), 1 / pair.ratio)
        steps = zip(powers, pair.exact, strict=True)
        for (ratio, mass), (factor, share) in itertools.product(found.items(), list(steps)):
            after[ratio * factor] = after.get(ratio * factor, Fraction(0)) + mass * share
        found = after
    return found


def _divergences(law: Iterable[Two], orders: Sequence[Fraction]) -> Iterator[Fraction]:
    """The hockey-stick divergence of the first law from the second at each of falling orders."""
    apart = [(first, second) for first, second in law if first]
    rising = sorted((first / second, first, second) for first, second in apart if second)
    above = sum((first for first, second in apart if not second), Fraction(0))
    below = Fraction(0)
    for order in orders:
        while rising and rising[-1][0] > order:
            _, first, second = rising.pop()
            above += first
            below += second
        yield above - order * below
