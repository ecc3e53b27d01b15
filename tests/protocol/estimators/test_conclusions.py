"""What an observer concludes from one respondent's reports."""

from __future__ import annotations

import numpy as np
import pytest

from protocol import Block, CodeRandomizer, KeepUniform, MatrixRandomizer
from protocol.estimators.conclusions import conclusions, likelihoods
from tests.enumeration import survey_of

SURVEY = survey_of(2, 3)
PRIOR = np.array([[0.1, 0.2, 0.3], [0.05, 0.05, 0.3]])


def rows_of(randomizer: CodeRandomizer) -> np.ndarray:
    return np.array([[float(each) for each in randomizer.row(i)] for i in range(randomizer.size)])


def test_bayes_by_hand() -> None:
    """A report on one attribute tells about the other too."""
    first, second = KeepUniform.with_keep(2, p=0.6), KeepUniform.with_keep(3, p=0.3)
    found = conclusions(
        SURVEY, (Block(("a",), first), Block(("b",), second)), np.array([1, 2], np.uint8), PRIOR
    )
    joint = PRIOR * np.multiply.outer(rows_of(first)[:, 1], rows_of(second)[:, 2])
    joint /= joint.sum()
    assert [one.attribute for one in found] == ["a", "b"]
    np.testing.assert_allclose(found[0].before, PRIOR.sum(axis=1))
    np.testing.assert_allclose(found[0].after, joint.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found[1].after, joint.sum(axis=0), rtol=1e-12)


def test_a_block_may_have_its_attributes_in_another_order() -> None:
    together = KeepUniform.with_keep(6, p=0.5)
    # b = r and a = y, in the order of the block.
    cell = 2 * 2 + 1
    (a, b) = conclusions(SURVEY, (Block(("b", "a"), together),), np.array([cell], np.uint8), PRIOR)
    likely = rows_of(together)[:, cell].reshape(3, 2).T
    joint = PRIOR * likely / (PRIOR * likely).sum()
    np.testing.assert_allclose(a.after, joint.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(b.after, joint.sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize(("report", "expected"), [(0, [0.0, 1.0, 0.5]), (1, [1.0, 0.0, 1.0])])
def test_what_a_report_rules_out(report: int, expected: list[float]) -> None:
    """Also where the first input cannot give the report, which is what others are compared with."""
    randomizer = MatrixRandomizer.from_probabilities(
        [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.25, 0.5, 0.25]]
    )
    found = likelihoods(randomizer, np.array([report], np.uint8))
    np.testing.assert_allclose(found, expected)
