"""Counts of reports on marginals: they add up, and what cannot be is refused."""

from __future__ import annotations

import numpy as np
import pytest

from protocol.randomizers.marginals import METHODS, MarginalPlan, MarginalReports, Method
from protocol.variants.marginals import counts as marginal_counts
from protocol.variants.marginals.counts import MarginalCounts
from tests.scripted import seeded

PLANS = {method: MarginalPlan.with_epsilon(method, d=3, k=2, epsilon=1.1) for method in METHODS}


def counted(method: Method, n: int = 400) -> MarginalCounts:
    plan = PLANS[method]
    cells = np.random.default_rng(1).integers(0, 8, n).astype(np.uint8)
    return MarginalCounts.of(plan, plan.randomize(cells, seeded()))


@pytest.mark.parametrize("method", METHODS)
def test_counts_are_those_of_the_reports(method: Method) -> None:
    plan = PLANS[method]
    cells = np.random.default_rng(2).integers(0, 8, 60).astype(np.uint8)
    reports = plan.randomize(cells, seeded(2))
    counts = MarginalCounts.of(plan, reports)
    numbers, totals = np.zeros_like(counts.reports), np.zeros_like(counts.totals)
    for choice, answer in zip(reports.choices, reports.answers, strict=True):
        numbers[choice] += 1
        if plan.transformed:
            totals[choice, 0] += answer
        elif method.endswith("PS"):
            totals[choice, answer] += 1
        else:
            totals[choice] += np.unpackbits(answer, count=plan.cells, bitorder="little")
    np.testing.assert_array_equal(counts.reports, numbers)
    np.testing.assert_array_equal(counts.totals, totals)


def test_one_hot_reports_are_unpacked_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = counted("InpRR")
    monkeypatch.setattr(marginal_counts, "_UNPACKED_AT_ONCE", 20)
    np.testing.assert_array_equal(counted("InpRR").totals, whole.totals)


@pytest.mark.parametrize("method", METHODS)
def test_counts_add_up(method: Method) -> None:
    plan = PLANS[method]
    cells = np.random.default_rng(3).integers(0, 8, 90).astype(np.uint8)
    reports = plan.randomize(cells, seeded(8))
    whole = MarginalCounts.of(plan, reports)
    parts = [
        MarginalCounts.of(plan, MarginalReports(reports.choices[cut], reports.answers[cut]))
        for cut in (slice(0, 20), slice(20, 21), slice(21, 90))
    ]
    joined = MarginalCounts.joined(parts)
    np.testing.assert_array_equal(joined.reports, whole.reports)
    np.testing.assert_array_equal(joined.totals, whole.totals)
    assert joined.n == whole.n == 90


def test_counts_that_cannot_be_are_refused() -> None:
    plan = PLANS["MargPS"]
    fine = counted("MargPS")
    ones = np.ones((3, 4), np.int64)
    for reports, totals, message in (
        (fine.reports[:2], fine.totals, "shape"),
        (fine.reports, fine.totals[:, :3], "shape"),
        (fine.reports.astype(float), fine.totals, "int64"),
        (fine.reports, -fine.totals, "negative"),
        (np.full(3, 3), ones, "add up"),
        (np.zeros(3, np.int64), ones, "larger than"),
        (np.zeros(3, np.int64), 0 * ones, "no report"),
    ):
        with pytest.raises(ValueError, match=message):
            MarginalCounts(plan=plan, reports=reports, totals=totals)
    for parts in ([], [fine, counted("MargHT")]):
        with pytest.raises(ValueError, match="one plan"):
            MarginalCounts.joined(parts)


def test_reports_that_cannot_be_are_refused() -> None:
    zeros, packed = np.zeros(2, np.uint8), np.zeros((2, 1), np.uint8)
    for method, choices, answers, message in (
        ("MargPS", zeros + np.uint8(3), zeros, "code 3"),
        ("MargPS", zeros, zeros + np.uint8(4), "code 4"),
        ("MargHT", zeros, zeros + np.uint8(2), "code 2"),
        ("MargPS", zeros, packed, "shape"),
        ("MargRR", zeros, zeros, "shape"),
        ("MargRR", zeros, packed + np.uint8(16), "beyond"),
        ("MargRR", zeros, packed.astype(np.uint16), "uint8"),
        ("InpPS", zeros + np.uint8(1), zeros, "code 1"),
    ):
        with pytest.raises(ValueError, match=message):
            MarginalCounts.of(PLANS[method], MarginalReports(choices, answers))
