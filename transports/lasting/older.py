"""Records that were replaced by an older copy, as a party's checkpoint shows."""

from __future__ import annotations

from protocol.errors import RemoteProtocolError, UsageError
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.charter import Charter
from protocol.transcript.checkpoints import SignedCheckpoint
from transports.handshake import Hello


class OlderRecordError(UsageError):
    """The aggregator's record lacks something that it has acknowledged.

    Args:
        party: the party that shows it.
        held: the checkpoint by which it was acknowledged.
        own: the last checkpoint of the record.
    """

    def __init__(
        self, party: PartyId, held: SignedCheckpoint, own: SignedCheckpoint | None
    ) -> None:
        if own is None or own.session != held.session:
            how = f"that was acknowledged in attempt {held.session[-1]}, which is not begun here"
        elif own.size < held.size:
            how = f"it has {own.size} entries, and that was acknowledged at {held.size}"
        else:
            how = f"its first {held.size} entries are not those by which that was acknowledged"
        super().__init__(f"this record is older than what {party!r} holds: {how}")
        self.party = party
        self.held = held
        self.own = own


def checkpoint_in(hello: Hello, charter: Charter) -> SignedCheckpoint | None:
    """The checkpoint that a caller shows of this attempt or a later one; None without one.

    Raises:
        RemoteProtocolError: of another survey, or not signed by the aggregator.
    """
    held = hello.held
    if held is None:
        return None
    if held.session[:-1] != charter.session[:-1]:
        raise RemoteProtocolError("a checkpoint of another survey", field="held")
    if held.key != charter.roster.key(AGGREGATOR) or not held.valid:
        raise RemoteProtocolError("a checkpoint that this aggregator has not signed", field="held")
    return held if held.session[-1] >= charter.attempt else None
