"""Variants with planted leaks, and each of them without; no tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from protocol import (
    AGGREGATOR,
    Array,
    ArraySpec,
    Attribute,
    Bounds,
    Derived,
    ExactCounts,
    ExactTables,
    KeepUniform,
    Kind,
    LinearEstimate,
    LocalProtocolError,
    Masked,
    MatrixRandomizer,
    Me,
    Message,
    PartyId,
    Plain,
    PrivacyEvent,
    Public,
    Randomized,
    Records,
    Seen,
    Stream,
    Survey,
    randomize_columns,
)
from protocol.crypto.randomness import WORDS, expand
from protocol.sharing.masks import expand_mask
from protocol.variants import RRIndependent
from protocol.variants.reports.reports import Ask, Pooled, Report, blocks_event, consent, randomized

THREE = Survey("three", (Attribute(name="mood", categories=("low", "even", "high")),))
MATRIX = MatrixRandomizer.from_probabilities([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.05, 0.15, 0.8]])
"""Of an answer to it, with different rows."""

FOUR = Survey("four", (Attribute(name="grade", categories=("a", "b", "c", "d")),))
TWO = Survey(
    "habits",
    (
        Attribute(name="smokes", categories=("no", "yes")),
        Attribute(name="drinks", categories=("no", "yes")),
    ),
)
ONE = Survey("habit", (Attribute(name="smokes", categories=("no", "yes")),))


def some(survey: Survey, n: int) -> Records:
    """Records that differ from one another."""
    codes = Stream(bytes(32)).integers(np.array(survey.sizes), (n, len(survey.sizes)))
    return Records(survey, codes)


class Forgetful(RRIndependent, frozen=True):
    """Reports as they are with a chance of ``share``, without a word of it."""

    name = "forgetful"

    share: float = 0.0

    async def party(self, me: Me, records: Records) -> None:
        ask = await me.receive(Ask, AGGREGATOR)
        consent(self.survey, self.blocks, ask)
        codes = randomized(records, ask.blocks, me.stream_for(ask))
        stream = me.stream_for(ask, "forgets")
        forgotten = stream.bernoulli(int(self.share * WORDS), codes.shape)
        await me.send(AGGREGATOR, Report(np.where(forgotten, records.codes, codes)))


class PartlyForgetful(RRIndependent, frozen=True):
    """Forgets to randomize one of its attributes."""

    name = "partly-forgetful"

    forgotten: int = -1

    async def party(self, me: Me, records: Records) -> None:
        ask = await me.receive(Ask, AGGREGATOR)
        codes = randomized(records, ask.blocks, me.stream_for(ask))
        if self.forgotten >= 0:
            codes[:, self.forgotten] = records.codes[:, self.forgotten]
        await me.send(AGGREGATOR, Report(codes))


class Biased(RRIndependent, frozen=True):
    """Keeps answers with another probability than it declares."""

    name = "biased"

    factor: float = 1.0

    async def party(self, me: Me, records: Records) -> None:
        ask = await me.receive(Ask, AGGREGATOR)
        coins = tuple(
            KeepUniform.with_keep(r.size, p=r.keep * self.factor)
            for r in self.randomizers
            if isinstance(r, KeepUniform)
        )
        codes = randomize_columns(coins, records.codes, me.stream_for(ask))
        await me.send(AGGREGATOR, Report(codes))


class Again(Message, frozen=True):
    """The same question, for the second time."""

    survey: bytes


class Repeated(Message, frozen=True):
    """The answer to it."""

    codes: Array


class AskedTwice(RRIndependent, frozen=True):
    """The aggregator asks twice; the second answer is a draw of its own, or the truth."""

    name = "asked-twice"

    truthful: bool = False

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        codes = ArraySpec(
            dtype="u1",
            shape=(Bounds(1, self.max_records), len(self.survey.sizes)),
            high=self.survey.sizes,
        )
        return (*super().kinds(parties), Kind(Again), Kind(Repeated, codes=codes))

    async def party(self, me: Me, records: Records) -> None:
        await super().party(me, records)
        again = await me.receive(Again, AGGREGATOR)
        codes = randomized(records, self.blocks, me.stream_for(again))
        await me.send(AGGREGATOR, Repeated(records.codes if self.truthful else codes))

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Pooled:
        pooled = await super().aggregator(me, parties)
        await me.broadcast(parties, Again(self.survey.digest))
        await me.gather(Repeated, parties, within=self.patience)
        return pooled

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        match message:
            case Again():
                return Public()
            case Repeated():
                return blocks_event(self.blocks)
            case _:
                return super().reveals(message, seen)

    def most(self) -> float:
        return 2 * super().most()


class Go(Message, frozen=True):
    """The aggregator opens the sum of one attribute."""

    round: int


class Hidden(Message, frozen=True):
    """A party's counts of one attribute, under its masks."""

    round: int
    values: Array


