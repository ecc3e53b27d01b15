"""What the reproductions of PrivKV share: counts of reports, drawn or by messages, and errors.

Horigome, Kikuchi and Yu, Expectation-Maximization Estimation for Key-Value Data Randomized with
Local Differential Privacy, section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol.randomizers.exact import Floats
from protocol.randomizers.keyvalue import ABSENT, MINUS, PLUS, PrivKV, PrivKVM
from protocol.variants.keyvalue.moments import em, moment
from protocol.variants.keyvalue.privkv import PrivKVVariant
from scenarios.datasets.keyvalue import KeyPopulation
from scenarios.running.outcomes import Outcome
from scenarios.running.scenario import Context

Counts: TypeAlias = NDArray[np.int64]
Method: TypeAlias = Literal["em", "privkv", "privkvm"]

METHODS: tuple[Method, ...] = ("em", "privkv", "privkvm")

EPSILONS = (0.1, 0.5, 1.0, 3.0, 5.0)
"""The budgets of Table 4, in the figures too."""

RESPONDENTS = (1_000, 5_000, 10_000, 100_000, 300_000)
"""The respondents of Table 5, which prints thousands, with 1000 in place of 300."""

N = 100_000
"""The respondents of Table 4 and of all figures that do not vary them."""

EPSILON = 2.0
"""The budget of Table 5 and of Figures 11 to 13."""

PARTIES = 100
"""Over how many parties the respondents of a run by messages are spread."""

SETTING = (
    "PrivKV spends half of epsilon on the key and half on the value; EM works on the same reports. "
    "PrivKVM perturbs the key once with half of epsilon, and shares the other half among 3 rounds",
    "every run draws n respondents from the population, and counts of their reports by their exact "
    "law; in PrivKVM the same respondents report in every round",
    "EM is the paper's, of four states and a tolerance of 1e-4; PrivKV and PrivKVM estimate by "
    "moments, means clipped to [-1, 1] and frequencies signed: clipped, their errors at small "
    "budgets and few respondents would be about half of the printed ones",
)


class Estimated(NamedTuple):
    """What a method estimates in every run, shape (runs, d) each; NaN of a key without a report."""

    frequencies: Floats
    means: Floats


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
    law = symbol_law(population, randomizer)
    return _multinomial(n, law, generator, runs)


def drawn_rounds(
    population: KeyPopulation,
    randomizer: PrivKVM,
    n: int,
    generator: np.random.Generator,
    *,
    runs: int,
) -> Counts:
    """Counts of the symbols of PrivKVM's last round in independent runs, shape (runs, d, 3).

    Exact: a respondent's key, level and perturbed key are drawn once. Given these, the signs that
    those of one key and level send are independent in every round, and so are those of fakes, whose
    mean is what the round before estimated, clipped; 0 at first, and of a key without a report.
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
    """What each method estimates in every run, each with all of epsilon."""
    keys = len(population.keys)
    once = PrivKV.with_budget(keys, epsilon=epsilon)
    rounds = PrivKVM.with_budget(keys, epsilon=epsilon)
    counts = drawn_counts(population, once, n, generator, runs=runs)
    last = drawn_rounds(population, rounds, n, generator, runs=runs)
    by_em, by_moments = em(counts, once), moment(counts, once)
    of_rounds = moment(last, rounds.each)
    return {
        "em": Estimated(by_em.frequencies, by_em.means),
        "privkv": Estimated(by_moments.frequencies, by_moments.means),
        "privkvm": Estimated(of_rounds.frequencies, of_rounds.means),
    }


def live(
    population: KeyPopulation, *, epsilon: float, n: int, context: Context
) -> tuple[Outcome, Mapping[Method, Estimated]]:
    """What EM and PrivKV estimate from one run by messages, of respondents who are drawn.

    ``context.seed`` decides who they are, too.
    """
    records = population.records(n, np.random.default_rng(context.seed))
    variant = PrivKVVariant(survey=records.survey, epsilon=epsilon, estimator="em")
    outcome = context.simulate(variant, records, parties=min(PARTIES, n))
    by_em = variant.estimate(outcome.result)
    by_moments = by_em.by("moment")
    return outcome, {
        "em": Estimated(by_em.frequencies[np.newaxis], by_em.means[np.newaxis]),
        "privkv": Estimated(by_moments.frequencies[np.newaxis], by_moments.means[np.newaxis]),
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
    reports = np.arange(1, n + 1)
    # Each chance by the one before, up to a factor: (n-N)/(N+1) times the odds of a key.
    ratios = np.log((n - reports[:-1]) / (reports[1:] * (randomizer.keys - 1.0)))
    logs = np.concatenate([[0.0], np.cumsum(ratios)])
    chances = np.exp(logs - logs.max())
    inverse = float((chances / reports).sum() / chances.sum())
    return float((held * (1 - held)).mean()) * inverse / slope**2
