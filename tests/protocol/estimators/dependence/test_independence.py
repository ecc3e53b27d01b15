"""The test of independence that every estimate has: which one it is, and its size and power."""

from __future__ import annotations

import numpy as np

from protocol import (
    Block,
    Counts,
    ExactTables,
    JointReports,
    KeepUniform,
    LinearEstimate,
    MatrixRandomizer,
    Randomizer,
    Records,
    exact_test,
    noise_aware_test,
)
from tests.enumeration import survey_of

SURVEY = survey_of(2, 3, 2)
RECORDS = Records(
    SURVEY,
    np.stack([np.arange(400) % 2, np.arange(400) % 3, np.arange(400) % 5 % 2], axis=1).astype("u1"),
)


def estimated(*blocks: tuple[tuple[str, ...], Randomizer]) -> LinearEstimate[JointReports]:
    counts = Counts.of(RECORDS.codes, SURVEY.sizes)
    return LinearEstimate(JointReports(SURVEY, tuple(Block(*block) for block in blocks), counts))


def test_reports_of_different_blocks_are_tested_as_they_are() -> None:
    estimate = estimated(
        (("a", "b"), KeepUniform.with_keep(6, p=0.5)), (("c",), KeepUniform.with_keep(2, p=0.7))
    )
    expected = exact_test(estimate.source.counts.table((2, 0)))
    found = estimate.independence("c", "a")
    assert (found.test, float(found.p_value)) == ("exact", float(expected.p_value))


def test_reports_of_one_block_are_tested_with_its_keep_probability() -> None:
    keep = KeepUniform.with_keep(12, p=0.5)
    estimate = estimated((("a", "b", "c"), keep))
    expected = noise_aware_test(estimate.source.counts.table((0, 1)), keep=keep.uniform_keep)
    found = estimate.independence("a", "b")
    assert (found.test, float(found.statistic)) == ("noise-aware", float(expected.statistic))


def test_any_other_estimate_has_the_test_of_its_table_with_its_covariance() -> None:
    flips = MatrixRandomizer.from_probabilities([[0.9, 0.1], [0.2, 0.8]])
    estimate = estimated(
        (("a",), flips), (("b",), KeepUniform.with_keep(3, p=0.9)), (("c",), flips)
    )
    assert estimate.independence("a", "c").test == "wald"


def test_exact_counts_have_pearsons_test() -> None:
    exact = LinearEstimate(ExactTables(SURVEY, {("a", "b"): RECORDS.counts(("a", "b"))}))
    found, expected = exact.independence("a", "b"), exact_test(RECORDS.counts(("a", "b")))
    assert (found.test, found.p_value) == ("exact", expected.p_value)
