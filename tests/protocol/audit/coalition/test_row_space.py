"""The algebra of sums over sets: against elimination on the full matrix."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.audit.coalition.elimination import Coefficient
from protocol.audit.coalition.row_space import SEARCHED, RowSpace, row_space
from tests.protocol.mask_oracle import follows, indicator, reduced


def places(*members: int) -> np.ndarray:
    return np.array(members, np.int64)


def sets_of(*sets: tuple[int, ...], parties: int = 10) -> RowSpace:
    return row_space([places(*members) for members in sets], parties)


def shown(parts: tuple[np.ndarray, ...]) -> list[list[int]]:
    return [part.tolist() for part in parts]


@pytest.mark.slow
@settings(deadline=None, max_examples=70)
@given(
    st.integers(2, 8).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.frozensets(st.integers(0, n - 1)), max_size=6))
    )
)
def test_it_is_what_elimination_finds(case: tuple[int, list[frozenset[int]]]) -> None:
    n, sets = case
    space = row_space([places(*sorted(members)) for members in sets], n)
    basis = reduced([indicator(sorted(members), n) for members in sets])
    listed = [part.tolist() for part in (*space.determined, *space.mixed)]
    assert len(reduced([indicator(part, n) for part in listed])) == len(basis)
    assert all(follows(basis, indicator(part, n)) for part in listed)
    alone = {i for i in range(n) if follows(basis, indicator([i], n))}
    assert {part[0] for part in shown(space.determined) if len(part) == 1} == alone
    fewest = [sum(row) for row in product((0, 1), repeat=n) if any(row) and follows(basis, row)]
    found = [len(part) for part in listed] + [2] * bool(space.opposite)
    assert space.searched
    assert min(found, default=None) == min(fewest, default=None)
    # Differences: everybody in a group with the first, and nobody else.
    first = {j: i for i, j in space.equal}
    group = [first.get(i, i) for i in range(n)]
    for i, j in combinations([i for i in range(n) if i not in alone], 2):
        apart = [(a == i) - (a == j) for a in range(n)]
        assert follows(basis, apart) == (group[i] == group[j])
        both = {i, j} in [set(part) for part in shown(space.determined)]
        opposite = {(group[i], group[j]), (group[j], group[i])} & set(space.opposite)
        assert follows(basis, indicator([i, j], n)) == (both or bool(opposite))


@st.composite
def weighted(draw: st.DrawFn) -> tuple[int, list[dict[int, Coefficient]]]:
    """Parties, and rows with few different coefficients, so that parties share classes."""
    n = draw(st.integers(2, 6))
    values = st.sampled_from([0, 1, 1, 2, -1, Fraction(1, 2)])
    rows = st.dictionaries(st.integers(0, n - 1), values)
    return n, draw(st.lists(rows, max_size=5))


@settings(deadline=None, max_examples=70)
@given(weighted())
def test_so_it_is_with_other_coefficients(case: tuple[int, list[dict[int, Coefficient]]]) -> None:
    n, rows = case
    space = row_space(rows, n)
    basis = reduced([[Fraction(row.get(i, 0)) for i in range(n)] for row in rows])
    sets = [indicator(part.tolist(), n) for part in (*space.determined, *space.mixed)]
    others = [[Fraction(row.get(i, 0)) for i in range(n)] for row in space.weighted]
    assert reduced([*sets, *others]) == basis
    assert all(len(set(row.values())) > 1 and row[min(row)] == 1 for row in space.weighted)
    alone = {i for i in range(n) if follows(basis, indicator([i], n))}
    assert {part[0] for part in shown(space.determined) if len(part) == 1} == alone
    fewest = [sum(row) for row in product((0, 1), repeat=n) if any(row) and follows(basis, row)]
    found = [sum(row) for row in sets] + [2] * bool(space.opposite)
    assert space.searched
    assert min(found, default=None) == min(fewest, default=None)
    for relation, pairs in ((-1, space.equal), (1, space.opposite)):
        for i, j in pairs:
            assert follows(basis, [(a == i) + relation * (a == j) for a in range(n)])


def test_rows_with_other_coefficients_are_listed_unless_they_name_known_parties_alone() -> None:
    space = row_space([{0: 2, 1: 4}, {0: 1, 1: 2}, {2: 3}, {2: 1, 3: 2}, {4: 5, 5: 5}], 6)
    assert shown(space.determined) == [[2], [3], [4, 5]]
    assert space.mixed == ()
    assert space.weighted == ({0: 1, 1: 2},)


def test_a_set_may_follow_from_rows_that_are_none() -> None:
    space = row_space([{0: 1, 1: 2}, {1: 1, 2: -1}], 3)
    assert shown(space.mixed) == [[0, 1, 2]]


def test_disjoint_sets_stay_as_they_are() -> None:
    space = sets_of((3, 4), (0,), (7, 8, 9))
    assert shown(space.determined) == [[0], [3, 4], [7, 8, 9]]
    assert (space.mixed, space.equal, space.opposite) == ((), (), ())


def test_two_totals_tell_by_their_difference() -> None:
    space = sets_of(tuple(range(10)), tuple(range(9)))
    assert shown(space.determined) == [list(range(9)), [9]]


def test_sums_that_overlap_tell_a_difference() -> None:
    space = sets_of((0, 1, 2), (0, 1, 3))
    assert shown(space.determined) == []
    assert shown(space.mixed) == [[0, 1, 2], [0, 1, 3]]
    assert space.equal == ((2, 3),)


def test_a_set_that_no_sum_is_over_can_be_the_smallest() -> None:
    """The first less the second and plus the third: none of these sets is so small."""
    space = sets_of((0, 1, 2, 3, 4), (3, 4, 5, 6, 7, 8), (5, 6, 7, 8, 9))
    assert shown(space.mixed)[-1] == [0, 1, 2, 9]


def test_more_sums_than_are_searched_say_so() -> None:
    chain = [(i, i + 1, i + 2) for i in range(SEARCHED + 1)]
    assert not sets_of(*chain, parties=SEARCHED + 3).searched
    assert sets_of(*chain[:SEARCHED], parties=SEARCHED + 3).searched


def test_many_components_are_quick_and_exact() -> None:
    """A total and all of its parts but one: what is left follows."""
    parts = [places(*range(10 * i, 10 * i + 10)) for i in range(2000)]
    space = row_space([np.arange(20_000), *parts[1:]], 20_000)
    assert len(space.determined) == 2000
    assert space.mixed == ()


@pytest.mark.parametrize("member", [-1, 10])
def test_places_that_there_are_not(member: int) -> None:
    with pytest.raises(ValueError, match="place out of range: expected 0 to 9"):
        sets_of((member,))
