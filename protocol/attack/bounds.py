"""Lower bounds on epsilon by exact intervals, from counts of right guesses."""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.special import betainccinv, betaincinv

_MOST = 1 << 40


class Interval(NamedTuple):
    """Both ends of a confidence interval for a probability."""

    low: float
    high: float


def clopper_pearson(hits: int, trials: int, *, alpha: float) -> Interval:
    """The exact interval for a probability; each end fails with probability at most ``alpha/2``.

    Clopper and Pearson, Biometrika 26 (1934).

    Raises:
        ValueError: not 0 to ``trials`` hits, or an alpha outside 0 to 1.
    """
    return Interval(at_least(hits, trials, alpha=alpha / 2), at_most(hits, trials, alpha=alpha / 2))


def at_least(hits: int, trials: int, *, alpha: float) -> float:
    """The lower end of an interval for a probability; it fails with probability at most ``alpha``.

    Raises:
        ValueError: not 0 to ``trials`` hits, or an alpha outside 0 to 1.
    """
    _check(hits, trials, alpha)
    return float(betaincinv(hits, trials - hits + 1, alpha)) if hits else 0.0


def at_most(hits: int, trials: int, *, alpha: float) -> float:
    """The upper end of an interval for a probability; it fails with probability at most ``alpha``.

    Raises:
        ValueError: not 0 to ``trials`` hits, or an alpha outside 0 to 1.
    """
    _check(hits, trials, alpha)
    return float(betainccinv(hits + 1, trials - hits, alpha)) if hits < trials else 1.0


def epsilon_of_guesses(right: int, guesses: int, *, alpha: float) -> float:
    """The least pure epsilon that is compatible with so many right guesses; 0 if any is.

    For every trial one of two inputs is drawn by a fair coin, and a guesser names the input of some
    trials from their views. If each input is protected by epsilon, the number of right guesses is
    at most that of as many coins with ``e**epsilon / (1 + e**epsilon)``, for every guesser, and
    also where trials share one run and its randomness (Steinke, Nasr and Jagielski, Privacy
    Auditing with One (1) Training Run, 2023, theorem 5.2 with delta = 0).

    Raises:
        ValueError: not 0 to ``guesses`` right ones, or an alpha outside 0 to 1.
    """
    low = at_least(right, guesses, alpha=alpha)
    return math.log(low / (1.0 - low)) if low > 0.5 else 0.0


def epsilon_of_counts(
    hits: tuple[int, int], trials: tuple[int, int], *, alpha: float, delta: float
) -> float:
    """The least epsilon at ``delta`` that is compatible with two counts of one event.

    ``ln((p - delta) / q)`` with the lower end of p and the upper end of q, which fail with
    probability ``alpha/2`` each. The trials must be independent, unlike those of
    ``epsilon_of_guesses``.

    Args:
        hits: number of occurrences under one input and under the other.
        trials: number of trials with each input.

    Raises:
        ValueError: as ``at_least``, or a delta outside 0 to 1.
    """
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"delta {delta}: expected at least 0 and less than 1")
    p = at_least(hits[0], trials[0], alpha=alpha / 2)
    q = at_most(hits[1], trials[1], alpha=alpha / 2)
    return math.log((p - delta) / q) if p - delta > q else 0.0


def provable(trials: int, *, alpha: float, delta: float) -> float:
    """Lower bound from so many trials, half of them of either input, if every guess is right."""
    if delta == 0.0:
        return epsilon_of_guesses(trials, trials, alpha=alpha)
    half = trials // 2
    return epsilon_of_counts((half, 0), (half, half), alpha=alpha, delta=delta)


def trials_to_exceed(epsilon: float, *, alpha: float, delta: float) -> float:
    """The least number of trials that can prove more than ``epsilon``; infinite if none does.

    With delta 0 that is ``ln(alpha) / ln(sigma)`` with ``sigma = e**epsilon / (1 + e**epsilon)``.
    """
    few, many = 0, 2
    while provable(many, alpha=alpha, delta=delta) <= epsilon:
        few, many = many, 2 * many
        if many > _MOST:
            return math.inf
    while many - few > 1:
        middle = (few + many) // 2
        if provable(middle, alpha=alpha, delta=delta) > epsilon:
            many = middle
        else:
            few = middle
    return float(many)


def _check(hits: int, trials: int, alpha: float) -> None:
    if not 0 <= hits <= trials:
        raise ValueError(f"{hits} hits: expected 0 to {trials}, the number of trials")
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha {alpha}: expected more than 0 and less than 1")
