"""A party whose report came too late, as an aggregator shows it, and as a lying one would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from protocol import AGGREGATOR, RECORD, PartyId
from protocol.crypto.merkle import consistency_path, inclusion_path, leaf_hash, root_of_hashes
from protocol.messages import Closed, Envelope
from protocol.session.heads import SaidHead
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import SignedCheckpoint, sign_checkpoint
from protocol.transcript.entries import Sent, encode_item
from protocol.transcript.receipts import (
    Acknowledgement,
    EarlierCheckpoint,
    Named,
    Receipt,
    Shown,
    receipt_for,
)
from protocol.wire.codec import decode_envelope, encode_envelope
from tests.recorded.receipts import receipt_of
from tests.recorded.signed import ONE, TWO, envelopes, setting, signed_run
from tests.vectors.formats import log_leaves

CHARTER = setting().charter
SESSION, ROSTER = CHARTER.session, CHARTER.roster
SIGNER = setting().identities[AGGREGATOR]
SAID, LAST = envelopes(signed_run(), ONE)
"""What the party says: its report and its head."""

EVERYBODY = (1 << len(ROSTER)) - 2
FORGED = bytes(64)


def entry(envelope: bytes, at: int = 1) -> bytes:
    """The entry of a sent envelope."""
    return encode_item(Sent(at=at, envelope=envelope))


def closing(
    awaited: int = EVERYBODY,
    counted: int = EVERYBODY & ~2,
    *,
    of: str = "Report",
    round_: int = -1,
    sender: PartyId = AGGREGATOR,
    session: bytes = SESSION,
) -> bytes:
    """A closing's entry; by default it awaited all parties and left out the first."""
    bitmaps = (bits.to_bytes(1, "little") for bits in (awaited, counted))
    body = msgspec.msgpack.encode(Closed(of, round_, 0, *bitmaps))
    return entry(encode_envelope(Envelope(session, sender, RECORD, 1, "Closed", body)))


OTHER = entry(envelopes(signed_run(), TWO)[0])
REPORT, HEAD, CLOSING = entry(SAID), entry(LAST), closing()
LOG = (OTHER, CLOSING, REPORT, HEAD)


def head() -> SaidHead:
    """What the party knows of its own head."""
    known = receipt_of(signed_run()).head
    assert known is not None
    said = leaf_hash(SAID)
    return SaidHead(decode_envelope(LAST), known.signature, said, known.heard)


def hashes_of(log: Sequence[bytes]) -> list[bytes]:
    return [leaf_hash(leaf) for leaf in log_leaves(bytes(32), log)]


def shown(log: Sequence[bytes], content: bytes) -> Shown:
    """An entry, proved to be in a log."""
    index = [*log].index(content)
    salt = log_leaves(bytes(32), log)[index][:16]
    return Shown(
        index=index, salt=salt, content=content, path=inclusion_path(hashes_of(log), index)
    )


def signed(
    log: Sequence[bytes], signer: Identity = SIGNER, session: bytes = SESSION
) -> SignedCheckpoint:
    """A checkpoint of a log."""
    root = root_of_hashes(hashes_of(log))
    signature = sign_checkpoint(SIGNER, session=session, size=len(log), root=root).signature
    if signer is not SIGNER:
        text = sign_checkpoint(SIGNER, session=session, size=len(log), root=root).signed
        signature = signer.sign(text)
    return SignedCheckpoint(
        session=session, key=SIGNER.public, size=len(log), root=root, signature=signature
    )


def named(
    log: Sequence[bytes] = LOG,
    *,
    early: Sequence[bytes] | None = None,
    closed: bytes = CLOSING,
    held: Sequence[bytes] | None = None,
    signer: Identity = SIGNER,
    session: bytes = SESSION,
    signature: bytes | None = None,
    path: tuple[bytes, ...] | None = None,
    seq: int = 0,
) -> Named:
    """What calls the party's report late; by default rightly.

    Args:
        log: the whole log.
        early: the log of the earlier checkpoint; by default up to the closing.
        closed: the closing.
        held: the log that the closing is proved to be in; by default ``early``.
        signer, session: of the earlier checkpoint.
        signature: instead of that.
        path: the consistency proof; by default a right one, if there is one.
        seq: the number of the envelope that it is about.
    """
    report = shown(log, REPORT)
    if early is None:
        early = log[: [*log].index(closed) + 1]
    before = signed(early, signer, session)
    if path is None:
        path = consistency_path(hashes_of(log), min(len(early), len(log)))
    return Named(
        seq=seq,
        index=report.index,
        at=1,
        salt=report.salt,
        path=report.path,
        closing=shown(early if held is None else held, closed),
        before=EarlierCheckpoint(before.size, before.root, signature or before.signature, path),
    )


