"""Receipts from a transcript: proofs that parties' reports were counted or late."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from itertools import islice

from protocol.accounting.events import Derived, Public
from protocol.audit.audit import Chunks
from protocol.audit.hearing import Hearing
from protocol.audit.proofs.logged import Logged
from protocol.audit.walk import Step, steps
from protocol.crypto.merkle import (
    joint_path,
    leaf_hash,
    merkle_root,
    root_of_hashes,
    tree_levels,
)
from protocol.errors import ProtocolError, SurveyError
from protocol.messages import (
    AGGREGATOR,
    CLOSING_MEMBERS,
    LINK_CLOSED,
    NO_ROUND,
    Closed,
    Declined,
    Envelope,
    Head,
    Message,
    PartyId,
)
from protocol.session.charter import Charter
from protocol.session.closings import counts, leaves_out
from protocol.session.heads import heard_leaf
from protocol.session.roles import Topic
from protocol.session.variant import Variant, message_event
from protocol.surveys.limits import Held
from protocol.surveys.survey import listed
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.entries import Delivered, Departed, Sent
from protocol.transcript.header import read_charter
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.receipts import (
    Counted,
    EarlierCheckpoint,
    Late,
    Receipt,
    SignedHead,
    decode_closed,
)
from protocol.transcript.verification import Verification, verify

TOO_LATE = "its report came too late to be counted"
"""Reason for no receipt if all reports came after the waits for them were over."""


class NotCountedError(ProtocolError):
    """No report of ``party`` was counted, or the record cannot prove it."""

    def __init__(self, party: PartyId, reason: str) -> None:
        super().__init__(f"no receipt for {party!r}: {reason}")
        self.party = party
        self.reason = reason


def prove(
    chunks: Chunks,
    variant: type[Variant],
    party: PartyId,
    checkpoint: SignedCheckpoint | None = None,
) -> tuple[Receipt, SignedCheckpoint]:
    """A receipt for a party's reports, and the checkpoint to check it with.

    It shows the counted reports and the late ones. The record may still be growing, or end early.

    Args:
        chunks: opens the transcript; it is read twice.
        variant: the variant's class, chosen by the caller and never by the transcript.
        party: the party.
        checkpoint: a checkpoint of the record; by default its last one.

    Raises:
        NotCountedError: no report of the party was counted by then, or the record proves nothing.
        SurveyError: no readable header, one of another variant, or no such party.
        TooMuchError: the party's received messages take more than a file of this length may.
    """
    [(_, found)], covering = prove_each(chunks, variant, [party], checkpoint)
    if isinstance(found, NotCountedError):
        raise found
    return found, covering


Proved = tuple[PartyId, Receipt | NotCountedError]
"""A party, and its receipt, or why it has none."""


def prove_each(
    chunks: Chunks,
    variant: type[Variant],
    parties: Iterable[PartyId] | None = None,
    checkpoint: SignedCheckpoint | None = None,
) -> tuple[Iterator[Proved], SignedCheckpoint]:
    """Receipts of many parties, of one reading.

    Args:
        parties: the parties; by default all.

    The other arguments and the errors are those of ``prove``. A party without a receipt comes with
    the reason instead.
    """
    verification = verify(chunks(), checkpoint=checkpoint)
    header = verification.checked_header()
    charter = read_charter(header, variant)
    roster = charter.roster
    asked = roster.parties if parties is None else tuple(parties)
    for party in asked:
        if party not in roster or party == AGGREGATOR:
            number = len(roster.parties)
            raise SurveyError(
                f"{party!r:.80} is not on the roster of {number} parties: "
                f"{listed(roster.parties, 3)}"
            )
    covering = _checked(verification, next(iter(asked), AGGREGATOR), checkpoint)
    reader = TranscriptReader(chunks())
    held = Held(lambda: reader.stored)
    logged = Logged(reader)
    reading = _Reading(charter, logged, asked, covering.size, held)
    # Of a growing record, only the verified part.
    entries = islice(reader, verification.entries)
    for step in steps(charter.codec, entries, held, handed=verification.handed):
        reading.add(step)
    if verification.ending is not None:
        logged.add(verification.ending)
    return reading.receipts(header.terms), covering


def _checked(
    verification: Verification, party: PartyId, checkpoint: SignedCheckpoint | None
) -> SignedCheckpoint:
    """The checkpoint for the receipts; refuses a record that proves nothing."""
    if verification.unopened is not None:
        raise NotCountedError(party, f"the record could not be read: {verification.unopened}")
    if verification.extends is False:
        raise NotCountedError(party, "the checkpoint is not of this record")
    if verification.faults:
        raise NotCountedError(party, f"the record is not sound: {verification.faults[0]}")
    covering = checkpoint or verification.checkpoint
    if covering is None:
        raise NotCountedError(party, "the record has no checkpoint that is signed")
    return covering


class _Reading:
    """Collects the receipts of some parties in one pass over the entries."""

    def __init__(
        self,
        charter: Charter,
        logged: Logged,
        parties: Iterable[PartyId],
        size: int,
        held: Held,
    ) -> None:
        self._logged = logged
        self._members = charter.roster.members
        self._hearing = Hearing(charter, {}, held)
        self._words = {
            party: _Words(charter, logged, self._hearing, party, size) for party in parties
        }

    def add(self, step: Step) -> None:
        entry, envelope = step.entry, step.envelope
        at = self._logged.add(entry)
        match entry:
            case Sent() if envelope is not None:
                own = self._words.get(envelope.sender)
                if own is not None:
                    own.take(envelope, step.message, entry.envelope, at)
                closed = decode_closed(envelope)
                if closed is not None:
                    for name, _ in self._members[closed.first : closed.first + CLOSING_MEMBERS]:
                        if name in self._words:
                            self._words[name].close(closed, at)
                if envelope.recipient in self._words:
                    self._words[envelope.recipient].tell(envelope, entry.envelope)
            case Delivered() if entry.sender in self._words:
                self._words[entry.sender].deliver(entry.seq)
            case Departed() if entry.party in self._words:
                self._words[entry.party].departed = entry.reason
        if envelope is not None and envelope.recipient in self._words:
            self._hearing.add(step)

    def receipts(self, terms: bytes) -> Iterator[Proved]:
        """The receipt of each party, or the reason why it has none.

        Args:
            terms: the hash of the session's.
        """
        for party, words in self._words.items():
            try:
                yield party, words.receipt(terms)
            except NotCountedError as error:
                yield party, error


class _Words:
    """Entries of one party on record, as indices and contents."""

    def __init__(
        self, charter: Charter, logged: Logged, hearing: Hearing, party: PartyId, size: int
    ) -> None:
        self._charter = charter
        self._logged = logged
        self._party = party
        self._place = charter.roster.position[party]
        self._size = size
        self._hearing = hearing
        self._said: list[bytes] = []
        # The leaf hashes of envelopes to the party, by place of the sender and seq.
        self._told: dict[tuple[int, int], bytes] = {}
        # By seq: reports under way. By topic: the first that came, the closing that counted it,
        # and one that awaited the party before and left it out.
        self._sent: dict[int, tuple[Topic, int, bytes]] = {}
        self._came: dict[Topic, tuple[int, int, bytes]] = {}
        self._closed: dict[Topic, tuple[int, bytes]] = {}
        self._missed: dict[Topic, tuple[int, bytes]] = {}
        self._later = False
        self._reported = False
        self._head: SignedHead | None = None
        self._declined: str | None = None
        self.departed: str | None = None

    def tell(self, envelope: Envelope, encoded: bytes) -> None:
        """Note an envelope to the party."""
        place = self._charter.roster.position[envelope.sender]
        self._told[place, envelope.seq] = leaf_hash(encoded)

    def deliver(self, seq: int) -> None:
        """Note that an envelope of the party was delivered."""
        report = self._sent.pop(seq, None)
        # Of one kind and round a machine counts the first that comes.
        if report is not None:
            self._came.setdefault(report[0], (seq, *report[1:]))

    def take(
        self, envelope: Envelope, message: Message | None, encoded: bytes, at: tuple[int, bytes]
    ) -> None:
        """Note an envelope of the party."""
        if isinstance(message, Head):
            heard = merkle_root(
                heard_leaf(w.said, w.kind, w.round, [(*slot, self._told[slot]) for slot in w.heard])
                for w in message.waits
            )
            self._head = SignedHead(
                envelope.seq, root_of_hashes(self._said), heard, message.signature
            )
            return
        self._said.append(leaf_hash(encoded))
        if isinstance(message, Declined):
            self._declined = message.reason
        elif message is not None and envelope.recipient == AGGREGATOR:
            seen = self._hearing.of(self._party, envelope.seq)
            event = message_event(self._charter.variant, message, seen, envelope.recipient)
            topic = envelope.kind, getattr(message, "round", NO_ROUND)
            if not isinstance(event, Public | Derived):
                self._reported = True
                self._sent[envelope.seq] = topic, *at

    def close(self, closed: Closed, at: tuple[int, bytes]) -> None:
        """Note a closing that may name the party."""
        topic, members = (closed.of, closed.round), len(self._charter.roster)
        if leaves_out(closed, self._place, members=members):
            self._missed.setdefault(topic, at)
        # The report of a topic has to come before it is counted.
        if counts(closed, self._place, members=members) and topic in self._came:
            if at[0] < self._size:
                self._closed.setdefault(topic, at)
            else:
                self._later = True

    def receipt(self, terms: bytes) -> Receipt:
        """The receipt.

        Args:
            terms: the hash of the session's.

        Raises:
            NotCountedError: says why there is none.
        """
        roster, place, size = self._charter.roster, self._place, self._size
        counted = {t: report for t, report in self._came.items() if t in self._closed}
        # An envelope that was never delivered is late all the same.
        sent = {topic: (seq, leaf, content) for seq, (topic, leaf, content) in self._sent.items()}
        made = sent | self._came
        before = {t: self._early(t, report[1]) for t, report in made.items() if t not in counted}
        late = {t: (made[t], early) for t, early in before.items() if early is not None}
        if not counted:
            raise NotCountedError(self._party, self._reason(late=bool(late)))
        shown = self._logged.shown
        return Receipt(
            party=self._party,
            key=roster.key(self._party),
            place=place,
            members=len(roster),
            roster=roster.inclusion_path_at(place),
            terms=terms,
            attempt=self._charter.attempt,
            counted=tuple(
                Counted(
                    shown(*report[1:], size),
                    shown(*self._closed[topic], size),
                    self._path(report[0]),
                )
                for topic, report in counted.items()
            ),
            late=tuple(
                Late(
                    shown(*report[1:], size),
                    shown(*self._missed[topic], early.size),
                    self._path(report[0]),
                    early,
                )
                for topic, (report, early) in late.items()
            ),
            waiting=len(made) - len(counted) - len(late),
            head=self._head,
        )

    def _path(self, seq: int) -> tuple[bytes, ...]:
        """The path of an envelope in the tree of the party's head; empty without a head."""
        return () if self._head is None else joint_path(self._levels, [seq])

    @functools.cached_property
    def _levels(self) -> tuple[tuple[bytes, ...], ...]:
        return tree_levels(self._said)

    def _early(self, topic: Topic, leaf: int) -> EarlierCheckpoint | None:
        """A checkpoint with the closing that left out a report, but without the report."""
        if topic not in self._missed or leaf >= self._size:
            return None
        closing, _ = self._missed[topic]
        for signed in self._logged.checkpoints():
            if closing < signed.size <= leaf and signed.valid:
                path = self._logged.tree.consistency_path(signed.size, self._size)
                return EarlierCheckpoint(signed.size, signed.root, signed.signature, path)
        return None

    def _reason(self, *, late: bool) -> str:
        if late:
            return TOO_LATE
        if self._later:
            return f"it was counted after the checkpoint of size {self._size:,}"
        if self._declined is not None:
            return f"it declined: {self._declined}"
        if self._reported:
            return "its report came too late to be counted, or never arrived"
        if self.departed not in (None, LINK_CLOSED):
            return f"it reported nothing: {self.departed}"
        return "it reported nothing"
