"""Common parts of the first paper's reproductions: respondents, dependences, methods.

Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, section 6. Estimates come
either from the exact law of the counts of reports (``cluster_tables``, ``pair_tables``) or from
whole randomized records (``report`` and ``method_tables``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.randomness import Stream, Streams
from protocol.estimators.calibration.adjustment import AdjustedEstimate
from protocol.estimators.counts import Counts
from protocol.estimators.dependence.dependence import (
    Dependences,
    debiased_dependences,
    dependences,
    pairwise_dependences,
    raw_dependences,
)
from protocol.estimators.joint import Block, JointReports
from protocol.estimators.linear import LinearEstimate
from protocol.estimators.projection import Projection
from protocol.estimators.tables import marginal
from protocol.randomizers import KeepUniform
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.variants import RRClusters
from protocol.variants.clusters.clustering import Clusters, cluster, matched_blocks
from protocol.variants.reports.reports import cells_to_codes, randomized
from scenarios.data.adult import adult
from scenarios.papers.experiment import Asked
from scenarios.papers.laws import reported_counts, reported_pairs
from scenarios.running.queries import EstimatedTables, Pair

Project: TypeAlias = Literal["first", "last"]
Learnt: TypeAlias = Literal["exact", "rr", "rr-debiased", "pair-rr"]

Tables: TypeAlias = Callable[[tuple[int, ...]], Floats]
"""Estimated counts of attributes, by their places, in one run."""

RANDOMIZED = "Randomized"
INDEPENDENT = "RR-Independent"
CLUSTERS = "RR-Clusters"
ADJUSTED = " + Adjustment"

METHODS = (RANDOMIZED, INDEPENDENT, INDEPENDENT + ADJUSTED, CLUSTERS, CLUSTERS + ADJUSTED)


class Population:
    """Known respondents: their records, taken ``copies`` times over."""

    def __init__(self, records: Records, copies: int = 1) -> None:
        self.records = Records.joined([records] * copies)
        self.survey = records.survey
        self.n = len(self.records)
        self._known: dict[tuple[str, ...], NDArray[np.int64]] = {}

    def counts(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        """The exact contingency table of some attributes."""
        if names not in self._known:
            self._known[names] = self.records.counts(names)
        return self._known[names]

    def table(self, places: tuple[int, ...]) -> NDArray[np.int64]:
        """Table of attributes by their places; two may be the same."""
        names = tuple(self.survey.names[place] for place in dict.fromkeys(places))
        counts = self.counts(names)
        return counts if len(names) == len(places) else np.diag(counts)


@functools.lru_cache(maxsize=4)
def adult_population(data: Path | str | None, copies: int = 1) -> Population:
    """The respondents of Adult, so many times over."""
    return Population(adult(data), copies)


# Estimates drawn by the law of counts


def cluster_tables(
    population: Population,
    blocks: Sequence[Block],
    *,
    project: Project,
    generator: np.random.Generator,
) -> EstimatedTables:
    """Estimated counts of pairs in independent runs of RR-Clusters, as in sections 6.3 and 6.4.

    Every cluster's table is unmixed and clipped as a whole, then summed to the attributes asked
    for (``first``), or summed and then clipped (``last``). Different clusters are taken to be
    independent. Reports are drawn anew at every call.

    Args:
        population: the respondents.
        blocks: a partition of the attributes; each randomizer keeps or draws uniformly.
        project: when to clip.
        generator: decides the reports.
    """
    survey, n = population.survey, population.n
    by_name = {name: block for block in blocks for name in block.attributes}

    def shares(block: Block, names: tuple[str, ...], runs: int) -> Floats:
        raw = _draw_shares(population.counts(block.attributes), _keep(block), generator, runs)
        whole = clipped(raw) if project == "first" else raw
        found = marginal(whole, ("runs", *block.attributes), ("runs", *names))
        return clipped(found) if project == "last" else found

    def tables(pair: Pair, runs: int) -> Floats:
        first, second = (survey.names[place] for place in pair)
        if by_name[first] is by_name[second] and first != second:
            return n * shares(by_name[first], (first, second), runs)
        left = shares(by_name[first], (first,), runs)
        if first == second:
            return n * left[:, :, None] * np.eye(left.shape[1])
        right = shares(by_name[second], (second,), runs)
        return n * left[:, :, None] * right[:, None, :]

    return tables


def pair_tables(
    population: Population, blocks: Sequence[Block], *, generator: np.random.Generator
) -> EstimatedTables:
    """Estimated counts of pairs from the same reports, without taking anything for independent.

    A marginal of a keep randomizer is one that keeps as often. So the law of the reports on a pair
    follows from the pair's own table, in one cluster or in two that are randomized apart. The
    estimate is unmixed, and clipped last.
    """
    names, n = population.survey.names, population.n
    by_name = {name: block for block in blocks for name in block.attributes}

    def tables(pair: Pair, runs: int) -> Floats:
        left, right = (by_name[names[place]] for place in pair)
        true = population.table(pair)
        if left is right:
            return n * clipped(_draw_shares(true, _keep(left), generator, runs))
        keeps = _keep(left), _keep(right)
        raw = reported_pairs(true, keeps, generator, runs=runs) / n
        for axis, keep in enumerate(keeps, 1):
            raw = _unmix(raw, keep, axis)
        return n * clipped(raw)

    return tables


def joint_tables(population: Population, p: float, generator: np.random.Generator) -> Tables:
    """RR-Joint in one run: all attributes randomized as one, a marginal as in ``pair_tables``."""
    [whole] = matched_blocks(population.survey, [population.survey.names], p=p)
    return lambda places: (
        population.n
        * clipped(_draw_shares(population.table(places), _keep(whole), generator, 1)).squeeze(0)
    )


def _keep(block: Block) -> float:
    keep = block.randomizer.uniform_keep
    if keep is None:
        raise ValueError(f"block {block.attributes}: expected a keep randomizer")
    return keep


def _draw_shares(
    true: NDArray[np.int64], keep: float, generator: np.random.Generator, runs: int
) -> Floats:
    """Raw shares of one table in many runs, its cells randomized as one."""
    reported = reported_counts(true.reshape(-1), keep, generator, runs=runs) / true.sum()
    return _unmix(reported, keep, 1).reshape(runs, *true.shape)


def _unmix(shares: Floats, keep: float, axis: int) -> Floats:
    found: Floats = shares - (1 - keep) / shares.shape[axis] * shares.sum(axis=axis, keepdims=True)
    return found / keep


def clipped(raw: Floats) -> Floats:
    """Clip-and-rescale of every run's table (``clip_and_rescale`` for many tables at once)."""
    clipped: Floats = np.maximum(raw, 0.0)
    clipped /= clipped.sum(axis=tuple(range(1, raw.ndim)), keepdims=True)
    return clipped


