"""Judges a transcript from its bytes alone.

``docs/transcript-format.md``, section 5, lists the rules by the names of their faults (``RULES``).
A file that breaks off, inside a record or without a last entry, breaks none of rules 1 to 18: it is
incomplete. A file that cannot be unpacked breaks none either, since its content is unknown. The
file's holder can forge a record that keeps those rules, but for the signatures. Only a digest or a
checkpoint published elsewhere (rules 19 and 20) shows such a forgery.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

from protocol.crypto.merkle import HASH_BYTES
from protocol.errors import ProtocolError, SurveyError, TranscriptError
from protocol.messages import AGGREGATOR, MAX_NUMBER, RECORD, Envelope, PartyId
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.cosignatures import Cosigned
from protocol.transcript.entries import (
    CanonicalDigest,
    Checkpoint,
    Delivered,
    Departed,
    Ending,
    Entry,
    Header,
    Hindered,
    Refused,
    Restored,
    Sent,
    decode_item,
    header_problems,
)
from protocol.transcript.evidence import Equivocation
from protocol.transcript.log import Log
from protocol.transcript.reader import Fault, Records
from protocol.transcript.signatures import Checks, ChecksHere, Place, Signatures
from protocol.transcript.spoken import NOBODY, UNSIGNED, Handed, Words
from protocol.wire.codec import decode_envelope

MAX_FAULTS = 10_000
"""Maximum number of faults that are kept: a hostile file may have one for every entry."""

Verdict = Literal["broken", "unfinished", "incomplete", "sound"]
"""Verdict on a record: the first that holds."""

Published = Literal["not compared", "fits", "begins", "differs", "another session"]
"""Result of the comparison with a digest or checkpoint published elsewhere."""

_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Result of verifying a transcript.

    Args:
        faults: every rule that is broken, in the order of the file, at most ``MAX_FAULTS``.
        faults_left_out: the number of further faults.
        complete: there is a last entry, which says that the run came to its end. If there are
            checkpoints, one is of the whole record.
        torn: the file ends inside a record.
        unopened: why the file cannot be unpacked, so that verifying could not finish; None if it
            can.
        digest: the canonical digest of the envelopes read, 32 bytes; None without a header.
        compared: a digest, or a checkpoint of the whole record, was given. Without one a consistent
            forgery passes.
        same_digest: whether the canonical digest is the one given; None if none was.
        header: the header, if it could be read.
        ending: the last entry, if there is one.
        entries: the number of entries read, without the last one.
        size: the number of leaves of the log: the header, the entries and the last one.
        messages: the number of envelopes sent.
        undelivered: the number of envelopes to members that were never delivered.
        sent_by: (id, envelopes sent) of every member, in roster order.
        heads: the bodies of the sound heads, by party, in the order of the file.
        handed: the envelopes that were handed to anybody.
        checkpoints: the number of sound checkpoints of the aggregator.
        checkpoint: the last of them.
        extends: whether the record extends the checkpoint given; None if none was.
        equivocation: evidence that the aggregator signed a contradiction to that checkpoint.
        cosigned: the witnesses that have cosigned that checkpoint; None if none was demanded.
        first_cosigned: those that have cosigned the checkpoint of the header alone, on record
            before any entry; None if none was demanded.
        foreign: the checkpoint given is of another session.
    """

    faults: tuple[Fault, ...]
    faults_left_out: int
    complete: bool
    torn: bool
    unopened: str | None
    digest: bytes | None
    compared: bool
    same_digest: bool | None
    header: Header | None
    ending: Ending | None
    entries: int
    size: int
    messages: int
    undelivered: int
    sent_by: tuple[tuple[PartyId, int], ...]
    heads: Mapping[PartyId, bytes]
    handed: Handed
    checkpoints: int
    checkpoint: SignedCheckpoint | None
    extends: bool | None
    equivocation: Equivocation | None
    cosigned: Cosigned | None = None
    first_cosigned: Cosigned | None = None
    foreign: bool = False

    def __repr__(self) -> str:
        digest = "no digest" if self.digest is None else f"digest {self.digest.hex()[:16]}"
        return f"<Verification: {self.verdict}, {self.entries} entries, {digest}>"

    def checked_header(self) -> Header:
        """The header.

        Raises:
            SurveyError: it cannot be read.
        """
        if self.header is None:
            why = self.unopened or (self.faults[0] if self.faults else None)
            first = f": {why}" if why else ""
            raise SurveyError(f"the transcript has no readable header{first}")
        return self.header

    @property
    def verdict(self) -> Verdict:
        """Verdict of the verification (section 5 of the document)."""
        if self.faults:
            return "broken"
        if self.unopened is not None:
            return "unfinished"
        return "sound" if self.complete else "incomplete"

    @property
    def intact(self) -> bool:
        """True if the record is complete and breaks no rule."""
        return self.verdict == "sound"

    @property
    def read_whole(self) -> bool:
        """True if the file could be read to its last entry."""
        return self.unopened is None and self.ending is not None

    @property
    def published(self) -> Published:
        """Comparison with the digest or checkpoint given.

        A record ``begins`` like the published one if all that was given is a checkpoint from before
        the end.
        """
        if self.foreign and self.same_digest is not False:
            return "another session"
        answers = [fits for fits in (self.same_digest, self.extends) if fits is not None]
        if not answers:
            return "not compared"
        if not all(answers):
            return "differs"
        return "fits" if self.compared else "begins"

    @property
    def final(self) -> SignedCheckpoint | None:
        """The checkpoint of the whole record, if there is a sound one."""
        last = self.checkpoint
        whole = last is not None and self.ending is not None and last.size == self.size
        return last if whole else None

    @property
    def signed_by(self) -> tuple[PartyId, ...]:
        """The parties with a sound head, which signs all that they sent, in roster order."""
        return tuple(name for name, _ in self.sent_by if name in self.heads)

    @property
    def signed(self) -> Literal["all", "some", "none"]:
        """Share of the sending parties that signed for all they sent, in a word."""
        if not self.heads:
            return "none"
        return "some" if self.unsigned else "all"

    @property
    def unsigned(self) -> tuple[PartyId, ...]:
        """The parties that sent something and did not sign for it, in roster order."""
        return tuple(
            name
            for name, count in self.sent_by
            if count and name != AGGREGATOR and name not in self.heads
        )


