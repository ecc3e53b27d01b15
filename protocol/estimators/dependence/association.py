"""Tests of independence for exact, randomized and noisy tables.

RRBA (Randomized Response Block Aggregation), section 6, as corrected. The hypothesis H0 is that all
attributes of a table are independent of each other (mutually, where there are more than two). The
last ``ways`` axes are one table and the axes before count tables; by default all are one table.

Reports on attributes that were randomized *independently of each other* are independent exactly
where the answers are, so ``exact_test`` of the table of reports is right. The tests of randomized
tables here are for one report on the whole combination: kept with probability p, else drawn from a
public table T of fakes over all cells. The law of a report is ``lambda = p pi + (1-p) T`` with pi
the law of the answers.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.estimators.measures import shares, table_axes
from protocol.estimators.projection import project_rows
from protocol.randomizers.exact import Floats

FEW = 5.0
"""The smallest count that is tested: by rule of thumb, a table with less in any cell accepts H0."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TestResult:
    """Result of a test of independence, for one table or for many.

    Attributes:
        test: its name.
        statistic: shape of the axes that count tables, () for one table; large if H0 is unlikely.
        degrees: of freedom of its chi-squared law, same shape; None where the law was simulated.
        p_value: the probability of no smaller a statistic under H0, same shape.
    """

    __test__ = False  # pytest would collect it by its name.

    test: str
    statistic: Floats
    degrees: NDArray[np.int64] | None
    p_value: Floats

    def rejects(self, level: float = 0.05) -> NDArray[np.bool_]:
        """Check whether H0 is rejected at this level, for every table."""
        return np.asarray(self.p_value <= level)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TwoStep:
    """The two-step estimate of a noisy table under H0.

    Attributes:
        nearest: the first step: counts of at least 0 with the table's total.
        expected: the second step: the counts expected from these under H0.
        sparse: for every table, whether a count of either step is below ``FEW``.
    """

    nearest: Floats
    expected: Floats
    sparse: NDArray[np.bool_]


def exact_test(counts: ArrayLike, *, ways: int | None = None) -> TestResult:
    """Pearson's chi-squared test of exact counts.

    Empty categories are dropped: with r_i left of attribute i, the statistic has
    ``prod r_i - 1 - sum (r_i - 1)`` degrees of freedom, which is (r-1)(c-1) for two attributes.

    Args:
        counts: none negative, none of the tables empty.
        ways: the number of attributes of one table, at least 2.

    Raises:
        ValueError: other counts or ways.
    """
    table, axes = _counts(counts, ways)
    n = table.sum(axis=axes, keepdims=True)
    margins = _margins(table / n, axes)
    statistic = _pearson(table, n * _product(margins)).sum(axis=axes)
    return _chi_squared("exact", statistic, _degrees([margin > 0 for margin in margins], axes))


def unmixed_counts(
    reports: ArrayLike, *, keep: float, fakes: ArrayLike | None = None, ways: int | None = None
) -> Floats:
    """The raw, signed estimate of the true counts: ``(o - n (1-p) T) / p`` (Equation 4, corrected).

    Args, errors: as ``noise_aware_test``.
    """
    table, n, drawn, _ = _reported(reports, keep, fakes, ways)
    raw: Floats = (table - n * (1 - keep) * drawn) / keep
    return raw


