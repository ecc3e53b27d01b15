"""Numbers on a grid: exact laws, means without bias, variances and epsilons."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TypeAlias

import pytest

from protocol import MeanRandomizer, OneBitMean, PiecewiseMean
from protocol.crypto.randomness import WORDS
from protocol.randomizers.pairs import largest_ratio, total_variation_of_law
from protocol.randomizers.vetting import held_dominating
from protocol.testing import check_randomizer
from tests.statistical import score_variance
from tests.tiers import thinned

Grid: TypeAlias = type[OneBitMean] | type[PiecewiseMean]

BITS = tuple(OneBitMean.with_epsilon(size, epsilon=1.0) for size in (2, 3, 17))
PLACES = (
    PiecewiseMean.with_epsilon(2, epsilon=1.0, step=6),
    PiecewiseMean.with_epsilon(5, epsilon=2.0, step=3),
    PiecewiseMean.with_epsilon(9, epsilon=6.0, step=1),
    PiecewiseMean(4, 1, 7, WORDS // 3),  # windows that always overlap
)


@pytest.mark.parametrize("randomizer", BITS, ids=str)
def test_contract_of_one_bit(randomizer: OneBitMean) -> None:
    check_randomizer(randomizer, without=() if randomizer.size == 2 else ("estimate",))


@pytest.mark.parametrize("randomizer", thinned(PLACES, 2), ids=str)
def test_contract_of_places(randomizer: PiecewiseMean) -> None:
    check_randomizer(randomizer)


@pytest.mark.parametrize("randomizer", [*BITS, *PLACES], ids=str)
def test_what_is_in_closed_form_follows_from_the_law(randomizer: MeanRandomizer) -> None:
    size, scores = randomizer.size, randomizer.scores
    assert randomizer.values == tuple(Fraction(2 * i, size - 1) - 1 for i in range(size))
    rows = [randomizer.row(code) for code in range(size)]
    for code, row in enumerate(rows):
        assert sum(row) == 1
        mean = sum(p * s for p, s in zip(row, scores, strict=True))
        assert mean == randomizer.values[code]
        squares = sum(p * s**2 for p, s in zip(row, scores, strict=True))
        if randomizer.squares is not None:
            constant, slope = randomizer.squares
            assert constant + slope * mean**2 == squares
    laws = [list(zip(*pair, strict=True)) for pair in itertools.combinations(rows, 2)]
    ratios = [ratio for law in laws if (ratio := largest_ratio(law)) is not None]
    assert len(ratios) == len(laws)
    assert randomizer.epsilon == pytest.approx(math.log(max(ratios)), rel=1e-14)
    assert randomizer.dominating.pairs is not None
    [pair] = randomizer.dominating.pairs
    assert (pair.ratio, pair.distance) == (max(ratios), max(map(total_variation_of_law, laws)))
    assert held_dominating(randomizer) == randomizer.dominating


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_the_variance_of_one_bit_is_the_papers(epsilon: float) -> None:
    # Duchi, Jordan and Wainwright: reports are plus or minus (e**eps + 1)/(e**eps - 1).
    randomizer = OneBitMean.with_epsilon(11, epsilon=epsilon)
    most = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    assert float(randomizer.scores[1]) == pytest.approx(most, rel=1e-12)
    for code, value in enumerate(randomizer.values):
        expected = most**2 - float(value) ** 2
        assert score_variance(randomizer, code) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "within"), [(0.2, 1e-3), (1.0, 1e-3), (2.0, 2e-3), (4.0, 0.01)]
)
def test_the_variance_of_places_is_nearly_the_papers(epsilon: float, within: float) -> None:
    # Wang et al., Lemma 1: t**2/(e**(eps/2) - 1) + (e**(eps/2) + 3)/(3 (e**(eps/2) - 1)**2).
    randomizer = PiecewiseMean.with_epsilon(11, epsilon=epsilon)
    assert randomizer.bits == 8
    half = math.exp(epsilon / 2)
    for code, value in enumerate(randomizer.values):
        expected = float(value) ** 2 / (half - 1) + (half + 3) / (3 * (half - 1) ** 2)
        assert score_variance(randomizer, code) == pytest.approx(expected, rel=within)
    # And C, the largest report.
    assert float(randomizer.scores[-1]) == pytest.approx((half + 1) / (half - 1), rel=0.02)
