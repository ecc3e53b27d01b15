"""Largest errors of a table before a survey is held: one bound for all cells at once.

Expressions (5) and (6) of Domingo-Ferrer and Soria-Comas (Multi-Dimensional Randomized Response,
section 2.3) bound the errors of the shares of *reports*. Here the bounds are of the shares of
*answers*: each cell has the variance of its estimate, after the inverse of the randomization.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from protocol.errors import UnsupportedEventError
from protocol.estimators.inference.laws import LEVEL, About, checked, critical
from protocol.randomizers import Randomizer
from protocol.randomizers.exact import Floats
from protocol.randomizers.unmixing import MatrixUnmixing

_SHARES = np.union1d(np.linspace(0.0, 1.0, 1025), 1 / np.arange(1.0, 65.0))
"""The shares of a cell that are tried where they are not known."""

_HALVINGS = 60
_TINY = np.finfo(np.float64).tiny


class LargestErrors(NamedTuple):
    """Bounds that hold for all cells at once at a confidence level.

    Attributes:
        absolute: how far an estimated share is from the true one at most.
        relative: the same as a part of the true share; infinite where that may be 0.
    """

    absolute: float
    relative: float


class _Squares(NamedTuple):
    """Mean squares of the scores of each category, given the answer.

    Attributes:
        inside: if the answer is that category, shape (r,).
        outside: the largest if it is another one, shape (r,).
        mean: their average over the answers, along an axis of a table of shares.
    """

    inside: Floats
    outside: Floats
    mean: Callable[[Floats, int], Floats]


def reported_errors(reported: ArrayLike, n: int, *, level: float = LEVEL) -> LargestErrors:
    """Expressions (5) and (6) as they are printed: of the shares of n reports.

    The largest ``sqrt(B lambda_u (1 - lambda_u) / n)``, and the largest of that over ``lambda_u``,
    with B the upper (1 - level)/r quantile of chi-square with one degree of freedom (Goodman, On
    Simultaneous Confidence Intervals for Multinomial Proportions, Technometrics 7, 1965).

    Args:
        reported: the probabilities of all r different reports.
        n: the number of reports.
        level: the level at which all bounds hold at once.

    Raises:
        ValueError: not a probability distribution, no report, or a level out of range.
    """
    shares = _distribution(reported)
    critical(level)
    z = critical(1 - (1 - level) / shares.size)
    errors = z * np.sqrt(shares * (1 - shares) / _number(n))
    return LargestErrors(float(errors.max()), float(_relative(errors, shares).max()))


def largest_errors(
    randomizers: Sequence[Randomizer],
    n: int,
    *,
    shares: ArrayLike | None = None,
    level: float = LEVEL,
    about: About = "population",
) -> LargestErrors:
    """Bound on the errors of the raw shares of all cells at once.

    Errors are taken for normal. The bound is the least one beyond which the tails of all cells
    together are at most ``1 - level``: ``sum_v 2 Phi(-bound / error_v) <= 1 - level``. It is
    never more than that of Expression (5) with the same variances, which shares ``1 - level`` out
    equally among the cells, even those with small errors.

    Without shares the bound holds for any (Thompson, Sample Size for Estimating Multinomial
    Proportions, The American Statistician 41, 1987): the worst ones are found by Lagrange duality,
    so the bound may be a percent or two too large, but never too small.

    Args:
        randomizers: those of a table's blocks, one for each axis; more than one only if their
            reports are codes.
        n: the number of reports.
        shares: known or guessed shares of the answers, one axis for each randomizer; None if they
            are not known.
        level: at which the bounds hold.
        about: the subject of the shares: a population of which the respondents are a random sample,
            or the respondents.

    Raises:
        ValueError: no randomizer or report, shares of another shape or that are not a probability
            distribution, a level out of range, or an unknown ``about``.
        UnsupportedEventError: a randomizer has no estimator of shares.
    """
    if not randomizers:
        raise ValueError("expected at least one randomizer")
    critical(level)
    axes = [_squares(randomizer, alone=len(randomizers) == 1) for randomizer in randomizers]
    power = 2 if checked(about) == "population" else 1
    if shares is None:
        return LargestErrors(_worst_bound(axes, power, level) / math.sqrt(_number(n)), math.inf)
    given = _distribution(shares)
    expected = tuple(len(axis.inside) for axis in axes)
    if given.shape != expected:
        raise ValueError(f"shares of shape {given.shape}: expected {expected}")
    squares = given
    for place, axis in enumerate(axes):
        squares = axis.mean(squares, place)
    errors = np.sqrt(np.maximum(squares - given**power, 0.0) / _number(n))
    return LargestErrors(_common(errors, level), _common(_relative(errors, given), level))


def _squares(randomizer: Randomizer, *, alone: bool) -> _Squares:
    try:
        unmixing = randomizer.unmixing((randomizer.size,), (0,))
    except UnsupportedEventError:
        if not alone:
            raise
        # Reports count for several categories; for each only the probability to count matters.
        variances = [randomizer.variances(np.full(randomizer.size, t), 1) for t in (0.0, 1.0)]
        return _two_valued(variances[1] + 1, variances[0])
    if not isinstance(unmixing, MatrixUnmixing):
        moments = unmixing.moments(np.empty(0))
        return _two_valued(moments.inside[0], moments.outside[0])
    means = unmixing.law @ unmixing.inverse**2
    others = np.where(np.eye(len(means), dtype=np.bool_), -np.inf, means)

    def mean(table: Floats, axis: int) -> Floats:
        found: Floats = np.tensordot(table, means, axes=(axis, 0))
        return np.moveaxis(found, -1, axis)

    return _Squares(means.diagonal(), others.max(axis=0), mean)


def _two_valued(inside: Floats, outside: Floats) -> _Squares:
    def mean(table: Floats, axis: int) -> Floats:
        shape = [-1 if other == axis else 1 for other in range(table.ndim)]
        found: Floats = (inside - outside).reshape(shape) * table
        found += outside.reshape(shape) * table.sum(axis=axis, keepdims=True)
        return found

    return _Squares(inside, outside, mean)


def _common(errors: Floats, level: float) -> float:
    """The least bound that all cells together exceed with at most the allowed probability."""
    if np.isinf(errors).any():
        return math.inf
    return _least(lambda bound: float(_tails(bound, errors).sum()), float(errors.max()), level)


def _worst_bound(axes: Sequence[_Squares], power: int, level: float) -> float:
    """The bound for one report; times 1/sqrt(n) it holds for any shares.

    The sum of the tails g_v(t_v) over the cells v must be bounded for all shares t that add up to
    1. For any number m it is at most ``m + sum_v max_t (g_v(t) - m t)``.
    """
    inside = reduce(np.multiply.outer, [axis.inside for axis in axes]).reshape(-1)
    outside = np.zeros(inside.shape)
    for place in range(len(axes)):
        # Another answer on one axis, and the likeliest to spread on all others.
        factors = [
            axis.outside if other == place else np.maximum(axis.inside, axis.outside)
            for other, axis in enumerate(axes)
        ]
        outside = np.maximum(outside, reduce(np.multiply.outer, factors).reshape(-1))
    (inside, outside), cells = np.unique(np.stack((inside, outside)), axis=1, return_counts=True)
    squares = outside[:, np.newaxis] + np.outer(inside - outside, _SHARES)
    errors = np.sqrt(np.maximum(squares - _SHARES**power, 0.0))

    def tails(bound: float) -> float:
        each = _tails(bound, errors)

        def dual(multiplier: float) -> float:
            return multiplier + float((cells * (each - multiplier * _SHARES).max(axis=1)).sum())

        # It is convex in the multiplier.
        steepest = float(np.abs(np.diff(each) / np.diff(_SHARES)).max())
        low, high = 0.0, steepest + _TINY
        for _ in range(_HALVINGS):
            one, other = low + (high - low) / 3, high - (high - low) / 3
            low, high = (low, other) if dual(one) < dual(other) else (one, high)
        return min(dual(low), dual(high), dual(0.0))

    return _least(tails, float(errors.max()), level)


def _least(tails: Callable[[float], float], error: float, level: float) -> float:
    """The least bound with tails of at most ``1 - level``."""
    low, high = 0.0, error
    while tails(high) > 1 - level:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if tails(middle) <= 1 - level else (middle, high)
    return high


def _tails(bound: float, errors: Floats) -> Floats:
    from scipy.special import ndtr

    found: Floats = 2 * ndtr(-bound / np.maximum(errors, _TINY))
    return np.where(errors > 0, found, 0.0)


def _relative(errors: Floats, shares: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = errors / shares
    return np.where(errors == 0, 0.0, found)


def _distribution(given: ArrayLike) -> Floats:
    shares = np.asarray(given, np.float64)
    if not (shares.size and (shares >= 0).all() and abs(float(shares.sum()) - 1) < 1e-6):
        raise ValueError("shares: expected a probability distribution")
    return shares


def _number(n: int) -> int:
    if n < 1:
        raise ValueError(f"{n} reports: expected at least one")
    return n