def noise_aware_test(
    reports: ArrayLike, *, keep: float, fakes: ArrayLike | None = None, ways: int | None = None
) -> TestResult:
    """The Wald test of H0 from randomized reports, with the exact covariance under H0.

    Let ``pi`` be the raw estimate, ``pi0`` the product of its margins and ``d = pi - pi0``, which
    H0 expects to be 0. If the respondents are drawn from a population, a report has under H0 the
    law ``L = p pi0 + (1-p) T``, so that ``Cov(pi) = (diag(L) - L L^T) / (n p**2)``. To first order
    d is the error of pi without its part along the tangents at pi0 of the set of product tables.
    The Wald statistic of d, with the generalized inverse of its covariance, is then

        ``W = n p**2 min_t sum_v (d_v - t_v)**2 / L_v``

    over these tangents t: a least squares problem of ``sum r_i`` unknowns, however many the cells.
    W is chi-squared with ``prod r_i - 1 - sum (r_i - 1)`` degrees of freedom, the number of
    contrasts. Tangents have no effect, so any margins close to the true ones will do: a raw margin
    outside the simplex is replaced by its projection with shares of at least 1/n.

    If p is 1, or T is pi0, as nearly so in the adaptive protocol, W is ``p**2 X**2`` with Pearson's
    X**2 of the raw estimate. Categories without a report and a fake are dropped.

    Args:
        reports: counts of reports, none of the tables empty; of all blocks together where T changed
            from block to block.
        keep: the probability p, above 0, at most 1.
        fakes: the table T, of the shape of one table or of all, none negative, total 1; uniform by
            default. The mean over the reports if T changed from block to block. The covariance then
            omits only the variation of T, ``(1-p)**2 Cov(T) / (n p**2)``, so the test is
            conservative.
        ways: the number of attributes of one table, at least 2.

    Raises:
        ValueError: an argument is not as described.
    """
    table, n, drawn, axes = _reported(reports, keep, fakes, ways)
    observed = table / n
    margins, possible = _null_margins(observed, n, (1 - keep) * drawn, keep, axes)
    law = keep * _product(margins) + (1 - keep) * drawn
    law = np.where(functools.reduce(operator.and_, possible), law, 0.0)
    inverse = np.divide(1.0, law, out=np.zeros_like(law), where=law > 0)
    residual = observed - law
    squares = (residual**2 * inverse).sum(axis=axes)
    explained = _explained(residual, inverse, margins, possible, axes)
    statistic = n.reshape(squares.shape) * np.maximum(squares - explained, 0.0)
    return _chi_squared("noise-aware", statistic, _degrees(possible, axes))


def wald_test(table: ArrayLike, covariance: ArrayLike) -> TestResult:
    """Wald's test of independence of two attributes, for a raw estimate with its covariance.

    With R and C the margins of the table T and s its total, ``d = s T - R C^T`` is 0 under H0. To
    first order its covariance follows from that of T. ``W = d^T Cov(d)^-1 d`` over the first r-1
    rows and c-1 columns, which determine the rest, is chi-squared with (r-1)(c-1) degrees of
    freedom. The covariance is that of the estimate, not the one under H0. For reports that are one
    draw of keep-else-table on both attributes, ``noise_aware_test`` uses the latter.

    Args:
        table: raw and signed, shape ``(..., r, c)``.
        covariance: of the cells in row-major order, shape ``(..., r c, r c)``, for respondents who
            are a random sample of a population: H0 is about the population.

    Raises:
        ValueError: an entry that is not finite, or a covariance under which d is certain in some
            direction: too few reports, or a category that nobody has.
    """
    estimate, spread = np.asarray(table, np.float64), np.asarray(covariance, np.float64)
    rows, columns = estimate.shape[-2:]
    cells = rows * columns
    if not (np.isfinite(estimate).all() and np.isfinite(spread).all()):
        raise ValueError("an entry is not finite: too few reports to estimate a covariance")
    total = estimate.sum(axis=(-2, -1))[..., None, None]
    first = estimate.sum(axis=-1, keepdims=True)
    second = estimate.sum(axis=-2, keepdims=True)
    distance = (total * estimate - first * second)[..., :-1, :-1]
    # The derivative of d[i, j] by T[a, b], with axes (..., i, j, a, b).
    same_row = np.eye(rows)[:, None, :, None]
    same_column = np.eye(columns)[None, :, None, :]
    slope = total[..., None, None] * same_row * same_column + estimate[..., :, :, None, None]
    slope = slope - same_row * second[..., 0, None, :, None, None]
    slope = slope - same_column * first[..., :, 0, None, None, None]
    freedom = (rows - 1) * (columns - 1)
    slope = slope[..., :-1, :-1, :, :].reshape(*estimate.shape[:-2], freedom, cells)
    known = slope @ spread @ np.swapaxes(slope, -1, -2)
    try:
        root = np.linalg.cholesky(known)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            "the covariance is not positive definite: too few reports, or an empty category"
        ) from error
    flat = distance.reshape(*estimate.shape[:-2], freedom, 1)
    statistic = (np.linalg.solve(root, flat) ** 2).sum(axis=(-2, -1))
    return _chi_squared("wald", statistic, np.array(freedom, np.int64))


def naive_test(noisy: ArrayLike, n: ArrayLike, *, ways: int | None = None) -> TestResult:
    """``exact_test`` of the nearest proper table, as if it had no noise: it rejects far too often.

    Args, errors: as ``two_step_estimate``; the ways are at least 2.
    """
    nearest = two_step_estimate(noisy, n, ways=ways).nearest
    return replace(exact_test(nearest, ways=ways), test="naive")


