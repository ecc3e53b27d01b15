"""Receipts: proof that a party's reports were counted, or that all it sent is on record.

They are checked with a checkpoint alone.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec

from protocol.crypto.merkle import (
    is_consistent,
    is_included,
    joint_path,
    joint_root,
    leaf_hash,
    tree_levels,
)
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
from protocol.session.closings import counts, leaves_out
from protocol.session.heads import SaidHead, decode_head, head_statement
from protocol.session.roles import Topic
from protocol.session.roster import KEY_BYTES, is_signature, roster_leaf
from protocol.session.terms import is_attempt, session_id
from protocol.transcript.checkpoints import SIGNATURE_BYTES, SignedCheckpoint
from protocol.transcript.entries import Hash, Item, Restored, Sent, decode_item, encode_item
from protocol.transcript.evidence import STATEMENT_BYTES, is_unmasked
from protocol.transcript.log import SALT_BYTES, log_leaf
from protocol.wire.canonical import canonical
from protocol.wire.codec import decode_envelope, encode_envelope

MAGIC = b"sottovoce receipt 4\n"
"""The first line of every receipt: name and version of the format."""

Word: TypeAlias = Literal["counted", "late", "not yet known"]
"""The conclusion of a receipt."""

COUNTED: Word = "counted"
"""Closings in the log have counted all reports of the party."""

LATE: Word = "late"
"""A report came after the wait for it was over, and is not counted."""

NOT_YET_KNOWN: Word = "not yet known"
"""Some report of the party has no closing in the log yet, or the receipt shows no report."""

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
        index: its leaf in the log.
        salt: the salt of the leaf.
        content: the entry, encoded.
        path: its inclusion proof (RFC 9162, section 2.1.3).
    """

    index: Count
    salt: Annotated[bytes, msgspec.Meta(min_length=SALT_BYTES, max_length=SALT_BYTES)]
    content: bytes
    path: tuple[Hash, ...]

    def is_in(self, checkpoint: SignedCheckpoint | EarlierCheckpoint) -> bool:
        """Check whether the log of a checkpoint has this entry."""
        return is_included(
            log_leaf(self.salt, self.content),
            index=self.index,
            count=checkpoint.size,
            path=self.path,
            root=checkpoint.root,
        )

    @functools.cached_property
    def item(self) -> Item | None:
        """Item of the entry; None if it is malformed."""
        try:
            return decode_item(self.content)
        except TranscriptError:
            return None

    @functools.cached_property
    def envelope(self) -> Envelope | None:
        """The envelope that it records as sent; None if it records something else."""
        try:
            envelope = decode_envelope(self.encoded)
        except RemoteProtocolError:
            return None
        return envelope if 0 <= envelope.seq <= MAX_NUMBER else None

    @property
    def encoded(self) -> bytes:
        """The encoded envelope; empty if it records something else."""
        return self.item.envelope if isinstance(self.item, Sent) else b""


def is_restored(shown: Shown, later: SignedCheckpoint, earlier: SignedCheckpoint) -> bool:
    """Check whether an entry of the log says that an older copy than a checkpoint was restored.

    Args:
        shown: the ``Restored`` entry.
        later: a checkpoint of the log, with a checked signature.
        earlier: the checkpoint that it does not extend, with a checked signature.
    """
    restored = isinstance(shown.item, Restored)
    return restored and shown.index < earlier.size and shown.is_in(later)


ProofPath = Annotated[tuple[Hash, ...], msgspec.Meta(max_length=63)]
"""A Merkle proof; a tree with numbered leaves has at most 63 levels above them."""

Signature = Annotated[bytes, msgspec.Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]


