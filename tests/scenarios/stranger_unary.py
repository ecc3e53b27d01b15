"""A stranger's frequency oracle: optimised unary encoding, by its law alone, and a scenario."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from protocol import (
    Array,
    ArraySpec,
    Attribute,
    FrequencyOracle,
    OutputClass,
    Randomizer,
    Records,
    Stream,
    Survey,
)
from scenarios import Context, Positive, Scenario


class Oue(Randomizer, frozen=True):
    """The bit of the answer is 1 with probability 1/2, every other with ``other / 2**64``."""

    symmetric = True

    size: int
    other: int

    @property
    def report(self) -> ArraySpec:
        return ArraySpec(dtype="u1", shape=(self.size,), high=2)

    def randomize(self, codes: Array, stream: Stream) -> Array:
        bits = stream.bernoulli(self.other, (len(codes), self.size))
        bits[np.arange(len(codes)), codes] = stream.bernoulli(2**63, len(codes))
        return bits.astype(np.uint8)

    def law(self, first: int, second: int) -> tuple[OutputClass, ...]:
        half, q = Fraction(1, 2), Fraction(self.other, 2**64)
        return (
            OutputClass(half * (1 - q), half * (1 - q), (False, False)),
            OutputClass(half * (1 - q), half * q, (True, False)),
            OutputClass(half * q, half * (1 - q), (False, True)),
            OutputClass(half * q, half * q, (True, True)),
        )

    def classify(self, reports: Array, first: int, second: int) -> Array:
        return reports[:, first] + 2 * reports[:, second]


class Oracle(FrequencyOracle, frozen=True):
    """One question, one randomized vector of bits from each respondent.

    Args:
        epsilon: of one report.
    """

    name = "stranger-oue"

    epsilon: float = 1.0

    @functools.cached_property
    def randomizer(self) -> Oue:
        """Of the survey's only attribute."""
        other = math.ceil(Fraction(2**64) / (1 + Fraction(math.exp(self.epsilon))))
        return Oue(self.survey.sizes[0], other)


class Chosen(Oracle, frozen=True):
    """The same, with the randomizer itself in the header."""

    name = "stranger-chosen"

    given: Oue = Oue(16, 2**62)

    @property
    def randomizer(self) -> Oue:
        """The given one."""
        return self.given


class Understated(Oue, frozen=True):
    """Says half of what it costs."""

    @property
    def epsilon(self) -> float:
        return super().epsilon / 2


class Underdominated(Oue, frozen=True):
    """Its dominating pair is of a weaker encoding."""

    @property
    def dominating(self) -> Any:
        return Oue(self.size, self.other + 2**60).dominating


class Lying(Oracle, frozen=True):
    """Its randomizer understates its epsilon."""

    name = "stranger-lying"

    @functools.cached_property
    def randomizer(self) -> Oue:
        return Understated(self.survey.sizes[0], super().randomizer.other)


class Weakened(Oracle, frozen=True):
    """Its randomizer's dominating pair does not dominate."""

    name = "stranger-weakened"

    @functools.cached_property
    def randomizer(self) -> Oue:
        return Underdominated(self.survey.sizes[0], super().randomizer.other)


LETTERS = Survey("Letters", (Attribute(name="letter", categories=tuple("abcdefghijklmnop")),))


def people(context: Context, people: Positive = 48) -> Records:
    """Some people.

    Args:
        people: how many are asked.
    """
    codes = (np.arange(people) % 16 % 11).astype(np.uint8)[:, np.newaxis]
    return Records(LETTERS, codes)


SCENARIOS = (
    Scenario.of(Oracle, name="letters", summary="A stranger's oracle.", records=people, parties=6),
)
