"""Hadamard response: its law by enumeration, its decoding, and covariances by the third row."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from protocol import HadamardResponse, Stream, secret_of
from protocol.crypto.randomness import WORDS
from protocol.randomizers.oracles import hadamard_response
from protocol.testing import check_randomizer
from tests.tiers import thinned

SMALL = (
    HadamardResponse.with_epsilon(2, epsilon=1.0),
    HadamardResponse.with_epsilon(3, epsilon=0.5),
    HadamardResponse.with_epsilon(4, epsilon=1.0),
    HadamardResponse.with_epsilon(11, epsilon=2.0),
    HadamardResponse(255, 3 * WORDS // 4),
)


def sign(row: int, place: int) -> int:
    return -1 if (row & place).bit_count() % 2 else 1


def law_of(randomizer: HadamardResponse, code: int) -> list[Fraction]:
    """The probability of every place, as the class describes it."""
    p, half = Fraction(randomizer.threshold, WORDS), randomizer.places // 2
    return [
        p / half if sign(code + 1, place) == 1 else (1 - p) / half
        for place in range(randomizer.places)
    ]


@pytest.mark.parametrize("randomizer", thinned(SMALL, 2), ids=str)
def test_contract(randomizer: HadamardResponse) -> None:
    check_randomizer(randomizer)


@pytest.mark.parametrize("randomizer", SMALL[:4], ids=str)
def test_the_law_is_that_of_all_places(randomizer: HadamardResponse) -> None:
    laws = [law_of(randomizer, code) for code in range(randomizer.size)]
    places = np.arange(randomizer.places, dtype=np.uint8)
    for first, second in itertools.permutations(range(randomizer.size), 2):
        classes = randomizer.classify(places, first, second)
        for number, part in enumerate(randomizer.law(first, second)):
            inside = np.flatnonzero(classes == number)
            assert part.first == sum(laws[first][place] for place in inside)
            assert part.second == sum(laws[second][place] for place in inside)
            assert {(sign(first + 1, y) == 1, sign(second + 1, y) == 1) for y in inside} == {
                part.supports
            }
    ratio = max(one / other for one, other in zip(laws[0], laws[1], strict=True))
    assert randomizer.epsilon == pytest.approx(math.log(ratio), rel=1e-14)


@pytest.mark.parametrize("randomizer", SMALL[:4], ids=str)
def test_places_are_drawn_as_often_as_they_should(randomizer: HadamardResponse) -> None:
    n = 200_000
    for code in range(randomizer.size):
        reports = randomizer.randomize(np.full(n, code, np.uint8), Stream(secret_of(code)))
        counts = np.bincount(reports, minlength=randomizer.places)
        expected = [float(share) * n for share in law_of(randomizer, code)]
        assert stats.chisquare(counts, expected).pvalue > 1e-6


def test_counts_are_those_of_the_signs() -> None:
    randomizer = HadamardResponse.with_epsilon(100, epsilon=1.0)
    stream = Stream(secret_of(4))
    reports = randomizer.randomize(stream.integers(100, 500).astype(np.uint8), stream)
    expected = [sum(sign(code + 1, int(y)) == 1 for y in reports) for code in range(100)]
    assert randomizer.tally(reports).tolist() == expected
    halves = randomizer.tally(reports[:200]) + randomizer.tally(reports[200:])
    assert halves.tolist() == expected


@pytest.mark.parametrize("size", [3, 5, 7])
def test_the_covariance_is_that_of_the_law(size: int) -> None:
    randomizer = HadamardResponse.with_epsilon(size, epsilon=1.0)
    answers = np.arange(1.0, size + 1)
    shares, n = answers / answers.sum(), 50
    counted = np.array(
        [[sign(row, y) == 1 for row in range(1, size + 1)] for y in range(randomizer.places)], float
    )
    expected = np.zeros((size, size))
    for code in range(size):
        law = np.array([float(share) for share in law_of(randomizer, code)])
        means = law @ counted
        expected += shares[code] * (counted.T @ (law[:, None] * counted) - np.outer(means, means))
    expected /= n * float(randomizer.p - Fraction(1, 2)) ** 2
    np.testing.assert_allclose(randomizer.covariance(shares, n), expected, atol=1e-14)


@pytest.mark.parametrize("at_once", [1, 2**22])
@pytest.mark.parametrize("number", [1, 3, 20, 60])
def test_variances_of_sums_are_those_of_the_covariance(
    number: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hadamard_response, "_TRANSFORMED_AT_ONCE", at_once)
    randomizer = HadamardResponse.with_epsilon(60, epsilon=1.0)
    rng = np.random.default_rng(number)
    shares, weights = rng.dirichlet(np.ones(60)), rng.normal(size=60)
    groups = rng.permutation(np.arange(60) % number)
    covariance = randomizer.covariance(shares, 9)
    alike = (groups == np.arange(number)[:, None]) * weights
    expected = np.einsum("gi,ij,gj->g", alike, covariance, alike)
    found = randomizer.sum_variances(shares, 9, groups, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize(("size", "places", "bits"), [(2, 4, 8), (255, 256, 8), (256, 512, 16)])
def test_a_report_is_one_number(size: int, places: int, bits: int) -> None:
    randomizer = HadamardResponse.with_epsilon(size, epsilon=1.0)
    assert (randomizer.places, randomizer.bits) == (places, bits)


def test_the_variance_is_the_papers() -> None:
    # Signs: that of a code's row has mean f (e**eps - 1)/(e**eps + 1), and square 1.
    n, odds = 1000, math.e
    randomizer = HadamardResponse.with_epsilon(100, epsilon=1.0)
    expected = ((odds + 1) / (odds - 1)) ** 2 / n
    assert randomizer.variances(np.zeros(1), n)[0] == pytest.approx(expected, rel=1e-12)