def two_step_estimate(noisy: ArrayLike, n: ArrayLike, *, ways: int | None = None) -> TwoStep:
    """The counts that H0 expects, from a noisy table (sections 6 and 7.3).

    Step 1 is Equation 7: the nearest table with a total of n and no negative count. On that set the
    elastic net has one minimum, the Euclidean projection, for every mixing parameter gamma below 1,
    so gamma is not a parameter. Step 2 is the maximum likelihood estimate under H0, n times the
    product of the shares of the margins.

    Args:
        noisy: signed counts: of ``unmixed_counts``, or counts with Laplace noise.
        n: the number of respondents, positive: one number, or one for every table.
        ways: the number of attributes of one table.

    Raises:
        ValueError: an entry that is not finite, more ways than axes, or another n.
    """
    table = np.asarray(noisy, np.float64)
    axes = table_axes(table, ways)
    totals = np.broadcast_to(np.asarray(n, np.float64), table.shape[: table.ndim - len(axes)])
    if not (np.isfinite(totals).all() and (totals > 0).all()):
        raise ValueError("numbers of respondents: expected positive finite numbers")
    totals = totals.reshape(totals.shape + (1,) * len(axes))
    flat = (table / totals).reshape(*table.shape[: table.ndim - len(axes)], -1)
    nearest = project_rows(flat).reshape(table.shape)
    expected = totals * _product(_margins(nearest, axes))
    nearest = totals * nearest
    sparse = np.minimum(nearest, expected).min(axis=axes) < FEW
    return TwoStep(nearest=nearest, expected=expected, sparse=np.asarray(sparse))


def two_step_statistic(noisy: ArrayLike, estimate: TwoStep, *, ways: int | None = None) -> Floats:
    """``sum (noisy - expected)**2 / expected`` with the estimate of the same noisy tables.

    A cell with nothing expected adds nothing. The law of this statistic depends on the noise, so it
    is simulated.

    Raises:
        ValueError: an entry that is not finite, or more ways than axes.
    """
    table = np.asarray(noisy, np.float64)
    statistic: Floats = _pearson(table, estimate.expected).sum(axis=table_axes(table, ways))
    return statistic


def drawn_fakes(shape: Sequence[int], *, keep: float, fakes: ArrayLike | None) -> Floats:
    """The table T that fakes are drawn from, uniform if none is given.

    Raises:
        ValueError: T is not a probability distribution or of another shape, or the keep probability
            is not above 0 and at most 1.
    """
    if not 0 < keep <= 1:
        raise ValueError(f"keep probability {keep}: expected more than 0, at most 1")
    if fakes is None:
        return np.full(tuple(shape), 1 / math.prod(shape))
    table = np.asarray(fakes, np.float64)
    axes = table_axes(table, len(shape))
    if table.shape[axes[0] :] != tuple(shape):
        raise ValueError(f"fakes of shape {table.shape}: expected {tuple(shape)} for one table")
    if (table < 0).any() or (np.abs(table.sum(axis=axes) - 1) > 1e-9).any():
        raise ValueError("fakes: expected a probability distribution")
    return shares(table, ways=len(axes))


def _counts(counts: ArrayLike, ways: int | None) -> tuple[Floats, tuple[int, ...]]:
    table = np.asarray(counts, np.float64)
    axes = table_axes(table, ways)
    if len(axes) < 2:
        raise ValueError(f"table of {len(axes)} axis: expected at least 2 attributes")
    if (table < 0).any() or not (table.sum(axis=axes) > 0).all():
        raise ValueError("counts: expected no negative one, and a positive total")
    return table, axes


def _reported(
    reports: ArrayLike, keep: float, fakes: ArrayLike | None, ways: int | None
) -> tuple[Floats, Floats, Floats, tuple[int, ...]]:
    """The counts of reports, their totals, the table of fakes, and the axes of one table."""
    table, axes = _counts(reports, ways)
    drawn = drawn_fakes(table.shape[axes[0] :], keep=keep, fakes=fakes)
    table, drawn = np.broadcast_arrays(table, drawn)
    return table, table.sum(axis=axes, keepdims=True), drawn, axes


def _margins(table: Floats, axes: tuple[int, ...]) -> list[Floats]:
    """The margin of every attribute, with axes of length 1 for the others."""
    return [table.sum(axis=tuple(a for a in axes if a != axis), keepdims=True) for axis in axes]


