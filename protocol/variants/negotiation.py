"""From counts to clusters that everybody who holds the counts computes alike; no messages.

Three ways to learn the dependences (Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized
Response, sections 4.1 to 4.3), one result, and Algorithm 1 on it.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.estimators.clustering import Clusters, cluster, matched_blocks
from protocol.estimators.counts import Counts
from protocol.estimators.dependence import (
    Dependences,
    debiased_dependences,
    dependences,
    pairwise_dependences,
    raw_dependences,
)
from protocol.estimators.joint import Block, JointEstimate
from protocol.randomizers import KeepUniform
from protocol.survey import Survey
from protocol.variants.pair_rr import pair_randomizers, pairwise_estimate
from protocol.variants.tallies import Layout, all_pairs, layout_of

Dependence: TypeAlias = Literal["rr", "rr-debiased", "secure-sum", "pair-rr"]
"""How dependences are learned: section 4.1 as printed or with its bias taken off, 4.2, 4.3."""


class Negotiated(NamedTuple):
    """What follows from the counts.

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
        """Names the clusters and how they are randomized."""
        return hashlib.sha256(b"clusters" + msgspec.msgpack.encode(self.blocks)).digest()


class Negotiation(msgspec.Struct, frozen=True, kw_only=True, dict=True, eq=False):
    """How clusters follow from counts.

    Args:
        survey: what is asked.
        dependence: how the dependences are learned.
        p: the keep probability of an attribute by itself, and of a pair.
        tv: T_v, the most combinations of categories in a cluster.
        td: T_d, the least dependence of clusters that are merged.
        measure: of dependence, by name.
    """

    survey: Survey
    dependence: Dependence
    p: float
    tv: int
    td: float
    measure: str

    @functools.cached_property
    def pilot(self) -> tuple[Block, ...]:
        """Every attribute by itself: what section 4.1 asks with."""
        return matched_blocks(self.survey, [(name,) for name in self.survey.names], p=self.p)

    @functools.cached_property
    def pairs(self) -> tuple[KeepUniform, ...]:
        """The randomizer of every pair: what section 4.3 asks with."""
        return pair_randomizers(self.survey, self.p)

    @functools.cached_property
    def layout(self) -> Layout:
        """How the counts of all pairs are laid out in one vector."""
        return layout_of(self.survey, all_pairs(self.survey))

    def from_totals(self, totals: NDArray[np.integer]) -> Negotiated:
        """From the summed counts of all pairs, true or randomized.

        Raises:
            ValueError: they are no counts.
        """
        return self._remembered(totals.astype("<u4").tobytes())

    def from_reports(self, counts: Counts) -> Negotiated:
        """From the pooled reports on every attribute by itself.

        Raises:
            ValueError: they are of another survey, or of nobody.
        """
        estimate = JointEstimate(self.survey, self.pilot, counts)
        learn = raw_dependences if self.dependence == "rr" else debiased_dependences
        return self._clustered(learn(estimate, measure=self.measure))

    @functools.cached_property
    def _known(self) -> dict[bytes, Negotiated]:
        return {}

    def _remembered(self, totals: bytes) -> Negotiated:
        # Tens of thousands of parties in one process compute the same of the same.
        known = self._known.get(totals)
        if known is None:
            self._known.clear()
            known = self._known[totals] = self._from_totals(np.frombuffer(totals, "<u4"))
        return known

    def _from_totals(self, totals: NDArray[np.integer]) -> Negotiated:
        tables = self.layout.split(totals)
        if self.dependence == "pair-rr":
            estimates = pairwise_estimate(self.survey, self.pairs, tables).estimates
            learned = pairwise_dependences(self.survey, estimates, measure=self.measure)
        else:
            learned = dependences(
                list(tables.values()),
                self.survey,
                measure=self.measure,
                method="secure-sum",
                epsilon=np.inf,
            )
        return self._clustered(learned)

    def _clustered(self, learned: Dependences) -> Negotiated:
        clusters = cluster(learned, self.survey, tv=self.tv, td=self.td)
        return Negotiated(learned, clusters, matched_blocks(self.survey, clusters, p=self.p))
