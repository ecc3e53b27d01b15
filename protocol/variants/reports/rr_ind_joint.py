"""RR-Ind-Joint: attributes or clusters are randomized separately, and estimated jointly."""

from __future__ import annotations

import functools
import math

from protocol.estimators.joint import Block
from protocol.session.variant import Claim, Probability
from protocol.surveys.survey import Survey
from protocol.variants.clusters.clustering import matched_blocks
from protocol.variants.reports.reports import Blockwise


class RRIndJoint(Blockwise, frozen=True, kw_only=True):
    """Kikuchi and Domingo-Ferrer, RR-Ind-Joint, Algorithm 3, for any set of attributes.

    The reports are those of RR-Independent, or of clusters that are known beforehand; the estimate
    combines the inverses of the blocks concerned by mode products and assumes no independence.

    Args:
        p: probability of keeping an attribute by itself. A cluster gets the matched epsilon.
        clusters: which attributes are randomized together; by default none.
    """

    name = "rr-ind-joint"

    p: Probability
    clusters: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def with_keep(cls, survey: Survey, p: float) -> RRIndJoint:
        """Keep every answer with probability p."""
        return cls(survey=survey, p=p)

    @functools.cached_property
    def blocks(self) -> tuple[Block, ...]:
        """One block per cluster."""
        clusters = self.clusters or tuple((name,) for name in self.survey.names)
        return matched_blocks(self.survey, clusters, p=self.p)

    def claims(self) -> tuple[Claim, ...]:
        return (
            Claim(
                source="RR-Ind-Joint, section 2",
                says="each attribute's epsilon from its matrix; the record's is their sum",
                epsilon=math.fsum(block.randomizer.epsilon for block in self.blocks),
            ),
        )
