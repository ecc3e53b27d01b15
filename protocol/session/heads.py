"""Heads: what a party signs of its own words when it has ended, and whether a head fits them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from protocol.crypto.merkle import Tree
from protocol.messages import AGGREGATOR, RECORD, Envelope, Head, PartyId
from protocol.session.roster import Identity, is_signature
from protocol.wire.canonical import canonical

HEAD_PURPOSE = b"sottovoce head 1\0"
"""What every signed head begins with: no other signature of this program does."""

_HEAD = Head.kind()
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


class Heads:
    """Judges the heads of a transcript, envelope by envelope in the order of the file.

    Args:
        session: the session's id.
        keys: the members' public keys.

    Attributes:
        signed: whose last word is a head that fits.
    """

    def __init__(self, session: bytes, keys: Mapping[str, bytes]) -> None:
        self._session = session
        self._keys = keys
        self._ended: set[str] = set()
        self.signed: set[str] = set()

    def take(self, envelope: Envelope, said: Tree) -> str | None:
        """What is wrong with an envelope of a member, as far as heads go; None if nothing is.

        Args:
            said: the sender's tree before this envelope.
        """
        sender = envelope.sender
        if sender in self._ended:
            self.signed.discard(sender)
            return f"seq {envelope.seq} comes after its head"
        if envelope.kind != _HEAD:
            return None
        self._ended.add(sender)
        head = head_of(envelope)
        if head is None or envelope.recipient != RECORD or sender == AGGREGATOR:
            return "malformed head"
        if (head.count, head.root) != (said.count, said.root()):
            return f"its head over {head.count} envelopes does not match the {said.count} on record"
        key = self._keys[sender]
        if not is_signed(head, session=self._session, sender=sender, key=key):
            return "its head is not signed by it"
        self.signed.add(sender)
        return None
