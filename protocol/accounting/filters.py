"""Privacy filters: a budget that refuses what would exceed it, before it is sent.

Filters hold under full adaptivity: what is asked next may depend on every answer so far. A sum of
pure epsilons is such a filter, and so is a sum of Renyi divergences of one order that was chosen
beforehand (Feldman and Zrnic, Individual Privacy Accounting via a Renyi Filter, 2021). The exact
composition at a delta is not one: its curve is that of randomizers that were settled beforehand,
and whoever may choose the next one by the loss so far can do worse than each fixed choice.
"""

from __future__ import annotations

import math

from protocol.accounting.composition import ExactAccountant, Pairs, largest_epsilon
from protocol.accounting.events import PrivacyEvent
from protocol.errors import PrivacyError


class Filter:
    """What one respondent may still tell within a budget of epsilon, at a delta.

    At delta 0 pure epsilons are summed. Else Renyi divergences of one order are, each the exact one
    of the pair that dominates the draw; when they stay within the capacity B of that order, then
    ``epsilon = B + ln(1 - 1/a) + (ln(1/delta) - ln a)/(a - 1)`` holds at delta (Canonne, Kamath and
    Steinke, The Discrete Gaussian for Differential Privacy, 2020, Proposition 12).

    Args:
        epsilon: the budget, in nats, at least 0.
        delta: from 0 to less than 1.

    Raises:
        ValueError: a figure is out of these bounds, or so small a budget at this delta that
            nothing could ever be told.
    """

    def __init__(self, epsilon: float, *, delta: float = 0.0) -> None:
        if not (epsilon >= 0 and math.isfinite(epsilon)):
            raise ValueError(f"a budget of {epsilon}: expected a finite number of at least 0")
        self._accountant = ExactAccountant(delta)
        self.epsilon = epsilon
        self.delta = delta
        self._order = 1.0 if delta == 0 else _order(epsilon, delta)
        self._capacity = epsilon if delta == 0 else _capacity(epsilon, delta, self._order)
        if not self._capacity >= 0:
            raise ValueError(f"a budget of {epsilon} at delta {delta}: too small for any message")
        self._spent: list[float] = []

    def __repr__(self) -> str:
        return f"Filter({self.epsilon:.6g}, delta={self.delta:.6g}, left={self.left:.3g})"

    @property
    def left(self) -> float:
        """The share of the budget that is left, from 0 to 1."""
        if self._capacity == 0:
            return 0.0
        return max(0.0, 1 - math.fsum(self._spent) / self._capacity)

    def affords(self, event: PrivacyEvent) -> bool:
        """Whether what this event tells still fits.

        Raises:
            UnsupportedEventError: the event is of no class that accountants know.
        """
        return math.fsum((*self._spent, self._cost(event))) <= self._capacity

    def times(self, event: PrivacyEvent) -> float:
        """How often this could still be told; infinite if it tells nothing.

        Raises:
            UnsupportedEventError: the event is of no class that accountants know.
        """
        cost = self._cost(event)
        if cost == 0:
            return math.inf
        return math.floor(max(0.0, self._capacity - math.fsum(self._spent)) / cost)

    def spend(self, event: PrivacyEvent) -> None:
        """Count what is about to be told.

        Raises:
            PrivacyError: it does not fit; nothing is counted, and it must not be told.
            UnsupportedEventError: the event is of no class that accountants know.
        """
        if not self.affords(event):
            cost = self._cost(event)
            share = cost / self._capacity if self._capacity else math.inf
            raise PrivacyError(
                f"this costs {share:.3%} of the budget of epsilon {self.epsilon:.6g} at delta "
                f"{self.delta:.6g}; {self.left:.3%} is left"
            )
        cost = self._cost(event)
        if cost:
            self._spent = [math.fsum((*self._spent, cost))]

    def _cost(self, event: PrivacyEvent) -> float:
        return largest_epsilon(self._accountant.pairs([event]), self._of)

    def _of(self, pairs: Pairs) -> float:
        if self.delta == 0:
            return math.fsum(pair.epsilon * count for pair, count in pairs)
        return math.fsum(pair.renyi(self._order) * count for pair, count in pairs)


def _order(epsilon: float, delta: float) -> float:
    """The best order if the draws were many and small: ``1 + sqrt(L/rho)``, with L = ln(1/delta).

    There rho is what makes ``rho + 2 sqrt(rho L)`` equal to epsilon.
    """
    rarity = -math.log(delta)
    root = math.sqrt(rarity + epsilon) - math.sqrt(rarity)
    return 1 + math.sqrt(rarity) / root if root else math.inf


def _capacity(epsilon: float, delta: float, order: float) -> float:
    if math.isinf(order):
        return 0.0
    return epsilon - math.log1p(-1 / order) + (math.log(delta) + math.log(order)) / (order - 1)
