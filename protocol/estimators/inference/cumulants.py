"""Errors of counts and other sums of reports, by their first three cumulants.

The tails of a sum are those of the binomial distribution with the same mean, variance, third
cumulant and steps. For a count of independent reports that is exact. For reports of respondents
with given answers, a sum of two binomials, and for samples of them, it is within about a thousandth
of the exact tails from some ten reports on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.estimators.inference.laws import (
    SIDES,
    About,
    DeferredLaw,
    ErrorLaw,
    Interval,
    checked,
    critical,
)
from protocol.randomizers.exact import Floats

_STEPS = 60
_FINE = 2.0**-40
"""The ends of intervals: the most steps, and the precision as a part of the range."""

# Distance of the ends of normal intervals from those searched for, in standard errors.
_NEAR = 0.1

# The variance in squared steps over which the estimate's own probability counts less in a tail.
_FEW = 5.0

# Distance of the skewness from that of a Poisson variable, and of parameters from 0.
_EDGE, _TINY = 1e-12, 1e-300

# In place of a variance that is not positive; large enough to be divided by.
_NONE = 1e-100


class Cumulants(NamedTuple):
    """The variance and the third cumulant of estimates, as polynomials of the truth.

    Attributes:
        variance: the factors of 1, t and t**2, shape (3, ...).
        third: those of 1 to t**3, shape (4, ...).
    """

    variance: Floats
    third: Floats

    def at(self, truth: Floats) -> tuple[Floats, Floats]:
        """Both, if the truths are these."""
        return _at(self.variance, truth), _at(self.third, truth)

    def plus(self, other: Cumulants) -> Cumulants:
        """Cumulants of the sums with other, independent estimates of the same truth."""
        return Cumulants(self.variance + other.variance, self.third + other.third)

    def times(self, factor: ArrayLike) -> Cumulants:
        """Cumulants of the estimates times a factor, as polynomials of the same truth."""
        by = np.asarray(factor, np.float64)
        return Cumulants(self.variance * by**2, self.third * by**3)


class Offsets(NamedTuple):
    """Probabilities that reports of respondents outside the set count.

    Attributes:
        first, second, third: the sums of these probabilities, of their squares and their cubes.
    """

    first: Floats
    second: Floats
    third: Floats

    @classmethod
    def alike(cls, n: ArrayLike, other: ArrayLike) -> Offsets:
        """Offsets of n reports with the same probability."""
        reports, each = np.asarray(n, np.float64), np.asarray(other, np.float64)
        return cls(reports * each, reports * each**2, reports * each**3)

    def moved(self, n: ArrayLike, gain: ArrayLike) -> Offsets:
        """Offsets of respondents in the set: each probability is larger by the gain."""
        n, g = np.asarray(n, np.float64), np.asarray(gain, np.float64)
        return Offsets(
            self.first + n * g,
            self.second + 2 * g * self.first + n * g**2,
            self.third + 3 * g * self.second + 3 * g**2 * self.first + n * g**3,
        )


def left_by_sampling(n: ArrayLike, of: ArrayLike) -> tuple[Floats, Floats]:
    """Part of the variance of a sum, and of its skew, that is left without replacement.

    The variance is the first part of that with replacement. The third cumulant is that with
    replacement times both parts.

    Args:
        n: the number of draws.
        of: the number to draw from, at least n (fewer count as n); infinite for a population.

    Returns:
        The two parts, 1 of a population.
    """
    drawn, people = np.asarray(n, np.float64), np.asarray(of, np.float64)
    endless = np.isinf(people)
    people = np.where(endless, 3.0, np.maximum(people, drawn))
    left = (people - drawn) / np.maximum(people - 1, 1)
    turned = (people - 2 * drawn) / np.maximum(people - 2, 1)
    return np.where(endless, 1.0, left), np.where(endless, 1.0, turned)


def count_cumulants(
    n: ArrayLike,
    offsets: Offsets,
    gain: ArrayLike,
    *,
    about: About,
    of: ArrayLike,
    together: ArrayLike | None = None,
) -> Cumulants:
    """The cumulants of the count of n reports for a set, by the share of respondents in the set.

    A report counts with the probability of its offset, plus ``gain`` if its respondent is in the
    set.

    Args:
        n: the number of reports.
        offsets: their offsets.
        gain: by how much a respondent in the set adds to a report's probability.
        about: all respondents, of whom reporters are a simple random sample, or a population of
            which these are a sample.
        of: the number of all respondents, at least n.
        together: the number of all reports that are a random sample together, if these are a part
            of them and the cumulants of the parts are added up.
    """
    n, g = np.asarray(n, np.float64), np.asarray(gain, np.float64)
    sampled = n if together is None else np.asarray(together, np.float64)
    left, turned = left_by_sampling(sampled, of if checked(about) == "respondents" else np.inf)
    out, inside = offsets, offsets.moved(n, g)
    least = out.first - out.second
    spread = inside.first - inside.second - least
    skewed = out.first - 3 * out.second + 2 * out.third
    skew = inside.first - 3 * inside.second + 2 * inside.third - skewed
    # The number of reporters in the set has the variance n t (1-t) left.
    drawn = n * g**2 * left
    both, own = 3 * g * spread * left, n * g**3 * left * turned
    none = np.zeros_like(drawn + least)
    return Cumulants(
        np.stack(np.broadcast_arrays(least + none, spread + drawn, -drawn)),
        np.stack(np.broadcast_arrays(skewed + none, skew + both + own, -both - 3 * own, 2 * own)),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CumulantLaw(ErrorLaw):
    """Errors of sums of reports, by their cumulants.

    Attributes:
        values: the unbiased estimates.
        cumulants: by the subject, where they are known.
        steps: the least change of an estimate; of a sum of reports with many different scores, the
            largest change by one report.
        least, most: between which the truth is.
        covariances: the covariances by the subject, if they are known.
        most_by_one: the largest change of an estimate by one respondent; ``steps`` if None.
    """

    values: Floats
    cumulants: Mapping[About, Cumulants]
    steps: Floats
    least: float = 0.0
    most: float = 1.0
    covariances: Callable[[About], Floats] | None = field(default=None)
    most_by_one: Floats | None = field(default=None)

    @classmethod
    def of_counts(
        cls,
        values: ArrayLike,
        n: ArrayLike,
        *,
        other: ArrayLike,
        gain: ArrayLike,
        of: ArrayLike | None = None,
    ) -> CumulantLaw:
        """Law of ``(count/n - other) / gain`` for counts of n reports.

        Args:
            values: the estimates.
            n: the number of reports of each.
            other: the probability that a report counts if its respondent is not in the set.
            gain: the increase of that probability if the respondent is in the set.
            of: the number of respondents that reporters are a random sample of; all if None.
        """
        found = np.asarray(values, np.float64)
        reports = np.broadcast_to(np.asarray(n, np.float64), found.shape)
        step = 1 / (np.maximum(reports, 1) * np.asarray(gain, np.float64))
        offsets = Offsets.alike(reports, other)
        people = reports if of is None else of
        cumulants = {
            about: count_cumulants(reports, offsets, gain, about=about, of=people).times(step)
            for about in SIDES
        }
        return cls(
            values=np.where(reports > 0, found, np.nan),
            cumulants=cumulants,
            steps=np.broadcast_to(step, found.shape),
        )

    def with_noise(self, noise: Cumulants) -> CumulantLaw:
        """The law with independent noise that has the same cumulants for every estimate.

        Args:
            noise: cumulants of shapes (3,) and (4,).
        """
        added = Cumulants(*(part.reshape(-1, *[1] * self.values.ndim) for part in noise))
        cumulants = {about: own.plus(added) for about, own in self.cumulants.items()}
        return replace(self, cumulants=cumulants)

    def of_sample(self, n: int, of: int) -> CumulantLaw:
        """The law about ``of`` respondents, if the n who report are a simple random sample of them.

        Sampling adds a part of the variance that a population adds. The same part of the third
        cumulant is added too, which is an approximation.
        """
        left = float(left_by_sampling(n, of)[0])
        if not left or len(self.cumulants) < 2:
            return self
        given, sampled = self.cumulants["respondents"], self.cumulants["population"]
        known = Cumulants(
            *(one + left * (other - one) for one, other in zip(given, sampled, strict=True))
        )
        return replace(self, cumulants={**self.cumulants, "respondents": known})

    def interval(self, level: float, about: About) -> Interval:
        """The truths under which the estimate is not in a tail, cut to the range of the truth.

        A tail has the probability of all beyond the estimate, and a part of that of the estimate
        itself: half of it (the mid-p value), and more, up to all, where the sum has few steps in a
        standard error.
        """
        known = self.cumulants.get(checked(about))
        if known is None:
            critical(level)
            unknown = np.full(self.values.shape, np.nan)
            return Interval(unknown, unknown.copy())

        def errors(truth: Floats) -> Errors:
            return Errors(self.values - truth, *known.at(truth), self.steps)

        low, high = accepted(
            errors, level, least=self.least, most=self.most, shape=self.values.shape
        )
        exact = _exact(known) & np.isfinite(self.values)
        return Interval(np.where(exact, self.values, low), np.where(exact, self.values, high))

    def reach(self, about: About) -> Floats:
        known = self.cumulants.get(checked(about))
        most = self.steps if self.most_by_one is None else self.most_by_one
        return np.where(known is None or _exact(known), 0.0, most)

    def covariance(self, about: About) -> Floats:
        if self.covariances is None:
            raise ValueError("the covariance of these estimates is not known")
        return self.covariances(checked(about))


def cumulant_law(law: ErrorLaw | None) -> CumulantLaw | None:
    """A law by cumulants, worked out if it is deferred; None for another law."""
    while isinstance(law, DeferredLaw):
        law = law.made()
    return law if isinstance(law, CumulantLaw) else None


def _exact(cumulants: Cumulants) -> NDArray[np.bool_]:
    """Mask of the estimates without error for every truth."""
    found: NDArray[np.bool_] = (cumulants.variance == 0).all(axis=0)
    return found


class Errors(NamedTuple):
    """Errors of estimates at some hypothesised truths, and their distribution there.

    Attributes:
        errors: the estimates less their expectations.
        variance, third: their cumulants.
        steps: as in ``CumulantLaw``.
    """

    errors: Floats
    variance: Floats
    third: Floats
    steps: Floats


def accepted(
    errors: Callable[[Floats], Errors],
    level: float,
    *,
    least: float,
    most: float,
    shape: tuple[int, ...],
) -> Interval:
    """The truths that estimates do not contradict, between the least and the most there are.

    An estimate far outside of the range contradicts all of it: its interval then goes from the end
    of the range to one standard error inside. NaN where the errors are.

    Args:
        errors: by the truths, of shape (2, *shape).
        level: the confidence level.
        least, most: the range of the truth.
        shape: that of the estimates.
    """
    z = critical(level)
    # Both ends at once: the lower end is the upper one of the truth with its sign turned.
    sign = np.array([-1.0, 1.0]).reshape(2, *[1] * len(shape))
    start = np.broadcast_to(np.where(sign < 0, -most, least), (2, *shape))
    stop = np.broadcast_to(np.where(sign < 0, -least, most), (2, *shape))
    first = errors(sign * start)
    # Where the ends would be if the errors were normal.
    estimate = start + sign * first.errors
    near, width = estimate, np.zeros_like(estimate)
    for _ in range(3):
        variance = errors(sign * np.clip(near, start, stop)).variance
        width = np.sqrt(np.maximum(variance, 0.0))
        near = estimate + z * width
    found = crossing(
        lambda turned: _quantile(_tails(errors(sign * turned), sign)) + z,
        start,
        stop,
        fine=_FINE * (most - least),
        guesses=(near - _NEAR * width, near + _NEAR * width),
    )
    inside = np.sqrt(np.maximum(first.variance, 0.0))
    found = sign * np.where(np.isnan(found), np.minimum(start + inside, stop), found)
    known = np.isfinite(first.errors + first.variance).all(axis=0)
    return Interval(*np.where(known, found, np.nan))


def below(errors: Errors) -> Floats:
    """The lower tails: probabilities of an estimate this small or smaller."""
    return _tails(errors, 1.0)


def above(errors: Errors) -> Floats:
    """The upper tails: probabilities of an estimate this large or larger."""
    return _tails(errors, -1.0)


def _quantile(tail: Floats) -> Floats:
    """The standard normal quantile of a tail, which is nearly linear in the truth."""
    from scipy.special import ndtri

    found: Floats = ndtri(np.clip(tail, _TINY, 1 - _EDGE))
    return found


def _tails(errors: Errors, sign: float | Floats) -> Floats:
    from scipy.special import betainc

    # The upper tail is computed as a mirrored lower tail, to keep its digits.
    steps = errors.steps
    variance = np.maximum(errors.variance / steps**2, _NONE)
    skew = np.clip(sign * errors.third / steps**3 / variance, _EDGE - 1, 1 - _EDGE)
    share = (1 - skew) / 2
    number = variance / (share * (1 - share))
    places = sign * errors.errors / steps + number * share

    def up_to(place: Floats) -> Floats:
        inner = np.clip(place, -1, number)
        found = betainc(np.maximum(number - inner, _TINY), np.maximum(inner + 1, _TINY), 1 - share)
        return np.where(place >= number, 1.0, np.where(place <= -1, 0.0, found))

    own = 0.5 + 0.5 * np.exp(-variance / _FEW)
    found: Floats = (1 - own) * up_to(places - 1) + own * up_to(places)
    return found


def crossing(
    excess: Callable[[Floats], Floats],
    start: Floats,
    stop: Floats,
    *,
    fine: float,
    guesses: Sequence[Floats] = (),
) -> Floats:
    """Points at which falling functions become negative.

    Chandrupatla, A New Hybrid Quadratic/Bisection Algorithm, Advances in Engineering Software 28,
    1997: it uses a parabola through the last three points if that is safe, and bisects otherwise.

    Args:
        excess: the functions, of arguments of the shape of ``start``.
        start, stop: between which arguments they are searched.
        fine: the precision of the argument.
        guesses: arguments that are tried first; they may be outside.

    Returns:
        NaN where a function is negative at the start; the stop where it is not negative there.
    """
    a, b = start, stop
    at_a, at_b = excess(a), excess(b)
    never, always = ~(at_a >= 0), at_b >= 0
    c, at_c = a, at_a
    for guess in guesses:
        x = np.where((guess > a) & (guess < b), guess, a)
        at_x = excess(x)
        held = at_x >= 0
        c, at_c = np.where(held, a, b), np.where(held, at_a, at_b)
        a, at_a = np.where(held, x, a), np.where(held, at_x, at_a)
        b, at_b = np.where(held, b, x), np.where(held, at_b, at_x)
    part = np.full(a.shape, 0.5)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(_STEPS):
            width = np.abs(b - a)
            if ((width <= fine) | never | always | np.isnan(at_a)).all():
                break
            xi, phi = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
            parabola = at_a / (at_b - at_a) * at_c / (at_b - at_c) + (c - a) / (b - a) * at_a / (
                at_c - at_a
            ) * at_b / (at_c - at_b)
            safe = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi) & np.isfinite(parabola)
            edge = 0.5 * fine / np.maximum(width, _TINY)
            part = np.clip(np.where(safe, parabola, 0.5), edge, np.maximum(1 - edge, edge))
            x = a + part * (b - a)
            at_x = excess(x)
            same = (at_x >= 0) == (at_a >= 0)
            c, at_c = np.where(same, a, b), np.where(same, at_a, at_b)
            b, at_b = np.where(same, b, a), np.where(same, at_b, at_a)
            a, at_a = x, at_x
    nearer = np.where(np.abs(at_a) < np.abs(at_b), a, b)
    return np.where(never, np.nan, np.where(always, stop, nearer))


def _at(factors: Floats, truth: Floats) -> Floats:
    found = np.zeros_like(truth)
    for factor in factors[::-1]:
        found = found * truth + factor
    return found
