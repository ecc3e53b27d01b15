"""Exact elimination: the sums of values that follow once the masks over them are removed.

A row is a known sum, by the coefficient of every unknown in it: values, and all that hides them. A
masked value, a share of it (``x - r`` and ``r``; ``x + j r`` at the point j for Shamir's), what a
ring passes on and a total are all rows, and are treated alike.

Elimination is over the rationals. Sums are taken modulo some number, so a row ``2 x`` counts as
revealing x, though it may reveal all but a bit of it; and sums that follow only because a
coefficient is a multiple of the modulus are not found.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Coefficient: TypeAlias = int | Fraction
U = TypeVar("U", bound=Hashable)
Flags = NDArray[np.bool_]
Places = NDArray[np.int64]


class Groups(NamedTuple):
    """Rows that count only together.

    Args:
        members: the numbers of the rows in each group, ascending; in the order of their first.
        left: (e,) which entries are left in the sums of groups.
    """

    members: tuple[Places, ...]
    left: Flags


def eliminated(
    rows: Sequence[Mapping[U, Coefficient]], hidden: Container[U]
) -> list[dict[U, Coefficient]]:
    """Rows over unhidden unknowns that follow from rows over both.

    They span exactly the linear combinations of the rows without hidden unknowns. Each hidden
    unknown removes at most one row. The result need not be independent or small, but no row is
    empty; ``row_space`` finds the smallest sums that follow.

    Unknowns in two rows with opposite coefficients cost a few steps per entry, however many rows
    they connect. The others are eliminated one by one, those in the fewest rows first, and rows
    over many of them may grow.

    Args:
        rows: the coefficient of each unknown, hidden or not.
        hidden: the unknowns to eliminate.
    """
    masks = [[u for u, value in row.items() if value and u in hidden] for row in rows]
    ids = {unknown: code for code, unknown in enumerate(dict.fromkeys(chain.from_iterable(masks)))}
    numbers = np.repeat(np.arange(len(rows)), [len(row) for row in masks])
    codes = np.array([ids[unknown] for row in masks for unknown in row], np.int64)
    factors = [row[u] for row, named in zip(rows, masks, strict=True) for u in named]
    groups = linked(numbers, codes, np.array(factors, object), rows=len(rows))
    left = set(codes[groups.left].tolist())
    gone = {unknown for unknown, code in ids.items() if code not in left}
    sums: list[dict[U, Coefficient]] = []
    for members in groups.members:
        total: dict[U, Coefficient] = {}
        for number in members.tolist():
            added(total, {u: v for u, v in rows[number].items() if u not in gone})
        sums.append(total)
    return _pivoted(sums, hidden)[1]


def linked(numbers: NDArray[Any], unknowns: Places, values: NDArray[Any], *, rows: int) -> Groups:
    """Groups of rows that count only together, because of hidden unknowns that two rows share.

    If a hidden unknown is in two rows alone, with opposite coefficients, then a combination without
    it has both rows equally often. So the sums over such groups give the same combinations as the
    rows do, and none of these unknowns is left in them. Where one party adds a mask and another
    takes it away, the groups are the connected components of the graph of masks.

    Args:
        numbers: (e,) the row of each entry, from 0, as integers.
        unknowns: (e,) the hidden unknown.
        values: (e,) its coefficient there, not 0.
        rows: how many there are.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    order = np.argsort(unknowns, kind="stable")
    same = np.diff(unknowns[order]) == 0
    # Two in a row, and no third before or after them.
    around = np.pad(same, 1)
    twice = np.flatnonzero(same & ~around[:-2] & ~around[2:])
    one, other = order[twice], order[twice + 1]
    opposite = values[one] == -values[other]
    one, other = one[opposite], other[opposite]
    left = np.ones(len(order), np.bool_)
    left[one] = left[other] = False
    links = np.ones(len(one), np.bool_), (numbers[one], numbers[other])
    count, labels = connected_components(coo_array(links, shape=(rows, rows)), directed=False)
    members = np.argsort(labels, kind="stable")
    split = np.searchsorted(labels[members], np.arange(1, count))
    found = np.split(members, split) if count else []
    return Groups(tuple(sorted(found, key=lambda group: int(group[0]))), left)


def reduced(rows: Iterable[Mapping[U, Coefficient]]) -> dict[U, dict[U, Coefficient]]:
    """The reduced row echelon form, by pivot: with the coefficient 1, and in no other row."""
    pivots, _ = _pivoted([{u: v for u, v in row.items() if v} for row in rows], None)
    found: dict[U, dict[U, Coefficient]] = {}
    # No row names the pivot of an earlier one.
    for pivot, row in reversed(pivots.items()):
        for other in row.keys() & found.keys():
            added(row, found[other], -row[other])
        found[pivot] = {unknown: ratio(value, row[pivot]) for unknown, value in row.items()}
    return found


def added(
    row: dict[U, Coefficient], other: Mapping[U, Coefficient], times: Coefficient = 1
) -> None:
    """Add a multiple of a row to another, in place."""
    for unknown, value in other.items():
        total = row.get(unknown, 0) + times * value
        if total:
            row[unknown] = total
        else:
            row.pop(unknown, None)


def _pivoted(
    rows: list[dict[U, Coefficient]], hidden: Container[U] | None
) -> tuple[dict[U, dict[U, Coefficient]], list[dict[U, Coefficient]]]:
    """Rows by their pivots, and the other rows, without such unknowns.

    Unknowns in few rows come first, and take the shortest row without a pivot, for little fill-in.
    Rows with a pivot keep unknowns that are eliminated later.

    Args:
        rows: without coefficients of 0; they are changed.
        hidden: the unknowns that may be pivots; None for all.
    """
    naming: dict[U, set[int]] = {}
    for number, row in enumerate(rows):
        for unknown in row:
            naming.setdefault(unknown, set()).add(number)
    pivots: dict[U, dict[U, Coefficient]] = {}
    wanted = [unknown for unknown in naming if hidden is None or unknown in hidden]
    for unknown in sorted(wanted, key=lambda unknown: len(naming[unknown])):
        numbers = naming[unknown]
        if not numbers:
            continue
        pivot = min(numbers, key=lambda number: len(rows[number]))
        row = pivots[unknown] = rows[pivot]
        rows[pivot] = {}
        for column in row:
            naming[column].discard(pivot)
        for number in list(numbers):
            other = rows[number]
            added(other, row, -ratio(other[unknown], row[unknown]))
            for column in row:
                if column in other:
                    naming[column].add(number)
                else:
                    naming[column].discard(number)
    return pivots, [row for row in rows if row]


def ratio(value: Coefficient, other: Coefficient) -> Coefficient:
    """Their quotient, as an integer if it is one, which is faster."""
    quotient = Fraction(value) / other
    return quotient.numerator if quotient.denominator == 1 else quotient
