"""Search for the parties that, with the aggregator, do the most damage to a secure sum.

Damage is the size of the smallest set of honest parties with an exact sum that follows; for equal
sizes, the number of exposed parties. The first search that applies is taken:

- every coalition is tried, if there are few;
- a party is exposed by t neighbours that hold its shares, or by all that it has masks with, or as
  the last of a set with a sum that follows anyway;
- fewer cannot open any key, so only cutting the graph is left. Nothing cuts a complete graph. In a
  Harary graph, in which each party has masks with the nearest h on either side of a circle, the
  remaining parties stay connected unless two runs of h places are gone. The pair of runs that
  encloses the fewest is taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from protocol.audit.coalition.elimination import Flags, Places
from protocol.audit.coalition.masks import (
    NOBODY,
    Eyes,
    Known,
    SumRecord,
    coalition_knowledge,
    place_flags,
)
from protocol.audit.coalition.row_space import RowSpace, row_space
from protocol.sharing.graph import neighbourhoods

TRIED = 50_000
"""Maximum number of coalitions, times parties, for trying them all."""


class Choice(NamedTuple):
    """Chosen parties.

    Args:
        places: their places among the parties of the roster.
        exact: whether no other choice reveals a smaller set.
        words: the search that found them.
    """

    places: tuple[int, ...]
    exact: bool
    words: str


def _damage_size(space: RowSpace) -> tuple[float, int]:
    """Size of the smallest set, and the number of exposed parties, negated: less is worse."""
    sizes = [len(places) for places in (*space.determined, *space.mixed)]
    if space.opposite:
        sizes.append(2)
    return min(sizes, default=math.inf), -sum(len(places) == 1 for places in space.determined)


class _Search:
    """Task that all searches share.

    Args:
        records: the records as the aggregator sees them.
        threshold: the number of shares that give a secret.
        parties: the number of parties of the roster.
        size: the number of parties to choose.
    """

    def __init__(
        self, records: Sequence[SumRecord], *, threshold: int, parties: int, size: int
    ) -> None:
        self.records = [record for record in records if record.contributed.any()]
        self.threshold = threshold
        self.parties = parties
        self.size = size
        active = np.zeros(parties, np.bool_)
        for record in self.records:
            active |= record.contributed | record.dealt.any(axis=1)
        self.active = np.flatnonzero(active)
        self.nobody = np.zeros(parties, np.bool_)

    def known(self, record: SumRecord, chosen: Flags) -> Known:
        eyes = Eyes.of_aggregator(chosen)
        return coalition_knowledge(record, record.seen(eyes), eyes, self.threshold)

    def space(self, places: Sequence[int]) -> RowSpace:
        chosen = place_flags(places, self.parties)
        sets = [s for record in self.records for s in self.known(record, chosen).sets]
        return row_space(sets, self.parties)

    def filled(self, places: Sequence[int]) -> tuple[int, ...]:
        """Fill up the choice to the size asked for, in roster order."""
        chosen = dict.fromkeys(places)
        spared = {int(p[0]) for p in self.space(places).determined if len(p) == 1}
        everybody = range(self.parties)
        active = self.active.tolist()
        for place in (*(p for p in active if p not in spared), *everybody):
            if len(chosen) == self.size:
                break
            chosen.setdefault(place)
        return tuple(sorted(chosen))


def search(records: Sequence[SumRecord], *, threshold: int, parties: int, size: int) -> Choice:
    """The most damaging ``size`` parties that are found.

    Args:
        records: the record of every sum, as the aggregator sees it.
        threshold: the number of shares that give a secret.
        parties: the number of parties of the roster.
    """
    task = _Search(records, threshold=threshold, parties=parties, size=size)
    if not task.records:
        words = "nobody contributed to a secure sum: it does not matter who is with the aggregator"
        return Choice(tuple(range(size)), True, words)
    tried = math.comb(len(task.active), min(size, len(task.active)))
    if tried * task.parties <= TRIED:
        return _try_all(task, tried)
    exposing = _exposing(task)
    if exposing is not None:
        return exposing
    if len(task.records) == 1:
        cut = _cutting(task)
        if cut is not None:
            return cut
    return _shrinking(task)


def _try_all(task: _Search, tried: int) -> Choice:
    size = min(task.size, len(task.active))
    best = min(
        combinations(task.active.tolist(), size),
        key=lambda places: (*_damage_size(task.space(places)), places),
    )
    words = f"all {tried:,} coalitions of {size} of the {len(task.active)} parties were tried"
    return Choice(task.filled(best), True, words)


def _exposing(task: _Search) -> Choice | None:
    """Choose to expose a party, and as many more as the rest of the choice allows."""
    words = ""
    chosen: list[int] = []
    sieges = [_Siege(record, task) for record in task.records]
    while True:
        ways = [way for siege in sieges if (way := siege.cheapest(task.size - len(chosen)))]
        if not ways:
            break
        places, how = min(ways, key=lambda way: len(way[0]))
        words = words or f"a party is exposed by {how.format(len(places))}"
        chosen += places
        for siege in sieges:
            siege.take(places)
    if not chosen:
        space = task.space(())
        smallest = min((*space.determined, *space.mixed), key=len, default=np.arange(0))
        if len(smallest) == 1:
            words = "somebody is exposed to the aggregator alone"
        elif 1 < len(smallest) <= task.size + 1:
            chosen = smallest[1:].tolist()
            words = f"the sum over {len(smallest)} parties follows anyway: all of them but one"
    # This search is void unless the intended party is exposed.
    if not any(len(p) == 1 for p in task.space(chosen).determined):
        return None
    words += ". None can do worse than expose; how many are exposed was not searched through"
    return Choice(task.filled(chosen), True, words)


class _Siege:
    """Cost of exposing each party of a sum, as parties are chosen."""

    def __init__(self, record: SumRecord, task: _Search) -> None:
        known = task.known(record, task.nobody)
        self._record = record
        self._masks = known.unknown
        self._free = known.seen & ~known.under_own & known.unknown.any(axis=1)
        self._masks_left = known.unknown.sum(axis=1)
        self._holders = np.zeros_like(known.unknown)
        self._missing = np.full(task.parties, task.parties)
        if record.profile == "sparse":
            self._holders = record.theirs(record.dealt) & ~known.key_shares
            self._missing = task.threshold - known.key_shares.sum(axis=1)
        self._holders_left = self._holders.sum(axis=1)
        self._chosen = task.nobody.copy()

    def take(self, places: Sequence[int]) -> None:
        """Add parties to the choice."""
        record = self._record
        for place in places:
            self._chosen[place] = True
            there = record.back[place] >= 0
            hood, back = record.hoods[place][there], record.back[place][there]
            self._masks_left[hood] -= self._masks[hood, back]
            self._missing[hood] -= self._holders[hood, back]
            self._holders_left[hood] -= self._holders[hood, back]

    def cheapest(self, left: int) -> tuple[list[int], str] | None:
        """Smallest choice that exposes one more party, with the way; None if it is too large."""
        never = self._record.parties
        shares = np.where(self._holders_left >= self._missing, self._missing, never)
        ways = (
            (shares, self._holders, "{} neighbours that hold shares of its secrets"),
            (self._masks_left, self._masks, "all {} parties that it has masks with"),
        )
        best: tuple[int, int, Flags, str] | None = None
        for counts, rows, how in ways:
            # At none left a party is exposed already.
            fits = self._free & ~self._chosen & (counts > 0)
            costs = np.where(fits, counts, never)
            place = int(np.argmin(costs))
            if costs[place] <= left and (best is None or costs[place] < best[0]):
                best = int(costs[place]), place, rows[place], how
        if best is None:
            return None
        count, place, flags, how = best
        hood, k = self._record.hoods[place], self._record.neighbours
        columns = np.flatnonzero(flags & ~self._chosen[hood])
        # The nearest on both sides of the circle: with them others are nearly exposed too.
        near = np.minimum(columns, k - 1 - columns)
        return hood[columns[np.argsort(near, kind="stable")][:count]].tolist(), how


def _cutting(task: _Search) -> Choice | None:
    """Choose to cut the graph of a single sum in which nobody can be exposed; None if irregular."""
    (record,) = task.records
    known = task.known(record, task.nobody)
    alive = known.seen
    if not (
        all(np.array_equal(alive, total) for total in record.totals)
        and all(known.is_open(part) for part in known.components)
        and _no_key_opens(task, record, known)
    ):
        return None
    m = int(alive.sum())
    if task.size >= m:
        return None
    if len(known.links) == m * (m - 1) // 2:
        places = tuple(np.flatnonzero(alive)[: task.size].tolist())
        words = (
            f"all {m} parties have masks with each other: whoever conspires, "
            f"the others hang together"
        )
        return Choice(places, True, words)
    order = _circle(record)
    if order is None:
        return None
    h = record.neighbours // 2
    present = alive[order]
    if len(known.links) != _within(np.flatnonzero(present), h, len(order)):
        return None
    best = _two_runs(present, h, task.size)
    if best is None:
        places = tuple(np.flatnonzero(alive)[: task.size].tolist())
        words = (
            f"the parties stand in a circle and have masks with the {h} places on either side; to "
            f"cut it two runs of {h} places have to be gone, and of no two runs are so few still "
            f"there: whoever conspires, the other {m - task.size} hang together"
        )
        return Choice(places, True, words)
    words = (
        f"the parties stand in a circle and have masks with the {h} places on either side; of all "
        f"two runs of {h} places that {task.size} parties fill, those that enclose the fewest"
    )
    return Choice(task.filled(order[best].tolist()), True, words)


def _no_key_opens(task: _Search, record: SumRecord, known: Known) -> bool:
    """Check whether a choice is too small to combine the key to anybody's seeds."""
    if record.profile == "literal":
        return True
    missing = task.threshold - known.key_shares.sum(axis=1)
    return bool((missing[record.deals & ~known.keys] > task.size).all())


