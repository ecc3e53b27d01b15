"""A stranger's frequency oracle: optimised unary encoding, by its law alone, and a scenario."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from protocol import (
    AGGREGATOR,
    Array,
    ArraySpec,
    Attribute,
    Bounds,
    Derived,
    Kind,
    LocalProtocolError,
    Me,
    Message,
    OutputClass,
    PartyId,
    Plain,
    PrivacyError,
    PrivacyEvent,
    Public,
    Randomized,
    Randomizer,
    Records,
    Seen,
    SharesEstimate,
    Stream,
    Survey,
    Variant,
)
from scenarios import Context, Finished, Scenario


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


class Call(Message, frozen=True):
    """The aggregator asks."""

    survey: bytes


class Bits(Message, frozen=True):
    """One report per respondent."""

    bits: Array


class Ones(Message, frozen=True):
    """The published result: how often each bit was 1, and of how many respondents."""

    ones: Array
    n: int


class Oracle(Variant, frozen=True):
    """One question, one randomized vector of bits from each respondent."""

    name = "stranger-oue"
    heeds = ()

    epsilon: float = 1.0

    @functools.cached_property
    def randomizer(self) -> Oue:
        """Of the survey's only attribute."""
        other = math.ceil(Fraction(2**64) / (1 + Fraction(math.exp(self.epsilon))))
        return Oue(self.survey.sizes[0], other)

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        high = parties * self.max_records + 1
        return (
            Kind(Call),
            Kind(Bits, bits=self.randomizer.reports(Bounds(1, self.max_records))),
            Kind(Ones, ones=ArraySpec(dtype="u4", shape=(self.survey.sizes[0],), high=high)),
        )

    async def party(self, me: Me, records: Records) -> None:
        call = await me.receive(Call, AGGREGATOR)
        if call.survey != self.survey.digest:
            raise PrivacyError("asked about another survey than the one agreed to")
        codes = records.codes[:, 0]
        await me.send(AGGREGATOR, Bits(self.randomizer.randomize(codes, me.stream_for(call))))

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Ones:
        await me.broadcast(parties, Call(self.survey.digest))
        quorum = self.quorum_of(len(parties))
        heard = await me.gather(Bits, parties, within=self.patience, at_least=quorum)
        bits = np.concatenate([message.bits for message in heard.values()])
        return Ones(self.randomizer.tally(bits).astype(np.uint32), len(bits))

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

    def estimate(self, result: Message) -> SharesEstimate:
        if not isinstance(result, Ones):
            raise LocalProtocolError(f"{result.kind()!r} is not a result of {self.name!r}")
        totals = result.ones.astype(np.int64)
        return SharesEstimate(self.survey, self.survey.names, self.randomizer, totals, result.n)


class Chosen(Oracle, frozen=True):
    """The same, with the randomizer itself in the header."""

    name = "stranger-chosen"

    given: Oue = Oue(16, 2**62)

    @property
    def randomizer(self) -> Oue:  # type: ignore[override]
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


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ``--set`` can set."""

    epsilon: Annotated[float, Meta(gt=0, description="of one report")] = 1.0
    people: Annotated[int, Meta(ge=1, description="how many are asked")] = 48


def run(parameters: Parameters, context: Context) -> Finished:
    """Ask the people."""
    codes = (np.arange(parameters.people) % 16 % 11).astype(np.uint8)[:, np.newaxis]
    records = Records.from_codes(LETTERS, codes)
    variant = Oracle(survey=LETTERS, epsilon=parameters.epsilon)
    return Finished(outcome=context.simulate(variant, records, parties=6))


SCENARIOS = (
    Scenario(name="letters", summary="A stranger's oracle.", parameters=Parameters, run=run),
)
