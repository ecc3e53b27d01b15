"""Elimination of what hides values: against dense matrices, and for sums hidden in several ways."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.audit.coalition.elimination import Coefficient, eliminated, reduced
from protocol.audit.coalition.row_space import row_space
from tests.protocol import mask_oracle

Row = dict[Hashable, Coefficient]

PARTIES = range(4)


def summed(rows: Iterable[Mapping[Hashable, Coefficient]]) -> Row:
    total: dict[Hashable, Coefficient] = {}
    for row in rows:
        for unknown, value in row.items():
            total[unknown] = total.get(unknown, 0) + value
    return total


def values(*parties: int) -> Row:
    """The sum of what parties hold: their numbers stand for that."""
    return dict.fromkeys(parties, 1)


def known(rows: Sequence[Row]) -> list[list[int]]:
    """The sets whose sum follows, of values under masks: whatever is not a number."""
    masks = {unknown for row in rows for unknown in row if not isinstance(unknown, int)}
    space = row_space(eliminated(rows, masks), len(PARTIES))
    assert not space.weighted
    return [places.tolist() for places in (*space.determined, *space.mixed)]


coefficients = st.one_of(
    st.sampled_from([-1, 1]), st.integers(-3, 3), st.fractions(-2, 2, max_denominator=3)
)


@st.composite
def systems(draw: st.DrawFn) -> list[Row]:
    """Rows over four values and a few masks, most of which are in two rows."""
    rows: list[Row] = [
        {("x", i): draw(coefficients) for i in draw(st.sets(st.sampled_from(PARTIES)))}
        for _ in range(draw(st.integers(1, 7)))
    ]
    for mask in range(draw(st.integers(0, 7))):
        named = draw(st.lists(st.sampled_from(range(len(rows))), max_size=3, unique=True))
        signs: Sequence[Coefficient] = draw(
            st.one_of(st.just([1, -1, 0]), st.tuples(*[coefficients] * 3))
        )
        for number, value in zip(named, signs, strict=False):
            rows[number]["r", mask] = value
    return rows


@settings(deadline=None, max_examples=40)
@given(systems())
def test_what_is_left_spans_what_dense_matrices_find(rows: list[Row]) -> None:
    spans(rows)


@pytest.mark.slow
@settings(deadline=None, max_examples=600)
@given(systems())
def test_of_many_systems_too(rows: list[Row]) -> None:
    spans(rows)


def spans(rows: list[Row]) -> None:
    before = [dict(row) for row in rows]
    masks = {unknown for row in rows for unknown in row if unknown[0] == "r"}
    left = eliminated(rows, masks)
    assert rows == before
    assert all(left)
    assert not any(unknown in masks for row in left for unknown in row)
    basis = mask_oracle.determined([rows], len(PARTIES))
    dense = [[Fraction(row.get(("x", i), 0)) for i in PARTIES] for row in left]
    assert mask_oracle.reduced(dense) == basis
    # The echelon form is unique up to which unknowns are pivots.
    echelon = reduced(left)
    again = [[Fraction(row.get(("x", i), 0)) for i in PARTIES] for row in echelon.values()]
    assert mask_oracle.reduced(again) == basis
    assert len(echelon) == len(basis)
    for pivot, row in echelon.items():
        assert [other for other in echelon.values() if pivot in other] == [row]
        assert row[pivot] == 1


SHARES: list[list[Row]] = [
    [{("r", i): 1} for i in PARTIES],
    [{i: 1, ("r", i): -1} for i in PARTIES],
]
"""What each of two servers is sent of every value."""


@pytest.mark.parametrize("server", [0, 1])
def test_one_of_two_servers_knows_the_total(server: int) -> None:
    assert known([*SHARES[server], *map(summed, SHARES)]) == [[0, 1, 2, 3]]


def test_who_is_sent_the_sums_of_both_servers_knows_the_total() -> None:
    assert known([*map(summed, SHARES)]) == [[0, 1, 2, 3]]


def test_two_servers_together_know_every_value() -> None:
    assert known([*SHARES[0], *SHARES[1]]) == [[0], [1], [2], [3]]


def test_whoever_knows_all_coins_but_one_is_told_that_value_by_the_total() -> None:
    assert known([*map(summed, SHARES), *SHARES[0][1:], *SHARES[1][1:]]) == [[0], [1], [2], [3]]


def shamir(party: int, point: int) -> Row:
    return {party: 1, ("r", party): point}


def test_shares_of_a_line_tell_at_two_points() -> None:
    one = [shamir(i, 1) for i in PARTIES]
    assert known(one) == []
    assert known([*one, shamir(2, 3)]) == [[2]]
    assert known([*one, *(shamir(i, 2) for i in PARTIES)]) == [[0], [1], [2], [3]]
    # Their sums are shares of the sum.
    assert known([summed(one), summed(shamir(i, 3) for i in PARTIES)]) == [[0, 1, 2, 3]]


RING: list[Row] = [{"m": 1} | values(*range(last + 1)) for last in PARTIES]
"""What each party passes on: the first adds a mask, and everybody its value."""


def test_whoever_sees_all_that_goes_around_a_ring_knows_every_value_after_the_first() -> None:
    assert known(RING) == [[1], [2], [3]]
    assert known([*RING, values(*PARTIES)]) == [[0], [1], [2], [3]]


def test_the_neighbours_of_a_party_on_a_sealed_ring_know_its_value() -> None:
    assert known([RING[1], RING[2], values(*PARTIES)]) == [[0, 1, 3], [2]]


def test_one_party_on_a_sealed_ring_knows_the_total() -> None:
    assert known([RING[1], values(*PARTIES)]) == [[0, 1, 2, 3]]


def test_masks_that_cancel_leave_one_sum_of_each_part_and_one_that_does_not_leaves_none() -> None:
    """A circle of 300 parties with masks with the 15 on either side, and as many apart."""
    n, near = 300, 15
    rows: list[Row] = [values(i) for i in range(2 * n)]
    for i in range(2 * n):
        for j in range(i + 1, i + near + 1):
            other = i // n * n + j % n
            rows[i][i, other], rows[other][i, other] = 1, -1
    masks = {unknown for row in rows for unknown in row if not isinstance(unknown, int)}
    assert eliminated(rows, masks) == [values(*range(n)), values(*range(n, 2 * n))]
    rows[7]["own"] = 1
    assert eliminated(rows, masks | {"own"}) == [values(*range(n, 2 * n))]


def test_what_is_not_hidden_does_not_link() -> None:
    rows: list[Row] = [{0: 1, "m": 1}, {1: 1, "m": -1}]
    assert eliminated(rows, ()) == rows
    assert eliminated([], ()) == []


def test_a_coefficient_of_0_is_as_none() -> None:
    rows: list[Row] = [{0: 1, 2: 0, "m": 0}, {1: 1, "m": 0}]
    assert eliminated(rows, {"m"}) == [{0: 1}, {1: 1}]
    assert reduced(rows) == {0: {0: 1}, 1: {1: 1}}
