"""A stranger's oracle that is charged for what its randomizer states, without a law."""

from __future__ import annotations

import math

import msgspec

from protocol import KeepUniform, Message, PrivacyEvent, Randomized, Seen
from protocol.crypto.randomness import WORDS
from tests.scenarios.stranger_unary import Oracle


class OptimizedUnary(msgspec.Struct, frozen=True):
    """States its epsilon and nothing else; a false bit is 1 with ``threshold / 2**64``."""

    size: int
    threshold: int

    @property
    def epsilon(self) -> float:
        """``ln((1 - q) / q)``, with q the probability of a false 1."""
        return math.log((WORDS - self.threshold) / self.threshold)


class Unjudgeable(msgspec.Struct, frozen=True):
    """A randomizer that does not say its epsilon."""

    size: int


class Lowered(KeepUniform, frozen=True, tag="lowered"):
    """Keeps more often than its base class knows."""

    @property
    def epsilon(self) -> float:
        return 2 * super().epsilon


class Unary(Oracle, frozen=True):
    """One question, one randomized vector of bits from each respondent."""

    name = "unary"

    epsilon: float = math.log(3)

    def report_reveals(self, report: Message, seen: Seen) -> PrivacyEvent:
        return Randomized(self.stated, self.survey.names)

    @property
    def stated(self) -> OptimizedUnary | Unjudgeable:
        """What stands for the randomizer in the ledger."""
        return OptimizedUnary(self.survey.sizes[0], self.randomizer.other)


class Silent(Unary, frozen=True):
    """The same records, judged by a class whose randomizer has no epsilon."""

    @property
    def stated(self) -> OptimizedUnary | Unjudgeable:
        return Unjudgeable(4)
