"""Bounds on sums with enough honest parties, and the parameters that reach a bound."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from protocol.accounting.composition import ExactAccountant
from protocol.accounting.events import Merged
from protocol.session.variant import Variant
from protocol.sharing.graph import COMPLETE
from protocol.variants.clusters.rr_clusters import RRClusters
from protocol.variants.sums.pair_rr import PairRR
from protocol.variants.sums.tallies import Counted, Tallied
from scenarios.wording.formatting import epsilon as figure

EXACT = "No epsilon bounds what exact sums tell of a respondent."
"""Sentence on counts without coins."""

# Share of the allowed figure from which the search stops.
_NEAR = 0.97
_AIMED = 0.985
_TRIES = 12
_HALVINGS = 60


class AmongHonest(NamedTuple):
    """An epsilon at a delta that rests on others.

    Args:
        epsilon: a respondent's, in nats.
        delta: the probability for which it need not hold.
        honest: number of parties that must be honest and stay, her own included.
        parties: number of parties.
    """

    epsilon: float
    delta: float
    honest: int
    parties: int


def among_values(among: AmongHonest | None) -> dict[str, Any]:
    """Figures that rest on honest parties; none for others."""
    return {
        "honest": None if among is None else among.honest,
        "epsilon_among_honest": None if among is None else among.epsilon,
        "delta_among_honest": None if among is None else among.delta,
    }


@functools.lru_cache(maxsize=256)
def told_in_sum(variant: Tallied[Any] | RRClusters, parties: int, delta: float) -> AmongHonest:
    """Loss of one respondent's counts in the sum among so many parties.

    Raises:
        ValueError: there are too few parties for the bound, or delta is smaller than the chance of
            a graph that protects somebody too little.
    """
    sums = variant.sums
    honest = sums.promised(parties)
    spare = 0.0 if parties <= COMPLETE else 2.0**-sums.security
    event = Merged(variant.contribution_event, honest)
    found = ExactAccountant(delta - spare).judge([event])
    return AmongHonest(found.epsilon, delta, honest, parties)


def rests_on(variant: Counted | RRClusters, parties: int, delta: float) -> str:
    """Sentence on the bound of a respondent's counts in a sum, and its assumption.

    Raises:
        ValueError: as ``told_in_sum``.
    """
    return told_sentence(variant, told_in_sum(variant, parties, delta))


def told_sentence(variant: Variant, among: AmongHonest) -> str:
    """Sentence on the loss of a respondent's counts in a sum.

    Args:
        variant: a variant of counts, or of reports that hide the answers whoever conspires.
        among: the privacy in the sum.
    """
    if math.isinf(among.epsilon):
        return EXACT
    bound = variant.most()
    alone = f"epsilon {figure(bound)}" if math.isfinite(bound) else "no bound"
    return (
        f"Of a respondent the sum tells epsilon {figure(among.epsilon)} at delta {among.delta:g} "
        f"if at least {among.honest:,} of the {among.parties:,} parties are honest and stay; "
        f"{alone} if all others conspire."
    )


def keep_in_sum(
    make: Callable[[float], PairRR], epsilon: float, parties: int, delta: float
) -> PairRR:
    """The reports with about the largest keep probability that cost no more in their sum.

    As losses are nearly normal, the first guess is close; a certified bound decides.

    Args:
        make: makes a variant from a keep probability.
        epsilon: at the delta, among those who are promised to be honest.
        delta: the probability for which epsilon need not hold.

    Raises:
        ValueError: none was found, or as of ``told_in_sum``.
    """
    some = make(0.5)
    honest = some.sums.promised(parties)
    shift = 2 * sum(randomizer.size for randomizer in some.randomizers) / honest
    best: PairRR | None = None
    # Bounds of the search: small enough, and too large.
    low, high = 0.0, 1.0
    square = (_AIMED * _normal(epsilon, delta)) ** 2
    # The squared shift of all tables in deviations is shift * p**2 / (1 - p).
    p = 2 * square / (square + math.sqrt(square**2 + 4 * shift * square))
    for _ in range(_TRIES):
        p = float(f"{p:.4g}")
        made = make(p)
        found = told_in_sum(made, parties, delta).epsilon
        if found <= epsilon:
            low, best = p, made
            if found >= _NEAR * epsilon:
                break
        else:
            high = p
        # Of small probabilities it grows with them; of large ones with how little is missing to 1.
        p = p * _AIMED * epsilon / found if p < 0.5 else 1 - (1 - p) * found / (_AIMED * epsilon)
        if not low < p < high:
            p = (low + high) / 2 if p < 0.5 else 1 - math.sqrt((1 - low) * (1 - high))
    if best is None:
        raise ValueError(f"no keep probability was found for epsilon {epsilon:g} in the sum")
    return best


def _normal(epsilon: float, delta: float) -> float:
    """Distance of two normal laws, in deviations, for an epsilon at a delta."""
    from scipy.special import log_ndtr

    def exceeds(apart: float) -> bool:
        near, far = log_ndtr([apart / 2 - epsilon / apart, -apart / 2 - epsilon / apart])
        return bool(math.exp(near) - math.exp(min(epsilon + far, near)) > delta)

    low, high = 0.0, 1.0
    while not exceeds(high):
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if exceeds(middle) else (middle, high)
    return low
