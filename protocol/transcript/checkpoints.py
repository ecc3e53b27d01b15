"""Checkpoints: what the recorder signs, as the aggregator, of the record so far."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec

from protocol.crypto.merkle import HASH_BYTES, Tree, leaf_hash
from protocol.messages import AGGREGATOR, RECORD, SESSION_BYTES, Closed, Envelope, Head, PartyId
from protocol.session.roster import KEY_BYTES, Identity, is_signature
from protocol.transcript.standing import Standings
from protocol.wire.canonical import canonical

CHECKPOINT_PURPOSE = b"sottovoce checkpoint 1\0"
"""What every signed checkpoint begins with: no other signature of this program does."""

FIRST = bytes(HASH_BYTES)
"""The hash of the previous checkpoint in the first one."""

SIGNATURE_BYTES = 64

Hash = Annotated[bytes, msgspec.Meta(min_length=HASH_BYTES, max_length=HASH_BYTES)]
_Session = Annotated[bytes, msgspec.Meta(min_length=SESSION_BYTES, max_length=SESSION_BYTES)]
Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""A number in a statement: one that every reader has an integer type for."""

Ended = tuple[bool, bytes]
"""How a run ended: whether it came to its end, and the hash of the reason why not."""

_CLOSED = Closed.kind()
_HEAD = Head.kind()


class Statement(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True
):
    """What a checkpoint says of the record before it.

    Args:
        session: the session's id.
        number: of the checkpoint, from 0.
        entries: how many entries there are before it.
        log: over the header and all these entries as they stand in the file.
        digest: the canonical digest of the envelopes among them.
        previous: the hash of the checkpoint before.
        standing: at the end, the root over the standing of all members; None before.
        result: at the end, the leaf hash of the envelope that publishes the result; None before,
            and if nothing was published.
        complete: at the end, whether the run came to its end; None before.
        reason: at the end, the hash of the reason why not, as the closing record gives it
            (``ended``); None before.
    """

    session: _Session
    number: Count
    entries: Count
    log: Hash
    digest: Hash
    previous: Hash
    standing: Hash | None
    result: Hash | None
    complete: bool | None
    reason: Hash | None

    @property
    def final(self) -> bool:
        """Whether the record ends here."""
        return self.standing is not None

    def __repr__(self) -> str:
        return f"Statement(number={self.number}, entries={self.entries}, final={self.final})"


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Statement)


def encode_statement(statement: Statement) -> bytes:
    """A statement as a msgpack array: what is in the transcript."""
    return _encode(statement)


def decode_statement(encoded: bytes) -> Statement:
    """The inverse of ``encode_statement``.

    Raises:
        ValueError: malformed, or not the one encoding of what it says.
    """
    return canonical(encoded, _decoder, what="checkpoint")


def ended(*, complete: bool, reason: str) -> Ended:
    """What a last checkpoint says of how the run ended."""
    return complete, hashlib.sha256(reason.encode()).digest()


def statement_hash(encoded: bytes) -> bytes:
    """The hash of an encoded statement, 32 bytes: SHA-256 of what is signed."""
    return hashlib.sha256(CHECKPOINT_PURPOSE + encoded).digest()


class SignedCheckpoint(msgspec.Struct, frozen=True):
    """A checkpoint on its own: what an aggregator publishes.

    Args:
        statement: what it says.
        key: the aggregator's public key.
        signature: by that key.
    """

    statement: Statement
    key: Annotated[bytes, msgspec.Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
    signature: Annotated[
        bytes, msgspec.Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)
    ]

    def __repr__(self) -> str:
        return f"SignedCheckpoint({self.statement!r}, by {self.key.hex()[:16]})"

    @property
    def signed(self) -> bytes:
        """What the signature is over."""
        return CHECKPOINT_PURPOSE + encode_statement(self.statement)

    @property
    def valid(self) -> bool:
        """Whether the holder of the key has signed it."""
        return is_signature(self.signature, self.signed, key=self.key)


def sign_statement(identity: Identity, statement: Statement) -> bytes:
    """The aggregator's signature, 64 bytes."""
    return identity.sign(CHECKPOINT_PURPOSE + encode_statement(statement))


class Progress:
    """What a checkpoint is about, kept up to date as entries come.

    A recorder makes its checkpoints with it, and a verifier the ones that it expects.

    Args:
        session: the session's id.
        members: in roster order.
        header: the encoded header.
    """

    __slots__ = ("_at", "_log", "_number", "_previous", "_result", "_session", "standings")

    def __init__(self, *, session: bytes, members: tuple[PartyId, ...], header: bytes) -> None:
        self._session = session
        self._log = hashlib.blake2b(header, digest_size=HASH_BYTES)
        self._number = 0
        self._previous = FIRST
        self._at = 0
        self._result: bytes | None = None
        self.standings = Standings(members)

    def add(self, content: bytes | bytearray) -> None:
        """Take entries as a block holds them, each after its length."""
        self._log.update(content)

    def said(self, envelope: Envelope, encoded: bytes) -> None:
        """Take a member's next envelope."""
        if envelope.sender != AGGREGATOR:
            if envelope.kind == _HEAD:
                self.standings.sign(envelope.sender)
            return
        self._result = None
        if envelope.recipient != RECORD:
            return
        if envelope.kind == _CLOSED:
            self.standings.add(envelope.body)
        else:
            self._result = leaf_hash(encoded)

    def since(self, entries: int) -> int:
        """How many entries have come since the last checkpoint, if there are now so many."""
        return entries - self._at

    def statement(
        self,
        trees: Mapping[str, Tree],
        *,
        entries: int,
        digest: Callable[[], bytes],
        ending: Ended | None = None,
        content: bytes | bytearray = b"",
    ) -> Statement:
        """The statement of the next checkpoint.

        Args:
            trees: all members' trees.
            entries: how many entries there are before it.
            digest: their canonical digest.
            ending: how the run has ended, if the record ends here.
            content: entries that have not been added yet.
        """
        log = self._log.copy()
        log.update(content)
        complete, reason = (None, None) if ending is None else ending
        return Statement(
            session=self._session,
            number=self._number,
            entries=entries,
            log=log.digest(),
            digest=digest(),
            previous=self._previous,
            standing=None if ending is None else self.standings.root(trees),
            result=None if ending is None else self._result,
            complete=complete,
            reason=reason,
        )

    def follow(self, encoded: bytes, entries: int) -> None:
        """A checkpoint has been made: the next one comes after it."""
        self._number += 1
        self._previous = statement_hash(encoded)
        self._at = entries
