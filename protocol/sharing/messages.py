"""The messages of a secure sum, for both profiles.

Every party has k neighbours, in an order that it computes by itself: the rows of the arrays here.
Secrets are in sealed boxes alone, but for those that an ``Opening`` publishes.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from protocol.crypto.commitments import COMMITMENT_BYTES
from protocol.crypto.merkle import HASH_BYTES
from protocol.crypto.sealing import SALT_BYTES, SEAL_BYTES, TAG_BYTES
from protocol.messages import NONCE_BYTES, Message
from protocol.session.roster import KEY_BYTES
from protocol.session.variant import Variant
from protocol.sharing.masks import DIGEST_BYTES, modulus_bits
from protocol.wire.arrays import Array, ArraySpec, Bounds, Size, smallest_dtype
from protocol.wire.codec import Kind

SECRET_BYTES = 32
"""The size of a secret that is shared in the sparse profile."""

SHARED = 2 * SECRET_BYTES
"""Bytes that a party shares: the seed of its own mask, and the key to the seeds of the others."""

OWN, PAIRWISE = 0, 1
"""The two parts of a dealt share: of the dealer's own mask seed, and of the key to its seeds."""

REVEALED = SECRET_BYTES + SALT_BYTES
"""The bytes that a party reveals for one neighbour: a share of one secret, and its salt."""


OPENED = 512
"""Parties in one part of an opening: no larger than what a party is dealt in a survey of many."""


def _octets(*shape: Size | Bounds) -> ArraySpec:
    return ArraySpec(dtype="u1", shape=shape)


# The names are those of ``sum_kinds``.
_Flags: TypeAlias = Annotated[Array, ArraySpec(dtype="u1", shape=("k",), high=2)]
_Keys: TypeAlias = Annotated[Array, _octets("k", KEY_BYTES)]
_Boxes: TypeAlias = Annotated[Array, _octets("k", "box")]
_Commitments: TypeAlias = Annotated[Array, _octets("k", "parts", COMMITMENT_BYTES)]
_Tags: TypeAlias = Annotated[Array, _octets("k", TAG_BYTES)]


class Begin(Message, frozen=True):
    """The aggregator opens a sum over the records of this survey."""

    scalar_bytes = 128

    survey: bytes


class Join(Message, frozen=True):
    """A party takes part, for so many respondents.

    Args:
        nonce: drawn for this session, so that no other graph has the same context.
    """

    scalar_bytes = 64

    respondents: int
    nonce: Annotated[Array, _octets(NONCE_BYTES)]


class Graph(Message, frozen=True):
    """Neighbours of a party, and what proves it.

    Args:
        respondents: of all that joined.
        joined: the number of parties that joined.
        root: the Merkle root over all that joined; the graph follows from it.
        index, path: the recipient's own place under that root, and the proof.
        names, keys: the neighbours and their identity keys, (k, 32).
        proof: that these are on the roster.
        there: those of them that have joined.
    """

    scalar_bytes = "graph bytes"

    respondents: int
    joined: int
    root: bytes
    index: int
    path: Annotated[Array, _octets(Bounds(0, "joined path"), HASH_BYTES)]
    names: tuple[str, ...]
    keys: _Keys
    proof: Annotated[Array, _octets(Bounds(0, "roster path"), HASH_BYTES)]
    there: _Flags


class Deal(Message, frozen=True):
    """A party's shares, one sealed box per neighbour, with commitments to their content.

    Args:
        salt: of these boxes alone.
        whole: the commitment to the seed of its own mask.
        seeds: of its masks with the neighbours, encrypted with a key that it shares.
        digests: of these seeds. Two neighbours with different digests have no mask.
    """

    scalar_bytes = 64

    salt: Annotated[Array, _octets(SALT_BYTES)]
    whole: Annotated[Array, _octets(HASH_BYTES)]
    boxes: _Boxes
    commitments: _Commitments
    seeds: Annotated[Array, _octets("k", "seed")]
    digests: Annotated[Array, _octets("k", "digest")]


class Dealt(Message, frozen=True):
    """Shares that a party's neighbours have dealt it.

    Args:
        dealt: which of them have, and gave the same digest of a seed as this party.
    """

    scalar_bytes = 64

    dealt: _Flags
    salts: Annotated[Array, _octets("k", SALT_BYTES)]
    boxes: _Boxes
    commitments: _Commitments


class Upload(Message, frozen=True):
    """A party's values under all its masks; ``rejected`` marks neighbours whose box was invalid."""

    scalar_bytes = 64

    values: Annotated[Array, ArraySpec(shape=("cells",), high="modulus")]
    rejected: _Flags


class Survivors(Message, frozen=True):
    """Uploaders, the same for everybody: a bitmap over the roster, as in a closing."""

    scalar_bytes = "survivor bytes"

    uploaded: bytes