# Clusters


def single_blocks(survey: Survey, p: float) -> tuple[Block, ...]:
    """RR-Independent: every attribute by itself, kept with probability p (6.3.1, corrected)."""
    return matched_blocks(survey, [(name,) for name in survey.names], p=p)


def learn(population: Population, p: float, learnt: Learnt, seed: int) -> Dependences:
    """Cramer's V of every pair, exact or from simulated reports at the setting's own p.

    ``rr`` and ``rr-debiased`` randomize every attribute by itself (section 4.1), ``pair-rr`` every
    pair as one that is kept with p (section 4.3).
    """
    survey, records = population.survey, population.records
    if learnt == "exact":
        tables = [population.counts(pair) for pair in combinations(survey.names, 2)]
        return dependences(
            tables, survey, measure="cramers-v", method="exact counts", epsilon=math.inf
        )
    streams = Streams.of_seed(seed)
    if learnt == "pair-rr":
        estimates = []
        for pair in combinations(survey.names, 2):
            stream = streams.stream("pair".join(pair), f"dependence {p}")
            keep = KeepUniform.with_keep(survey.project(pair).cells, p=p)
            estimates.append(report(records.project(pair), (Block(pair, keep),), stream))
        return pairwise_dependences(survey, estimates, measure="cramers-v")
    stream = streams.stream("all", f"dependence {p}")
    learned = raw_dependences if learnt == "rr" else debiased_dependences
    return learned(report(records, single_blocks(survey, p), stream), measure="cramers-v")


