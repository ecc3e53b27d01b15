"""Laws of errors: the error of an estimate as a function of the truth.

A standard error is that of one truth, the estimated one. An interval holds every truth that the
estimate does not contradict, and each truth has its own error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from protocol.randomizers.exact import Floats

About: TypeAlias = Literal["respondents", "population"]
"""Subject of an interval: the respondents, or a population of which they are a random sample."""

SIDES: tuple[About, About] = ("respondents", "population")
"""Both subjects."""

LEVEL = 0.95
"""The confidence level of intervals, unless another one is asked for."""


class Interval(NamedTuple):
    """The ends of an interval for each of some numbers, or for one; NaN where it is unknown."""

    low: Floats
    high: Floats


class Variance(NamedTuple):
    """The variance of an estimate if the truth is t: ``constant + slope t + square t**2``.

    Each is one number for each estimate, or one for all; NaN where it is unknown.
    """

    constant: ArrayLike
    slope: ArrayLike = 0.0
    square: ArrayLike = 0.0

    def at(self, truth: ArrayLike) -> Floats:
        """The variances if the truths are these."""
        t = np.asarray(truth, np.float64)
        found: Floats = np.asarray(self.constant) + np.multiply(self.slope, t)
        return found + np.multiply(self.square, t**2)


class ErrorLaw(ABC):
    """Law of the errors of some estimated numbers."""

    __slots__ = ()

    @abstractmethod
    def interval(self, level: float, about: About) -> Interval:
        """Truths that each number's estimate does not contradict, at a confidence level.

        Raises:
            ValueError: the level is not above 0 and below 1, or an unknown ``about``.
        """

    def covariance(self, about: About) -> Floats:
        """The covariances of the estimates, shape (cells, cells), cells in row-major order.

        Raises:
            ValueError: no formula is known, or there are too many cells.
        """
        raise ValueError("the covariance of these estimates is not known")

    def reach(self, about: About) -> Floats:
        """Largest change of each estimate by one report; 0 where it is exact, or not known."""
        return np.zeros(())

    def times(self, factor: float, offset: float = 0.0) -> ErrorLaw:
        """The law of the estimates times a factor, plus a constant."""
        return self if (factor, offset) == (1, 0) else _Line(self, factor, offset)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Line(ErrorLaw):
    law: ErrorLaw
    factor: float
    offset: float

    def interval(self, level: float, about: About) -> Interval:
        ends = [end * self.factor + self.offset for end in self.law.interval(level, about)]
        return Interval(*(ends if self.factor > 0 else ends[::-1]))

    def covariance(self, about: About) -> Floats:
        return self.law.covariance(about) * self.factor**2


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OneLaw(ErrorLaw):
    """The law of one of some estimates, by its place."""

    law: ErrorLaw
    place: int

    def interval(self, level: float, about: About) -> Interval:
        low, high = self.law.interval(level, about)
        return Interval(np.asarray(low.flat[self.place]), np.asarray(high.flat[self.place]))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DeferredLaw(ErrorLaw):
    """A law that is worked out when it is needed.

    Attributes:
        made: makes the law.
        covariances: the covariances by the subject; those of the law if None.
    """

    made: Callable[[], ErrorLaw]
    covariances: Callable[[About], Floats] | None = None

    def interval(self, level: float, about: About) -> Interval:
        return self.made().interval(level, about)

    def reach(self, about: About) -> Floats:
        return self.made().reach(about)

    def covariance(self, about: About) -> Floats:
        if self.covariances is None:
            return self.made().covariance(about)
        return self.covariances(checked(about))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NormalLaw(ErrorLaw):
    """Normal errors with a variance that depends on the truth.

    Attributes:
        values: the unbiased estimates.
        variances: by the subject, where they are known.
        least, most: the range of the truth.
    """

    values: Floats
    variances: Mapping[About, Variance] = field(default_factory=dict)
    least: float = 0.0
    most: float = 1.0

    @classmethod
    def of_errors(
        cls,
        values: ArrayLike,
        respondents: ArrayLike | None,
        population: ArrayLike | None,
        *,
        least: float = 0.0,
        most: float = 1.0,
    ) -> NormalLaw:
        """Standard errors that do not depend on the truth; None where they are unknown."""
        errors: dict[About, ArrayLike | None] = {
            "respondents": respondents,
            "population": population,
        }
        variances = {
            about: Variance(np.square(error))
            for about, error in errors.items()
            if error is not None
        }
        return cls(
            values=np.asarray(values, np.float64), variances=variances, least=least, most=most
        )

    def interval(self, level: float, about: About) -> Interval:
        """The t with ``(value - t)**2 <= z**2 variance(t)``, cut to the range of the truth.

        For a share of n draws, of variance ``t (1 - t) / n``, it is the score interval (Wilson,
        Probable Inference, the Law of Succession, and Statistical Inference, JASA 22, 1927).

        Where the estimate is so far outside of the range that nothing is left, the interval goes
        from the end of the range to one standard error inside, so it is never empty.
        """
        variance = self.variances.get(checked(about), Variance(np.nan))
        z = critical(level)
        return score_interval(self.values, variance, z, least=self.least, most=self.most)


def exact_law(value: float) -> ErrorLaw:
    """The law of a number without error."""
    return NormalLaw.of_errors(value, 0.0, 0.0, least=-np.inf, most=np.inf)


def score_interval(
    values: Floats, variance: Variance, z: float, *, least: float, most: float
) -> Interval:
    """The truths within z standard errors of the estimates, each with the error of its own.

    The two ends are the roots of ``(1 - z**2 square) t**2 - (2 value + z**2 slope) t + value**2
    - z**2 constant``; where this has a maximum, all truths on one side may qualify.
    """
    constant, slope, square = (z**2 * np.asarray(part, np.float64) for part in variance)
    a, b, c = 1 - square, 2 * values + slope, values**2 - constant
    with np.errstate(invalid="ignore", divide="ignore"):
        root = np.sqrt(np.maximum(b**2 - 4 * a * c, 0.0))
        # With a sign that avoids the difference of two numbers that are nearly equal.
        large = np.where(b < 0, b - root, b + root) / 2
        ends = np.stack(
            np.broadcast_arrays(large / a, np.where(large == 0, 0.0, c / large), values)
        )
        low, high = ends[:2].min(axis=0), ends[:2].max(axis=0)
        if np.isfinite(least):
            inside = np.sqrt(np.maximum(variance.at(least), 0.0))
            high = np.maximum(high, np.minimum(least + inside, most))
        if np.isfinite(most):
            inside = np.sqrt(np.maximum(variance.at(most), 0.0))
            low = np.minimum(low, np.maximum(most - inside, least))
        low, high = np.clip(low, least, most), np.clip(high, least, most)
        # With a variance that grows faster than the distance, one end is that of the range.
        unbounded = ~(a > 0)
        low, high = np.where(unbounded, least, low), np.where(unbounded, most, high)
    # A number without error is exact, and not only up to rounding.
    exact = np.broadcast_to((constant == 0) & (slope == 0) & (square == 0), low.shape)
    inside = np.clip(values, least, most)
    low, high = np.where(exact, inside, low), np.where(exact, inside, high)
    known = np.isfinite(np.broadcast_to(a + b + c, low.shape))
    return Interval(np.where(known, low, np.nan), np.where(known, high, np.nan))


def critical(level: float) -> float:
    """The standard normal quantile that a two-sided interval of a level takes.

    Raises:
        ValueError: the level is not above 0 and below 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"level {level}: expected above 0 and below 1")
    return -NormalDist().inv_cdf((1 - level) / 2)


def checked(about: About) -> About:
    """Check the subject of an interval.

    Raises:
        ValueError: it is unknown.
    """
    if about not in SIDES:
        raise ValueError(f"about {about!r:.60}: expected 'respondents' or 'population'")
    return about
