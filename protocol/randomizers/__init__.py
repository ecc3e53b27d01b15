"""Randomizers of a client's answer before it leaves, and how records meet them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from protocol.crypto.randomness import Stream
from protocol.randomizers.exact import Codes
from protocol.randomizers.fakes import FakeData
from protocol.randomizers.keep import KeepUniform
from protocol.randomizers.keyvalue import PrivKV, PrivKVM
from protocol.randomizers.matrix import MatrixRandomizer
from protocol.randomizers.means.means import Mean, MeanRandomizer
from protocol.randomizers.means.one_bit import OneBitMean
from protocol.randomizers.means.piecewise import PiecewiseMean
from protocol.randomizers.oracles.hadamard_response import HadamardResponse
from protocol.randomizers.oracles.hashing import LocalHashing
from protocol.randomizers.oracles.subset import SubsetSelection
from protocol.randomizers.oracles.unary import UnaryEncoding
from protocol.randomizers.pairs import Dominating, ThreePoint
from protocol.randomizers.randomizer import OutputClass, Randomizer, Support
from protocol.randomizers.table import KeepElseTable, Tables
from protocol.wire.arrays import smallest_dtype

__all__ = [
    "CodeRandomizer",
    "Dominating",
    "FakeData",
    "HadamardResponse",
    "KeepElseTable",
    "KeepUniform",
    "LocalHashing",
    "MatrixRandomizer",
    "Mean",
    "MeanRandomizer",
    "OneBitMean",
    "OutputClass",
    "PiecewiseMean",
    "PrivKV",
    "PrivKVM",
    "Randomizer",
    "SubsetSelection",
    "Support",
    "Tables",
    "ThreePoint",
    "UnaryEncoding",
    "join_codes",
    "randomize_columns",
    "split_codes",
]

CodeRandomizer: TypeAlias = KeepUniform | KeepElseTable | MatrixRandomizer
"""Those from codes to codes of the same domain: a tagged union that msgspec encodes and decodes."""

# Up to this many rows, one pass over the block is faster than one call per column.
_FEW_ROWS = 512


class _Columns(NamedTuple):
    """The parameters of m keep randomizers as columns of shape (m, 1)."""

    thresholds: NDArray[np.uint64]
    sizes: NDArray[np.uint64]
    lasts: NDArray[np.uint64]
    largest: int


@lru_cache(maxsize=64)
def _columns(randomizers: tuple[CodeRandomizer, ...]) -> _Columns | None:
    keeps = [keep for keep in randomizers if isinstance(keep, KeepUniform)]
    if len(keeps) < len(randomizers):
        return None
    return _Columns(
        np.array([[keep.threshold] for keep in keeps], np.uint64),
        np.array([[keep.size] for keep in keeps], np.uint64),
        np.array([[keep.last] for keep in keeps], np.uint64),
        max(keep.size for keep in keeps),
    )


def randomize_columns(
    randomizers: tuple[CodeRandomizer, ...], codes: NDArray[Codes], stream: Stream
) -> NDArray[Codes]:
    """Randomize column j of a block of records with randomizer j.

    The words are drawn column by column. Privacy is counted per row: its columns are randomized
    independently, so their epsilons add up.

    Args:
        randomizers: one for each column, m of them.
        codes: shape (k, m), of an unsigned type that holds every category; it is not changed.
        stream: the source of the draws.

    Raises:
        ValueError: another shape, an unsuitable type, or a code that is not a category.
    """
    if codes.ndim != 2 or codes.shape[1] != len(randomizers):
        raise ValueError(f"codes of shape {codes.shape}: expected (k, {len(randomizers)})")
    columns = _columns(randomizers) if len(codes) <= _FEW_ROWS else None
    if columns is None:
        randomized = np.empty_like(codes)
        for place, randomizer in enumerate(randomizers):
            randomized[:, place] = randomizer.randomize(codes[:, place], stream)
        return randomized
    if codes.dtype.kind != "u" or 1 << 8 * codes.dtype.itemsize < columns.largest:
        raise ValueError(
            f"codes of type {codes.dtype}: expected unsigned, holding {columns.largest} values"
        )
    true = codes.T
    if np.count_nonzero(true >= columns.sizes):
        raise ValueError("a code is not below the size of its column's randomizer")
    words = stream.words(codes.size).reshape(true.shape)
    kept = words < columns.thresholds
    refused = words > columns.lasts
    drawn = (words - columns.thresholds) % columns.sizes
    if np.count_nonzero(refused):
        drawn[refused] = stream.integers(np.broadcast_to(columns.sizes, drawn.shape)[refused])
    return np.ascontiguousarray(np.where(kept, true, drawn.astype(codes.dtype)).T)


def join_codes(
    codes: NDArray[np.unsignedinteger], sizes: Sequence[int]
) -> NDArray[np.unsignedinteger]:
    """The codes of some attributes as one code each of their product domain, in row-major order.

    Args:
        codes: shape (n, m), column j below ``sizes[j]``.
        sizes: the number of categories of each of the m attributes.

    Returns:
        Shape (n,), of the smallest unsigned type that holds the product domain.

    Raises:
        ValueError: another shape, a code that is not a category, or more than 2**64 combinations.
    """
    if codes.ndim != 2 or codes.shape[1] != len(sizes):
        raise ValueError(f"codes of shape {codes.shape}: expected (n, {len(sizes)})")
    dtype = smallest_dtype(math.prod(sizes))
    joint = np.zeros(len(codes), dtype)
    for place, size in enumerate(sizes):
        column = codes[:, place]
        if column.size and int(column.max()) >= size:
            raise ValueError(f"column {place}: code {int(column.max())}, expected less than {size}")
        # A size that the type does not hold is multiplied with 0 alone.
        joint *= dtype.type(size % 2 ** (8 * dtype.itemsize))
        joint += column.astype(dtype)
    return joint


def split_codes(
    joint: NDArray[np.unsignedinteger], sizes: Sequence[int], dtype: DTypeLike | None = None
) -> NDArray[np.unsignedinteger]:
    """The codes of each attribute from codes of the product domain: undoes ``join_codes``.

    Args:
        joint: shape (n,), below the product of the sizes.
        sizes: the number of categories of each of the m attributes.
        dtype: the type of the result; by default the smallest that holds every attribute's codes.

    Returns:
        Shape (n, m).

    Raises:
        ValueError: a code that is not below the product, or more than 2**64 combinations.
    """
    cells = math.prod(sizes)
    if joint.size and int(joint.max()) >= cells:
        raise ValueError(f"code {int(joint.max())}: expected less than {cells}")
    codes = np.empty((joint.size, len(sizes)), dtype or smallest_dtype(max(sizes)))
    rest = joint.reshape(-1).astype(np.uint64)
    for place in reversed(range(len(sizes))):
        quotient = rest // np.uint64(sizes[place])
        codes[:, place] = rest - quotient * np.uint64(sizes[place])
        rest = quotient
    return codes
