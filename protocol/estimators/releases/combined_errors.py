"""Errors of tables that are combined from several releases.

Each release counts every report with a score ``h``, which has the mean ``g`` given the answer. Over
all releases the ``g`` of a cell add up to 1 in it and 0 outside. Given the answers the releases are
independent, so their cumulants add up. Each is a sum of a table's components with factors that
follow from the design alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from protocol.estimators.inference.cumulants import CumulantLaw, Cumulants
from protocol.estimators.inference.laws import About
from protocol.estimators.inference.scores import (
    Scores,
    check_covariance,
    inflation,
    multinomial,
    one_report_more,
)
from protocol.estimators.releases.components import (
    applied,
    coefficients_to_entries,
    entries_to_coefficients,
    margin_factors,
)
from protocol.estimators.releases.noisy import AddedNoise
from protocol.randomizers.exact import Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Combination:
    """A table of k attributes, combined from R releases.

    Attributes:
        values: the table.
        n: the number of respondents.
        numbers: number of reports in each release, (R,); the missing respondents are the same in
            all, and a random part.
        weights: of each release's unbiased estimate, by component, ``(R, *(2,) * k)``.
        keeps: factor by which randomization shrinks each component, same shape.
        noise: the noise of coins.
    """

    values: Floats
    n: int
    numbers: Floats
    weights: Floats
    keeps: Floats
    noise: tuple[AddedNoise, ...] = ()

    @property
    def scores(self) -> Floats:
        """Scores of each component of a report: the coefficients of h, shaped as ``weights``."""
        return np.divide(
            self.weights, self.keeps, out=np.zeros_like(self.weights), where=self.weights > 0
        )

    @property
    def randomized(self) -> bool:
        """True if a cell is not exact about the respondents."""
        if any(one.covariances.any() for one in self.noise):
            return True
        used = self.weights.reshape(len(self.weights), -1) > 0
        return bool((used & (self.keeps.reshape(used.shape) < 1)).any() or used[self._fewer].any())

    @property
    def _fewer(self) -> NDArray[np.bool_]:
        """Mask of the releases with fewer reports than respondents."""
        return self.numbers < self.n

    @property
    def _weights_of_fewer(self) -> Floats:
        """Sum of the weights of these releases."""
        found: Floats = self.weights[self._fewer].sum(axis=0)
        return found

    @property
    def _missing(self) -> float:
        """Variance factor for estimating from a sample of the respondents."""
        return 1 / float(self.numbers.min()) - 1 / self.n

    @property
    def _releases(self) -> Iterator[tuple[float, Floats, Floats, Floats]]:
        """Number of reports, weights, keeps and scores of each release."""
        return zip(self.numbers.tolist(), self.weights, self.keeps, self.scores, strict=True)

    def _squared_entries(self, coefficients: Floats) -> Floats:
        """Coefficients of the operators with the squares of these operators' entries."""
        sizes = self.values.shape
        return entries_to_coefficients(coefficients_to_entries(coefficients, sizes) ** 2, sizes)

    def _mean_power(self, power: int) -> Floats:
        """Mean power of a report's score for a cell, by the attributes on which they agree."""
        sizes = self.values.shape
        scores = coefficients_to_entries(self.scores, sizes)
        means = entries_to_coefficients(scores**power, sizes) * self.keeps
        return coefficients_to_entries(means, sizes)

    def variances(self) -> tuple[Floats, Floats]:
        """Estimated variances of the cells about the respondents, and their scale.

        The scale is the size of the terms that they are differences of.
        """
        squares = self._squared_entries(self.scores) * self.keeps
        means = self._squared_entries(self.weights)
        variances = applied(self._over_all(squares - means), self.values)
        scale = applied(self._over_all(squares), self.values)
        if self._fewer.any():
            mixed = self._weights_of_fewer
            left = applied(self._squared_entries(mixed), self.values)
            variances += self._missing * (left - applied(mixed, self.values) ** 2)
            scale += self._missing * left
        for one in self.noise:
            added = float(coefficients_to_entries(one.covariances, self.values.shape).flat[-1])
            variances, scale = variances + added, scale + added
        return variances, scale

    def changes_by_one(self) -> tuple[float, float]:
        """The most that one report adds to a cell's variance about the respondents, and to a cell.

        A report changes a cell by the range of its scores. The variance then changes as by that
        many respondents more in the cell, or in a part of it.
        """
        sizes = self.values.shape
        means = coefficients_to_entries(self.weights, sizes)
        variance = self._over_all(self._mean_power(2) - means**2)
        if self._fewer.any():
            left = coefficients_to_entries(self._weights_of_fewer, sizes) ** 2
            variance = variance + self._missing * left
        reach = float((self._ranges / self.numbers).max())
        return float(np.ptp(variance)) * reach, reach

    def sum_change_by_one(self, weights: Floats) -> float:
        """The most that one report adds to the variance of the mean of a weight."""
        most = 0.0
        for number, own, _, scores in self._releases:
            counted, means = applied(scores, weights), applied(own, weights)
            most = max(most, float((counted * (counted - means)).max()) / number**2)
        return most

    @property
    def _ranges(self) -> Floats:
        """The largest difference between two scores of each release, (R,)."""
        scores = coefficients_to_entries(self.scores, self.values.shape)
        found: Floats = np.ptp(scores.reshape(len(self.numbers), -1), axis=1)
        return found

    def _over_all(self, each: Floats) -> Floats:
        """The sum over the releases, each divided by its number of reports."""
        found: Floats = np.tensordot(1 / self.numbers, each, axes=1)
        return found

    def law(self) -> CumulantLaw:
        """The law of the errors of the cells.

        Cumulants are sums over the sets of attributes, of the shares of respondents who agree with
        the cell on the set. The set of all gives the slope, and the others are taken as estimated.
        """
        sizes = self.values.shape
        means = coefficients_to_entries(self.weights, sizes)
        squares, cubes = self._mean_power(2), self._mean_power(3)
        # Of one respondent: as if every release had as many reports as there are respondents.
        variance = self.n * self._over_all(squares - means**2)
        third = np.tensordot(
            (self.n / self.numbers) ** 2, cubes - 3 * squares * means + 2 * means**3, axes=1
        )
        inside, left = float(variance.flat[-1]), np.zeros(sizes)
        if self._fewer.any():
            mixed, share = self._weights_of_fewer, self.n * self._missing
            variance = variance + share * coefficients_to_entries(mixed, sizes) ** 2
            left = share * applied(mixed, self.values) ** 2
        reaches = self._ranges * self.n / self.numbers
        constant, slope = self._linear_in_share(variance)
        scores = Scores(
            variance=np.stack([constant - left, slope]),
            third=np.stack(self._linear_in_share(third)),
            inside=np.full(sizes, inside),
            step=np.full(sizes, float(reaches.max())),
        )
        every = np.full(sizes, float(reaches.sum()) / self.n)
        law = replace(scores.law(self.values, self.n), most_by_one=every)
        for one in self.noise:
            law = law.with_noise(one.of_cells)
        return law

    def _linear_in_share(self, entries: Floats) -> tuple[Floats, Floats]:
        """An average over the answers, as a constant and a multiple of the cell's share."""
        sizes = self.values.shape
        factors = margin_factors(entries_to_coefficients(entries, sizes), sizes)
        constant = np.zeros(sizes)
        for inside in np.ndindex(*factors.shape):
            if all(inside):
                continue
            others = tuple(axis for axis, one in enumerate(inside) if not one)
            shares = self.values.sum(axis=others, keepdims=True) if any(inside) else np.ones(())
            constant += factors[inside] * np.clip(shares, 0.0, 1.0)
        return constant, np.full(sizes, float(factors.flat[-1]))

    def covariance(self, about: About) -> Floats:
        """The covariances of the cells, shape (cells, cells).

        Raises:
            ValueError: too many cells.
        """
        sizes, cells = self.values.shape, self.values.size
        check_covariance(cells)
        every = np.eye(cells).reshape(*sizes, cells)
        found, fewer = np.zeros((cells, cells)), np.zeros((cells, cells))
        for number, weights, keeps, scores in self._releases:
            means = applied(weights, every).reshape(cells, cells)
            counted = applied(scores, every).reshape(cells, cells)
            reported = applied(keeps, self.values).reshape(-1)
            found += (counted.T * reported) @ counted / number
            found -= (means.T * self.values.reshape(-1)) @ means / number
            if number < self.n:
                fewer += means
        if fewer.any():
            shares = self.values.reshape(-1)
            left = (fewer.T * shares) @ fewer - np.outer(shares @ fewer, shares @ fewer)
            found += self._missing * left
        for one in self.noise:
            found += applied(one.covariances, every).reshape(cells, cells)
        return found + multinomial(self.values, self.n) if about == "population" else found

    def covariance_with(self, given: Floats) -> Floats:
        """The covariances of the cells with the mean of a weight, about the population."""
        found, fewer = np.zeros(given.shape), np.zeros(given.shape)
        for number, weights, keeps, scores in self._releases:
            means = applied(weights, given)
            reported = applied(keeps, self.values) * applied(scores, given)
            found += applied(scores, reported) / number
            found -= applied(weights, self.values * means) / number
            if number < self.n:
                fewer += means
        if self._fewer.any():
            mixed = self._weights_of_fewer
            left = applied(mixed, self.values * fewer)
            left -= applied(mixed, self.values) * float(np.sum(self.values * fewer))
            found += self._missing * left
        for one in self.noise:
            found += applied(one.covariances, given)
        sampled = self.values * (given - float(np.sum(self.values * given)))
        return found + sampled / self.n

    def sum_variance(self, given: Floats, shares: Floats | None = None) -> tuple[float, float]:
        """The variance of the mean of a weight about the respondents, and its scale.

        Args:
            given: the weights.
            shares: of the answers; the estimated ones if None.
        """
        shares = self.values if shares is None else shares
        variance = scale = 0.0
        fewer = np.zeros(given.shape)
        for number, weights, keeps, scores in self._releases:
            reported = float(np.sum(applied(keeps, shares) * applied(scores, given) ** 2))
            means = applied(weights, given)
            variance += (reported - float(np.sum(shares * means**2))) / number
            scale += reported / number
            if number < self.n:
                fewer += means
        if fewer.any():
            left = float(np.sum(shares * fewer**2))
            variance += self._missing * (left - float(np.sum(shares * fewer)) ** 2)
            scale += self._missing * left
        for one in self.noise:
            added = float(one.of_mean(given).variance[0])
            variance, scale = variance + added, scale + added
        return variance, scale

    def set_law(self, inside: NDArray[np.bool_]) -> CumulantLaw | None:
        """The law of the share of a set of cells: of exact counts, binomial about a population."""
        if self.randomized:
            return None
        return CumulantLaw.of_counts(self.values[inside].sum(), self.n, other=0.0, gain=1.0)

    def sum_law(self, given: Floats) -> CumulantLaw:
        """The law of the mean of a weight, by cumulants.

        The shares are taken to be the estimated ones without negative parts. The variance changes
        with the truth as if the answers were tilted exponentially.
        """
        shares = np.maximum(self.values, 0.0)
        shares /= shares.sum()
        mean, value = float(np.sum(shares * given)), float(np.sum(self.values * given))
        least, most = float(given.min()), float(given.max())
        variance = self.n * self.sum_variance(given, shares)[0]
        spread = float(np.sum(shares * (given - mean) ** 2))
        third, together, step = self._sum_third(given - mean, shares)
        sampled = float(np.sum(shares * (given - mean) ** 3))
        laws: dict[About, tuple[float, float]] = {
            "respondents": (variance, third),
            "population": (variance + spread, third + 3 * together + sampled),
        }
        cumulants: dict[About, Cumulants] = {}
        more = float(one_report_more(step, self.n))
        both, skewed = laws["population"]
        both += more
        slope = skewed / both if both > 0 else 0.0
        wider = inflation(both, self._doubt(given - mean, slope, shares) + more**2)
        for about, (width, cube) in laws.items():
            width += more
            at_mean = [width, slope, -1.0]
            if about == "respondents":
                # Without the variance of the weights, (most - t) (t - least) and a constant.
                at_mean = [width, slope - (most + least - 2 * mean), 0.0]
            cumulants[about] = Cumulants(
                wider * _moved(at_mean, mean) / self.n, np.array([cube, 0.0, 0.0, 0.0]) / self.n**2
            )
        if not self.randomized:
            cumulants["respondents"] = Cumulants(np.zeros(3), np.zeros(4))
        return CumulantLaw(
            values=np.asarray(value),
            cumulants=cumulants,
            steps=np.asarray(step / self.n),
            least=least,
            most=most,
        )

    def _doubt(self, given: Floats, slope: float, shares: Floats) -> float:
        """Squared error of the estimated variance of one respondent's scores.

        The variance is a mean over the respondents. Its part that is linear in the weight is in the
        law already, and is not counted here.

        Args:
            given: centred weights.
            slope: the slope of the linear part.
            shares: the shares of the answers.
        """
        squares = given**2 - slope * given
        for number, weights, keeps, scores in self._releases:
            own = applied(keeps, applied(scores, given) ** 2) - applied(weights, given) ** 2
            squares = squares + self.n / number * own
        squares -= float(np.sum(shares * squares))
        return self.sum_variance(squares, shares)[0] + float(np.sum(shares * squares**2)) / self.n

    def _sum_third(self, given: Floats, shares: Floats) -> tuple[float, float, float]:
        """Third moment of one respondent's scores, by centred weights.

        Returns:
            Their third cumulant given the answers, the covariance of their variance with the
            weight, and the largest difference between two scores.
        """
        third = together = step = 0.0
        for number, weights, keeps, scores in self._releases:
            counted, means = applied(scores, given), applied(weights, given)
            squares, cubes = applied(keeps, counted**2), applied(keeps, counted**3)
            each = self.n / number
            third += each**2 * float(np.sum(shares * (cubes - 3 * squares * means + 2 * means**3)))
            together += each * float(np.sum(shares * (squares - means**2) * given))
            step = max(step, each * float(np.ptp(counted)))
        for one in self.noise:
            third += self.n**2 * float(one.of_mean(given).third[0])
        return third, together, step


def _moved(factors: Sequence[float], center: float) -> Floats:
    """Coefficients of a polynomial of degree 2 after a shift of t."""
    constant, slope, square = factors
    return np.array(
        [constant - slope * center + square * center**2, slope - 2 * square * center, square]
    )
