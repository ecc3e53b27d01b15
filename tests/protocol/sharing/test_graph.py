"""The graph of a secure sum and its degree: against exact fractions and searches of everything."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol import Stream
from protocol.sharing.graph import (
    Bound,
    Degree,
    draw_order,
    mirror,
    neighbourhoods,
    neighbours_at,
    smallest_degree,
    withstood,
)

COIN = bytes(range(32))
DEFAULT = Bound()
EASY = Bound(corrupt=0.1, dropped=0.15, security=6, correctness=4)
HARD = Bound(corrupt=0.25, dropped=0.2, security=10, correctness=8)
FEW_GONE = Bound(corrupt=0.2, dropped=0.02, security=40, correctness=4)


@cache
def tail(population: int, marked: int, drawn: int, least: int) -> Fraction:
    """P[Hypergeometric(population, marked, drawn) >= least]."""
    ways = sum(
        math.comb(marked, x) * math.comb(population - marked, drawn - x)
        for x in range(max(least, 0), min(marked, drawn) + 1)
    )
    return Fraction(ways, math.comb(population, drawn))


@cache
def two_runs(n: int, corrupt: int, h: int, least: int) -> Fraction:
    """A bound on P[two disjoint runs of h places with so many corrupt], by counting orders.

    Those in which an honest place comes before a run that has exactly ``least``, the last of them
    at its end; times those in which the next run has as many, or another one is such a first one.
    """
    if least > min(corrupt, h):
        return Fraction(0)
    rest, left = n - h - 1, corrupt - least
    ways = math.comb(h - 1, least - 1)
    first = ways * Fraction(
        math.perm(corrupt, least) * math.perm(n - corrupt, h + 1 - least), math.perm(n, h + 1)
    )
    another = ways * Fraction(
        math.perm(left, least) * math.perm(rest - left, h - least), math.perm(rest, h)
    )
    return n * first * (tail(rest, left, h, least) + Fraction(n, 2) * another)


def column_bounds(n: int, k: int, t: int, bound: Bound) -> tuple[Fraction, Fraction, Fraction]:
    """The bounds on failure, on both secrets of somebody, and on a cut, as fractions."""
    corrupt, dropped = bound.corrupt_count(n), bound.dropped_count(n)
    return (
        n * tail(n - 1, dropped, k, k - t + 1),
        n * tail(n - 1, corrupt, k, 2 * t - k),
        two_runs(n, corrupt, k // 2, t - k // 2),
    )


def name_bits(found: Fraction) -> float:
    """``-log2``, of fractions that no float holds too."""
    if not found:
        return math.inf
    top, bottom = found.numerator.bit_length(), found.denominator.bit_length()
    ratio = Fraction(found.numerator, 2**top) / Fraction(found.denominator, 2**bottom)
    return bottom - top - math.log2(ratio)


def margin(n: int, k: int, t: int, bound: Bound) -> float | None:
    """How many bits better than asked, or None if a bound does not hold."""
    failure, both, cut = column_bounds(n, k, t, bound)
    asked = ((failure, bound.correctness), (both, bound.security), (cut, bound.security))
    least = min(name_bits(found) - bits for found, bits in asked)
    return least if least >= 0 else None


def searched(n: int, bound: Bound, *, first: int) -> tuple[int, int] | None:
    """The smallest even k from the first on, and its t; None if there is none."""
    for k in range(first, min(255, (n - 3) // 2) + 1, 2):
        found = {
            t: bits
            for t in range(k // 2 + 1, k + 1)
            if (bits := margin(n, k, t, bound)) is not None
        }
        if found:
            return k, max(found, key=lambda t: (found[t], -t))
    return None


@pytest.mark.parametrize("bound", [EASY, HARD, FEW_GONE], ids=["easy", "hard", "few gone"])
@pytest.mark.parametrize("n", [256, 257, 300])
def test_no_smaller_degree_will_do(n: int, bound: Bound) -> None:
    degree = smallest_degree(n, bound)
    assert (degree.neighbours, degree.threshold) == searched(
        n, bound, first=max(2, degree.neighbours - 6)
    )


@pytest.mark.parametrize(
    ("n", "k", "t"),
    [
        (256, 98, 75),
        (1000, 168, 128),
        (2000, 196, 149),
        (32_561, 252, 191),
        (1_000_000, 240, 178),
    ],
)
def test_degrees_under_the_default_bound(n: int, k: int, t: int) -> None:
    degree = smallest_degree(n, DEFAULT)
    assert (degree.neighbours, degree.threshold) == (k, t)
    failure, *secrecy = column_bounds(n, k, t, DEFAULT)
    assert failure <= Fraction(1, 2**DEFAULT.correctness)
    assert max(secrecy) <= Fraction(1, 2**DEFAULT.security)


@pytest.mark.parametrize(
    ("n", "bound"),
    [
        (700, EASY),
        (400, HARD),
        (1_000_000, Bound(corrupt=0.1)),
        (1500, Bound(corrupt=0.05, dropped=0.02, security=300, correctness=200)),
    ],
)
def test_bounds_are_exact_in_tiny_tails(n: int, bound: Bound) -> None:
    degree = smallest_degree(n, bound)
    failure, *secrecy = column_bounds(n, degree.neighbours, degree.threshold, bound)
    assert failure <= Fraction(1, 2**bound.correctness)
    assert max(secrecy) <= Fraction(1, 2**bound.security)
    fewer = degree.neighbours - 2
    thresholds = range(fewer // 2 + 1, fewer + 1)
    assert all(margin(n, fewer, t, bound) is None for t in thresholds)


@pytest.mark.parametrize("n", [3, 9, 10, 24, 25, 100, 255])
def test_up_to_255_parties_are_all_neighbours(n: int) -> None:
    assert smallest_degree(n, DEFAULT) == Degree(neighbours=n - 1, threshold=n - 1 - n // 10)
    found = withstood(n, smallest_degree(n, DEFAULT), DEFAULT)
    assert found.colluders == found.adaptive == min(n - 1 - 2 * (n // 10), n - 2)
    assert found.colluders >= n // 3
    assert (found.missing, found.honest) == (n // 10, max(2, n // 10 + 1))


def test_more_than_255_parties_withstand_a_quarter_drawn_before_and_fewer_of_any() -> None:
    found = withstood(1000, smallest_degree(1000, DEFAULT), DEFAULT)
    assert (found.colluders, found.adaptive, found.honest, found.missing) == (250, 87, 42, 100)


@pytest.mark.parametrize(
    ("n", "bound"),
    [
        (2, DEFAULT),
        (2, Bound(dropped=0.5)),
        (3, Bound(dropped=0.4)),
        (10, Bound(corrupt=0.5, dropped=0.3)),
        (100, Bound(corrupt=0.4, dropped=0.31)),
        (255, Bound(corrupt=0.81)),
        (100, Bound(corrupt=0, dropped=0.6)),
    ],
)
def test_more_than_a_complete_graph_withstands_is_refused(n: int, bound: Bound) -> None:
    with pytest.raises(ValueError, match=rf"{n} parties .* expected at least \d+; allow for fewer"):
        smallest_degree(n, bound)


@pytest.mark.parametrize(
    ("n", "bound"),
    [(40_000, Bound(corrupt=0.25)), (300, Bound(corrupt=0.4)), (1000, Bound(dropped=0.5))],
)
def test_more_than_255_neighbours_withstand_is_refused(n: int, bound: Bound) -> None:
    with pytest.raises(ValueError, match="more than 255 neighbours each; allow for fewer"):
        smallest_degree(n, bound)
    if n <= 300:
        assert searched(n, bound, first=144) is None


def test_a_sum_of_one_is_refused() -> None:
    for parties in (1, 0):
        with pytest.raises(ValueError, match="a sum over one party shows its values"):
            smallest_degree(parties, DEFAULT)


def closed_sets(n: int, k: int, t: int, corrupt: Sequence[int]) -> NDArray[np.int8]:
    """Every pair of disjoint sets of honest places that hold together by t neighbours.

    Each member has at least t neighbours that are corrupt or in its set.

    Returns:
        (n, found): 0 where a place is corrupt, 1 and 2 in the sets, 3 in neither.
    """
    honest = [place for place in range(n) if place not in corrupt]
    codes = np.arange(3 ** len(honest))
    states = np.zeros((n, len(codes)), np.int8)
    for place in honest:
        states[place], codes = codes % 3 + 1, codes // 3
    kept = (states == 1).any(axis=0) & (states == 2).any(axis=0)
    for which in (1, 2):
        near = ((states == which) | (states == 0)).astype(np.int8)
        beside = sum(np.roll(near, d, axis=0) for i in range(1, k // 2 + 1) for d in (i, -i))
        kept &= ~((states == which) & (beside < t)).any(axis=0)
    return states[:, kept]


def crowded_runs(n: int, k: int, t: int, corrupt: Sequence[int]) -> bool:
    """Whether two disjoint runs of k/2 places have t - k/2 corrupt ones each."""
    h = k // 2
    counts = [sum((first + i) % n in corrupt for i in range(h)) for first in range(n)]
    bad = [first for first in range(n) if counts[first] >= t - h]
    return any(h <= (b - a) % n <= n - h for a in bad for b in bad)


@pytest.mark.slow
def test_two_sums_are_learned_only_across_two_runs_of_corrupt_places() -> None:
    """Every set of corrupt places around a circle of 11, and every pair of sets of the others."""
    n, k = 11, 4
    split = 0
    for t in (3, 4):
        for size in range(2, 9):
            for chosen in combinations(range(1, n), size - 1):
                corrupt = (0, *chosen)
                found = closed_sets(n, k, t, corrupt).shape[1]
                split += found > 0
                assert not found or crowded_runs(n, k, t, corrupt)
    assert split > 0


# Most sets have such runs, of which there is nothing to show.
@settings(deadline=None, max_examples=120)
@given(st.data())
def test_two_sums_of_wider_neighbourhoods_too(data: st.DataObject) -> None:
    n, k = 15, 6
    t = data.draw(st.integers(4, 6))
    corrupt = data.draw(st.lists(st.integers(0, n - 1), min_size=6, max_size=10, unique=True))
    assert crowded_runs(n, k, t, corrupt) or closed_sets(n, k, t, corrupt).shape[1] == 0


def test_two_disjoint_runs_are_no_likelier_than_their_bound() -> None:
    n, h = 14, 3
    for corrupt, least in ((3, 1), (4, 2), (5, 2), (6, 3)):
        drawn = list(combinations(range(n), corrupt))
        having = sum(crowded_runs(n, 2 * h, h + least, chosen) for chosen in drawn)
        assert 0 < Fraction(having, len(drawn)) <= two_runs(n, corrupt, h, least)


@pytest.mark.parametrize("given_shares", [(-0.1, 0.1), (0.1, -0.1), (0.5, 0.5), (math.nan, 0.1)])
def test_shares_out_of_range_are_refused(given_shares: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="together below 1"):
        Bound(corrupt=given_shares[0], dropped=given_shares[1])


@pytest.mark.parametrize("bits", [1, 0, -3, 1001])
def test_bits_out_of_range_are_refused(bits: int) -> None:
    with pytest.raises(ValueError, match=r"security .* bits"):
        Bound(security=bits)
    with pytest.raises(ValueError, match=r"correctness .* bits"):
        Bound(correctness=bits)


def test_shares_of_the_parties_are_taken_as_they_are_written() -> None:
    assert math.floor(0.29 * 100) == 28
    bound = Bound(corrupt=0.29, dropped=0.1)
    assert (bound.corrupt_count(100), bound.corrupt_count(99)) == (29, 28)
    assert (bound.dropped_count(30), bound.dropped_count(29)) == (3, 2)
    assert Bound(corrupt=1e-05, dropped=0).corrupt_count(100_000) == 1


degrees = st.integers(2, 60).flatmap(
    lambda n: st.tuples(st.just(n), st.sampled_from([*range(2, n - 1, 2), n - 1]))
)


def reached_from(start: int, rows: NDArray[np.int64], members: set[int]) -> set[int]:
    """Who is connected with a member by members."""
    reached, left = {start}, [start]
    while left:
        new = (set(rows[left.pop()].tolist()) & members) - reached
        reached |= new
        left.extend(new)
    return reached


@settings(deadline=None, max_examples=100)
@given(degrees, st.integers(0, 255))
def test_neighbours_are_mutual_and_all_are_connected(shape: tuple[int, int], coin: int) -> None:
    n, k = shape
    order = draw_order(bytes([coin] * 32), n)
    rows = neighbourhoods(order, k)
    assert rows.shape == (n, k)
    assert rows.dtype == np.int64
    places = np.arange(n)[:, None]
    columns = np.arange(k)
    np.testing.assert_array_equal(rows[rows, mirror(columns, k)], np.broadcast_to(places, (n, k)))
    assert np.all(rows != places)
    assert all(len(set(row)) == k for row in rows.tolist())
    assert len(reached_from(0, rows, set(range(n)))) == n
    for place in {0, n // 2, n - 1}:
        assert neighbours_at(place, n, k, order).tolist() == rows[place].tolist()


def test_neighbours_are_the_nearest_in_the_order() -> None:
    order = np.array([3, 0, 4, 1, 6, 5, 2])
    assert neighbours_at(4, 7, 4, order).tolist() == [1, 6, 3, 0]
    assert neighbours_at(3, 7, 4, order).tolist() == [0, 4, 5, 2]
    assert neighbours_at(3, 7, 6, order).tolist() == [0, 4, 1, 6, 5, 2]
    assert [mirror(column, 4) for column in range(4)] == [3, 2, 1, 0]
    assert neighbours_at(0, 4, 3, np.array([2, 0, 1, 3])).tolist() == [1, 3, 2]


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(st.sampled_from([2, 4, 6]), st.sets(st.integers(0, 19), max_size=17))
def test_only_two_runs_of_gone_members_cut_the_graph(k: int, gone: set[int]) -> None:
    n = 20
    order = draw_order(COIN, n)
    stay = [rank for rank in range(n) if rank not in gone]
    pairs = zip(stay, stay[1:] + stay[:1], strict=True)
    gaps = [(after - before - 1) % n for before, after in pairs]
    cut = sum(gap >= k // 2 for gap in gaps) >= 2
    members = {int(order[rank]) for rank in stay}
    reached = reached_from(next(iter(members)), neighbourhoods(order, k), members)
    assert (reached != members) == cut


@pytest.mark.parametrize(("n", "k"), [(10, 0), (10, 3), (10, 10), (9, 7), (2, 2)])
def test_degrees_that_no_graph_has_are_refused(n: int, k: int) -> None:
    order = np.arange(n)
    with pytest.raises(ValueError, match="an even number, or all"):
        neighbourhoods(order, k)
    with pytest.raises(ValueError, match="an even number, or all"):
        neighbours_at(0, n, k, order)


def test_places_that_are_not_there_are_refused() -> None:
    order = np.arange(10)
    for place in (-1, 10):
        with pytest.raises(ValueError, match="expected 0 to 9"):
            neighbours_at(place, 10, 4, order)
    with pytest.raises(ValueError, match="order of shape"):
        neighbours_at(0, 11, 4, order)


def test_the_order_is_the_permutation_of_the_coin() -> None:
    order = draw_order(COIN, 1000)
    assert order.tolist() == Stream(COIN).permutation(1000).tolist()
    assert draw_order(COIN, 1000) is order
    assert not order.flags.writeable
    assert draw_order(bytes(32), 1000).tolist() != order.tolist()
    with pytest.raises(ValueError, match="32 bytes"):
        draw_order(bytes(16), 10)
