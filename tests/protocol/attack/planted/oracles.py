"""Oracles in protocols of one report by oracles, marginals, keys and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import msgspec
import numpy as np

from protocol import (
    AGGREGATOR,
    Array,
    ArraySpec,
    Bounds,
    Derived,
    Kind,
    Me,
    Message,
    PartyId,
    PrivacyError,
    PrivacyEvent,
    QuorumError,
    Records,
    Request,
    Seen,
    Variant,
)
from protocol.variants import (
    InpHT,
    InpPS,
    InpRR,
    MargHT,
    MargPS,
    MargRR,
    NumericMean,
    PrivKVMVariant,
    PrivKVVariant,
    RsFd,
    Smp,
    Spl,
)
from protocol.variants.keyvalue.privkv import Fakes, KeyReport
from protocol.variants.marginals.variant import Counted
from tests.protocol.attack.planted.speech import (
    Doubt,
    Hold,
    Receipt,
    Release,
    Reminder,
    aside,
    peek,
)

PATIENCE = 5.0
"""How long a party that has reported waits for a reminder, in seconds."""


class Reported(msgspec.Struct, frozen=True):
    """What a party of ``reported`` has been asked, and has said."""

    question: Request
    report: Message


async def reported(variant: Any, me: Me, records: Records) -> Reported:
    """A party's honest part: hear the question, consent, report."""
    question = await me.receive(Request, AGGREGATOR)
    variant.consent(question)
    report = variant.answer(records, question, me.stream_for(question))
    await me.send(AGGREGATOR, report)
    return Reported(question, report)


class Reminded(InpRR, frozen=True, kw_only=True):
    """Repeats its report when it is reminded, unless it has nothing but first categories."""

    name = "reminded"

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        return (*super().kinds(parties), Kind(Reminder))

    async def party(self, me: Me, records: Records) -> None:
        done = await reported(self, me, records)
        with suppress(QuorumError):
            await me.receive(Reminder, AGGREGATOR, round=0, within=PATIENCE)
            if records.codes.any():
                await me.send(AGGREGATOR, done.report)


class AskingBack(InpPS, frozen=True, kw_only=True):
    """Says what it was asked about if that is another survey and it has an answer to tell."""

    name = "asking-back"

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        return (*super().kinds(parties), Kind(Doubt))

    async def party(self, me: Me, records: Records) -> None:
        question = await me.receive(Request, AGGREGATOR)
        if question.survey != self.survey.digest and records.codes[:, 0].any():
            await me.send(AGGREGATOR, Doubt("survey"))
        self.consent(question)
        await me.send(AGGREGATOR, self.answer(records, question, me.stream_for(question)))

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        return aside(message, seen, super().reveals)


class Again(Message, frozen=True):
    """Said to be the report once more."""

    scalar_bytes = 32

    respondents: int
    bits: Annotated[Array, ArraySpec(dtype="u1", shape=(Bounds(1, "octets"),))]


class DrawnAnew(InpHT, frozen=True, kw_only=True):
    """Says that it repeats its report when it is reminded, and draws another one."""

    name = "drawn-anew"

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        octets = ArraySpec(dtype="u1", shape=(Bounds(1, self.octets),))
        return (*super().kinds(parties), Kind(Reminder), Kind(Again, bits=octets))

    async def party(self, me: Me, records: Records) -> None:
        await reported(self, me, records)
        with suppress(QuorumError):
            again = await me.receive(Reminder, AGGREGATOR, round=0, within=PATIENCE)
            drawn = self.answer(records, again, me.stream_for(again))
            await me.send(AGGREGATOR, Again(drawn.respondents, drawn.bits))

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        return Derived() if isinstance(message, Again) else super().reveals(message, seen)


class Checking(MargRR, frozen=True, kw_only=True):
    """Hears the result, and objects to one that is false where that concerns its answer."""

    name = "checking"
    stages = Variant.stages

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        return (*super().kinds(parties), Kind(Doubt))

    async def party(self, me: Me, records: Records) -> None:
        await reported(self, me, records)
        with suppress(QuorumError):
            found = await me.receive(Counted, AGGREGATOR, within=PATIENCE)
            people = (len(me.roster) - 1) * self.max_records
            if int(found.reports.sum()) > people and records.codes[:, 0].any():
                await me.send(AGGREGATOR, Doubt(self.survey.names[0]))

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Message:
        result = await super().aggregator(me, parties)
        await me.broadcast(parties, result)
        return result

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        return aside(message, seen, super().reveals)


class Renamed(MargPS, frozen=True, kw_only=True):
    """Reminded before it was asked, it takes another survey for this one if it has little to lose.

    It takes two moves: a reminder that comes first, and another survey.
    """

    name = "renamed"
    stages = Variant.stages

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        return (*super().kinds(parties), Kind(Hold))

    async def party(self, me: Me, records: Records) -> None:
        early = await peek(me, Hold)
        question = await me.receive(Request, AGGREGATOR)
        if early is None or records.codes[:, 0].any():
            self.consent(question)
        await me.send(AGGREGATOR, self.answer(records, question, me.stream_for(question)))


class Impatient(MargHT, frozen=True, kw_only=True):
    """Asked to hold its report, it sends it all the same where all is in the first category."""

    name = "impatient"
    stages = Variant.stages

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        return (*super().kinds(parties), Kind(Hold), Kind(Release))

    async def party(self, me: Me, records: Records) -> None:
        question = await me.receive(Request, AGGREGATOR)
        self.consent(question)
        report = self.answer(records, question, me.stream_for(question))
        if await peek(me, Hold) is not None and records.codes[:, 0].any():
            await me.receive(Release, AGGREGATOR)
        await me.send(AGGREGATOR, report)


