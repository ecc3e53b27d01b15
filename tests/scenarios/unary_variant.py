"""A variant whose randomizer is a user's own: optimised unary encoding, reported as bits."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.accounting.events import Derived, Plain, PrivacyEvent, Public, Randomized
from protocol.crypto.randomness import WORDS, Stream
from protocol.errors import LocalProtocolError, PrivacyError
from protocol.estimators.estimate import Estimate
from protocol.estimators.projection import Projection
from protocol.estimators.tables import Estimated, Table
from protocol.messages import AGGREGATOR, Message, PartyId
from protocol.randomizers import KeepUniform
from protocol.session.roles import Me, Seen
from protocol.session.variant import Variant
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.wire.arrays import Array, ArraySpec, Bounds
from protocol.wire.codec import Kind


class OptimizedUnary(msgspec.Struct, frozen=True):
    """The bit of the answer is 1 with probability 1/2, every other with ``threshold / 2**64``."""

    size: int
    threshold: int

    @property
    def epsilon(self) -> float:
        """``ln((1 - q) / q)``, with q the probability of a false 1."""
        return math.log((WORDS - self.threshold) / self.threshold)

    def randomize(self, codes: NDArray[np.unsignedinteger], stream: Stream) -> NDArray[np.uint8]:
        """Shape (k, size), 0 or 1."""
        bits = stream.bernoulli(self.threshold, (len(codes), self.size))
        bits[np.arange(len(codes)), codes] = stream.bernoulli(WORDS // 2, (len(codes),))
        return bits.astype(np.uint8)


class Unjudgeable(msgspec.Struct, frozen=True):
    """A randomizer that does not say its epsilon."""

    size: int


class Lowered(KeepUniform, frozen=True, tag="lowered"):
    """Keeps more often than its base class knows."""

    @property
    def epsilon(self) -> float:
        return 2 * super().epsilon


class Call(Message, frozen=True):
    """The aggregator asks."""

    survey: bytes


class Bits(Message, frozen=True):
    """``bits`` is (k, r), 0 or 1."""

    bits: Array


class Ones(Message, frozen=True):
    """The published result: ``ones`` is (r,), and of how many respondents."""

    ones: Array
    n: int


class Shares(Estimate):
    """Shares of one attribute's categories, from how often each bit was 1."""

    def __init__(self, survey: Survey, values: NDArray[np.float64], n: int) -> None:
        self.survey = survey
        self._values, self._n = values, n

    @property
    def n(self) -> int:
        return self._n

    def table(self, *names: str, projection: Projection = "none") -> Table:
        self.survey.axes(names)
        raw = Table(
            names=names,
            categories=(self.survey.attributes[0].categories,),
            values=self._values.copy(),
            standard_errors=None,
            population_errors=None,
            n=self._n,
        )
        return raw.projected(projection)

    def query(self, names: Sequence[str], weights: ArrayLike) -> Estimated:
        return Estimated(float(self._values @ self.checked_weights(names, weights)), None)


class Unary(Variant, frozen=True):
    """One question, one randomized vector of bits from each respondent.

    Args:
        threshold: of the randomizer.
    """

    name = "unary"
    heeds = ()

    threshold: int = WORDS // 4

    @functools.cached_property
    def randomizer(self) -> OptimizedUnary:
        """Of the survey's only attribute."""
        return OptimizedUnary(self.survey.sizes[0], self.threshold)

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        r, respondents = self.survey.sizes[0], parties * self.max_records
        shape = (Bounds(1, self.max_records), r)
        return (
            Kind(Call),
            Kind(Bits, bits=ArraySpec(dtype="u1", shape=shape, high=2)),
            Kind(Ones, ones=ArraySpec(dtype="u4", shape=(r,), high=respondents + 1)),
        )

    async def party(self, me: Me, records: Records) -> None:
        call = await me.receive(Call, AGGREGATOR)
        if call.survey != self.survey.digest:
            raise PrivacyError("asked about another survey than the one agreed to")
        bits = self.randomizer.randomize(records.codes[:, 0], me.stream_for(call))
        await me.send(AGGREGATOR, Bits(bits))

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Ones:
        await me.broadcast(parties, Call(self.survey.digest))
        heard = await me.gather(
            Bits, parties, within=self.patience, at_least=self.quorum_of(len(parties))
        )
        bits = np.concatenate([message.bits for message in heard.values()])
        return Ones(bits.sum(axis=0).astype(np.uint32), len(bits))

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        match message:
            case Call():
                return Public()
            case Bits():
                return Randomized(self.randomizer, self.survey.names)
            case Ones():
                return Derived()
            case _:
                return Plain(self.survey.names)

    def estimate(self, result: Message) -> Shares:
        if not isinstance(result, Ones):
            raise LocalProtocolError(f"{result.kind()!r} is not a result of {self.name!r}")
        q = self.threshold / WORDS
        return Shares(self.survey, (result.ones / result.n - q) / (0.5 - q), result.n)


class Silent(Unary, frozen=True):
    """The same records, judged by a class whose randomizer has no epsilon."""

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        if isinstance(message, Bits):
            return Randomized(Unjudgeable(4), self.survey.names)
        return super().reveals(message, seen)