@functools.lru_cache(maxsize=8)
def _learn(
    data: Path | str | None, copies: int, p: float, learnt: Learnt, seed: int
) -> Dependences:
    return learn(adult_population(data, copies), p, learnt, seed)


def formed(
    asked: Asked[Any], *, tv: int, td: float, copies: int = 1, learnt: Learnt = "exact"
) -> Clusters:
    """The clusters of Adult that thresholds form."""
    p, seed = (0.0, 0) if learnt == "exact" else (asked.cell["p"], asked.seed)
    found = _learn(asked.data, copies, p, learnt, seed)
    return cluster(found, adult_population(asked.data, copies).survey, tv=tv, td=td)


def described(clusters: Clusters) -> str:
    """Clusters in words."""
    return ", ".join("{" + ", ".join(names) + "}" for names in clusters)


# Estimates from whole randomized records


def report(
    records: Records, blocks: tuple[Block, ...], stream: Stream
) -> LinearEstimate[JointReports]:
    """Randomize known records block by block, one stream for all, and estimate from the reports."""
    survey = records.survey
    codes = cells_to_codes(survey, blocks, randomized(records, blocks, stream))
    return LinearEstimate(JointReports(survey, blocks, Counts.of(codes, survey.sizes)))


def method_tables(
    alone: LinearEstimate[JointReports], clustered: LinearEstimate[JointReports] | None = None
) -> Mapping[str, Tables]:
    """The methods' tables, from reports on single attributes and maybe on clusters of them."""
    methods: dict[str, Tables] = {
        RANDOMIZED: lambda places: alone.source.counts.table(places).astype(np.float64),
        INDEPENDENT: product_of_blocks(alone),
    }
    if clustered is not None:
        methods |= {
            INDEPENDENT + ADJUSTED: estimate_tables(AdjustedEstimate.of(alone), "none"),
            CLUSTERS: product_of_blocks(clustered),
            CLUSTERS + ADJUSTED: estimate_tables(AdjustedEstimate.of(clustered), "none"),
        }
    return methods


def product_of_blocks(joint: LinearEstimate[JointReports], project: Project = "first") -> Tables:
    """RR-Independent and RR-Clusters: different blocks are taken to be independent.

    A block's table is clipped as a whole and then summed to the attributes asked for (6.4, as
    ``first``), or summed and then clipped (``last``).
    """
    table = functools.cache(lambda names: joint.table(*names, projection="clip").values)

    def tables(places: tuple[int, ...]) -> Floats:
        names = [joint.survey.names[place] for place in places]
        found, order = np.array(float(joint.n)), list[str]()
        for block in joint.source.blocks:
            if asked := tuple(name for name in block.attributes if name in names):
                whole = block.attributes if project == "first" else asked
                found = np.multiply.outer(found, marginal(table(whole), whole, asked))
                order += asked
        return marginal(found, order, names)

    return tables


def estimate_tables(
    estimate: LinearEstimate[JointReports] | AdjustedEstimate, projection: Projection = "clip"
) -> Tables:
    """The estimate's own tables, whether their attributes are in one block or not."""
    names = estimate.survey.names

    def tables(places: tuple[int, ...]) -> Floats:
        found = estimate.table(*(names[place] for place in places), projection=projection)
        return estimate.n * found.values

    return tables


def repeated(tables: Tables) -> EstimatedTables:
    """The tables of one run as the answer to every question."""

    def same(pair: Pair, runs: int) -> Floats:
        table = tables(pair)
        return np.broadcast_to(table, (runs, *table.shape))

    return same


def run_clusters(
    asked: Asked[Any],
    population: Population,
    *,
    tv: int,
    td: float,
    parties: int,
    learnt: Learnt = "exact",
) -> LinearEstimate[JointReports]:
    """RR-Clusters once by messages; exact dependences come from a secure sum (section 4.2).

    The estimate is that of the reports by cluster alone, as the paper has it.
    """
    variant = RRClusters(
        survey=population.survey,
        p=asked.cell["p"],
        tv=tv,
        td=td,
        dependence="secure-sum" if learnt == "exact" else learnt,
        measure="cramers-v",
    )
    return variant.final(asked.simulate(variant, population.records, parties).result)
