"""Variants and scenarios of a user's own, named on the command line as a file."""

from __future__ import annotations

import math
import signal
from collections.abc import Sequence

import msgspec

from protocol import (
    AGGREGATOR,
    Cells,
    JointReports,
    Kind,
    LinearEstimate,
    Me,
    Message,
    PartyId,
    Plain,
    PrivacyEvent,
    Public,
    Records,
    Seen,
    Stream,
)
from protocol.variants import RRIndependent
from protocol.variants.reports.reports import Ask, Pooled, Report
from scenarios import Context, Finished, Scenario, crash, delay, duplicate, town


class PlainAnswers(RRIndependent, frozen=True):
    """Everybody answers truthfully."""

    name = "plain-answers"

    async def party(self, me: Me, records: Records) -> None:
        await me.receive(Ask, AGGREGATOR)
        await me.send(AGGREGATOR, Report(records.codes))

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        return Plain(self.survey.names) if isinstance(message, Report) else Public()

    def most(self) -> float:
        return math.inf


class EachAlone(LinearEstimate[JointReports]):
    """Tables of one attribute."""

    def cells(self, names: tuple[str, ...]) -> Cells:
        if len(names) > 1:
            raise ValueError("one attribute alone")
        return super().cells(names)


class Apart(RRIndependent, frozen=True):
    """Estimates one attribute at a time, by reports of its own."""

    name = "apart"

    def answer(self, records: Records, question: Ask, stream: Stream) -> Report:
        return super().answer(records, question, stream)

    def estimate(self, result: Message) -> EachAlone:
        found = super().estimate(result)
        return EachAlone(found.source)


class Call(Message, frozen=True):
    """A roll call, with a number that the aggregator drew."""

    round: int
    number: int


class Here(Message, frozen=True):
    """The answer to a roll call."""

    round: int


class RollCall(RRIndependent, frozen=True):
    """Two roll calls, then RR-Independent."""

    name = "roll-call"

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        return (Kind(Call), Kind(Here), *super().kinds(parties))

    async def party(self, me: Me, records: Records) -> None:
        for number in range(2):
            await me.receive(Call, AGGREGATOR, round=number)
            await me.send(AGGREGATOR, Here(number))
        await super().party(me, records)

    async def aggregator(self, me: Me, parties: Sequence[PartyId]) -> Pooled:
        for number in range(2):
            drawn = int(me.stream.integers(2**32))
            await me.broadcast(parties, Call(number, drawn))
            await me.gather(Here, parties, round=number, within=self.patience)
        return await super().aggregator(me, parties)

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        if isinstance(message, Call | Here):
            return Public()
        return super().reveals(message, seen)


class Interrupted(RRIndependent, frozen=True):
    """Somebody presses Ctrl-C while a party answers."""

    name = "interrupted"

    async def party(self, me: Me, records: Records) -> None:
        await me.receive(Ask, AGGREGATOR)
        signal.raise_signal(signal.SIGINT)


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing can be set."""


def _plain(parameters: Parameters, context: Context) -> Finished:
    records = town(40, seed=context.seed)
    variant = PlainAnswers.with_keep(records.survey, 0.999999)
    return Finished(outcome=context.simulate(variant, records))


def _roll_call(parameters: Parameters, context: Context) -> Finished:
    records = town(40, seed=context.seed)
    variant = RollCall.with_keep(records.survey, 0.6)
    return Finished(outcome=context.simulate(variant, records), extra={"own": 1})


def _faulty(parameters: Parameters, context: Context) -> Finished:
    records = town(40, seed=context.seed)
    variant = RollCall.with_keep(records.survey, 0.6)
    rules = (crash(0.2, kind="Here"), duplicate(0.5, kind="Report"), delay(0.001, kind="Call"))
    return Finished(outcome=context.simulate(variant, records, rules=rules))


def _interrupted(parameters: Parameters, context: Context) -> Finished:
    records = town(4, seed=context.seed)
    return Finished(outcome=context.simulate(Interrupted.with_keep(records.survey, 0.6), records))


SCENARIOS = tuple(
    Scenario(name=name, summary="One of a user's own.", parameters=Parameters, run=run)
    for name, run in (
        ("plain", _plain),
        ("roll-call", _roll_call),
        ("faulty", _faulty),
        ("interrupted", _interrupted),
    )
)
