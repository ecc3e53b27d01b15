"""Masks and additive shares that cancel in a sum.

A mask is a keystream. Two parties that know its seed add and subtract the same (Bonawitz et al.,
Practical Secure Aggregation for Privacy-Preserving Machine Learning, 2017, section 4.0.1). An
additive share is a uniform draw (Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized
Response, section 4.2).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol.crypto.octets import Octets
from protocol.crypto.randomness import Stream
from protocol.crypto.sealing import Edge
from protocol.messages import PartyId
from protocol.wire.arrays import smallest_dtype

Bits: TypeAlias = Literal[16, 32]
"""The bits of a masked cell: sums are modulo 2 to this power."""

Mask: TypeAlias = NDArray[np.uint16] | NDArray[np.uint32]

_CELLS: Mapping[int, np.dtype[Any]] = {16: np.dtype("<u2"), 32: np.dtype("<u4")}

DIGEST_BYTES = 16
"""The length of the digest of a seed, a truncated SHA-256: a party sends one per neighbour.

It holds a party to the seeds that it has committed to. For that, 128 bits against a second preimage
suffice.
"""

MAX_MODULUS = 2**32
"""The largest modulus, so that sums of residues do not overflow 64-bit words."""


def modulus_bits(respondents: int) -> Bits:
    """The bits of the smallest cell that holds every count of this many respondents.

    Raises:
        ValueError: less than one respondent, or more than 2**32 - 1.
    """
    if respondents < 1:
        raise ValueError(f"{respondents} respondents: expected at least 1")
    if respondents < 2**16:
        return 16
    if respondents < 2**32:
        return 32
    raise ValueError(f"{respondents} respondents: expected fewer than 2**32")


def expand_mask(seed: bytes, cells: int, *, bits: Bits) -> Mask:
    """The mask of a seed: the start of its keystream, read little-endian, read-only.

    Args:
        seed: 32 bytes that are used for this mask only.
        cells: the length of the mask.

    Raises:
        ValueError: the seed has not 32 bytes, or cells of another size.
    """
    if bits not in _CELLS:
        raise ValueError(f"cells of {bits} bits: expected 16 or 32")
    mask: Mask = np.frombuffer(Stream(seed).bytes(cells * bits // 8), _CELLS[bits])
    return mask


def mask_seed(edge: Edge) -> bytes:
    """The seed of the mask that two neighbours share, 32 bytes, the same at both ends."""
    return edge.secret("mask")


def seed_digest(seed: bytes, context: bytes, neighbours: Iterable[PartyId]) -> bytes:
    """Public digest of the seed that two neighbours share, ``DIGEST_BYTES``.

    Args:
        context: what the masks are for, the same on both sides.
        neighbours: the names of both.
    """
    names = "\0".join(sorted(neighbours)).encode()
    return hashlib.sha256(context + b"mask\0" + names + b"\0" + seed).digest()[:DIGEST_BYTES]


def encrypt_seeds(key: bytes, seeds: Octets) -> Octets:
    """Encrypt seeds by the keystream of a key. The same call decrypts them.

    Args:
        key: 32 bytes that are used for these seeds only.
        seeds: (k, 32).

    Raises:
        ValueError: the key has not 32 bytes.
    """
    keystream = np.frombuffer(Stream(key).bytes(seeds.size), np.uint8)
    return seeds ^ keystream.reshape(seeds.shape)


def pair_mask(seed: bytes, cells: int, *, place: int, other: int, bits: Bits) -> Mask:
    """Mask that a party adds to its values for one neighbour, who adds the negative.

    Of the two, the first on the roster adds the mask of their seed and the second subtracts it.
    """
    mask = expand_mask(seed, cells, bits=bits)
    return mask if place < other else np.negative(mask)


def zero_shares(
    cells: int, *, parties: int, modulus: int, stream: Stream
) -> NDArray[np.unsignedinteger]:
    """Split zeros into one uniform additive share per party.

    All rows but the last are uniform draws, and the last makes the sum 0 modulo ``modulus``. So any
    ``parties - 1`` of the rows together are uniform.

    Args:
        cells: the length of a row.
        parties: the number of rows.
        modulus: 1 to 2**32; one more than the number of respondents, so that a count fits.
        stream: gives a word per draw, row by row.

    Returns:
        shape (parties, cells), of the smallest unsigned type that holds ``modulus - 1``.

    Raises:
        ValueError: no party, or a modulus out of its range.
    """
    _check_modulus(modulus)
    if parties < 1:
        raise ValueError(f"parties {parties}: expected at least 1")
    shares = np.empty((parties, cells), smallest_dtype(modulus))
    shares[:-1] = stream.integers(modulus, (parties - 1, cells))
    shares[-1] = (np.uint64(modulus) - _residues(shares[:-1], modulus)) % np.uint64(modulus)
    return shares


def sum_modulo(rows: NDArray[np.unsignedinteger], modulus: int) -> NDArray[np.unsignedinteger]:
    """The sum of rows modulo ``modulus``.

    Args:
        rows: shape (n, cells), of an unsigned type of at most 32 bits.
        modulus: 1 to 2**32.

    Returns:
        shape (cells,), of the smallest unsigned type that holds ``modulus - 1``.

    Raises:
        ValueError: rows of another type or shape, or a modulus out of its range.
    """
    _check_modulus(modulus)
    if rows.ndim != 2 or rows.dtype.kind != "u" or rows.dtype.itemsize > 4:
        raise ValueError(
            f"rows of {rows.dtype}, {rows.shape}: expected (n, cells), unsigned, up to 32 bits"
        )
    return _residues(rows, modulus).astype(smallest_dtype(modulus))


def _residues(rows: NDArray[np.unsignedinteger], modulus: int) -> NDArray[np.uint64]:
    residues: NDArray[np.uint64] = rows.sum(axis=0, dtype=np.uint64) % np.uint64(modulus)
    return residues


def _check_modulus(modulus: int) -> None:
    if not 1 <= modulus <= MAX_MODULUS:
        raise ValueError(f"modulus {modulus}: expected 1 to 2**32")
