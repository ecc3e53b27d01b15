"""Receipts: proof that a party's reports were counted, to be checked with a checkpoint alone."""

from __future__ import annotations

from typing import Annotated

import msgspec

from protocol.crypto.merkle import is_consistent, is_included, joint_root, leaf_hash
from protocol.errors import RemoteProtocolError
from protocol.messages import AGGREGATOR, KERNEL_KINDS
from protocol.session.heads import head_statement
from protocol.session.roles import Topic
from protocol.session.roster import is_signature
from protocol.transcript.checkpoints import Count, Hash, SignedCheckpoint
from protocol.transcript.entries import party_leaf
from protocol.transcript.standing import Standing, standing_leaf
from protocol.wire.canonical import canonical
from protocol.wire.codec import decode_envelope

MAGIC = b"sottovoce receipt 1\n"
"""The first line of every receipt: name and version of the format."""

_Signature = Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]
_KERNEL = tuple(kind.kind() for kind in KERNEL_KINDS)


class Counted(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A report that was counted.

    Args:
        seq: its number among the party's envelopes.
        topic: its kind and round. That the party was counted there is signed by the aggregator;
            that it is this envelope's topic only the envelope itself can show (``is_about``).
        leaf: the leaf hash of its envelope.
    """

    seq: Count
    topic: Topic
    leaf: Hash


class Receipt(
    msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True
):
    """What proves that a party's reports were counted in what a checkpoint publishes.

    Args:
        session: the session's id.
        members: how many the roster has, the aggregator included.
        place: the party's position in the roster.
        standing: where the party stands at the end: what it has said and where it was counted.
        reports: its counted reports.
        path: the joint path of these in the tree of what it has signed, or, if it has signed
            nothing, of all it has said.
        key: its public key; None without a head.
        head: the root of all that it said before, and its signature; None if it has signed nothing.
        extension: that its tree extends what it has signed by the head alone.
        digest_path: from its leaf in the main tree to the canonical digest.
        standing_path: from its standing to the root over the standing of all members.
        checkpoint: the signature of the checkpoint that this is to be checked with.
    """

    session: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    members: Count
    place: Count
    standing: Standing
    reports: tuple[Counted, ...]
    path: tuple[Hash, ...]
    key: Hash | None
    head: tuple[Hash, _Signature] | None
    extension: tuple[Hash, ...]
    digest_path: tuple[Hash, ...]
    standing_path: tuple[Hash, ...]
    checkpoint: _Signature

    def __repr__(self) -> str:
        return f"Receipt({self.standing.member!r}, {len(self.reports)} reports)"


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Receipt)


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


def problems_of(receipt: Receipt, checkpoint: SignedCheckpoint) -> tuple[str, ...]:
    """Why a receipt does not hold with a checkpoint, in words; empty if it does."""
    statement, standing = checkpoint.statement, receipt.standing
    leaf = party_leaf(standing.member, standing.count, standing.root)
    topics = {report.topic for report in receipt.reports}
    where = {"index": receipt.place, "count": receipt.members}
    checks = (
        (checkpoint.valid, "the checkpoint is not signed by the key in it"),
        (statement.final, "the checkpoint is not the last one of its run"),
        (statement.result is not None, "the run has published no result"),
        (
            receipt.session == statement.session,
            "the receipt is of another session than the checkpoint",
        ),
        (receipt.checkpoint == checkpoint.signature, "the receipt was made for another checkpoint"),
        (receipt.place > 0, "the receipt is for the aggregator, which has no reports"),
        (
            # The first leaf of the main tree is the header's.
            is_included(
                leaf,
                index=receipt.place + 1,
                count=receipt.members + 1,
                path=receipt.digest_path,
                root=statement.digest,
            ),
            "the party's envelopes are not in the digest of the checkpoint",
        ),
        (
            is_included(
                standing_leaf(standing),
                **where,
                path=receipt.standing_path,
                root=statement.standing or b"",
            ),
            "the closings that counted the party do not match the checkpoint",
        ),
        (_reports_hold(receipt), "the reports are not among the party's envelopes"),
        (bool(receipt.reports), "the receipt is empty: expected at least one report"),
        (topics.issubset(standing.counted), "a report was not counted"),
        (len(topics) == len(receipt.reports), "two reports are of one kind and round"),
        (
            not any(kind in _KERNEL for kind, _ in topics),
            f"a report is of a kernel kind ({', '.join(_KERNEL)})",
        ),
        (
            (receipt.head is not None) == standing.signed,
            "the receipt and the checkpoint disagree on whether the party has signed a head",
        ),
        (_head_holds(receipt), "the party's signed head does not match the record"),
    )
    return tuple(problem for sound, problem in checks if not sound)


def is_about(receipt: Receipt, encoded: bytes, *, round_: int | None = None) -> bool:
    """Whether an envelope is one of the reports that the receipt is about.

    Args:
        encoded: the envelope as it was sent.
        round_: which round the message in it is of (``NO_ROUND`` for a kind without rounds), if
            that is known. Without it, that the report is of the round named is the receipt's word.
    """
    leaf = leaf_hash(encoded)
    try:
        envelope = decode_envelope(encoded)
    except RemoteProtocolError:
        return False
    return (
        envelope.session == receipt.session
        and envelope.sender == receipt.standing.member
        and envelope.recipient == AGGREGATOR
        and any(
            (report.leaf, report.seq, report.topic[0]) == (leaf, envelope.seq, envelope.kind)
            and round_ in (None, report.topic[1])
            for report in receipt.reports
        )
    )


def _reports_hold(receipt: Receipt) -> bool:
    standing, head = receipt.standing, receipt.head
    count, root = (standing.count, standing.root) if head is None else (standing.count - 1, head[0])
    leaves = {report.seq: report.leaf for report in receipt.reports}
    if len(leaves) != len(receipt.reports):
        return False
    return not leaves or joint_root(leaves, count=count, path=receipt.path) == root


def _head_holds(receipt: Receipt) -> bool:
    """The party's signature, and that its tree is what it has signed and the head."""
    standing, head = receipt.standing, receipt.head
    if head is None:
        return receipt.key is None and not receipt.extension
    count, (root, signature) = standing.count - 1, head
    if count < 0 or receipt.key is None:
        return False
    signed = head_statement(session=receipt.session, sender=standing.member, count=count, root=root)
    return is_signature(signature, signed, key=receipt.key) and is_consistent(
        first=count,
        second=standing.count,
        first_root=root,
        second_root=standing.root,
        path=receipt.extension,
    )
