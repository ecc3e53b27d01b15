"""What members have signed: parties their heads, the aggregator checkpoints of the log."""

from __future__ import annotations

from collections.abc import Iterator

from protocol.messages import AGGREGATOR, Envelope, Head, PartyId
from protocol.session.heads import fault_of
from protocol.transcript.checkpoints import SignedCheckpoint, read_note
from protocol.transcript.entries import CanonicalDigest, Header
from protocol.transcript.evidence import Equivocation, two_checkpoints
from protocol.transcript.log import Log

_HEAD = Head.kind()


class Signatures:
    """Judges heads and checkpoints in the order of the file.

    Args:
        header: what the transcript is about.
        canonical: the trees of all members.
        log: of what has come so far.
        published: a checkpoint from outside that the record has to extend.

    Attributes:
        last: the last sound checkpoint.
        sound: how many there are.
        met: whether the log has the root of the published checkpoint at its size.
        equivocation: the evidence, if a checkpoint on record contradicts the published one.
    """

    def __init__(
        self,
        header: Header,
        canonical: CanonicalDigest,
        log: Log,
        published: SignedCheckpoint | None,
    ) -> None:
        self._header = header
        self._canonical = canonical
        self._log = log
        self._published = published
        self._keys = {str(name): key for name, key in header.roster}
        self._origin = header.session, self._keys.get(AGGREGATOR, b"")
        self._headed: set[str] = set()
        self._signed: set[str] = set()
        self._judged = published is None
        self.last: SignedCheckpoint | None = None
        self.sound = 0
        self.met = False
        self.equivocation: Equivocation | None = None

    def signed_by(self) -> tuple[PartyId, ...]:
        """The parties whose last word is a head that fits, in roster order."""
        return tuple(name for name, _ in self._header.roster if name in self._signed)

    def sent(self, envelope: Envelope, encoded: bytes) -> str | None:
        """Take a member's envelope into its tree; what is wrong with it, as far as heads go."""
        sender, complaint = envelope.sender, None
        if sender in self._headed:
            self._signed.discard(sender)
            complaint = f"seq {envelope.seq} comes after its head"
        elif envelope.kind == _HEAD:
            self._headed.add(sender)
            said, key = self._canonical.trees[sender], self._keys[sender]
            before = said.count, said.root()
            complaint = fault_of(envelope, session=self._header.session, said=before, key=key)
            if complaint is None:
                self._signed.add(sender)
        self._canonical.add(envelope, encoded)
        return complaint

    def checkpoint(self, note: str) -> str | None:
        """Take a checkpoint; what is wrong with it."""
        try:
            signed = read_note(note)
        except ValueError as error:
            return str(error)
        if (signed.session, signed.key) != self._origin:
            return "it is not of this session, or not by the roster's aggregator"
        published = self._published
        if published is not None and self.equivocation is None:
            self.equivocation = two_checkpoints(published, signed)
        size = self._log.size
        if signed.size != size:
            return f"it is over {signed.size} leaves of the log, there are {size} before it"
        if signed.root != self._log.root():
            return "its root is not that of the log"
        if not signed.valid:
            return "it is not signed by the aggregator"
        self.last = signed
        self.sound += 1
        return None

    def compare(self) -> Iterator[str]:
        """Compare the log with the published checkpoint, if it has come to its size."""
        published = self._published
        if self._judged or published is None or published.size != self._log.size:
            return
        self._judged = True
        if (published.session, published.key) != self._origin or not published.valid:
            yield "the checkpoint is not of this session, or not signed by the roster's aggregator"
        elif published.root != self._log.root():
            yield "the record does not extend the checkpoint: its log has another root"
        else:
            self.met = True

    def finish(self) -> Iterator[str]:
        """What is wrong with the published checkpoint, once the file has ended."""
        published = self._published
        if published is None:
            return
        if not self._judged:
            yield f"the checkpoint is over {published.size} leaves, the log has {self._log.size}"
        elif self.met and self.equivocation is not None:
            self.met = False
            yield "the aggregator has signed another checkpoint in its place"
