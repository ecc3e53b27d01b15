"""Acknowledgements: what an aggregator says to a party whose words are all on its disk.

The party has its own words, so the aggregator sends no more than what makes them a receipt.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from protocol.messages import AGGREGATOR, Count
from protocol.session.charter import Charter
from protocol.session.heads import SaidHead
from protocol.transcript.checkpoints import SIGNATURE_BYTES, SignedCheckpoint
from protocol.transcript.entries import Hash, Sent, encode_item
from protocol.transcript.log import SALT_BYTES
from protocol.transcript.receipts import Receipt, Shown, SignedHead
from protocol.wire.codec import encode_envelope

Path = Annotated[tuple[Hash, ...], msgspec.Meta(max_length=63)]
"""An inclusion proof in a tree whose leaves can be numbered."""


class Acknowledgement(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True
):
    """That a party's head is in the log of a checkpoint.

    Args:
        size, root, signature: of the checkpoint.
        index: which leaf the head is.
        at: when it was sent, in microseconds since the start of the run.
        salt: of the leaf.
        path: its inclusion proof.
        roster: that of the party's id and key in the roster's tree.
    """

    size: Count
    root: Hash
    signature: Annotated[
        bytes, msgspec.Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)
    ]
    index: Count
    at: Count
    salt: Annotated[bytes, msgspec.Meta(min_length=SALT_BYTES, max_length=SALT_BYTES)]
    path: Path
    roster: Path

    def __repr__(self) -> str:
        return f"Acknowledgement(leaf {self.index} of {self.size})"


def receipt_for(
    charter: Charter, head: SaidHead, given: Acknowledgement
) -> tuple[Receipt, SignedCheckpoint]:
    """The receipt that a party makes of an acknowledgement, and the checkpoint to check it with.

    Whether it holds, ``receipts.problems_of`` says: session, key, place and words are the party's
    own, so it does only if the aggregator has signed a log that has these very words.

    Args:
        charter: the party's.
        head: the party's own.
    """
    roster, envelope = charter.roster, head.envelope
    place = roster.position[envelope.sender]
    sent = encode_item(Sent(at=given.at, envelope=encode_envelope(envelope)))
    receipt = Receipt(
        party=envelope.sender,
        key=roster.key(envelope.sender),
        place=place,
        members=len(roster),
        roster=given.roster,
        terms=charter.terms,
        attempt=charter.attempt,
        counted=(),
        head=SignedHead(envelope.seq, head.heard, head.signature),
        path=(head.said,),
        ended=Shown(index=given.index, salt=given.salt, content=sent, path=given.path),
    )
    checkpoint = SignedCheckpoint(
        session=charter.session,
        key=roster.key(AGGREGATOR),
        size=given.size,
        root=given.root,
        signature=given.signature,
    )
    return receipt, checkpoint
