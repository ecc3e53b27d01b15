"""Means of numbers: every attribute is a number on a grid, and is reported separately."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

import numpy as np

from protocol.errors import SurveyError
from protocol.messages import Message
from protocol.randomizers.means.means import MeanRandomizer
from protocol.randomizers.means.one_bit import OneBitMean
from protocol.randomizers.means.piecewise import PiecewiseMean
from protocol.session.variant import Claim
from protocol.variants.numeric.estimate import NumericMeans
from protocol.variants.numeric.scales import Scale, attribute_scale
from protocol.variants.oracles.attributes import AttributeTallies, EvenShares

Mechanism: TypeAlias = Literal["one-bit", "piecewise"]

SOURCES: Mapping[Mechanism, str] = MappingProxyType(
    {
        "one-bit": "Minimax Optimal Procedures for Locally Private Estimation",
        "piecewise": (
            "Collecting and Analyzing Multidimensional Data with Local Differential Privacy"
        ),
    }
)
"""The papers of the mechanisms."""

_MAKERS: Mapping[Mechanism, Callable[[int, float], MeanRandomizer]] = MappingProxyType(
    {
        "one-bit": lambda size, epsilon: OneBitMean.with_epsilon(size, epsilon=epsilon),
        "piecewise": lambda size, epsilon: PiecewiseMean.with_epsilon(size, epsilon=epsilon),
    }
)


class NumericMean(EvenShares, frozen=True, kw_only=True):
    """A report on every attribute, a number, with an even share of epsilon each.

    The categories of an attribute are numbers that rise in equal steps, such as "-1", "-0.5", "0".

    Args:
        mechanism: one-bit (Duchi, Jordan and Wainwright) or piecewise (Wang et al.).

    Raises:
        ValueError: the categories of an attribute are not such numbers; names it.
    """

    name = "numeric-mean"

    mechanism: Mechanism = "piecewise"

    def __post_init__(self) -> None:
        super().__post_init__()
        # Made here, so that errors are raised at once.
        try:
            _ = self.scales
        except SurveyError as error:
            raise ValueError(f"not a survey of numbers: {error}") from error

    @functools.cached_property
    def scales(self) -> tuple[Scale, ...]:
        """Numbers of the categories of each attribute."""
        return tuple(map(attribute_scale, self.survey.attributes))

    @functools.cached_property
    def randomizers(self) -> tuple[MeanRandomizer, ...]:
        return self.evenly(_MAKERS[self.mechanism])

    @functools.cached_property
    def lengths(self) -> tuple[int, ...]:
        """The length of a tally of each attribute."""
        return tuple(one.outcomes for one in self.randomizers)

    @functools.cached_property
    def cells(self) -> int:
        """The length of all tallies."""
        return sum(self.lengths)

    def estimate(self, result: Message) -> NumericMeans:
        found = self.published(result, AttributeTallies)
        if (found.reports != found.respondents).any():
            raise ValueError(f"expected {found.respondents} reports on every attribute")
        return NumericMeans(
            self.survey,
            self.scales,
            self.randomizers,
            tuple(np.split(found.totals.astype(np.int64), np.cumsum(self.lengths)[:-1])),
            found.respondents,
        )

    def claims(self) -> tuple[Claim, ...]:
        says = "a report on a number costs its share of epsilon"
        return (Claim(source=SOURCES[self.mechanism], says=says, epsilon=self.epsilon),)