def verify(
    chunks: bytes | Iterable[bytes],
    *,
    digest: bytes | None = None,
    checkpoint: SignedCheckpoint | None = None,
    cosigned: Cosigned | None = None,
    checks: Checks | None = None,
) -> Verification:
    """Check a transcript against all rules, as a stream, going on after a fault if possible.

    Memory holds one part of the file, the roster, the heads, and 41 bytes for every envelope.
    Senders that are not on the roster are a fault.

    Args:
        chunks: the file's bytes, or its parts in order.
        digest: the canonical digest as signed or published elsewhere.
        checkpoint: a checkpoint published elsewhere, of the end of the run or earlier.
        cosigned: the witnesses demanded, and which of them have cosigned that checkpoint.
        checks: checks the signatures of heads; by default they are checked at once.

    Raises:
        TypeError: a digest that is not bytes, or a checkpoint that has not been read.
        TooMuchError: the header has more values than a file of this length may.
    """
    if not isinstance(digest, bytes | None):
        raise TypeError(f"digest: expected 32 bytes, got {type(digest).__name__}")
    if not isinstance(checkpoint, SignedCheckpoint | None):
        raise TypeError(f"checkpoint: expected a SignedCheckpoint, got {type(checkpoint).__name__}")
    checks = ChecksHere() if checks is None else checks
    return _Verifier(Records(chunks), checkpoint, cosigned, checks).run(digest)