class Wanted(Message, frozen=True):
    """The aggregator lacks reports on a key. An honest one never says so."""

    key: int


class Obliging(PrivKVVariant, frozen=True, kw_only=True):
    """Reports on the key that is wanted if it holds that one."""

    name = "obliging"
    stages = Variant.stages

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        return (*super().kinds(parties), Kind(Wanted))

    async def party(self, me: Me, records: Records) -> None:
        wanted = await peek(me, Wanted)
        request = await me.receive(Request, AGGREGATOR)
        self.check_asked(request.survey)
        each, stream = self.client.each, me.stream_for(request)
        rows, keys = np.arange(len(records)), each.sampled(len(records), stream)
        if wanted is not None and 0 <= wanted.key < self.client.keys:
            holds = ~np.isnan(self.values[wanted.key, records.codes[:, wanted.key]])
            keys[holds] = wanted.key
        held = self.values[keys, records.codes[rows, keys]]
        bits = each.perturb_keys(held, stream)
        await me.send(AGGREGATOR, KeyReport(0, keys, each.perturb_values(held, bits, stream)))


class Sparing(PrivKVMVariant, frozen=True, kw_only=True):
    """Checks the fakes of a further round only where it uses them: for a key that it lacks."""

    name = "sparing"
    stages = Variant.stages

    async def party(self, me: Me, records: Records) -> None:
        request = await me.receive(Request, AGGREGATOR)
        self.check_asked(request.survey)
        each, stream = self.client.each, me.stream_for(request)
        keys = each.sampled(len(records), stream)
        held = self.values[keys, records.codes[np.arange(len(records)), keys]]
        bits = each.perturb_keys(held, stream)
        await me.send(AGGREGATOR, KeyReport(0, keys, each.perturb_values(held, bits, stream)))
        for round_ in range(1, self.repeats):
            question = await me.receive(Fakes, AGGREGATOR, round=round_)
            if not len(question.means):
                return
            if len(question.means) != len(records):
                raise PrivacyError("asked with values for other respondents")
            used = np.where(np.isnan(held), question.means, 0.0)
            if (np.abs(used) > 1).any():
                raise PrivacyError("asked with values for missing keys outside [-1, 1]")
            stream = me.stream_for(question)
            symbols = each.perturb_values(held, bits, stream, fakes=used)
            await me.send(AGGREGATOR, KeyReport(round_, keys, symbols))


class Insistent(Spl, frozen=True, kw_only=True):
    """Reminded, and told not to wait, it says that it has answered: as often as its last answer.

    It takes two moves: a reminder, and a release that comes as well.
    """

    name = "insistent"

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        return (*super().kinds(parties), Kind(Reminder), Kind(Release), Kind(Receipt))

    async def party(self, me: Me, records: Records) -> None:
        await reported(self, me, records)
        with suppress(QuorumError):
            await me.receive(Reminder, AGGREGATOR, round=0, within=PATIENCE)
            await me.receive(Release, AGGREGATOR, within=PATIENCE)
            for _ in range(int(records.codes[0, -1])):
                await me.send(AGGREGATOR, Receipt("answered"))

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        return aside(message, seen, super().reveals)


class Wordy(Smp, frozen=True, kw_only=True):
    """Reminded, it says what it has answered about: its length tells the answer."""

    name = "wordy"

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        return (*super().kinds(parties), Kind(Reminder), Kind(Receipt))

    async def party(self, me: Me, records: Records) -> None:
        await reported(self, me, records)
        with suppress(QuorumError):
            await me.receive(Reminder, AGGREGATOR, round=0, within=PATIENCE)
            said = self.survey.attributes[-1].categories[int(records.codes[0, -1])]
            await me.send(AGGREGATOR, Receipt("*" * len(said)))

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        return aside(message, seen, super().reveals)


class Hasty(RsFd, frozen=True, kw_only=True):
    """Asked to hold, it says so before its report or after it, by its first answer."""

    name = "hasty"
    stages = Variant.stages

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        return (*super().kinds(parties), Kind(Hold), Kind(Receipt))

    async def party(self, me: Me, records: Records) -> None:
        held = await peek(me, Hold)
        first = bool(records.codes[:, 0].any())
        if held is not None and first:
            await me.send(AGGREGATOR, Receipt("held"))
        await reported(self, me, records)
        if held is not None and not first:
            await me.send(AGGREGATOR, Receipt("held"))

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        return aside(message, seen, super().reveals)


class Scale(Message, frozen=True):
    """What range of codes the first number is in."""

    low: int
    high: int


class Clipped(NumericMean, frozen=True, kw_only=True):
    """Refuses a range that its own number is not in."""

    name = "clipped"
    stages = Variant.stages

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        return (*super().kinds(parties), Kind(Scale))

    async def party(self, me: Me, records: Records) -> None:
        question = await me.receive(Request, AGGREGATOR)
        self.consent(question)
        scale = await me.receive(Scale, AGGREGATOR)
        codes = records.codes[:, 0]
        if (codes < scale.low).any() or (codes > scale.high).any():
            raise PrivacyError("asked for a number in another range")
        await me.send(AGGREGATOR, self.answer(records, question, me.stream_for(question)))

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Message:
        await me.broadcast(parties, Scale(0, self.survey.sizes[0] - 1))
        return await super().aggregator(me, parties)
