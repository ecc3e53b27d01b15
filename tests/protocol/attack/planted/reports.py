"""Oracles in protocols of one report by blocks, in RRBA and in RR-Clusters.

Each lets a hostile aggregator read an answer from what a party does outwardly, and none shows as
long as the aggregator is honest.
"""

from __future__ import annotations

from typing import Any

import msgspec

from protocol import (
    AGGREGATOR,
    Kind,
    Me,
    Message,
    PrivacyEvent,
    Records,
    RemoteProtocolError,
    Seen,
    join_codes,
)
from protocol.variants import RRBA, RRClusters, RRIndependent, RRIndJoint, RRJoint
from protocol.variants.clusters.rr_clusters import Proposal
from protocol.variants.reports.reports import Ask, Report, consent, randomized
from protocol.variants.rrba.rrba import Question
from tests.protocol.attack.planted.speech import Doubt, aside, listening


class Unworried(RRIndependent, frozen=True):
    """Reckons only what it is asked about answers other than the first category."""

    name = "unworried"

    async def party(self, me: Me, records: Records) -> None:
        ask = await me.receive(Ask, AGGREGATOR)
        blocks = tuple(
            own if place < len(self.blocks) and not records.codes[:, place].any() else asked
            for place, (asked, own) in enumerate(zip(ask.blocks, self.blocks, strict=False))
        )
        consent(self.survey, self.blocks, msgspec.structs.replace(ask, blocks=blocks))
        await me.send(AGGREGATOR, Report(randomized(records, ask.blocks, me.stream_for(ask))))


class Outside(RRJoint, frozen=True):
    """Refuses for another reason where its own answers are not among those asked about."""

    name = "outside"

    async def party(self, me: Me, records: Records) -> None:
        ask = await me.receive(Ask, AGGREGATOR)
        cells = join_codes(records.codes, self.survey.sizes)
        if any((cells >= block.randomizer.size).any() for block in ask.blocks):
            raise RemoteProtocolError("an answer that it has no room for", field="Ask.blocks")
        self.consent(ask)
        await me.send(AGGREGATOR, self.answer(records, ask, me.stream_for(ask)))


class Objecting(RRIndJoint, frozen=True, kw_only=True):
    """Names the attribute that was asked about otherwise than agreed, if that concerns it."""

    name = "objecting"

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        return (*super().kinds(parties), Kind(Doubt))

    async def party(self, me: Me, records: Records) -> None:
        ask = await me.receive(Ask, AGGREGATOR)
        self.consent(ask)
        for place, (asked, own) in enumerate(zip(ask.blocks, self.blocks, strict=True)):
            if asked != own and records.codes[:, place].any():
                await me.send(AGGREGATOR, Doubt(self.survey.names[place]))
        await me.send(AGGREGATOR, self.answer(records, ask, me.stream_for(ask)))

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        return aside(message, seen, super().reveals)


class Trusting(RRClusters, frozen=True, kw_only=True):
    """Takes whatever clusters are proposed where it has nothing but first categories to lose."""

    name = "trusting"

    async def party(self, me: Me, records: Records) -> None:
        async def heard(message: Any) -> Any:
            if isinstance(message, Proposal) and not records.codes[:, 0].any():
                clusters = self.negotiation.from_totals(message.totals).clusters
                return msgspec.structs.replace(message, clusters=clusters)
            return message

        await super().party(listening(me, heard), records)


class Eager(RRBA, frozen=True, kw_only=True):
    """Answers a question that is said to be over if it has something to say."""

    name = "eager"

    async def party(self, me: Me, records: Records) -> None:
        async def heard(message: Any) -> Any:
            if isinstance(message, Question) and len(message.groups) and records.codes.all():
                return msgspec.structs.replace(message, over=False)
            return message

        await super().party(listening(me, heard), records)
