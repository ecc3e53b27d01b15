"""Signatures of members: parties' of their heads, the aggregator's of checkpoints of the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from protocol.messages import AGGREGATOR, Envelope, Head, PartyId
from protocol.session.roster import Signed, are_signatures
from protocol.transcript.checkpoints import SignedCheckpoint, read_note
from protocol.transcript.entries import CanonicalDigest, Header
from protocol.transcript.evidence import Equivocation, two_checkpoints
from protocol.transcript.log import Log
from protocol.transcript.spoken import Spoken, Words

BATCH = 1024
"""Signatures of heads that are handed over at a time to be checked."""

_HEAD = Head.kind()


class Checks(Protocol):
    """Checks signatures: at once, or elsewhere while the record is read on."""

    def begin(self, claims: Sequence[Signed]) -> None:
        """Check these too."""

    def found(self) -> list[bool]:
        """The results of all claims, in order; the list of claims is emptied."""


class ChecksHere:
    """Checks signatures at once."""

    def __init__(self) -> None:
        self._found: list[bool] = []

    def begin(self, claims: Sequence[Signed]) -> None:
        self._found += are_signatures(claims)

    def found(self) -> list[bool]:
        found, self._found = self._found, []
        return found


class Place(NamedTuple):
    """Place of a record: where it begins, in bytes, and the number of its entry."""

    offset: int | None
    entry: int


class _Signing(NamedTuple):
    """A head with a signature to be checked."""

    envelope: Envelope
    place: Place


class Signatures:
    """Judges heads and checkpoints in the order of the file.

    Args:
        header: the header of the transcript.
        canonical: the trees of all members.
        words: the envelopes sent and delivered, by sender.
        log: the log so far.
        published: a checkpoint from outside that the record has to extend.
        checks: checks the signatures of heads.

    Attributes:
        spoken: judges heads.
        last: the last sound checkpoint.
        sound: the number of sound checkpoints.
        met: whether the log has the root of the published checkpoint at its size.
        equivocation: the evidence, if a checkpoint on record contradicts the published one.
    """

    def __init__(
        self,
        header: Header,
        canonical: CanonicalDigest,
        words: Mapping[str, Words],
        log: Log,
        published: SignedCheckpoint | None,
        checks: Checks,
    ) -> None:
        self._canonical = canonical
        self._log = log
        self._published = published
        keys = {str(name): key for name, key in header.roster}
        self._origin = header.session, keys.get(AGGREGATOR, b"")
        self._checks = checks
        self._claims: list[Signed] = []
        self._signing: list[_Signing] = []
        self._headed: set[str] = set()
        # Members that sent something after their head.
        self._spoilt: set[str] = set()
        self.spoken = Spoken(header, canonical.trees, words)
        self._judged = published is None
        self.last: SignedCheckpoint | None = None
        self.sound = 0
        self.met = False
        self.equivocation: Equivocation | None = None

    def sent(self, envelope: Envelope, encoded: bytes, place: Place) -> tuple[bytes, str | None]:
        """Take a member's envelope into its tree.

        Returns:
            Its leaf hash; the problem of a head, apart from its signature, or None.
        """
        sender, complaint = envelope.sender, None
        if sender in self._headed:
            self._spoilt.add(sender)
            complaint = f"seq {envelope.seq} comes after its head"
        elif envelope.kind == _HEAD:
            self._headed.add(sender)
            claim = self.spoken.head_claim(envelope)
            if isinstance(claim, str):
                complaint = claim
            else:
                self._signing.append(_Signing(envelope, place))
                self._claims.append(claim)
                if len(self._claims) >= BATCH:
                    self._check()
        return self._canonical.add(envelope, encoded), complaint

    def heads(self) -> tuple[dict[PartyId, bytes], list[tuple[PartyId, Place]]]:
        """The bodies of the sound heads, by party; the parties and places of invalid signatures."""
        self._check()
        sound, unsigned = {}, []
        for (envelope, place), holds in zip(self._signing, self._checks.found(), strict=True):
            if not holds:
                unsigned.append((envelope.sender, place))
            elif envelope.sender not in self._spoilt:
                sound[envelope.sender] = envelope.body
        return sound, unsigned

    def _check(self) -> None:
        """Hand over the signatures that were not checked yet."""
        if self._claims:
            self._checks.begin(self._claims)
            self._claims = []

    def checkpoint(self, note: str) -> str | None:
        """Take a checkpoint; returns its problem, or None."""
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

    @property
    def foreign(self) -> bool:
        """True if the published checkpoint is of another session."""
        return self._published is not None and self._published.session != self._origin[0]

    def _foreign_session(self) -> str:
        other = b"" if self._published is None else self._published.session
        return (
            f"the checkpoint is of another session, {other.hex()}; this record is of "
            f"{self._origin[0].hex()}"
        )

    def compare(self) -> Iterator[str]:
        """Compare the log with the published checkpoint, if it has come to its size."""
        published = self._published
        if self._judged or published is None or published.size != self._log.size:
            return
        self._judged = True
        if self.foreign:
            yield self._foreign_session()
        elif published.key != self._origin[1] or not published.valid:
            yield "the checkpoint is not signed by the roster's aggregator"
        elif published.root != self._log.root():
            yield "the record does not extend the checkpoint: its log has another root"
        else:
            self.met = True

    def finish(self) -> Iterator[str]:
        """Problems of the published checkpoint, once the file has ended."""
        published = self._published
        if published is None:
            return
        if not self._judged and self.foreign:
            yield self._foreign_session()
        elif not self._judged:
            yield f"the checkpoint is over {published.size} leaves, the log has {self._log.size}"
        elif self.met and self.equivocation is not None:
            self.met = False
            yield "the aggregator has signed another checkpoint in its place"
