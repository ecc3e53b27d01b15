"""RR-Independent: every attribute is randomized by itself."""

from __future__ import annotations

import functools
from typing import Self

from protocol.accounting.accountants import PureAccountant
from protocol.estimators.joint import Block
from protocol.randomizers import CodeRandomizer, KeepUniform
from protocol.session.variant import Claim, Probability
from protocol.surveys.survey import Survey
from protocol.variants.reports.one_report import even_shares
from protocol.variants.reports.reports import Blockwise


class RRIndependent(Blockwise, frozen=True):
    """Protocol 1 of Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response.

    Args:
        randomizers: one per attribute, in the survey's order.
    """

    name = "rr-independent"

    randomizers: tuple[CodeRandomizer, ...]

    def __post_init__(self) -> None:
        if len(self.randomizers) != len(self.survey.attributes):
            raise ValueError(
                f"{len(self.randomizers)} randomizers for {len(self.survey.attributes)} attributes"
            )
        super().__post_init__()

    @classmethod
    def with_keep(cls, survey: Survey, p: Probability) -> Self:
        """Keep every answer, else draw uniformly (section 6.3.1, corrected).

        Args:
            p: probability of keeping an answer.
        """
        return cls(
            survey=survey,
            randomizers=tuple(KeepUniform.with_keep(size, p=p) for size in survey.sizes),
        )

    @classmethod
    def with_epsilon(cls, survey: Survey, epsilon: float) -> Self:
        """Spend ``epsilon`` per record, split evenly over the attributes."""
        randomizers = even_shares(
            survey.sizes, epsilon, lambda size, share: KeepUniform.with_epsilon(size, epsilon=share)
        )
        return cls(survey=survey, randomizers=randomizers)

    @functools.cached_property
    def blocks(self) -> tuple[Block, ...]:
        """One block per attribute."""
        return tuple(
            Block((name,), randomizer)
            for name, randomizer in zip(self.survey.names, self.randomizers, strict=True)
        )

    def claims(self) -> tuple[Claim, ...]:
        loss = PureAccountant().judge(self.report_event)
        return (
            Claim(
                source="Multi-Dimensional Randomized Response, Expression (4)",
                says="each attribute's epsilon from its matrix; the record's is their sum",
                epsilon=loss.record,
            ),
        )
