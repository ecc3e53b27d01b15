"""Judges a transcript from its bytes alone.

``docs/transcript-format.md``, section 4, has the rules by the names that faults carry (``RULES``).
A file that breaks off, inside a block or without a closing record, breaks none of rules 1 to 24:
it is incomplete. Whoever holds the file can write it afresh so that those rules hold, without the
signatures; only what was published elsewhere (25, 26) tells it from a consistent forgery.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

from protocol.errors import ProtocolError, SurveyError, TranscriptError
from protocol.messages import AGGREGATOR, RECORD, Envelope, PartyId
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.entries import (
    CLOSING,
    HEADER,
    CanonicalDigest,
    Checkpoint,
    Delivered,
    Departed,
    Ending,
    Entry,
    Header,
    Refused,
    Sent,
    decode_ending,
    decode_entry,
    decode_header,
    problems_of,
    split_entries,
)
from protocol.transcript.evidence import Equivocation
from protocol.transcript.reader import TOO_MANY, Block, Fault, Torn, read
from protocol.transcript.signatures import Complaint, Signatures
from protocol.wire.codec import decode_envelope

MAX_FAULTS = 10_000
"""Maximum number of faults that are kept: a hostile file may have one for every entry."""

Published = Literal["not given", "fits", "begins", "differs"]
"""How a record compares with what was published of it elsewhere."""

_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What verifying a transcript found.

    Args:
        faults: every rule that is broken, in the order of the file, at most ``MAX_FAULTS``.
        faults_left_out: how many more there were.
        complete: there is a closing record, and it says that the run came to its end.
        torn: the file ends inside a block.
        digest: the canonical digest of the envelopes read, 32 bytes; None without a header.
        compared: a digest or last checkpoint was given; without one a consistent forgery passes.
        same_digest: whether the canonical digest is the one given from outside; None if none was.
        header: what the transcript is about, if that could be read.
        ending: the closing record, if there is one.
        entries: how many entries were read.
        messages: how many of them are envelopes sent.
        undelivered: how many of those, not counting the record's, were never delivered.
        sent_by: (id, envelopes sent) of every member, in roster order.
        signed_by: the parties whose words are all signed for by themselves, in roster order.
        checkpoints: how many sound checkpoints of the aggregator there are.
        checkpoint: the last of them.
        extends: whether the record extends the checkpoint given from outside; None if none was.
        equivocation: evidence that the aggregator signed a contradiction to that checkpoint.
    """

    faults: tuple[Fault, ...]
    faults_left_out: int
    complete: bool
    torn: bool
    digest: bytes | None
    compared: bool
    same_digest: bool | None
    header: Header | None
    ending: Ending | None
    entries: int
    messages: int
    undelivered: int
    sent_by: tuple[tuple[PartyId, int], ...]
    signed_by: tuple[PartyId, ...]
    checkpoints: int
    checkpoint: SignedCheckpoint | None
    extends: bool | None
    equivocation: Equivocation | None

    def checked_header(self) -> Header:
        """The header.

        Raises:
            SurveyError: it cannot be read.
        """
        if self.header is None:
            first = f": {self.faults[0]}" if self.faults else ""
            raise SurveyError(f"the transcript has no readable header{first}")
        return self.header

    @property
    def intact(self) -> bool:
        """Whether the record is complete and breaks no rule."""
        return self.complete and not self.faults

    @property
    def published(self) -> Published:
        """Whether this is the record of which a digest or a checkpoint was published.

        It ``begins`` like it where all that was given is a checkpoint from before the end.
        """
        answers = [fits for fits in (self.same_digest, self.extends) if fits is not None]
        if not answers:
            return "not given"
        if not all(answers):
            return "differs"
        return "fits" if self.compared else "begins"

    @property
    def final(self) -> SignedCheckpoint | None:
        """The checkpoint with which the record ends, if it is sound."""
        last = self.checkpoint
        return last if last is not None and last.statement.final else None

    @property
    def signed(self) -> Literal["all", "some", "none"]:
        """How many of the parties that said something have signed for it."""
        if not self.signed_by:
            return "none"
        return "some" if self.unsigned else "all"

    @property
    def unsigned(self) -> tuple[PartyId, ...]:
        """The parties that said something and did not sign for it, in roster order."""
        signed = {AGGREGATOR, *self.signed_by}
        return tuple(name for name, count in self.sent_by if count and name not in signed)


