"""Error measures of estimates: distances between two tables.

RRBA (Randomized Response Block Aggregation), section 3.2.1, as corrected. In every measure
the last ``ways`` axes are one table and the axes before count pairs of tables; by default all axes
are one table. The two arrays may be broadcast against each other before their last axes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.randomizers.exact import Floats

# How far the total of shares may be from 1.
_ROUNDING = 1e-9


def total_variation(left: ArrayLike, right: ArrayLike, *, ways: int | None = None) -> Floats:
    """Half the sum of the absolute differences: between shares 0 to 1, if none is negative.

    Raises:
        ValueError: tables of different shapes, or an entry that is not finite.
    """
    first, second, axes = _pair(left, right, ways)
    half: Floats = np.abs(first - second).sum(axis=axes) / 2
    return half


def squared_error(left: ArrayLike, right: ArrayLike, *, ways: int | None = None) -> Floats:
    """The sum of the squared differences of all cells.

    Its mean over runs is the paper's Expected Squared Error.

    Raises:
        ValueError: as ``total_variation``.
    """
    first, second, axes = _pair(left, right, ways)
    total: Floats = ((first - second) ** 2).sum(axis=axes)
    return total


def l2_distance(left: ArrayLike, right: ArrayLike, *, ways: int | None = None) -> Floats:
    """The Euclidean distance, the root of ``squared_error``; the paper prints that of counts.

    Raises:
        ValueError: as ``total_variation``.
    """
    root: Floats = np.sqrt(squared_error(left, right, ways=ways))
    return root


def jensen_shannon_distance(
    left: ArrayLike, right: ArrayLike, *, ways: int | None = None
) -> Floats:
    """The root of the Jensen-Shannon divergence, a metric: what tables 5 and 6 print.

    The divergence is ``KL(left || Q) / 2 + KL(right || Q) / 2`` with Q the mean of both tables, in
    nats: from 0 to ln 2. An empty cell adds nothing to its own Kullback-Leibler divergence.

    Args:
        left, right: shares with a total of 1, none negative: ``shares`` turns counts into them, and
            raw estimates are projected first.
        ways: the number of axes of one table.

    Raises:
        ValueError: as ``total_variation``, a negative entry, or a total that is not 1.
    """
    first, second, axes = _pair(left, right, ways)
    for table in (first, second):
        if (table < 0).any():
            raise ValueError("a negative entry: project the estimate first")
        if (np.abs(table.sum(axis=axes) - 1) > _ROUNDING).any():
            raise ValueError("a total is not 1: turn counts into shares first")
    middle = (first + second) / 2
    divergence: Floats = sum(
        (_entropy_terms(table, middle).sum(axis=axes) / 2 for table in (first, second)),
        start=np.zeros(()),
    )
    # Equal tables but for rounding can come out a hair below 0, which has no root.
    root: Floats = np.sqrt(np.maximum(divergence, 0.0))
    return root


def shares(counts: ArrayLike, *, ways: int | None = None) -> Floats:
    """Every table divided by its total; a signed one stays signed.

    Raises:
        ValueError: an entry that is not finite, more ways than axes, or a total that is not
            positive.
    """
    table = np.asarray(counts, np.float64)
    total = table.sum(axis=table_axes(table, ways), keepdims=True)
    if not (total > 0).all():
        raise ValueError("a table's total is not positive")
    normalized: Floats = table / total
    return normalized


def table_axes(tables: NDArray[np.float64], ways: int | None) -> tuple[int, ...]:
    """The axes of one table, counted from the last: ``(-ways, ..., -1)``.

    Raises:
        ValueError: an entry is not finite, there is no cell, or ``ways`` is not 1 to the number of
            axes.
    """
    asked = tables.ndim if ways is None else ways
    if not 1 <= asked <= tables.ndim:
        raise ValueError(
            f"{asked} ways: expected 1 to {tables.ndim} for an array of shape {tables.shape}"
        )
    if not tables.size:
        raise ValueError(f"table of shape {tables.shape}: expected at least one cell")
    if not np.isfinite(tables).all():
        raise ValueError("an entry is not finite")
    return tuple(range(-asked, 0))


def _pair(
    left: ArrayLike, right: ArrayLike, ways: int | None
) -> tuple[Floats, Floats, tuple[int, ...]]:
    first, second = np.asarray(left, np.float64), np.asarray(right, np.float64)
    axes = table_axes(first, ways)
    table_axes(second, len(axes))
    if first.shape[axes[0] :] != second.shape[axes[0] :]:
        raise ValueError(
            f"tables of shapes {first.shape} and {second.shape}: expected the same shape"
        )
    first, second = np.broadcast_arrays(first, second)
    return first, second, axes


def _entropy_terms(table: Floats, middle: Floats) -> Floats:
    """``t ln(t / q)`` of every cell; 0 if t is 0, when q may be 0 too."""
    ratio = np.divide(table, middle, out=np.ones_like(middle), where=table > 0)
    terms: Floats = table * np.log(ratio)
    return terms
