"""Oracles in protocols of secure sums."""

from __future__ import annotations

from typing import Any

from protocol import Kind, Me, Message, PrivacyEvent, Records, RemoteProtocolError, Seen
from protocol.sharing.agreement import SURVIVORS
from protocol.sharing.messages import Survivors, Tagged, Totals
from protocol.variants import PairCounts, PairRR, SecureSumVariant
from tests.protocol.attack.planted.speech import Doubt, aside, listening, peek


class Careful(SecureSumVariant, frozen=True):
    """Wants the word of all its neighbours if it has anything but the first category."""

    name = "careful"

    async def party(self, me: Me, records: Records) -> None:
        async def heard(message: Any) -> Any:
            confirmed = isinstance(message, Tagged) and message.round == SURVIVORS
            if confirmed and not message.given.all() and records.codes[:, 0].any():
                raise RemoteProtocolError("a neighbour has not confirmed", field="Tagged.given")
            return message

        await super().party(listening(me, heard), records)


class CountedAlready(PairCounts, frozen=True):
    """Stays away without a word if it finds itself in totals that are there before the sum."""

    name = "counted-already"

    async def party(self, me: Me, records: Records) -> None:
        early = await peek(me, Totals)
        if early is not None and (early.totals >= self.vector(me, early, records)).all():
            return
        await super().party(me, records)


class Whispering(PairRR, frozen=True, kw_only=True):
    """Tells a neighbour of survivors whom it does not know; which one, follows from its answer."""

    name = "whispering"
    whole_roster = True

    def kinds(self, parties: int) -> tuple[Kind, ...]:
        return (*super().kinds(parties), Kind(Doubt))

    async def party(self, me: Me, records: Records) -> None:
        others = [name for name in me.roster.parties if name != me.id]

        async def heard(message: Any) -> Any:
            bits = message.uploaded if isinstance(message, Survivors) else b""
            if int.from_bytes(bits, "little").bit_count() > len(others) + 1:
                place = int(records.codes.sum()) % len(others)
                await me.send(others[place], Doubt("survivors"))
            return message

        await super().party(listening(me, heard), records)

    def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
        return aside(message, seen, super().reveals)
