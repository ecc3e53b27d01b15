"""The laws of errors of marginals of binary attributes.

If reports are on cells, the share of a set of a marginal's cells has the law of a count. If they
are signs of coefficients, it is a sum of coefficients, each from reports of its own.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.estimators.inference.cumulants import (
    CumulantLaw,
    Cumulants,
    Offsets,
    count_cumulants,
    left_by_sampling,
)
from protocol.estimators.inference.laws import SIDES, About, ErrorLaw, NormalLaw
from protocol.estimators.inference.scores import inflation, one_report_more
from protocol.randomizers.exact import Floats
from protocol.randomizers.marginals import MarginalPlan
from protocol.randomizers.walsh import wht
from protocol.variants.marginals.hadamard import Coefficients


def law_of_sets(
    found: Coefficients, plan: MarginalPlan, sets: NDArray[np.bool_], *, shape: tuple[int, ...]
) -> CumulantLaw:
    """The law of the estimated shares of some sets of one marginal's cells.

    It is unknown where a coefficient has no report.

    Args:
        found: the coefficients of one marginal.
        plan: of the reports.
        sets: the cells of each, shape (sets, cells), in row-major order.
        shape: that of the result's arrays, of as many elements as there are sets.
    """
    weights = sets.astype(np.float64)
    # The weights of the coefficients in a set's share.
    turned = wht(weights.copy()) / weights.shape[1]
    reports = found.reports[0].astype(np.float64)
    values = turned @ found.values[0]
    missing = (turned[:, 1:] != 0) @ (reports[1:] == 0)
    values = np.where(missing > 0, np.nan, values)
    if plan.transformed:
        parts = _parts_of_signs(found, turned, float(plan.randomizer.support.gain))
    else:
        parts = _parts_of_cells(found, plan, turned, weights)
    return CumulantLaw(
        values=values.reshape(shape),
        cumulants={
            about: Cumulants(*(part.reshape(-1, *shape) for part in parts.known[about]))
            for about in SIDES
        },
        steps=parts.steps.reshape(shape),
    )


def law_of_weights(found: Coefficients, plan: MarginalPlan, weights: Floats) -> ErrorLaw:
    """The law of the mean of a weight that takes more than two values, (cells,).

    It is normal, with the unbiased estimate of the variance raised as in ``weighted_law``: by one
    report more on each coefficient or cell, and for being estimated. It is unknown where a
    coefficient has less than two reports.
    """
    turned = wht(weights.copy()) / len(weights)
    more, doubt = _one_more(found, plan, turned, float(np.ptp(weights)))
    errors = []
    for about in SIDES:
        covariance = found.covariance(population=about == "population")[0]
        unknown = np.isnan(np.diagonal(covariance))
        used = np.where(unknown, 0.0, turned)
        variance = float(used @ np.where(np.isnan(covariance), 0.0, covariance) @ used)
        variance = max(variance, 0.0) + more
        known = variance > 0 and not (turned[unknown] != 0).any()
        errors.append(math.sqrt(variance * inflation(variance, doubt)) if known else math.nan)
    return NormalLaw.of_errors(
        float(found.values[0] @ turned),
        *errors,
        least=float(weights.min()),
        most=float(weights.max()),
    )


def _one_more(
    found: Coefficients, plan: MarginalPlan, turned: Floats, width: float
) -> tuple[float, float]:
    """Variance that one more report adds to a mean, and the squared error of the total.

    Args:
        turned: the weights of the coefficients.
        width: the difference of the largest weight of a cell and the least.
    """
    gain = float(plan.randomizer.support.gain)
    reports = np.maximum(found.reports[0, 1:].astype(np.float64), 1.0)
    if not plan.transformed:
        least = float(reports.min())
        more = float(one_report_more(width / gain, least)) / least
        return more, more**2
    # The variance of a sign is a parabola of its mean, which is estimated with this variance.
    added, means = one_report_more(2 / gain, reports), found.values[0, 1:]
    variances = np.maximum(gain**-2 - means**2, 0.0) + added
    squares = 4 * means**2 * variances / reports + added**2
    shares = turned[1:] ** 2 / reports
    return float(shares @ added), float(shares**2 @ squares)


class _Parts(NamedTuple):
    """Cumulants and steps of the shares of some sets, arrays of shape (..., sets)."""

    known: dict[About, Cumulants]
    steps: Floats


def _parts_of_cells(
    found: Coefficients, plan: MarginalPlan, turned: Floats, weights: Floats
) -> _Parts:
    """Parts of the law of reports on cells.

    If coefficients have reports of their own, a set's share is taken to be from an effective number
    of reports on all of them, as if all cells had the same share. If the unbiased estimate of its
    variance is larger, the difference is added.
    """
    gain, worth = float(plan.randomizer.support.gain), _effective_reports(found, turned)
    part = weights.mean(axis=1)
    steps = 1 / (worth * gain)
    known: dict[About, Cumulants] = {}
    for about in SIDES:
        if plan.one_hot:
            people = found.n if about == "respondents" else math.inf
            law = _one_hot_cumulants(plan, part, worth, left=left_by_sampling(worth, people))
        else:
            offsets = Offsets.alike(worth, (1 - gain) * part)
            counts = count_cumulants(worth, offsets, gain, about=about, of=float(found.n))
            law = counts.times(steps)
        if np.ptp(found.reports[0, 1:]) > 0:
            covariance = np.nan_to_num(found.covariance(population=about == "population")[0])
            estimated = np.einsum("si,ij,sj->s", turned, covariance, turned)
            expected, _ = law.at(np.clip(turned @ found.values[0], 0.0, 1.0))
            law.variance[0] += np.maximum(estimated - expected, 0.0)
        known[about] = law
    return _Parts(known, steps * np.maximum(part, 1 - part) if plan.one_hot else steps)


def _one_hot_cumulants(
    plan: MarginalPlan, part: Floats, n: Floats, *, left: tuple[Floats, Floats]
) -> Cumulants:
    """Cumulants of the shares of sets of cells from n one-hot reports each.

    A bit of a cell in the set weighs ``1 - part``, any other ``-part``, divided by the gain. Bits
    are drawn independently, that of the respondent's own cell with another probability.

    Args:
        part: the part of all cells that are in the set.
        left: ``left_by_sampling`` of the reports.
    """
    support = plan.randomizer.support
    gain = float(support.gain)
    mine, others = float(support.hit), float(support.other)
    spread, skew = others * (1 - others) / gain**2, others * (1 - others) * (1 - 2 * others)
    wider = mine * (1 - mine) / gain**2 - spread
    skewed = (skew - mine * (1 - mine) * (1 - 2 * mine)) / gain**3
    skew /= gain**3
    none, both = np.zeros_like(part), plan.cells * part * (1 - part)
    drawn, turned = left
    # The variance given that her cell is in the set, less that given that it is not.
    differs = wider * (1 - 2 * part)
    variance = np.stack([spread * both + wider * part**2, differs + drawn, -drawn]) / n
    inside, outside = skewed * (1 - part) ** 3, -skewed * part**3
    own = drawn * turned
    third = np.stack(
        [
            skew * both * (1 - 2 * part) - outside,
            outside - inside + own + 3 * drawn * differs,
            none - 3 * own - 3 * drawn * differs,
            none + 2 * own,
        ]
    )
    return Cumulants(variance, third / n**2)


def _effective_reports(found: Coefficients, turned: Floats) -> Floats:
    """Effective number of reports per set, shape (sets,)."""
    reports = found.reports[0, 1:].astype(np.float64)
    squares = turned[:, 1:] ** 2
    noise = squares @ np.divide(1.0, reports, out=np.zeros_like(reports), where=reports > 0)
    worth: Floats = np.full(len(turned), float(found.n))
    np.divide(squares.sum(axis=1), noise, out=worth, where=noise > 0)
    return worth


def _parts_of_signs(found: Coefficients, turned: Floats, keep: float) -> _Parts:
    """Parts for reports of the sign of one coefficient each, kept with probability ``keep``.

    A coefficient's reports have the mean theta and the variance ``1/keep**2 - theta**2``. Given the
    share of a set the thetas are not known. Their part along the set's weights follows from the
    share. The part across is estimated, without the noise in its square.
    """
    reports = np.maximum(found.reports[0, 1:].astype(np.float64), 1.0)
    theta, weights, offset = found.values[0, 1:], turned[:, 1:], turned[:, 0]
    squares = weights**2
    length = np.maximum(squares.sum(axis=1), np.finfo(np.float64).tiny)
    shares = squares / reports
    most = shares.sum(axis=1)
    # For another share t than the estimate the thetas differ along the weights. Their mean square
    # is a quadratic of t.
    grows = (shares * squares).sum(axis=1) / length**2
    rises = 2 * (shares * weights * theta).sum(axis=1) / length
    noise = (1 - squares / length[:, np.newaxis]) / (keep**2 * reports)
    spread = (shares * (theta**2 - noise)).sum(axis=1)
    tiny = np.finfo(np.float64).tiny
    spread = np.clip(spread, np.minimum(rises**2 / np.maximum(4 * grows, tiny), most), most)
    value = offset + weights @ theta
    squared = np.stack(
        [spread - rises * value + grows * value**2, rises - 2 * grows * value, grows]
    )
    # The third cumulant of a sign is ``-2 theta (1/keep**2 - theta**2)``.
    rate = -2 * (squares**2 / reports**2).sum(axis=1) / length
    across = np.maximum(spread - grows * (value - offset) ** 2, 0.0)
    rate *= np.maximum(1 / keep**2 - 3 * across / np.maximum(most, tiny), 0.0)
    cube = 2 * (squares**3 / reports**2).sum(axis=1) / length**3
    third = np.stack(
        [
            -rate * offset - cube * offset**3,
            rate + 3 * cube * offset**2,
            -3 * cube * offset,
            cube,
        ]
    )
    known: dict[About, Cumulants] = {}
    n = float(found.n)
    for about in SIDES:
        variance = -squared
        variance[0] += most / keep**2
        if about == "respondents":
            # The respondents of each coefficient are drawn from all n.
            left = n / (n - 1) if n > 1 else 0.0
            variance += (1 - left) * squared
            variance[0] -= (1 - left) * most
            variance[1] -= left / n
            variance[2] += left / n
        known[about] = Cumulants(variance, third)
    steps = 2 * np.max(np.abs(weights) / reports, axis=1) / keep
    return _Parts(known, steps)
