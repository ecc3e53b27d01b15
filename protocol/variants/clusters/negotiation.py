"""Clusters from counts: every holder of the counts computes the same ones.

There are three ways to learn the dependences (Domingo-Ferrer and Soria-Comas, Multi-Dimensional
Randomized Response, sections 4.1 to 4.3), with one kind of result, and Algorithm 1 on it.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.estimators.counts import Counts
from protocol.estimators.dependence.dependence import (
    Dependences,
    debiased_dependences,
    dependences,
    measure_for,
    pairwise_dependences,
    raw_dependences,
)
from protocol.estimators.joint import Block, JointReports
from protocol.estimators.linear import LinearEstimate
from protocol.estimators.releases.exact import ExactTables
from protocol.estimators.releases.noisy import NoisyTables
from protocol.estimators.releases.release import Group, Release, block_groups
from protocol.randomizers import KeepUniform
from protocol.randomizers.coins import Noise
from protocol.surveys.survey import Survey
from protocol.variants.clusters.clustering import Clusters, cluster, matched_blocks
from protocol.variants.sums.pair_rr import pair_estimates, pair_randomizers, pair_releases
from protocol.variants.sums.tallies import Layout, Names, all_pairs, make_layout

Dependence: TypeAlias = Literal["rr", "rr-debiased", "secure-sum", "pair-rr"]
"""Ways to learn dependences: section 4.1 as printed or with its bias taken off, 4.2, 4.3."""


class Negotiated(NamedTuple):
    """Clusters, with their dependences and randomizers.

    Args:
        dependences: of every pair of attributes.
        clusters: a partition of the attributes.
        blocks: the clusters with their randomizers.
    """

    dependences: Dependences
    clusters: Clusters
    blocks: tuple[Block, ...]

    @property
    def digest(self) -> bytes:
        """The digest of the clusters and of how they are randomized."""
        return hashlib.sha256(b"clusters" + msgspec.msgpack.encode(self.blocks)).digest()


class Negotiation(msgspec.Struct, frozen=True, kw_only=True, dict=True, eq=False):
    """Rule by which clusters follow from counts.

    Args:
        survey: the survey that is asked.
        dependence: how the dependences are learned.
        p: the keep probability of an attribute by itself, and of a pair.
        tv: T_v, the most combinations of categories in a cluster.
        td: T_d, the least dependence of clusters that are merged.
        measure: of dependence, by name.
        noise: the coins that every party adds to each count; None for exact counts, or counts of
            reports.
    """

    survey: Survey
    dependence: Dependence
    p: float
    tv: int
    td: float
    measure: str
    noise: Noise | None = None

    @functools.cached_property
    def pilot(self) -> tuple[Block, ...]:
        """Every attribute by itself: the blocks of the question of section 4.1."""
        return matched_blocks(self.survey, [(name,) for name in self.survey.names], p=self.p)

    @functools.cached_property
    def pairs(self) -> tuple[KeepUniform, ...]:
        """The randomizer of every pair, for the question of section 4.3."""
        return pair_randomizers(self.survey, self.p)

    @functools.cached_property
    def layout(self) -> Layout:
        """Layout of the counts of all pairs in one vector."""
        return make_layout(self.survey, all_pairs(self.survey))

    def from_totals(
        self, totals: NDArray[np.integer], respondents: int = 0, parties: int = 0
    ) -> Negotiated:
        """Negotiate from the counts of all pairs, in one vector: true ones, or of reports.

        Args:
            respondents, parties: how many were counted, and how many spoke for them; for counts
                with coins.

        Raises:
            ValueError: they are not counts of the same respondents.
        """
        # Tens of thousands of parties in one process compute the same of the same.
        key = totals.astype("<u4").tobytes(), respondents, parties
        known = self._known.get(key)
        if known is None:
            self._known.clear()
            learned = self._learned(self.layout.split(totals), respondents, parties)
            known = self._known[key] = self._clustered(learned)
        return known

    def releases(
        self, totals: NDArray[np.integer], respondents: int = 0, parties: int = 0
    ) -> tuple[Release | NoisyTables, ...]:
        """Releases of the answers from the counts of all pairs.

        Args:
            respondents, parties: as of ``from_totals``.
        """
        tables = self.layout.split(totals)
        if self.noise is not None:
            return (self._noisy_estimate(tables, respondents, parties, self.noise).source,)
        match self.dependence:
            case "secure-sum":
                return (Release.of_tables((Group(self.survey.names, 1.0),), tables),)
            case "pair-rr":
                return pair_releases(self.survey, self.pairs, tables)
            case "rr" | "rr-debiased":
                return (Release.of_tables(block_groups(self.pilot), tables),)

    @functools.cached_property
    def _known(self) -> dict[tuple[bytes, int, int], Negotiated]:
        return {}

    def _learned(
        self, tables: dict[Names, NDArray[np.int64]], respondents: int, parties: int
    ) -> Dependences:
        measure, survey, noise = self.measure, self.survey, self.noise
        if noise is not None:
            counted = self._noisy_estimate(tables, respondents, parties, noise)
            return debiased_dependences(counted, measure=measure)
        if self.dependence != "pair-rr":
            # Made for its checks: tables of the same records have margins that agree.
            ExactTables(survey, tables)
        match self.dependence:
            case "secure-sum":
                return dependences(
                    list(tables.values()),
                    survey,
                    measure=measure,
                    method=self.dependence,
                    epsilon=math.inf,
                )
            case "pair-rr":
                estimates = pair_estimates(survey, self.pairs, tables)
                return pairwise_dependences(survey, estimates, measure=measure)
            case "rr" | "rr-debiased":
                learn = raw_dependences if self.dependence == "rr" else debiased_dependences
                pairs = [learn(e, measure=measure) for e in self._report_estimates(tables)]
                epsilon = math.fsum(block.randomizer.epsilon for block in self.pilot)
                # One report was enough for all of them.
                return Dependences.joined(survey.names, pairs, epsilon=epsilon)

    def estimates(
        self, totals: NDArray[np.integer], respondents: int = 0, parties: int = 0
    ) -> Sequence[LinearEstimate[JointReports | NoisyTables]]:
        """An estimate of every pair, from the counts of all of them.

        Args:
            respondents, parties: as of ``from_totals``.

        Raises:
            ValueError: the counts are exact, or not of the same respondents.
        """
        tables = self.layout.split(totals)
        if self.noise is not None:
            return [self._noisy_estimate(tables, respondents, parties, self.noise)] * len(tables)
        if self.dependence == "secure-sum":
            raise ValueError("the counts are exact: they need no estimate")
        if self.dependence == "pair-rr":
            return pair_estimates(self.survey, self.pairs, tables)
        return self._report_estimates(tables)

    def _noisy_estimate(
        self, tables: dict[Names, NDArray[np.int64]], respondents: int, parties: int, noise: Noise
    ) -> LinearEstimate[NoisyTables]:
        trials = parties * noise.trials
        return LinearEstimate(NoisyTables(self.survey, tables, respondents, trials, noise.chance))

    def _report_estimates(
        self, tables: dict[Names, NDArray[np.int64]]
    ) -> list[LinearEstimate[JointReports]]:
        """An estimate of every pair from the table of its reports."""
        blocks = {block.attributes[0]: block for block in self.pilot}
        estimates = []
        for names, table in tables.items():
            pair = Survey(self.survey.title, tuple(map(self.survey.attribute, names)))
            own = tuple(blocks[name] for name in names)
            source = JointReports(pair, own, Counts.from_table(table))
            estimates.append(LinearEstimate(source))
        return estimates

    def _clustered(self, learned: Dependences) -> Negotiated:
        attributes = combinations(self.survey.attributes, 2)
        used = {measure_for(first, second, self.measure).name for first, second in attributes}
        learned = replace(
            learned,
            method=self.dependence,
            measure=used.pop() if len(used) == 1 else self.measure,
        )
        clusters = self.make_clusters(learned)
        return Negotiated(learned, clusters, matched_blocks(self.survey, clusters, p=self.p))

    def make_clusters(self, learned: Dependences) -> Clusters:
        """The clusters of learned dependences: of cautious ones, if their bias is subtracted.

        The dependence of a pair with a larger table varies more. So among many that are close to
        each other, or to T_d, the most uncertain would rank first.
        """
        if self.dependence == "rr-debiased" or self.noise is not None:
            learned = replace(learned, matrix=np.nan_to_num(learned.cautious))
        return self.merged(learned)

    def merged(self, ranked: Dependences) -> Clusters:
        """Algorithm 1 of these dependences, as they are."""
        return cluster(ranked, self.survey, tv=self.tv, td=self.td)
