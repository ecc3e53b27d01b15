"""The other way round: the least epsilon, or the fewest respondents, that an error takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from protocol.accounting.shuffling import MOST_RESPONDENTS
from protocol.errors import ProtocolError
from protocol.estimators.inference.laws import critical
from protocol.session.variant import Variant
from protocol.variants.sums.tallies import Counted
from scenarios.designing.candidates import Candidate, Wanted, variant_candidates
from scenarios.designing.designing import Setup
from scenarios.designing.predicting import LEAST, NotEstimatedError, count_choices, predict

LEAST_EPSILON, MOST_EPSILON = 2**-10, 32.0
"""Between which epsilons one is looked for."""

_HALVINGS = 17
# To which part of it a number of respondents is searched.
_STEPS = 500


class Needed(NamedTuple):
    """Needs of one way to ask for keeping the promise.

    Each cell of the target is within the error of the true share with probability ``level``.

    Args:
        candidate: the way, with the parameters for ``epsilon``.
        epsilon: largest cost of a respondent's reports.
        respondents: number of respondents.
    """

    candidate: Candidate
    epsilon: float
    respondents: int


def half_width(setup: Setup, variant: Variant, level: float) -> float | None:
    """Half of the normal interval of the cell with the largest error.

    None without a closed form, or if the variant does not estimate one of the target's tables.
    """
    try:
        found = predict(
            variant,
            setup.answering,
            setup.target,
            setup.shares,
            about=setup.about,
            parties=setup.staying,
        )
    except (NotEstimatedError, ProtocolError):
        return None
    return None if found is None else critical(level) * found.largest


def respondents_needed(
    setup: Setup, candidate: Candidate, epsilon: float, error: float, level: float
) -> Needed | None:
    """Respondents that a way to ask needs; None without a closed form, or of exact counts.

    Args:
        setup: the purpose, for any number of respondents.
        epsilon: the epsilon that it was made for.
        error: the promise.
        level: its probability.
    """
    variant = candidate.variant
    if variant is None or not is_bounded(candidate):
        return None
    # Errors fall with the root of the number of respondents, from a few on each question.
    least = LEAST * count_choices(variant)
    width = half_width(setup._replace(respondents=least, dropout=0.0), variant, level)
    if width is None:
        return None
    answering = max(least, math.ceil(least * (width / error) ** 2))
    return Needed(candidate, epsilon, math.ceil(answering / (1 - setup.dropout)))


def resize(setup: Setup, cls: type[Variant], needed: Needed) -> Needed:
    """The same way to ask, set up for one party per respondent.

    Args:
        setup: the purpose; equal numbers of parties and respondents mean one party each.
        cls: the variant.
        needed: results for any number of parties.
    """
    if setup.parties != setup.respondents:
        return needed
    whole = setup._replace(respondents=needed.respondents, parties=needed.respondents)
    ways = list_ways(whole, cls)(needed.epsilon)
    alike = [one for one in ways if one.name == needed.candidate.name and one.variant is not None]
    return needed._replace(candidate=alike[0]) if alike else needed


def coins_needed(
    setup: Setup, cls: type[Counted], epsilon: float, error: float, level: float
) -> Needed | None:
    """Respondents that counts with coins need; None if no number is enough.

    The number of coins does not depend on the number of respondents, so a search finds the number.

    Args:
        setup: the purpose, for any number of respondents; equal numbers of parties and respondents
            mean one party each.
        cls: class of the counting variant.
        epsilon: at the delta of the setup, if enough others are honest.
        error: the promise.
        level: its probability.
    """
    alone = setup.parties == setup.respondents

    def kept(respondents: int) -> Candidate | None:
        there = setup._replace(
            respondents=respondents, parties=respondents if alone else setup.parties
        )
        for candidate in list_ways(there, cls)(epsilon):
            if candidate.variant is not None and candidate.among is not None:
                width = half_width(there, candidate.variant, level)
                if width is not None and width <= error:
                    return candidate
        return None

    low, high = 1, 2 if alone else max(2, setup.parties)
    best = kept(high)
    while best is None:
        if high >= MOST_RESPONDENTS:
            return None
        low, high = high, min(2 * high, MOST_RESPONDENTS)
        best = kept(high)
    while high - low > max(1, high // _STEPS):
        middle = (low + high) // 2
        found = kept(middle)
        if found is None:
            low = middle
        else:
            high, best = middle, found
    return Needed(best, epsilon, high)


def epsilon_needed(
    setup: Setup, make: Callable[[float], Sequence[Candidate]], error: float, level: float
) -> Needed | None:
    """The least epsilon that one variant takes, by whichever of its ways; None if none will do.

    Args:
        setup: with the number of respondents.
        make: the ways to set it up for an epsilon.
        error: the promise.
        level: its probability.
    """

    def kept(epsilon: float) -> Candidate | None:
        for candidate in make(epsilon):
            if candidate.variant is None or not is_bounded(candidate):
                continue
            width = half_width(setup, candidate.variant, level)
            if width is not None and width <= error:
                return candidate
        return None

    low, high = math.log(LEAST_EPSILON), math.log(MOST_EPSILON)
    best = kept(MOST_EPSILON)
    if best is None:
        return None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = kept(math.exp(middle))
        if found is None:
            low = middle
        else:
            high, best = middle, found
    epsilon = _rounded_up(math.exp(high))
    return Needed(kept(epsilon) or best, epsilon, setup.respondents)


def _rounded_up(epsilon: float) -> float:
    """Round up to four digits, as printed."""
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 3)
    return float(f"{math.ceil(epsilon / step) * step:.4g}")


def list_ways(setup: Setup, cls: type[Variant]) -> Callable[[float], Sequence[Candidate]]:
    """The ways to set up a built-in variant, by epsilon, which holds alike in all of them.

    Counts have coins. Randomized reports are not charged as a sum: coins always take less.
    """
    delta = setup.delta if issubclass(cls, Counted) else None
    return lambda epsilon: variant_candidates(
        cls, Wanted(setup.survey, epsilon, setup.target, setup.parties, setup.dropout, delta)
    )


def is_bounded(candidate: Candidate) -> bool:
    """Check whether an epsilon bounds its cost, with or without honest others."""
    variant = candidate.variant
    return candidate.among is not None or (variant is not None and math.isfinite(variant.most()))
