"""Secure sums as systems of linear equations, solved by elimination: the oracle of coalitions.

Nothing here knows of graphs and components: every contribution that is seen is one equation in the
values, the masks and the shares that are not known.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from protocol.audit.coalition.masks import Seen, SumRecord

Row = list[Fraction]
Set = frozenset[int]


@dataclass(frozen=True)
class World:
    """What has happened in one sum, and what a coalition sees of it; parties are numbers."""

    parties: int
    literal: bool
    threshold: int
    hoods: tuple[tuple[int, ...], ...]
    dealers: Mapping[int, Set]
    survivors: Mapping[int, Set]
    uploaded: Set
    counted: Set
    deals_seen: Set
    dealt_seen: Set
    uploads_seen: Set
    unmasked_seen: Set
    total_seen: bool
    recounted: tuple[Set, ...] = ()
    opened: Set = frozenset()

    def record(self) -> SumRecord:
        """The same as it is read from a transcript."""
        width = max(1, *map(len, self.hoods))
        record = SumRecord(self.parties, width, profile="literal" if self.literal else "sparse")
        for i, hood in enumerate(self.hoods):
            record.hoods[i, : len(hood)] = hood
            record.joined[i, : len(hood)] = True
            record.dealt[i, : len(hood)] = [j in self.dealers[i] for j in hood]
            record.survivors[i, : len(hood)] = [j in self.survivors[i] for j in hood]
        for name, members in (
            ("contributed", self.uploaded),
            ("opened", self.opened),
        ):
            getattr(record, name)[sorted(members)] = True
        everybody = np.arange(self.parties)
        record.counted = np.isin(everybody, sorted(self.counted))
        record.recounted = [np.isin(everybody, sorted(other)) for other in self.recounted]
        return record

    def seen(self) -> Seen:
        """What the coalition sees of it."""
        everybody = np.arange(self.parties)
        names = (self.deals_seen, self.dealt_seen, self.uploads_seen, self.unmasked_seen)
        deals, dealt, uploads, unmasked = (np.isin(everybody, sorted(of)) for of in names)
        return Seen(deals, dealt, uploads, unmasked, 1 if self.total_seen else None)

    def equations(self, members: Set, insiders: Set, *, unmasks: bool) -> list[dict[Hashable, int]]:
        """What is seen, as the factors of what is not known; ``("x", i)`` are the values."""
        if self.literal:
            own, keys = set(range(self.parties)), set(insiders)
        else:
            own, keys = self._opened(insiders, unmasks=unmasks)
        rows: list[dict[Hashable, int]] = []
        for i in self.uploads_seen - members:
            row: dict[Hashable, int] = {("x", i): 1}
            if i not in own:
                row["own", i] = 1
            for j in self.dealers[i]:
                if i in keys or j in keys:
                    continue
                if self.literal:
                    row["share", j, i] = 1
                    row["share", i, j] = -1
                else:
                    row["mask", min(i, j), max(i, j)] = 1 if i < j else -1
            rows.append(row)
        if self.total_seen:
            for counted in (self.counted, *self.recounted):
                rows.append({("x", i): 1 for i in counted & self.uploaded - members})
        return rows

    def _opened(self, insiders: Set, *, unmasks: bool) -> tuple[set[int], set[int]]:
        """Whose own mask, and whose masks with others, follow from shares."""
        totals = [counted & self.uploaded for counted in (self.counted, *self.recounted)]
        own = set(insiders | (self.opened & frozenset.union(*totals)))
        keys = set(insiders | (self.opened - frozenset.intersection(*totals)))
        for i in range(self.parties):
            of_own, of_key = set(), set()
            for j in self.hoods[i]:
                handed = j in self.dealt_seen and i in self.dealers[j]
                if j in insiders and (i in self.deals_seen or handed):
                    of_own.add(j)
                    of_key.add(j)
                if unmasks and j in self.unmasked_seen and i in self.dealers[j]:
                    (of_own if i in self.survivors[j] else of_key).add(j)
            if len(of_own) >= self.threshold:
                own.add(i)
            if len(of_key) >= self.threshold:
                keys.add(i)
        return own, keys


def reduced(rows: Sequence[Row]) -> list[Row]:
    """The reduced row echelon form, without rows of zeros."""
    left = [list(row) for row in rows]
    done: list[Row] = []
    for column in range(len(left[0]) if left else 0):
        pivot = next((row for row in left if row[column]), None)
        if pivot is None:
            continue
        left.remove(pivot)
        pivot = [value / pivot[column] for value in pivot]
        for rest in (left, done):
            rest[:] = [
                [a - row[column] * b for a, b in zip(row, pivot, strict=True)] for row in rest
            ]
        done.append(pivot)
    return done


def determined(systems: Sequence[Sequence[Mapping[Hashable, int]]], parties: int) -> list[Row]:
    """A basis of the combinations of values that follow from all equations together.

    Only the values are the same in all systems.
    """
    rows = [
        {(key if key[0] == "x" else (place, *key)): value for key, value in row.items()}
        for place, system in enumerate(systems)
        for row in system
    ]
    others = sorted({key for row in rows for key in row if key[0] != "x"}, key=repr)
    values = [("x", i) for i in range(parties)]
    matrix = [[Fraction(row.get(key, 0)) for key in (*others, *values)] for row in rows]
    return [row[len(others) :] for row in reduced(matrix) if not any(row[: len(others)])]


def follows(basis: Sequence[Row], wanted: Sequence[int]) -> bool:
    """Whether a combination follows from a basis in reduced row echelon form."""
    left = [Fraction(value) for value in wanted]
    for row in basis:
        pivot = next(i for i, value in enumerate(row) if value)
        times = left[pivot]
        if times:
            left = [a - times * b for a, b in zip(left, row, strict=True)]
    return not any(left)


def indicator(places: Sequence[int], parties: int) -> Row:
    return [Fraction(i in places) for i in range(parties)]


def subsets(of: Set) -> st.SearchStrategy[Set]:
    """Mostly all of them, or nearly."""
    some = st.frozensets(st.sampled_from(sorted(of))) if of else st.just(frozenset())
    return st.one_of(st.just(frozenset(of)), some, some.map(lambda s: frozenset(of - s)))


@st.composite
def worlds(draw: st.DrawFn, parties: int) -> World:
    """Any sum, even one that no party would have gone through with."""
    everybody = frozenset(range(parties))
    literal = draw(st.booleans())
    pairs = [(i, j) for i in everybody for j in everybody if i < j]
    linked = set(pairs) if literal else draw(subsets(frozenset(pairs)))
    beside = {i: {j for j in everybody if (min(i, j), max(i, j)) in linked} for i in everybody}
    hoods = tuple(tuple(draw(st.permutations(sorted(beside[i])))) for i in range(parties))
    dealt = everybody if literal else draw(subsets(everybody))
    dealers = {
        i: frozenset(beside[i]) if literal else draw(subsets(frozenset(beside[i]) & dealt))
        for i in everybody
    }
    uploaded = draw(subsets(everybody))
    unmasked = draw(subsets(uploaded))
    seen = {
        name: draw(subsets(of))
        for name, of in (
            ("deals_seen", dealt),
            ("dealt_seen", everybody),
            ("uploads_seen", uploaded),
            ("unmasked_seen", unmasked),
        )
    }
    return World(
        parties=parties,
        literal=literal,
        threshold=draw(st.integers(1, parties)),
        hoods=hoods,
        dealers=dealers,
        survivors={i: draw(st.one_of(st.just(uploaded), subsets(everybody))) for i in everybody},
        uploaded=uploaded,
        counted=draw(st.one_of(subsets(uploaded), subsets(everybody))),
        recounted=tuple(draw(st.lists(subsets(everybody), max_size=1))),
        total_seen=draw(st.booleans()),
        opened=draw(st.one_of(st.just(frozenset()), subsets(dealt))),
        **seen,
    )
