"""What a survey says before it is over: the estimate from what the aggregator has heard so far."""

from __future__ import annotations

from collections.abc import Collection

from protocol.estimators.estimate import Estimate
from protocol.messages import Message, PartyId
from protocol.session.roles import Topic


class SoFar:
    """Follows what the aggregator says and hears. This one has no estimate before the result.

    All of it is on record, so a live run and its transcript lead to the same estimates.
    """

    def said(self, message: Message) -> None:
        """Take what the aggregator says, to a party or to the record; once for each recipient."""

    def heard(self, party: PartyId, message: Message) -> None:
        """Take what was delivered to the aggregator."""

    def closed(self, topic: Topic, counted: Collection[PartyId]) -> None:
        """A wait of the aggregator is over.

        Args:
            topic: what was awaited.
            counted: whose messages were counted.
        """

    def estimate(self) -> Estimate | None:
        """The estimate so far, the same object while it is the same; None if there is none yet."""
        return None
