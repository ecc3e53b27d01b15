"""Fake answers beside one that is randomized: the law, what it costs, what was claimed."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from protocol import FakeData, Randomizer, Stream, UnsupportedEventError
from protocol.crypto.randomness import WORDS
from protocol.randomizers.vetting import held_dominating, held_epsilon, known
from protocol.testing import lawful
from tests.tiers import paired

test_two_attributes = lawful(
    FakeData.with_epsilon((2, 3), epsilon=1.0), without=("estimate", "covariance")
)
test_equal_sizes = lawful(
    FakeData.with_epsilon((3, 3), epsilon=0.7), without=("estimate", "covariance")
)
test_one_attribute = lawful(
    FakeData.with_epsilon((4,), epsilon=1.0), without=("estimate", "covariance")
)


def probability(randomizer: FakeData, record: tuple[int, ...], report: tuple[int, ...]) -> Fraction:
    """By the definition: each attribute is drawn with 1/m, and all others are uniform."""
    sizes, m = randomizer.sizes, len(randomizer.sizes)
    whole = Fraction(0)
    for place in range(m):
        own = Fraction(1, m) * randomizer.drawn(place).row(record[place])[report[place]]
        for other, size in enumerate(sizes):
            own *= 1 if other == place else Fraction(1, size)
        whole += own
    return whole


@pytest.mark.parametrize("sizes", [(2, 3), (3, 3), (2, 2, 3), (3, 2, 2, 3)])
def test_the_law_is_that_of_the_definition(sizes: tuple[int, ...]) -> None:
    randomizer = FakeData.with_epsilon(sizes, epsilon=0.8)
    records = list(itertools.product(*map(range, sizes)))
    reports = np.array(records, np.uint8)
    for first, second in [(0, len(records) - 1), (0, 1), (1, len(records) // 2)]:
        classes = randomizer.classify(reports, first, second).tolist()
        law = randomizer.law(first, second)
        sums = [[Fraction(0), Fraction(0)] for _ in law]
        for place, report in zip(classes, records, strict=True):
            for side, code in enumerate((first, second)):
                own = probability(randomizer, records[code], report)
                sums[place][side] += own
            if law[place].first:
                ratio = probability(randomizer, records[second], report) / probability(
                    randomizer, records[first], report
                )
                assert ratio == law[place].second / law[place].first
        assert sums == [[part.first, part.second] for part in law]


@pytest.mark.parametrize(
    ("sizes", "epsilon"), paired([(2, 3), (3, 3), (2, 2, 3), (2, 5, 3)], [0.1, 1.0, 4.0])
)
def test_a_record_costs_the_raised_epsilon_and_not_the_claimed_one(
    sizes: tuple[int, ...], epsilon: float
) -> None:
    randomizer = FakeData.with_epsilon(sizes, epsilon=epsilon)
    raised = math.log(len(sizes) * math.expm1(epsilon) + 1)
    assert randomizer.epsilon == pytest.approx(raised, rel=1e-12)
    assert randomizer.epsilon == Randomizer.epsilon.fget(randomizer)
    assert held_epsilon(randomizer).complete == (randomizer.size <= 64)
    held_dominating(randomizer)
    alone = [randomizer.attribute_epsilon(place) for place in range(len(sizes))]
    if len(set(sizes)) == 1:
        assert alone == pytest.approx([epsilon] * len(sizes), rel=1e-12)
    else:
        # The attribute of most categories is told apart better than the authors say.
        assert min(alone) < epsilon < max(alone)
        assert alone[int(np.argmax(sizes))] == max(alone)


def test_one_attribute_is_randomized_response() -> None:
    randomizer = FakeData.with_epsilon((4,), epsilon=1.0)
    assert randomizer.epsilon == pytest.approx(1.0, abs=1e-12)
    assert randomizer.epsilon <= 1.0


@pytest.mark.parametrize("place", [0, 1])
def test_a_column_has_the_law_of_its_randomizer(place: int) -> None:
    randomizer = FakeData.with_epsilon((2, 3), epsilon=1.0)
    other = randomizer.sizes[1 - place]
    for code in range(6):
        record = divmod(code, 3)
        for answer in range(randomizer.sizes[place]):
            reports = [(answer, x) if place == 0 else (x, answer) for x in range(other)]
            share = sum((probability(randomizer, record, report) for report in reports), Fraction())
            assert share == randomizer.column(place).row(record[place])[answer]


def test_a_law_of_too_many_classes_is_refused_and_its_epsilon_known() -> None:
    randomizer = FakeData.with_epsilon(range(2, 14), epsilon=1.0)
    assert randomizer.epsilon == pytest.approx(math.log(12 * math.expm1(1) + 1), rel=1e-12)
    with pytest.raises(UnsupportedEventError, match=r"16,777,216 classes of reports, listed up to"):
        randomizer.law(0, randomizer.farthest(0))
    assert known(randomizer) is randomizer


def test_records_of_many_attributes_of_few_sizes_have_a_law() -> None:
    randomizer = FakeData.with_epsilon([4] * 20, epsilon=1.0)
    law = randomizer.law(0, randomizer.farthest(0))
    assert sum(part.first for part in law) == 1
    assert max(part.first / part.second for part in law) == randomizer._ratio(range(20))
    reports = randomizer.randomize(np.zeros(1000, np.uint64), Stream(bytes(32)))
    assert randomizer.classify(reports, 0, randomizer.farthest(0)).max() < len(law)


@pytest.mark.parametrize(
    ("sizes", "thresholds", "why"),
    [
        ((), (), "0 thresholds of 0 sizes"),
        ((2, 3), (1,), "1 thresholds of 2 sizes"),
        ((2, 1), (1, 1), "size 1: expected 2"),
        ((2, 3), (1, WORDS // 2), "threshold 18446744073709551616: expected"),
        ((2,) * 64, (1,) * 64, "combinations of answers: expected fewer than"),
    ],
)
def test_what_is_no_such_randomizer_is_refused(
    sizes: tuple[int, ...], thresholds: tuple[int, ...], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        FakeData(sizes, thresholds)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan, 1e-30])
def test_an_epsilon_that_cannot_be_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        FakeData.with_epsilon((2, 3), epsilon=epsilon)
