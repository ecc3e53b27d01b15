"""Secure sums: exact counts, counts with coins, and counts of randomized pairs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from protocol import ExactTables, LinearEstimate, NoisyTables, Survey
from protocol.variants import PairRR
from protocol.variants.sums.tallies import all_pairs
from tests.coverage_gate.cases import ABOUT, Counted, Drawn, Estimator, Said
from tests.coverage_gate.estimators.surveys import (
    filled,
    first_cell,
    numbers,
    said_of,
    survey_of,
    two_valued,
)
from tests.coverage_gate.grid import Point, between, fraction, grid
from tests.coverage_gate.laws import (
    Counts,
    Law,
    binomial,
    drawn,
    kept_together,
    sum_of,
    uneven,
)


def exact(point: Point) -> Iterator[Counted]:
    """True counts of an attribute."""
    r = point.categories
    survey, n = survey_of((r,)), point.respondents(point.share)

    def said(count: int) -> list[Said]:
        return said_of(
            LinearEstimate(ExactTables(survey, {("a",): filled(count, n, r)})), "a", count=True
        )

    return two_valued(n, point.share, hit=1.0, other=0.0, said=said)


class Coins(NamedTuple):
    """The coins in a cell.

    Args:
        trials: how many.
        chance: of each to be 1.
    """

    trials: int
    chance: float

    @classmethod
    def at(cls, point: Point, chance: float) -> Coins:
        """As many as make ``keep`` the part that sampling has in the variance of a cell."""
        sampled = point.expected * (1 - point.share)
        variance = sampled * (1 - point.keep) / point.keep
        return cls(max(1, round(variance / chance / (1 - chance))), chance)

    def tables(
        self, survey: Survey, counts: dict[tuple[str, ...], Counts], n: int
    ) -> LinearEstimate[NoisyTables]:
        """The estimate from counts with such coins."""
        return LinearEstimate(
            NoisyTables(survey, counts, n, self.trials, round(2**16 * self.chance))
        )


CHANCES = (("fair", 0.5), ("rare", 1 / 16))
"""Of coins to be 1."""

NOISY, TABLES = grid(categories=(2,)), fraction((2, 3))
"""Where counts with coins are measured."""


def noisy(chance: float, point: Point) -> Iterator[Counted]:
    """Counts of an attribute of two categories, with coins.

    What is left of the coins when the total is known is half of their difference.
    """
    survey, n = survey_of((2,)), point.respondents(point.share)
    coins, holders = Coins.at(point, chance), round(n * point.share)
    middle = 2 * round(coins.trials * chance) + n

    def said(twice: int) -> list[Said]:
        # Twice the holders and the difference of the coins, shifted by a number of them.
        apart = twice - coins.trials - n
        total = middle + (apart - middle) % 2
        total = min(max(total, abs(apart)), 2 * (n + coins.trials) - abs(apart))
        counts = np.array([(total + apart) // 2, (total - apart) // 2])
        return said_of(coins.tables(survey, {("a",): counts}, n), "a")

    difference = sum_of(binomial(coins.trials, chance), binomial(coins.trials, 1 - chance))
    for about in ABOUT:
        sampled = about == "population"
        people = binomial(n, point.share) if sampled else Law(holders, np.ones(1))
        truth = point.share if sampled else holders / n
        targets = ("cell", "set") if point.share == 0.1 else ("cell",)
        yield Counted(
            about=about,
            truth=dict.fromkeys(targets, truth),
            law=sum_of(twice(people), difference),
            said=said,
            slope=dict.fromkeys(targets, 0.5 / n),
            bounds=dict.fromkeys(targets, (0.0, 1.0)),
        )


def twice(law: Law) -> Law:
    """The law of twice a count."""
    chances = np.zeros(2 * len(law.chances) - 1)
    chances[::2] = law.chances
    return Law(2 * law.first, chances)


def noisy_pairs(chance: float, point: Point, rng: np.random.Generator) -> Iterator[Drawn]:
    """Three attributes, counts of every pair with coins, made to agree."""
    r = point.categories
    survey, law = survey_of((r, r, r)), uneven((r, r, r), point.share)
    pair = law.sum(axis=2)
    truth = drawn(rng, point.respondents(float(pair[0, 0])), law)
    coins = Coins.at(point, chance)
    counts = {
        names: truth.sum(axis=rest) + rng.binomial(coins.trials, chance, (r, r))
        for names, rest in zip(all_pairs(survey), (2, 1, 0), strict=True)
    }
    estimate = coins.tables(survey, counts, int(truth.sum()))
    yield from numbers(estimate, ("a", "b"), truth.sum(axis=2), pair, prefix="pair: ")
    yield from first_cell(estimate, "a", truth.sum(axis=(1, 2)), pair.sum(axis=1))


def exact_pair(point: Point, rng: np.random.Generator) -> Iterator[Drawn]:
    """True counts of two attributes."""
    r = point.categories
    survey, law = survey_of((r, r)), uneven((r, r), point.share)
    truth = drawn(rng, point.respondents(point.share), law)
    yield from numbers(
        LinearEstimate(ExactTables(survey, {("a", "b"): truth})), ("a", "b"), truth, law
    )


def pairs(point: Point, rng: np.random.Generator) -> Iterator[Drawn]:
    """Three attributes, every pair randomized by itself: a pair, and an attribute of two pairs."""
    r, p = point.categories, point.keep
    survey, law = survey_of((r, r, r)), uneven((r, r, r), point.share)
    pair = law.sum(axis=2)
    chance = p * float(pair[0, 0]) + (1 - p) / r**2
    truth = drawn(rng, point.respondents(chance), law)
    tables = {
        names: kept_together(rng, truth.sum(axis=rest), p)
        for names, rest in zip(all_pairs(survey), (2, 1, 0), strict=True)
    }
    everybody = int(truth.sum())
    estimate = PairRR.with_keep(survey, p).table_estimate(tables, everybody, everybody)
    yield from numbers(estimate, ("a", "b"), truth.sum(axis=2), pair, prefix="pair: ")
    yield from first_cell(estimate, "a", truth.sum(axis=(1, 2)), pair.sum(axis=1))


ESTIMATORS = (
    Estimator("secure-sum", grid(keeps=(0.5,), categories=(2, 10)), counted=exact),
    Estimator("secure-sum, between the points", between((2,)), counted=exact),
    Estimator("pair-counts", fraction((2, 3, 10)), drawn=exact_pair),
    *(
        Estimator(f"secure-sum, {name} coins", NOISY, counted=partial(noisy, chance))
        for name, chance in CHANCES
    ),
    *(
        Estimator(f"pair-counts, {name} coins", TABLES, drawn=partial(noisy_pairs, chance))
        for name, chance in CHANCES
    ),
    Estimator("pair-rr", fraction((2, 3)), drawn=pairs),
)