class _Verifier:
    def __init__(
        self,
        records: Records,
        published: SignedCheckpoint | None,
        cosigned: Cosigned | None,
        checks: Checks,
    ) -> None:
        self._records = records
        self._checks = checks
        self._published = published
        self._cosigned = cosigned
        self._faults: list[Fault] = []
        self._left_out = 0
        self._header: Header | None = None
        # Whether the record can be compared with what was published (rules 19 and 20).
        self._comparable = False
        self._senders: dict[str, Sender] = {}
        self._ending: Ending | None = None
        self._notes = 0
        self._first_note: str | None = None
        self._entries = 0
        self._messages = 0
        # The envelope of the entry before, if it was sent there.
        self._last_sent: Envelope | None = None
        # The place of the current record in the file; None at the end.
        self._offset: int | None = None

    def report(self, rule: str, message: str, entry: int | None = None) -> None:
        if len(self._faults) < MAX_FAULTS:
            self._faults.append(Fault(rule, message, self._offset, entry))
        else:
            self._left_out += 1

    def run(self, expected: bytes | None) -> Verification:
        records = self._records
        for content in records:
            self._offset = records.offset
            if self._header is None:
                if not self._take_header(content):
                    break
                continue
            self._take(content)
        self._offset = None
        if records.fault is not None:
            self._faults.append(records.fault)
        return self._finish(expected)

    def _take_header(self, content: bytes) -> bool:
        try:
            header = self._records.header(content)
        except TranscriptError as error:
            self.report("header", str(error))
            return False
        for problem in header_problems(header):
            self.report("header", problem)
        self._header = header
        self._comparable = not self._faults
        self._canonical = CanonicalDigest(header)
        self._log = Log(self._records.secret)
        self._log.add(content)
        self._signatures = Signatures(
            header, self._canonical, self._senders, self._log, self._published, self._checks
        )
        self._positions = self._signatures.spoken.places
        self._kinds = self._signatures.spoken.kinds
        self._longest = header.longest
        self._compare_at = 0 if self._published is None else self._published.size
        return self._comparable

    def _take(self, content: bytes) -> None:
        if self._entries + 1 == self._compare_at:
            self._compare()
        try:
            item = decode_item(content)
            if isinstance(item, Checkpoint):
                self._take_checkpoint(item.note)
                return
            if self._ending is not None:
                self.report("ending", "the file goes on after the last entry")
            if isinstance(item, Ending):
                self._take_ending(item)
            else:
                self._take_entry(item)
                self._entries += 1
        except ProtocolError as error:
            self.report("entries", str(error), self._entries)
            self._entries += 1
            self._last_sent = None
        self._log.add(content)

    def _take_checkpoint(self, note: str) -> None:
        self._notes += 1
        complaint = self._signatures.checkpoint(note)
        if complaint is not None:
            self.report("checkpoint", complaint, self._entries)
        elif self._log.size == 1:
            self._first_note = note

    def _take_entry(self, entry: Entry) -> None:
        last_sent, self._last_sent = self._last_sent, None
        match entry:
            case Sent():
                self._messages += 1
                envelope = self._last_sent = decode_envelope(entry.envelope)
                self._take_sent(envelope, entry.envelope)
            case Delivered():
                self._take_delivered(entry)
            case Departed():
                self._take_departed(entry)
            case Refused():
                pass  # Any sender may be refused, for any reason.
            case Hindered():
                self._take_hindered(entry, last_sent)
            case Restored():
                self._take_restored(entry)

    def _take_sent(self, envelope: Envelope, encoded: bytes) -> None:
        def report(rule: str, message: str) -> None:
            self.report(rule, f"{_quoted(name)}: {message}", self._entries)

        name, seq = envelope.sender, envelope.seq
        sender = self._senders.get(name)
        if sender is None:
            sender = self._senders[name] = Sender()
        position = self._positions.get(envelope.recipient)
        header = self._header
        if header is None:
            return
        if envelope.session != header.session:
            report("session", f"session {envelope.session.hex():.32} does not match the header")
        if name not in self._positions:
            report("sender", "the sender is not in the roster")
        if position is None and envelope.recipient != RECORD:
            report("recipient", f"{_quoted(envelope.recipient)} is not in the roster")
        longest = self._longest.get(envelope.kind)
        if longest is None:
            report("kind", f"kind {_quoted(envelope.kind)} is not declared in the header")
        elif len(envelope.body) > longest:
            report("body-size", f"body of {len(envelope.body)} B, at most {longest} allowed")
        if sender.departed:
            report("departed", f"sent seq {seq} after it had departed")
        if not 0 <= seq <= MAX_NUMBER:
            report("entries", f"seq {seq}")
        elif seq >= sender.next:
            if seq > sender.next:
                sender.gaps.append((sender.next, seq, self._entries))
            sender.next = seq + 1
        elif sender.fill(seq):
            report("seq-order", f"seq {seq} comes after seq {sender.next - 1}")
        else:
            report("seq-repeat", f"seq {seq} occurs again")
        hashed = bytes(HASH_BYTES)
        if name in self._positions:
            place = Place(self._offset, self._entries)
            hashed, complaint = self._signatures.sent(envelope, encoded, place)
            if complaint is not None:
                report("head", complaint)
        kind = self._kinds.get(envelope.kind, NOBODY)
        sender.put(seq, hashed, NOBODY if position is None else position, kind)
        sender.undelivered += position is not None

    def _take_delivered(self, entry: Delivered) -> None:
        sender = self._senders.get(entry.sender)
        position = self._positions.get(entry.recipient)
        word = None if sender is None else sender.hand(entry.seq)
        rule = "delivered-twice"
        if sender is None or word is None or word.recipient != position:
            rule, why = "delivery", "was not sent"
        elif entry.repeat != word.delivered:
            why = "is repeated before it is delivered" if entry.repeat else "is delivered again"
        else:
            sender.undelivered -= not entry.repeat
            sender.deliver(entry.seq)
            return
        what = f"seq {entry.seq} of {_quoted(entry.sender)} to {_quoted(entry.recipient)}"
        self.report(rule, f"{what} {why}", self._entries)

    def _take_hindered(self, entry: Hindered, last: Envelope | None) -> None:
        sent = None if last is None else (last.sender, last.recipient, last.seq)
        what = f"seq {entry.seq} of {_quoted(entry.sender)} to {_quoted(entry.recipient)}"
        if sent != (entry.sender, entry.recipient, entry.seq) or (
            entry.recipient not in self._positions
        ):
            message = f"{what} is hindered, and the entry before does not send it"
            self.report("delivery", message, self._entries)
        if self._header is not None and self._header.seed is None:
            message = f"{what} is hindered: only the network of a simulation does that"
            self.report("delivery", message, self._entries)

    def _take_departed(self, entry: Departed) -> None:
        if entry.party not in self._positions:
            message = f"{_quoted(entry.party)} is not in the roster"
            self.report("departed", message, self._entries)
            # Not remembered, since a file may name anybody.
            return
        self._senders.setdefault(entry.party, Sender()).departed = True

    def _take_restored(self, entry: Restored) -> None:
        for name in entry.without:
            if name not in self._positions:
                message = f"{_quoted(name)} is not in the roster"
                self.report("departed", message, self._entries)

    def _take_ending(self, ending: Ending) -> None:
        if self._ending is not None:
            return
        self._ending = ending
        if ending.log != self._log.root():
            self.report("ending", "the root of the log is not that of the record")

    def _take_heads(self) -> Mapping[PartyId, bytes]:
        """Take the bodies of the sound heads, and the faults of the others in the file's order."""
        sound, unsigned = self._signatures.heads()
        for name, place in unsigned:
            fault = Fault("head", f"{_quoted(name)}: {UNSIGNED}", place.offset, place.entry)
            self._faults.append(fault)
        self._faults.sort(key=_offset)
        self._left_out += len(self._faults[MAX_FAULTS:])
        del self._faults[MAX_FAULTS:]
        return sound

    def _compare(self) -> None:
        for complaint in self._signatures.compare():
            self.report("published", complaint)

    def _finish(self, expected: bytes | None) -> Verification:
        records, header, ending = self._records, self._header, self._ending
        for name, sender in self._senders.items():
            for first, end, entry in sender.gaps:
                message = f"{_quoted(name)}: seq {first} to {end - 1} are missing"
                self.report("seq-gap", message, entry)
        digest, size = None, 0
        last: SignedCheckpoint | None = None
        heads: Mapping[PartyId, bytes] = {}
        if header is not None:
            heads = self._take_heads()
            digest, size, last = self._canonical.digest(), self._log.size, self._signatures.last
            if self._comparable:
                self._finish_comparing(digest, expected)
        published = self._published
        of_all = ending is not None and published is not None and published.size == size
        signed = not self._notes or (last is not None and last.size == size)
        return Verification(
            faults=tuple(self._faults),
            faults_left_out=self._left_out,
            complete=ending is not None and ending.complete and not records.torn and signed,
            torn=records.torn,
            unopened=None if records.unopened is None else str(records.unopened),
            digest=digest,
            compared=expected is not None or of_all,
            same_digest=digest == expected if expected and digest else None,
            header=header,
            ending=ending,
            entries=self._entries,
            size=size,
            messages=self._messages,
            undelivered=sum(sender.undelivered for sender in self._senders.values()),
            sent_by=()
            if header is None
            else tuple((name, self._canonical.trees[name].count) for name, _ in header.roster),
            heads=heads,
            handed=Handed({name: sender.handed() for name, sender in self._senders.items()}),
            checkpoints=0 if header is None else self._signatures.sound,
            checkpoint=last,
            extends=None if published is None or header is None else self._signatures.met,
            equivocation=None if header is None else self._signatures.equivocation,
            cosigned=self._cosigned,
            first_cosigned=None
            if self._cosigned is None
            else self._cosigned.also(self._first_note),
            foreign=header is not None and self._signatures.foreign,
        )

    def _finish_comparing(self, digest: bytes, expected: bytes | None) -> None:
        """Report where the record differs from what was published (rules 19 and 20)."""
        self._compare()
        if self._records.unopened is not None:
            return
        for complaint in self._signatures.finish():
            self.report("published", complaint)
        if expected not in (None, digest):
            hint = "" if self._ending is not None else "; the file breaks off"
            self.report("digest", f"it is {digest.hex()}, expected {expected.hex()}{hint}")
        if self._cosigned is not None and not self._cosigned.enough:
            self.report("published", _shortfall(self._cosigned))


