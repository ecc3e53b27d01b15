"""Exact elimination: what follows from sums of values once the masks over them are taken off.

A row is a sum that somebody knows, by the coefficient of every unknown in it: values, and whatever
hides them. A value under masks, a share of it (``x - r`` beside ``r``; ``x + j r`` at the point j
for Shamir's), what a ring passes on and a total are all rows, and are judged alike.

It is judged over the rationals. Sums are taken modulo some number, so a row ``2 x`` counts as
telling x, though it may tell all but a bit of it; and what follows only since a coefficient is a
multiple of the modulus is not found: a caller reduces coefficients before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from typing import NamedTuple, TypeAlias, TypeVar

Coefficient: TypeAlias = int | Fraction
U = TypeVar("U", bound=Hashable)
Row: TypeAlias = dict[U, Coefficient]


class Group(NamedTuple):
    """Rows that count only together.

    Args:
        members: the numbers of the rows, ascending.
        row: their sum.
    """

    members: list[int]
    row: Row  # type: ignore[type-arg]


def eliminated(rows: Sequence[Mapping[U, Coefficient]], hidden: Container[U]) -> list[Row[U]]:
    """Rows over what is not hidden that follow from rows over both.

    They span exactly the linear combinations of the given rows in which no hidden unknown is left.
    Each hidden unknown takes one row at most with it, so at least as many are returned as there are
    more rows than hidden unknowns, save those that come to nothing; they need not be independent.

    Args:
        rows: the coefficients of unknowns, over both kinds.
        hidden: the unknowns that are to be eliminated.
    """
    return _pivoted([group.row for group in linked(rows, hidden)], hidden)[1]


def linked(rows: Sequence[Mapping[U, Coefficient]], hidden: Container[U]) -> list[Group]:
    """Groups of rows that count only together, in the order of their first row.

    If two rows alone name a hidden unknown, with opposite coefficients, then a combination without
    it has both equally often. So the sums of groups that are linked like this give the same
    combinations as the rows do, and none of these unknowns is in them. With masks that one party
    adds and another takes away they are the connected components of the graph of masks.

    Args:
        rows: the coefficients of unknowns, over both kinds.
        hidden: the unknowns that link.
    """
    named = Counter(chain.from_iterable(rows))
    leaders = list(range(len(rows)))
    once: dict[U, tuple[int, Coefficient]] = {}
    for number, row in enumerate(rows):
        for unknown, value in row.items():
            if named[unknown] != 2 or unknown not in hidden:
                continue
            other = once.pop(unknown, None)
            if other is None:
                once[unknown] = number, value
            elif other[1] + value == 0:
                _join(leaders, other[0], number)
    groups: dict[int, Group] = {}
    for number, row in enumerate(rows):
        group = groups.setdefault(_leader(leaders, number), Group([], {}))
        group.members.append(number)
        _add(group.row, row)
    return list(groups.values())


def reduced(rows: Iterable[Mapping[U, Coefficient]]) -> dict[U, Row[U]]:
    """The reduced row echelon form, by pivot: each has coefficient 1, and is in no other row."""
    found, _ = _pivoted([{u: v for u, v in row.items() if v} for row in rows], None)
    return {
        pivot: {unknown: Fraction(value) / row[pivot] for unknown, value in row.items()}
        for pivot, row in found.items()
    }


def _pivoted(
    rows: list[Row[U]], hidden: Container[U] | None
) -> tuple[dict[U, Row[U]], list[Row[U]]]:
    """Rows with one pivot for each unknown, and the others, in which no such unknown is left.

    The unknowns come in the order of how few rows name them, and take the shortest row that has
    none: this fills in little.

    Args:
        rows: without coefficients of 0; they are changed.
        hidden: the unknowns that are pivots, whose own rows are not looked at any more; None for
            all, and then each is taken out of the rows with another pivot as well.
    """
    naming: dict[U, set[int]] = {}
    for number, row in enumerate(rows):
        for unknown in row:
            naming.setdefault(unknown, set()).add(number)
    pivots: dict[int, U] = {}
    wanted = [unknown for unknown in naming if hidden is None or unknown in hidden]
    for unknown in sorted(wanted, key=lambda unknown: len(naming[unknown])):
        free = [number for number in naming[unknown] if number not in pivots]
        if not free:
            continue
        pivot = min(free, key=lambda number: len(rows[number]))
        row = rows[pivot]
        for number in naming[unknown] - {pivot}:
            other = rows[number]
            _add(other, row, -_ratio(other[unknown], row[unknown]))
            for column in row:
                if column in other:
                    naming[column].add(number)
                else:
                    naming[column].discard(number)
        if hidden is not None:
            for column in row:
                naming[column].discard(pivot)
        pivots[pivot] = unknown
    rest = [row for number, row in enumerate(rows) if row and number not in pivots]
    return {unknown: rows[number] for number, unknown in pivots.items()}, rest


def _add(row: Row[U], other: Mapping[U, Coefficient], times: Coefficient = 1) -> None:
    for unknown, value in other.items():
        total = row.get(unknown, 0) + times * value
        if total:
            row[unknown] = total
        else:
            row.pop(unknown, None)


def _ratio(value: Coefficient, other: Coefficient) -> Coefficient:
    """Their quotient, as an integer if it is one: these are faster by far."""
    ratio = Fraction(value) / other
    return ratio.numerator if ratio.denominator == 1 else ratio


def _leader(leaders: list[int], number: int) -> int:
    """The smallest number of a group, of which every member points to one nearer to it."""
    while leaders[number] != number:
        leaders[number] = leaders[leaders[number]]
        number = leaders[number]
    return number


def _join(leaders: list[int], one: int, other: int) -> None:
    first, second = sorted((_leader(leaders, one), _leader(leaders, other)))
    leaders[second] = first
