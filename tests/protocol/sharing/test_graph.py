"""The graph of a secure sum and its degree: against exact fractions and searches of everything."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol.crypto.randomness import Stream
from protocol.sharing.graph import (
    Bound,
    Degree,
    degree_of,
    mirror,
    neighbourhoods,
    neighbours_of,
    order_of,
)

COIN = bytes(range(32))
DEFAULT = Bound()
EASY = Bound(corrupt=0.1, dropped=0.15, security=6, correctness=4)
HARD = Bound(corrupt=0.25, dropped=0.3, security=10, correctness=8)
# Where runs decide on k, more than one t is left.
RUNS = Bound(corrupt=0.2, dropped=0.02, security=6, correctness=4)


@cache
def tail(population: int, marked: int, drawn: int, least: int) -> Fraction:
    """P[Hypergeometric(population, marked, drawn) >= least]."""
    ways = sum(
        math.comb(marked, x) * math.comb(population - marked, drawn - x)
        for x in range(max(least, 0), min(marked, drawn) + 1)
    )
    return Fraction(ways, math.comb(population, drawn))


def bounds_of(n: int, k: int, t: int, bound: Bound) -> tuple[Fraction, Fraction, Fraction]:
    """The bounds on failure, insecurity and disconnection, as fractions."""
    corrupt, dropped = bound.corrupt_of(n), bound.dropped_of(n)
    run = Fraction(math.comb(corrupt + dropped, k // 2), math.comb(n, k // 2))
    return (
        n * tail(n - 1, dropped, k, k - t + 1),
        n * tail(n - 1, corrupt, k, 2 * t - k),
        n * run,
    )


def margins(n: int, k: int, t: int, bound: Bound) -> tuple[float, float] | None:
    """How many bits better than asked, or None if a bound does not hold."""
    failure, insecurity, run = bounds_of(n, k, t, bound)
    least = Fraction(1, 2**bound.security)
    if insecurity > least or run > least or failure > Fraction(1, 2**bound.correctness):
        return None
    return tuple(
        -math.log2(found) - bits if found else math.inf
        for found, bits in ((insecurity, bound.security), (failure, bound.correctness))
    )


def searched(n: int, bound: Bound) -> tuple[int, int] | None:
    """The smallest even k below n - 1 and its t, from all of both; None if there is none."""
    for k in range(2, n - 1, 2):
        found = {
            t: min(both)
            for t in range(k // 2 + 1, k + 1)
            if (both := margins(n, k, t, bound)) is not None
        }
        if found:
            return k, max(found, key=lambda t: (found[t], -t))
    return None


@pytest.mark.parametrize("bound", [DEFAULT, EASY, HARD, RUNS])
@pytest.mark.parametrize("n", [*range(25, 50, 3), 53, 99, 100, 150])
def test_no_smaller_degree_will_do(n: int, bound: Bound) -> None:
    degree = degree_of(n, bound)
    best = searched(n, bound)
    if best is None:
        assert degree.neighbours == n - 1
    else:
        assert (degree.neighbours, degree.threshold) == best


@pytest.mark.parametrize(
    ("n", "k", "t"),
    [(99, 26, 16), (100, 28, 17), (1000, 74, 49), (32_561, 100, 66), (1_000_000, 114, 75)],
)
def test_degrees_under_the_default_bound(n: int, k: int, t: int) -> None:
    degree = degree_of(n, DEFAULT)
    assert (degree.neighbours, degree.threshold) == (k, t)


@pytest.mark.parametrize(
    ("n", "bound"),
    [
        (1000, DEFAULT),
        (32_561, DEFAULT),
        (1_000_000, DEFAULT),
        (700, EASY),
        (400, HARD),
        (1500, Bound(corrupt=0.2, dropped=0.02, security=300, correctness=200)),
    ],
)
def test_bounds_are_exact_in_tiny_tails(n: int, bound: Bound) -> None:
    degree = degree_of(n, bound)
    failure, *secrecy = bounds_of(n, degree.neighbours, degree.threshold, bound)
    assert failure <= 2.0**-bound.correctness
    assert max(secrecy) <= 2.0**-bound.security
    fewer = degree.neighbours - 2
    thresholds = range(fewer // 2 + 1, fewer + 1)
    assert all(margins(n, fewer, t, bound) is None for t in thresholds)


@pytest.mark.parametrize("n", range(2, 25))
def test_few_parties_are_all_neighbours(n: int) -> None:
    degree = degree_of(n, DEFAULT)
    k = n - 1
    threshold = (k + n // 20) // 2 + 1
    assert degree == Degree(neighbours=k, threshold=threshold)


@pytest.mark.parametrize(
    ("n", "bound", "k", "t"),
    [
        (10, Bound(corrupt=0.3, dropped=0.2), 9, 7),
        # No 28 of 29 neighbours suffice against 9 corrupt ones, only all of them.
        (30, Bound(corrupt=0.3, dropped=0.3), 29, 20),
        (30, Bound(corrupt=0.5, dropped=0.0), 29, 23),
    ],
)
def test_the_complete_graph_holds_with_certainty(n: int, bound: Bound, k: int, t: int) -> None:
    degree = degree_of(n, bound)
    assert (degree.neighbours, degree.threshold) == (k, t)
    assert 2 * t > k + bound.corrupt_of(n)
    assert t <= k - bound.dropped_of(n)


@pytest.mark.parametrize(
    ("n", "bound"),
    [
        (2, Bound(dropped=0.5)),
        (3, Bound(dropped=0.4)),
        (10, Bound(corrupt=0.5, dropped=0.3)),
        (100, Bound(corrupt=0.4, dropped=0.3)),
        (1_000_000, Bound(corrupt=0.0, dropped=0.5)),
    ],
)
def test_what_no_threshold_withstands_is_refused(n: int, bound: Bound) -> None:
    with pytest.raises(ValueError, match="fewer dropouts or have more parties"):
        degree_of(n, bound)
    if n <= 100:
        assert searched(n, bound) is None


def test_a_sum_of_one_is_refused() -> None:
    for parties in (1, 0):
        with pytest.raises(ValueError, match="a sum over one party shows its values"):
            degree_of(parties, DEFAULT)


shares = st.integers(0, 30).map(lambda percent: percent / 100)


@settings(deadline=None, max_examples=100)
@given(
    st.integers(2, 3000),
    st.tuples(shares, shares, st.integers(2, 60), st.integers(2, 30)),
    st.tuples(shares, shares, st.integers(2, 60), st.integers(2, 30)),
)
def test_more_of_anything_takes_more_neighbours(
    n: int, one: tuple[float, float, int, int], other: tuple[float, float, int, int]
) -> None:
    harder, easier = (
        Bound(
            corrupt=choice(one[0], other[0]),
            dropped=choice(one[1], other[1]),
            security=choice(one[2], other[2]),
            correctness=choice(one[3], other[3]),
        )
        for choice in (max, min)
    )
    assume(harder.corrupt_of(n) + 2 * harder.dropped_of(n) < n - 1)
    more, fewer = degree_of(n, harder), degree_of(n, easier)
    assert more.neighbours >= fewer.neighbours
    for degree in (more, fewer):
        k = degree.neighbours
        assert (k % 2 == 0 and k < n - 1) or k == n - 1
        assert k / 2 < degree.threshold <= k


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 150), st.sampled_from([DEFAULT, EASY, RUNS, Bound(corrupt=0, dropped=0)]))
def test_as_many_corrupt_neighbours_are_tolerated_as_cannot_unmask(n: int, bound: Bound) -> None:
    """With one more, an aggregator that tells parties different things could get both secrets."""
    degree = degree_of(n, bound)
    k, t, c = degree.neighbours, degree.threshold, degree.tolerated
    assert 0 <= c < k
    assert 2 * t > k + c
    assert 2 * t <= k + c + 1
    # More of them are as rare as the bound says; among all, there are never more.
    corrupt = bound.corrupt_of(n)
    if k == n - 1:
        assert c >= corrupt
    else:
        assert n * tail(n - 1, corrupt, k, c + 1) <= Fraction(1, 2**bound.security)


@pytest.mark.parametrize(
    ("n", "tolerated"), [(2, 0), (8, 0), (24, 2), (60, 3), (100, 5), (1000, 23)]
)
def test_tolerated_under_the_default_bound(n: int, tolerated: int) -> None:
    assert degree_of(n, DEFAULT).tolerated == tolerated


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
    assert (bound.corrupt_of(100), bound.corrupt_of(99)) == (29, 28)
    assert (bound.dropped_of(30), bound.dropped_of(29)) == (3, 2)
    assert Bound(corrupt=1e-05, dropped=0).corrupt_of(100_000) == 1


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
    order = order_of(bytes([coin] * 32), n)
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
        assert neighbours_of(place, n, k, order).tolist() == rows[place].tolist()


def test_neighbours_are_the_nearest_in_the_order() -> None:
    order = np.array([3, 0, 4, 1, 6, 5, 2])
    assert neighbours_of(4, 7, 4, order).tolist() == [1, 6, 3, 0]
    assert neighbours_of(3, 7, 4, order).tolist() == [0, 4, 5, 2]
    assert neighbours_of(3, 7, 6, order).tolist() == [0, 4, 1, 6, 5, 2]
    assert [mirror(column, 4) for column in range(4)] == [3, 2, 1, 0]
    assert neighbours_of(0, 4, 3, np.array([2, 0, 1, 3])).tolist() == [1, 3, 2]


@settings(deadline=None, max_examples=200)
@given(st.sampled_from([2, 4, 6]), st.sets(st.integers(0, 19), max_size=17))
def test_only_two_runs_of_gone_members_cut_the_graph(k: int, gone: set[int]) -> None:
    n = 20
    order = order_of(COIN, n)
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
        neighbours_of(0, n, k, order)


def test_places_that_are_not_there_are_refused() -> None:
    order = np.arange(10)
    for place in (-1, 10):
        with pytest.raises(ValueError, match="expected 0 to 9"):
            neighbours_of(place, 10, 4, order)
    with pytest.raises(ValueError, match="order of shape"):
        neighbours_of(0, 11, 4, order)


def test_the_order_is_the_permutation_of_the_coin() -> None:
    order = order_of(COIN, 1000)
    assert order.tolist() == Stream(COIN).permutation(1000).tolist()
    assert order_of(COIN, 1000) is order
    assert not order.flags.writeable
    assert order_of(bytes(32), 1000).tolist() != order.tolist()
    with pytest.raises(ValueError, match="32 bytes"):
        order_of(bytes(16), 10)
