"""Counts of randomized records in canonical form, as an aggregator keeps them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocol.randomizers import join_codes, split_codes
from protocol.wire.arrays import MAX_TABLE_CELLS, smallest_dtype

# The most cells per record of a product domain that is counted densely, which is faster.
_DENSE_CELLS_PER_RECORD = 4


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Counts:
    """Counts of each record: a sparse histogram over any number of attributes and cells.

    It is canonical: equal multisets of records give equal arrays, in whatever order they came.

    Attributes:
        sizes: the number of categories of each of the m attributes.
        codes: the distinct records, shape (u, m), in lexicographic order, of the smallest unsigned
            type that holds every category.
        counts: how often each occurs, shape (u,), int64, at least 1.
        n: the number of records.
    """

    sizes: tuple[int, ...]
    codes: NDArray[np.unsignedinteger]
    counts: NDArray[np.int64]
    n: int

    def __post_init__(self) -> None:
        self.codes.flags.writeable = False
        self.counts.flags.writeable = False

    def __repr__(self) -> str:
        return f"<Counts: n={self.n}, m={len(self.sizes)}, {len(self.counts)} distinct>"

    @classmethod
    def of(cls, codes: NDArray[np.unsignedinteger], sizes: Sequence[int]) -> Counts:
        """Count records.

        Args:
            codes: shape (n, m), column j below ``sizes[j]``; n may be 0.
            sizes: the number of categories of each of the m attributes, m at least 1.

        Raises:
            ValueError: another shape or type, no attribute, or a code that is not a category.
        """
        sizes = tuple(sizes)
        if not sizes or codes.ndim != 2 or codes.shape[1] != len(sizes):
            raise ValueError(f"codes of shape {codes.shape}: expected (n, {len(sizes)}), m >= 1")
        if codes.dtype.kind != "u":
            raise ValueError(f"codes of type {codes.dtype}: expected unsigned integers")
        n, cells = len(codes), math.prod(sizes)
        dtype = smallest_dtype(max(sizes))
        if cells <= _DENSE_CELLS_PER_RECORD * n:
            dense = np.bincount(join_codes(codes, sizes).astype(np.intp), minlength=cells)
            present = np.flatnonzero(dense)
            distinct = split_codes(present.astype(np.uint64), sizes, dtype)
            counts = dense[present]
        else:
            keys = [join_codes(codes[:, a:b], sizes[a:b]) for a, b in _runs(sizes)]
            # Which of some equal records comes first does not matter.
            order = np.argsort(keys[0]) if len(keys) == 1 else np.lexsort(keys[::-1])
            first = np.zeros(n, np.bool_)
            first[:1] = True
            for key in keys:
                ranked = key[order]
                first[1:] |= ranked[1:] != ranked[:-1]
            starts = np.flatnonzero(first)
            distinct = codes[order[starts]].astype(dtype)
            counts = np.diff(starts, append=n)
        return cls(sizes, distinct, counts.astype(np.int64), n)

    @classmethod
    def from_table(cls, table: NDArray[np.integer]) -> Counts:
        """A contingency table as a histogram.

        Args:
            table: counts of at least 0, one axis per attribute.
        """
        flat = table.reshape(-1)
        present = np.flatnonzero(flat)
        codes = split_codes(
            present.astype(np.uint64), table.shape, smallest_dtype(max(table.shape))
        )
        counts = flat[present].astype(np.int64)
        return cls(table.shape, codes, counts, int(counts.sum()))

    def table(self, axes: Sequence[int]) -> NDArray[np.int64]:
        """The contingency table of some attributes, in the order given.

        Args:
            axes: the places of the attributes, each at most once.

        Returns:
            Dense counts of shape ``tuple(sizes[axis] for axis in axes)``.

        Raises:
            ValueError: no place, a repeated one, one that is not there, or a table of more than
                2**27 cells.
        """
        # The counts are added up as float64, exactly: none reaches 2**53.
        return self.weighted_table(axes, self.counts).astype(np.int64)

    def weighted_table(
        self, axes: Sequence[int], weights: NDArray[np.number]
    ) -> NDArray[np.float64]:
        """The table of sums of weights, one for each distinct record, shape (u,)."""
        places = list(axes)
        if not places or len(set(places)) < len(places):
            raise ValueError(f"axes {tuple(places)}: expected at least one, and none repeated")
        if not set(places) <= set(range(len(self.sizes))):
            raise ValueError(f"axes {tuple(places)}: expected 0 to {len(self.sizes) - 1}")
        shape = tuple(self.sizes[place] for place in places)
        if math.prod(shape) > MAX_TABLE_CELLS:
            raise ValueError(
                f"a table of {math.prod(shape)} cells, expected at most {MAX_TABLE_CELLS}"
            )
        joint = join_codes(self.codes[:, places], shape).astype(np.intp)
        table = np.bincount(joint, weights=weights, minlength=math.prod(shape))
        return table.astype(np.float64, copy=False).reshape(shape)


def _runs(sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    """Cut the attributes into runs with product domains that fit in 64 bits."""
    runs = []
    start, cells = 0, 1
    for place, size in enumerate(sizes):
        if cells * size > 2**64:
            runs.append((start, place))
            start, cells = place, 1
        cells *= size
    runs.append((start, len(sizes)))
    return runs


def count_codes(parts: Iterable[NDArray[np.unsignedinteger]], size: int) -> NDArray[np.uint32]:
    """Counts of each code over several parties, shape (size,).

    Args:
        parts: the codes of each party, below ``size``, of any shape.
    """
    codes = np.concatenate([part.reshape(-1) for part in parts])
    return np.bincount(codes, minlength=size).astype(np.uint32)


def effective_number(weights: NDArray[np.float64], counts: NDArray[np.integer]) -> float:
    """Kish's effective sample size ``(sum w)**2 / sum w**2``, over single records.

    It is the number of equally weighted records with the same variance (Survey Sampling, 1965,
    section 11.7). It measures how uneven the weights are, without the noise of randomization.

    Args:
        weights: of all occurrences of each distinct record together; not all 0.
        counts: how often each occurs.
    """
    return float(weights.sum() ** 2 / np.sum(weights**2 / counts))
