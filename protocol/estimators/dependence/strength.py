"""Strength of the dependence of two attributes: unbiased squares of measures, with their laws.

The square of an estimate is too large by its variance, which is known from the design and is taken
off. About the respondents the variance is that of randomization alone: that of the reports less
that of answers with the estimated shares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from protocol.estimators.dependence.pair_reports import PairReports, diagonal, outer, turned
from protocol.estimators.dependence.quadratic import QuadraticLaw
from protocol.estimators.inference.laws import About
from protocol.randomizers.exact import Floats

StrengthLaw: TypeAlias = Callable[[PairReports, About], QuadraticLaw]
"""The law of the unbiased square of a measure; shape (...) for reports of shape (..., R_1, R_2)."""

_DAMPING = 4.0
"""A category counts ``margin**2 / (margin**2 + 4 variance)`` of what it would if its share were
known: half of it where the share is two standard errors."""


class _Weights(NamedTuple):
    """Damped inverse shares of the categories of an attribute.

    Args:
        values: ``margin / (margin**2 + 4 variance)``, 0 for negative margins, shape (..., r).
        slopes: their derivatives by the margin.
    """

    values: Floats
    slopes: Floats


class _Part(NamedTuple):
    """Part of the covariance of one report's error of the excess, under independence.

    The covariance is a sum of Kronecker products of two matrices.

    Args:
        weight: the weight of the product, maybe negative.
        first, second: the matrices, shapes (..., r_1, r_1) and (..., r_2, r_2).
    """

    weight: float
    first: Floats
    second: Floats


def cramers_law(reports: PairReports, about: About) -> QuadraticLaw:
    """The law of the unbiased square of Cramer's V.

    ``V**2 min(r - 1, c - 1) = sum_ab d_ab**2 / (pi_a pi_b)``. The excess d is estimated without
    bias, and the mean of its squared errors is taken off. The inverse of a rare category's share is
    uncertain, so ``pi_a / (pi_a**2 + 4 var_a)`` stands for ``1 / pi_a``: rare categories count for
    less than they should, which the upper ends of intervals allow for (``QuadraticLaw.seen``).
    """
    first, second = (_weights(reports, place) for place in (0, 1))
    weights = outer(first.values, second.values)
    squares = reports.excess**2 * weights
    designs = _designs(reports, about)
    rows, columns = _noise(designs, first.values, second.values, weights)
    # The derivatives of X by the margins, which enter the weights.
    by_first = first.slopes * _over(squares.sum(axis=-1) - rows, first.values)
    by_second = second.slopes * _over(squares.sum(axis=-2) - columns, second.values)
    slope = 2 * reports.excess * weights

    def score(design: PairReports) -> Floats:
        one, other = design.sides
        found: Floats = one.contrast @ slope @ turned(other.contrast)
        found = found + one.errors @ by_first[..., :, None]
        return found + turned(other.errors @ by_second[..., :, None])

    seen: Floats = np.ones(squares.shape[:-2])
    for side, given in zip(reports.sides, (first, second), strict=True):
        shares = np.clip(side.margin, 0.0, 1.0)
        each = np.minimum(given.values * shares, 1.0) * (1 - shares)
        seen = seen * each.sum(axis=-1) / max(1, shares.shape[-1] - 1)
    smaller = float(max(1, min(squares.shape[-2:]) - 1))
    parts = [
        _Part(part.weight, _scaled(part.first, first.values), _scaled(part.second, second.values))
        for part in _null_parts(designs)
    ]
    return QuadraticLaw.of(
        squares.sum(axis=(-1, -2)),
        rows.sum(axis=-1),
        _variance(designs, score) / reports.n,
        _traces(parts, reports.n),
        scale=smaller,
        most=smaller,
        seen=np.minimum(seen, 1.0),
    )


def pearsons_law(reports: PairReports, about: About) -> QuadraticLaw:
    """The law of the unbiased square of the correlation of two attributes' codes.

    Where the variance of a code is not estimated above 0 it is unknown.
    """
    centred = [_centred_codes(side.margin) for side in reports.sides]
    variances = [
        (side.margin * codes**2).sum(axis=-1)
        for side, codes in zip(reports.sides, centred, strict=True)
    ]
    known = np.minimum(*variances) > 0
    first, second = (
        codes / np.sqrt(np.where(known, variance, np.nan))[..., None]
        for codes, variance in zip(centred, variances, strict=True)
    )
    r = _contrast(reports, first, second)

    def score(design: PairReports) -> Floats:
        one, other = design.sides
        spread = one.errors @ (first**2)[..., :, None]
        spread = spread + turned(other.errors @ (second**2)[..., :, None])
        return _products(design, first, second) - r[..., None, None] / 2 * spread

    return _single_law(reports, about, r, (first, second), score, most=1.0)


def covariances_law(reports: PairReports, about: About) -> QuadraticLaw:
    """The law of the unbiased square of the covariance of two attributes' codes."""
    first, second = (_centred_codes(side.margin) for side in reports.sides)
    # Half of the respondents are at either end of both attributes.
    most = ((first.shape[-1] - 1) * (second.shape[-1] - 1) / 4) ** 2

    def score(design: PairReports) -> Floats:
        return _products(design, first, second)

    value = _contrast(reports, first, second)
    return _single_law(reports, about, value, (first, second), score, most=most)


