"""What the reproductions of the first paper share: respondents, dependences, methods.

Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, section 6. Estimates come
either from the exact law of the counts of reports (``ClusterTables``) or from whole randomized
records (``report`` and ``methods_of``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Literal, TypeAlias

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
from protocol.estimators.joint import Block, JointEstimate
from protocol.randomizers import KeepUniform, randomize_columns
from protocol.randomizers.exact import Floats
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.variants import RRClusters
from protocol.variants.clusters.clustering import Clusters, matched_blocks
from protocol.variants.reports.reports import cells_of, codes_of
from scenarios.datasets.adult import adult
from scenarios.reproductions.laws import reported_counts, reported_pairs
from scenarios.reproductions.rr.queries import EstimatedTables, Pair
from scenarios.running.outcomes import Outcome
from scenarios.running.scenario import Context

Project: TypeAlias = Literal["first", "last"]
Learnt: TypeAlias = Literal["exact", "rr", "rr-debiased", "pair-rr"]

PARTIES = 50
"""Over how many parties records are spread by messages; pair counts are summed among them."""

MEDIAN_NOTE = "standard errors of medians are by order statistics"

RANDOMIZED = "Randomized"
INDEPENDENT = "RR-Independent"
CLUSTERS = "RR-Clusters"
ADJUSTED = " + Adjustment"

METHODS = (
    RANDOMIZED,
    INDEPENDENT,
    INDEPENDENT + ADJUSTED,
    CLUSTERS,
    CLUSTERS + ADJUSTED,
)


class Population:
    """Known respondents: their records, taken ``copies`` times over.

    Attributes:
        survey: what they were asked.
        n: how many they are.
    """

    def __init__(self, records: Records, copies: int = 1) -> None:
        self.survey = records.survey
        self.n = len(records) * copies
        self._once = records
        self._copies = copies
        self._known: dict[tuple[str, ...], NDArray[np.int64]] = {}

    @property
    def records(self) -> Records:
        """All records."""
        return Records.joined([self._once] * self._copies)

    def counts(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        """The exact contingency table of some attributes."""
        if names not in self._known:
            self._known[names] = self._once.counts(names) * self._copies
        return self._known[names]

    def pair(self, pair: Pair) -> NDArray[np.int64]:
        """The exact contingency table of two attributes, by their places, which may be the same."""
        first, second = pair
        if first == second:
            return np.diag(self.counts((self.survey.names[first],)))
        return self.counts((self.survey.names[first], self.survey.names[second]))


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
        true = population.counts(block.attributes)
        raw = _drawn(true.reshape(-1), n, _keep(block), generator, runs)
        if project == "first":
            raw = clipped(raw)
        axes = [block.attributes.index(name) for name in names]
        others = tuple(1 + axis for axis in range(true.ndim) if axis not in axes)
        summed = raw.reshape(runs, *true.shape).sum(axis=others)
        ranks = [sorted(axes).index(axis) for axis in axes]
        found = summed.transpose(0, *(1 + rank for rank in ranks))
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

    A marginal of a keep randomizer is one that keeps as often, so the reports on a pair have their
    law from its own table: of one cluster, or of two that are randomized apart. It is unmixed, and
    clipped last.
    """
    survey, n = population.survey, population.n
    by_name = {name: block for block in blocks for name in block.attributes}

    def tables(pair: Pair, runs: int) -> Floats:
        left, right = (by_name[survey.names[place]] for place in pair)
        true = population.pair(pair)
        if left is right:
            raw = _drawn(true.reshape(-1), n, _keep(left), generator, runs)
            return n * clipped(raw).reshape(runs, *true.shape)
        keeps = _keep(left), _keep(right)
        raw = reported_pairs(true, keeps, generator, runs=runs) / n
        for axis, keep in enumerate(keeps, 1):
            raw = (raw - (1 - keep) / raw.shape[axis] * raw.sum(axis=axis, keepdims=True)) / keep
        return n * clipped(raw)

    return tables


def _keep(block: Block) -> float:
    keep = block.randomizer.uniform_keep
    if keep is None:
        raise ValueError(f"block {block.attributes}: expected a keep randomizer")
    return keep


def _drawn(
    true: NDArray[np.int64], n: int, keep: float, generator: np.random.Generator, runs: int
) -> Floats:
    """Raw shares of one domain in many runs."""
    reported = reported_counts(true, keep, generator, runs=runs)
    raw: Floats = reported / (n * keep) - (1 - keep) / (keep * true.size)
    return raw


def clipped(raw: Floats) -> Floats:
    """Clip-and-rescale of every run's table (``clip_and_rescale`` for many tables at once)."""
    clipped: Floats = np.maximum(raw, 0.0)
    clipped /= clipped.sum(axis=tuple(range(1, raw.ndim)), keepdims=True)
    return clipped


@functools.lru_cache(maxsize=4)
def population_of(data: Path | str | None, copies: int = 1) -> Population:
    """The respondents of Adult, so many times over."""
    return Population(adult(data), copies)


def single_blocks(survey: Survey, p: float) -> tuple[Block, ...]:
    """RR-Independent: every attribute by itself, kept with probability p (6.3.1, corrected)."""
    return matched_blocks(survey, [(name,) for name in survey.names], p=p)


