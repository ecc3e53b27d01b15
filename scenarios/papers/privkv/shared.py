"""Counts of the reports of PrivKV and PrivKVM, drawn by their law, and errors of what follows.

Horigome, Kikuchi and Yu, Expectation-Maximization Estimation for Key-Value Data Randomized with
Local Differential Privacy, section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol.randomizers.exact import Floats
from protocol.randomizers.keyvalue import ABSENT, MINUS, PLUS, PrivKV, PrivKVM
from protocol.variants.keyvalue.em import EMEstimate, em
from protocol.variants.keyvalue.moments import KeyValueEstimate, moment
from scenarios.data.key_populations import KeyPopulation
from scenarios.papers.laws import expected_inverse

Counts: TypeAlias = NDArray[np.int64]
Method: TypeAlias = Literal["em", "privkv", "privkvm"]
Estimated: TypeAlias = EMEstimate | KeyValueEstimate

METHODS: tuple[Method, ...] = ("em", "privkv", "privkvm")


def symbol_law(population: KeyPopulation, randomizer: PrivKV) -> Floats:
    """The law of a report on each key by a respondent of a population, shape (d, 3)."""
    held = population.frequencies
    total = (population.shares * population.values).sum(axis=1)
    states = np.stack([1 - held, (held + total) / 2, (held - total) / 2], axis=1)
    law: Floats = states @ randomizer.matrix()
    return law


def drawn_counts(
    population: KeyPopulation,
    randomizer: PrivKV,
    n: int,
    generator: np.random.Generator,
    *,
    runs: int,
) -> Counts:
    """Counts of PrivKV's symbols in independent runs, shape (runs, d, 3).

    Exact: keys are drawn uniformly, and respondents are independent, so the counts are multinomial
    over pairs of key and symbol.
    """
    return _multinomial(n, symbol_law(population, randomizer), generator, runs)


def drawn_rounds(
    population: KeyPopulation,
    randomizer: PrivKVM,
    n: int,
    generator: np.random.Generator,
    *,
    runs: int,
) -> Counts:
    """Counts of the symbols of PrivKVM's last round in independent runs, shape (runs, d, 3).

    Exact: a respondent's key, level and perturbed key are drawn once. Given these, the signs sent
    by respondents of the same key and level are independent in every round, and so are the signs of
    fakes. The mean of fakes is the clipped estimate of the round before: 0 in the first round, and
    for a key without reports.
    """
    each = randomizer.each
    p_1, q_1 = each.key_response.diagonal, each.key_response.off_diagonal
    held = population.frequencies[:, np.newaxis]
    groups = np.hstack([held * q_1 + (1 - held) * p_1, (1 - held) * q_1, population.shares * p_1])
    drawn = _multinomial(n, groups, generator, runs)
    absent, faked, levels = drawn[..., 0], drawn[..., 1], drawn[..., 2:]
    fakes = np.zeros(faked.shape)
    counts = np.empty((*faked.shape, 3), np.int64)
    for _ in range(randomizer.rounds):
        positive = generator.binomial(faked, _positive(each, fakes))
        positive += generator.binomial(levels, _positive(each, population.values)).sum(axis=-1)
        counts[..., ABSENT], counts[..., PLUS] = absent, positive
        counts[..., MINUS] = faked + levels.sum(axis=-1) - positive
        fakes = np.nan_to_num(moment(counts, each).means)
    return counts


def _positive(each: PrivKV, values: Floats) -> Floats:
    """The probability that a value is sent as +1."""
    positive: Floats = (1 + (2 * each.value_response.diagonal - 1) * values) / 2
    return positive


def _multinomial(n: int, law: Floats, generator: np.random.Generator, runs: int) -> Counts:
    flat = law.ravel() / law.sum()
    return generator.multinomial(n, flat, size=runs).reshape(runs, *law.shape)


def estimated(
    population: KeyPopulation,
    *,
    epsilon: float,
    n: int,
    runs: int,
    generator: np.random.Generator,
) -> Mapping[Method, Estimated]:
    """Estimates of each method in every run, each with all of epsilon."""
    keys = len(population.keys)
    once = PrivKV.with_budget(keys, epsilon=epsilon)
    rounds = PrivKVM.with_budget(keys, epsilon=epsilon)
    counts = drawn_counts(population, once, n, generator, runs=runs)
    last = drawn_rounds(population, rounds, n, generator, runs=runs)
    return {
        "em": em(counts, once),
        "privkv": moment(counts, once),
        "privkvm": moment(last, rounds.each),
    }


def squared_errors(values: Floats, truth: Floats) -> Floats:
    """The mean over the keys that have an estimate of squared distances, shape (runs,)."""
    return mean_of_known((values - truth) ** 2)


def mean_of_known(distances: Floats) -> Floats:
    """The mean over the keys that have an estimate, shape (runs,)."""
    known = ~np.isnan(distances)
    with np.errstate(invalid="ignore"):  # Where no key has an estimate, there is no mean.
        mean: Floats = np.where(known, distances, 0).sum(axis=-1) / known.sum(axis=-1)
    return mean


def expected_squared_error(population: KeyPopulation, randomizer: PrivKV, n: int) -> float:
    """The expected ``squared_errors`` of moment frequencies, in closed form but for a sum over N.

    A key has N reports, Binomial(n, 1/d); given N the estimate is unbiased with the variance
    ``pi (1-pi) / (N (p_1-q_1)**2)`` where pi is the probability of a report with the key. The mean
    of 1/N is over N > 0.
    """
    held = 1 - symbol_law(population, randomizer)[:, ABSENT]
    slope = 2 * randomizer.key_response.diagonal - 1
    inverse = expected_inverse(n, 1 / randomizer.keys)
    return float((held * (1 - held)).mean()) * inverse / slope**2
