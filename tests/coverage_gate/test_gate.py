"""The gate in small: it measures rightly, passes what covers, and rejects what was planted."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from protocol.variants import BUILT_IN
from tests.coverage_gate.cases import ABOUT, Drawn, Estimator
from tests.coverage_gate.document import lines_in, lines_of, merged, page, table
from tests.coverage_gate.estimators import reports
from tests.coverage_gate.estimators.registry import ESTIMATORS
from tests.coverage_gate.grid import Point
from tests.coverage_gate.known import UNCOVERED, VARIANCES
from tests.coverage_gate.laws import binomial, counted
from tests.coverage_gate.measuring import Row, _chances, fate, measured
from tests.coverage_gate.planted import PLANTS
from tests.coverage_gate.verdict import column_bounds, failures, findings, judged
from tests.tiers import slow, thinned

SMALL = Point(30, 0.1, 0.5, 3)


def row(covered: float, runs: int, *, expected: int = 100, unknown: float = 0.0) -> Row:
    point = Point(expected, 0.5, 0.5, 2)
    wrong = (1 - covered) / 2
    return Row("x", "cell", "population", point, covered, wrong, wrong, unknown, runs, True)


def test_every_variant_is_measured() -> None:
    names = {estimator.name.split(",")[0] for estimator in ESTIMATORS}
    assert set(BUILT_IN) <= names


def test_a_law_of_counts_is_that_of_enumeration() -> None:
    law = counted(3, 2, hit=0.7, other=0.2)
    expected = np.zeros(6)
    for holders, others in itertools.product(range(4), range(3)):
        chance = stats.binom.pmf(holders, 3, 0.7) * stats.binom.pmf(others, 2, 0.2)
        expected[holders + others] += chance
    assert law.first == 0
    np.testing.assert_allclose(law.chances, expected, atol=1e-12)
    assert law.deviation == pytest.approx(math.sqrt(3 * 0.21 + 2 * 0.16))


def test_coverage_is_the_sum_over_all_counts() -> None:
    # The interval of a normal law around the count, cut where it would be unknown.
    n, chance = 40_000, 0.3

    def said(count: int) -> str:
        if abs(count - 12_000) > 300:
            return "unknown"
        return fate((count - 150.5, count + 150.5), n * chance)

    found = _chances(binomial(n, chance), said)
    counts = np.arange(n + 1)
    chances = stats.binom.pmf(counts, n, chance)
    for what in ("covered", "below", "above", "unknown"):
        where = np.array([said(int(count)) == what for count in counts])
        assert found[what] == pytest.approx(float(chances[where].sum()), abs=1e-8)


def test_the_verdict_allows_for_the_error_of_runs_and_for_nothing_else() -> None:
    assert judged(row(0.95, 1000)) is None
    assert judged(row(0.92, 0)) == "too low"
    assert judged(row(0.92, 1000)) is None
    assert judged(row(0.89, 1000)) == "too low"
    assert judged(row(0.98, 0)) == "too high"
    assert judged(row(0.98, 0, expected=10)) is None
    assert judged(row(0.975, 1000)) is None
    assert judged(row(0.99, 1000)) == "too high"
    low, high = column_bounds(row(0.9, 1000))
    assert stats.binom.sf(899, 1000, low) == pytest.approx(0.001, rel=1e-6)
    assert stats.binom.cdf(900, 1000, high) == pytest.approx(0.001, rel=1e-6)


def test_what_is_unknown_has_to_be_listed() -> None:
    assert not failures([row(0.95, 0)] * 20)
    assert len(failures([row(0.95, 0)] * 20 + [row(0.95, 0, unknown=0.1)])) == 1
    assert len(failures([row(0.95, 0), row(math.nan, 0, unknown=1.0)])) == 2


@pytest.mark.slow
def test_exact_sums_agree_with_runs() -> None:
    [exact] = [
        one
        for one in measured(reports.ESTIMATORS[0], SMALL, seed=1, runs=0)
        if (one.target, one.about) == ("cell", "population")
    ]
    survey, n = reports.survey_of((3,)), SMALL.respondents(0.1 * 0.5 + 0.5 / 3)
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        truth = rng.multinomial(n, [0.1, 0.45, 0.45])
        counts = reports.Histogram.from_table(reports.kept_apart(rng, truth, 0.5))
        blocks = reports.RRIndependent.with_keep(survey, 0.5).blocks
        table = reports.LinearEstimate(reports.JointReports(survey, blocks, counts)).table("a")
        low, high = table.interval(0.95, "population")
        hits += bool(low[0] <= 0.1 <= high[0])
    assert stats.binomtest(hits, 200, exact.covered).pvalue > 1e-6


@pytest.mark.slow
def test_a_wrong_variance_is_found() -> None:
    assert judged(row(0.95, 1000)._replace(variance=-6.0)) == (
        "variance off by -6.0 standard errors"
    )
    assert judged(row(0.95, 1000)._replace(variance=4.0)) is None
    right = reports.ESTIMATORS[3]
    point = Point(1_000, 0.1, 0.5, 2)
    assert not any(abs(one.variance) > 5 for one in measured(right, point, seed=18, runs=100))

    def halved(at: Point, rng: np.random.Generator) -> Iterator[Drawn]:
        for one in reports.two_apart(at, rng):
            if one.said.place:
                table = one.said.answer
                errors = table.standard_errors * 0.5
                yield one._replace(
                    said=one.said._replace(answer=replace(table, standard_errors=errors))
                )

    wrong = Estimator("halved variances", (point,), drawn=halved)
    [given, _] = measured(wrong, point, seed=18, runs=150)
    assert given.variance > 5


def test_a_page_keeps_the_lines_of_what_was_not_measured() -> None:
    point = Point(30, 0.5, 0.1, 3)
    low, right, missing = (
        row(0.8, 400)._replace(estimator="rrba, even fakes", target="cell"),
        row(0.95, 400)._replace(estimator="rrba, even fakes", target="scores", point=point),
        row(math.nan, 0, unknown=1.0)._replace(estimator="pair-rr", target="scores"),
    )
    lines = lines_of([low, right, missing])
    assert "Of 3 figures 1 are unknown (33.3%), 1 too low and 0 too high." in page(lines, seed=1)
    kept = lines_in(table(lines))
    assert kept == lines
    renewed = low._replace(covered=0.96)
    after = page(merged(lines_of([renewed]), kept), seed=2)
    assert "Of 3 figures 1 are unknown (33.3%), 0 too low and 0 too high." in after
    assert after == page(merged(lines_of([renewed, right, missing]), ()), seed=2)


@pytest.mark.parametrize("what", thinned(PLANTS, 3))
def test_planted_faults_are_rejected(what: str) -> None:
    plant = PLANTS[what]
    found = [
        finding
        for point in plant.points
        for finding in findings(
            measured(plant.estimator, point, seed=18, runs=300, reader=plant.reader)
        )
    ]
    assert "too low" in {finding.what for finding in found}


DEAR = [one for one in ESTIMATORS if one.name.startswith("privkv")]
OTHERS = [one for one in ESTIMATORS if one not in DEAR]


@pytest.mark.parametrize(
    "estimator", [*thinned(OTHERS, 6), *map(slow, DEAR)], ids=lambda estimator: estimator.name
)
def test_every_estimator_covers(estimator: Estimator) -> None:
    """In the middle of its part of the grid."""
    point = estimator.points[len(estimator.points) // 2]
    found = findings(measured(estimator, point, seed=18, runs=200))
    listed = (*UNCOVERED, *VARIANCES)
    assert [str(one) for one in found if not any(known.has(one.row) for known in listed)] == []


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: estimator.name)
def test_every_estimator_can_be_measured(estimator: Estimator) -> None:
    point = estimator.points[0]
    rows = measured(estimator, point, seed=18, runs=1)
    whom = {"population"} if estimator.name.startswith("calibrated") else set(ABOUT)
    assert {one.about for one in rows} == whom
