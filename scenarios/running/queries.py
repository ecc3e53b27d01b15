"""Random count queries, and the errors of estimates in them.

Domingo-Ferrer and Soria-Comas, Multi-Dimensional Randomized Response, section 6.5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations, combinations_with_replacement
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.randomizers.exact import Floats

Pair: TypeAlias = tuple[int, int]
"""The places of two distinct attributes, the first one first."""

TrueTable: TypeAlias = Callable[[Pair], NDArray[np.int64]]
"""The true counts of a pair of attributes, shape (r_i, r_j)."""

EstimatedTables: TypeAlias = Callable[[Pair, int], Floats]
"""Estimated counts of a pair in so many independent runs, shape (runs, r_i, r_j)."""


class Errors(NamedTuple):
    """The errors of count queries.

    Attributes:
        absolute: ``|Y_S - X_S|``, in respondents.
        relative: ``|Y_S - X_S| / X_S``, of the same shape; infinite where X_S is 0.
    """

    absolute: Floats
    relative: Floats


def set_size(cells: int, sigma: float, *, loosely: bool = False) -> int:
    """Number of combinations in a set of coverage ``sigma``, at least 1.

    It is ``round(sigma cells)``, rounding halves to even; with ``loosely`` it is rounded up.
    """
    return math.ceil(sigma * cells - 1e-9) if loosely else max(1, round(sigma * cells))


def draw_pairs(
    attributes: int, count: int, generator: np.random.Generator, *, loosely: bool = False
) -> NDArray[np.int64]:
    """Two distinct attributes each, every pair as likely, the first one first; shape (count, 2).

    With ``loosely`` they are drawn with replacement, so that both may be equal.
    """
    if loosely:
        return np.sort(generator.integers(attributes, size=(count, 2)), axis=1)
    pairs = np.array(list(combinations(range(attributes), 2)), np.int64)
    return pairs[generator.integers(len(pairs), size=count)]


def draw_sets(
    cells: int, size: int, count: int, generator: np.random.Generator
) -> NDArray[np.bool_]:
    """Independent sets of ``size`` cells, every such set as likely; shape (count, cells)."""
    sets = np.zeros((count, cells), np.bool_)
    chosen = np.argpartition(generator.random((count, cells)), size - 1, axis=1)[:, :size]
    np.put_along_axis(sets, chosen, True, axis=1)
    return sets


def query_errors(
    sets: NDArray[np.bool_], *, true: ArrayLike, estimated: ArrayLike, loosely: bool = False
) -> Errors:
    """The errors of queries about sets of cells (section 6.5, Equation 16).

    Args:
        sets: shape (..., cells).
        true: true counts, broadcast to this shape.
        estimated: estimated counts, broadcast to this shape.
        loosely: count no error where both the true and the estimated count are 0.

    Returns:
        Errors of shape (...); else a relative error is infinite where nobody is in the set.
    """
    x = np.where(sets, true, 0).sum(axis=-1)
    y = np.where(sets, estimated, 0.0).sum(axis=-1)
    absolute: Floats = np.abs(y - x)
    relative = np.full(absolute.shape, np.inf)
    np.divide(absolute, x, out=relative, where=x > 0)
    if loosely:
        relative[(x == 0) & (y == 0)] = 0.0
    return Errors(absolute=absolute, relative=relative)


def evaluate(
    sizes: Sequence[int],
    true: TrueTable,
    estimated: EstimatedTables,
    *,
    sigma: float,
    runs: int,
    generator: np.random.Generator,
    loosely: bool = False,
) -> Errors:
    """One query in each of many runs, with attributes, set and estimate drawn anew every time.

    Args:
        sizes: the number of categories of every attribute.
        true: the true counts.
        estimated: called once per pair, for all runs that chose it.
        sigma: the share of the pair's combinations that a set has.
        runs: the number of runs.
        generator: decides attributes and sets.
        loosely: as in ``set_size``, ``draw_pairs`` and ``query_errors``.

    Returns:
        Errors of shape (runs,).
    """
    pairs = draw_pairs(len(sizes), runs, generator, loosely=loosely)
    absolute, relative = np.empty(runs), np.empty(runs)
    for pair in combinations_with_replacement(range(len(sizes)), 2):
        chosen = np.flatnonzero((pairs == pair).all(axis=1))
        if not chosen.size:
            continue
        cells = sizes[pair[0]] * sizes[pair[1]]
        sets = draw_sets(cells, set_size(cells, sigma, loosely=loosely), chosen.size, generator)
        errors = query_errors(
            sets,
            true=true(pair).reshape(-1),
            estimated=estimated(pair, chosen.size).reshape(chosen.size, cells),
            loosely=loosely,
        )
        absolute[chosen], relative[chosen] = errors.absolute, errors.relative
    return Errors(absolute=absolute, relative=relative)
