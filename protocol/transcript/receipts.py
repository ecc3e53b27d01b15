"""Receipts: proof that a party's reports were counted, or that all it said is on record.

They are checked with a checkpoint alone.
"""

from __future__ import annotations

import functools
from typing import Annotated, TypeVar

import msgspec

from protocol.crypto.merkle import is_included, joint_root, leaf_hash
from protocol.errors import RemoteProtocolError, TranscriptError
from protocol.messages import (
    AGGREGATOR,
    KERNEL_KINDS,
    MAX_NUMBER,
    RECORD,
    Closed,
    Count,
    Envelope,
    Head,
    PartyId,
)
from protocol.session.charter import Charter
from protocol.session.closings import counts
from protocol.session.heads import SaidHead, head_of, head_statement
from protocol.session.roles import Topic
from protocol.session.roster import KEY_BYTES, is_signature, roster_leaf
from protocol.session.terms import is_attempt, session_of, survey_id_of
from protocol.transcript.checkpoints import SIGNATURE_BYTES, SignedCheckpoint
from protocol.transcript.entries import Hash, Item, Sent, decode_item, encode_item
from protocol.transcript.log import SALT_BYTES, log_leaf
from protocol.wire.canonical import canonical
from protocol.wire.codec import decode_envelope, encode_envelope

MAGIC = b"sottovoce receipt 2\n"
"""The first line of every receipt: name and version of the format."""

_KERNEL = tuple(kind.kind() for kind in KERNEL_KINDS)
T = TypeVar("T", bound=Item)


class Shown(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    array_like=True,
    dict=True,
    forbid_unknown_fields=True,
):
    """An entry, and the proof that it is in the log.

    Args:
        index: which leaf of the log it is.
        salt: of that leaf.
        content: the entry, encoded.
        path: its inclusion proof (RFC 9162, section 2.1.3).
    """

    index: Count
    salt: Annotated[bytes, msgspec.Meta(min_length=SALT_BYTES, max_length=SALT_BYTES)]
    content: bytes
    path: tuple[Hash, ...]

    def is_in(self, checkpoint: SignedCheckpoint) -> bool:
        """Whether the log of a checkpoint has this entry."""
        return is_included(
            log_leaf(self.salt, self.content),
            index=self.index,
            count=checkpoint.size,
            path=self.path,
            root=checkpoint.root,
        )

    @functools.cached_property
    def item(self) -> Item | None:
        """What it says; None if it is malformed."""
        try:
            return decode_item(self.content)
        except TranscriptError:
            return None

    @functools.cached_property
    def envelope(self) -> Envelope | None:
        """The envelope whose sending it records; None if it records something else."""
        try:
            envelope = decode_envelope(self.encoded)
        except RemoteProtocolError:
            return None
        return envelope if 0 <= envelope.seq <= MAX_NUMBER else None

    @property
    def encoded(self) -> bytes:
        """The encoded envelope; empty if it records something else."""
        return self.item.envelope if isinstance(self.item, Sent) else b""


class Counted(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A report, and the closing of the aggregator that counted its sender."""

    report: Shown
    closing: Shown

    @property
    def topic(self) -> Topic | None:
        """The kind and round that the closing is of; None if it is not a closing."""
        closed = closed_of(self.closing.envelope)
        return None if closed is None else (closed.of, closed.round)


class SignedHead(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A party's signature of all it has said and heard; the root of what it said is computed.

    Args:
        count: how many envelopes it has said.
        heard: the root of what it has heard.
        signature: its own (``protocol.session.heads``).
    """

    count: Count
    heard: Hash
    signature: Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]


