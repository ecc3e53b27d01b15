"""All pairs of attributes of a result at a glance: which depend on each other, and how strongly.

For any result that has tables of pairs with covariances, whatever made it. The strength is Cramer's
V without what noise adds to it; whether there is any is tested as the result tests it
(``Estimate.independence``), corrected for the number of pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from protocol.estimators.dependence.pair_reports import turned
from protocol.estimators.dependence.quadratic import holm
from protocol.estimators.dependence.strength import cramers_law
from protocol.estimators.dependence.trees import mutual_information
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.laws import critical
from protocol.estimators.joint import JointEstimate
from protocol.estimators.projection import project_simplex
from protocol.estimators.tables import Table
from protocol.randomizers.exact import Floats

Judged: TypeAlias = Literal["dependent", "not found", "too noisy"]
"""What can be said of a pair: they depend on each other; nothing was found, though a dependence of
``STRONG`` would have been; or not even that would have been found."""

STRONG = 0.5
"""A Cramer's V that is called strong."""

POWER = 0.8
"""The probability with which a dependence has to be found, to say that there is none."""

_DAMPING = 4.0
"""As in ``strength``: a category counts half where its share is two standard errors."""

MOST = 40
"""Of more attributes the first ones are looked at."""

_CELLS = 400
"""Larger tables are not looked at: their covariance has this squared entries."""


class Pair(NamedTuple):
    """Two attributes, and what their reports say of their dependence.

    Args:
        first, second: the attributes.
        strength: Cramer's V without what noise adds to its square, from 0 to 1; NaN if unknown.
        least: the least V that would be found with a probability of ``POWER``; infinite if unknown.
        p_value: of the test of independence, corrected for the number of pairs (Holm); NaN if there
            is none.
        information: the mutual information of the nearest table of shares, in nats.
        judged: what can be said of the two.
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
        names: the attributes, the first ``MOST`` at most, in an order in which those of a cluster
            are neighbours.
        pairs: by their two names, in either order.
        clusters: attributes that were randomized together; without such those that are connected
            by strong dependences. Only those of at least two attributes, and not of all.
        edges: of the forest of the largest total mutual information among dependent pairs
            (Chow and Liu 1968).
        level: of the tests of all pairs together.
    """

    names: tuple[str, ...]
    pairs: Mapping[frozenset[str], Pair]
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
        """Of how many pairs nothing can be said."""
        return sum(pair.judged == "too noisy" for pair in self.pairs.values())

    @property
    def too_noisy(self) -> bool:
        """Whether nothing can be said of most pairs."""
        return 2 * self.noisy > len(self.pairs)

    def pair(self, first: str, second: str) -> Pair:
        """Two attributes, in either order.

        Raises:
            KeyError: the result has no table of them.
        """
        return self.pairs[frozenset((first, second))]


def glance(estimate: Estimate, *, level: float = 0.05) -> Glance | None:
    """All pairs of a result at a glance; None if it has no table of two attributes.

    Args:
        estimate: the result.
        level: the probability, at most, that any independent pair is called dependent.
    """
    names = estimate.survey.names[:MOST]
    size_of = dict(zip(names, estimate.survey.sizes, strict=False))
    measured: list[tuple[str, str, float, float, float, float]] = []
    # Of what the tests leave: the level that the first of them is held against.
    outside = level / max(1, math.comb(len(names), 2))
    for first, second in combinations(names, 2):
        if size_of[first] * size_of[second] > _CELLS:
            continue
        try:
            table = estimate.table(first, second)
        except ValueError:
            continue  # This result says nothing of the two together.
        strength, least, p_value = math.nan, math.inf, math.nan
        try:
            excess = excess_of(estimate, first, second)
            strength, least = excess.strength, excess.least(outside)
            p_value = excess.p_value
            p_value = float(estimate.independence(first, second).p_value)
        except ValueError:
            pass  # Too few reports for the test, or to know how uncertain anything is.
        measured.append((first, second, strength, least, p_value, _information(table)))
    if not measured:
        return None
    p_values = np.array([found[4] for found in measured])
    known = np.isfinite(p_values)
    p_values[known] = holm(p_values[known])
    pairs = {
        frozenset((first, second)): Pair(
            first, second, strength, least, float(p), information, _judged(least, float(p), level)
        )
        for (first, second, strength, least, _, information), p in zip(
            measured, p_values, strict=True
        )
    }
    clusters = _clusters(estimate, names, pairs)
    return Glance(
        names=_ordered(names, pairs, clusters),
        pairs=pairs,
        clusters=clusters,
        edges=_forest(names, pairs),
        level=level,
    )