def _circle(record: SumRecord) -> Places | None:
    """The order of neighbours on the circle; None if the record has another graph."""
    n, k = record.hoods.shape
    there = record.hoods[:, 0] != NOBODY
    if k % 2 or k >= n - 1 or not there.any():
        return None
    rank = np.full(n, NOBODY, np.int64)
    order = np.full(n, NOBODY, np.int64)
    place = int(np.argmax(there))
    rank[place], order[0] = 0, place
    while True:
        start = int(rank[place])
        ahead = (start + 1 + np.arange(k // 2)) % n
        order[ahead] = record.hoods[place][: k // 2]
        if (order >= 0).all():
            break
        # Go on from the farthest of them with neighbours on record.
        onward = [i for i in range(k // 2 - 1, -1, -1) if there[order[ahead[i]]]]
        if not onward or start + 1 + onward[0] >= n:
            return None
        place = int(order[ahead[onward[0]]])
        rank[place] = start + 1 + onward[0]
    if len(np.unique(order)) != n:
        return None
    regular = neighbourhoods(order, k)
    return order if np.array_equal(regular[there], record.hoods[there]) else None


def _within(places: Places, h: int, n: int) -> int:
    """Number of pairs of places on a circle of n that are at most h apart."""
    after = np.concatenate([places, places + n])
    ahead = np.searchsorted(after, places + h, side="right") - np.arange(len(places)) - 1
    return int(ahead.sum())


def _two_runs(present: Flags, h: int, size: int) -> Places | None:
    """Ranks of two runs of h places that enclose the fewest others.

    Args:
        present: (n,) by rank, the parties still there.
        h: the length of a run.
        size: the number of parties to choose.

    Returns:
        Those in both runs, and as many of the enclosed ones as are left to choose, but one; None if
        no two runs do.
    """
    n = len(present)
    upto = np.concatenate([[0], np.cumsum(np.tile(present, 3))])
    starts = np.arange(2 * n)
    cost = upto[starts + h] - upto[starts]
    # Some party must be left between the first run and the second.
    first_there = np.searchsorted(upto, upto[np.arange(n) + h] + 1)
    best: tuple[int, int, int] | None = None
    for spent in np.unique(cost[:n][cost[:n] <= size]).tolist():
        first = np.flatnonzero(cost[:n] == spent)
        second = np.flatnonzero(cost <= size - spent)
        at = np.searchsorted(second, first_there[first])
        fits = at < len(second)
        first, then = first[fits], second[at[fits]]
        # The second run ends before the first begins again, with some party left between.
        fits = upto[first + n] > upto[then + h]
        first, then = first[fits], then[fits]
        if len(first):
            total = upto[then + h] - upto[first]
            i = int(np.argmin(total))
            if best is None or total[i] < best[0]:
                best = int(total[i]), int(first[i]), int(then[i])
    if best is None:
        return None
    _, first_run, second_run = best
    runs = np.concatenate([np.arange(h) + first_run, np.arange(h) + second_run])
    inside = np.arange(first_run + h, second_run)
    chosen = runs[present[runs % n]] % n
    inside = inside[present[inside % n]] % n
    spare = min(size - len(chosen), len(inside) - 1)
    return np.concatenate([chosen, inside[:spare]])


def _shrinking(task: _Search) -> Choice:
    """Choose as a last resort: join the smallest set with a known sum."""
    space = task.space(())
    sets = [p for p in (*space.determined, *space.mixed) if len(p) > task.size]
    candidates = [tuple(min(sets, key=len)[: task.size].tolist())] if sets else []
    for record in task.records:
        known = task.known(record, task.nobody)
        masks = np.where(known.seen, known.unknown.sum(axis=1), task.parties)
        place = int(np.argmin(masks))
        hood = record.hoods[place][known.unknown[place]]
        candidates.append(tuple(hood[: task.size].tolist()))
    best = min(candidates, key=lambda places: _damage_size(task.space(places)))
    smallest, _ = _damage_size(task.space(best))
    words = (
        f"{len(candidates)} coalitions were tried: of the smallest set whose sum follows, and of "
        "those with whom a party has the fewest masks; there may be worse"
    )
    return Choice(task.filled(best), smallest == 1, words)