class EarlierCheckpoint(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A checkpoint of the receipt's log from before a report.

    Args:
        size, root, signature: of the checkpoint.
        path: the consistency proof to the receipt's own checkpoint (RFC 9162, section 2.1.4).
    """

    size: Count
    root: Hash
    signature: Signature
    path: ProofPath

    def signed(self, later: SignedCheckpoint) -> SignedCheckpoint:
        """The checkpoint, of the session and by the key of a later one."""
        return SignedCheckpoint(
            session=later.session,
            key=later.key,
            size=self.size,
            root=self.root,
            signature=self.signature,
        )


class Counted(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A report, and the closing of the aggregator that names its sender.

    Args:
        report: the report.
        closing: the closing that counted its sender.
        path: the inclusion path of the report's envelope in the tree that the head signs; empty
            without a head.
    """

    report: Shown
    closing: Shown
    path: ProofPath

    @property
    def topic(self) -> Topic | None:
        """The kind and round that it closes; None if it is not a closing."""
        closed = decode_closed(self.closing.envelope)
        return None if closed is None else (closed.of, closed.round)


class Late(Counted, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A report that came after the wait for it was over.

    The closing awaited its sender and left it out; it is in the log of ``before``.

    Args:
        before: a checkpoint with the closing and without the report.
    """

    before: EarlierCheckpoint


class SignedHead(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A party's signature of all it has sent and received.

    Args:
        count: the number of envelopes that it has sent.
        said: the root of their tree.
        heard: the root of the tree of its waits.
        signature: the signature (``protocol.session.heads``).
    """

    count: Count
    said: Hash
    heard: Hash
    signature: Signature


class Receipt(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True
):
    """Proof that a party's messages are in the record that a checkpoint is over.

    It shows reports, and the closings that counted them or left them out. If it is made from an
    acknowledgement, it also shows the party's head, which signs all that the party has sent.

    Args:
        party: the party's id.
        key: its public key.
        place: its place on the roster.
        members: the number of members of the roster, the aggregator included.
        roster: the inclusion proof of its id and key in the roster's tree.
        terms: the hash of the agreed terms (``protocol.session.terms``).
        attempt: the number of the attempt at the survey.
        counted: its reports with the closings that counted them.
        late: its reports that came too late, with the closings that left them out.
        waiting: the number of its other reports, by the receipt's maker.
        head: its signature of all it sent; None without one.
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
    late: tuple[Late, ...]
    waiting: Count
    head: SignedHead | None
    ended: Shown | None = None

    def __repr__(self) -> str:
        return f"Receipt({self.party!r}, {len(self.reports)} reports)"

    @property
    def reports(self) -> tuple[Shown, ...]:
        """The reports that it shows."""
        return (*(each.report for each in self.counted), *(each.report for each in self.late))

    @property
    def word(self) -> Word:
        """Conclusion of the receipt. It is right only if the receipt holds."""
        if self.late:
            return LATE
        return COUNTED if self.counted and not self.waiting else NOT_YET_KNOWN

    @property
    def session(self) -> bytes:
        """The id of the session of these terms, roster and attempt; empty if there is none."""
        leaf = leaf_hash(roster_leaf(self.party, self.key))
        root = joint_root({self.place: leaf}, count=self.members, path=self.roster)
        if root is None or not is_attempt(self.attempt):
            return b""
        return session_id(terms=self.terms, roster=root, members=self.members, attempt=self.attempt)


class Confirmed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The party's signature of the survivors of a secure sum that it has helped to unmask.

    Args:
        statement: the signed statement (``evidence.unmasked_statement``).
        signature: the signature by the party's key.
    """

    statement: Annotated[bytes, msgspec.Meta(max_length=STATEMENT_BYTES)]
    signature: Signature


class Confirming(Receipt, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """A receipt of a party that has helped to unmask a secure sum.

    Args:
        confirmed: its signature of the survivors.
    """

    confirmed: Confirmed

    def __repr__(self) -> str:
        return Receipt.__repr__(self)


class Named(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """A closing that names a party, and the party's envelope that it is about.

    Args:
        seq: the envelope's number.
        index: its leaf in the log.
        at: its time, in microseconds since the start of the run.
        salt: the salt of the leaf.
        path: the leaf's inclusion proof.
        closing: the closing, in the log of ``before`` if that is given.
        before: a checkpoint with the closing and without the envelope. None if the closing came
            after the envelope.
    """

    seq: Count
    index: Count
    at: Count
    salt: Annotated[bytes, msgspec.Meta(min_length=SALT_BYTES, max_length=SALT_BYTES)]
    path: ProofPath
    closing: Shown
    before: EarlierCheckpoint | None


class Acknowledgement(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True
):
    """Acknowledgement to a party that all its messages are on the aggregator's disk.

    It proves that the party's head, which signs them, is in the log of a checkpoint. The party
    makes a receipt of it and of its own messages (``receipt_for``).

    Args:
        size, root, signature: of the checkpoint.
        index: the leaf of the head.
        at: the time of the head, in microseconds since the start of the run.
        salt: the salt of the leaf.
        path: the leaf's inclusion proof.
        roster: the inclusion proof of the party's id and key in the roster's tree.
        named: the closings in that log that name the party.
    """

    size: Count
    root: Hash
    signature: Signature
    index: Count
    at: Count
    salt: Annotated[bytes, msgspec.Meta(min_length=SALT_BYTES, max_length=SALT_BYTES)]
    path: ProofPath
    roster: ProofPath
    named: tuple[Named, ...] = ()

    def __repr__(self) -> str:
        return f"Acknowledgement(leaf {self.index} of {self.size})"


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Receipt)
_confirming = msgspec.msgpack.Decoder(Confirming)
_LONGER = b"\x9d"
"""The first byte of a ``Confirming`` receipt, an array of one more field than others."""

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
    fields = content[len(MAGIC) :]
    if fields.startswith(_LONGER):
        return canonical(fields, _confirming, what="receipt")
    return canonical(fields, _decoder, what="receipt")


def receipt_for(
    charter: Charter,
    head: SaidHead,
    given: Acknowledgement,
    *,
    said: Sequence[bytes],
    reports: Sequence[int],
    signed: Sequence[tuple[bytes, bytes]] = (),
) -> tuple[Receipt, SignedCheckpoint]:
    """A party's receipt from an acknowledgement, and the checkpoint to check it with.

    ``receipt_problems`` checks it. Session, key, place and messages are the party's own, so it
    holds only if the aggregator has signed a log with these very messages.

    Args:
        charter: the party's charter.
        head: the party's head.
        said: its envelopes before the head, encoded, in order.
        reports: which of them are its reports (``Machine.reports``). Closings that name others are
            ignored.
        signed: the statements that its role has signed (``Machine.signed``), with the signatures.
    """
    roster, envelope = charter.roster, head.envelope
    own = dict.fromkeys(reports)
    named = [each for each in given.named if each.seq in own]
    counted, late = _place_reports(named, said)
    sent = encode_item(Sent(at=given.at, envelope=encode_envelope(envelope)))
    receipt = Receipt(
        party=envelope.sender,
        key=roster.key(envelope.sender),
        place=roster.position[envelope.sender],
        members=len(roster),
        roster=given.roster,
        terms=charter.terms,
        attempt=charter.attempt,
        counted=counted,
        late=late,
        waiting=len(own.keys() - {each.seq for each in named}),
        head=SignedHead(envelope.seq, head.said, head.heard, head.signature),
        ended=Shown(index=given.index, salt=given.salt, content=sent, path=given.path),
    )
    for statement, signature in signed:
        if is_unmasked(statement, charter.session):
            fields = {name: getattr(receipt, name) for name in receipt.__struct_fields__}
            receipt = Confirming(**fields, confirmed=Confirmed(statement, signature))
            break
    checkpoint = SignedCheckpoint(
        session=charter.session,
        key=roster.key(AGGREGATOR),
        size=given.size,
        root=given.root,
        signature=given.signature,
    )
    return receipt, checkpoint


def _place_reports(
    named: Sequence[Named], said: Sequence[bytes]
) -> tuple[tuple[Counted, ...], tuple[Late, ...]]:
    """Reports that closings name, with proofs from the party's own envelopes: counted, and late."""
    levels = tree_levels([*map(leaf_hash, said)]) if named else ()
    counted: list[Counted] = []
    late: list[Late] = []
    for each in named:
        content = encode_item(Sent(at=each.at, envelope=said[each.seq]))
        report = Shown(index=each.index, salt=each.salt, content=content, path=each.path)
        path = joint_path(levels, [each.seq])
        if each.before is None:
            counted.append(Counted(report, each.closing, path))
        else:
            late.append(Late(report, each.closing, path, each.before))
    return tuple(counted), tuple(late)


def decode_closed(envelope: Envelope | None) -> Closed | None:
    """The closing in an envelope from the aggregator to the record; None for any other envelope."""
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


def receipt_problems(receipt: Receipt, checkpoint: SignedCheckpoint) -> tuple[str, ...]:
    """Problems of a receipt with a checkpoint, in words; empty if it holds."""
    counted, late, ended = receipt.counted, receipt.late, receipt.ended
    shown = [*receipt.reports, *(each.closing for each in counted)]
    shown += [] if ended is None else [ended]
    envelopes = [s.envelope for s in (*shown, *(each.closing for each in late))]
    numbers = [None if r.envelope is None else r.envelope.seq for r in receipt.reports]
    topics = [*(each.topic for each in counted), *(each.topic for each in late)]
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
            bool(topics) or ended is not None,
            "the receipt is empty: expected at least one report, or the party's head",
        ),
        (all(_is_counted(receipt, each) for each in counted), "a report was not counted"),
        *_late_checks(receipt, checkpoint),
        (len(set(topics)) == len(topics), "two reports are of one kind and round"),
        (len(set(numbers)) == len(topics), "one report is shown twice"),
        (
            _head_holds(receipt, checkpoint.session),
            "the party's signed head does not match its reports",
        ),
        (ended is None or _is_head(receipt, ended), "the entry shown is not the party's head"),
        (
            not isinstance(receipt, Confirming) or _is_confirmed(receipt),
            "the party has not signed which survivors of this session it confirmed",
        ),
    )
    return tuple(problem for sound, problem in checks if not sound)


def split_between(one: Receipt, other: Receipt) -> str | None:
    """Contradiction between two receipts about the survivors of one sum, in words; None for none.

    It needs no checkpoint: a receipt shows by itself that its key is on the session's roster.
    """
    if not (isinstance(one, Confirming) and isinstance(other, Confirming)):
        return None
    if one.session != other.session or not (_is_confirmed(one) and _is_confirmed(other)):
        return None
    if one.confirmed.statement == other.confirmed.statement:
        return None
    if one.key == other.key:
        return f"{one.party} has signed two different survivor sets of one secure sum"
    return (
        f"{one.party} and {other.party} have signed different survivor sets of one secure sum: the "
        "aggregator has told them so, or one of the two conspires with it"
    )


def _is_confirmed(receipt: Confirming) -> bool:
    statement, signature = receipt.confirmed.statement, receipt.confirmed.signature
    signs = is_signature(signature, statement, key=receipt.key)
    return signs and is_unmasked(statement, receipt.session)


def is_about(receipt: Receipt, encoded: bytes) -> bool:
    """Check whether an encoded envelope is one of the reports of the receipt."""
    return any(report.encoded == encoded for report in receipt.reports)


def _is_counted(receipt: Receipt, counted: Counted) -> bool:
    """Check whether a closing has counted the party, after it sent a report of that kind."""
    closed = _closed_for(receipt, counted)
    return (
        closed is not None
        and counted.report.index < counted.closing.index
        and counts(closed, receipt.place, members=receipt.members)
    )


def _closed_for(receipt: Receipt, shown: Counted) -> Closed | None:
    """The closing, if it closes the kind of the party's report; else None."""
    report, closed = shown.report.envelope, decode_closed(shown.closing.envelope)
    if (
        report is None
        or closed is None
        or (report.sender, report.recipient) != (receipt.party, AGGREGATOR)
        or report.kind != closed.of
        or report.kind in _KERNEL
    ):
        return None
    return closed


def _late_checks(receipt: Receipt, checkpoint: SignedCheckpoint) -> tuple[tuple[bool, str], ...]:
    """Conditions on late reports, each with the problem if it fails."""
    late, place, members = receipt.late, receipt.place, receipt.members
    return (
        (
            all(each.before.signed(checkpoint).valid for each in late),
            "what calls a report late is not signed by the key of the checkpoint",
        ),
        (
            all(
                is_consistent(
                    first=each.before.size,
                    second=checkpoint.size,
                    first_root=each.before.root,
                    second_root=checkpoint.root,
                    path=each.before.path,
                )
                for each in late
            ),
            "what calls a report late is not of the log of the checkpoint",
        ),
        (
            all(each.closing.is_in(each.before) for each in late),
            "what calls a report late does not hold the closing",
        ),
        (
            all(each.before.size <= each.report.index for each in late),
            "a report was on record before what calls it late",
        ),
        (
            all(
                (closed := _closed_for(receipt, each)) is not None
                and leaves_out(closed, place, members=members)
                for each in late
            ),
            "a closing does not leave out the report that is called late",
        ),
    )


def _head_holds(receipt: Receipt, session: bytes) -> bool:
    """Check the head's signature, and that it covers the reports."""
    head, shown = receipt.head, (*receipt.counted, *receipt.late)
    if head is None:
        return not any(each.path for each in shown)
    for each in shown:
        envelope = each.report.envelope
        if envelope is None or not is_included(
            each.report.encoded,
            index=envelope.seq,
            count=head.count,
            path=each.path,
            root=head.said,
        ):
            return False
    statement = head_statement(
        session=session,
        sender=receipt.party,
        count=head.count,
        said=head.said,
        heard=head.heard,
    )
    return is_signature(head.signature, statement, key=receipt.key)


def _is_head(receipt: Receipt, ended: Shown) -> bool:
    """Check whether an entry records the receipt's head as sent by the party."""
    envelope, signed = ended.envelope, receipt.head
    if envelope is None or signed is None:
        return False
    head = decode_head(envelope)
    return (
        head is not None
        and (envelope.sender, envelope.kind) == (receipt.party, Head.kind())
        and (envelope.seq, head.signature) == (signed.count, signed.signature)
    )
