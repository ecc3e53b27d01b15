"""Recorder: writes the transcript of a run into a sink."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from protocol.errors import LocalProtocolError, RemoteProtocolError, TranscriptError
from protocol.messages import (
    AGGREGATOR,
    NAME_CHARACTERS,
    RECORD,
    Closed,
    Envelope,
    Head,
    PartyId,
)
from protocol.session.naming import Closing, Entered, Naming
from protocol.session.roster import Identity, Roster
from protocol.transcript.checkpoints import SignedCheckpoint, read_note, sign_checkpoint
from protocol.transcript.entries import (
    EXCERPT_BYTES,
    MAGIC,
    REASON_CHARACTERS,
    CanonicalDigest,
    Checkpoint,
    Delivered,
    Departed,
    Ending,
    Entry,
    Header,
    Hindered,
    Item,
    Refused,
    Restored,
    Sent,
    decode_item,
    encode_header,
    encode_item,
    header_problems,
)
from protocol.transcript.log import LOG_SECRET_BYTES, Log, seed_log_secret
from protocol.transcript.receipts import (
    Acknowledgement,
    EarlierCheckpoint,
    Named,
    Shown,
    decode_closed,
)
from protocol.transcript.spoken import NOBODY, Spoken, Words
from protocol.wire.codec import decode_envelope, encode_envelope

if TYPE_CHECKING:
    from protocol.transcript.consistency import Consistency

BLOCK_ENTRIES = 4096
"""The number of entries after which they are written."""

BLOCK_BYTES = 1 << 20
"""The number of bytes of entries after which they are written."""

RESTORED_NAMES = 256
"""The most parties that one ``Restored`` entry names."""

NAMED_BYTES = 1 << 16
"""The most bytes of closings in an acknowledgement, about: it must fit into a party's frames.
Closings that left the party out come first."""

_MICROSECONDS = 1e6
_U32 = struct.Struct(">I")
_CLOSED = Closed.kind()
_HEAD = Head.kind()


class Recorder:
    """Records a run as it happens.

    With a signer it writes checkpoints: of the header alone, after every closing of the aggregator,
    and at the end. It refuses envelopes that a verifier would fault, where the check is cheap: the
    caller should not have accepted them. Times are seconds since the start.

    Memory holds 41 bytes for every envelope, to judge heads. Without judging them it does not grow
    with the number of messages.

    Args:
        sink: takes the bytes of the file, in order. If it raises, recording is over.
        header: the header of the run; it is written at once.
        signer: the aggregator's identity, to sign checkpoints with.
        secret: 32 bytes for the salts of the log, for readers of the record alone; by default those
            of the simulation's seed.
        judge_heads: whether ``fault_of_head`` finds faults. It costs 0.1 ms a head, and parties of
            the same program sign correctly.
        acknowledging: whether ``acknowledge`` works. It takes 64 bytes for every entry, and some
            300 bytes for every message to the aggregator until its sender ends.
        watch: called with every entry once it is recorded, or recalled.
        resumed: the sink has the header already, and perhaps more. Give all that follows the header
            to ``recall``, then call ``go_on``: nothing is written before that.

    Attributes:
        checkpoint: the last one written.
        restored: the leaf of the last ``Restored`` entry; None without one.
        ended: whether the last entry is written.

    Raises:
        LocalProtocolError: the header is invalid, the signer is not its aggregator, or the secret
            is missing or has another length.
    """

    def __init__(
        self,
        sink: Callable[[bytes], object],
        header: Header,
        *,
        signer: Identity | None = None,
        secret: bytes | None = None,
        judge_heads: bool = True,
        acknowledging: bool = False,
        watch: Callable[[Entry], object] | None = None,
        resumed: bool = False,
    ) -> None:
        problems = header_problems(header)
        if problems:
            raise LocalProtocolError(f"invalid header: {'; '.join(problems)}")
        try:
            encoded = encode_header(header)
        except TranscriptError as error:
            raise LocalProtocolError(str(error)) from error
        if signer is not None and (signer.name, signer.public) != header.roster[0]:
            raise LocalProtocolError("the signer is not the aggregator of the roster")
        if secret is None and isinstance(header.seed, int):
            secret = seed_log_secret(header.seed)
        if secret is None or len(secret) != LOG_SECRET_BYTES:
            raise LocalProtocolError(f"expected a secret of {LOG_SECRET_BYTES} bytes for the log")
        self._sink = sink
        self._watch = watch
        self._signer = signer
        self._session = header.session
        self._simulated = header.seed is not None
        self._longest = header.longest
        self._members = header.roster
        self._canonical = CanonicalDigest(header)
        self._trees = self._canonical.trees
        self._words: dict[str, Words] = {}
        if judge_heads:
            self._words = {name: Words() for name, _ in header.roster}
        self._spoken = Spoken(header, self._trees, self._words)
        self._departed: set[str] = set()
        self._encode = msgspec.msgpack.Encoder().encode
        self._log = Log(secret, proving=acknowledging)
        self._acknowledging = acknowledging
        # The leaf and time of every head since the last acknowledgement.
        self._heads: dict[PartyId, tuple[int, int]] = {}
        self._naming: Naming[SignedCheckpoint] = Naming(header.rounds, len(header.roster))
        # Encoded entries that wait to be written, and their length in bytes.
        self._held: list[bytes] = []
        self._bytes = 0
        self._open = not resumed
        self.ended = False
        self.restored: int | None = None
        self._restored_entry = b""
        # Whether a checkpoint must follow the last entry recorded, as it follows the header.
        self._unsigned = True
        self.checkpoint: SignedCheckpoint | None = None
        self._log.add(encoded)
        if resumed:
            return
        self._write(MAGIC + secret)
        self._write(_U32.pack(len(encoded)) + encoded)
        if signer is not None:
            self._write_checkpoint(signer)
            self.flush()

    @functools.cached_property
    def _roster(self) -> Roster:
        """Roster for proofs of membership, made when the first is needed."""
        return Roster(self._members)

    @property
    def size(self) -> int:
        """Number of entries that have been recorded, the header included."""
        return self._log.size

    def sent(self, envelope: Envelope, *, now: float, encoded: bytes | None = None) -> None:
        """Record that an envelope was accepted from its sender.

        Args:
            envelope: the envelope.
            now: seconds since the start.
            encoded: its encoding, if the caller has it already.

        Raises:
            LocalProtocolError: it should have been refused.
        """
        self._check_sent(envelope)
        if encoded is None:
            encoded = encode_envelope(envelope)
        entry = Sent(at=_microseconds(now), envelope=encoded)
        if self._acknowledging:
            self._note_acknowledged(envelope, entry)
        self._append(entry)
        self._note_sent(envelope, encoded)
        if self._signer is not None and _is_closing(envelope):
            self._write_checkpoint(self._signer)

    def delivered(self, envelope: Envelope, *, now: float, repeat: bool = False) -> None:
        """Record that an envelope was handed to its recipient; ``repeat`` marks a duplicate.

        Raises:
            LocalProtocolError: the sender never sent it, or the recipient is not on the roster.
        """
        entry = Delivered(
            at=_microseconds(now),
            sender=envelope.sender,
            recipient=envelope.recipient,
            seq=envelope.seq,
            repeat=repeat,
        )
        self._check_delivered(entry)
        self._append(entry)
        if self._words:
            self._words[envelope.sender].deliver(envelope.seq)

    def refused(self, link: str, reason: str, excerpt: bytes, *, now: float) -> None:
        """Record that bytes from a link were refused.

        The first 256 bytes of the excerpt are kept, and the first 1,024 characters of the reason.
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
        """Record that a party is gone: nothing more comes from it.

        Raises:
            LocalProtocolError: it is not on the roster.
        """
        if party not in self._trees:
            raise LocalProtocolError("departed, but is not on the roster", party=party)
        self._append(
            Departed(at=_microseconds(now), party=party, reason=_clean(reason)[:REASON_CHARACTERS])
        )
        self._departed.add(party)

    def hindered(self, envelope: Envelope, *, now: float) -> None:
        """Record that the network of a simulation loses or delays the last envelope sent.

        Raises:
            LocalProtocolError: the record is not a simulation's, or another was sent last.
        """
        entry = Hindered(
            at=_microseconds(now),
            sender=envelope.sender,
            recipient=envelope.recipient,
            seq=envelope.seq,
        )
        self._check_hindered(entry)
        self._append(entry)

    def restore(self, without: Sequence[PartyId] = (), *, now: float) -> None:
        """Record that the record goes on from an older copy; a checkpoint follows.

        Args:
            without: the parties that are missing from here on, though they may hold receipts.

        Raises:
            LocalProtocolError: one of them is not on the roster.
        """
        for first in range(0, max(len(without), 1), RESTORED_NAMES):
            names = tuple(without[first : first + RESTORED_NAMES])
            entry = Restored(at=_microseconds(now), without=names)
            self._check_restored(entry)
            self._note_restored(encode_item(entry))
            self._append(entry)
        if self._signer is not None:
            self._write_checkpoint(self._signer)

    def recall(self, content: bytes) -> Item:
        """Take the next item that is on record already.

        Args:
            content: an encoded entry or checkpoint, in the order of the record.

        Returns:
            The item, decoded.

        Raises:
            TranscriptError: malformed, or not what a recorder would have written.
        """
        item = decode_item(content)
        if isinstance(item, Checkpoint):
            try:
                signed = read_note(item.note)
            except ValueError as error:
                raise TranscriptError(f"malformed checkpoint: {error}") from error
            if (signed.size, signed.root) != (self._log.size, self._log.root()):
                raise TranscriptError(f"checkpoint {signed.size} is not of what is on record")
            self.checkpoint = signed
            self._unsigned = False
            self._naming.check_in(signed)
            return item
        if self.ended:
            raise TranscriptError("an entry after the last one")
        try:
            self._recall(item)
        except LocalProtocolError as error:
            raise TranscriptError(str(error)) from error
        if isinstance(item, Restored):
            self._note_restored(content)
        self._log.add(content)
        if self._watch is not None and not isinstance(item, Ending):
            self._watch(item)
        return item

    def go_on(self) -> None:
        """Begin to record, once all that is on record has been recalled.

        If the program died between an entry and its checkpoint, the checkpoint is written now.
        After the last entry nothing can be recorded.
        """
        self._open = True
        if self._signer is not None and self._unsigned:
            self._write_checkpoint(self._signer)
        self.flush()
        self._open = not self.ended

    def flush(self) -> None:
        """Write all waiting entries to the sink."""
        if self._held:
            framed = [part for held in self._held for part in (_U32.pack(len(held)), held)]
            self._held.clear()
            self._bytes = 0
            self._write(b"".join(framed))

    def acknowledge(self) -> dict[PartyId, Acknowledgement]:
        """Acknowledge the heads since the last call, under one checkpoint.

        The checkpoint is written. Nothing of this may be sent before the record is durable. It
        costs some hashes for each head, and one signature if there is a head.

        Returns:
            Acknowledgements by party; empty without a signer, or if not ``acknowledging``.
        """
        heads, self._heads = self._heads, {}
        made: dict[PartyId, Acknowledgement] = {}
        if heads and self._signer is not None:
            last = self.checkpoint
            if last is None or last.size != self._log.size:
                last = self._write_checkpoint(self._signer)
            for party, (leaf, at) in heads.items():
                salt, path = self._log.shown(leaf)
                place = self._roster.position[party]
                made[party] = Acknowledgement(
                    size=last.size,
                    root=last.root,
                    signature=last.signature,
                    index=leaf,
                    at=at,
                    salt=salt,
                    path=path,
                    roster=self._roster.inclusion_path_at(place),
                    named=self._named_closings(party, place),
                )
        return made

    def _named_closings(self, party: PartyId, place: int) -> tuple[Named, ...]:
        """The closings so far that name a party for a message of its, with proofs."""
        found: list[Named] = []
        size = 0
        for entered, closing in self._naming.pop(party, place):
            named = self._prove_closing(entered, closing)
            size += len(self._encode(named))
            if size > NAMED_BYTES:
                break
            found.append(named)
        return tuple(found)

    def _prove_closing(self, entered: Entered, closing: Closing[SignedCheckpoint]) -> Named:
        early = closing.checkpoint
        before: EarlierCheckpoint | None = None
        if early is not None and closing.leaf < entered.leaf:
            consistent = self._log.tree.consistency_path(early.size)
            before = EarlierCheckpoint(early.size, early.root, early.signature, consistent)
        salt, path = self._log.shown(closing.leaf, None if before is None else before.size)
        closed = Shown(index=closing.leaf, salt=salt, content=closing.content, path=path)
        salt, path = self._log.shown(entered.leaf)
        return Named(
            seq=entered.seq,
            index=entered.leaf,
            at=entered.at,
            salt=salt,
            path=path,
            closing=closed,
            before=before,
        )

    def extends(self, earlier: SignedCheckpoint) -> bool:
        """Check whether the log begins with the log of a checkpoint of this session.

        Raises:
            TypeError: the recorder is not ``acknowledging``.
        """
        size = earlier.size
        return size <= self._log.size and self._log.tree.root(size) == earlier.root

    def hashes(self) -> tuple[bytes, ...]:
        """The leaf hashes of the log of the last checkpoint.

        Raises:
            TypeError: as ``extends``.
        """
        size = self._log.size if self.checkpoint is None else self.checkpoint.size
        return self._log.tree.hashes(size)

    def shown_restored(self, earlier: SignedCheckpoint) -> Shown | None:
        """The ``Restored`` entry that explains why the log does not extend an earlier checkpoint.

        None if there is none, or if the older copy had the earlier checkpoint's whole log.

        Raises:
            TypeError: as ``extends``.
        """
        leaf, last = self.restored, self.checkpoint
        if leaf is None or leaf >= earlier.size or last is None or last.size <= leaf:
            return None
        salt, path = self._log.shown(leaf, last.size)
        return Shown(index=leaf, salt=salt, content=self._restored_entry, path=path)

    def compared(self, earlier: SignedCheckpoint) -> Consistency:
        """The last checkpoint, with the proof that its log extends an earlier one of this session.

        The proof holds only if it does (``extends``).

        Raises:
            LocalProtocolError: no checkpoint is on record.
            TypeError: as ``extends``.
        """
        last = self.checkpoint
        if last is None:
            raise LocalProtocolError("the record has no checkpoint")
        if self.extends(earlier) and self._signer is not None and last.size < earlier.size:
            # A crash lost the earlier checkpoint, but nothing of its log.
            last = self._write_checkpoint(self._signer)
        path: tuple[bytes, ...] = ()
        if 0 < earlier.size < last.size:
            path = self._log.tree.consistency_path(earlier.size, last.size)
        from protocol.transcript.consistency import Consistency  # Few records are compared.

        return Consistency(old=earlier.size, path=path, later=last)

    def cosigned(self, note: str) -> None:
        """Record the last checkpoint again, with the cosignatures of witnesses, and flush.

        Raises:
            LocalProtocolError: it is not the last checkpoint, or something was recorded since.
        """
        self._check_open()
        last = self.checkpoint
        if last is None or last.size != self._log.size or read_note(note) != last:
            raise LocalProtocolError("the note is not the checkpoint of what has been recorded")
        self._hold(encode_item(Checkpoint(note=note)))
        self.flush()

    def fault_of_head(self, envelope: Envelope) -> str | None:
        """Fault that a verifier would find in a member's head if it came next; None for none."""

        return self._spoken.head_fault(envelope) if self._words else None

    def digest(self) -> bytes:
        """The canonical digest of the envelopes so far, 32 bytes."""
        return self._canonical.digest()

    def close(self, complete: bool = True, reason: str = "") -> bytes:
        """Write the last entry and its checkpoint; nothing can be recorded afterwards.

        Args:
            complete: whether the run came to its end.
            reason: if not, why; the first 1,024 characters are kept.

        Returns:
            The canonical digest, 32 bytes.

        Raises:
            LocalProtocolError: the recording is over already.
        """
        self._check_open()
        self.flush()
        ending = Ending(
            log=self._log.root(),
            complete=complete,
            reason=_clean(reason)[:REASON_CHARACTERS],
        )
        encoded = encode_item(ending)
        self._log.add(encoded)
        self._hold(encoded)
        if self._signer is not None:
            self._write_checkpoint(self._signer)
        self.flush()
        self._open = False
        self.ended = True
        return self._canonical.digest()

    def _check_sent(self, envelope: Envelope) -> None:
        sender = envelope.sender
        tree = self._trees.get(sender)
        if (
            tree is None
            or envelope.seq != tree.count
            or envelope.session != self._session
            or len(envelope.body) > self._longest.get(envelope.kind, -1)
            or (envelope.recipient not in self._trees and envelope.recipient != RECORD)
            or sender in self._departed
        ):
            raise LocalProtocolError(
                f"invalid envelope: seq {envelope.seq} of {envelope.kind!r} to "
                f"{envelope.recipient!r}",
                party=sender,
            )

    def _note_sent(self, envelope: Envelope, encoded: bytes) -> None:
        hashed = self._canonical.add(envelope, encoded)
        if self._words:
            places, kinds = self._spoken.places, self._spoken.kinds
            recipient = places.get(envelope.recipient, NOBODY)
            self._words[envelope.sender].put(envelope.seq, hashed, recipient, kinds[envelope.kind])

    def _note_acknowledged(self, envelope: Envelope, entry: Sent) -> None:
        """Note the next entry for acknowledgements: a head, a report or a closing."""
        index = self._log.size
        if envelope.kind == _HEAD:
            self._heads[envelope.sender] = index, entry.at
        elif envelope.recipient == AGGREGATOR:
            self._naming.say(envelope, Entered(envelope.seq, index, entry.at))
        else:
            closed = decode_closed(envelope)
            if closed is not None:
                self._naming.close(closed, index, encode_item(entry))

    def _check_delivered(self, entry: Delivered) -> None:
        tree = self._trees.get(entry.sender)
        if tree is None or entry.seq >= tree.count or entry.recipient not in self._trees:
            raise LocalProtocolError(
                f"seq {entry.seq} was delivered to {entry.recipient!r} but never sent",
                party=entry.sender,
            )

    def _check_restored(self, entry: Restored) -> None:
        for name in entry.without:
            if name not in self._trees:
                raise LocalProtocolError("gone on without, but not on the roster", party=name)

    def _note_restored(self, content: bytes) -> None:
        """Note that the next entry is a ``Restored``."""
        self.restored, self._restored_entry = self._log.size, content

    def _check_hindered(self, entry: Hindered) -> None:
        tree = self._trees.get(entry.sender)
        if tree is None or entry.seq != tree.count - 1 or entry.recipient not in self._trees:
            raise LocalProtocolError(
                f"seq {entry.seq} to {entry.recipient!r} is hindered: it was not sent last",
                party=entry.sender,
            )
        if not self._simulated:
            raise LocalProtocolError(
                f"seq {entry.seq} is hindered: only the network of a simulation does that",
                party=entry.sender,
            )

    def _recall(self, item: Entry | Ending) -> None:
        """Note an entry as when it was recorded. The caller adds it to the log."""
        match item:
            case Sent():
                try:
                    envelope = decode_envelope(item.envelope)
                except RemoteProtocolError as error:
                    raise TranscriptError(str(error)) from error
                self._check_sent(envelope)
                if self._acknowledging:
                    self._note_acknowledged(envelope, item)
                self._note_sent(envelope, item.envelope)
                self._unsigned = _is_closing(envelope)
                return
            case Delivered():
                self._check_delivered(item)
                if self._words:
                    self._words[item.sender].deliver(item.seq)
            case Departed():
                self._departed.add(item.party)
            case Hindered():
                self._check_hindered(item)
            case Restored():
                self._check_restored(item)
            case Ending():
                if item.log != self._log.root():
                    raise TranscriptError("the last entry is not of what is on record")
                self.ended = True
        self._unsigned = isinstance(item, Ending | Restored)

    def _write_checkpoint(self, signer: Identity) -> SignedCheckpoint:
        log = self._log
        signed = sign_checkpoint(signer, session=self._session, size=log.size, root=log.root())
        self._hold(encode_item(Checkpoint(note=signed.note)))
        self.checkpoint = signed
        self._unsigned = False
        self._naming.check_in(signed)
        return signed

    def _check_open(self) -> None:
        if not self._open:
            raise LocalProtocolError("the transcript is closed")

    def _append(self, entry: Entry) -> None:
        self._check_open()
        encoded = self._encode(entry)
        self._log.add(encoded)
        self._hold(encoded)
        if self._watch is not None:
            self._watch(entry)
        if len(self._held) >= BLOCK_ENTRIES or self._bytes >= BLOCK_BYTES:
            self.flush()

    def _hold(self, encoded: bytes) -> None:
        self._held.append(encoded)
        self._bytes += _U32.size + len(encoded)

    def _write(self, content: bytes) -> None:
        try:
            self._sink(content)
        except BaseException:
            # It is unknown how much was written, so nothing may follow.
            self._open = False
            raise


def _is_closing(envelope: Envelope) -> bool:
    """True for a closing of the aggregator, after which a checkpoint is written."""
    return (envelope.sender, envelope.kind, envelope.recipient) == (AGGREGATOR, _CLOSED, RECORD)


def _microseconds(now: float) -> int:
    at = round(now * _MICROSECONDS)
    if at < 0:
        raise LocalProtocolError(f"time {now} s: expected at least 0")
    return at


def _clean(text: str) -> str:
    """Text that UTF-8 can encode: an operating system's messages may have lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")
