"""All pairs of attributes of a result at a glance: their dependences and tests of these.

It is for any result that has tables of pairs with covariances. The strength is Cramer's V without
the part that noise adds. The test of dependence is the result's own (``Estimate.independence``),
corrected for the number of pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from protocol.estimators.dependence.quadratic import QuadraticLaw, holm
from protocol.estimators.dependence.strength import cramers_law
from protocol.estimators.dependence.trees import mutual_information
from protocol.estimators.estimate import Estimate
from protocol.estimators.projection import project_simplex
from protocol.estimators.tables import Table
from protocol.randomizers.exact import Floats

Judged: TypeAlias = Literal["dependent", "not found", "too noisy"]
"""Finding about a pair.

``dependent``: they depend on each other. ``not found``: nothing was found, and a dependence of
``STRONG`` would have been. ``too noisy``: not even that would have been, or nothing was tested.
"""

STRONG = 0.5
"""The Cramer's V from which a dependence is called strong."""

POWER = 0.8
"""The probability with which a dependence would have to be found, to say that there is none."""

_DAMPING = 4.0
"""Squared number of standard errors at which a category with that share counts half."""

MOST = 40
"""The most attributes that are compared: the first ones."""

CELLS = 400
"""The most cells of a table that is tested. Its covariance has the square of this entries."""


class Pair(NamedTuple):
    """Two attributes, and their dependence by the reports.

    Args:
        first, second: the attributes.
        strength: Cramer's V without the part of noise in its square, from 0 to 1; NaN if unknown.
        least: the least V that would be found with a probability of ``POWER``; infinite if there is
            none.
        p_value: of the test of independence, corrected for the number of tests (Holm); NaN with too
            few reports.
        information: the mutual information of the nearest table of shares, in nats.
        judged: the finding.
    """

    first: str
    second: str
    strength: float
    least: float
    p_value: float
    information: float
    judged: Judged


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Glance:
    """All pairs of a result.

    Attributes:
        names: the attributes, the first ``MOST`` at most, cluster by cluster.
        pairs: by their two names, in either order.
        large: number of pairs of these attributes left out for more than ``CELLS`` cells.
        missing: number of pairs that the result has no table of.
        beyond: number of attributes left out.
        clusters: attributes that were randomized together, or else that are connected by strong
            dependences; at least two, and not all.
        edges: of the forest of the largest total mutual information among dependent pairs
            (Chow and Liu 1968).
        level: of the tests of all pairs together.
    """

    names: tuple[str, ...]
    pairs: Mapping[frozenset[str], Pair]
    large: int
    missing: int
    beyond: int
    clusters: tuple[tuple[str, ...], ...]
    edges: tuple[tuple[str, str], ...]
    level: float

    @property
    def dependent(self) -> list[Pair]:
        """The pairs that depend on each other, the strongest first."""
        found = [pair for pair in self.pairs.values() if pair.judged == "dependent"]
        return sorted(found, key=lambda pair: -pair.strength)

    @property
    def noisy(self) -> int:
        """Number of pairs that are too noisy."""
        return sum(pair.judged == "too noisy" for pair in self.pairs.values())

    @property
    def too_noisy(self) -> bool:
        """True if most pairs are too noisy."""
        return 2 * self.noisy > len(self.pairs)

    def pair(self, first: str, second: str) -> Pair:
        """The pair of two attributes, named in either order.

        Raises:
            KeyError: the result has no table of them.
        """
        return self.pairs[frozenset((first, second))]


