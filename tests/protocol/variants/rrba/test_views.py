"""Views: every k-subset together once, in as few as possible; what tables of groups share."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import combinations, permutations
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.variants.rrba.views import View, design_views, lower_bound

PAPER_6 = ("AR EO ST", "AE RS OT", "AT RE OS", "AO RT ES", "AS RO ET")
PAPER_5 = ("AR EO", "RE OS", "AE RS", "AO ES", "AS RO")


def renamed(views: tuple[View, ...], letters: str) -> set[frozenset[frozenset[str]]]:
    return {
        frozenset(frozenset(letters[place] for place in group) for group in view) for view in views
    }


def assert_partition(views: tuple[View, ...], d: int, k: int) -> None:
    """Every k-subset exactly once, views disjoint inside and of sizes that differ by at most 1."""
    times = Counter(group for view in views for group in view)
    assert times == Counter(combinations(range(d), k))
    for view in views:
        assert max(Counter(place for group in view for place in group).values()) == 1
        assert list(view) == sorted(view)
    sizes = [len(view) for view in views]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) == d // k


@pytest.mark.parametrize(("paper", "letters"), [(PAPER_6, "AREOST"), (PAPER_5, "AREOS")])
def test_the_paper_s_views_up_to_the_names_of_attributes(
    paper: tuple[str, ...], letters: str
) -> None:
    """The decomposition of K6 into perfect matchings is unique up to isomorphism; so that of K5."""
    wanted = {frozenset(frozenset(pair) for pair in view.split()) for view in paper}
    views = design_views(list(letters), 2)
    assert any(renamed(views, "".join(order)) == wanted for order in permutations(letters))
    left_out = [set(range(len(letters))) - {p for pair in view for p in pair} for view in views]
    if len(letters) == 5:
        assert sorted(left_out, key=min) == [{place} for place in range(5)]
    else:
        assert not any(left_out)


@pytest.mark.parametrize(
    ("d", "k", "number"),
    [
        (6, 2, 5),
        (5, 2, 5),
        (37, 2, 37),
        (2, 2, 1),
        (3, 2, 3),
        (9, 1, 1),
        (9, 9, 1),
        (12, 3, 55),
        (12, 4, 165),
        (12, 6, 462),
        (7, 3, 18),
        (37, 3, 648),
    ],
)
def test_as_few_views_as_the_sizes_allow(d: int, k: int, number: int) -> None:
    views = design_views(d, k)
    assert len(views) == number == lower_bound(d, k)
    assert_partition(views, d, k)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 11).flatmap(lambda d: st.tuples(st.just(d), st.integers(1, d))))
def test_every_subset_is_in_exactly_one_view(sizes: tuple[int, int]) -> None:
    d, k = sizes
    views = design_views(d, k)
    assert len(views) == lower_bound(d, k) == -(-comb(d, k) // (d // k))
    assert_partition(views, d, k)


def test_where_k_divides_d_every_view_uses_all_attributes() -> None:
    for d, k in [(8, 2), (9, 3), (12, 3), (12, 4)]:
        assert len(design_views(d, k)) == comb(d - 1, k - 1)
        assert all(len(view) * k == d for view in design_views(d, k))


def test_alarm_pairs_leave_one_attribute_out_each_time() -> None:
    views = design_views(37, 2)
    assert {len(view) for view in views} == {18}
    left_out = [set(range(37)) - {place for pair in view for place in pair} for view in views]
    assert sorted(place for (place,) in left_out) == list(range(37))


def test_views_are_the_same_on_every_machine() -> None:
    text = repr([design_views(9, 4), design_views(10, 5), design_views(7, 2)])
    assert (
        hashlib.sha256(text.encode()).hexdigest()
        == "5ce03bd766039029182c31d57e40870668e901da925318df87f7c18feec9c89b"
    )


def test_names_count_and_nothing_else() -> None:
    assert design_views(("x", "y", "z", "u", "v"), 3) == design_views(5, 3)


@pytest.mark.parametrize(("d", "k"), [(3, 4), (3, 0), (0, 0), (0, 1), (3, -1)])
def test_groups_need_attributes(d: int, k: int) -> None:
    for refuse in (lambda: design_views(d, k), lambda: lower_bound(d, k)):
        with pytest.raises(ValueError, match="expected 1 <= k <= d"):
            refuse()


def test_other_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match="a sequence of names"):
        design_views("abc", 2)
    with pytest.raises(ValueError, match="repeated"):
        design_views(["a", "b", "a"], 2)
    with pytest.raises(ValueError, match=f"{comb(60, 30)} groups of 30 of 60 .* 131072"):
        design_views(60, 30)
