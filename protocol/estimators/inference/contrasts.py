"""Contrasts of the cells of one table, and tests of hypotheses about a share.

Cells of one table are estimated from the same reports, so their errors are correlated. A contrast
takes the covariance of the whole table: the noise of randomization, and about a population that of
sampling. Errors are taken to be normal. Their variance is that of the estimate, plus that of one
report more for each number compared, as few reports estimate a variance badly (Bonett and Price,
Adjusted Wald Confidence Interval for a Difference of Binomial Proportions Based on Paired Data,
Journal of Educational and Behavioral Statistics 37, 2012).
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.estimators.inference.laws import LEVEL, About, NormalLaw, critical
from protocol.estimators.tables import Estimated, Table
from protocol.randomizers.exact import Floats

# Exact shares that differ by no more are the same but for rounding.
_ROUNDING = 1e-12

_HALVINGS = 40
_LARGEST_Z = 8.0
"""Beyond it a level is 1 to the last digit: p-values are at least 1.3e-15."""


class Contrast(NamedTuple):
    """A comparison of two shares; NaN where it is unknown.

    Attributes:
        value: the estimate.
        low, high: the ends of its interval.
        p_value: the two-sided p-value of equal shares or, for an odds ratio, of independence in
            these cells. For exact shares it is 0 or 1.
    """

    value: float
    low: float
    high: float
    p_value: float


def difference(
    table: Table,
    first: ArrayLike,
    second: ArrayLike,
    *,
    level: float = LEVEL,
    about: About = "respondents",
) -> Contrast:
    """Difference of the shares of two sets of cells.

    Args:
        table: raw.
        first, second: masks of the sets of cells, of the table's shape; other weights are allowed.
        level: of the interval.
        about: whose shares.

    Raises:
        ValueError: a projected table, weights of another shape, a level out of range, an unknown
            ``about``, or a table without a known covariance.
    """
    one, two, [[v, c], [_, w]] = _pair(table, first, second, about)
    error, weights = _contrast_error(v - 2 * c + w, v + w), np.subtract(first, second)
    law = NormalLaw.of_errors(
        one - two, error, error, least=float(weights.min()), most=float(weights.max())
    )
    low, high = law.interval(level, about)
    return Contrast(one - two, float(low), float(high), _two_sided(one - two, error))


def ratio(
    table: Table,
    first: ArrayLike,
    second: ArrayLike,
    *,
    level: float = LEVEL,
    about: About = "respondents",
) -> Contrast:
    """Ratio of the share of one set of cells to that of another.

    The interval holds every ratio r of at least 0 for which ``first - r second`` may be 0 (Fieller,
    Some Problems in Interval Estimation, JRSS B 16, 1954). Where the second share may be 0 it has
    no upper end.

    Args:
        table, first, second, level, about: as ``difference``.

    Raises:
        ValueError: as ``difference``.
    """
    one, two, [[v, c], [_, w]] = _pair(table, first, second, about)
    return _quotient(one, two, (v, c, w), level)


def odds_ratio(
    table: Table,
    first: tuple[int, int],
    second: tuple[int, int],
    *,
    level: float = LEVEL,
    about: About = "respondents",
) -> Contrast:
    """The odds ratio of two categories of each of two attributes.

    ``pi_ac pi_bd / (pi_ad pi_bc)`` for the first attribute's categories a and b and the second's c
    and d. It is the ratio of two products, and its interval is that of ``ratio``, with their
    covariance, which holds the table's whole covariance and terms of second order. So it holds also
    where a share cannot be distinguished from 0. The estimate is unknown unless all four shares are
    positive, and the interval where that of one of them is from 0 to 1. All is unknown where the
    variances of some shares, but not of all, are estimated as 0.

    Args:
        table: raw, of two attributes.
        first: the codes of a and b.
        second: the codes of c and d.
        level, about: as ``difference``.

    Raises:
        ValueError: a table of another number of attributes, or as ``difference``.
    """
    if table.values.ndim != 2:
        raise ValueError(f"a table of {table.values.ndim} attributes: expected 2")
    (a, b), (c, d) = first, second
    cells = np.array([(a, c), (b, d), (a, d), (b, c)]).T
    shares = _raw(table)[tuple(cells)]
    places = np.ravel_multi_index(tuple(cells), table.values.shape)
    covariance = table.covariance(about)[np.ix_(places, places)]
    covariance += np.diag(table.reach(about)[tuple(cells)] ** 2)
    own = covariance.diagonal()
    if (own > 0).any() and not (own > 0).all():
        return Contrast(math.nan, math.nan, math.nan, math.nan)
    # The products' slopes, and the second-order terms of their covariance.
    slopes = np.array([[shares[1], shares[0], 0, 0], [0, 0, shares[3], shares[2]]])
    found = slopes @ covariance @ slopes.T
    found[0, 0] += covariance[0, 0] * covariance[1, 1] + covariance[0, 1] ** 2
    found[1, 1] += covariance[2, 2] * covariance[3, 3] + covariance[2, 3] ** 2
    both = covariance[0, 2] * covariance[1, 3] + covariance[0, 3] * covariance[1, 2]
    one = float(shares[0] * shares[1] - covariance[0, 1])
    two = float(shares[2] * shares[3] - covariance[2, 3])
    parts = (float(found[0, 0]), float(found[0, 1] + both), float(found[1, 1]))
    quotient = _quotient(one, two, parts, level)
    known = bool((shares > 0).all())
    value = float(shares[0] * shares[1] / (shares[2] * shares[3])) if known else math.nan
    ends = table.interval(level, about)
    if ((ends.low[tuple(cells)] <= 0) & (ends.high[tuple(cells)] >= 1)).any():
        return Contrast(value, math.nan, math.nan, quotient.p_value)
    return quotient._replace(value=value)


def p_value(found: Estimated, truth: float, *, about: About = "respondents") -> float:
    """The two-sided p-value of the hypothesis that the true number is this.

    It is 1 less the level of the narrowest interval that contains the hypothesis, so tests and
    intervals agree. NaN if the interval is unknown; at least 1.3e-15.

    Args:
        found: the answer to a query or a count; of a cell, the query that is 1 there.
        truth: within the range of the number.
        about: the subject of the number.

    Raises:
        ValueError: an unknown ``about``.
    """
    if math.isnan(found.interval(0.5, about).low):
        return math.nan
    inner, outer = 0.0, _LARGEST_Z
    for _ in range(_HALVINGS):
        middle = (inner + outer) / 2
        low, high = found.interval(math.erf(middle / math.sqrt(2)), about)
        inner, outer = (inner, middle) if low <= truth <= high else (middle, outer)
    return math.erfc(outer / math.sqrt(2))


def _pair(
    table: Table, first: ArrayLike, second: ArrayLike, about: About
) -> tuple[float, float, list[list[float]]]:
    """Two sums of cells, and their covariance matrix."""
    shape = table.values.shape
    weights: list[Floats] = []
    for given in (first, second):
        one = np.asarray(given, np.float64)
        if one.shape != shape:
            raise ValueError(f"weights of shape {one.shape}, expected {shape}")
        weights.append(one.reshape(-1))
    rows = np.stack(weights)
    one, two = (rows @ _raw(table).reshape(-1)).tolist()
    covariance: NDArray[np.float64] = rows @ table.covariance(about) @ rows.T
    most = (np.abs(rows) * table.reach(about).reshape(-1)).max(axis=1)
    covariance += np.diag(most**2)
    return one, two, covariance.tolist()


def _quotient(
    one: float, two: float, covariance: tuple[float, float, float], level: float
) -> Contrast:
    """Interval of a quotient, at least 0: the r for which ``one - r two`` may be 0.

    Args:
        one, two: the estimates.
        covariance: the variance of the first, the covariance, and the variance of the second.
        level: the level of the interval.
    """
    v, c, w = covariance
    z, error = critical(level), _contrast_error(v - 2 * c + w, v + w)
    a, b, constant = two**2 - z**2 * w, one * two - z**2 * c, one**2 - z**2 * v
    inside = b**2 - a * constant
    value = one / two if two else math.nan
    if not math.isfinite(error):
        low = high = math.nan
    elif error == 0:
        low = high = value
    elif inside <= 0:
        low, high = 0.0, math.inf
    else:
        ends = sorted((b + sign * math.sqrt(inside)) / a if a else math.inf for sign in (-1, 1))
        if a > 0:
            low, high = max(ends[0], 0.0), max(ends[1], 0.0)
        else:
            low, high = (ends[1] if ends[0] < 0 <= ends[1] else 0.0), math.inf
    return Contrast(value, low, high, _two_sided(one - two, error))


def _raw(table: Table) -> Floats:
    if table.projection != "none":
        raise ValueError(f"a table projected by {table.projection!r}: expected the raw table")
    return table.values


def _contrast_error(variance: float, parts: float) -> float:
    """The standard error; unknown if the estimated variance is not positive.

    Args:
        variance: the variance of the contrast.
        parts: the sum of the variances of its parts; 0 if these are exact.
    """
    if parts == 0:
        return 0.0
    return math.sqrt(variance) if variance > 0 else math.nan


def _two_sided(value: float, error: float) -> float:
    if error == 0:
        return 0.0 if abs(value) > _ROUNDING else 1.0
    return 2 * NormalDist().cdf(-abs(value / error)) if math.isfinite(error) else math.nan
