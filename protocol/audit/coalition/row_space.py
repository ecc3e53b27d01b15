"""Exact linear algebra on sums over parties: the smaller sums that follow from some.

Parties with equal coefficients in all rows stay together in every combination. So the algebra is
over classes of such parties (partition refinement), with rational numbers and sparse rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from protocol.audit.coalition.elimination import Coefficient, Places, added, ratio, reduced

_Row = dict[int, Coefficient]

SEARCHED = 12
"""Maximum number of connected sums of which all combinations are searched for small sets."""


class RowSpace(NamedTuple):
    """Span of some rows.

    Args:
        determined: disjoint classes of parties with a sum that follows, in the order of their first
            member. A class of one is a single party, and no other single party is determined.
        mixed: sets with a sum that follows, each once, that are not a union of determined classes.
            A smaller set than all these, if one was found, comes last.
        weighted: the other rows, each once, unless they name determined classes alone; the first
            party has the coefficient 1. Together with the determined classes and the mixed sets
            they span all that follows.
        searched: whether no set is smaller than the smallest set here, or a pair below.
        equal: pairs of parties with a difference that follows, but neither value: in every group of
            parties known relative to each other, each with the first.
        opposite: pairs with a sum that follows, but neither value: the first of one group with the
            first of another.
    """

    determined: tuple[Places, ...]
    mixed: tuple[Places, ...]
    weighted: tuple[Mapping[int, Coefficient], ...]
    searched: bool
    equal: tuple[tuple[int, int], ...]
    opposite: tuple[tuple[int, int], ...]


class _Sum(NamedTuple):
    """A row by ascending places, with the numbers of their coefficients among the distinct ones."""

    places: Places
    numbers: Places
    coefficients: tuple[Coefficient, ...]

    def over(self, names: Places) -> Iterator[tuple[int, Coefficient]]:
        """The coefficients under the given names of places, (places,)."""
        values = map(self.coefficients.__getitem__, self.numbers.tolist())
        return zip(names.tolist(), values, strict=True)


def row_space(rows: Sequence[Places | Mapping[int, Coefficient]], parties: int) -> RowSpace:
    """Span of these rows.

    Args:
        rows: the coefficients by place, of places below ``parties``; or the places in a set, which
            stands for the sum over it.

    Raises:
        ValueError: a place is out of range.
    """
    sums = [one for one in map(_ordered_sum, rows) if len(one.places)]
    if any(one.places[0] < 0 or one.places[-1] >= parties for one in sums):
        raise ValueError(f"place out of range: expected 0 to {parties - 1}")
    labels = _refined(sums, parties)
    classes = [dict(one.over(labels[one.places])) for one in sums]
    basis = reduced(classes)
    known = {pivot for pivot, row in basis.items() if len(row) == 1}
    order = np.argsort(labels, kind="stable")
    bounds = np.searchsorted(labels[order], np.arange(labels.max(initial=0) + 2))
    members = np.split(order, bounds)[1:-1]
    determined = sorted((members[label] for label in known), key=lambda places: int(places[0]))
    mixed: dict[bytes, Places] = {}
    weighted: dict[tuple[tuple[int, Coefficient], ...], None] = {}
    for one, row in zip(sums, classes, strict=True):
        if known.issuperset(row):
            continue
        if len(one.coefficients) == 1:
            mixed.setdefault(one.places.tobytes(), one.places)
        else:
            weighted[tuple(one.over(one.places))] = None
    equal, opposite = _related(basis, members, {label for row in classes for label in row})
    smallest = min(map(len, (*determined, *mixed.values())), default=parties + 1)
    searched = True
    for block in _blocks({p: row for p, row in basis.items() if p not in known}):
        if len(block) > SEARCHED:
            searched = False
            continue
        found = _smallest(block, members)
        size = sum(len(members[label]) for label in found)
        if found and size < smallest:
            smallest = size
            places = np.sort(np.concatenate([members[label] for label in found]))
            mixed.pop(b"", None)
            mixed[b""] = places
    return RowSpace(
        tuple(determined),
        tuple(mixed.values()),
        tuple(map(dict, weighted)),
        searched,
        equal,
        opposite,
    )


def _ordered_sum(row: Places | Mapping[int, Coefficient]) -> _Sum:
    """A row in order, scaled to a first coefficient of 1."""
    if not isinstance(row, Mapping):
        places = np.unique(row)
        return _Sum(places, np.zeros_like(places), (1,))
    there = sorted(place for place, value in row.items() if value)
    values = [row[place] for place in there]
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    codes = np.array([numbers[value] for value in values], np.int64)
    return _Sum(np.array(there, np.int64), codes, tuple(ratio(v, values[0]) for v in numbers))


def _refined(sums: Sequence[_Sum], parties: int) -> Places:
    """Label of every place; places with equal coefficients share one, and 0 marks unused places."""
    # With one more place at the front that is in no row.
    labels = np.zeros(parties + 1, np.int64)
    for places, numbers, coefficients in sums:
        known = labels[places + 1] * len(coefficients) + numbers
        _, inverse = np.unique(known, return_inverse=True)
        labels[places + 1] = labels.max() + 1 + inverse
    # The labels that are still in use, in the order of their first place.
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    ranks = np.argsort(np.argsort(first))
    return ranks[inverse][1:]


def _blocks(basis: dict[int, _Row]) -> list[list[_Row]]:
    """Groups of rows that are connected by common columns."""
    blocks: list[tuple[set[int], list[_Row]]] = []
    for row in basis.values():
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

    Every pivot is in one row alone, so each choice of pivots determines one combination.
    """
    best: list[int] = []
    fewest = sum(map(len, members)) + 1
    for choice in range(1, 1 << len(rows)):
        combined: _Row = {}
        for place, row in enumerate(rows):
            if choice >> place & 1:
                added(combined, row)
        if all(value == 1 for value in combined.values()):
            size = sum(len(members[label]) for label in combined)
            if size < fewest:
                best, fewest = list(combined), size
    return best


def _related(
    basis: dict[int, _Row], members: Sequence[Places], named: set[int]
) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    """Pairs of single parties with equal or opposite values, up to known sums."""
    groups: dict[frozenset[tuple[int, Coefficient]], list[int]] = {}
    for label in sorted(named):
        if len(members[label]) != 1:
            continue
        row = basis.get(label)
        # The rest of the party once all known sums are subtracted.
        left: _Row = {label: 1} if row is None else {c: -v for c, v in row.items()}
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