def _single_law(
    reports: PairReports,
    about: About,
    value: Floats,
    codes: tuple[Floats, Floats],
    score: Callable[[PairReports], Floats],
    *,
    most: float,
) -> QuadraticLaw:
    """The law of the square of one number, which is 0 if its contrast of the excess is 0."""
    designs = _designs(reports, about)
    variance = _variance(designs, score)
    parts = [
        _Part(
            part.weight,
            (codes[0][..., None, :] @ part.first @ codes[0][..., :, None]),
            (codes[1][..., None, :] @ part.second @ codes[1][..., :, None]),
        )
        for part in _null_parts(designs)
    ]
    noise = np.maximum(variance, 0.0) / reports.n
    # The part that is linear in the one error.
    linear = 4 * (value**2) * np.maximum(variance, 0.0)
    return QuadraticLaw.of(
        value**2,
        noise,
        linear / reports.n,
        _traces(parts, reports.n),
        scale=1.0,
        most=most,
        seen=np.ones(value.shape),
    )


def _designs(reports: PairReports, about: About) -> list[tuple[float, PairReports]]:
    """Designs with variances that add up, each with its sign."""
    if about == "population":
        return [(1.0, reports)]
    return [(1.0, reports), (-1.0, reports.answers)]


def _weights(reports: PairReports, place: int) -> _Weights:
    side = reports.sides[place]
    law = reports.shares.sum(axis=-1 - place)
    variance = (law[..., None, :] @ side.errors**2)[..., 0, :] / reports.n
    damping = _DAMPING * (variance + reports.margin_noise(place))
    margin = np.maximum(side.margin, 0.0)
    whole = margin**2 + damping
    known = whole > 0
    values = np.divide(margin, whole, out=np.zeros_like(margin), where=known)
    slopes = np.divide(damping - margin**2, whole**2, out=np.zeros_like(margin), where=margin > 0)
    return _Weights(values, slopes)


def _noise(
    designs: Sequence[tuple[float, PairReports]], first: Floats, second: Floats, weights: Floats
) -> tuple[Floats, Floats]:
    """Mean weighted squared errors of the excess, by rows and by columns."""
    rows: Floats = np.zeros(())
    columns: Floats = np.zeros(())
    for sign, design in designs:
        one, other = (side.contrast for side in design.sides)
        means = weights * (turned(one) @ design.shares @ other) ** 2
        by_row = turned(one**2) @ design.shares @ (other**2 @ second[..., :, None])
        by_column = turned(other**2) @ turned(design.shares) @ (one**2 @ first[..., :, None])
        rows = rows + sign * (by_row[..., 0] * first - means.sum(axis=-1)) / design.n
        columns = columns + sign * (by_column[..., 0] * second - means.sum(axis=-2)) / design.n
        for weight, by_first, by_second in design.added:
            squares = sign * weight * weights * outer(diagonal(by_first), diagonal(by_second))
            rows, columns = rows + squares.sum(axis=-1), columns + squares.sum(axis=-2)
    return rows, columns


