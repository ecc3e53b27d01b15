"""The search for the most damaging coalition: as good as trying all of them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.audit.coalition import search as worst
from protocol.audit.coalition.elimination import Flags
from protocol.audit.coalition.masks import Eyes, Known, SumRecord, coalition_knowledge, place_flags
from protocol.audit.coalition.row_space import row_space
from protocol.audit.coalition.search import search
from protocol.sharing.graph import draw_order, neighbourhoods
from protocol.sharing.messages import Dealt


def finished(n: int, k: int, gone: set[int], *, coin: int = 1) -> SumRecord:
    """A sparse sum without those that are gone after they have dealt, as the aggregator sees it."""
    record = SumRecord(n, k)
    record.hoods[:] = neighbourhoods(draw_order(bytes([coin]) * 32, n), k)
    stays = ~place_flags(gone, n)
    record.joined[:] = record.dealt[:] = True
    record.survivors[:] = stays[record.hoods]
    record.deals[:] = True
    record.told[Dealt] = np.ones(n, np.int64)
    record.contributed[:] = record.unmasked[:] = record.counted = stays
    record.published_at = 1
    return record


def known_by(record: SumRecord, chosen: Flags, threshold: int) -> Known:
    """What these parties know together with the aggregator."""
    eyes = Eyes.of_aggregator(chosen)
    return coalition_knowledge(record, record.seen(eyes), eyes, threshold)


def smallest_of(records: list[SumRecord], places: tuple[int, ...], threshold: int) -> int | None:
    """The smallest set that follows for these parties and the aggregator."""
    n = records[0].parties
    chosen = place_flags(places, n)
    sets = []
    for record in records:
        known = known_by(record, chosen, threshold)
        sets += known.sets
    space = row_space(sets, n)
    return min((len(p) for p in (*space.determined, *space.mixed)), default=None)


def tried(records: list[SumRecord], size: int, threshold: int) -> int | None:
    """The same for the worst of all."""
    everybody = range(records[0].parties)
    found = [smallest_of(records, places, threshold) for places in combinations(everybody, size)]
    return min((size for size in found if size is not None), default=None)


@st.composite
def sums(draw: st.DrawFn) -> tuple[SumRecord, int, int]:
    """A sum, the threshold, and the size of a coalition."""
    k = draw(st.sampled_from([2, 4, 6]))
    n = draw(st.integers(k + 2, 11))
    gone = draw(st.frozensets(st.integers(0, n - 1), max_size=n // 3))
    record = finished(n, k, set(gone))
    # Some were told that neighbours have not dealt.
    rows = st.tuples(st.integers(0, n - 1), st.integers(0, k - 1))
    for place, column in draw(st.one_of(st.just([]), st.lists(rows, max_size=n))):
        record.dealt[place, column] = False
    # The threshold is over half, so that what is revealed opens no secret by itself.
    threshold = draw(st.integers(k // 2 + 1, k))
    return record, threshold, draw(st.integers(0, min(4, n - 1)))


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(sums())
def test_what_the_search_calls_exact_is(case: tuple[SumRecord, int, int]) -> None:
    record, threshold, size = case
    n = record.parties
    best = tried([record], size, threshold)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worst, "TRIED", 0)
        choice = search([record], threshold=threshold, parties=n, size=size)
    assert len(choice.places) == size
    reached = smallest_of([record], choice.places, threshold)
    if choice.exact:
        assert reached == best
    else:
        assert best is None or reached is None or reached >= best
    by_trial = search([record], threshold=threshold, parties=n, size=size)
    assert by_trial.exact
    assert smallest_of([record], by_trial.places, threshold) == best


def components(there: list[int], h: int, n: int) -> list[set[int]]:
    """Those on a circle of n that hang together by steps of at most h."""
    left, found = set(there), []
    while left:
        part, ahead = set[int](), {left.pop()}
        while ahead:
            part |= ahead
            left -= ahead
            ahead = {i for i in left if any((i - j) % n <= h or (j - i) % n <= h for j in ahead)}
        found.append(part)
    return found


@settings(deadline=None, max_examples=80)
@given(
    st.integers(1, 3).flatmap(
        lambda h: st.tuples(st.just(h), st.lists(st.booleans(), min_size=2 * h + 2, max_size=11))
    ),
    st.integers(0, 5),
)
def test_two_runs_are_the_best_cut_of_a_circle(case: tuple[int, list[bool]], size: int) -> None:
    h, present = case
    n = len(present)
    there = [i for i in range(n) if present[i]]
    smallest = []
    for few in range(min(size, len(there)) + 1):
        for gone in combinations(there, few):
            parts = components([i for i in there if i not in gone], h, n)
            if len(parts) > 1:
                smallest.append(min(map(len, parts)))
    chosen = worst._two_runs(np.array(present), h, size)
    if not smallest:
        assert chosen is None
        return
    assert chosen is not None
    assert len(set(chosen.tolist())) == len(chosen) <= size
    assert set(chosen.tolist()) <= set(there)
    parts = components([i for i in there if i not in chosen.tolist()], h, n)
    assert min(map(len, parts)) == min(smallest)
    assert len(parts) > 1


def searched(record: SumRecord, size: int, threshold: int) -> worst.Choice:
    return search([record], threshold=threshold, parties=record.parties, size=size)


def test_a_circle_is_cut_where_it_is_thin() -> None:
    """Whoever is gone counts for a run: one more in each of two runs of five cuts off fourteen."""
    n, k = 400, 10
    order = draw_order(bytes([1]) * 32, n)
    thin = {int(place) for place in (*order[100:104], *order[120:124])}
    record = finished(n, k, thin)
    for size, left in ((1, 391), (2, 14), (3, 13), (4, 12), (5, 11)):
        choice = searched(record, size, 6)
        assert choice.exact
        assert smallest_of([record], choice.places, 6) == left
        assert ("that enclose the fewest" in choice.words) == (size > 1)
        assert ("the other 391 hang together" in choice.words) == (size == 1)


def test_a_run_may_go_over_the_end_of_the_order() -> None:
    n, k = 400, 10
    order = draw_order(bytes([1]) * 32, n)
    thin = {int(place) for place in (*order[-2:], *order[:2], *order[20:24])}
    record = finished(n, k, thin)
    # From 398 to 1 and from 20 to 23 are gone; with 2 and 19 those from 3 to 18 are cut off.
    choice = searched(record, 2, 6)
    assert set(choice.places) == {int(order[2]), int(order[19])}
    assert smallest_of([record], choice.places, 6) == 16


@pytest.mark.parametrize(("size", "exposed"), [(7, 0), (8, 1), (9, 1), (16, 2), (40, 7)])
def test_shares_expose_before_masks_do(size: int, exposed: int) -> None:
    record = finished(400, 10, set())
    choice = searched(record, size, 8)
    assert choice.exact
    chosen = place_flags(choice.places, 400)
    known = known_by(record, chosen, 8)
    alone = [part for part in known.components if len(part) == 1]
    assert len(alone) >= exposed
    assert bool(alone) == bool(exposed)
    assert ("8 neighbours that hold shares" in choice.words) == bool(exposed)


def test_in_a_complete_graph_everybody_is_as_bad() -> None:
    record = finished(40, 39, {3})
    choice = searched(record, 20, 30)
    assert choice.exact
    assert "all 39 parties have masks with each other" in choice.words
    assert smallest_of([record], choice.places, 30) == 19


def test_two_sums_over_nearly_the_same_expose_the_difference() -> None:
    """Two others who left between them are with the aggregator: the third is exposed."""
    first, second = finished(60, 10, set(), coin=1), finished(60, 10, {5, 17, 40}, coin=2)
    choice = search([first, second], threshold=9, parties=60, size=2)
    assert choice.exact
    assert set(choice.places) < {5, 17, 40}
    assert smallest_of([first, second], choice.places, 9) == 1


def test_nobody_contributed() -> None:
    choice = search([], threshold=3, parties=5, size=2)
    assert choice.exact
    assert len(choice.places) == 2


def test_an_irregular_record_is_said_to_be_searched_in_part() -> None:
    record = finished(60, 10, set())
    # Somebody has no mask with the one who stands next.
    record.dealt[7, 0] = record.dealt[record.hoods[7, 0], 9] = False
    choice = searched(record, 3, 9)
    assert not choice.exact
    assert "there may be worse" in choice.words
    assert np.unique(choice.places).size == 3
