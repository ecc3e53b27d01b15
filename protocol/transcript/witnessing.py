"""Answers of a witness to requests for a cosignature (C2SP, tlog-witness, ``add-checkpoint``)."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from protocol.crypto.merkle import EMPTY_ROOT, HASH_BYTES, is_consistent
from protocol.transcript.checkpoints import (
    ED25519,
    SignedCheckpoint,
    from_base64,
    key_id,
    log_origin,
    read_note,
    read_text,
    split_note,
)
from protocol.transcript.consistency import MAX_PATH
from protocol.transcript.evidence import Equivocation, two_checkpoints

ADD_CHECKPOINT = "/add-checkpoint"
"""The path of a request, after the witness's URL."""

MAX_REQUEST = 1 << 15
"""The longest request, in bytes: old size, 63 hashes and a note of 16,384 characters."""

_OLD = re.compile(r"old (0|[1-9][0-9]{0,18})")


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of a witness.

    Args:
        status: the HTTP status; 200 means that the checkpoint may be cosigned once it is kept.
        reason: in words.
        size: with 409, the size of the last checkpoint that was cosigned, or 0.
        checkpoint: the checkpoint that may be cosigned; None otherwise.
        evidence: proof that the aggregator has signed a fork of what was cosigned.
    """

    status: int
    reason: str
    size: int | None = None
    checkpoint: SignedCheckpoint | None = None
    evidence: Equivocation | None = None


class _RefusedError(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def decide(body: bytes, last: Mapping[str, SignedCheckpoint | None]) -> Decision:
    """Judge a request by the last checkpoints that were cosigned.

    The caller keeps the checkpoint, durably, before it cosigns it, and judges nothing in between.

    Args:
        body: of the request.
        last: the last cosigned checkpoint of every trusted log, or None, by origin.
    """
    try:
        old, path, checkpoint = _read(body, last)
    except _RefusedError as refused:
        return Decision(status=refused.status, reason=str(refused))
    known = last[log_origin(checkpoint.session, checkpoint.key)]
    size = 0 if known is None else known.size
    evidence = None if known is None else two_checkpoints(known, checkpoint)
    if old > checkpoint.size:
        reason = f"the old size {old} is above the checkpoint's, {checkpoint.size}"
        return Decision(status=400, reason=reason, evidence=evidence)
    if old != size:
        reason = f"the old size is {old}, the last checkpoint cosigned has {size}"
        return Decision(status=409, reason=reason, size=size, evidence=evidence)
    if evidence is not None:
        reason = f"a fork: another checkpoint of size {size} was cosigned"
        return Decision(status=409, reason=reason, size=size, evidence=evidence)
    fits = is_consistent(
        first=size,
        second=checkpoint.size,
        first_root=EMPTY_ROOT if known is None else known.root,
        second_root=checkpoint.root,
        path=path,
    )
    if not fits or (checkpoint.size == 0 and checkpoint.root != EMPTY_ROOT):
        reason = f"no proof that size {checkpoint.size} extends size {size}"
        return Decision(status=422, reason=reason)
    return Decision(status=200, reason=f"size {checkpoint.size}", checkpoint=checkpoint)


def _read(
    body: bytes, last: Mapping[str, SignedCheckpoint | None]
) -> tuple[int, tuple[bytes, ...], SignedCheckpoint]:
    """Old size, proof and signed checkpoint of a request.

    Raises:
        _RefusedError: malformed, of an unknown log, or not signed by its key.
    """
    try:
        if len(body) > MAX_REQUEST:
            raise ValueError(f"a request of {len(body)} bytes, at most {MAX_REQUEST} allowed")
        head, blank, note = body.decode().partition("\n\n")
        first, *lines = head.split("\n")
        old = _OLD.fullmatch(first)
        if old is None or not blank:
            raise ValueError("malformed request: expected 'old' and a size, hashes and a note")
        if len(lines) > MAX_PATH:
            raise ValueError(f"{len(lines)} hashes, at most {MAX_PATH} allowed")
        path = tuple(map(from_base64, lines))
        if any(len(hashed) != HASH_BYTES for hashed in path):
            raise ValueError(f"malformed request: expected hashes of {HASH_BYTES} bytes")
        text, signatures = split_note(note)
        origin = text.partition("\n")[0]
        if origin not in last:
            raise _RefusedError(404, "unknown origin")
        _, key, _, _ = read_text(text)
        number = key_id(origin, ED25519, key)
        if not any(name == origin and each.startswith(number) for name, each in signatures):
            raise _RefusedError(403, "not signed by the key of its origin")
        checkpoint = read_note(note)
    except ValueError as error:
        raise _RefusedError(400, str(error)) from error
    if not checkpoint.valid:
        raise _RefusedError(403, "the signature is not of the key of its origin")
    return int(old[1]), path, checkpoint
