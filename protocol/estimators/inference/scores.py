"""Estimates that are means of scores, one score for each respondent's report.

The score of a cell is unbiased: given the answers its mean is 1 in the cell and 0 outside. Its
other moments depend on the randomizers. Where attributes were randomized apart, they also depend on
the number of respondents in a part of the cell, such as in the first attribute's category alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.estimators.inference.cumulants import CumulantLaw, Cumulants
from protocol.estimators.inference.laws import SIDES, About, DeferredLaw, ErrorLaw
from protocol.randomizers.exact import Floats
from protocol.randomizers.unmixing import Moments

MOST_COVARIANCE_CELLS = 2048
"""The most cells of a table for a covariance matrix."""

_MOST_DOUBT = 0.9
"""The most that the squared error of a variance counts as, in its own square."""


def check_covariance(cells: int) -> None:
    """Refuse a covariance matrix of more than ``MOST_COVARIANCE_CELLS`` cells.

    Raises:
        ValueError: there are more.
    """
    if cells > MOST_COVARIANCE_CELLS:
        raise ValueError(
            f"a covariance matrix of {cells:,} cells: expected at most {MOST_COVARIANCE_CELLS:,}"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Scores:
    """Scores that one respondent adds to the cumulants of the estimated shares of some cells.

    Each array has the cells' shape, but for the first axis of the first two.

    Attributes:
        variance: of a score given the answer, averaged over the respondents: a constant and the
            factor of the share of the cell, shape (2, ...).
        third: the same of the third cumulant.
        inside: the variance given an answer in the cell.
        step: the largest difference between two scores.
    """

    variance: Floats
    third: Floats
    inside: Floats
    step: Floats

    @classmethod
    def of_product(
        cls, blocks: Sequence[Moments], shares: Callable[[Sequence[int]], Floats]
    ) -> Scores:
        """The product of independent scores, one for each block of attributes.

        A mean square or cube of the product is a sum over the sets of blocks: the shares of
        respondents in the cell on these blocks, times the gains of these and the means outside of
        the others. The set of all blocks gives the slope, the others the constant.

        Args:
            blocks: arrays with one axis for each block, of length 1 for the others'.
            shares: of the respondents in the cell on some blocks, by their places, at least 0 and
                at most 1, with axes likewise.
        """
        places = range(len(blocks))
        constants, slopes = [], []
        for power in (2, 3):
            outside = [block.outside[power - 2] for block in blocks]
            gains = [block.inside[power - 2] - block.outside[power - 2] for block in blocks]
            constant = np.zeros(())
            for number in range(len(blocks)):
                for some in combinations(places, number):
                    factors = [gains[at] if at in some else outside[at] for at in places]
                    constant = constant + product([shares(some), *factors])
            constants.append(constant)
            slopes.append(product(gains))
        squares = product([block.inside[0] for block in blocks])
        least, most = ends_of_product([(block.least, block.most) for block in blocks])
        return cls(
            variance=np.stack(np.broadcast_arrays(constants[0], slopes[0] - 1)),
            third=np.stack(np.broadcast_arrays(constants[1], slopes[1] - 3 * squares + 2)),
            inside=squares - 1,
            step=most - least,
        )

    def mapped(self, arranged: Callable[[Floats], Floats]) -> Scores:
        """Scores with every array of cells in another arrangement."""
        return Scores(
            variance=np.stack([arranged(part) for part in self.variance]),
            third=np.stack([arranged(part) for part in self.third]),
            inside=arranged(self.inside),
            step=arranged(self.step),
        )

    def cumulants(self, n: int, about: About) -> Cumulants:
        """Cumulants of the mean over n respondents, as polynomials of the share of the cell, t.

        Whether a respondent of a sample is in the cell has the cumulants t (1-t) and
        t (1-t) (1-2t), and those in the cell have another variance than the rest.
        """
        constant, slope = self.variance
        base, rise = self.third
        none = np.zeros_like(constant + base)
        if about == "respondents":
            variance, third = (constant, slope, none), (base, rise, none, none)
        else:
            more = 3 * (self.inside - constant)
            variance = (constant, slope + 1, none - 1)
            third = (base, rise + more + 1, none - 3 * slope - 3, none + 2)
        return Cumulants(
            np.stack(np.broadcast_arrays(*variance)) / n,
            np.stack(np.broadcast_arrays(*third)) / n**2,
        )

    def law(self, values: Floats, n: int) -> CumulantLaw:
        """The law of the estimates that are the means over n respondents."""
        return CumulantLaw(
            values=values,
            cumulants={about: self.cumulants(n, about) for about in SIDES},
            steps=np.broadcast_to(self.step / n, values.shape),
        )


def two_valued(weights: Floats) -> list[tuple[NDArray[np.bool_], float, float]] | None:
    """Split weights that take two values: a set or the rest, a factor and an offset.

    The mean weight is the share of the set times the factor, plus the offset. None if there are
    more values, or only one.
    """
    least, most = float(weights.min()), float(weights.max())
    if least == most or not ((weights == least) | (weights == most)).all():
        return None
    return [(weights == most, most - least, least), (weights == least, least - most, most)]


def law_of_mean(
    weights: Floats,
    of_set: Callable[[NDArray[np.bool_]], ErrorLaw | None],
    of_mean: Callable[[Floats], ErrorLaw],
) -> DeferredLaw:
    """The law of a mean, worked out when it is needed.

    Args:
        weights: of the cells, not all the same.
        of_set: the law of the share of a set of cells; None if it is no better than that of means.
        of_mean: the law of the mean of any weights.
    """

    def made() -> ErrorLaw:
        for inside, factor, offset in two_valued(weights) or []:
            law = of_set(inside)
            if law is not None:
                return law.times(factor, offset)
        return of_mean(weights)

    return DeferredLaw(made)


def weighted_law(
    value: float,
    scores: Floats,
    shares: Floats,
    n: int,
    *,
    squares: float,
    least: float,
    most: float,
    seen: int | None = None,
) -> CumulantLaw:
    """The law of the mean of a weight that takes more than two values.

    The mean square of the scores as a function of the mean is not known without all shares. It is
    taken to be the line through the likely scores, which is exact where scores are two-valued
    (exponential tilting has this slope: Davison and Hinkley, Bootstrap Methods and their
    Application, 1997, section 5.4). The third cumulant is that of the likely scores.

    The variance is itself estimated, badly from few reports. It is that with one report more, half
    of it at each end of the scores, times ``inflation``.

    Args:
        value: the estimate.
        scores: unbiased for the weight of the answer, one for each possible report.
        shares: the likely shares of the reports; a distribution.
        n: the number of reports.
        squares: the mean square of the weight of the answers that give them.
        least, most: the ends of the weights.
        seen: the number of reports that the shares follow from; n if None.
    """
    seen = seen or n
    mean = float(np.sum(shares * scores))
    width = float(np.ptp(scores))
    more = float(one_report_more(width, seen))
    spread = float(np.sum(shares * (scores - mean) ** 2)) + more
    cube = float(np.sum(shares * (scores - mean) ** 3))
    fourth = float(np.sum(shares * (scores - mean) ** 4))
    known: dict[About, Cumulants] = {}
    if spread > 0:
        # Only the part of the spread of the squares that the line in the mean does not explain.
        wider = inflation(spread, (fourth - cube**2 / spread - spread**2) / seen + more**2)
        slope = 2 * mean + cube / spread
        constant = spread + mean**2 - slope * mean
        # E w**2 is (least + most) t - least most, less the mean of a product that is not negative.
        inner = (least + most) * mean - least * most - squares
        inner = least * most + min(max(inner, 0.0), (most - least) ** 2 / 4)
        third = np.array([cube, 0.0, 0.0, 0.0]) / n**2
        given = np.array([constant + inner, slope - least - most, 0.0]) / n
        sampled = np.array([constant, slope, -1.0]) / n
        known["respondents"] = Cumulants(wider * given, third)
        known["population"] = Cumulants(wider * sampled, third)
    return CumulantLaw(
        values=np.asarray(value),
        cumulants=known,
        steps=np.asarray(width / n),
        least=least,
        most=most,
    )


def one_report_more(width: float, n: ArrayLike) -> Floats:
    """Variance that one report more adds to n scores, half of it at each of their ends.

    Args:
        width: from the least score to the largest.
        n: the number of reports.
    """
    found: Floats = width**2 / 4 / np.asarray(n, np.float64)
    return found


def inflation(variance: float, squared_error: float) -> float:
    """Factor that allows for a variance being estimated.

    An estimate with a squared error of ``e`` times its square is as good as that of a normal sample
    with ``f = 2 / e`` degrees of freedom (Satterthwaite, An Approximate Distribution of Estimates
    of Variance Components, Biometrics Bulletin 2, 1946), and Student's distribution has the
    variance ``f / (f - 2) = 1 / (1 - e)``.

    Args:
        variance: the estimate.
        squared_error: its expected squared error.
    """
    if variance <= 0:
        return 1.0
    return 1 / (1 - min(max(squared_error, 0.0) / variance**2, _MOST_DOUBT))


def multinomial(shares: Floats, n: int) -> Floats:
    """The covariances of the shares of n respondents of a population, shape (cells, cells)."""
    flat = shares.reshape(-1)
    found: Floats = (np.diag(flat) - np.outer(flat, flat)) / n
    return found


def ends_of_product(blocks: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """The least and the largest product of scores, of those of each block."""
    least, most = np.ones(()), np.ones(())
    for block in blocks:
        ends = np.stack(
            np.broadcast_arrays(*(one * other for one in (least, most) for other in block))
        )
        least, most = ends.min(axis=0), ends.max(axis=0)
    return least, most


def product(factors: Sequence[Floats]) -> Floats:
    """The product of arrays that are spread over each other."""
    found = np.ones(())
    for factor in factors:
        found = found * factor
    return found