class Receipt(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True
):
    """What proves that a party's words are in the record that a checkpoint is over.

    It shows reports and the closings that counted them; or the party's head, which signs all that
    the party has said: an acknowledgement, before anything is counted.

    Args:
        party: its id.
        key: its public key.
        place: its position in the roster.
        members: how many the roster has, the aggregator included.
        roster: the inclusion proof of its id and key in the roster's tree.
        terms: the hash of what was agreed (``protocol.session.terms``).
        attempt: at the survey.
        counted: its reports, and where they were counted.
        head: its signature of all it said; None without one.
        path: with a head, the joint path of the reports' envelopes in the tree that it signs;
            without reports, the root of that tree.
        ended: the entry of the head; None in a receipt that shows reports alone.
    """

    party: PartyId
    key: Annotated[bytes, msgspec.Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
    place: Count
    members: Count
    roster: tuple[Hash, ...]
    terms: Hash
    attempt: Count
    counted: tuple[Counted, ...]
    head: SignedHead | None
    path: tuple[Hash, ...]
    ended: Shown | None = None

    def __repr__(self) -> str:
        return f"Receipt({self.party!r}, {len(self.counted)} reports)"

    @property
    def session(self) -> bytes:
        """The id of the session of these terms, roster and attempt; empty if there is none."""
        leaf = leaf_hash(roster_leaf(self.party, self.key))
        root = joint_root({self.place: leaf}, count=self.members, path=self.roster)
        if root is None or not is_attempt(self.attempt):
            return b""
        survey = survey_id_of(terms=self.terms, roster=root, members=self.members)
        return session_of(survey, self.attempt)


ProofPath = Annotated[tuple[Hash, ...], msgspec.Meta(max_length=63)]
"""An inclusion proof in a tree whose leaves can be numbered."""


class Acknowledgement(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True
):
    """What an aggregator says to a party whose words are all on its disk.

    The party has its own words. This proves that its head, which signs them, is in the log of a
    checkpoint; with them it is a receipt.

    Args:
        size, root, signature: of the checkpoint.
        index: which leaf the head is.
        at: when it was sent, in microseconds since the start of the run.
        salt: of the leaf.
        path: its inclusion proof.
        roster: that of the party's id and key in the roster's tree.
    """

    size: Count
    root: Hash
    signature: Annotated[
        bytes, msgspec.Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)
    ]
    index: Count
    at: Count
    salt: Annotated[bytes, msgspec.Meta(min_length=SALT_BYTES, max_length=SALT_BYTES)]
    path: ProofPath
    roster: ProofPath

    def __repr__(self) -> str:
        return f"Acknowledgement(leaf {self.index} of {self.size})"


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Receipt)
_closings = msgspec.msgpack.Decoder(Closed)


def encode_receipt(receipt: Receipt) -> bytes:
    """A receipt as a file holds it."""
    return MAGIC + _encode(receipt)


def decode_receipt(content: bytes) -> Receipt:
    """The inverse of ``encode_receipt``.

    Raises:
        ValueError: malformed, or not the one encoding of what it says.
    """
    if not content.startswith(MAGIC):
        raise ValueError("not a receipt")
    return canonical(content[len(MAGIC) :], _decoder, what="receipt")


def receipt_for(
    charter: Charter, head: SaidHead, given: Acknowledgement
) -> tuple[Receipt, SignedCheckpoint]:
    """The receipt that a party makes of an acknowledgement, and the checkpoint to check it with.

    Whether it holds, ``receipts.problems_of`` says: session, key, place and words are the party's
    own, so it does only if the aggregator has signed a log that has these very words.

    Args:
        charter: the party's.
        head: the party's own.
    """
    roster, envelope = charter.roster, head.envelope
    place = roster.position[envelope.sender]
    sent = encode_item(Sent(at=given.at, envelope=encode_envelope(envelope)))
    receipt = Receipt(
        party=envelope.sender,
        key=roster.key(envelope.sender),
        place=place,
        members=len(roster),
        roster=given.roster,
        terms=charter.terms,
        attempt=charter.attempt,
        counted=(),
        head=SignedHead(envelope.seq, head.heard, head.signature),
        path=(head.said,),
        ended=Shown(index=given.index, salt=given.salt, content=sent, path=given.path),
    )
    checkpoint = SignedCheckpoint(
        session=charter.session,
        key=roster.key(AGGREGATOR),
        size=given.size,
        root=given.root,
        signature=given.signature,
    )
    return receipt, checkpoint