def verify(
    chunks: bytes | Iterable[bytes],
    *,
    digest: bytes | None = None,
    checkpoint: SignedCheckpoint | None = None,
) -> Verification:
    """Check a transcript against all rules, as a stream, going on after a fault where it can.

    Memory holds one block, the roster and the numbers of what is sent and not yet delivered. Who is
    not on the roster is a fault, and not remembered.

    Args:
        chunks: the file's bytes, or its parts in order.
        digest: the canonical digest as signed or published elsewhere.
        checkpoint: as published elsewhere, at the end of the run or earlier.

    Raises:
        TypeError: a digest that is not bytes, or a checkpoint that has not been read.
    """
    if not isinstance(digest, bytes | None):
        raise TypeError(f"digest: expected 32 bytes, got {type(digest).__name__}")
    if not isinstance(checkpoint, SignedCheckpoint | None):
        raise TypeError(f"checkpoint: expected a SignedCheckpoint, got {type(checkpoint).__name__}")
    verifier = _Verifier(checkpoint)
    for item in read(chunks):
        verifier.take(item)
    return verifier.finish(digest)


class _Verifier:
    def __init__(self, published: SignedCheckpoint | None) -> None:
        self._published = published
        self._signatures: Signatures | None = None
        self._faults: list[Fault] = []
        self._left_out = 0
        self._torn = False
        self._blocks = 0
        self._header: Header | None = None
        self._canonical: CanonicalDigest | None = None
        self._positions: dict[str, int] = {}
        self._kinds: frozenset[str] = frozenset()
        self._senders: dict[str, Sender] = {}
        self._closed = False
        self._ending: Ending | None = None
        self._entries = 0
        self._messages = 0
        # Of the block at hand; None at the end.
        self._offset: int | None = None

    def report(self, rule: str, message: str, entry: int | None = None) -> None:
        if len(self._faults) < MAX_FAULTS:
            self._faults.append(Fault(rule, message, self._offset, entry))
        else:
            self._left_out += 1

    def take(self, item: Block | Fault | Torn) -> None:
        self._offset = item.offset
        if self._closed:
            self.report("closing", "the file goes on after the closing record")
        match item:
            case Fault():
                self.report(item.rule, item.message)
            case Torn():
                self._torn = not self._closed
            case Block():
                self._take_block(item)

    def _take_block(self, block: Block) -> None:
        if (self._blocks == 0) != (block.kind == HEADER):
            what = "another header" if block.kind == HEADER else "the first block is not a header"
            self.report("header-first", what)
        self._blocks += 1
        try:
            content = block.content(self._header)
        except TranscriptError as error:
            self.report("frame", str(error))
            self._closed |= block.kind == CLOSING
            return
        match block.kind:
            case b"H":
                self._take_header(content)
            case b"E":
                self._take_entries(content, block.most_entries)
            case b"C":
                self._take_ending(content)
            case _:
                self.report("block-type", f"a block of type {block.kind!r}")

    def _take_header(self, content: bytes) -> None:
        try:
            header = decode_header(content)
        except TranscriptError as error:
            self.report("header", str(error))
            return
        for problem in problems_of(header):
            self.report("header", problem)
        if self._header is None:
            self._header = header
            self._canonical = CanonicalDigest(header)
            self._signatures = Signatures(header, self._canonical, self._published)
            self._positions = {name: i for i, (name, _) in enumerate(header.roster)}
            self._kinds = frozenset(header.kinds)

    def _take_entries(self, content: bytes, most: int) -> None:
        try:
            for encoded in split_entries(content):
                if self._entries >= most:
                    raise TranscriptError(TOO_MANY)
                if self._signatures is not None:
                    self._complain(self._signatures.before(), self._entries)
                try:
                    self._take_entry(decode_entry(encoded))
                except ProtocolError as error:
                    self.report("entries", str(error), self._entries)
                self._entries += 1
                if self._signatures is not None:
                    self._signatures.added(encoded)
        except TranscriptError as error:
            self.report("entries", str(error), self._entries)

    def _take_entry(self, entry: Entry) -> None:
        match entry:
            case Sent():
                self._messages += 1
                self._take_sent(decode_envelope(entry.envelope), entry.envelope)
            case Delivered():
                self._take_delivered(entry)
            case Departed():
                self._take_departed(entry)
            case Checkpoint():
                if self._signatures is not None:
                    self._complain(self._signatures.checkpoint(entry), self._entries)
            case Refused():
                pass  # Any sender may be refused, for any reason.

    def _complain(self, complaints: Iterable[Complaint], entry: int | None) -> None:
        for rule, message in complaints:
            self.report(rule, message, entry)

    def _take_sent(self, envelope: Envelope, encoded: bytes) -> None:
        def report(rule: str, message: str) -> None:
            self.report(rule, f"{_shown(name)}: {message}", self._entries)

        name, seq = envelope.sender, envelope.seq
        sender = self._senders.get(name)
        if sender is None:
            sender = self._senders[name] = Sender()
        position = self._positions.get(envelope.recipient)
        if self._header is not None:
            if envelope.session != self._header.session:
                report("session", f"session {envelope.session.hex():.32} does not match the header")
            if name not in self._positions:
                report("sender", "the sender is not in the roster")
            if position is None and envelope.recipient != RECORD:
                report("recipient", f"{_shown(envelope.recipient)} is not in the roster")
            if envelope.kind not in self._kinds:
                report("kind", f"kind {_shown(envelope.kind)} is not declared in the header")
            if len(envelope.body) > self._header.max_body:
                report(
                    "body-size",
                    f"body of {len(envelope.body)} B, at most {self._header.max_body} allowed",
                )
        if sender.departed:
            report("departed", f"sent seq {seq} after it had departed")
        if seq < 0:
            report("entries", f"seq {seq}")
        elif seq >= sender.next:
            if seq > sender.next:
                sender.gaps.append((sender.next, seq, self._entries))
            sender.next = seq + 1
        elif sender.fill(seq):
            report("seq-order", f"seq {seq} comes after seq {sender.next - 1}")
        else:
            report("seq-repeat", f"seq {seq} occurs again")
        if position is not None:
            sender.recipients.put(seq, position)
            sender.undelivered.add(seq)
        if self._signatures is not None and name in self._positions:
            complaint = self._signatures.sent(envelope, encoded)
            if complaint is not None:
                report("head", complaint)

    def _take_delivered(self, entry: Delivered) -> None:
        if self._header is None:
            return
        sender = self._senders.get(entry.sender)
        position = self._positions.get(entry.recipient)
        what = f"seq {entry.seq} of {_shown(entry.sender)} to {_shown(entry.recipient)}"
        if sender is None or position is None or sender.recipients.get(entry.seq) != position:
            self.report("delivery", f"{what} was not sent", self._entries)
        elif entry.repeat == (entry.seq in sender.undelivered):
            why = "repeated before it is delivered" if entry.repeat else "delivered again"
            self.report("delivered-twice", f"{what} is {why}", self._entries)
        else:
            sender.undelivered.discard(entry.seq)

    def _take_departed(self, entry: Departed) -> None:
        if self._header is not None and entry.party not in self._positions:
            message = f"{_shown(entry.party)} is not in the roster"
            self.report("departed", message, self._entries)
            # Who is not on the roster is not remembered: a file may name anybody.
            return
        self._senders.setdefault(entry.party, Sender()).departed = True

    def _take_ending(self, content: bytes) -> None:
        self._closed = True
        try:
            ending = decode_ending(content)
        except TranscriptError as error:
            self.report("closing", str(error))
            return
        if self._ending is None:
            self._ending = ending
        if ending.entries != self._entries:
            message = f"it counts {ending.entries} entries, there are {self._entries}"
            self.report("closing-count", message)
        if self._canonical is not None and ending.digest != self._canonical.digest():
            message = f"it has {ending.digest.hex()}, the envelopes another digest"
            self.report("closing-digest", message)

    def finish(self, expected: bytes | None) -> Verification:
        self._offset = None
        for name, sender in self._senders.items():
            for first, end, entry in sender.gaps:
                message = f"{_shown(name)}: seq {first} to {end - 1} are missing"
                self.report("seq-gap", message, entry)
        signatures, published = self._signatures, self._published
        if signatures is not None:
            self._complain(signatures.finish(self._ending), None)
        elif published is not None:
            self.report(
                "published", "the file has no readable header, so it cannot extend the checkpoint"
            )
        digest = None if self._canonical is None else self._canonical.digest()
        if expected is not None and digest != expected:
            found = "none" if digest is None else digest.hex()
            hint = "" if self._ending is not None else "; the file breaks off"
            self.report("digest", f"it is {found}, expected {expected.hex()}{hint}")
        trees = {} if self._canonical is None else self._canonical.trees
        return Verification(
            faults=tuple(self._faults),
            faults_left_out=self._left_out,
            complete=self._ending is not None and self._ending.complete and not self._torn,
            torn=self._torn,
            digest=digest,
            compared=expected is not None or (published is not None and published.statement.final),
            same_digest=None if expected is None else digest == expected,
            header=self._header,
            ending=self._ending,
            entries=self._entries,
            messages=self._messages,
            undelivered=sum(len(sender.undelivered) for sender in self._senders.values()),
            sent_by=tuple((PartyId(name), tree.count) for name, tree in trees.items()),
            signed_by=() if signatures is None else signatures.signed_by(),
            checkpoints=0 if signatures is None else signatures.sound,
            checkpoint=None if signatures is None else signatures.last,
            extends=None if published is None else signatures is not None and signatures.met,
            equivocation=None if signatures is None else signatures.equivocation,
        )


