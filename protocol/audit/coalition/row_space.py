"""Exact linear algebra on sums over sets of parties: which smaller sums follow from some.

A set stands for the sum of what its members hold. Parties that are in the same sets cannot be told
apart by any combination of them, so the algebra is over classes of such parties (partition
refinement), with rational numbers and rows that name only what they contain.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]

_Row = dict[int, Fraction]

SEARCHED = 12
"""Maximum number of connected sums of which all combinations are searched for small sets."""


class RowSpace(NamedTuple):
    """What follows from the sums over some sets.

    Args:
        determined: classes of parties whose sum follows; disjoint, in the order of their first
            member. A class of one is a party by itself, and no other party is determined.
        mixed: those of the sets, each once, that are not a union of determined classes. Together
            with the determined classes they span all that follows. If the sum over a set that is
            smaller than all of these follows, the smallest that was found comes last.
        searched: nothing is smaller than the smallest set here, or a pair below.
        equal: pairs of parties whose difference follows, and neither of them: of every group of
            parties that are known relative to each other, each with the first.
        opposite: pairs whose sum follows, and neither of them: the first of a group with the first
            of another.
    """

    determined: tuple[Places, ...]
    mixed: tuple[Places, ...]
    searched: bool
    equal: tuple[tuple[int, int], ...]
    opposite: tuple[tuple[int, int], ...]


def row_space(sets: Sequence[Places], parties: int) -> RowSpace:
    """What follows from the sums over these sets of parties.

    Args:
        sets: places below ``parties``, each place at most once in a set.

    Raises:
        ValueError: a place is out of range.
    """
    sets = [np.unique(places) for places in sets if len(places)]
    if any(places[0] < 0 or places[-1] >= parties for places in sets):
        raise ValueError(f"place out of range: expected 0 to {parties - 1}")
    labels = _refined(sets, parties)
    rows = [np.unique(labels[places]).tolist() for places in sets]
    reduced = _reduced(rows)
    known = {pivot for pivot, row in reduced.items() if len(row) == 1}
    order = np.argsort(labels, kind="stable")
    bounds = np.searchsorted(labels[order], np.arange(labels.max(initial=0) + 2))
    members = np.split(order, bounds)[1:-1]
    determined = sorted((members[label] for label in known), key=lambda places: int(places[0]))
    mixed: dict[bytes, Places] = {}
    for places, row in zip(sets, rows, strict=True):
        if not known.issuperset(row):
            mixed.setdefault(places.tobytes(), places)
    equal, opposite = _related(reduced, members, {label for row in rows for label in row})
    smallest = min(map(len, (*determined, *mixed.values())), default=0)
    searched = True
    for block in _blocks({p: row for p, row in reduced.items() if p not in known}):
        if len(block) > SEARCHED:
            searched = False
            continue
        found = _smallest(block, members)
        size = sum(len(members[label]) for label in found)
        if size < smallest:
            smallest = size
            places = np.sort(np.concatenate([members[label] for label in found]))
            mixed.pop(b"", None)
            mixed[b""] = places
    return RowSpace(tuple(determined), tuple(mixed.values()), searched, equal, opposite)


def _refined(sets: Sequence[Places], parties: int) -> Places:
    """A label for every place: those have the same that are in the same sets; 0 are in none."""
    # With one more place at the front that is in no set.
    labels = np.zeros(parties + 1, np.int64)
    for places in sets:
        _, inverse = np.unique(labels[places + 1], return_inverse=True)
        labels[places + 1] = labels.max() + 1 + inverse
    # The labels that are still in use, in the order of their first place.
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    ranks = np.argsort(np.argsort(first))
    return ranks[inverse][1:]


def _reduced(rows: Sequence[Sequence[int]]) -> dict[int, _Row]:
    """The reduced row echelon form of 0/1 rows, by pivot: no row names another row's pivot."""
    reduced: dict[int, _Row] = {}
    # Which reduced rows name a column.
    naming: dict[int, set[int]] = {}
    for columns in sorted(rows, key=len):
        row: _Row = dict.fromkeys(columns, Fraction(1))
        for pivot in [column for column in columns if column in reduced]:
            _subtract(row, reduced[pivot], row[pivot])
        if not row:
            continue
        # The column that the fewest others name fills in the least.
        pivot = min(row, key=lambda column: (len(naming.get(column, ())), column))
        scale = row[pivot]
        row = {column: value / scale for column, value in row.items()}
        for other in naming.pop(pivot, set()):
            _subtract(reduced[other], row, reduced[other][pivot])
            for column in row.keys() - {pivot}:
                if column in reduced[other]:
                    naming.setdefault(column, set()).add(other)
                else:
                    naming.get(column, set()).discard(other)
        reduced[pivot] = row
        for column in row:
            if column != pivot:
                naming.setdefault(column, set()).add(pivot)
    return reduced


def _subtract(row: _Row, other: _Row, times: Fraction) -> None:
    for column, value in other.items():
        left = row.get(column, Fraction(0)) - times * value
        if left:
            row[column] = left
        else:
            row.pop(column, None)


def _blocks(reduced: dict[int, _Row]) -> list[list[_Row]]:
    """Rows that have columns in common, directly or through others, together."""
    blocks: list[tuple[set[int], list[_Row]]] = []
    for row in reduced.values():
        apart, columns, rows = [], set(row), [row]
        for block in blocks:
            if block[0].isdisjoint(columns):
                apart.append(block)
            else:
                columns |= block[0]
                rows += block[1]
        blocks = [*apart, (columns, rows)]
    return [rows for _, rows in blocks]


def _smallest(rows: Sequence[_Row], members: Sequence[Places]) -> list[int]:
    """The labels of the smallest set whose sum these reduced rows give.

    Its pivots are in it or not, and each is in one row alone: there is one combination for every
    choice of pivots.
    """
    best: list[int] = []
    fewest = sum(map(len, members)) + 1
    for choice in range(1, 1 << len(rows)):
        combined: _Row = {}
        for place, row in enumerate(rows):
            if choice >> place & 1:
                _subtract(combined, row, Fraction(-1))
        if all(value == 1 for value in combined.values()):
            size = sum(len(members[label]) for label in combined)
            if size < fewest:
                best, fewest = list(combined), size
    return best


def _related(
    reduced: dict[int, _Row], members: Sequence[Places], named: set[int]
) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    """Pairs of single parties that are the same, or opposite, up to what follows."""
    groups: dict[frozenset[tuple[int, Fraction]], list[int]] = {}
    for label in sorted(named):
        if len(members[label]) != 1:
            continue
        row = reduced.get(label)
        # What is left of the party when all that follows is taken away.
        left = {label: Fraction(1)} if row is None else {c: -v for c, v in row.items()}
        if row is not None:
            del left[label]
        if left:
            groups.setdefault(frozenset(left.items()), []).append(int(members[label][0]))
    equal, opposite = [], []
    for left_over, places in groups.items():
        equal += [(places[0], place) for place in places[1:]]
        mirrored = frozenset((column, -value) for column, value in left_over)
        others = groups.get(mirrored)
        if others is not None and places[0] < others[0]:
            opposite.append((places[0], others[0]))
    return tuple(sorted(equal)), tuple(sorted(opposite))
