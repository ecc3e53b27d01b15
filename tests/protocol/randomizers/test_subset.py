"""Subset selection: its law by enumeration, its epsilon, and the variance of the papers."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from protocol import Stream, SubsetSelection, secret_of
from protocol.crypto.randomness import WORDS
from protocol.testing import check_randomizer
from tests.protocol.randomizers.test_made_by_epsilon import EPSILONS
from tests.scripted import Scripted
from tests.tiers import thinned

SMALL = (
    SubsetSelection.with_epsilon(2, epsilon=1.0),
    SubsetSelection.with_epsilon(3, epsilon=0.1, chosen=2),
    SubsetSelection.with_epsilon(6, epsilon=1.0),
    SubsetSelection.with_epsilon(9, epsilon=0.5),
    SubsetSelection.with_epsilon(7, epsilon=2.0, chosen=6),
)


def packed(sets: list[tuple[int, ...]], size: int) -> NDArray[np.uint8]:
    bits = np.zeros((len(sets), size), np.uint8)
    for row, codes in enumerate(sets):
        bits[row, list(codes)] = 1
    return np.packbits(bits, axis=1, bitorder="little")


def law_of(randomizer: SubsetSelection, code: int) -> dict[tuple[int, ...], Fraction]:
    """The probability of every set, as the class describes it."""
    size, chosen, p = randomizer.size, randomizer.chosen, Fraction(randomizer.threshold, WORDS)
    return {
        held: p / math.comb(size - 1, chosen - 1)
        if code in held
        else (1 - p) / math.comb(size - 1, chosen)
        for held in itertools.combinations(range(size), chosen)
    }


@pytest.mark.parametrize("randomizer", thinned(SMALL, 1), ids=str)
def test_contract(randomizer: SubsetSelection) -> None:
    check_randomizer(randomizer)


@pytest.mark.parametrize("randomizer", SMALL, ids=str)
def test_the_law_is_that_of_all_sets(randomizer: SubsetSelection) -> None:
    first, second = 0, randomizer.size - 1
    one, other = law_of(randomizer, first), law_of(randomizer, second)
    assert sum(one.values()) == 1
    law = randomizer.law(first, second)
    classes = randomizer.classify(packed(list(one), randomizer.size), first, second)
    for place, part in enumerate(law):
        inside = [held for held, found in zip(one, classes, strict=True) if found == place]
        assert part.first == sum(one[held] for held in inside)
        assert part.second == sum(other[held] for held in inside)
        assert {(first in held, second in held) for held in inside} <= {part.supports}
    largest = max(one[held] / other[held] for held in one)
    assert randomizer.epsilon == pytest.approx(math.log(largest), rel=1e-14)
    support = randomizer.support
    if randomizer.size > 2:
        assert support.both_other == sum(share for held, share in one.items() if {1, 2} <= {*held})
    assert support.both_hit == sum(share for held, share in one.items() if {0, 1} <= {*held})


def test_all_sets_are_drawn_as_often_as_they_should() -> None:
    randomizer = SubsetSelection.with_epsilon(7, epsilon=0.7)
    assert randomizer.chosen == 2
    n, law = 400_000, law_of(randomizer, 3)
    reports = randomizer.randomize(np.full(n, 3, np.uint8), Stream(secret_of(8)))
    counts = np.bincount(reports[:, 0], minlength=128)[packed(list(law), 7)[:, 0]]
    assert counts.sum() == n
    expected = [float(share) * n for share in law.values()]
    assert stats.chisquare(counts, expected).pvalue > 1e-6


def ranked(*ranks: int) -> list[int]:
    """Half words, two to a word."""
    padded = [*ranks, *[0] * (len(ranks) % 2)]
    return [low + (high << 32) for low, high in zip(padded[::2], padded[1::2], strict=True)]


def test_a_tie_at_the_edge_of_the_set_is_drawn_anew() -> None:
    randomizer = SubsetSelection(5, 2, WORDS // 2)
    held, missed = WORDS // 2 - 1, WORDS // 2
    draws = (
        # The first report's own code is in, and 1 and 2 tie; the second's is out.
        [held, missed, *ranked(9, 4, 4, 8, 7, 5, 1, 6, 8, 2)],
        # Its own code stays in whatever it draws, and 4 is next to it.
        ranked(99, 5, 5, 6, 3),
    )
    reports = randomizer.randomize(np.zeros(2, np.uint8), Scripted(*draws[0], *draws[1]))
    assert reports.tolist() == [[0b10001], [0b10010]]


def test_a_code_that_is_out_stays_out_and_one_that_is_in_stays_in() -> None:
    last = 2**32 - 1
    randomizer = SubsetSelection(3, 2, 3 * WORDS // 4)
    out = [WORDS - 1, *ranked(0, 1, last), *ranked(0, 2, 1)]
    assert randomizer.randomize(np.zeros(1, np.uint8), Scripted(*out)).tolist() == [[0b110]]
    single = SubsetSelection(3, 1, WORDS // 2)
    held = [0, *ranked(5, 0, 1), *ranked(5, 2, 1)]
    assert single.randomize(np.zeros(1, np.uint8), Scripted(*held)).tolist() == [[0b001]]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("size", [2, 3, 100, 2**16])
def test_as_many_are_chosen_as_the_papers_say(size: int, epsilon: float) -> None:
    randomizer = SubsetSelection.with_epsilon(size, epsilon=epsilon)
    assert randomizer.chosen == max(1, round(size / (math.exp(min(epsilon, 200.0)) + 1)))


def test_the_variance_is_the_papers() -> None:
    # Ye and Barg: the expected squared error of all shares, where the answers are uniform.
    size, chosen, odds, n = 10, 3, math.e, 1000
    randomizer = SubsetSelection.with_epsilon(size, epsilon=1.0, chosen=chosen)
    expected = ((size - 1) * (chosen * odds + size - chosen)) ** 2 / (
        n * size * chosen * (size - chosen) * (odds - 1) ** 2
    )
    sampled = (1 - 1 / size) / n
    given = randomizer.variances(np.full(size, 1 / size), n).sum()
    assert given + sampled == pytest.approx(expected, rel=1e-9)


def test_a_best_guess_is_any_code_of_the_set() -> None:
    randomizer = SMALL[3]
    laws = [law_of(randomizer, code) for code in range(9)]
    best = sum(max(law[held] for law in laws) for held in laws[0]) / 9
    assert randomizer.best_guess() == float(best)
    assert randomizer.best_guess(randomizer) is None


def test_what_is_not_a_report() -> None:
    randomizer = SubsetSelection(9, 2, WORDS // 2)
    good = packed([(0, 8)], 9)
    assert randomizer.fits(good)
    assert randomizer.tally(good).tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert not randomizer.fits(packed([(0, 1, 2)], 9))
    for bad in (packed([(0, 1, 2)], 9), good | np.uint8(0x82), good[:, :1], good.astype(np.uint16)):
        with pytest.raises(ValueError, match=r"expected|beyond its cells"):
            randomizer.tally(bad)