def _judged(least: float, p_value: float, level: float) -> Judged:
    if not least <= 1:
        return "too noisy"  # Not even complete dependence would show, so nothing else is believed.
    if p_value <= level:
        return "dependent"
    return "not found" if least <= STRONG else "too noisy"


# Of one pair


class Excess(NamedTuple):
    """By how much a table of two attributes differs from the product of its margins.

    Args:
        values: the differences, shape (r, c).
        errors: their standard errors about the population, same shape.
        strength: Cramer's V, without what noise adds to its square.
        spread: the standard deviation of the square where there is no dependence, in units of V**2.
        seen: the share of the square that shows, for rare categories count for less.
        p_value: the probability of no smaller a square without dependence.
    """

    values: Floats
    errors: Floats
    strength: float
    spread: float
    seen: float
    p_value: float

    @property
    def scores(self) -> Floats:
        """The differences in standard errors; 0 where there is no error."""
        found: Floats = np.zeros_like(self.values)
        np.divide(self.values, self.errors, out=found, where=self.errors > 0)
        return found

    def least(self, outside: float) -> float:
        """The least V that a test with this probability of a false alarm finds, by ``POWER``."""
        needed = (critical(1 - 2 * outside) + critical(2 * POWER - 1)) * self.spread
        return math.sqrt(needed / self.seen) if self.seen > 0 else math.inf


def excess_of(estimate: Estimate, first: str, second: str) -> Excess:
    """By how much two attributes differ from independence.

    Raises:
        SurveyError: an unknown name, or one attribute twice.
        ValueError: the result has no table of them, or its covariance is unknown.
    """
    reports = estimate.pair_reports(first, second)
    if reports is None:
        return _excess_of_table(estimate.table(first, second))
    law = cramers_law(reports, "population")
    one, other = (side.contrast for side in reports.sides)
    squares = turned(one**2) @ reports.shares @ other**2
    variance = np.maximum(squares - reports.excess**2, 0.0) / reports.n
    scale = float(law.scale)
    return Excess(
        reports.excess,
        np.sqrt(variance),
        float(law.measure),
        math.sqrt(2 * float(law.trace_2)) / scale,
        float(law.seen),
        float(law.p_values()),
    )


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
    scale = max(1, min(rows, columns) - 1)
    square = float(((excess**2 - variance) * weights).sum()) / scale
    roots = np.sqrt(weights.reshape(-1))
    weighted = spread * np.outer(roots, roots)
    noise, trace = float(np.trace(weighted)), float((weighted**2).sum())
    return Excess(
        excess,
        np.sqrt(variance),
        math.sqrt(min(max(square, 0.0), 1.0)),
        math.sqrt(2 * trace) / scale,
        _seen(first, one) * _seen(second, other),
        # The sum of weighted chi-squared variables by its first two moments (Satterthwaite).
        _tail(noise**2 / trace, (square * scale + noise) * noise / trace) if trace else math.nan,
    )


def _tail(degrees: float, statistic: float) -> float:
    # Imported here: it takes longer than all of this package.
    from scipy.special import chdtrc

    return float(chdtrc(degrees, max(statistic, 0.0)))


def _weights(margin: Floats, variance: Floats) -> Floats:
    """What stands for the inverse of the share of each category: less for one that is uncertain."""
    shares = np.maximum(margin, 0.0)
    whole = shares**2 + _DAMPING * np.maximum(variance, 0.0)
    return np.divide(shares, whole, out=np.zeros_like(shares), where=whole > 0)


def _seen(margin: Floats, weights: Floats) -> float:
    """As ``QuadraticLaw.seen``, of one attribute."""
    shares = np.clip(margin, 0.0, 1.0)
    each = np.minimum(weights * shares, 1.0) * (1 - shares)
    return min(1.0, float(each.sum()) / max(1, len(shares) - 1))


def _information(table: Table) -> float:
    return mutual_information(project_simplex(table.values)) if _is_known(table) else 0.0


def _is_known(table: Table) -> bool:
    return bool(np.isfinite(table.values).all())


# Of all pairs


def _clusters(
    estimate: Estimate, names: Sequence[str], pairs: Mapping[frozenset[str], Pair]
) -> tuple[tuple[str, ...], ...]:
    """Attributes that were randomized together, or else are connected by strong dependences."""
    groups: list[tuple[str, ...]] = []
    if isinstance(estimate, JointEstimate):
        groups = [
            tuple(name for name in block.attributes if name in names)
            for block in estimate.blocks
            if len(block.attributes) > 1
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


def _ordered(
    names: Sequence[str],
    pairs: Mapping[frozenset[str], Pair],
    clusters: Sequence[tuple[str, ...]],
) -> tuple[str, ...]:
    """Cluster by cluster; where all are alone, in the survey's order."""
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