def _variance(
    designs: Sequence[tuple[float, PairReports]], score: Callable[[PairReports], Floats]
) -> Floats:
    found: Floats = np.zeros(())
    for sign, design in designs:
        scores = score(design)
        mean = (design.shares * scores).sum(axis=(-1, -2))
        found = found + sign * ((design.shares * scores**2).sum(axis=(-1, -2)) - mean**2)
        found = found + sign * design.n * design.score_noise(scores)
    return found


def _null_parts(designs: Sequence[tuple[float, PairReports]]) -> list[_Part]:
    """The covariance of ``u(y)[a] v(y)[b]`` under independence, as Kronecker products."""
    parts = []
    for sign, design in designs:
        one, other = (side.contrast for side in design.sides)
        for weight, first, second in design.null:
            parts.append(_Part(sign * weight, _moments(one, first), _moments(other, second)))
            means = [
                (law[..., None, :] @ u)[..., 0, :] for law, u in ((first, one), (second, other))
            ]
            # Fakes and answers have different means.
            if weight < 1:
                square = sign * weight**2
                parts.append(_Part(-square, *(outer(mean, mean) for mean in means)))
        parts += [_Part(sign * design.n * weight, *both) for weight, *both in design.added]
    return parts


def _traces(parts: Sequence[_Part], n: int) -> list[Floats]:
    """Traces of the first four powers of the covariance of a mean of n reports."""
    weights = np.array([part.weight for part in parts])
    first = np.stack(np.broadcast_arrays(*(part.first for part in parts)), axis=-3)
    second = np.stack(np.broadcast_arrays(*(part.second for part in parts)), axis=-3)
    pairs = np.multiply.outer(weights, weights).reshape(-1)

    def doubled(matrices: Floats) -> Floats:
        products = matrices[..., :, None, :, :] @ matrices[..., None, :, :, :]
        return products.reshape(*matrices.shape[:-3], -1, *matrices.shape[-2:])

    def traces(left: Floats, right: Floats) -> Floats:
        """Traces of all products of one matrix each, shape (..., left, right)."""
        flat = left.reshape(*left.shape[:-2], -1)
        found: Floats = flat @ turned(turned(right).reshape(*right.shape[:-2], -1))
        return found

    twice = doubled(first), doubled(second)
    whole = np.eye(first.shape[-1])[None], np.eye(second.shape[-1])[None]
    once = traces(first, whole[0])[..., 0] * traces(second, whole[1])[..., 0]
    square = traces(first, first) * traces(second, second)
    cube = traces(twice[0], first) * traces(twice[1], second)
    fourth = traces(twice[0], twice[0]) * traces(twice[1], twice[1])
    return [
        once @ weights / n,
        square @ weights @ weights / n**2,
        cube @ weights @ pairs / n**3,
        fourth @ pairs @ pairs / n**4,
    ]


def _moments(contrast: Floats, law: Floats) -> Floats:
    found: Floats = turned(contrast) @ (law[..., :, None] * contrast)
    return found


def _scaled(matrix: Floats, weights: Floats) -> Floats:
    roots = np.sqrt(weights)
    found: Floats = matrix * outer(roots, roots)
    return found


def _over(values: Floats, by: Floats) -> Floats:
    """Quotients, with 0 for a divisor of 0."""
    found: Floats = np.divide(values, by, out=np.zeros_like(values), where=by > 0)
    return found


def _centred_codes(margin: Floats) -> Floats:
    codes = np.arange(margin.shape[-1])
    found: Floats = codes - (margin @ codes)[..., None]
    return found


def _contrast(reports: PairReports, first: Floats, second: Floats) -> Floats:
    found: Floats = (first[..., None, :] @ reports.excess @ second[..., :, None])[..., 0, 0]
    return found


def _products(design: PairReports, first: Floats, second: Floats) -> Floats:
    """Contribution of each report to a contrast of the excess."""
    one, other = design.sides
    return outer(
        (one.contrast @ first[..., :, None])[..., 0],
        (other.contrast @ second[..., :, None])[..., 0],
    )