def glance(estimate: Estimate, *, level: float = 0.05) -> Glance | None:
    """All pairs of a result at a glance; None if it has no table of two attributes.

    Args:
        estimate: the result.
        level: the most that the probability of calling any independent pair dependent may be.
    """
    if estimate.attribute_means():
        return None
    names = estimate.survey.names[:MOST]
    size_of = dict(zip(names, estimate.survey.sizes, strict=False))
    large = missing = 0
    measured: list[tuple[str, str, QuadraticLaw | None, float, float]] = []
    for first, second in combinations(names, 2):
        if size_of[first] * size_of[second] > CELLS:
            large += 1
            continue
        try:
            table = estimate.table(first, second)
        except ValueError:
            missing += 1
            continue
        law, p_value = _tested(estimate, first, second)
        measured.append((first, second, law, p_value, _information(table)))
    if not measured and not large:
        return None
    p_values = np.array([found[3] for found in measured])
    known = np.isfinite(p_values)
    p_values[known] = holm(p_values[known])
    # The level of the first test, and with few dependences of most of them.
    outside = level / max(1, int(known.sum()))
    laws = QuadraticLaw.stacked([found[2] for found in measured])
    leasts = np.where(known, laws.detectable(outside, POWER), np.inf)
    pairs = {}
    for (first, second, _, _, information), strength, least, p in zip(
        measured, laws.measure.tolist(), leasts.tolist(), p_values.tolist(), strict=True
    ):
        judged = _judged(least, p, level)
        pair = Pair(first, second, strength, least, p, information, judged)
        pairs[frozenset((first, second))] = pair
    clusters = _clusters(estimate, names, pairs)
    return Glance(
        names=_by_cluster(names, clusters),
        pairs=pairs,
        large=large,
        missing=missing,
        beyond=len(estimate.survey.names) - len(names),
        clusters=clusters,
        edges=_forest(names, pairs),
        level=level,
    )


def _tested(estimate: Estimate, first: str, second: str) -> tuple[QuadraticLaw | None, float]:
    """Law of the strength, and p-value; None and NaN with too few reports."""
    law, p_value = None, math.nan
    with suppress(ValueError):
        law = dependence_excess(estimate, first, second).law
        p_value = float(estimate.independence(first, second).p_value)
    return law, p_value


def _judged(least: float, p_value: float, level: float) -> Judged:
    if not least <= 1:
        return "too noisy"  # Not even complete dependence would show.
    if p_value <= level:
        return "dependent"
    return "not found" if least <= STRONG else "too noisy"


# Of one pair


class Excess(NamedTuple):
    """Difference of a table of two attributes from the product of its margins.

    Args:
        values: the differences, shape (r, c).
        errors: their standard errors about the population, same shape.
        law: of the square of Cramer's V.
    """

    values: Floats
    errors: Floats
    law: QuadraticLaw

    @property
    def scores(self) -> Floats:
        """The differences in standard errors; 0 where there is no error."""
        found: Floats = np.zeros_like(self.values)
        np.divide(self.values, self.errors, out=found, where=self.errors > 0)
        return found


def dependence_excess(estimate: Estimate, first: str, second: str) -> Excess:
    """Difference of two attributes from independence.

    Raises:
        SurveyError: an unknown name, or one attribute twice.
        ValueError: the result has no table of them, or its covariance is unknown.
    """
    reports = estimate.pair_reports(first, second)
    if reports is None:
        return _excess_of_table(estimate.table(first, second))
    errors = np.sqrt(reports.excess_variances)
    return Excess(reports.excess, errors, cramers_law(reports, "population"))