def _product(margins: Sequence[Floats]) -> Floats:
    return functools.reduce(operator.mul, margins)


def _pearson(observed: Floats, expected: Floats) -> Floats:
    """Terms of the statistic, 0 for cells with nothing expected, as in empty rows and columns."""
    squares = (observed - expected) ** 2
    return np.divide(squares, expected, out=np.zeros_like(squares), where=expected > 0)


def _null_margins(
    observed: Floats, n: Floats, faked: Floats, keep: float, axes: tuple[int, ...]
) -> tuple[list[Floats], list[NDArray[np.bool_]]]:
    """The estimated law of every attribute, and the categories that a report can have."""
    estimated, possible = [], []
    for axis, seen, fake in zip(axes, _margins(observed, axes), _margins(faked, axes), strict=True):
        can = (seen > 0) | (fake > 0)
        raw = np.moveaxis((seen - fake) / keep, axis, -1)
        nearest = np.moveaxis(project_rows(raw), -1, axis)
        # A category that can be reported has at least one respondent's share, or a report in a
        # cell without fakes could be impossible under H0.
        floored = np.where(can, np.maximum(nearest, 1 / n), 0.0)
        estimated.append(floored / floored.sum(axis=axis, keepdims=True))
        possible.append(can)
    return estimated, possible


def _explained(
    residual: Floats,
    inverse: Floats,
    margins: Sequence[Floats],
    possible: Sequence[NDArray[np.bool_]],
    axes: tuple[int, ...],
) -> Floats:
    """Part of the weighted squares of the residual explained by the best tangent.

    The tangents are ``sum_i x_i * prod_{j != i} margin_j`` with each x_i of total 0. The normal
    equations ``G x = g`` with these constraints (Lagrange) have a unique solution; the x of an
    impossible category is fixed to 0.
    """
    sizes = [residual.shape[axis] for axis in axes]
    ends = np.cumsum([0, *sizes]).tolist()
    unknowns, count = ends[-1], len(axes)
    tables = residual.shape[: residual.ndim - count]
    system = np.zeros((*tables, unknowns + count, unknowns + count))
    right = np.zeros((*tables, unknowns + count))
    others = [_product([m for j, m in enumerate(margins) if j != i]) for i in range(count)]
    weighted = residual * inverse
    for i in range(count):
        rows = slice(ends[i], ends[i + 1])
        beside = tuple(axis for axis in axes if axis != axes[i])
        can = np.broadcast_to(possible[i], (*tables, *np.shape(possible[i])[-count:]))
        can = can.reshape(*tables, sizes[i])
        right[..., rows] = np.where(can, (weighted * others[i]).sum(axis=beside), 0.0)
        diagonal = (inverse * others[i] ** 2).sum(axis=beside)
        places = np.arange(ends[i], ends[i + 1])
        system[..., places, places] = np.where(can, diagonal, 1.0)
        system[..., rows, unknowns + i] = system[..., unknowns + i, rows] = can
        for j in range(i + 1, count):
            columns = slice(ends[j], ends[j + 1])
            cross = (inverse * others[i] * others[j]).sum(
                axis=tuple(axis for axis in beside if axis != axes[j])
            )
            system[..., rows, columns] = cross
            system[..., columns, rows] = np.swapaxes(cross, -1, -2)
    solution = np.linalg.solve(system, right[..., None])[..., 0]
    explained: Floats = (solution * right).sum(axis=-1)
    return explained


def _degrees(possible: Sequence[NDArray[np.bool_]], axes: tuple[int, ...]) -> NDArray[np.int64]:
    left = [can.sum(axis=axes, dtype=np.int64) for can in possible]
    cells: NDArray[np.int64] = functools.reduce(operator.mul, left)
    return np.asarray(cells - 1 - sum(categories - 1 for categories in left), np.int64)


def _chi_squared(test: str, statistic: Floats, degrees: NDArray[np.int64]) -> TestResult:
    # Imported here: it takes longer than all of this package.
    from scipy.special import chdtrc

    degrees = np.broadcast_to(degrees, statistic.shape)
    # One category left of all attributes but one: nothing can depend, and nothing is rejected.
    p_value = np.where(degrees > 0, chdtrc(np.maximum(degrees, 1), statistic), 1.0)
    return TestResult(
        test=test,
        statistic=np.where(degrees > 0, statistic, 0.0),
        degrees=degrees,
        p_value=p_value,
    )
