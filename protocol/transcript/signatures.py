"""Judges what is signed in a transcript: the parties' heads and the aggregator's checkpoints."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from protocol.messages import AGGREGATOR, Envelope, Head, PartyId
from protocol.session.heads import fault_of
from protocol.session.roster import is_signature
from protocol.transcript.checkpoints import (
    CHECKPOINT_PURPOSE,
    Progress,
    SignedCheckpoint,
    Statement,
    decode_statement,
    ended,
)
from protocol.transcript.entries import (
    CanonicalDigest,
    Checkpoint,
    Ending,
    Header,
    encode_header,
)
from protocol.transcript.evidence import Equivocation, two_checkpoints

Complaint = tuple[str, str]
"""The name of a broken rule, and how it is broken."""

_HEAD = Head.kind()
_U32 = struct.Struct(">I")
_DISAGREE = "disagree on how the run ended"


class Signatures:
    """Judges heads and checkpoints, entry by entry in the order of the file.

    Args:
        header: what the transcript is about.
        canonical: the trees of all members.
        published: a checkpoint from outside that the record has to extend.

    Attributes:
        last: the last sound checkpoint.
        sound: how many there are.
        met: whether the record extends the published checkpoint, and ends with it if that is a
            last one.
        equivocation: the evidence, if a checkpoint on record contradicts the published one.
    """

    def __init__(
        self, header: Header, canonical: CanonicalDigest, published: SignedCheckpoint | None
    ) -> None:
        self._header = header
        self._canonical = canonical
        self._published = published
        self._keys = {str(name): key for name, key in header.roster}
        self._key = self._keys.get(AGGREGATOR, b"")
        self._headed: set[str] = set()
        self._signed: set[str] = set()
        self._progress = Progress(
            session=header.session,
            members=tuple(name for name, _ in header.roster),
            header=encode_header(header),
        )
        self._entries = 0
        self._seen = 0
        self._over = False
        self._judged = published is None
        self._repeated = False
        self.last: SignedCheckpoint | None = None
        self.sound = 0
        self.met = False
        self.equivocation: Equivocation | None = None

    def signed_by(self) -> tuple[PartyId, ...]:
        """The parties whose last word is a head that fits, in roster order."""
        return tuple(name for name, _ in self._header.roster if name in self._signed)

    def sent(self, envelope: Envelope, encoded: bytes) -> str | None:
        """Take a member's envelope into its tree; what is wrong with it, as far as heads go."""
        self._progress.said(envelope, encoded)
        sender, complaint = envelope.sender, None
        said = self._canonical.trees[sender]
        if sender in self._headed:
            self._signed.discard(sender)
            complaint = f"seq {envelope.seq} comes after its head"
        elif envelope.kind == _HEAD:
            self._headed.add(sender)
            before, key = (said.count, said.root()), self._keys[sender]
            complaint = fault_of(envelope, session=self._header.session, said=before, key=key)
            if complaint is None:
                self._signed.add(sender)
        said.append(encoded)
        return complaint

    def before(self) -> Iterator[Complaint]:
        """Call it before each entry is judged."""
        if not self._judged:
            yield from self._compare()
        elif self.met:
            yield from self._check_end()
        if self._over:
            yield "checkpoint", "an entry after the last checkpoint"

    def checkpoint(self, entry: Checkpoint) -> Iterator[Complaint]:
        """Take a checkpoint."""
        if self._over:
            return
        self._seen += 1
        try:
            statement = decode_statement(entry.statement)
        except ValueError as error:
            yield "checkpoint", str(error)
            return
        self._over = statement.final
        published = self._published
        if published is not None and published.statement == statement:
            self._repeated = True
        since = self._progress.since(self._entries)
        wrong: str | None
        if not statement.final and since < len(self._header.roster):
            # So that nobody can make a verifier hash the whole roster again and again.
            least = len(self._header.roster)
            wrong = f"it comes {since} entries after the one before, expected at least {least}"
        elif not is_signature(entry.signature, CHECKPOINT_PURPOSE + entry.statement, key=self._key):
            wrong = "it is not signed by the aggregator"
        else:
            wrong = _difference(statement, self._expected(statement))
            signed = SignedCheckpoint(statement, self._key, entry.signature)
            if published is not None and self.equivocation is None:
                self.equivocation = two_checkpoints(published, signed)
            if wrong is None:
                self.last = signed
                self.sound += 1
        if wrong is not None:
            yield "checkpoint", wrong
        # After this entry has been added.
        self._progress.follow(entry.statement, self._entries + 1)

    def added(self, encoded: bytes) -> None:
        """Take the bytes of an entry, after it was judged."""
        self._progress.add(_U32.pack(len(encoded)) + encoded)
        self._entries += 1

    def finish(self, ending: Ending | None) -> Iterator[Complaint]:
        """The file has ended.

        Args:
            ending: its closing record, if it has one.
        """
        if not self._judged:
            yield from self._compare()
        if self.met:
            yield from self._check_end()
        last = None if self.last is None else self.last.statement
        if ending is not None:
            if last is None or not last.final:
                if self._seen:
                    yield "checkpoint", "the record is closed without a valid last checkpoint"
            elif not _fits(last, ending):
                yield "checkpoint", f"the closing record and the last checkpoint {_DISAGREE}"
        if self._published is None:
            return
        published = self._published.statement
        if not self._judged:
            message = f"over {published.entries} entries, the record has {self._entries}"
            yield "published", f"the checkpoint is {message}"
        elif self.met and ending is not None and published.final and not _fits(published, ending):
            self.met = False
            yield "published", f"the closing record and the checkpoint {_DISAGREE}"
        elif self.met and self.equivocation is not None:
            self.met = False
            yield "published", "the aggregator has signed another checkpoint in its place"

    def _check_end(self) -> Iterator[Complaint]:
        """Whether anything but itself has come after a published last checkpoint."""
        published = self._published
        if published is None or not published.statement.final:
            return
        beyond = self._entries - published.statement.entries
        if beyond > (1 if self._repeated else 0):
            self.met = False
            yield "published", "the record goes on after the last checkpoint that was given"

    def _compare(self) -> Iterator[Complaint]:
        published = self._published
        if published is None or published.statement.entries != self._entries:
            return
        self._judged = True
        if published.key != self._key or not published.valid:
            yield "published", "the checkpoint is not signed by the roster's aggregator"
            return
        wrong = _difference(published.statement, self._expected(published.statement))
        if wrong is not None:
            yield "published", f"the record does not extend the checkpoint: {wrong}"
        else:
            self.met = True

    def _expected(self, given: Statement) -> Statement:
        """What a statement here should say; of how the run ended the closing record will tell."""
        ending = (given.complete is True, given.reason or b"") if given.final else None
        return self._progress.statement(
            self._canonical.trees,
            entries=self._entries,
            digest=self._canonical.digest,
            ending=ending,
        )


def _fits(last: Statement, ending: Ending) -> bool:
    """Whether a last checkpoint and a closing record agree on how the run ended."""
    how = ended(complete=ending.complete, reason=ending.reason)
    return (last.complete, last.reason) == how


def _difference(given: Statement, expected: Statement) -> str | None:
    """Where a statement differs from what it should say."""
    fields = [
        name
        for name in Statement.__struct_fields__
        if getattr(given, name) != getattr(expected, name)
    ]
    return f"{', '.join(fields)} not as in the record" if fields else None
