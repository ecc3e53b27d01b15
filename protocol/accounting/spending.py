"""Spending: the cost of a party's messages to each of its respondents, and its budget.

A cost is pure epsilon, which holds whoever conspires. A message without pure epsilon costs epsilon
at a delta, if the party consents to a figure that assumes so many honest parties.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

import msgspec

from protocol.accounting.accountants import NOTHING, Loss, PureAccountant, total
from protocol.accounting.events import Coins, Masked, Merged, PrivacyEvent, replaced, tells
from protocol.errors import PrivacyError

DELTA = 1e-6
"""The delta at which a sum with coins is judged, unless less is allowed."""

# Sums of deltas, such as 1e-6, are rounded.
_ROUNDING = 1e-9


class Cost(msgspec.Struct, frozen=True):
    """A bound on the privacy loss of one respondent.

    Args:
        epsilon: in nats; infinite if nothing bounds it.
        delta: the probability for which epsilon need not hold; 0 for pure epsilon.
        honest: for the sums, the numbers of parties that have to be honest, the respondent's own
            included, rising. Empty if the bound holds whoever conspires.
    """

    epsilon: float = 0.0
    delta: float = 0.0
    honest: tuple[int, ...] = ()

    def __str__(self) -> str:
        if not self.delta:
            return f"epsilon {self.epsilon:.6g}"
        return f"(epsilon {self.epsilon:.6g}, delta {self.delta:.6g}){assumed(self.honest)}"


def assumed(honest: tuple[int, ...]) -> str:
    """The assumption of a figure, to be put behind it; empty if there is none."""
    if not honest:
        return ""
    some = [f"{number:,}" for number in honest]
    if len(some) == 1:
        return f" if at least {some[0]} of those in the sum are honest"
    each = f"{', '.join(some[:-1])} or {some[-1]}"
    return f" if in each sum at least so many are honest as was consented to for it: {each}"


def in_words(cost: Cost) -> str:
    """Both figures of a noisy contribution, against any coalition and among honest parties."""
    if math.isinf(cost.epsilon):
        return "whoever conspires: no bound; nor if as many are honest as the sum promises"
    return f"whoever conspires: no bound; {cost}"


def together(costs: Iterable[Cost]) -> Cost:
    """The sum of epsilons and of deltas, on all assumptions; it holds for adaptive choices."""
    costs = list(costs)
    return Cost(
        math.fsum(cost.epsilon for cost in costs),
        math.fsum(cost.delta for cost in costs),
        _honest(costs),
    )


def largest(costs: Iterable[Cost]) -> Cost:
    """The largest epsilon and delta of several figures of one release, on all their assumptions."""
    costs = list(costs)
    return Cost(
        max((cost.epsilon for cost in costs), default=0.0),
        max((cost.delta for cost in costs), default=0.0),
        _honest(costs),
    )


def is_within(delta: float, allowed: float) -> bool:
    """True if a sum of deltas is at most what is allowed, up to rounding."""
    return delta <= allowed * (1 + _ROUNDING)


def delta_left(allowed: float, delta: float) -> float:
    """The rest of the allowed delta, at least 0, without rounding errors."""
    if math.isinf(allowed):
        return allowed
    left = allowed - delta
    return left if left > allowed * _ROUNDING else 0.0


def event_cost(event: PrivacyEvent, *, honest: int, delta: float) -> Cost:
    """The cost of one message, by the consent of the party that sends it.

    Args:
        event: of the message.
        honest: number of honest parties in a sum that the party assumes, itself included; 0 for a
            bound that holds whoever conspires.
        delta: at which coins are judged.

    Raises:
        UnsupportedEventError: as ``PureAccountant``.
    """
    pure = PureAccountant().judge(event).record
    return _cost_of_coins(event, honest, delta) if math.isinf(pure) and honest else Cost(pure)


@functools.lru_cache(maxsize=256)
def _cost_of_coins(event: PrivacyEvent, honest: int, delta: float) -> Cost:
    if not (delta > 0 and tells(event, Coins)):
        return Cost(math.inf)
    # Imported late: most parties never have anything to compose.
    from protocol.accounting.composition import exact_epsilon

    def among(part: PrivacyEvent) -> PrivacyEvent:
        return Merged(part.event, honest) if isinstance(part, Masked) else part

    found = exact_epsilon([replaced(event, among)], delta)
    if math.isinf(found.epsilon):
        return Cost(math.inf)
    return Cost(found.epsilon, delta, (found.honest,) if found.honest else ())


def _honest(costs: Iterable[Cost]) -> tuple[int, ...]:
    return tuple(sorted({number for cost in costs for number in cost.honest}))


class Spending:
    """Costs of a party's messages in one session, within a budget.

    Args:
        accountant: judges each of them.
        budget: the most epsilon, in nats; None if nothing was set.
        honest: number of honest parties in a sum that the party consents to assume, itself
            included; 0 for none.
        delta: the most delta. Each message is judged at ``DELTA``, or at this if it is less.

    Attributes:
        loss: so far, whoever conspires.
        cost: so far, by the party's consent.
    """

    __slots__ = ("_accountant", "_budget", "_delta", "_honest", "cost", "loss")

    def __init__(
        self,
        accountant: PureAccountant,
        *,
        budget: float | None,
        honest: int = 0,
        delta: float = DELTA,
    ) -> None:
        self._accountant = accountant
        self._budget = budget
        self._honest = honest
        self._delta = delta
        self.loss: Loss = NOTHING
        self.cost = Cost()

    def afford(self, event: PrivacyEvent) -> None:
        """Check that enough is left for a message.

        Raises:
            PrivacyError: too little is left.
        """
        self._with(event, "what is asked for")

    def charge(self, event: PrivacyEvent, kind: str) -> None:
        """Charge a message of this kind.

        Raises:
            PrivacyError: not enough is left, and nothing was charged.
        """
        self.loss, self.cost = self._with(event, repr(kind))

    def _with(self, event: PrivacyEvent, what: str) -> tuple[Loss, Cost]:
        loss, budget, spent = self._accountant.judge(event), self._budget, self.cost
        if loss is NOTHING:
            return self.loss, spent
        cost = Cost(loss.record)
        if self._honest and math.isinf(loss.record) and tells(event, Coins):
            delta = min(DELTA, self._delta)
            if not (delta and is_within(spent.delta + delta, self._delta)):
                left = delta_left(self._delta, spent.delta)
                raise PrivacyError(
                    f"{what} costs a delta of {delta or DELTA:.6g} per respondent; {left:.6g} of "
                    f"{self._delta:.6g} is left"
                )
            cost = _cost_of_coins(event, self._honest, delta)
        after = together((spent, cost))
        if budget is not None and after.epsilon > budget:
            price = f"{cost.epsilon:.6g}"
            if cost.delta:
                price += f" at delta {cost.delta:.6g}"
            raise PrivacyError(
                f"{what} costs {price} per respondent{assumed(cost.honest)}; "
                f"{budget - spent.epsilon:.6g} of {budget:.6g} is left"
            )
        return total((self.loss, loss)), after
