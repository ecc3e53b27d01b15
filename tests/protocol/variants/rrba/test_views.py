"""Views: every k-subset together once, in as few as possible; what tables of groups share."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from protocol.estimators.overlapping.overlaps import Names, Overlaps
from protocol.surveys.survey import Survey
from protocol.variants.rrba.views import View, check_views, lower_bound, views_of
from tests.enumeration import Floats, summing, survey_of

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
    views = views_of(list(letters), 2)
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
    views = views_of(d, k)
    assert len(views) == number == lower_bound(d, k)
    assert_partition(views, d, k)
    check_views(views, d, k)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 11).flatmap(lambda d: st.tuples(st.just(d), st.integers(1, d))))
def test_every_subset_is_in_exactly_one_view(sizes: tuple[int, int]) -> None:
    d, k = sizes
    views = views_of(d, k)
    assert len(views) == lower_bound(d, k) == -(-comb(d, k) // (d // k))
    assert_partition(views, d, k)
    check_views(views, d, k)


def test_where_k_divides_d_every_view_uses_all_attributes() -> None:
    for d, k in [(8, 2), (9, 3), (12, 3), (12, 4)]:
        assert len(views_of(d, k)) == comb(d - 1, k - 1)
        assert all(len(view) * k == d for view in views_of(d, k))


def test_alarm_pairs_leave_one_attribute_out_each_time() -> None:
    views = views_of(37, 2)
    assert {len(view) for view in views} == {18}
    left_out = [set(range(37)) - {place for pair in view for place in pair} for view in views]
    assert sorted(place for (place,) in left_out) == list(range(37))


def test_views_are_the_same_on_every_machine() -> None:
    text = repr([views_of(9, 4), views_of(10, 5), views_of(7, 2)])
    assert (
        hashlib.sha256(text.encode()).hexdigest()
        == "5ce03bd766039029182c31d57e40870668e901da925318df87f7c18feec9c89b"
    )


def test_names_count_and_nothing_else() -> None:
    assert views_of(("x", "y", "z", "u", "v"), 3) == views_of(5, 3)


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ((((0, 1),), ((0, 2),)), r"no view has the attributes \(1, 2\)"),
        ((((0, 1), (1, 2)), ((0, 2),)), "view 0: attribute 1 is repeated"),
        ((((0, 1, 2),),), "not a rising tuple of 2"),
        ((((1, 0),),), "not a rising tuple of 2"),
        ((((0, 0),),), "not a rising tuple of 2"),
        ((((0, 3),),), "not a rising tuple of 2"),
        ((((-1, 2),),), "not a rising tuple of 2"),
        ((), r"no view has the attributes \(0, 1\)"),
    ],
)
def test_what_views_must_not_be(views: tuple[View, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_views(views, 3, 2)


def test_a_subset_may_be_in_two_views() -> None:
    check_views((*views_of(4, 2), ((0, 1),)), 4, 2)


@pytest.mark.parametrize(("d", "k"), [(3, 4), (3, 0), (0, 0), (0, 1), (3, -1)])
def test_groups_need_attributes(d: int, k: int) -> None:
    for refuse in (
        lambda: views_of(d, k),
        lambda: lower_bound(d, k),
        lambda: check_views((), d, k),
    ):
        with pytest.raises(ValueError, match="expected 1 <= k <= d"):
            refuse()


def test_other_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match="a sequence of names"):
        views_of("abc", 2)
    with pytest.raises(ValueError, match="repeated"):
        views_of(["a", "b", "a"], 2)
    with pytest.raises(ValueError, match=f"{comb(60, 30)} groups of 30 of 60 .* 131072"):
        views_of(60, 30)


# What tables of groups have in common

PATTERNS: tuple[tuple[str, ...], ...] = (
    ("ab", "bc"),
    ("ab", "ac", "bc"),
    ("ab", "ba", "b"),
    ("abc", "bcd", "cda"),
    ("cab", "bd", "dc", "a"),
    ("ab", "cd"),
    ("ab", "cd", "bd", "ca", "bc", "ad"),
    ("abc",),
)


@dataclass(frozen=True)
class Case:
    """A truth, its exact tables, and the same with noise; a weight per table."""

    survey: Survey
    truth: Floats
    exact: dict[Names, Floats]
    raw: dict[Names, Floats]
    weights: dict[Names, float]


def tables_of(survey: Survey, joint: Floats, pattern: Sequence[str]) -> dict[Names, Floats]:
    tables = {}
    for letters in pattern:
        names = tuple(letters)
        shape = tuple(survey.attribute(name).size for name in names)
        tables[names] = (joint.ravel() @ summing(survey, names)).reshape(shape)
    return tables


def case(sizes: Sequence[int], pattern: Sequence[str], seed: int, *, noise: float = 0.1) -> Case:
    rng = np.random.default_rng(seed)
    survey = survey_of(*sizes)
    truth = rng.dirichlet(np.full(survey.cells, 0.5)).reshape(sizes)
    exact = tables_of(survey, truth, pattern)
    raw = {names: table + noise * rng.normal(size=table.shape) for names, table in exact.items()}
    weights = {names: float(rng.uniform(0.2, 5)) for names in exact}
    return Case(survey, truth, exact, raw, weights)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    sizes = draw(st.lists(st.integers(2, 3), min_size=4, max_size=4))
    noise = draw(st.sampled_from([0.0, 0.01, 0.1, 1.0]))
    return case(
        sizes, draw(st.sampled_from(PATTERNS)), draw(st.integers(0, 2**32 - 1)), noise=noise
    )


def marginal(names: Names, table: Floats, kept: Sequence[str]) -> Floats:
    """By einsum, in the order of ``kept``: nothing that the module uses."""
    return np.asarray(np.einsum(f"{''.join(names)}->{''.join(kept)}", table))


def constraints(survey: Survey, tables: Sequence[Names]) -> tuple[Floats, Floats]:
    """C and b of ``C x = b`` for all cells in one vector: totals of 1, and pairs that agree."""
    sizes = [math.prod(survey.attribute(n).size for n in names) for names in tables]
    ends = np.cumsum([0, *sizes])
    rows, right = [], []
    for number in range(len(tables)):
        row = np.zeros((1, ends[-1]))
        row[0, ends[number] : ends[number + 1]] = 1
        rows.append(row)
        right.append(1.0)
    for i, j in combinations(range(len(tables)), 2):
        common = [name for name in tables[i] if name in tables[j]]
        if not common:
            continue
        one = summing(survey.project(tables[i]), common)
        other = summing(survey.project(tables[j]), common)
        block = np.zeros((one.shape[1], ends[-1]))
        block[:, ends[i] : ends[i + 1]] = one.T
        block[:, ends[j] : ends[j + 1]] = -other.T
        rows.append(block)
        right += [0.0] * len(block)
    return np.vstack(rows), np.array(right)


def nearest_by_solver(c: Floats, b: Floats, start: Floats, x: Floats, w: Floats) -> Floats:
    """SLSQP: the y of at least 0 with ``C y = b`` nearest to x, each cell with its weight."""
    np.testing.assert_allclose(c @ start, b, atol=1e-12)
    # Independent rows, which SLSQP needs.
    _, s, right = np.linalg.svd(c)
    basis = right[: int((s > 1e-9).sum())]
    solved = optimize.minimize(
        lambda y: float((w * (y - x) ** 2).sum()),
        start,
        jac=lambda y: 2 * w * (y - x),
        bounds=[(0, None)] * len(x),
        constraints={
            "type": "eq",
            "fun": lambda y: basis @ (y - start),
            "jac": lambda _: basis,
        },
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-13},
    )
    assert solved.success
    return np.asarray(solved.x)


def flat(tables: Mapping[Names, Floats]) -> Floats:
    return np.concatenate([table.ravel() for table in tables.values()])


def cell_weights(one: Case) -> Floats:
    return np.concatenate([np.full(one.raw[n].size, one.weights[n]) for n in one.raw])


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("sizes", [(2, 3, 2, 2), (3, 2, 2, 4)])
def test_the_closed_form_is_the_weighted_projection(
    pattern: tuple[str, ...], sizes: tuple[int, ...]
) -> None:
    one = case(sizes, pattern, 1)
    overlaps = Overlaps(one.raw.items(), one.survey, list(one.weights.values()))
    c, b = constraints(one.survey, list(one.raw))
    x, inverse = flat(one.raw), np.diag(1 / cell_weights(one))
    wanted = x + inverse @ c.T @ np.linalg.pinv(c @ inverse @ c.T) @ (b - c @ x)
    np.testing.assert_allclose(overlaps.agreeing(overlaps.values), wanted, atol=1e-11)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({}, "at least one table"),
        ({("a", "b"): np.full((2, 3), 1 / 6)}, "shape"),
        ({(): np.array(1.0)}, "shape"),
        ({("a",): np.array([math.nan, 1.0])}, "not finite"),
        ({("a",): np.array([math.inf, 1.0])}, "not finite"),
        ({("a", "z"): np.full((2, 2), 0.25)}, "no attribute"),
        ({("a", "a"): np.full((2, 2), 0.25)}, "named twice"),
    ],
)
def test_tables_that_are_none(tables: dict[Names, Floats], message: str) -> None:
    survey = survey_of(2, 2, 2)
    with pytest.raises(ValueError, match=message):
        Overlaps(tables.items(), survey)
