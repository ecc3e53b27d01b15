"""The other way round: the least epsilon, or the fewest respondents, that an error takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from protocol.errors import ProtocolError
from protocol.estimators.inference.laws import critical
from protocol.session.variant import Variant
from scenarios.designing.candidates import Candidate, Wanted, of_variant
from scenarios.designing.designing import Setup
from scenarios.designing.predicting import LEAST, NotEstimatedError, choices_of, predicted

LEAST_EPSILON, MOST_EPSILON = 2**-10, 32.0
"""Between which epsilons one is looked for."""

_HALVINGS = 17


class Needed(NamedTuple):
    """What one way to ask takes to keep the promise.

    The promise is about every cell of the target by itself: with probability ``level`` its
    estimate is within the error of the true share.

    Args:
        candidate: the way, with the parameters for ``epsilon``.
        epsilon: what a respondent's reports cost at most.
        respondents: how many are asked.
    """

    candidate: Candidate
    epsilon: float
    respondents: int


def half_width(setup: Setup, variant: Variant, level: float) -> float | None:
    """Half of the normal interval of the cell with the largest error.

    None without a closed form, or where the result says nothing of one of the target's tables.
    """
    try:
        found = predicted(variant, setup.answering, setup.target, setup.shares, about=setup.about)
    except (NotEstimatedError, ProtocolError):
        return None
    return None if found is None else critical(level) * found.largest


def respondents_needed(
    setup: Setup, candidate: Candidate, epsilon: float, error: float, level: float
) -> Needed | None:
    """How many respondents a way to ask takes; None without a closed form, or of exact counts.

    Args:
        setup: how many respondents it has does not count.
        candidate: the way.
        epsilon: what it was made for.
        error: the promise.
        level: its probability.
    """
    variant = candidate.variant
    if variant is None or not math.isfinite(variant.most()):
        return None
    # Errors fall with the root of the number of respondents, from a few on each question.
    least = LEAST * choices_of(variant)
    width = half_width(setup._replace(respondents=least, dropout=0.0), variant, level)
    if width is None:
        return None
    answering = max(least, math.ceil(least * (width / error) ** 2))
    return Needed(candidate, epsilon, math.ceil(answering / (1 - setup.dropout)))


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
            if candidate.variant is None or not math.isfinite(candidate.variant.most()):
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
    """In four digits, as it is printed."""
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 3)
    return float(f"{math.ceil(epsilon / step) * step:.4g}")


def ways_of(setup: Setup, cls: type[Variant]) -> Callable[[float], Sequence[Candidate]]:
    """The ways to set up a built-in variant, by epsilon."""
    return lambda epsilon: of_variant(
        cls, Wanted(setup.survey, epsilon, setup.target, setup.parties, setup.dropout)
    )
