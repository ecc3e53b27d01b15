"""Algorithm 1 against a brute force, on Adult and on any matrix; randomizers of equal epsilon."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import Block, KeepUniform, SurveyError
from protocol.estimators.dependence.dependence import Dependences, dependences
from protocol.surveys.survey import check_partition
from protocol.variants.clusters.clustering import cluster, matched_blocks, matched_epsilon
from scenarios import adult
from tests.enumeration import Floats, keep, survey_of


def known(names: Sequence[str], values: Mapping[str, float], default: float = 0.0) -> Dependences:
    """Dependences of attributes with names of one letter: ``{"ab": 0.5}``."""
    matrix = np.full((len(names), len(names)), default)
    np.fill_diagonal(matrix, 1.0)
    for pair, value in values.items():
        i, j = map(names.index, pair)
        matrix[i, j] = matrix[j, i] = value
    return Dependences(tuple(names), "auto", "given", matrix, np.zeros_like(matrix), math.inf)


def brute(matrix: Floats, sizes: Sequence[int], tv: int, td: float) -> set[frozenset[int]]:
    """Merge the best pair that may be merged until there is none: what Algorithm 1 comes to."""
    clusters = {frozenset([place]) for place in range(len(sizes))}
    while True:
        allowed = []
        for pair in combinations(sorted(clusters, key=min), 2):
            dependence = max(matrix[i, j] for i in pair[0] for j in pair[1])
            if dependence >= td and math.prod(sizes[i] for i in pair[0] | pair[1]) <= tv:
                allowed.append((dependence, pair))
        if not allowed:
            return clusters
        # The first of those that are the greatest.
        _, (first, second) = max(allowed, key=lambda one: one[0])
        clusters = clusters - {first, second} | {first | second}


def places(clusters: Sequence[Sequence[str]], names: Sequence[str]) -> set[frozenset[int]]:
    return {frozenset(names.index(name) for name in part) for part in clusters}


# Algorithm 1

ON_ADULT = {
    50: (
        ("workclass",),
        ("education",),
        ("marital-status",),
        ("occupation",),
        ("relationship", "sex", "income"),
        ("race",),
    ),
    100: (
        ("workclass",),
        ("education", "income"),
        ("marital-status", "relationship", "sex"),
        ("occupation",),
        ("race",),
    ),
    300: (
        ("workclass", "occupation"),
        ("education",),
        ("marital-status", "relationship", "sex", "income"),
        ("race",),
    ),
}


def test_clusters_of_adult_are_the_same_for_every_threshold_of_the_papers_tables() -> None:
    records = adult(None)
    survey = records.survey
    tables = [records.counts(pair) for pair in combinations(survey.names, 2)]
    exact = dependences(tables, survey, method="exact", epsilon=math.inf)
    for tv, clusters in ON_ADULT.items():
        for td in (0.1, 0.2, 0.3):
            found = cluster(exact, survey, tv=tv, td=td)
            assert found == clusters
            assert places(found, survey.names) == brute(exact.matrix, survey.sizes, tv, td)


def test_clusters_depend_as_much_as_their_most_dependent_attributes() -> None:
    # After ab, the pair c-ab counts 0.3 by a, though b and c are independent.
    learnt = known("abcd", {"ab": 0.9, "ac": 0.3, "cd": 0.29})
    sizes = dict.fromkeys("abcd", 2)
    assert cluster(learnt, sizes, tv=8, td=0.1) == (("a", "b", "c"), ("d",))
    assert cluster(learnt, sizes, tv=4, td=0.1) == (("a", "b"), ("c", "d"))


def test_both_thresholds_include_their_bound() -> None:
    learnt, survey = known("ab", {"ab": 0.25}), survey_of(2, 3)
    assert cluster(learnt, survey, tv=6, td=0.25) == (("a", "b"),)
    assert cluster(learnt, survey, tv=5, td=0.25) == (("a",), ("b",))
    assert cluster(learnt, survey, tv=6, td=0.2501) == (("a",), ("b",))


def test_the_search_goes_on_below_a_pair_that_is_too_large_and_stops_at_the_end() -> None:
    learnt = known("abc", {"ab": 0.9, "ac": 0.8, "bc": 0.7})
    assert cluster(learnt, {"a": 10, "b": 5, "c": 2}, tv=12, td=0.5) == (("a",), ("b", "c"))
    assert cluster(learnt, {"a": 10, "b": 5, "c": 2}, tv=9, td=0.5) == (("a",), ("b",), ("c",))
    assert cluster(known("a", {}), {"a": 10}, tv=1, td=0) == (("a",),)


def test_ties_go_by_the_order_of_the_attributes() -> None:
    learnt = known("abcd", {}, default=0.5)
    assert cluster(learnt, dict.fromkeys("abcd", 2), tv=4, td=0.5) == (("a", "b"), ("c", "d"))
    assert cluster(learnt, dict.fromkeys("dcba", 2), tv=8, td=0.5) == (("a", "b", "c"), ("d",))


@pytest.mark.parametrize(
    ("tv", "td", "message"),
    [
        (0, 0.1, "tv 0"),
        (10, math.nan, "td nan"),
        (10, math.inf, "td inf"),
        (10, -0.1, r"td -0\.1"),
    ],
)
def test_thresholds_that_make_no_sense_are_refused(tv: int, td: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cluster(known("ab", {}), survey_of(2, 2), tv=tv, td=td)


def test_sizes_of_other_attributes_are_refused() -> None:
    for sizes in (survey_of(2, 2, 2), {"a": 2}, {"a": 2, "z": 2}):
        with pytest.raises(ValueError, match="sizes of"):
            cluster(known("ab", {}), sizes, tv=10, td=0.1)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Floats, tuple[int, ...], int, float]:
    m = draw(st.integers(1, 7))
    count = m * (m - 1) // 2
    values = draw(st.lists(st.integers(0, 10**6), min_size=count, max_size=count, unique=True))
    matrix = np.eye(m)
    for (i, j), value in zip(combinations(range(m), 2), values, strict=True):
        matrix[i, j] = matrix[j, i] = value / 10**6
    sizes = draw(st.lists(st.integers(2, 9), min_size=m, max_size=m))
    return matrix, tuple(sizes), draw(st.integers(1, 500)), draw(st.floats(0, 1))


@settings(deadline=None, max_examples=80)
@given(problems(), st.randoms(use_true_random=False))
def test_any_clusters(problem: tuple[Floats, tuple[int, ...], int, float], random: Random) -> None:
    matrix, sizes, tv, td = problem
    names = tuple("abcdefg"[: len(sizes)])
    learnt = Dependences(names, "auto", "given", matrix, 0 * matrix, 1.0)
    by_name = dict(zip(names, sizes, strict=True))
    clusters = cluster(learnt, by_name, tv=tv, td=td)
    assert sorted(name for part in clusters for name in part) == sorted(names)
    assert [part[0] for part in clusters] == sorted(part[0] for part in clusters)
    for part in clusters:
        assert list(part) == sorted(part)
        assert len(part) == 1 or math.prod(by_name[name] for name in part) <= tv
    assert places(clusters, names) == brute(matrix, sizes, tv, td)
    order = list(range(len(names)))
    random.shuffle(order)
    moved = Dependences(
        tuple(names[place] for place in order),
        "auto",
        "given",
        matrix[np.ix_(order, order)],
        0 * matrix,
        1.0,
    )
    again = cluster(moved, by_name, tv=tv, td=td)
    assert {frozenset(part) for part in again} == {frozenset(part) for part in clusters}


# Randomizers of equal epsilon


@pytest.mark.parametrize("p", [0.1, 0.3, 0.7, 0.95])
def test_a_matched_cluster_has_the_printed_diagonal_and_the_epsilon_of_its_attributes(
    p: float,
) -> None:
    survey = survey_of(7, 6, 2, 2)
    clusters = (("a", "b", "c"), ("d",))
    epsilon = math.fsum(math.log(1 + r * p / (1 - p)) for r in (7, 6, 2))
    assert matched_epsilon(survey, ("a", "b", "c"), p=p) == pytest.approx(epsilon, rel=1e-12)
    together, alone = matched_blocks(survey, clusters, p=p)
    assert together.attributes == clusters[0]
    assert alone == Block(("d",), keep(2, p))
    randomizer = together.randomizer
    assert isinstance(randomizer, KeepUniform)
    # 6.3.2 with its sign corrected; the printed one is negative or above 1.
    assert randomizer.diagonal == pytest.approx(1 / (1 + 83 * math.exp(-epsilon)), rel=1e-12)
    assert randomizer.epsilon <= matched_epsilon(survey, ("a", "b", "c"), p=p)
    assert randomizer.epsilon == pytest.approx(epsilon, rel=1e-12)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(2, 30), min_size=1, max_size=4), st.floats(0.001, 0.999))
def test_matched_blocks_never_cost_more(sizes: list[int], p: float) -> None:
    survey = survey_of(*sizes)
    (block,) = matched_blocks(survey, [survey.names], p=p)
    assert block.randomizer.size == survey.cells
    assert block.randomizer.epsilon <= matched_epsilon(survey, survey.names, p=p)
    apart = matched_blocks(survey, [(name,) for name in survey.names], p=p)
    assert [one.randomizer for one in apart] == [keep(size, p) for size in sizes]


def test_what_is_no_partition_is_refused() -> None:
    survey = survey_of(2, 3)
    check_partition(survey, [["b"], ["a"]])
    for clusters in ([["a"]], [["a", "b"], ["a"]], []):
        with pytest.raises(ValueError, match="exactly once"):
            matched_blocks(survey, clusters, p=0.5)
    with pytest.raises(ValueError, match="a cluster is empty"):
        matched_blocks(survey, [["a", "b"], []], p=0.5)
    with pytest.raises(SurveyError, match="twice"):
        check_partition(survey, [["a", "a"], ["b"]])
    with pytest.raises(SurveyError, match="no attribute 'z'"):
        check_partition(survey, [["a", "b"], ["z"]])
    with pytest.raises(ValueError, match="at least one"):
        matched_epsilon(survey, [], p=0.5)
    with pytest.raises(ValueError, match="keep probability"):
        matched_epsilon(survey, ["a"], p=1.0)