class Summed(Message, frozen=True):
    """The published result: the counts of all attributes, one after the other."""

    respondents: int
    totals: Array


class MaskedTwice(RRIndependent, frozen=True, kw_only=True):
    """Two secure sums, one per attribute, under masks that every two parties have agreed on.

    Each sum has masks of its own, or both have the same: then the difference of a party's uploads
    is the difference of its counts.
    """

    name = "masked-twice"
    whole_roster = True
    heeds = ()

    reused: bool = False
    randomizers: tuple[KeepUniform, ...] = ()

    def __post_init__(self) -> None:
        if self.survey != TWO:
            raise ValueError("made for one survey")

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        n = parties * self.max_records
        return (
            Kind(Go),
            Kind(Hidden, values=ArraySpec(dtype="u4", shape=(2,))),
            Kind(Summed, totals=ArraySpec(dtype="u4", shape=(4,), high=n + 1)),
        )

    async def party(self, me: Me, records: Records) -> None:
        for number in range(2):
            await me.receive(Go, AGGREGATOR, round=number)
            values = np.bincount(records.codes[:, number], minlength=2).astype("<u4")
            label = b"masks" if self.reused else b"masks %d" % number
            for name in me.roster.parties:
                if name != me.id:
                    seed = expand(me.agree(me.roster.key(name)), me.session + label)
                    mask = expand_mask(seed, 2, bits=32)
                    values = values + mask if me.id < name else values - mask
            await me.send(AGGREGATOR, Hidden(number, values))

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Summed:  # its own result
        totals = []
        for number in range(2):
            await me.broadcast(parties, Go(number))
            said = await me.gather(
                Hidden, parties, round=number, within=self.patience, at_least=len(parties)
            )
            totals.append(np.sum([hidden.values for hidden in said.values()], axis=0, dtype="<u4"))
        return Summed(int(totals[0].sum()), np.concatenate(totals))

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        match message:
            case Go():
                return Public()
            case Hidden() if message.round in (0, 1):
                return Masked(ExactCounts((self.survey.names[message.round],)))
            case Summed():
                return Derived()
            case _:
                return Plain(self.survey.names)

    def estimate(self, result: Message) -> LinearEstimate[ExactTables]:  # of that
        if not isinstance(result, Summed):
            raise LocalProtocolError(f"{result.kind()!r} is not a result of {self.name!r}")
        parts = np.split(result.totals.astype(np.int64), 2)
        names = ((name,) for name in self.survey.names)
        return LinearEstimate(ExactTables(self.survey, dict(zip(names, parts, strict=True))))


class Silent(RRIndependent, frozen=True):
    """Fails if its respondent's first answer is the last category, and never else."""

    name = "silent"

    sensitive: bool = False

    async def party(self, me: Me, records: Records) -> None:
        if self.sensitive and int(records.codes[0, 0]) == self.survey.sizes[0] - 1:
            raise ValueError("cannot say that")
        await super().party(me, records)


class Understated(RRIndependent, frozen=True):
    """Says in its event that a report is about its first attribute alone."""

    name = "understated"

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        if isinstance(message, Report):
            return Randomized(self.randomizers[0], self.survey.names[:1])
        return super().reveals(message, seen)


class Beside(Message, frozen=True):
    """A word that is said beside the report, and should tell nothing."""

    body: Array
    number: float


class Talkative(RRIndependent, frozen=True, kw_only=True):
    """Says a public word beside its report, and ``how`` that comes tells its first true answer.

    Without a ``how`` it is always the same word.
    """

    name = "talkative"
    whole_roster = True

    how: str = ""

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        body = ArraySpec(dtype="u1", shape=(Bounds(0, 64),))
        return (*super().kinds(parties), Kind(Beside, body=body))

    async def party(self, me: Me, records: Records) -> None:
        ask = await me.receive(Ask, AGGREGATOR)
        codes = randomized(records, ask.blocks, me.stream_for(ask))
        truth = int(records.codes[0, 0])
        body, number, to = np.zeros(64, np.uint8), 0.5, AGGREGATOR
        match self.how:
            case "by its length":
                body = np.zeros(truth, np.uint8)
            case "far behind":
                body[40] = truth
            case "in the last bits":
                number += 1e-9 * truth
            case "by whom it tells":
                others = [party for party in me.roster.parties if party != me.id]
                to = others[truth]
            case "by the order of rows":
                codes = codes[np.argsort(records.codes[:, 0], kind="stable")]
            case _:
                pass
        word, early = Beside(body, number), self.how == "by coming early" and truth
        if early:
            await me.send(to, word)
        await me.send(AGGREGATOR, Report(codes))
        if not early and (truth or self.how != "by coming at all"):
            await me.send(to, word)

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        return Public() if isinstance(message, Beside) else super().reveals(message, seen)
