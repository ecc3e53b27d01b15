"""Consistency proofs as text: a later checkpoint's log contains that of an earlier one.

The text is that of a request to a witness (C2SP, tlog-witness, ``add-checkpoint``).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from protocol.crypto.merkle import HASH_BYTES, is_consistent
from protocol.messages import Count
from protocol.transcript.checkpoints import SignedCheckpoint, from_base64, read_note, to_base64
from protocol.transcript.entries import Hash

START = b"old "
"""First bytes of every consistency proof."""

MAX_PATH = 63
"""The most hashes of a path."""


class Consistency(msgspec.Struct, frozen=True, kw_only=True):
    """A consistency proof between two checkpoints.

    Args:
        old: the size of the earlier one.
        path: the proof (RFC 9162, section 2.1.4).
        later: the later one.
    """

    old: Count
    path: Annotated[tuple[Hash, ...], msgspec.Meta(max_length=MAX_PATH)]
    later: SignedCheckpoint

    def __repr__(self) -> str:
        return f"Consistency({self.old} to {self.later.size})"


def encode_consistency(proof: Consistency) -> bytes:
    """A consistency proof as a file holds it."""
    return "\n".join(
        [f"old {proof.old}", *map(to_base64, proof.path), "", proof.later.note]
    ).encode()


def decode_consistency(content: bytes) -> Consistency:
    """The inverse of ``encode_consistency``. Others' signatures on the checkpoint are passed over.

    Raises:
        ValueError: malformed.
    """
    head, blank, note = content.decode().partition("\n\n")
    if not content.startswith(START) or not blank:
        raise ValueError("malformed consistency proof: expected 'old', hashes and a checkpoint")
    old, *lines = head.split("\n")
    path = tuple(map(from_base64, lines))
    if len(path) > MAX_PATH or any(len(hashed) != HASH_BYTES for hashed in path):
        raise ValueError(f"malformed consistency proof: expected up to {MAX_PATH} hashes")
    number = old.removeprefix(START.decode())
    proof = Consistency(
        old=int(number) if number.isdecimal() else -1, path=path, later=read_note(note)
    )
    if not encode_consistency(proof).startswith(head.encode() + b"\n\n"):
        raise ValueError("malformed consistency proof: a number or a hash is written otherwise")
    return proof


def consistency_problems(proof: Consistency, earlier: SignedCheckpoint) -> tuple[str, ...]:
    """Problems of a proof from an earlier checkpoint, in words; empty if it holds."""
    later = proof.later
    checks = (
        (earlier.valid, "the earlier checkpoint is not signed by the key in it"),
        (later.valid, "the later checkpoint is not signed by the key in it"),
        (earlier.key == later.key, "the checkpoints are signed by different keys"),
        (earlier.session == later.session, "the checkpoints are of different sessions"),
        (proof.old == earlier.size, f"the proof is from size {proof.old}, not {earlier.size}"),
        (
            earlier.size <= later.size,
            "the earlier checkpoint does not come before the later one",
        ),
        (
            is_consistent(
                first=earlier.size,
                second=later.size,
                first_root=earlier.root,
                second_root=later.root,
                path=proof.path,
            ),
            "the later log does not begin like the earlier one",
        ),
    )
    return tuple(problem for sound, problem in checks if not sound)
