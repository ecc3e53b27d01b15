"""How far false reports move an estimate: what the threat model says of liars, over all tables.

Reports were each kept with probability p or else drawn uniformly from all categories. Moving one of
them from a category to another stands for one liar. Every table of counts is gone through, so m
liars move a share by at most m times what one does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from protocol import Block, Counts, JointReports, LinearEstimate, Projection, Tallies, UnaryEncoding
from tests.enumeration import Floats, keep, survey_of

N, SIZE = 7, 4
PROJECTIONS: tuple[Projection, ...] = ("clip", "simplex")


def tables_of(n: int, size: int) -> Iterator[tuple[int, ...]]:
    """All tables of n counts."""
    for bars in itertools.combinations(range(n + size - 1), size - 1):
        ends = (-1, *bars, n + size - 1)
        yield tuple(b - a - 1 for a, b in itertools.pairwise(ends))


def reported(table: tuple[int, ...], p: float) -> LinearEstimate[JointReports]:
    survey = survey_of(SIZE)
    block = Block(("a",), keep(SIZE, p))
    return LinearEstimate(
        JointReports(survey, (block,), Counts.from_table(np.array(table, np.int64)))
    )


def moves(p: float, projection: Projection) -> Iterator[Floats]:
    """By how much one liar moves the shares, of every table of counts."""
    found = {
        table: reported(table, p).table("a", projection=projection).values
        for table in tables_of(N, SIZE)
    }
    for table, shares in found.items():
        for one, other in itertools.permutations(range(SIZE), 2):
            if table[one]:
                moved = list(table)
                moved[one] -= 1
                moved[other] += 1
                yield found[tuple(moved)] - shares


@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
def test_a_liar_moves_a_share_by_one_report_over_the_keep_probability(p: float) -> None:
    found = np.array(list(moves(p, "none")))
    # Attained by every lie: up in one share, down in another, and 0 in all others.
    ends = np.sort(found, axis=1)
    np.testing.assert_allclose(ends[:, [0, -1]], [[-1 / (N * p), 1 / (N * p)]] * len(found))
    np.testing.assert_allclose(ends[:, 1:-1], 0.0, atol=1e-12)
    # Of a set of categories likewise, by all liars together.
    before, after = (reported(table, p) for table in ((N, 0, 0, 0), (N - 3, 1, 2, 0)))
    for inside in itertools.product((0, 1), repeat=SIZE):
        change = after.query(("a",), inside).value - before.query(("a",), inside).value
        assert abs(change) <= 3 / (N * p) + 1e-12
    change = after.query(("a",), (1, 0, 0, 0)).value - before.query(("a",), (1, 0, 0, 0)).value
    assert change == pytest.approx(-3 / (N * p))


@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
def test_the_keep_probability_is_the_difference_of_the_truth_and_another(p: float) -> None:
    randomizer = keep(SIZE, p)
    truth, other = p + (1 - p) / SIZE, (1 - p) / SIZE
    assert float(randomizer.support.hit) == pytest.approx(truth)
    assert truth - other == pytest.approx(p)


@pytest.mark.parametrize("projection", PROJECTIONS)
@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
def test_a_projection_of_one_table_moves_no_share_farther(p: float, projection: Projection) -> None:
    found = np.array(list(moves(p, projection)))
    assert np.abs(found).max() <= 1 / (N * p) + 1e-12
    # Nor that of any set of categories.
    assert np.abs(found).sum(axis=1).max() / 2 <= 1 / (N * p) + 1e-12


def test_a_report_counts_by_its_weight() -> None:
    survey, p = survey_of(SIZE), 0.5
    codes = np.array([[0], [1], [2], [3]], np.uint8)
    weights = np.array([1.0, 4.0, 2.0, 3.0])
    estimate = LinearEstimate(
        JointReports(survey, (Block(("a",), keep(SIZE, p)),), Counts.of(codes, survey.sizes))
    )
    before = estimate.source.asked(("a",), weights / weights.sum()).values()
    # The heaviest says 3, not 1.
    lied = weights + np.array([0.0, -4.0, 0.0, 4.0])
    after = estimate.source.asked(("a",), lied / weights.sum()).values()
    most = weights.max() / (weights.sum() * p)
    np.testing.assert_allclose(after - before, [0, -most, 0, most], atol=1e-12)


def test_reports_of_several_attributes_move_a_share_of_both_farther() -> None:
    """By the range of the product of two scores, not by the product of their ranges."""
    survey, keeps = survey_of(2, 3), (0.6, 0.5)
    blocks = tuple(
        Block((name,), keep(size, p))
        for name, size, p in zip(survey.names, survey.sizes, keeps, strict=True)
    )
    inverses = [
        np.linalg.inv(p * np.eye(r) + (1 - p) / r) for r, p in zip((2, 3), keeps, strict=True)
    ]
    scores = np.kron(*inverses)
    ranges = scores.max(axis=0) - scores.min(axis=0)

    def shares(*codes: tuple[int, int]) -> Floats:
        counts = Counts.of(np.array(codes, np.uint8), survey.sizes)
        found: Floats = (
            LinearEstimate(JointReports(survey, blocks, counts)).table("a", "b").values.ravel()
        )
        return found

    rest = ((0, 0), (1, 2), (1, 1))
    cells = list(itertools.product(range(2), range(3)))
    found = [shares(one, *rest) - shares(other, *rest) for one in cells for other in cells]
    np.testing.assert_allclose(np.abs(found).max(axis=0), ranges / 4)
    assert (ranges > 1 / min(keeps)).all()


def test_a_unary_report_moves_all_shares_at_once() -> None:
    survey, n = survey_of(SIZE), 1_000
    randomizer = UnaryEncoding.optimized(SIZE, epsilon=2.0)

    def shares(totals: list[int], projection: Projection = "none") -> Floats:
        found = LinearEstimate(Tallies(survey, ("a",), randomizer, np.array(totals), n))
        return found.table("a", projection=projection).values

    each = 1 / (n * float(randomizer.support.gain))
    np.testing.assert_allclose(shares([401, 301, 201, 301]) - shares([400, 300, 200, 300]), each)
    # Raw shares need not add up to 1: where they are rescaled to it, one may move farther.
    before, after = [0, 0, 200, 200], [0, 0, 201, 200]
    assert shares(before).clip(0).sum() < 1
    assert (shares(after, "clip") - shares(before, "clip")).max() > 1.1 * each
