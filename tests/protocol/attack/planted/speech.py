"""What planted variants say and hear besides, and how a role is made to listen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

from protocol import AGGREGATOR, Me, Message, PartyId, PrivacyEvent, Public, QuorumError, Seen

M = TypeVar("M", bound=Message)


class Reminder(Message, frozen=True):
    """The aggregator has not heard from a party. An honest one never says so."""

    round: int


class Hold(Message, frozen=True):
    """The aggregator asks a party to wait with its report. An honest one never does."""


class Release(Message, frozen=True):
    """It need not wait any more."""


class Doubt(Message, frozen=True):
    """A party's public word that something is odd: ``where`` is a field or an attribute."""

    where: str


class Receipt(Message, frozen=True):
    """A party's public word that it has answered."""

    text: str


ASIDE: tuple[type[Message], ...] = (Reminder, Hold, Release, Doubt, Receipt)
"""What is declared to tell nothing."""


def aside(
    message: Message, seen: Seen, otherwise: Callable[[Message, Seen], PrivacyEvent]
) -> PrivacyEvent:
    """``reveals`` of a variant that has these kinds as well."""
    return Public() if isinstance(message, ASIDE) else otherwise(message, seen)


async def peek(me: Me, kind: type[M]) -> M | None:
    """A message of the aggregator that has come already."""
    with suppress(QuorumError):
        return await me.receive(kind, AGGREGATOR, within=0.0)
    return None


class _Listening:
    """A role's own side that does something with what it receives."""

    def __init__(self, me: Me, heard: Callable[[Any], Awaitable[Any]]) -> None:
        self._me = me
        self._heard = heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._me, name)

    async def receive(self, kind: type[Message], sender: PartyId, **wait: Any) -> Any:
        return await self._heard(await self._me.receive(kind, sender, **wait))


def listening(me: Me, heard: Callable[[Any], Awaitable[Any]]) -> Me:
    """A role's own side that goes on with what ``heard`` makes of each message received."""
    return cast(Me, _Listening(me, heard))
