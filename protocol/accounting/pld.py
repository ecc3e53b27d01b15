"""A second opinion on compositions: privacy loss distributions by ``dp-accounting``.

It is an independent implementation of ``losses``, given the same pairs. The library is imported
late. For a sum of randomized responses it gets the losses of one table from ``sums``, so it checks
only their composition.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import msgspec
import numpy as np

from protocol.accounting.composition import DominatingPairs, Pairs, largest_epsilon
from protocol.accounting.losses import LossDistribution, Pair
from protocol.accounting.sums import CoinTable, SummedResponse
from protocol.randomizers import ThreePoint

INTERVAL = 1e-4
"""The library's own width of a cell of losses, in nats."""

# Wider cells where a composition would have more of them than this.
_MOST_CELLS = 2**18
# The width of the losses then, in standard deviations.
_WIDTH = 16
# The probability of either tail of a law that is left out.
_TAIL = 1e-15


class Opinion(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the library: its figures bracket the true one.

    Args:
        epsilon: with losses rounded up, in nats; infinite if something revealed is not private.
        lower: with losses rounded down.
        delta: the probability with which epsilon may fail.
        interval: the widest cell of losses used, in nats; 0 for none.
    """

    epsilon: float
    lower: float
    delta: float
    interval: float


def opinion(pairs: DominatingPairs, delta: float) -> Opinion:
    """Bracket the pairs behind some events by the library.

    Raises:
        ImportError: the library is not installed.
        ValueError: ``delta`` is not above 0 and below 1.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta {delta}: expected more than 0 and less than 1")
    intervals = [0.0]

    def epsilon_against(alternative: Pairs, pessimistic: bool) -> float:
        if not alternative:
            return 0.0
        interval = _interval(alternative)
        intervals.append(interval)
        return _epsilon(alternative, delta, interval, pessimistic)

    return Opinion(
        epsilon=largest_epsilon(pairs, lambda alternative: epsilon_against(alternative, True)),
        lower=largest_epsilon(pairs, lambda alternative: epsilon_against(alternative, False)),
        delta=delta,
        interval=max(intervals),
    )


def _interval(pairs: Pairs) -> float:
    whole = math.fsum(2 * count * pair.epsilon for pair, count in pairs)
    spread = math.sqrt(math.fsum(count * _spread(pair) ** 2 for pair, count in pairs))
    return max(INTERVAL, min(whole, _WIDTH * spread) / _MOST_CELLS)


def _epsilon(pairs: Pairs, delta: float, interval: float, pessimistic: bool) -> float:
    try:
        from dp_accounting.pld import privacy_loss_distribution as library
    except ImportError as error:
        raise ImportError("the second opinion needs dp-accounting", name=error.name) from error
    parts = []
    for pair, count in pairs:
        for under_p, under_q in _laws(pair):
            part = library.from_two_probability_mass_functions(
                log_probability_mass_function_lower=under_p,
                log_probability_mass_function_upper=under_q,
                pessimistic_estimate=pessimistic,
                value_discretization_interval=interval,
            )
            parts.append(part.self_compose(count) if count > 1 else part)
    whole, *rest = parts
    for part in rest:
        whole = whole.compose(part)
    return float(whole.get_epsilon_for_delta(delta))


def _spread(pair: Pair) -> float:
    """Root mean square of a loss, roughly."""
    if not isinstance(pair, CoinTable):
        return pair.epsilon
    return math.sqrt(2 / (pair.coins * pair.probability * (1 - pair.probability)))


_Law: TypeAlias = dict[int, float]
"""The logarithms of the probabilities of outcomes."""


def _laws(pair: Pair) -> list[tuple[_Law, _Law]]:
    """Laws under P and under Q of independent pairs that together are this one."""
    if isinstance(pair, CoinTable):
        return _cells(pair)
    if isinstance(pair, SummedResponse):
        return [_listed(pair.losses(1, _TAIL))]
    assert isinstance(pair, ThreePoint)
    outcomes = [(1, pair.masses[0]), (0, pair.masses[1]), (-1, pair.masses[2])]
    logs = {outcome: math.log(mass) for outcome, mass in outcomes if mass}
    return [(logs, {-outcome: log for outcome, log in logs.items()})]


def _cells(table: CoinTable) -> list[tuple[_Law, _Law]]:
    """Laws of the number of heads in two cells, one of which has one more under each of P and Q."""
    from scipy.stats import binom

    law = binom(table.coins, table.probability)
    first, last = int(law.ppf(_TAIL)), int(law.isf(_TAIL))
    heads = np.arange(first, last + 1)
    logs = dict(zip(heads.tolist(), law.logpmf(heads).tolist(), strict=True))
    more = {number + 1: log for number, log in logs.items()}
    return [(more, logs), (logs, more)]


def _listed(losses: LossDistribution) -> tuple[_Law, _Law]:
    """A law of losses as laws under P and Q, each with a last outcome of its own."""
    under_p = dict(enumerate(np.log(losses.masses).tolist()))
    under_q = dict(enumerate((np.log(losses.masses) - losses.losses).tolist()))
    last = len(under_p)
    under_p[last] = math.log(max(losses.infinite, _TAIL))
    under_q[last + 1] = math.log(max(1 - math.fsum(map(math.exp, under_q.values())), _TAIL))
    return under_p, under_q