def given(log: Sequence[bytes] = LOG, *names: Named) -> Acknowledgement:
    """An acknowledgement of the party's head."""
    last, whole = shown(log, HEAD), signed(log)
    return Acknowledgement(
        size=whole.size,
        root=whole.root,
        signature=whole.signature,
        index=last.index,
        at=1,
        salt=last.salt,
        path=last.path,
        roster=inclusion_path(ROSTER.leaves, ROSTER.position[ONE]),
        named=names,
    )


def made(acknowledgement: Acknowledgement, *reports: int) -> tuple[Receipt, SignedCheckpoint]:
    """The receipt that the party makes of an acknowledgement."""
    return receipt_for(CHARTER, head(), acknowledgement, said=[SAID], reports=reports or (0,))


def counted(log: Sequence[bytes], closed: bytes) -> Named:
    """What shows that the party's report was counted by a closing, or was not."""
    report = shown(log, REPORT)
    return Named(
        seq=0,
        index=report.index,
        at=1,
        salt=report.salt,
        path=report.path,
        closing=shown(log, closed),
        before=None,
    )


def _log(*contents: bytes) -> tuple[bytes, ...]:
    return contents


_COUNTING = closing(counted=EVERYBODY)
_EARLY_REPORT = _log(OTHER, REPORT, CLOSING, HEAD)
_NOT_SIGNED = "what calls a report late is not signed by the key of the checkpoint"
_NOT_OF_LOG = "what calls a report late is not of the log of the checkpoint"
_NOT_HELD = "what calls a report late does not hold the closing"
_BEFORE = "a report was on record before what calls it late"
_NOT_LEFT_OUT = "a closing does not leave out the report that is called late"


def _with(closed: bytes, **changes: Any) -> Acknowledgement:
    log = _log(OTHER, closed, REPORT, HEAD)
    return given(log, named(log, closed=closed, **changes))


LIES: dict[str, tuple[Acknowledgement, str]] = {
    "backdated: another log, with the closing earlier": (
        given(
            _log(OTHER, OTHER, REPORT, HEAD, CLOSING),
            named(_log(OTHER, OTHER, REPORT, HEAD, CLOSING), early=_log(OTHER, CLOSING)),
        ),
        _NOT_OF_LOG,
    ),
    "backdated: without a proof that the log goes on from it": (
        given(LOG, named(path=())),
        _NOT_OF_LOG,
    ),
    "a checkpoint from before the closing": (
        given(LOG, named(early=LOG[:1], held=LOG)),
        _NOT_HELD,
    ),
    "a closing that was written after the report": (
        given(_EARLY_REPORT, named(_EARLY_REPORT)),
        _BEFORE,
    ),
    "a closing from before the report, and a checkpoint from after it": (
        given(LOG, named(early=LOG[:3])),
        _BEFORE,
    ),
    "not signed": (given(LOG, named(signature=FORGED)), _NOT_SIGNED),
    "signed by a party": (given(LOG, named(signer=setting().identities[TWO])), _NOT_SIGNED),
    "of another session": (given(LOG, named(session=bytes(32))), _NOT_SIGNED),
    "of another attempt": (given(LOG, named(session=CHARTER.again(2).session)), _NOT_SIGNED),
    "a closing of another session": (
        _with(closing(session=CHARTER.again(2).session)),
        "the receipt is of another session than the checkpoint",
    ),
    "a closing that left out another party": (
        _with(closing(counted=EVERYBODY & ~4)),
        _NOT_LEFT_OUT,
    ),
    "a closing that counts it": (_with(_COUNTING), _NOT_LEFT_OUT),
    "a closing that did not await it": (
        _with(closing(awaited=EVERYBODY & ~2, counted=EVERYBODY & ~2)),
        _NOT_LEFT_OUT,
    ),
    "a closing of another kind": (_with(closing(of="Other")), _NOT_LEFT_OUT),
    "a closing by another party": (_with(closing(sender=TWO)), _NOT_LEFT_OUT),
    "no closing at all": (
        given(_log(OTHER, REPORT, HEAD), named(_log(OTHER, REPORT, HEAD), closed=OTHER)),
        _NOT_LEFT_OUT,
    ),
    "the closing of another log": (
        given(LOG, named(held=_log(CLOSING, OTHER))),
        _NOT_HELD,
    ),
    "late and counted": (
        given(
            _log(OTHER, CLOSING, REPORT, _COUNTING, HEAD),
            named(_log(OTHER, CLOSING, REPORT, _COUNTING, HEAD)),
            counted(_log(OTHER, CLOSING, REPORT, _COUNTING, HEAD), _COUNTING),
        ),
        "two reports are of one kind and round",
    ),
    "late twice": (given(LOG, named(), named()), "two reports are of one kind and round"),
    "on record in time, and left out": (
        given(_EARLY_REPORT, counted(_EARLY_REPORT, CLOSING)),
        "a report was not counted",
    ),
    "another report on record": (
        given(
            LOG,
            msgspec.structs.replace(named(), index=0, salt=shown(LOG, OTHER).salt),
        ),
        "an entry of the receipt is not in the log of the checkpoint",
    ),
}
"""What a lying aggregator says to a party that was in time or not, and what the party finds."""
