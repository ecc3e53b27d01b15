"""Writes a transcript, block by block, into a sink."""

from __future__ import annotations

import struct
from collections.abc import Callable

import msgspec
import zstandard

from protocol.errors import LocalProtocolError, TranscriptError
from protocol.messages import AGGREGATOR, NAME_CHARACTERS, RECORD, Closed, Envelope, PartyId
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import (
    Ended,
    Progress,
    SignedCheckpoint,
    encode_statement,
    ended,
    sign_statement,
)
from protocol.transcript.entries import (
    CLOSING,
    ENTRIES,
    EXCERPT_BYTES,
    HEADER,
    MAGIC,
    REASON_CHARACTERS,
    CanonicalDigest,
    Checkpoint,
    Delivered,
    Departed,
    Ending,
    Entry,
    Header,
    Refused,
    Sent,
    encode_entry,
    encode_header,
    first_link,
    guard_of,
    next_link,
    problems_of,
)
from protocol.wire.codec import encode_envelope

BLOCK_ENTRIES = 4096
"""The number of entries at which a block is written."""

BLOCK_BYTES = 1 << 20
"""The number of bytes of entries at which a block is written."""

_LEVEL = 3
_MICROSECONDS = 1e6
_U32 = struct.Struct(">I")
_CLOSED = Closed.kind()


