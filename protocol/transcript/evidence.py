"""Evidence: two contradicting statements signed by one member, which no honest member signs."""

from __future__ import annotations

import msgspec

from protocol.crypto.merkle import HASH_BYTES
from protocol.messages import SESSION_BYTES, Count, PartyId
from protocol.session.heads import HEAD_PURPOSE, head_statement
from protocol.session.roster import is_signature
from protocol.transcript.checkpoints import SignedCheckpoint, read_text
from protocol.transcript.entries import Hash

_decode_head = msgspec.msgpack.Decoder(tuple[Hash, PartyId, Count, Hash, Hash]).decode


class Equivocation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two statements that one signer has signed, and that cannot both be true.

    It proves by itself that the holder of ``key`` has signed both. The roster names the holder.

    Args:
        key: the signer's public key.
        first, first_signature: a statement (the bytes of a head or a checkpoint), and its
            signature.
        second, second_signature: the same of the other.
    """

    key: bytes
    first: bytes
    first_signature: bytes
    second: bytes
    second_signature: bytes

    def check(self) -> str | None:
        """Contradiction between the statements; None if this proves nothing."""
        for statement, signature in (
            (self.first, self.first_signature),
            (self.second, self.second_signature),
        ):
            if not is_signature(signature, statement, key=self.key):
                return None
        return contradiction(self.first, self.second, key=self.key)


def contradiction(first: bytes, second: bytes, *, key: bytes) -> str | None:
    """Contradiction between two statements, in words; None if both may be true.

    A party signs one head per number of envelopes of a session, an aggregator one root per size of
    a log.
    """
    if first == second:
        return None
    if first.startswith(HEAD_PURPOSE) and second.startswith(HEAD_PURPOSE):
        slot = _statement_slot(first)
        if slot is None or slot != _statement_slot(second):
            return None
        return f"the head of {slot[1]!r:.80} over {slot[2]} envelopes"
    try:
        one, other = (read_text(text.decode()) for text in (first, second))
    except ValueError:
        return None
    same = one[:3] == other[:3] and one[1] == key
    return f"the checkpoint of size {one[2]}" if same else None


SUM_PURPOSE = b"sottovoce sum 1\0"
"""Prefix of the purpose of keys and signatures in a secure sum; the session follows."""

_UNMASKED = b"unmasked"
_CONTEXT_BYTES = len(SUM_PURPOSE) + SESSION_BYTES + HASH_BYTES + 16

STATEMENT_BYTES = _CONTEXT_BYTES + len(_UNMASKED) + HASH_BYTES
"""The bytes of what a party signs when it helps to unmask a sum."""


def unmasked_statement(context: bytes, survivors: bytes) -> bytes:
    """The statement that a party signs when it helps to unmask a sum: the survivor set.

    Args:
        context: the context of the sum, which begins with its purpose and the session.
        survivors: their digest, 32 bytes.
    """
    return context + _UNMASKED + survivors


def is_unmasked(statement: bytes, session: bytes) -> bool:
    """Return whether a party signs by this over which survivors it has unmasked a sum of a session.

    All parties of a session that keep to the protocol sign the same.
    """
    return (
        len(session) == SESSION_BYTES
        and len(statement) == STATEMENT_BYTES
        and statement.startswith(SUM_PURPOSE + session)
        and statement[_CONTEXT_BYTES:-HASH_BYTES] == _UNMASKED
    )


def _statement_slot(statement: bytes) -> tuple[bytes, PartyId, int] | None:
    try:
        session, sender, count, said, heard = _decode_head(statement[len(HEAD_PURPOSE) :])
    except (msgspec.MsgspecError, OverflowError, RecursionError):
        return None
    canonical = head_statement(session=session, sender=sender, count=count, said=said, heard=heard)
    return (session, sender, count) if canonical == statement else None


def two_checkpoints(one: SignedCheckpoint, other: SignedCheckpoint) -> Equivocation | None:
    """The evidence in two checkpoints, if their signer has contradicted itself."""
    if (one.key, one.size) != (other.key, other.size) or one.root == other.root:
        return None
    found = Equivocation(
        key=one.key,
        first=one.signed,
        first_signature=one.signature,
        second=other.signed,
        second_signature=other.signature,
    )
    return found if found.check() is not None else None
