"""Synthetic records: exact thresholds, the law they follow, and what cannot be drawn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol import (
    Block,
    Counts,
    JointReports,
    LinearEstimate,
    ProductEstimate,
    Records,
    Stream,
    SurveyError,
    Tallies,
    secret_of,
    synthesize,
    synthesize_weighted,
)
from protocol.crypto.randomness import WORDS
from protocol.estimators.synthetic import draw
from tests.enumeration import Floats, keep, survey_of
from tests.statistical import ALPHA, WRONG, chi_square_p_value

LAST = WORDS - 1


class Given(Stream):
    """A stream of words that are written down."""

    def __init__(self, *words: int) -> None:
        super().__init__(bytes(32))
        self._given = np.array(words, np.uint64)

    def words(self, n: int) -> NDArray[np.uint64]:
        taken, self._given = self._given[:n], self._given[n:]
        return taken


def drawn(weights: list[float], *words: int) -> list[int]:
    return [int(place) for place in draw(np.array(weights), len(words), Given(*words))]


# One draw


def test_a_word_falls_to_the_place_of_its_quantile() -> None:
    quarter = WORDS // 4
    words = (0, quarter - 1, quarter, 3 * quarter - 1, 3 * quarter, LAST)
    assert drawn([1, 2, 1], *words) == [0, 0, 1, 1, 2, 2]
    assert drawn([5e307, 1e308, 5e307], *words) == [0, 0, 1, 1, 2, 2]
    assert drawn([5e-324, 1e-323, 5e-324], *words) == [0, 0, 1, 1, 2, 2]


def test_a_weight_of_0_is_never_drawn() -> None:
    half = WORDS // 2
    words = (0, half - 1, half, LAST)
    assert drawn([0, 1, 0, 0, 1, 0], *words) == [1, 1, 4, 4]
    assert drawn([0, 0, 7.5, 0], *words) == [2, 2, 2, 2]


def test_what_rounding_leaves_over_falls_to_the_first_of_the_largest() -> None:
    # A third of 2**64 as the nearest double, which is too little: the first gets more.
    third = int(2.0**64 / 3)
    first = WORDS - 2 * third
    assert 0 < first - third < 2**12
    words = (first - 1, first, first + third - 1, first + third)
    assert drawn([1, 1, 1], *words) == [0, 1, 1, 2]


def test_a_weight_beside_a_much_larger_one() -> None:
    # 2**-60 of the total is 16 words; 2**-70 is less than half a word, so it cannot be drawn.
    assert drawn([2.0**-60, 1], 15, 16, LAST) == [0, 1, 1]
    assert drawn([1, 2.0**-60], 0, LAST - 16, LAST - 15, LAST) == [0, 0, 1, 1]
    assert drawn([1, 2.0**-70], 0, LAST) == [0, 0]
    assert drawn([2.0**-70, 1], 0, LAST) == [1, 1]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=8).filter(any))
def test_only_positive_weights_are_drawn(weights: list[float]) -> None:
    places = drawn(weights, 0, 1, WORDS // 3, WORDS // 2, LAST - 1, LAST)
    assert places == sorted(places)
    assert all(weights[place] > 0 for place in places)


@pytest.mark.parametrize(
    "weights", [[], [0.0, 0.0], [1.0, -1e-9], [1.0, np.nan], [np.inf], [[1.0]]]
)
def test_weights_that_are_none_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match=r"weights of shape|no weight is positive"):
        draw(np.array(weights, np.float64), 3, Stream(secret_of(1)))


# Records of an estimate

SURVEY = survey_of(3, 4, 2)
BLOCKS = (Block(("c", "a"), keep(6, 0.5)), Block(("b",), keep(4, 0.6)))
N = 100_000


def estimate(blocks: tuple[Block, ...] = BLOCKS) -> LinearEstimate[JointReports]:
    answers = np.array([[0, 0, 0], [0, 1, 1], [1, 2, 0], [2, 3, 1], [2, 0, 0]], np.uint8)
    codes = answers.repeat([40, 25, 60, 50, 25], axis=0)
    return LinearEstimate(JointReports(SURVEY, blocks, Counts.of(codes, SURVEY.sizes)))


def check_law(records: Records, names: tuple[str, ...], law: Floats) -> None:
    counts = records.counts(names)
    assert not counts[law == 0].any()
    possible = law > 0
    assert chi_square_p_value(counts[possible], law[possible]) > ALPHA
    wrong = law[possible].copy()
    wrong[np.argmax(wrong)] *= WRONG
    assert chi_square_p_value(counts[possible], wrong / wrong.sum()) < ALPHA


def test_records_follow_the_projected_table_of_each_cluster() -> None:
    records = synthesize(estimate(), N, Stream(secret_of(3)))
    assert len(records) == N
    assert records.survey == SURVEY
    both = estimate().table("a", "c", projection="simplex").values
    assert (both == 0).any()
    assert (estimate().table("a", "c").values < 0).any()
    check_law(records, ("a", "c"), both)
    single = estimate().table("b", projection="simplex").values
    check_law(records, ("b",), single)
    # Clusters are independent, though the reports are not.
    check_law(records, ("b", "a"), np.outer(single, both.sum(axis=1)))


def test_any_partition_may_be_drawn_from() -> None:
    clusters = [["b", "a"], ["c"]]
    records = synthesize(estimate(), N, Stream(secret_of(4)), clusters=clusters)
    check_law(records, ("b", "a"), estimate().table("b", "a", projection="simplex").values)
    product = ProductEstimate(estimate())
    with pytest.raises(ValueError, match="expected clusters"):
        synthesize(product, 10, Stream(secret_of(4)))
    records = synthesize(product, N, Stream(secret_of(5)), clusters=[["a"], ["c", "b"]])
    check_law(records, ("c", "b"), product.table("c", "b", projection="simplex").values)


def test_whole_records_by_one_randomizer_are_drawn_together() -> None:
    survey, totals = survey_of(2, 3), np.array([40, 5, 0, 10, 30, 15])
    found = LinearEstimate(Tallies(survey, survey.names, keep(6, 0.6), totals, 100))
    records = synthesize(found, N, Stream(secret_of(8)))
    check_law(records, ("a", "b"), found.table("a", "b", projection="simplex").values)


def test_the_same_stream_gives_the_same_records() -> None:
    first, again, other = (
        synthesize(estimate(), 500, Stream(secret_of(seed))) for seed in (6, 6, 7)
    )
    assert first == again != other
    # The words are drawn cluster by cluster in the order given, n for each.
    stream = Stream(secret_of(6))
    law = estimate().table("c", "a", projection="simplex").values.ravel()
    pair = draw(law, 500, stream)
    single = draw(estimate().table("b", projection="simplex").values, 500, stream)
    expected = np.stack([pair % 3, single, pair // 3], axis=1)
    np.testing.assert_array_equal(first.codes, expected)
    assert Records.from_csv(SURVEY, first.to_csv().splitlines(keepends=True)) == first


def test_what_cannot_be_drawn_is_refused() -> None:
    stream = Stream(secret_of(8))
    with pytest.raises(ValueError, match="0 records"):
        synthesize(estimate(), 0, stream)
    with pytest.raises(ValueError, match="exactly once"):
        synthesize(estimate(), 10, stream, clusters=[["a", "b"]])
    with pytest.raises(SurveyError, match="no attribute 'z'"):
        synthesize(estimate(), 10, stream, clusters=[["a", "b"], ["z"]])
    wide = survey_of(*[11] * 8)
    counts = Counts.of(np.zeros((1, 8), np.uint8), wide.sizes)
    huge = LinearEstimate(JointReports(wide, (Block(wide.names, keep(wide.cells, 0.5)),), counts))
    with pytest.raises(ValueError, match="214358881 cells, more than 134217728: draw from smaller"):
        synthesize(huge, 10, stream)
    parted = synthesize(huge, 10, stream, clusters=[[name] for name in wide.names])
    assert len(parted) == 10


# Records by weight


def test_records_are_drawn_whole_by_their_weights() -> None:
    codes = np.array([[0, 0, 0], [2, 3, 1], [1, 2, 0], [2, 3, 0]], np.uint8)
    weights = np.array([3.0, 1.0, 0.0, 4.0])
    records = synthesize_weighted(codes, weights, SURVEY, N, Stream(secret_of(9)))
    law = np.zeros(SURVEY.sizes)
    law[tuple(codes.T)] = weights / 8
    check_law(records, SURVEY.names, law)
    again = synthesize_weighted(codes, weights * 10, SURVEY, N, Stream(secret_of(9)))
    assert again == records


def test_weights_that_do_not_fit_the_records_are_refused() -> None:
    codes = np.array([[0, 0, 0], [2, 3, 1]], np.uint8)
    stream = Stream(secret_of(10))
    with pytest.raises(ValueError, match=r"shape \(3,\), expected \(2,\)"):
        synthesize_weighted(codes, [1, 2, 3], SURVEY, 5, stream)
    with pytest.raises(ValueError, match="none below 0"):
        synthesize_weighted(codes, [1, -1], SURVEY, 5, stream)
    with pytest.raises(ValueError, match="0 records"):
        synthesize_weighted(codes, [1, 1], SURVEY, 0, stream)
    with pytest.raises(SurveyError, match="code 9"):
        synthesize_weighted(codes + np.uint8(9), [1, 1], SURVEY, 5, stream)
