"""All pairs at a glance: strengths without bias, tests of all pairs, clusters and the tree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from protocol import (
    Block,
    Cells,
    Counts,
    Estimate,
    ExactTables,
    JointReports,
    KeepUniform,
    LinearEstimate,
    Records,
    Stream,
    debiased_dependences,
)
from protocol.estimators.dependence.association import TestResult
from protocol.estimators.dependence.dependence import cramers_v
from protocol.estimators.dependence.glance import STRONG, dependence_excess, glance
from tests.enumeration import survey_of

SIZES = (2, 3, 4, 2, 3)
SURVEY = survey_of(*SIZES)


def answers(n: int, seed: int, *, linked: Sequence[tuple[int, int]] = ()) -> Records:
    """Independent answers, but for attributes that copy the code of another half of the time."""
    generator = np.random.default_rng(seed)
    codes = np.stack([generator.integers(0, size, n) for size in SIZES], axis=1)
    for source, target in linked:
        copied = generator.random(n) < 0.5
        codes[copied, target] = codes[copied, source] % SIZES[target]
    return Records(SURVEY, codes.astype(np.uint8))


def reported(
    records: Records, keep: float, seed: int, *blocks: Sequence[str]
) -> LinearEstimate[JointReports]:
    """What reports say that keep an answer with this probability, each block by itself."""
    survey = records.survey
    groups = blocks or tuple((name,) for name in survey.names)
    stream = Stream(bytes([seed % 256]) * 32)
    made = []
    codes = np.array(records.codes)
    for number, group in enumerate(groups):
        axes = survey.axes(group)
        sizes = [survey.sizes[axis] for axis in axes]
        randomizer = KeepUniform.with_keep(math.prod(sizes), p=keep)
        cells = np.ravel_multi_index(tuple(codes[:, axis] for axis in axes), sizes)
        drawn = randomizer.randomize(cells.astype(np.uint16), stream.derive(f"{seed} {number}"))
        for axis, found in zip(axes, np.unravel_index(drawn, sizes), strict=True):
            codes[:, axis] = found
        made.append(Block(tuple(group), randomizer))
    return LinearEstimate(JointReports(survey, tuple(made), Counts.of(codes, survey.sizes)))


def counted(records: Records) -> LinearEstimate[ExactTables]:
    """Exact counts of every pair."""
    names = records.survey.names
    return LinearEstimate(
        ExactTables(records.survey, {pair: records.counts(pair) for pair in combinations(names, 2)})
    )


LINKED = ((0, 3), (3, 1))


def test_dependent_pairs_are_found_with_their_strength_and_their_tree() -> None:
    records = answers(8_000, 1, linked=LINKED)
    estimate = reported(records, 0.7, 1)
    seen = glance(estimate)
    assert seen is not None
    assert not seen.too_noisy
    found = {frozenset((pair.first, pair.second)) for pair in seen.dependent}
    assert {frozenset("ad"), frozenset("bd")} <= found <= {frozenset(p) for p in ("ad", "bd", "ab")}
    assert {frozenset(edge) for edge in seen.edges} == {frozenset("ad"), frozenset("bd")}
    for first, second in ("ad", "bd"):
        pair = seen.pair(second, first)
        assert pair is seen.pair(first, second)
        assert abs(pair.strength - cramers_v(records.counts((first, second)))) < 0.06
        assert pair.p_value < 1e-6
    assert {pair.judged for pair in seen.pairs.values()} == {"dependent", "not found"}


def test_the_strength_is_that_of_debiased_dependences() -> None:
    estimate = reported(answers(3_000, 2, linked=LINKED), 0.6, 2)
    seen, known = glance(estimate), debiased_dependences(estimate, measure="cramers-v")
    assert seen is not None
    # About the population, that takes the sampling of respondents off too.
    for i, first in enumerate(SURVEY.names):
        for j, second in enumerate(SURVEY.names[:i]):
            expected = known.matrix[i, j] ** 2
            assert seen.pair(first, second).strength ** 2 == pytest.approx(expected, abs=3e-3)


class TablesAlone(Estimate):
    """A result that has tables with covariances, and says nothing of its reports."""

    def __init__(self, estimate: LinearEstimate[JointReports]) -> None:
        self.survey, self.own = estimate.survey, estimate

    @property
    def n(self) -> int:
        return self.own.n

    def cells(self, names: tuple[str, ...]) -> Cells:
        return self.own.cells(names)


def test_tables_with_covariances_say_the_same_as_reports() -> None:
    estimate = reported(answers(5_000, 3, linked=LINKED), 0.7, 3)
    for pair in ("ad", "bc", "be"):
        one, other = (
            dependence_excess(estimate, *pair),
            dependence_excess(TablesAlone(estimate), *pair),
        )
        assert other.values == pytest.approx(one.values, abs=1e-9)
        assert other.errors == pytest.approx(one.errors, rel=0.02)
        assert other.law.estimate == pytest.approx(
            one.law.estimate, abs=2e-3 * float(one.law.scale)
        )
        assert other.law.seen == pytest.approx(one.law.seen, rel=0.02)
        # It has the noise that there is with the dependence.
        assert other.law.detectable(0.01, 0.8) == pytest.approx(
            one.law.detectable(0.01, 0.8), rel=0.1
        )
    seen, tables = glance(estimate), glance(TablesAlone(estimate))
    assert seen is not None
    assert tables is not None
    assert tables.edges == seen.edges


def test_few_reports_are_too_noisy_to_say_anything() -> None:
    seen = glance(reported(answers(60, 4, linked=LINKED), 0.3, 4))
    assert seen is not None
    assert seen.too_noisy
    assert seen.dependent == []
    assert seen.edges == ()


def test_what_was_randomized_together_is_a_cluster_and_stands_together() -> None:
    estimate = reported(answers(3_000, 5), 0.7, 5, ("a", "d"), ("b",), ("c",), ("e",))
    seen = glance(estimate)
    assert seen is not None
    assert seen.clusters == (("a", "d"),)
    assert seen.names == ("a", "d", "b", "c", "e")


def test_strong_dependences_are_clusters_where_nothing_was_randomized_together() -> None:
    records = answers(3_000, 6)
    codes = np.array(records.codes)
    codes[:, 3] = codes[:, 0]
    exact = counted(Records(SURVEY, codes))
    seen = glance(exact)
    assert seen is not None
    assert seen.clusters == (("a", "d"),)
    assert seen.pair("a", "d").strength > STRONG
    assert seen.edges == (("a", "d"),)


def test_a_category_of_nobody_keeps_no_pair_from_being_judged() -> None:
    records = answers(4_000, 7, linked=LINKED)
    codes = np.array(records.codes)
    codes[:, 1] = np.minimum(codes[:, 1], 1)
    exact = LinearEstimate(
        ExactTables(SURVEY, {("b", "d"): Records(SURVEY, codes).counts(("b", "d"))})
    )
    seen = glance(exact)
    assert seen is not None
    assert seen.pair("b", "d").judged == "dependent"
    assert (len(seen.pairs), seen.missing) == (1, 9)


def test_a_result_without_pairs_has_no_glance() -> None:
    assert glance(LinearEstimate(ExactTables(SURVEY, {("a",): np.array([3, 4])}))) is None


def test_the_level_is_of_all_pairs_together() -> None:
    estimate = reported(answers(4_000, 8, linked=LINKED), 0.7, 8)
    strict, loose = glance(estimate, level=1e-12), glance(estimate, level=0.9)
    assert strict is not None
    assert loose is not None
    assert len(strict.dependent) <= len(loose.dependent)
    assert strict.pair("a", "d").least > loose.pair("a", "d").least


def test_pairs_that_are_not_looked_at_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    survey = survey_of(2, 30, 30)
    codes = np.random.default_rng(9).integers(0, [2, 30, 30], (3_000, 3)).astype(np.uint8)
    seen = glance(counted(Records(survey, codes)))
    assert seen is not None
    assert (len(seen.pairs), seen.large, seen.missing, seen.beyond) == (2, 1, 0, 0)
    # Only two tests are made, so each is held against half of the level.
    alone = glance(counted(Records(survey_of(2, 30), codes[:, :2])), level=0.025)
    assert alone is not None
    assert seen.pair("a", "b").least == pytest.approx(alone.pair("a", "b").least)
    large = glance(
        LinearEstimate(ExactTables(survey, {("b", "c"): Records(survey, codes).counts(("b", "c"))}))
    )
    assert large is not None
    assert (dict(large.pairs), large.large, large.missing) == ({}, 1, 2)
    monkeypatch.setattr("protocol.estimators.dependence.glance.MOST", 2)
    first = glance(counted(Records(survey, codes)))
    assert first is not None
    assert (len(first.pairs), first.large, first.missing, first.beyond) == (1, 0, 0, 1)


class Refusing(TablesAlone):
    """A result whose test refuses one pair."""

    def independence(self, first: str, second: str) -> TestResult:
        if {first, second} == {"a", "d"}:
            raise ValueError("too few reports")
        return self.own.independence(first, second)


def test_no_other_test_stands_in_for_one_that_refuses() -> None:
    seen = glance(Refusing(reported(answers(8_000, 1, linked=LINKED), 0.7, 1)))
    assert seen is not None
    pair = seen.pair("a", "d")
    assert math.isnan(pair.p_value)
    assert pair.strength > 0.3
    assert (pair.least, pair.judged) == (math.inf, "too noisy")
    assert seen.pair("b", "d").judged == "dependent"


@pytest.mark.parametrize("keep", [1.0, 0.6])
def test_the_least_strength_is_found_in_eight_of_ten_surveys(keep: float) -> None:
    """In 200 at least 141 and at most 179, as by chance in all but one of a thousand."""
    survey, n = survey_of(2, 2), 1_000
    generator = np.random.default_rng(10)

    def drawn(strength: float, seed: int) -> Estimate:
        codes = generator.integers(0, 2, (n, 2)).astype(np.uint8)
        copied = generator.random(n) < strength
        codes[copied, 1] = codes[copied, 0]
        records = Records(survey, codes)
        return counted(records) if keep == 1 else reported(records, keep, seed)

    # As of one of ten pairs.
    none = glance(drawn(0.0, 0), level=0.005)
    assert none is not None
    least = none.pair("a", "b").least
    found = 0
    for run in range(200):
        found += bool(drawn(least, run).independence("a", "b").rejects(0.005))
    assert 141 <= found <= 179


RUNS = 200


@pytest.mark.slow
@pytest.mark.parametrize("keep", [0.95, 0.7, 0.4])
@pytest.mark.parametrize("together", [False, True])
def test_independent_answers_give_an_empty_triangle(keep: float, together: bool) -> None:
    """In 95 of 100 surveys; in 200 at least 181, as by chance in all but one of a thousand."""
    blocks = (("a", "d"), ("b", "c"), ("e",)) if together else ()
    empty = 0
    for run in range(RUNS):
        seen = glance(reported(answers(3_000, 1_000 + run), keep, run, *blocks))
        assert seen is not None
        assert not seen.too_noisy
        empty += not seen.dependent
    assert empty >= 181
