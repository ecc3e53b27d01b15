"""Reports on two attributes, for tests and measures of their dependence.

With pi the joint shares of two attributes, their excess is ``d = pi - margin * margin``: 0 where
they are independent. To first order an estimate of it is a constant plus the mean over the reports
y of ``u(y)[a] v(y)[b]``. This is a product for attributes that were randomized apart. For pairs
that were kept or replaced by a fake pair it becomes one by centring at the margins. So covariances
of whole tables, with (r c)**2 entries, are never made: sums over a table of reports, and r x r and
c x c matrices, are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from protocol.randomizers.exact import Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Side:
    """One of the two attributes, of r categories, with R different reports on it.

    Attributes:
        margin: the estimated shares of its categories, raw and signed, shape (..., r).
        errors: each report's part of the error of the margin, shape (..., R, r), mean 0.
        contrast: this side's factor of each report's part of the excess: u or v, shape (..., R, r).
    """

    margin: Floats
    errors: Floats
    contrast: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PairReports:
    """The reports on two attributes, and each one's part of the estimates.

    Leading axes, if there are any, are runs of the same design.

    Attributes:
        n: the number of reports.
        shares: of the reports, shape (..., R_1, R_2); of estimated answers they may be negative.
        sides: the two attributes.
        excess: the estimated d, shape (..., r_1, r_2).
        null: the law that the reports would have without dependence: a mixture of laws by which the
            two parts of a report are independent, each with its weight, (..., R_1) and (..., R_2).
        design: makes reports with other shares, randomized alike.
        noise: the covariance of noise that was added to the shares, by component
            (``releases.components``), shape (2, 2); None without such noise.
    """

    n: int
    shares: Floats
    sides: tuple[Side, Side]
    excess: Floats
    null: tuple[tuple[float, Floats, Floats], ...]
    design: Callable[[Floats, int], PairReports]
    noise: Floats | None = None

    @classmethod
    def apart(cls, shares: Floats, n: int, first: Floats, second: Floats) -> PairReports:
        """Reports on attributes that were randomized one by one.

        Args:
            shares: of the reports, shape (..., R_1, R_2).
            n: their number.
            first, second: the inverse Q of each attribute's randomization, shape (R, r).
        """
        laws = shares.sum(axis=-1), shares.sum(axis=-2)
        sides = []
        for law, inverse in zip(laws, (first, second), strict=True):
            margin = law @ inverse
            errors = inverse - margin[..., None, :]
            sides.append(Side(margin=margin, errors=errors, contrast=errors))
        excess = turned(sides[0].contrast) @ shares @ sides[1].contrast
        return cls(
            n=n,
            shares=shares,
            sides=(sides[0], sides[1]),
            excess=excess,
            null=((1.0, *laws),),
            design=partial(cls.apart, first=first, second=second),
        )

    @classmethod
    def together(cls, shares: Floats, n: int, *, keep: float, fakes: Floats) -> PairReports:
        """Reports on pairs that were kept or else replaced by a fake pair.

        The law of the fakes enters the null law by its margins.

        Args:
            shares: of the reports, shape (..., r_1, r_2).
            n: their number.
            keep: the probability of keeping.
            fakes: the probability of each fake pair, shape (r_1, r_2), total 1.
        """
        table = (shares - (1 - keep) * fakes) / keep
        sides: list[Side] = []
        kept: list[Floats] = []
        faked: list[Floats] = []
        for axis in (-1, -2):
            law, fake, margin = (array.sum(axis=axis) for array in (shares, fakes, table))
            whole = np.eye(len(fake))
            # Both contrasts together are divided by the keep probability once.
            contrast = (whole - margin[..., None, :]) / (keep if sides else 1.0)
            errors = (whole - law[..., None, :]) / keep
            sides.append(Side(margin=margin, errors=errors, contrast=contrast))
            kept.append(proper(margin))
            faked.append(fake)
        return cls(
            n=n,
            shares=shares,
            sides=(sides[0], sides[1]),
            excess=table - outer(sides[0].margin, sides[1].margin),
            null=((keep, kept[0], kept[1]), (1 - keep, faked[0], faked[1])),
            design=partial(cls.together, keep=keep, fakes=fakes),
        )

    @classmethod
    def exact(cls, shares: Floats, n: int, *, noise: Floats | None = None) -> PairReports:
        """Unrandomized answers, or estimates of their shares.

        Args:
            shares: of the answers, with noise if there is any, shape (..., r_1, r_2).
            n: their number.
            noise: as the attribute.
        """
        made = cls.apart(shares, n, np.eye(shares.shape[-2]), np.eye(shares.shape[-1]))
        first, second = (proper(side.margin) for side in made.sides)
        return replace(
            made,
            null=((1.0, first, second),),
            design=partial(cls.exact, noise=noise),
            noise=noise,
        )

    def redone(self, shares: Floats) -> PairReports:
        """Reports of as many respondents with other shares, shape (..., R_1, R_2)."""
        return self.design(shares, self.n)

    @property
    def independent(self) -> Floats:
        """The shares that reports would have without dependence, shape (..., R_1, R_2)."""
        parts = [weight * outer(first, second) for weight, first, second in self.null]
        found: Floats = np.sum(parts, axis=0)
        return found

    @property
    def added(self) -> list[tuple[float, Floats, Floats]]:
        """The covariance that the noise adds to the excess, as a sum of Kronecker products.

        Each has a weight and two matrices, of shapes (..., r_1, r_1) and (..., r_2, r_2).
        """
        if self.noise is None:
            return []
        sides = []
        for side in self.sides:
            size = side.contrast.shape[-2]
            mean = np.full((size, size), 1 / size)
            of_parts = (mean, np.eye(size) - mean)
            sides.append([turned(side.contrast) @ part @ side.contrast for part in of_parts])
        return [
            (float(self.noise[i, j]), sides[0][i], sides[1][j])
            for i, j in np.ndindex(2, 2)
            if self.noise[i, j]
        ]

    @property
    def excess_variances(self) -> Floats:
        """The variances of the estimated d about a population, shape (..., r_1, r_2)."""
        one, other = (side.contrast for side in self.sides)
        squares = turned(one**2) @ self.shares @ other**2
        found: Floats = np.maximum(squares - self.excess**2, 0.0) / self.n
        for weight, first, second in self.added:
            found = found + weight * outer(diagonal(first), diagonal(second))
        return found

    def margin_noise(self, place: int) -> float:
        """The variance of the noise in each share of the margin of one attribute."""
        if self.noise is None:
            return 0.0
        own, other = self.shares.shape[-2 + place], self.shares.shape[-1 - place]
        return float(self.noise[1 - place, place]) * float(other) * (1 - 1 / float(own))

    def score_noise(self, scores: Floats) -> Floats:
        """The variance of the noise in the mean score of the reports, shape (...).

        Args:
            scores: of the reports, shape (..., R_1, R_2).
        """
        if self.noise is None:
            return np.zeros(scores.shape[:-2])
        # Imported late: most reports have nothing added.
        from protocol.estimators.releases.components import applied

        found: Floats = (applied(self.noise, scores, scores.ndim - 2) * scores).sum(axis=(-1, -2))
        return found

    @property
    def answers(self) -> PairReports:
        """Unrandomized answers of as many respondents with the estimated shares.

        Their variance is that of sampling alone.
        """
        first, second = self.sides
        return PairReports.exact(self.excess + outer(first.margin, second.margin), self.n)


def turned(matrix: Floats) -> Floats:
    """The transpose of the last two axes."""
    return np.swapaxes(matrix, -1, -2)


def outer(first: Floats, second: Floats) -> Floats:
    """The products of all pairs of entries of the last axes."""
    found: Floats = first[..., :, None] * second[..., None, :]
    return found


def diagonal(matrix: Floats) -> Floats:
    """The diagonal of the last two axes."""
    return np.diagonal(matrix, axis1=-2, axis2=-1)


def proper(shares: Floats) -> Floats:
    """Negative shares to 0, the rest to a total of 1, along the last axis."""
    cut = np.maximum(shares, 0.0)
    found: Floats = cut / cut.sum(axis=-1, keepdims=True)
    return found
