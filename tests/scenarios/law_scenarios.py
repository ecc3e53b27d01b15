"""Scenarios of a user's own, whose people may be drawn by law."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np

from protocol import (
    Array,
    ArraySpec,
    Attribute,
    Bounds,
    Estimate,
    ExactTables,
    FrequencyOracle,
    Law,
    LinearEstimate,
    MatrixRandomizer,
    Message,
    OneReport,
    Records,
    Request,
    Stream,
    Survey,
    Variant,
)
from protocol.variants import RRIndependent
from scenarios import Context, Finished, Positive, Scenario, crash, simulate

CHEATS = Survey("Taxes", (Attribute(name="cheats", categories=("no", "yes")),))


class Warner(FrequencyOracle, frozen=True):
    """A randomizer of one's own."""

    name = "warner"

    @property
    def randomizer(self) -> MatrixRandomizer:
        return MatrixRandomizer.from_probabilities([[0.8, 0.2], [0.2, 0.8]])


class Truths(Message, frozen=True):
    """A party's answers, as they are."""

    codes: Annotated[Array, ArraySpec(shape=(Bounds(1, "max_records"), 1), high=2)]


class Sums(Message, frozen=True):
    """How many there are of each."""

    counts: Annotated[Array, ArraySpec(dtype="u4", shape=(2,), most="respondents")]


class Honest(OneReport[Request, Truths, Truths], frozen=True):
    """Everybody says the truth."""

    name = "honest"
    messages = (Request, Truths, Sums)

    def answer(self, records: Records, question: Request, stream: Stream) -> Truths:
        return Truths(records.codes)

    def pooled(self, reports: Sequence[Truths]) -> Sums:
        codes = np.concatenate([report.codes for report in reports])[:, 0]
        return Sums(np.bincount(codes, minlength=2).astype(np.uint32))

    def estimate(self, result: Message) -> Estimate:
        counts = self.published(result, Sums).counts.astype(np.int64)
        return LinearEstimate(ExactTables(self.survey, {("cheats",): counts}))


class Largest(Honest, frozen=True):
    """Its result is the larger count, which does not add up."""

    name = "largest"

    def pooled(self, reports: Sequence[Truths]) -> Sums:
        counts = super().pooled(reports).counts
        return Sums(np.where(counts == counts.max(), counts, 0))


class Other(Variant, frozen=True):
    """A variant of which nothing is known."""

    name = "other"


def drawn(n: int, stream: Stream) -> Records:
    """People of whom three in ten cheat."""
    return Records(CHEATS, (stream.words(n) / 2**64 < 0.3).astype("u1").reshape(-1, 1))


def people(context: Context, people: Positive = 1000) -> Records:
    """Some people.

    Args:
        people: how many are asked.
    """
    law = Law(CHEATS, "a law of three cheats in ten", drawn)
    return context.drawn(drawn(people, context.stream("people")), law)


def _of(variant: type[Variant]) -> Scenario:
    return Scenario.of(variant, name=variant.name, summary=f"{variant.name}.", records=people)


class NoParameters(msgspec.Struct, frozen=True):
    """Nothing can be set."""


def unheard(parameters: NoParameters, context: Context) -> Finished:
    """Asks nobody through its context."""
    return Finished(outcome=simulate(RRIndependent.with_keep(CHEATS, 0.6), people(context)))


def departing(parameters: NoParameters, context: Context) -> Finished:
    """Injects faults."""
    variant = RRIndependent.with_keep(CHEATS, 0.6)
    rules = [crash(0.5, kind="Report")]
    return Finished(outcome=context.simulate(variant, people(context), rules=rules))


def held_up(parameters: NoParameters, context: Context) -> Finished:
    """Catches all errors on its way."""
    try:
        outcome = context.simulate(RRIndependent.with_keep(CHEATS, 0.6), people(context))
    except Exception:
        raise AssertionError("caught") from None
    return Finished(outcome=outcome)


SCENARIOS = (
    *map(_of, (Warner, Honest, Largest, Other)),
    *(
        Scenario(name=run.__name__, summary="One.", parameters=NoParameters, run=run)
        for run in (unheard, departing, held_up)
    ),
)