def learn(population: Population, p: float, learnt: Learnt, seed: int) -> Dependences:
    """Cramer's V of every pair, exact or from simulated reports at the setting's own p.

    ``rr`` and ``rr-debiased`` randomize every attribute by itself (section 4.1), ``pair-rr`` every
    pair as one that is kept with p (section 4.3).
    """
    survey = population.survey
    if learnt == "exact":
        tables = [population.pair(pair) for pair in combinations(range(len(survey.names)), 2)]
        return dependences(
            tables, survey, measure="cramers-v", method="exact counts", epsilon=math.inf
        )
    streams = Streams.of_seed(seed)
    if learnt == "pair-rr":
        estimates = []
        for pair in combinations(survey.names, 2):
            asked = survey.project(pair)
            part = Records(asked, population.records.codes[:, survey.axes(pair)])
            stream = streams.stream("pair".join(pair), f"dependence {p}")
            keep = KeepUniform.with_keep(asked.cells, p=p)
            estimates.append(report(part, (Block(pair, keep),), stream))
        return pairwise_dependences(survey, estimates, measure="cramers-v")
    estimate = report(
        population.records, single_blocks(survey, p), streams.stream("all", f"dependence {p}")
    )
    learned = raw_dependences if learnt == "rr" else debiased_dependences
    return learned(estimate, measure="cramers-v")


def report(records: Records, blocks: Sequence[Block], stream: Stream) -> JointEstimate:
    """Randomize known records block by block, one stream for all, and estimate from the reports."""
    survey = records.survey
    randomizers = tuple(block.randomizer for block in blocks)
    cells = cells_of(records, tuple(blocks), tuple(keep.size for keep in randomizers))
    codes = codes_of(survey, tuple(blocks), randomize_columns(randomizers, cells, stream))
    return JointEstimate(survey, tuple(blocks), Counts.of(codes, survey.sizes))


def described(clusters: Clusters) -> str:
    """Clusters in words."""
    return ", ".join("{" + ", ".join(names) + "}" for names in clusters)


Tables: TypeAlias = Callable[[Pair], Floats]
"""Estimated counts of a pair in one run, shape (r_i, r_j)."""


def methods_of(
    alone: JointEstimate, clustered: JointEstimate | None = None
) -> Mapping[str, Tables]:
    """The methods' tables, from reports on single attributes and maybe on clusters of them."""
    methods: dict[str, Tables] = {
        RANDOMIZED: lambda pair: alone.counts.table(pair).astype(np.float64),
        INDEPENDENT: product_of_blocks(alone),
    }
    if clustered is not None:
        methods |= {
            INDEPENDENT + ADJUSTED: adjusted_reports(alone),
            CLUSTERS: product_of_blocks(clustered),
            CLUSTERS + ADJUSTED: adjusted_reports(clustered),
        }
    return methods


def product_of_blocks(joint: JointEstimate, project: Project = "first") -> Tables:
    """RR-Independent and RR-Clusters: different blocks are taken to be independent.

    A block's table is clipped as a whole and then summed to the attributes asked for (6.4, as
    ``first``), or summed and then clipped (``last``).
    """
    survey = joint.survey
    block_of = {name: block.attributes for block in joint.blocks for name in block.attributes}
    clipped = {
        block.attributes: joint.table(*block.attributes, projection="clip").values
        for block in joint.blocks
        if project == "first"
    }

    def shares(*names: str) -> Floats:
        attributes = block_of[names[0]]
        if project == "last":
            return joint.table(*names, projection="clip").values
        others = tuple(axis for axis, name in enumerate(attributes) if name not in names)
        summed: Floats = clipped[attributes].sum(axis=others)
        return summed if names[0] == next(n for n in attributes if n in names) else summed.T

    def tables(pair: Pair) -> Floats:
        first, second = (survey.names[place] for place in pair)
        if block_of[first] == block_of[second]:
            return joint.n * shares(first, second)
        return joint.n * np.multiply.outer(shares(first), shares(second))

    return tables


def pairs_of(joint: JointEstimate) -> Tables:
    """Every pair by itself, whether its attributes are in one block or not, clipped."""
    names = joint.survey.names

    def tables(pair: Pair) -> Floats:
        return joint.n * joint.table(*(names[place] for place in pair), projection="clip").values

    return tables


def adjusted_reports(joint: JointEstimate) -> Tables:
    """RR-Adjustment of the same reports."""
    adjusted = AdjustedEstimate.of(joint)
    names = joint.survey.names
    return lambda pair: joint.n * adjusted.table(*(names[place] for place in pair)).values


def repeated(tables: Tables) -> EstimatedTables:
    """The tables of one run as the answer to every question."""

    def same(pair: Pair, runs: int) -> Floats:
        table = tables(pair)
        return np.broadcast_to(table, (runs, *table.shape))

    return same


def run_clusters(
    population: Population,
    context: Context,
    *,
    p: float,
    tv: int,
    td: float,
    learnt: Learnt = "exact",
    parties: int = PARTIES,
) -> tuple[Outcome, JointEstimate]:
    """RR-Clusters once by messages; exact dependences come from a secure sum (section 4.2).

    The estimate is that of the reports by cluster alone, as the paper has it.
    """
    variant = RRClusters(
        survey=population.survey,
        p=p,
        tv=tv,
        td=td,
        dependence="secure-sum" if learnt == "exact" else learnt,
        measure="cramers-v",
    )
    records = population.records
    outcome = context.simulate(variant, records, parties=min(parties, len(records)))
    return outcome, variant.final(outcome.result)
