"""The messages of a secure sum, for both profiles.

Every party has k neighbours, in an order that it computes by itself: the rows of all arrays here.
Secrets are only in sealed boxes, so no repr shows one.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.crypto.commitments import COMMITMENT_BYTES
from protocol.crypto.merkle import HASH_BYTES
from protocol.crypto.sealing import SALT_BYTES, SEAL_BYTES, TAG_BYTES
from protocol.messages import Message
from protocol.session.roster import KEY_BYTES
from protocol.wire.arrays import Array, ArraySpec, Bounds, name_of, smallest_dtype
from protocol.wire.codec import Kind

PART_BYTES = 32
"""How many bytes of a survivor set, one bit per place, are one leaf of its tree."""


class Begin(Message, frozen=True):
    """The aggregator opens an attempt at a sum over the records of this survey."""

    attempt: int
    survey: bytes


class Join(Message, frozen=True):
    """A party takes part, for so many respondents, and commits to the key of its masks."""

    respondents: int
    key: Array


class Graph(Message, frozen=True):
    """Who a party's neighbours are, and what proves it.

    Args:
        respondents: of all who joined.
        joined: how many parties that are.
        root: the Merkle root over all who joined; the graph follows from it.
        index, path: the recipient's own place under that root, and the proof.
        names, keys: the neighbours and their identity keys, (k, 32).
        proof: that these are on the roster.
        there: which of them have joined.
        mask_keys: (k, 32), zeros where there is none.
    """

    respondents: int
    joined: int
    root: bytes
    index: int
    path: Array
    names: tuple[str, ...]
    keys: Array
    proof: Array
    there: Array
    mask_keys: Array


class Deal(Message, frozen=True):
    """A party's shares, one sealed box per neighbour, with commitments to their content.

    Args:
        salt: of these boxes alone.
        whole: commits to what the shares are shares of.
    """

    salt: Array
    whole: Array
    boxes: Array
    commitments: Array


class Dealt(Message, frozen=True):
    """What a party's neighbours have dealt it."""

    dealt: Array
    salts: Array
    boxes: Array
    commitments: Array


class Upload(Message, frozen=True):
    """A party's values under all its masks; ``rejected`` marks neighbours whose box was invalid."""

    values: Array
    rejected: Array


class Survivors(Message, frozen=True):
    """Who has uploaded.

    Args:
        survivors: how many.
        root: the Merkle root over the set, in parts.
        parts: those parts that the recipient and its neighbours are in.
        path: that they are under the root.
    """

    survivors: int
    root: Array
    parts: Array
    path: Array


class Unmask(Message, frozen=True):
    """A signature of the survivor set, and per neighbour one share, sealed for the aggregator."""

    signature: bytes
    salt: bytes
    box: bytes


class Totals(Message, frozen=True):
    """The sum, for every party."""

    respondents: int
    totals: Array


class Partial(Message, frozen=True):
    """A party's own values and all shares dealt to it, added up, signed."""

    values: Array
    signature: bytes


class Partials(Message, frozen=True):
    """What every party has broadcast, in roster order; who signed it is on record."""

    values: Array


class Tags(Message, frozen=True):
    """A party's word to each neighbour on what it holds: survivors in round 0, totals in 1."""

    round: int
    tags: Array


class Tagged(Message, frozen=True):
    """The word of each neighbour, of those who gave it."""

    round: int
    given: Array
    tags: Array


class Shape(NamedTuple):
    """What the sizes of messages follow from; public before the first of them.

    Args:
        cells: how many counts are summed.
        parties: how many the roster has.
        respondents: the most that there can be.
        neighbours: of every party.
    """

    cells: int
    parties: int
    respondents: int
    neighbours: int


def _octets(*shape: int | Bounds) -> ArraySpec:
    return ArraySpec(dtype="u1", shape=shape)


def shared_kinds(shape: Shape, *, content: int, commitments: int) -> tuple[Kind, ...]:
    """The kinds that both profiles speak.

    Args:
        content: how many bytes a party deals a neighbour.
        commitments: how many commitments come with them.
    """
    k = shape.neighbours
    depth = shape.parties.bit_length() + 1
    boxes = _octets(k, content + SEAL_BYTES)
    committed = _octets(k, commitments, COMMITMENT_BYTES)
    flags = ArraySpec(dtype="u1", shape=(k,), high=2)
    return (
        Kind(Begin, scalar_bytes=128),
        Kind(Join, scalar_bytes=64, key=_octets(KEY_BYTES)),
        Kind(
            Graph,
            scalar_bytes=256 + 66 * k,
            path=_octets(Bounds(0, depth), HASH_BYTES),
            keys=_octets(k, KEY_BYTES),
            proof=_octets(Bounds(0, (k + 1) * depth), HASH_BYTES),
            there=flags,
            mask_keys=_octets(k, KEY_BYTES),
        ),
        Kind(
            Deal,
            scalar_bytes=64,
            salt=_octets(SALT_BYTES),
            whole=_octets(HASH_BYTES),
            boxes=boxes,
            commitments=committed,
        ),
        Kind(
            Dealt,
            scalar_bytes=64,
            dealt=flags,
            salts=_octets(k, SALT_BYTES),
            boxes=boxes,
            commitments=committed,
        ),
        Kind(Tags, scalar_bytes=64, tags=_octets(k, TAG_BYTES)),
        Kind(Tagged, scalar_bytes=64, given=flags, tags=_octets(k, TAG_BYTES)),
    )


def sparse_kinds(shape: Shape, *, bits: int, unmasked: int) -> tuple[Kind, ...]:
    """The kinds that only the sparse profile speaks.

    Args:
        bits: of a cell under masks.
        unmasked: how many bytes a party reveals per neighbour.
    """
    k = shape.neighbours
    flags = ArraySpec(dtype="u1", shape=(k,), high=2)
    return (
        Kind(
            Upload,
            scalar_bytes=64,
            values=ArraySpec(dtype=f"u{bits // 8}", shape=(shape.cells,)),
            rejected=flags,
        ),
        Kind(
            Survivors,
            scalar_bytes=64,
            root=_octets(HASH_BYTES),
            parts=_octets(Bounds(1, k + 1), PART_BYTES),
            path=_octets(Bounds(0, (k + 2) * shape.parties.bit_length()), HASH_BYTES),
        ),
        Kind(Unmask, scalar_bytes=256 + k * unmasked),
        Kind(
            Totals,
            scalar_bytes=64,
            totals=ArraySpec(dtype="u4", shape=(shape.cells,), high=shape.respondents + 1),
        ),
    )


def literal_kinds(shape: Shape) -> tuple[Kind, ...]:
    """The kinds that only the literal profile speaks."""
    high = shape.respondents + 1
    dtype = name_of(smallest_dtype(high))
    n = shape.parties
    return (
        Kind(
            Partial,
            scalar_bytes=128,
            values=ArraySpec(dtype=dtype, shape=(shape.cells,), high=high),
        ),
        Kind(
            Partials,
            scalar_bytes=64,
            values=ArraySpec(dtype=dtype, shape=(n, shape.cells), high=high),
        ),
    )