class Unmask(Message, frozen=True):
    """A signature of the survivor set, and per neighbour one share, sealed for the aggregator."""

    scalar_bytes = "unmask bytes"

    signature: bytes
    salt: bytes
    box: bytes


class Opening(Message, frozen=True):
    """Opening of a sum for the record: one secret of each party that dealt takes the masks off.

    Args:
        round: the part of the opening. It has a row for each of the ``OPENED`` parties from place
            ``round * OPENED`` of the roster on; rows without a party are zeros.
        opened: the parties with enough valid shares.
        secrets: the seed of the own mask of a party that uploaded, and of any other the key to the
            seeds of its masks with others. All are zeros if the sum cannot be unmasked.
        accused: the parties with an invalid box or share, by the aggregator's account.
    """

    scalar_bytes = 64

    round: int
    opened: Annotated[Array, ArraySpec(dtype="u1", shape=("part",), high=2)]
    secrets: Annotated[Array, _octets("part", SECRET_BYTES)]
    accused: Annotated[Array, ArraySpec(dtype="u1", shape=("part",), high=2)]


class Totals(Message, frozen=True):
    """The sum, for every party."""

    scalar_bytes = 64

    respondents: int
    totals: Annotated[Array, ArraySpec(dtype="u4", shape=("cells",), high="counts")]


class Partial(Message, frozen=True):
    """A party's own values and all shares dealt to it, added up, signed."""

    scalar_bytes = 128

    values: Annotated[Array, ArraySpec(shape=("cells",), high="counts")]
    signature: bytes


class Partials(Message, frozen=True):
    """Partial sums that every party has broadcast, in roster order; signers are on record."""

    scalar_bytes = 64

    values: Annotated[Array, ArraySpec(shape=("parties", "cells"), high="counts")]


class Tags(Message, frozen=True):
    """A party's word to each neighbour on what it holds: survivors in round 0, totals in 1."""

    scalar_bytes = 64

    round: int
    tags: _Tags


class Tagged(Message, frozen=True):
    """The word of each neighbour, of those who gave it."""

    scalar_bytes = 64

    round: int
    given: _Flags
    tags: _Tags


def sum_kinds(
    *,
    cells: int,
    parties: int,
    most: int,
    neighbours: int,
    literal: bool,
    opening: bool,
    certificate: int,
) -> tuple[Kind, ...]:
    """The kinds of message of a sum.

    Args:
        cells: the number of counts that are summed.
        parties: the number of parties of the roster.
        most: the largest count that there can be.
        neighbours: the number of neighbours of every party.
        literal: whether it is the literal profile; else it is the sparse one.
        opening: whether the opening of a sparse sum is published.
        certificate: the most bytes of the certificate of its survivors; 0 without one.
    """
    counts = most + 1
    dealt = cells * smallest_dtype(counts).itemsize if literal else SHARED
    sizes = {
        "cells": cells,
        "parties": parties,
        "counts": counts,
        "modulus": 1 << modulus_bits(most),
        "k": neighbours,
        "parts": 1 if literal else 2,
        "box": dealt + SEAL_BYTES,
        "seed": 0 if literal else SECRET_BYTES,
        "digest": 0 if literal else DIGEST_BYTES,
        "part": min(parties, OPENED),
        "certificate bytes": certificate,
        "survivor bytes": 64 + parties // 8,
        "unmask bytes": 256 + neighbours * REVEALED,
    }
    sparse = (Upload, Survivors, Unmask, *((Opening,) if opening else ()), Totals)
    if certificate:
        # Imported late: few sums have witnesses.
        from protocol.transcript.certifying import Certificate

        sparse = (Certificate, *sparse)
    profile = (Partial, Partials) if literal else sparse
    summed = tuple(Kind.of(message, sizes.__getitem__) for message in (Deal, Dealt, *profile))
    return *neighbour_kinds(parties=parties, neighbours=neighbours), *summed


def neighbour_kinds(*, parties: int, neighbours: int) -> tuple[Kind, ...]:
    """The kinds of message with which neighbours meet and compare what they hold.

    Args:
        parties: the number of parties of the roster.
        neighbours: the number of neighbours of every party.
    """
    depth = parties.bit_length()
    sizes = {
        "k": neighbours,
        "joined path": depth + 1,
        "roster path": (neighbours + 1) * (depth + 1),
        "graph bytes": 256 + 66 * neighbours,
    }
    spoken = (Begin, Join, Graph, Tags, Tagged)
    return tuple(Kind.of(message, sizes.__getitem__) for message in spoken)


def is_summed(variant: Variant, parties: int) -> bool:
    """True if parties of this variant add anything up."""
    return any(issubclass(kind.message, Upload | Partial) for kind in variant.kinds(parties))
