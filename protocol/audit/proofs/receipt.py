"""From a transcript to a receipt: shows that a party's reports are in what was published."""

from __future__ import annotations

from collections.abc import Iterable

from protocol.accounting.events import Derived, Public
from protocol.audit.audit import Chunks
from protocol.audit.hearing import Hearing
from protocol.audit.walk import Step, steps
from protocol.crypto.merkle import (
    consistency_path,
    inclusion_path,
    joint_path,
    leaf_hash,
    levels_of,
)
from protocol.errors import ProtocolError, SurveyError
from protocol.messages import (
    AGGREGATOR,
    LINK_CLOSED,
    NO_ROUND,
    RECORD,
    Closed,
    Declined,
    Envelope,
    Head,
    Message,
    PartyId,
)
from protocol.session.charter import Charter
from protocol.session.heads import head_of
from protocol.session.roles import Topic
from protocol.session.variant import Variant, event_of
from protocol.surveys.limits import Held
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.entries import CanonicalDigest, Delivered, Departed, Sent
from protocol.transcript.header import charter_of
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.receipts import Counted, Receipt
from protocol.transcript.standing import Standings
from protocol.transcript.verification import Verification, verify


class NotCountedError(ProtocolError):
    """No report of ``party`` was counted, or the record cannot prove it."""

    def __init__(self, party: PartyId, reason: str) -> None:
        super().__init__(f"no receipt for {party!r}: {reason}")
        self.party = party


def prove(chunks: Chunks, variant: type[Variant], party: PartyId) -> Receipt:
    """A receipt for a party's counted reports, to be checked with the record's last checkpoint.

    Args:
        chunks: opens the transcript; it is read twice.
        variant: the variant's class, chosen by who asks and never by the transcript.
        party: whose receipt.

    Raises:
        NotCountedError: no report of the party was counted, or the record proves nothing.
        SurveyError: no readable header, one of another variant, or no such party.
        TooMuchError: what the party was told takes more than a file of this length may.
    """
    verification = verify(chunks())
    header = verification.checked_header()
    charter = charter_of(header, variant)
    if party not in charter.roster or party == AGGREGATOR:
        parties = len(charter.roster.parties)
        raise SurveyError(f"{party!r:.80} is not on the roster of {parties} parties")
    checkpoint = _checkpoint_of(verification, party)
    reader = TranscriptReader(chunks())
    held = Held(lambda: reader.stored)
    reading = _Reading(charter, CanonicalDigest(header), party, held)
    for step in steps(charter.codec, reader, held):
        reading.add(step)
    return reading.receipt(checkpoint)


def _checkpoint_of(verification: Verification, party: PartyId) -> SignedCheckpoint:
    if verification.faults:
        raise NotCountedError(party, f"the record is not sound: {verification.faults[0]}")
    checkpoint = verification.final
    if checkpoint is None:
        raise NotCountedError(party, "the record has no last checkpoint that is signed")
    if checkpoint.statement.result is None:
        raise NotCountedError(party, "nothing was published")
    return checkpoint


class _Reading:
    """What one pass over the entries collects."""

    def __init__(
        self, charter: Charter, canonical: CanonicalDigest, party: PartyId, held: Held
    ) -> None:
        self._charter = charter
        self._canonical = canonical
        self._party = party
        self._standings = Standings([name for name, _ in charter.roster.members])
        self._hearing = Hearing(charter, held)
        self._leaves: list[bytes] = []
        self._sent: dict[int, Counted] = {}
        self._came: dict[Topic, Counted] = {}
        self._reported = False
        self._head: Head | None = None
        self._declined: str | None = None
        self._departed: str | None = None

    def add(self, step: Step) -> None:
        entry, envelope = step.entry, step.envelope
        match entry:
            case Sent() if envelope is not None:
                self._canonical.trees[envelope.sender].append(entry.envelope)
                if envelope.kind == Head.kind():
                    self._standings.sign(envelope.sender)
                if envelope.sender == self._party:
                    self._said(envelope, step.message, entry.envelope)
                elif _is_closing(envelope):
                    self._standings.add(envelope.body)
            case Delivered() if entry.sender == self._party:
                report = self._sent.pop(entry.seq, None)
                # Of one kind and round a machine counts the first that comes.
                if report is not None:
                    self._came.setdefault(report.topic, report)
            case Departed():
                if entry.party == self._party:
                    self._departed = entry.reason
        if envelope is not None:
            said = isinstance(entry, Sent)
            if self._party == (envelope.sender if said else envelope.recipient):
                self._hearing.add(step)

    def _said(self, envelope: Envelope, message: Message | None, encoded: bytes) -> None:
        self._leaves.append(leaf_hash(encoded))
        if isinstance(message, Head):
            self._head = head_of(envelope)
        elif isinstance(message, Declined):
            self._declined = message.reason
        elif message is not None and envelope.recipient == AGGREGATOR:
            event = event_of(self._charter.variant, message, self._hearing.of(self._party))
            topic = envelope.kind, getattr(message, "round", NO_ROUND)
            if not isinstance(event, Public | Derived):
                self._reported = True
                self._sent[envelope.seq] = Counted(envelope.seq, topic, self._leaves[-1])

    def receipt(self, checkpoint: SignedCheckpoint) -> Receipt:
        roster, trees = self._charter.roster, self._canonical.trees
        place = roster.position[self._party]
        standing = self._standings.of(place, trees[self._party])
        reports = tuple(r for topic, r in self._came.items() if topic in standing.counted)
        if not reports:
            raise NotCountedError(self._party, self._reason())
        signed = self._leaves if self._head is None else self._leaves[:-1]
        return Receipt(
            session=self._charter.session,
            members=len(roster),
            place=place,
            standing=standing,
            reports=reports,
            path=joint_path(levels_of(signed), [report.seq for report in reports]),
            key=None if self._head is None else roster.key(self._party),
            head=None if self._head is None else (self._head.root, self._head.signature),
            extension=()
            if self._head is None
            else consistency_path(self._leaves, len(self._leaves) - 1),
            digest_path=_path(self._canonical.leaves(), place + 1),
            standing_path=_path(self._standings.leaves(trees), place),
            checkpoint=checkpoint.signature,
        )

    def _reason(self) -> str:
        if self._declined is not None:
            return f"it declined: {self._declined}"
        if self._reported:
            return "its report came too late to be counted, or never arrived"
        if self._departed not in (None, LINK_CLOSED):
            return f"it reported nothing: {self._departed}"
        return "it reported nothing"


def _is_closing(envelope: Envelope) -> bool:
    said = envelope.sender, envelope.recipient, envelope.kind
    return said == (AGGREGATOR, RECORD, Closed.kind())


def _path(leaves: Iterable[bytes], index: int) -> tuple[bytes, ...]:
    return inclusion_path([leaf_hash(leaf) for leaf in leaves], index)