def _offset(fault: Fault) -> float:
    """Offset of a fault in the file; a fault without one comes last."""
    return math.inf if fault.offset is None else fault.offset


def _shortfall(cosigned: Cosigned) -> str:
    found, needed = len(cosigned.by), cosigned.needed
    wrong = ", ".join(map(_quoted, cosigned.invalid))
    forged = f"; not a valid cosignature: {wrong}" if wrong else ""
    return f"the checkpoint has valid cosignatures of {found} witnesses, expected {needed}{forged}"


def _quoted(text: str) -> str:
    """Text from a file that may be hostile, short and escaped."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


class Sender(Words):
    """Memory of one sender.

    Attributes:
        next: the number of its next envelope.
        gaps: (first, end, entry where it showed) of every range of numbers that was skipped.
        undelivered: the number of its envelopes to members that were not delivered so far.
        departed: whether it has left.
    """

    __slots__ = ("departed", "gaps", "next", "undelivered")

    def __init__(self) -> None:
        super().__init__()
        self.next = 0
        self.gaps: list[tuple[int, int, int]] = []
        self.undelivered = 0
        self.departed = False

    def fill(self, seq: int) -> bool:
        """Take a number out of the gaps; False if it is in none."""
        i = bisect_right(self.gaps, seq, key=itemgetter(0)) - 1
        if i < 0 or seq >= self.gaps[i][1]:
            return False
        first, end, entry = self.gaps[i]
        parts = ((first, seq, entry), (seq + 1, end, entry))
        self.gaps[i : i + 1] = [part for part in parts if part[0] < part[1]]
        return True