def _excess_of_table(table: Table) -> Excess:
    """The same from a raw table and its covariance."""
    shares = table.values
    rows, columns = shares.shape
    first, second = shares.sum(axis=1), shares.sum(axis=0)
    covariance = table.covariance("population")
    if not (np.isfinite(shares).all() and np.isfinite(covariance).all()):
        raise ValueError("the covariance of the table is unknown: too few reports")
    # The derivative of d[i, j] = T[i, j] - r[i] c[j] by T[a, b], with axes (i, j, a, b).
    slope = np.einsum("ia,jb->ijab", np.eye(rows), np.eye(columns))
    slope -= np.eye(rows)[:, None, :, None] * second[None, :, None, None]
    slope -= first[:, None, None, None] * np.eye(columns)[None, :, None, :]
    flat = slope.reshape(rows * columns, rows * columns)
    spread = flat @ covariance @ flat.T
    variance = np.maximum(np.diagonal(spread), 0.0).reshape(rows, columns)
    excess = shares - np.outer(first, second)
    cells = covariance.reshape(rows, columns, rows, columns)
    one = _weights(first, np.einsum("ijkl->ik", cells).diagonal())
    other = _weights(second, np.einsum("ijkl->jl", cells).diagonal())
    weights = np.outer(one, other)
    # The derivative of X by the excess; that by the margins in the weights is left out.
    steep = (2 * excess * weights).reshape(-1)
    roots = np.sqrt(weights.reshape(-1))
    once = spread * np.outer(roots, roots)
    twice = once @ once
    smaller = float(max(1, min(rows, columns) - 1))
    law = QuadraticLaw.of(
        (excess**2 * weights).sum(),
        (variance * weights).sum(),
        steep @ spread @ steep,
        [np.trace(once), np.trace(twice), (once * twice).sum(), (twice**2).sum()],
        scale=smaller,
        most=smaller,
        seen=_seen(first, one) * _seen(second, other),
    )
    return Excess(excess, np.sqrt(variance), law)


def _weights(margin: Floats, variance: Floats) -> Floats:
    """Damped inverse shares of categories: less for an uncertain category."""
    shares = np.maximum(margin, 0.0)
    whole = shares**2 + _DAMPING * np.maximum(variance, 0.0)
    return np.divide(shares, whole, out=np.zeros_like(shares), where=whole > 0)


def _seen(margin: Floats, weights: Floats) -> float:
    """Weight as in ``QuadraticLaw.seen``, of one attribute."""
    shares = np.clip(margin, 0.0, 1.0)
    each = np.minimum(weights * shares, 1.0) * (1 - shares)
    return min(1.0, float(each.sum()) / max(1, len(shares) - 1))


def _information(table: Table) -> float:
    known = bool(np.isfinite(table.values).all())
    return mutual_information(project_simplex(table.values)) if known else 0.0


# Of all pairs


def _clusters(
    estimate: Estimate, names: Sequence[str], pairs: Mapping[frozenset[str], Pair]
) -> tuple[tuple[str, ...], ...]:
    """Attributes that were randomized together, or else are connected by strong dependences."""
    groups: list[tuple[str, ...]] = []
    if estimate.whole_reports is not None:
        groups = [
            tuple(name for name in cluster if name in names)
            for cluster in estimate.clusters
            if len(cluster) > 1
        ]
    if not groups:
        strong = [
            (pair.first, pair.second)
            for pair in pairs.values()
            if pair.judged == "dependent" and pair.strength >= STRONG
        ]
        groups = [group for group in _connected(names, strong) if len(group) > 1]
    return tuple(group for group in groups if 1 < len(group) < len(names))


def _connected(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[tuple[str, ...]]:
    """The attributes that a path of edges connects, in the survey's order."""
    group = {name: {name} for name in names}
    for first, second in edges:
        if group[first] is not group[second]:
            group[first] |= group[second]
            for name in group[second]:
                group[name] = group[first]
    return list(dict.fromkeys(tuple(n for n in names if n in group[name]) for name in names))


def _by_cluster(names: Sequence[str], clusters: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    cluster_of = {name: cluster for cluster in clusters for name in cluster}
    found: dict[str, None] = {}
    for name in names:
        found.update(dict.fromkeys(cluster_of.get(name, (name,))))
    return tuple(found)


def _forest(
    names: Sequence[str], pairs: Mapping[frozenset[str], Pair]
) -> tuple[tuple[str, str], ...]:
    """The edges of largest information among dependent pairs that close no circle (Kruskal)."""
    ranked = sorted(
        (pair for pair in pairs.values() if pair.judged == "dependent"),
        key=lambda pair: -pair.information,
    )
    edges: list[tuple[str, str]] = []
    for pair in ranked:
        joined = next(group for group in _connected(names, edges) if pair.first in group)
        if pair.second not in joined:
            edges.append((pair.first, pair.second))
    return tuple(edges)
