"""Checkpoints: what the recorder signs, as the aggregator, of the record so far; no reading."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec

from protocol.messages import RECORD, SESSION_BYTES, Closed, PartyId
from protocol.roster import KEY_BYTES, Identity, is_signature
from protocol.transcript.merkle import HASH_BYTES, Tree, leaf_hash
from protocol.transcript.standing import Standings

CHECKPOINT_PURPOSE = b"sottovoce checkpoint 1\0"
"""What every signed checkpoint begins with: no other signature of this program does."""

FIRST = bytes(HASH_BYTES)
"""What stands for the checkpoint before the first one."""

SIGNATURE_BYTES = 64

Hash = Annotated[bytes, msgspec.Meta(min_length=HASH_BYTES, max_length=HASH_BYTES)]
_Session = Annotated[bytes, msgspec.Meta(min_length=SESSION_BYTES, max_length=SESSION_BYTES)]
_Count = Annotated[int, msgspec.Meta(ge=0)]
_CLOSED = Closed.kind()


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
    """

    session: _Session
    number: _Count
    entries: _Count
    log: Hash
    digest: Hash
    previous: Hash
    standing: Hash | None
    result: Hash | None

    @property
    def final(self) -> bool:
        """Whether the record ends here."""
        return self.standing is not None

    def __repr__(self) -> str:
        return f"Statement(number={self.number}, entries={self.entries}, final={self.final})"


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Statement).decode


def encode_statement(statement: Statement) -> bytes:
    """A statement as a msgpack array: what is in the transcript."""
    return _encode(statement)


def decode_statement(encoded: bytes) -> Statement:
    """The inverse of ``encode_statement``.

    Raises:
        ValueError: malformed, or not the one encoding of what it says.
    """
    try:
        statement = _decode(encoded)
        canonical = _encode(statement)
    except (msgspec.MsgspecError, OverflowError, RecursionError) as error:
        raise ValueError(f"malformed checkpoint: {error}") from error
    if canonical != encoded:
        raise ValueError("the checkpoint's encoding is not canonical")
    return statement


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

    def said(self, recipient: PartyId, kind: str, body: bytes, encoded: bytes) -> None:
        """Take the aggregator's next envelope."""
        self._result = None
        if recipient != RECORD:
            return
        if kind == _CLOSED:
            self.standings.add(body)
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
        final: bool,
        content: bytes | bytearray = b"",
    ) -> Statement:
        """What the next checkpoint says.

        Args:
            trees: all members' trees.
            entries: how many entries there are before it.
            digest: their canonical digest.
            final: the record ends here.
            content: entries that have not been added yet.
        """
        log = self._log.copy()
        log.update(content)
        return Statement(
            session=self._session,
            number=self._number,
            entries=entries,
            log=log.digest(),
            digest=digest(),
            previous=self._previous,
            standing=self.standings.root(trees) if final else None,
            result=self._result if final else None,
        )

    def follow(self, encoded: bytes, entries: int) -> None:
        """A checkpoint has been made: the next one comes after it."""
        self._number += 1
        self._previous = statement_hash(encoded)
        self._at = entries
