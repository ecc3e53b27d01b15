"""Stability of clusters: how often other pilots of the same law lead to the same ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.estimators.dependence.dependence import Measure, measure_for
from protocol.estimators.dependence.pair_reports import PairReports, outer, proper
from protocol.estimators.dependence.quadratic import QuadraticLaw
from protocol.estimators.joint import JointReports
from protocol.estimators.linear import LinearEstimate
from protocol.estimators.projection import project
from protocol.estimators.releases.components import applied
from protocol.estimators.releases.noisy import NoisyTables
from protocol.randomizers.coins import SIDES, Noise
from protocol.randomizers.exact import Floats
from protocol.variants.clusters.clustering import Clusters
from protocol.variants.clusters.negotiation import Negotiation

Draw: TypeAlias = Callable[[int, Floats, int], NDArray[np.integer]]
"""Draws multinomial counts, shape (times, cells), from (n, probabilities of the cells, times), as
``numpy.random.Generator.multinomial`` does."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Stability:
    """The shares of redrawn pilots that led to the same clusters.

    Attributes:
        names: the attributes, m of them.
        redraws: the number of pilots drawn; 0 if the dependences are of exact counts.
        same: the share that led to exactly these clusters.
        clusters: each cluster with the share that led to it.
        together: the share that put two attributes in one cluster, shape (m, m), 1 in the diagonal.
    """

    names: tuple[str, ...]
    redraws: int
    same: float
    clusters: tuple[tuple[tuple[str, ...], float], ...]
    together: Floats

    def __repr__(self) -> str:
        return f"<Stability: {self.same:.0%} of {self.redraws} redraws>"


def stability(
    negotiation: Negotiation,
    totals: NDArray[np.integer],
    draw: Draw,
    *,
    respondents: int = 0,
    parties: int = 0,
    redraws: int = 200,
) -> Stability:
    """Frequency with which a pilot like the one that was run leads to the same clusters.

    It is a parametric bootstrap: as many reports are drawn, of people drawn from a population.
    Noise makes tables look dependent. So the excess over independence in the estimated law is
    shrunk, by ``sqrt(t / (t + noise))`` with t the unbiased square. Each pair's table is drawn by
    itself, since counts of pairs do not determine how the errors of two tables depend on each
    other.

    With noisy counts only the coins are redrawn; the respondents stay the same.

    A share has a standard error of at most ``1 / (2 sqrt(redraws))``.

    Args:
        negotiation: how clusters follow from counts.
        totals: the counts of all pairs that they follow from, as published.
        draw: draws multinomial counts.
        respondents, parties: how many were counted, and how many spoke for them; needed for counts
            with coins.
        redraws: how many pilots to draw.

    Raises:
        ValueError: the totals are not counts of the same respondents, or no redraws.
    """
    if redraws < 1:
        raise ValueError(f"{redraws} redraws: expected at least 1")
    found = negotiation.from_totals(totals, respondents, parties)
    if negotiation.dependence == "secure-sum" and negotiation.noise is None:
        drawn, redraws = [found.clusters], 0
    else:
        estimates = negotiation.estimates(totals, respondents, parties)
        matrices = _redrawn_matrices(negotiation, estimates, draw, parties, redraws)
        drawn = [
            negotiation.merged(replace(found.dependences, matrix=matrix)) for matrix in matrices
        ]
    times = Counter(names for clusters in drawn for names in clusters)
    return Stability(
        names=negotiation.survey.names,
        redraws=redraws,
        same=drawn.count(found.clusters) / len(drawn),
        clusters=tuple((part, times[part] / len(drawn)) for part in found.clusters),
        together=_together(negotiation.survey.names, drawn),
    )


def _redrawn_matrices(
    negotiation: Negotiation,
    estimates: Iterable[LinearEstimate[JointReports | NoisyTables]],
    draw: Draw,
    parties: int,
    redraws: int,
) -> Floats:
    """Dependences of redrawn pilots, shape (redraws, m, m), from the estimate of every pair."""
    survey, noise = negotiation.survey, negotiation.noise
    m = len(survey.names)
    matrices = np.tile(np.eye(m), (redraws, 1, 1))
    for (i, j), estimate in zip(combinations(range(m), 2), estimates, strict=True):
        measure = measure_for(survey.attributes[i], survey.attributes[j], negotiation.measure)
        first, second = survey.names[i], survey.names[j]
        reports = estimate.pair_reports(first, second)
        if reports is None:
            raise ValueError(f"{first} and {second}: one matrix randomized them together")
        likely = _likely(reports, measure)
        if noise is None:
            counts = draw(reports.n, proper(likely.ravel()), redraws)
            values = _redrawn(negotiation, reports, measure, counts)
        else:
            coins = msgspec.structs.replace(noise, trials=parties * noise.trials)
            values = _redrawn_coins(coins, reports, measure, likely, draw, redraws)
        matrices[:, i, j] = matrices[:, j, i] = values
    return matrices


def _together(names: Sequence[str], drawn: Sequence[Clusters]) -> Floats:
    """Frequency with which two attributes are in one cluster, shape (m, m)."""
    together = np.eye(len(names))
    for i, j in combinations(range(len(names)), 2):
        both = sum({names[i], names[j]} <= set(part) for clusters in drawn for part in clusters)
        together[i, j] = together[j, i] = both / len(drawn)
    return together


def _law(measure: Measure, reports: PairReports) -> QuadraticLaw:
    if measure.law is None:
        raise ValueError(f"measure {measure.name!r} has no law")
    return measure.law(reports, "respondents")


def _likely(reports: PairReports, measure: Measure) -> Floats:
    """Shares of reports that pilots are drawn from; estimated, so some may be negative."""
    law = _law(measure, reports)
    square, noise = float(np.nan_to_num(law.estimate)), float(np.nan_to_num(law.noise))
    square = max(square, 0.0)
    real = math.sqrt(square / (square + noise)) if square else 0.0
    return reports.independent + real * (reports.shares - reports.independent)


def _redrawn(
    negotiation: Negotiation, reports: PairReports, measure: Measure, counts: NDArray[np.integer]
) -> Floats:
    """Dependence of a pair by redrawn reports, as the clusters use it."""
    counts = counts.reshape(-1, *reports.shares.shape)
    if negotiation.dependence == "rr":
        return np.array([measure(table) for table in counts])
    drawn = reports.redone(counts / reports.n)
    if negotiation.dependence == "rr-debiased":
        return np.nan_to_num(_law(measure, drawn).cautious)
    first, second = drawn.sides
    tables = drawn.excess + outer(first.margin, second.margin)
    return np.array([measure(project(table, "clip")) for table in tables])


def _redrawn_coins(
    noise: Noise, reports: PairReports, measure: Measure, shares: Floats, draw: Draw, redraws: int
) -> Floats:
    """Dependence of a pair by noisy counts with other coins.

    Args:
        noise: the coins of all parties in a cell.
        shares: the shares of the answers; negative ones add nothing to a dependence.
    """
    chance, shape = noise.chance / SIDES, (redraws, *shares.shape)
    up = draw(noise.trials, np.array([chance, 1 - chance]), math.prod(shape))[:, 0].reshape(shape)
    standard = (up - noise.mean) / math.sqrt(noise.trials * chance * (1 - chance))
    assert reports.noise is not None
    # The fitted tables' noise has this covariance, component by component.
    drawn = reports.redone(shares + applied(np.sqrt(reports.noise), standard, 1))
    return np.nan_to_num(_law(measure, drawn).cautious)