def closed_of(envelope: Envelope | None) -> Closed | None:
    """The closing in an envelope of the aggregator to the record; None if it is something else."""
    if envelope is None or (envelope.sender, envelope.recipient, envelope.kind) != (
        AGGREGATOR,
        RECORD,
        Closed.kind(),
    ):
        return None
    try:
        return canonical(envelope.body, _closings, what="closing")
    except ValueError:
        return None


def problems_of(receipt: Receipt, checkpoint: SignedCheckpoint) -> tuple[str, ...]:
    """Why a receipt does not hold with a checkpoint, in words; empty if it does."""
    counted, ended = receipt.counted, receipt.ended
    shown = [s for each in counted for s in (each.report, each.closing)]
    shown += [] if ended is None else [ended]
    envelopes = [s.envelope for s in shown]
    topics = {each.topic for each in counted}
    checks = (
        (checkpoint.valid, "the checkpoint is not signed by the key in it"),
        (
            all(s.is_in(checkpoint) for s in shown),
            "an entry of the receipt is not in the log of the checkpoint",
        ),
        (
            all(e is not None and e.session == checkpoint.session for e in envelopes),
            "the receipt is of another session than the checkpoint",
        ),
        (
            receipt.session == checkpoint.session,
            "the party, its key, the terms or the attempt are not those of the session",
        ),
        (receipt.place > 0, "the receipt is for the aggregator, which has no reports"),
        (
            bool(counted) or ended is not None,
            "the receipt is empty: expected at least one report, or the party's head",
        ),
        (all(_is_counted(receipt, each) for each in counted), "a report was not counted"),
        (len(topics) == len(counted), "two reports are of one kind and round"),
        (
            _head_holds(receipt, checkpoint.session),
            "the party's signed head does not match its reports",
        ),
        (ended is None or _is_head(receipt, ended), "the entry shown is not the party's head"),
    )
    return tuple(problem for sound, problem in checks if not sound)


def is_about(receipt: Receipt, encoded: bytes) -> bool:
    """Whether an envelope, as it was sent, is one of the reports of the receipt."""
    return any(each.report.encoded == encoded for each in receipt.counted)


def _is_counted(receipt: Receipt, counted: Counted) -> bool:
    """Whether a closing has counted the party, after it sent a report of that kind."""
    report, closed = counted.report.envelope, closed_of(counted.closing.envelope)
    return (
        report is not None
        and closed is not None
        and (report.sender, report.recipient) == (receipt.party, AGGREGATOR)
        and report.kind == closed.of
        and report.kind not in _KERNEL
        and counted.report.index < counted.closing.index
        and counts(closed, receipt.place, members=receipt.members)
    )


def _head_holds(receipt: Receipt, session: bytes) -> bool:
    """The party's signature, and that the reports are among what it has signed."""
    head, reports = receipt.head, [each.report for each in receipt.counted]
    if head is None:
        return not receipt.path
    leaves = {r.envelope.seq: leaf_hash(r.encoded) for r in reports if r.envelope is not None}
    if leaves:
        said = joint_root(leaves, count=head.count, path=receipt.path)
    else:
        said = receipt.path[0] if len(receipt.path) == 1 else None
    if said is None or len(leaves) != len(reports):
        return False
    statement = head_statement(
        session=session,
        sender=receipt.party,
        count=head.count,
        said=said,
        heard=head.heard,
    )
    return is_signature(head.signature, statement, key=receipt.key)


def _is_head(receipt: Receipt, ended: Shown) -> bool:
    """Whether an entry is the head that the receipt has, as its party sent it."""
    envelope, signed = ended.envelope, receipt.head
    if envelope is None or signed is None:
        return False
    head = head_of(envelope)
    return (
        head is not None
        and (envelope.sender, envelope.kind) == (receipt.party, Head.kind())
        and (envelope.seq, head.signature) == (signed.count, signed.signature)
    )