class Recorder:
    """Records a run as it happens, in memory that does not grow with the number of messages.

    With a signer it writes checkpoints: after a closing of the aggregator, if as many entries as
    the roster has members came since the last one (so that they cost no more than a constant for
    each entry), and always at the end. For the last one it remembers which answers were counted.

    It refuses what a verifier would not accept, as far as that is cheap to notice: the caller
    should not have accepted it. Times are seconds since the start.

    Args:
        sink: takes the bytes of the file, in order; one call per block. If it raises, recording is
            over.
        header: what the run is about; it is written at once.
        signer: the aggregator's identity, to sign checkpoints with.

    Attributes:
        checkpoint: the last one written.

    Raises:
        LocalProtocolError: the header is invalid, or the signer is not its aggregator.
    """

    def __init__(
        self,
        sink: Callable[[bytes], object],
        header: Header,
        *,
        signer: Identity | None = None,
    ) -> None:
        problems = problems_of(header)
        if problems:
            raise LocalProtocolError(f"invalid header: {'; '.join(problems)}")
        try:
            encoded = encode_header(header)
        except TranscriptError as error:
            raise LocalProtocolError(str(error)) from error
        if signer is not None and (signer.name, signer.public) != header.roster[0]:
            raise LocalProtocolError("the signer is not the aggregator of the roster")
        self._sink = sink
        self._signer = signer
        self._progress = Progress(
            session=header.session,
            members=tuple(name for name, _ in header.roster),
            header=encoded,
        )
        self._session = header.session
        self._kinds = frozenset(header.kinds)
        self._max_body = header.max_body
        self._canonical = CanonicalDigest(header)
        self._trees = self._canonical.trees
        self._departed: set[str] = set()
        self._encode = msgspec.msgpack.Encoder().encode
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self._chain = first_link()
        self._content = bytearray()
        self._pending = 0
        self._entries = 0
        self._at = 0
        self._open = True
        self.checkpoint: SignedCheckpoint | None = None
        self._write(HEADER, encoded, before=MAGIC)

    def sent(self, envelope: Envelope, *, now: float, encoded: bytes | None = None) -> None:
        """An envelope was accepted from its sender.

        Args:
            envelope: the envelope.
            now: seconds since the start.
            encoded: its encoding, if the caller has it already.

        Raises:
            LocalProtocolError: what was accepted should have been refused.
        """
        sender = envelope.sender
        tree = self._trees.get(sender)
        if (
            tree is None
            or envelope.seq != tree.count
            or envelope.session != self._session
            or envelope.kind not in self._kinds
            or len(envelope.body) > self._max_body
            or (envelope.recipient not in self._trees and envelope.recipient != RECORD)
            or sender in self._departed
        ):
            raise LocalProtocolError(
                f"invalid envelope: seq {envelope.seq} of {envelope.kind!r} to "
                f"{envelope.recipient!r}",
                party=sender,
            )
        if encoded is None:
            encoded = encode_envelope(envelope)
        self._append(Sent(at=_microseconds(now), envelope=encoded))
        tree.append(encoded)
        if self._signer is not None:
            self._progress.said(envelope, encoded)
            if (
                sender == AGGREGATOR
                and envelope.kind == _CLOSED
                and envelope.recipient == RECORD
                and self._progress.since(self._entries) >= len(self._trees)
            ):
                self._check_in(self._signer)

    def delivered(self, envelope: Envelope, *, now: float, repeat: bool = False) -> None:
        """An envelope was handed to its recipient; ``repeat`` says that the network duplicated it.

        Raises:
            LocalProtocolError: the sender never sent it, or the recipient is not on the roster.
        """
        tree = self._trees.get(envelope.sender)
        if tree is None or envelope.seq >= tree.count or envelope.recipient not in self._trees:
            raise LocalProtocolError(
                f"seq {envelope.seq} was delivered to {envelope.recipient!r} but never sent",
                party=envelope.sender,
            )
        self._append(
            Delivered(
                at=_microseconds(now),
                sender=envelope.sender,
                recipient=envelope.recipient,
                seq=envelope.seq,
                repeat=repeat,
            )
        )

    def refused(self, link: str, reason: str, excerpt: bytes, *, now: float) -> None:
        """Bytes from a link were refused; of ``excerpt`` the first 256 bytes are kept.

        Of a reason the first 1,024 characters are.
        """
        self._append(
            Refused(
                at=_microseconds(now),
                link=_clean(link)[:NAME_CHARACTERS],
                reason=_clean(reason)[:REASON_CHARACTERS],
                excerpt=bytes(excerpt[:EXCERPT_BYTES]),
            )
        )

    def departed(self, party: PartyId, reason: str, *, now: float) -> None:
        """A party is gone and nothing more will come from it.

        Raises:
            LocalProtocolError: it is not on the roster.
        """
        if party not in self._trees:
            raise LocalProtocolError("departed, but is not on the roster", party=party)
        self._append(
            Departed(at=_microseconds(now), party=party, reason=_clean(reason)[:REASON_CHARACTERS])
        )
        self._departed.add(party)

    def flush(self) -> None:
        """Write what is waiting as a block, so that a crash would not lose it."""
        if self._pending:
            content = bytes(self._content)
            self._content.clear()
            self._pending = 0
            if self._signer is not None:
                self._progress.add(content)
            self._write(ENTRIES, content)

    def said_by(self, member: PartyId) -> tuple[int, bytes]:
        """How many envelopes a member has sent, and the root of its tree."""
        tree = self._trees[member]
        return tree.count, tree.root()

    def digest(self) -> bytes:
        """The canonical digest of what has been sent so far, 32 bytes."""
        return self._canonical.digest()

    def close(self, complete: bool = True, reason: str = "") -> bytes:
        """Write the last checkpoint and the closing record; nothing can be recorded afterwards.

        Args:
            complete: the run came to its end.
            reason: if not, why.

        Returns:
            The canonical digest, 32 bytes.

        Raises:
            LocalProtocolError: the recording is over already.
        """
        self._check_open()
        reason = _clean(reason)
        if self._signer is not None:
            self._check_in(self._signer, ended(complete=complete, reason=reason))
        self.flush()
        digest = self.digest()
        ending = Ending(entries=self._entries, digest=digest, complete=complete, reason=reason)
        self._write(CLOSING, encode_entry(ending))
        self._open = False
        return digest

    def _check_in(self, signer: Identity, ending: Ended | None = None) -> None:
        """Write a checkpoint; the last one says how the run ended."""
        statement = self._progress.statement(
            self._trees,
            entries=self._entries,
            digest=self.digest,
            ending=ending,
            content=self._content,
        )
        encoded, signature = encode_statement(statement), sign_statement(signer, statement)
        self._append(Checkpoint(at=self._at, statement=encoded, signature=signature))
        self._progress.follow(encoded, self._entries)
        self.checkpoint = SignedCheckpoint(statement, signer.public, signature)

    def _check_open(self) -> None:
        if not self._open:
            raise LocalProtocolError("the transcript is closed")

    def _append(self, entry: Entry) -> None:
        self._check_open()
        encoded = self._encode(entry)
        self._at = entry.at
        content = self._content
        content += _U32.pack(len(encoded))
        content += encoded
        self._entries += 1
        self._pending += 1
        if self._pending >= BLOCK_ENTRIES or len(content) >= BLOCK_BYTES:
            self.flush()

    def _write(self, kind: bytes, content: bytes, *, before: bytes = b"") -> None:
        stored = self._compressor.compress(content)
        start = kind + _U32.pack(len(stored))
        guard = guard_of(self._chain, start)
        self._chain = next_link(self._chain, start, stored)
        try:
            self._sink(b"".join((before, start, guard, stored, self._chain)))
        except BaseException:
            # Nobody knows how much of the block was written: nothing may follow it.
            self._open = False
            raise


def _microseconds(now: float) -> int:
    at = round(now * _MICROSECONDS)
    if at < 0:
        raise LocalProtocolError(f"time {now} s: expected at least 0")
    return at


def _clean(text: str) -> str:
    """Text that UTF-8 can carry: what an operating system reports may hold lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")
