"""What a witness makes of requests: the statuses of C2SP's tlog-witness."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import msgspec
import pytest

from protocol.audit.proofs.consistency import log_hashes
from protocol.crypto.merkle import EMPTY_ROOT, consistency_path, merkle_root
from protocol.transcript.checkpoints import (
    SignedCheckpoint,
    log_origin,
    sign_checkpoint,
    signature_line,
    to_base64,
)
from protocol.transcript.witnessing import MAX_REQUEST, Decision, decide
from tests.recorded.checkpointed import OTHER, SIGNER, checkpoints_of, record, resigned

POINTS = checkpoints_of(record())
LAST = POINTS[-1]
ORIGIN = log_origin(LAST.session, LAST.key)


@functools.cache
def hashes() -> Sequence[bytes]:
    return log_hashes(lambda: (record(),))


def forked(checkpoint: SignedCheckpoint, size: int | None = None) -> SignedCheckpoint:
    """Another log of this size, signed by the same key."""
    at = checkpoint.size if size is None else size
    root = EMPTY_ROOT if at == 0 else merkle_root([b"fork"] * at)
    return sign_checkpoint(SIGNER, session=checkpoint.session, size=at, root=root)


def request(
    old: int | str, new: SignedCheckpoint, path: Sequence[bytes] | None = None, note: str = ""
) -> bytes:
    if path is None:
        path = consistency_path(hashes()[: new.size], old) if isinstance(old, int) else ()
    return "\n".join([f"old {old}", *map(to_base64, path), "", note or new.note]).encode()


def judged(body: bytes, last: SignedCheckpoint | None = None) -> Decision:
    decision = decide(body, {ORIGIN: last})
    assert (decision.checkpoint is not None) == (decision.status == 200)
    assert decision.reason
    return decision


def test_the_honest_log_is_cosigned_from_checkpoint_to_checkpoint() -> None:
    last = None
    for point in POINTS:
        old = 0 if last is None else last.size
        found = judged(request(old, point), last)
        assert found.checkpoint == point
        last = point
    # Asked again, it is cosigned again.
    assert judged(request(LAST.size, LAST), LAST).checkpoint == LAST


def test_what_it_does_not_know_is_not_found() -> None:
    other = b"old 0\n\nexample.com/log\n3\n" + to_base64(bytes(32)).encode() + b"\n\n"
    line = signature_line("example.com/log", bytes(68)).encode()
    assert judged(other + line).status == 404
    strange = resigned(msgspec.structs.replace(LAST, session=bytes(32)))
    assert judged(request(0, strange, ())).status == 404


def test_what_the_aggregator_has_not_signed_is_forbidden() -> None:
    stranger = signature_line("example.com/log", bytes(68))
    unsigned = f"{LAST.signed.decode()}\n{stranger}"
    assert judged(request(0, LAST, note=unsigned)).status == 403
    forged = msgspec.structs.replace(LAST, signature=OTHER.sign(LAST.signed))
    assert judged(request(0, forged)).status == 403
    # Signatures of unknown keys are passed over.
    assert judged(request(0, LAST, note=LAST.note + stranger)).status == 200


def test_an_old_size_above_the_checkpoints_is_a_bad_request() -> None:
    assert judged(request(LAST.size + 1, LAST, ())).status == 400


@pytest.mark.parametrize("old", [0, POINTS[0].size, POINTS[3].size])
def test_another_old_size_is_told_the_known_one(old: int) -> None:
    found = judged(request(old, LAST), POINTS[1])
    assert (found.status, found.size) == (409, POINTS[1].size)
    assert found.evidence is None


def test_with_nothing_cosigned_the_known_size_is_zero() -> None:
    found = judged(request(POINTS[0].size, LAST))
    assert (found.status, found.size) == (409, 0)


def test_a_proof_that_does_not_verify_is_refused() -> None:
    first = POINTS[0]
    path = consistency_path(hashes()[: LAST.size], first.size)
    wrong = (path[::-1], path[:-1], (*path, bytes(32)), (bytes(32), *path[1:]), ())
    assert len(path) > 1
    for proof in wrong:
        assert judged(request(first.size, LAST, proof), first).status == 422
    assert judged(request(first.size, forked(LAST), path), first).status == 422
    # From nothing, and from itself, the proof is empty.
    assert judged(request(0, LAST, (bytes(32),))).status == 422
    assert judged(request(LAST.size, LAST, (bytes(32),)), LAST).status == 422


def test_an_empty_log_has_one_root() -> None:
    assert judged(request(0, forked(LAST, 0))).status == 200
    wrong = sign_checkpoint(SIGNER, session=LAST.session, size=0, root=bytes(32))
    assert judged(request(0, wrong, ())).status == 422
    empty = forked(LAST, 0)
    assert judged(request(0, POINTS[0]), empty).status == 200
    found = judged(request(0, wrong, ()), empty)
    assert (found.status, found.size) == (409, 0)


@pytest.mark.parametrize("old", [0, POINTS[1].size, LAST.size])
def test_a_fork_of_one_size_is_refused_and_becomes_evidence(old: int) -> None:
    found = judged(request(old, forked(LAST), ()), LAST)
    assert (found.status, found.size) == (409, LAST.size)
    assert found.evidence is not None
    assert found.evidence.check() == f"the checkpoint of size {LAST.size}"


def test_a_forged_fork_is_not_evidence() -> None:
    forged = msgspec.structs.replace(forked(LAST), signature=bytes(64))
    found = judged(request(LAST.size, forged, ()), LAST)
    assert found.status == 403
    assert found.evidence is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n\n",
        b"old 0",
        b"\xff\xfe",
        request("", LAST),
        request("00", LAST),
        request("-1", LAST),
        request("+1", LAST),
        request("1 ", LAST),
        request("\u0661", LAST),
        request("9" * 20, LAST),
        request(0, LAST, (bytes(31),)),
        request(0, LAST, [bytes(32)] * 64),
        request(0, LAST).replace(b"old", b"new"),
        request(0, LAST).replace(b"\n", b"\r\n"),
        request(0, LAST, note=LAST.note[:-1]),
        request(0, LAST, note=f"{LAST.signed.decode()}\n"),
        request(0, LAST, note=LAST.note + LAST.note.rpartition("\n\n")[2]),
        request(0, LAST, note=LAST.note.replace(f"\n{LAST.size}\n", f"\n0{LAST.size}\n")),
        request(0, LAST, note=LAST.note.replace("\n\n", "\nextension\n\n")),
        request(0, LAST, note=LAST.note + "\u2014 w x\n"),
        request(0, LAST, note=LAST.note + signature_line("w", bytes(68)) * 64),
        request(0, LAST).replace(b"old 0\n", b"old 0\n!\n"),
        request(0, LAST) + b"x" * MAX_REQUEST,
    ],
)
def test_malformed_requests_are_bad_requests(body: bytes) -> None:
    assert judged(body).status == 400
