"""Heads: signatures of all that a party has sent and received, made when it ends."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from protocol.crypto.merkle import Tree
from protocol.messages import AGGREGATOR, HEAD_BYTES, RECORD, Envelope, Head, PartyId, Wait
from protocol.session.roster import Identity
from protocol.wire.canonical import canonical

HEAD_PURPOSE = b"sottovoce head 2\0"
"""First bytes of every signed head: no other signature of this program has them."""

_encode = msgspec.msgpack.Encoder().encode
_HEADS = msgspec.msgpack.Decoder(Head)
_WAITS = msgspec.msgpack.Decoder(Wait)


class SaidHead(NamedTuple):
    """A head that its party has sent, and the two roots that it signs, 32 bytes each.

    Args:
        envelope: the party's last envelope.
        signature: the signature in it.
        said: the root of the envelopes before it.
        heard: the root of its waits.
    """

    envelope: Envelope
    signature: bytes
    said: bytes
    heard: bytes


class Heard:
    """Received messages of a party, by wait: as a head lists them, and the tree that it signs."""

    __slots__ = ("_waits", "tree")

    def __init__(self) -> None:
        # Encoded: ten thousand parties with a hundred neighbours each may run in one process.
        self._waits: list[bytes] = []
        self.tree = Tree()

    def add(self, said: int, kind: str, round_: int, heard: list[tuple[int, int, bytes]]) -> None:
        """Note a wait that has returned.

        Args:
            said: the number of envelopes that the party has sent.
            kind, round_: the kind and round awaited.
            heard: (place, seq, leaf hash) of each envelope that the wait returned, by rising place.
        """
        self.tree.append(heard_leaf(said, kind, round_, heard))
        pairs = [(place, seq) for place, seq, _ in heard]
        self._waits.append(_encode((said, kind, round_, pairs)))

    def waits(self) -> tuple[Wait, ...]:
        """The waits, as a head lists them."""
        return tuple(map(_WAITS.decode, self._waits))


def heard_leaf(said: int, kind: str, round_: int, heard: list[tuple[int, int, bytes]]) -> bytes:
    """A wait as a leaf of the tree of waits; the arguments are those of ``Heard.add``."""
    return _encode((said, kind, round_, heard))


def head_statement(
    *, session: bytes, sender: PartyId, count: int, said: bytes, heard: bytes
) -> bytes:
    """Statement that a head's signature is over.

    Args:
        count: the number of envelopes that its sender has sent.
        said: the root of their tree.
        heard: the root of the tree of its waits.
    """
    return HEAD_PURPOSE + _encode((session, sender, count, said, heard))


def sign_head(identity: Identity, *, session: bytes, said: Tree, heard: Heard) -> Head:
    """The head of a member: ``said`` holds its encoded envelopes, ``heard`` its waits."""
    statement = head_statement(
        session=session,
        sender=identity.name,
        count=said.count,
        said=said.root(),
        heard=heard.tree.root(),
    )
    return Head(heard.waits(), identity.sign(statement))


def decode_head(envelope: Envelope) -> Head | None:
    """The head in an envelope of that kind; None if it is malformed.

    A head is sent by a party to the record.
    """
    if envelope.recipient != RECORD or envelope.sender == AGGREGATOR:
        return None
    if len(envelope.body) > HEAD_BYTES:
        return None
    try:
        return canonical(envelope.body, _HEADS, what="head")
    except ValueError:
        return None