def _shown(text: str) -> str:
    """Text from a file that may be hostile, short and escaped."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


class Recipients:
    """To whom each envelope of one sender went, in little memory.

    A sender mostly addresses one recipient all the time, or its recipients in roster order; so
    (first seq, first position, step, length) of each run of evenly spaced positions is kept.
    """

    __slots__ = ("_next", "_odd", "_runs", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._runs: list[tuple[int, int, int]] = []
        self._next = 0
        self._odd: dict[int, int] = {}

    def put(self, seq: int, position: int) -> None:
        """Note to which member, by its position in the roster, an envelope went."""
        if seq < self._next:
            self._odd[seq] = position
            return
        if self._runs and seq == self._next:
            first, step, length = self._runs[-1]
            if length == 1:
                step = position - first
            if position == first + step * length:
                self._runs[-1] = (first, step, length + 1)
                self._next += 1
                return
        self._starts.append(seq)
        self._runs.append((position, 0, 1))
        self._next = seq + 1

    def get(self, seq: int) -> int | None:
        """The recipient's position; None for an unknown envelope."""
        if seq in self._odd:
            return self._odd[seq]
        i = bisect_right(self._starts, seq) - 1
        if i < 0:
            return None
        first, step, length = self._runs[i]
        ahead = seq - self._starts[i]
        return first + step * ahead if ahead < length else None


class Sender:
    """What is remembered of one sender."""

    __slots__ = ("departed", "gaps", "next", "recipients", "undelivered")

    def __init__(self) -> None:
        self.next = 0
        # (first, end, entry at which it showed) of every range of numbers that was passed over.
        self.gaps: list[tuple[int, int, int]] = []
        self.recipients = Recipients()
        self.undelivered: set[int] = set()
        self.departed = False

    def fill(self, seq: int) -> bool:
        """Take a number out of the gaps; whether it was in one."""
        i = bisect_right(self.gaps, seq, key=itemgetter(0)) - 1
        if i < 0 or seq >= self.gaps[i][1]:
            return False
        first, end, entry = self.gaps[i]
        parts = ((first, seq, entry), (seq + 1, end, entry))
        self.gaps[i : i + 1] = [part for part in parts if part[0] < part[1]]
        return True
