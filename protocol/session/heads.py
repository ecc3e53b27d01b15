"""Heads: what a party signs of its own words when it has ended, and whether a head fits them."""

from __future__ import annotations

import msgspec

from protocol.crypto.merkle import Tree
from protocol.messages import AGGREGATOR, RECORD, Envelope, Head, PartyId
from protocol.session.roster import Identity, is_signature
from protocol.wire.canonical import canonical

HEAD_PURPOSE = b"sottovoce head 1\0"
"""What every signed head begins with: no other signature of this program does."""

_encode = msgspec.msgpack.Encoder().encode
_HEADS = msgspec.msgpack.Decoder(Head)


def head_statement(*, session: bytes, sender: PartyId, count: int, root: bytes) -> bytes:
    """What a head's signature is over: who has said how much, and the root of its tree."""
    return HEAD_PURPOSE + _encode((session, sender, count, root))


def sign_head(identity: Identity, *, session: bytes, said: Tree) -> Head:
    """The head of all that a member has said: ``said`` holds its encoded envelopes."""
    count, root = said.count, said.root()
    statement = head_statement(session=session, sender=identity.name, count=count, root=root)
    return Head(count, root, identity.sign(statement))


def is_signed(head: Head, *, session: bytes, sender: PartyId, key: bytes) -> bool:
    """Whether the sender, whose public key this is, has signed its head."""
    statement = head_statement(session=session, sender=sender, count=head.count, root=head.root)
    return is_signature(head.signature, statement, key=key)


def head_of(envelope: Envelope) -> Head | None:
    """The head in an envelope of that kind; None if it is malformed."""
    try:
        return canonical(envelope.body, _HEADS, what="head")
    except ValueError:
        return None


def fault_of(
    envelope: Envelope, *, session: bytes, said: tuple[int, bytes] | None, key: bytes | None
) -> str | None:
    """What is wrong with an envelope that should hold a head, in words; None if nothing is.

    Args:
        session: the session's id.
        said: how many envelopes its sender had sent before, and their root; None if not known.
        key: the sender's public key; None to take its signature for granted.
    """
    head, sender = head_of(envelope), envelope.sender
    if head is None or envelope.recipient != RECORD or sender == AGGREGATOR:
        return "malformed head: expected one sent by a party to the record"
    if said is not None and (head.count, head.root) != said:
        return f"the head over {head.count} does not match the envelopes before it, {said[0]}"
    if key is not None and not is_signed(head, session=session, sender=sender, key=key):
        return "the head is not signed by its sender"
    return None
