"""The law of an estimated square: intervals, and tests of whether it is 0.

The square of a measure of dependence is a quadratic form ``t = |delta|**2``. The estimate is
``X = |delta + e|**2``, with errors e that are nearly normal, so X is distributed like a sum of
weighted noncentral chi-squared variables. It is approximated by its first four cumulants, as a
shifted and scaled noncentral chi-squared variable (Liu, Tang and Zhang, A New
Chi-Square Approximation to the Distribution of Non-Negative Definite Quadratic Forms in
Non-Central Normal Variables, Computational Statistics and Data Analysis 53, 2009). That is exact
where all weights are equal, as for two attributes of two categories.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.estimators.inference.laws import LEVEL, Interval, critical
from protocol.randomizers.exact import Floats

_HALVINGS = 44
"""Ends of intervals are known to this many bits of the largest value."""

_LEAST = 0.1
"""The least value of X, as a part of the mean noise; by chance X may be less."""

_LEAST_DEGREES = 1e-3
"""The least degrees of freedom, which rounding might take below 0."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class QuadraticLaw:
    """The law of the unbiased estimates of some squares t, as a function of t.

    All fields are arrays of one shape, NaN if unknown. A is the covariance of the errors e, in the
    units in which X is ``|delta + e|**2``.

    Attributes:
        estimate: of t, unbiased to first order: X less the mean of ``|e|**2``; maybe negative.
        noise: the mean of ``|e|**2``.
        spread: the standard deviation of the estimate.
        trace_2, trace_3, trace_4: the traces of powers of A where t is 0.
        ratio: the variance of the part of X that is linear in e, over ``4 t``.
        scale: the measure is ``sqrt(t / scale)``.
        most: the largest t there can be.
        seen: the share of t that X shows, if rare categories depend as much as others. X shows less
            of them.
    """

    estimate: Floats
    noise: Floats
    spread: Floats
    trace_2: Floats
    trace_3: Floats
    trace_4: Floats
    ratio: Floats
    scale: Floats
    most: Floats
    seen: Floats

    @classmethod
    def of(
        cls,
        form: ArrayLike,
        noise: ArrayLike,
        linear: ArrayLike,
        traces: Iterable[ArrayLike],
        *,
        scale: float,
        most: float,
        seen: ArrayLike,
    ) -> QuadraticLaw:
        """The law of an estimate from the moments of X.

        Args:
            form: X.
            noise: the mean of ``|e|**2``.
            linear: the variance of the part of X that is linear in e.
            traces: of the first four powers of A where t is 0.
            scale, most, seen: as the attributes.
        """
        estimate, linear = np.asarray(np.subtract(form, noise)), np.asarray(linear)
        first, second, third, fourth = (np.asarray(np.maximum(trace, 0.0)) for trace in traces)
        spread = np.sqrt(2 * second + np.maximum(linear - 4 * second, 0.0))
        # The linear part and the estimated slope have the noise in common, and so has X itself:
        # with little dependence the ratio is that of noise, and with much that of the excess.
        whole = np.asarray(4 * np.maximum(estimate + first, _LEAST * first))
        above = np.maximum(linear, 0.0)
        ratio = np.divide(above, whole, out=np.zeros_like(whole), where=whole > 0)
        shape = estimate.shape
        return cls(
            estimate=estimate,
            noise=np.broadcast_to(noise, shape),
            spread=spread,
            trace_2=second,
            trace_3=third,
            trace_4=fourth,
            ratio=ratio,
            scale=np.full(shape, scale),
            most=np.full(shape, most),
            seen=np.asarray(seen),
        )

    @classmethod
    def stacked(cls, laws: Sequence[QuadraticLaw | None]) -> QuadraticLaw:
        """Laws of single squares as one, in their order; unknown ones for None."""
        names = [field.name for field in fields(cls)]
        columns = np.array(
            [
                [np.nan if law is None else np.asarray(getattr(law, name)).item() for name in names]
                for law in laws
            ],
            np.float64,
        ).reshape(-1, len(names))
        return cls(**{name: column.copy() for name, column in zip(names, columns.T, strict=True)})

    @classmethod
    def certain(cls, measure: float) -> QuadraticLaw:
        """The law of a measure that is known."""
        nothing, one = np.zeros(()), np.ones(())
        square = np.array(measure**2)
        return cls(
            estimate=square,
            noise=nothing,
            spread=nothing,
            trace_2=nothing,
            trace_3=nothing,
            trace_4=nothing,
            ratio=nothing,
            scale=one,
            most=np.maximum(square, one),
            seen=one,
        )

    @property
    def measure(self) -> Floats:
        """``sqrt(t / scale)`` of the estimate, from 0 to its largest value."""
        return self._root(self.estimate)

    @property
    def cautious(self) -> Floats:
        """The measure of the estimate less two deviations that it would have where t is 0."""
        return self._root(self.estimate - 2 * np.sqrt(2 * self.trace_2))

    @property
    def deviation(self) -> Floats:
        """The standard deviation of the measure, by the delta method.

        Near 0, where a root has no slope, it is the root of the deviation of the square, which is
        somewhat too large.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = self.spread / self.scale
            slope = np.maximum(2 * self.measure, np.sqrt(spread))
            found: Floats = np.where(spread > 0, spread / slope, spread)
        return found

    def interval(self, level: float = LEVEL) -> Interval:
        """The measures that the estimate does not contradict.

        Both tails have the same probability. The upper end is at least that of an estimate of 0, so
        that no interval is empty, and it allows for the categories that X does not show.

        Raises:
            ValueError: the level is not above 0 and below 1.
        """
        critical(level)
        outside = (1 - level) / 2
        low = self._truth_with_tail(self.estimate, 1 - outside)
        high = self._truth_with_tail(np.maximum(self.estimate, 0.0), outside)
        with np.errstate(invalid="ignore", divide="ignore"):
            high = np.minimum(high / self.seen, self.most)
        return Interval(self._root(low), self._root(high))

    def p_values(self) -> Floats:
        """The probability of no smaller an estimate where t is 0."""
        found: Floats = np.clip(1 - self._below(self.estimate, np.zeros(())), 0.0, 1.0)
        return found

    def detectable(self, outside: float, power: float) -> Floats:
        """The least measure that a test finds with a probability of ``power``; infinite if none.

        The dependence is taken to be as strong among rare categories as among others. Where rare
        categories have much more noise, a test that weighs categories by their noise finds a
        somewhat smaller dependence.

        Args:
            outside: the probability that the test rejects where t is 0.
            power: above ``outside``, below 1.
        """
        # Imported here: it takes longer than all of this package.
        from scipy.special import chdtri

        noisy = self.trace_2 > 0
        with np.errstate(invalid="ignore", divide="ignore"):
            # Where t is 0 the law by its cumulants is central, so its quantile is at hand.
            skewness = self.trace_3 / self.trace_2**1.5
            degrees = np.maximum(skewness**-2, _LEAST_DEGREES)
            placed = np.sqrt(self.trace_2) * skewness * (chdtri(degrees, outside) - degrees)
            # Not the estimated ratio: without dependence that is of one draw of the noise.
            ratio = np.where(noisy, self.trace_3 / self.trace_2, 0.0)
            law = replace(self, ratio=ratio)
            squares = law._truth_with_tail(np.where(noisy, placed, 0.0), 1 - power)
            found: Floats = np.sqrt(squares / self.seen / self.scale)
        return np.where((squares < self.most) & (self.seen > 0), found, np.inf)

    def _root(self, squares: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            found: Floats = np.sqrt(np.clip(squares, 0.0, self.most) / self.scale)
        return found

    def _below(self, estimate: Floats, t: Floats) -> Floats:
        """The probability of at most this estimate, given t."""
        # Imported here: it takes longer than all of this package.
        from scipy.special import chndtr

        second = self.trace_2 + 2 * t * self.ratio
        third = self.trace_3 + 3 * t * self.ratio**2
        fourth = self.trace_4 + 4 * t * self.ratio**3
        with np.errstate(invalid="ignore", divide="ignore"):
            skewness, kurtosis = third / second**1.5, fourth / second**2
            apart = skewness**2 - kurtosis
            a = 1 / (skewness - np.sqrt(np.maximum(apart, 0.0)))
            noncentral = np.where(apart > 0, np.maximum(skewness * a**3 - a**2, 0.0), 0.0)
            degrees = np.maximum(a**2 - 2 * noncentral, _LEAST_DEGREES)
            standard = (estimate - t) / np.sqrt(2 * second)
            placed = np.maximum(standard * np.sqrt(2.0) * a + degrees + noncentral, 0.0)
            found = chndtr(placed, degrees, noncentral)
        # Without errors the estimate is t.
        return np.where(second > 0, found, np.where(np.isnan(second), np.nan, estimate >= t))

    def _truth_with_tail(self, estimate: Floats, below: float) -> Floats:
        """The t that gives this probability of at most the estimate; it falls as t rises."""
        low, high = np.zeros(estimate.shape), np.array(np.broadcast_to(self.most, estimate.shape))
        nothing = self._below(estimate, low) <= below
        everything = self._below(estimate, high) >= below
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            more = self._below(estimate, middle) > below
            low, high = np.where(more, middle, low), np.where(more, high, middle)
        found: Floats = np.where(nothing, 0.0, np.where(everything, self.most, (low + high) / 2))
        known = ~np.isnan(estimate + self.trace_2)
        exact = (self.trace_2 == 0) & (self.ratio == 0)
        return np.where(exact, estimate, np.where(known, found, np.nan))


def holm(p_values: NDArray[np.float64]) -> Floats:
    """p-values of several tests, corrected to bound the probability of any false rejection.

    Holm, A Simple Sequentially Rejective Multiple Test Procedure, 1979. It needs no independence of
    the tests.

    Args:
        p_values: shape (k,), none of them NaN.
    """
    order = np.argsort(p_values, kind="stable")
    steps = p_values[order] * np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected
