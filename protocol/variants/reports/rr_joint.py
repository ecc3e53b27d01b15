"""RR-Joint: all attributes are randomized together, as one over the product domain."""

from __future__ import annotations

import functools
from typing import Self

from protocol.estimators.joint import Block
from protocol.randomizers import CodeRandomizer, KeepUniform
from protocol.session.variant import Claim
from protocol.surveys.survey import Survey
from protocol.variants.reports.reports import Blockwise


class RRJoint(Blockwise, frozen=True):
    """Protocol 2 of Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response.

    Args:
        randomizer: over the product of all attributes, row-major in the survey's order. With
            keep-else-uniform the domain may have millions of cells: no matrix is ever formed.
    """

    name = "rr-joint"

    randomizer: CodeRandomizer

    @classmethod
    def with_keep(cls, survey: Survey, p: float) -> Self:
        """Keep the whole record with probability p, else draw one of all combinations."""
        return cls(survey=survey, randomizer=KeepUniform.with_keep(survey.cells, p=p))

    @classmethod
    def with_epsilon(cls, survey: Survey, epsilon: float) -> Self:
        """Spend ``epsilon`` per record."""
        return cls(
            survey=survey, randomizer=KeepUniform.with_epsilon(survey.cells, epsilon=epsilon)
        )

    @functools.cached_property
    def blocks(self) -> tuple[Block, ...]:
        """One block of all attributes."""
        return (Block(self.survey.names, self.randomizer),)

    def claims(self) -> tuple[Claim, ...]:
        return (
            Claim(
                source="Multi-Dimensional Randomized Response, Expression (4)",
                says="the epsilon of the matrix over all combinations",
                epsilon=self.randomizer.epsilon,
            ),
        )
