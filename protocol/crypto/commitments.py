"""Salted commitments to shares, which cannot be opened to other shares."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.octets import Octets, row_bytes, stacked

COMMITMENT_BYTES = 16
"""Length of a commitment: SHA-256, truncated because a party sends one to each neighbour.

The holder of a share must not open another share for somebody else's commitment. That takes a
second preimage, with 2**128 work. The committing party could find two openings with 2**64 work, but
gains nothing: it chooses the shares anyway.
"""

SALT_BYTES = 16


def commit(salts: Octets, shares: Octets, *, context: bytes) -> Octets:
    """Commit to each share: SHA-256 of context, salt and share, cut to ``COMMITMENT_BYTES``.

    Args:
        salts: shape (k, 16), each uniform and used once: they hide shares that can be guessed.
        shares: shape (k, L).
        context: the purpose of the shares, such as session, attempt and dealer; of equal length for
            contexts that could be confused.

    Returns:
        shape (k, 16).

    Raises:
        ValueError: arrays that are not of bytes, or whose shapes do not fit.
    """
    if salts.dtype != np.uint8 or salts.ndim != 2 or salts.shape[1] != SALT_BYTES:
        raise ValueError(f"salts of {salts.dtype}, {salts.shape}: expected bytes (k, {SALT_BYTES})")
    if shares.dtype != np.uint8 or shares.ndim != 2 or len(shares) != len(salts):
        raise ValueError(
            f"shares of {shares.dtype}, {shares.shape}: expected bytes ({len(salts)}, L)"
        )
    opened = row_bytes(np.concatenate((salts, shares), axis=1))
    digests = [hashlib.sha256(context + row).digest()[:COMMITMENT_BYTES] for row in opened]
    return stacked(digests, COMMITMENT_BYTES)


def opens(
    commitments: Octets, salts: Octets, shares: Octets, *, context: bytes
) -> NDArray[np.bool_]:
    """Mask of the commitments, shape (k, 16), that are to these shares with these salts; shape
    (k,).

    Raises:
        ValueError: arrays that are not of bytes, or whose shapes do not fit.
    """
    expected = commit(salts, shares, context=context)
    if commitments.dtype != np.uint8 or commitments.shape != expected.shape:
        raise ValueError(
            f"commitments of {commitments.dtype}, {commitments.shape}: "
            f"expected bytes {expected.shape}"
        )
    same: NDArray[np.bool_] = (commitments == expected).all(axis=1)
    return same
