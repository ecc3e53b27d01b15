"""What reports say about two attributes, as far as their dependence goes.

With pi the joint shares of two attributes, their excess is ``d = pi - margin * margin``: 0 where
they are independent. Whatever randomized them, an estimate of it is to first order the mean over
the reports y of ``u(y)[a] v(y)[b]`` and a constant: a product, since what randomizes each attribute
by itself is one, and what keeps a pair or draws a fake one becomes one by centring at the margins.
So covariances of whole tables, with (r c)**2 entries, are never made: all that follows from them is
sums over a table of reports and r x r and c x c matrices.
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
        errors: what each report adds to the error of the margin, shape (..., R, r), mean 0.
        contrast: its factor of what a report adds to the excess: u or v, shape (..., R, r).
    """

    margin: Floats
    errors: Floats
    contrast: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PairReports:
    """The reports on two attributes, and what each of them says.

    Leading axes, if there are any, are runs of the same design.

    Attributes:
        n: how many reports there are.
        shares: of the reports, shape (..., R_1, R_2); of estimated answers they may be negative.
        sides: the two attributes.
        excess: the estimated d, shape (..., r_1, r_2).
        null: the law that the reports would have without dependence: a mixture of laws by which the
            two parts of a report are independent, each with its weight, (..., R_1) and (..., R_2).
        design: what other shares of so many reports, randomized alike, would say.
    """

    n: int
    shares: Floats
    sides: tuple[Side, Side]
    excess: Floats
    null: tuple[tuple[float, Floats, Floats], ...]
    design: Callable[[Floats, int], PairReports]

    @classmethod
    def apart(cls, shares: Floats, n: int, first: Floats, second: Floats) -> PairReports:
        """Of attributes that were randomized each by itself.

        Args:
            shares: of the reports, shape (..., R_1, R_2).
            n: how many there are.
            first, second: the inverse Q of what randomized each attribute, shape (R, r).
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
        """Of pairs that were kept or else replaced by a fake pair.

        The law of the fakes enters the null law by its margins.

        Args:
            shares: of the reports, shape (..., r_1, r_2).
            n: how many there are.
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
    def exact(cls, shares: Floats, n: int) -> PairReports:
        """Of answers that were not randomized, or are estimated to have these shares."""
        made = cls.apart(shares, n, np.eye(shares.shape[-2]), np.eye(shares.shape[-1]))
        first, second = (proper(side.margin) for side in made.sides)
        return replace(made, null=((1.0, first, second),), design=cls.exact)

    def redone(self, shares: Floats) -> PairReports:
        """What other shares of as many reports would say, shape (..., R_1, R_2)."""
        return self.design(shares, self.n)

    @property
    def independent(self) -> Floats:
        """The shares that reports would have without dependence, shape (..., R_1, R_2)."""
        parts = [weight * outer(first, second) for weight, first, second in self.null]
        found: Floats = np.sum(parts, axis=0)
        return found

    @property
    def answers(self) -> PairReports:
        """As many answers with the estimated shares, not randomized.

        What they vary by is the sampling of the respondents; the rest is randomization.
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


def proper(shares: Floats) -> Floats:
    """Negative shares to 0, the rest to a total of 1, along the last axis."""
    cut = np.maximum(shares, 0.0)
    found: Floats = cut / cut.sum(axis=-1, keepdims=True)
    return found
