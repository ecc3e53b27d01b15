"""Estimates before a survey is over, from what the aggregator has received so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeAlias, TypeVar, cast

from protocol.estimators.estimate import Estimate
from protocol.messages import NO_ROUND, Message, PartyId
from protocol.session.roles import Topic

M = TypeVar("M", bound=Message)

Waiting: TypeAlias = Mapping[Topic, Mapping[PartyId, Message]]
"""Messages received and not counted yet: the first of each topic and party."""


class SoFar:
    """Follows the aggregator's messages and counts, for an estimate before the result.

    This base class has none. All input is on record, so a live run and its transcript lead to the
    same estimates. The caller keeps and limits the input; a follower keeps only messages of
    ``closed``.

    Attributes:
        made_of: the kinds of message that the estimate uses; it gets no others.
    """

    made_of: tuple[type[Message], ...] = ()

    def said(self, message: Message) -> None:
        """Take a message of the aggregator to a party or to the record, once for each recipient."""

    def closed(self, topic: Topic, counted: Mapping[PartyId, Message]) -> None:
        """Take the messages counted in a wait of the aggregator for one of these kinds.

        Args:
            topic: the kind and round awaited.
            counted: the messages that were counted, by party.
        """

    def estimate(self, waiting: Waiting) -> Estimate | None:
        """The estimate so far, the same object while it is unchanged; None if there is none yet.

        Args:
            waiting: received messages that are not counted yet.
        """
        return None


class OneWait(SoFar, Generic[M]):
    """Follows messages of one kind that the aggregator waits for once.

    Args:
        kind: the kind.
    """

    def __init__(self, kind: type[M]) -> None:
        self.made_of = (kind,)
        self._counted: Mapping[PartyId, M] | None = None

    def closed(self, topic: Topic, counted: Mapping[PartyId, Message]) -> None:
        # A record of others may have further closings.
        if self._counted is None:
            self._counted = cast("Mapping[PartyId, M]", counted)

    def come(self, waiting: Waiting) -> Mapping[PartyId, M]:
        """Those that have come, by party, and once the wait is over those that were counted."""
        if self._counted is not None:
            return self._counted
        waited = waiting.get((self.made_of[0].kind(), NO_ROUND), {})
        return cast("Mapping[PartyId, M]", waited)
