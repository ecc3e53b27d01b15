"""Populations of respondents who hold keys with values, and the paper's three synthetic ones.

Horigome, Kikuchi and Yu, Expectation-Maximization Estimation for Key-Value Data Randomized with
Local Differential Privacy, section 4.2. Its real data are in ``ratings``.
"""

from __future__ import annotations

import functools
import math
from typing import Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from protocol.crypto.randomness import WORDS, Stream
from protocol.randomizers.exact import Floats
from protocol.simulation.populations.population import Law, Population
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.variants.keyvalue.records import key_survey

Synthetic: TypeAlias = Literal["Gaussian", "Power-law", "Linear"]

SYNTHETIC: tuple[Synthetic, ...] = ("Gaussian", "Power-law", "Linear")
KEYS = 50
"""The number of keys of each synthetic population."""


class Statistics(NamedTuple):
    """Mean and variance over the keys of frequencies and of means, as in the paper's Table 2."""

    frequency_mean: float
    frequency_variance: float
    mean_mean: float
    mean_variance: float


class KeyPopulation(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Number of holders of every key with each value: all that reports on one key depend on.

    Args:
        name: of the population.
        keys: what the d keys are called.
        shares: of the respondents who hold key k with its level l, shape (d, L).
        values: of the levels, in [-1, 1], shape (d, L).
    """

    name: str
    keys: tuple[str, ...]
    shares: Floats
    values: Floats

    @property
    def frequencies(self) -> Floats:
        """The share of respondents who hold each key, shape (d,)."""
        found: Floats = self.shares.sum(axis=1)
        return found

    @property
    def means(self) -> Floats:
        """The mean value of those who hold each key, shape (d,); NaN where nobody does."""
        held = self.frequencies
        means = np.full(len(held), math.nan)
        np.divide((self.shares * self.values).sum(axis=1), held, out=means, where=held > 0)
        return means

    def statistics(self) -> Statistics:
        """The exact mean and variance over the keys; a key that nobody holds has no mean."""
        held, means = self.frequencies, self.means
        means = means[~np.isnan(means)]
        return Statistics(
            float(held.mean()), float(held.var()), float(means.mean()), float(means.var())
        )

    def records(self, n: int, generator: np.random.Generator) -> Records:
        """n clients, each of whom holds every key with its probability, independently.

        Raises:
            ValueError: n is not positive.
            SurveyError: a key has a value twice.
        """
        if n < 1:
            raise ValueError(f"{n} clients: expected at least 1")
        drawn = generator.random((n, len(self.keys)))
        # The level of each key, from 1; 0 where it is missing.
        levels = np.zeros(drawn.shape, np.int64)
        bounds = np.cumsum(self.shares, axis=1)
        # From the last level down, so that each draw ends at the first level that reaches it.
        for level in reversed(range(bounds.shape[1])):
            np.copyto(levels, level + 1, where=drawn < bounds[:, level])
        return Records(self.survey, levels)

    @property
    def survey(self) -> Survey:
        """The survey of its keys.

        Raises:
            SurveyError: a key has a value twice.
        """
        names = [f"key {key}" for key in self.keys]
        return key_survey(self.name, names, self.values.tolist())

    def law(self) -> Population:
        """The law of clients who hold every key with its probability, independently.

        Raises:
            SurveyError: a key has a value twice.
        """
        said = f"the law of {len(self.keys)} keys called {self.name!r}"
        return Law(self.survey, said, functools.partial(_draw_records, self.survey, self.shares))


def _draw_records(survey: Survey, shares: Floats, n: int, stream: Stream) -> Records:
    levels = np.zeros((n, len(shares)), np.uint8 if shares.shape[1] < 256 else np.int64)
    for key, bounds in enumerate(np.cumsum(shares, axis=1)):
        words = stream.words(n)
        column = levels[:, key]
        for level in reversed(range(len(bounds))):
            # Words end below 2**64, so a certain event fails for one word.
            reached = np.uint64(min(int(bounds[level] * WORDS), WORDS - 1))
            np.copyto(column, level + 1, where=words < reached)
    return Records(survey, levels)


def synthetic(name: Synthetic) -> KeyPopulation:
    """One of the paper's three populations of 50 keys, whose holders of a key all have its mean.

    Gaussian: ``f_k = exp(-(k-25)**2/200)`` for k = 1..50; Power-law: ``f = (1 + 0.1 x)**-11`` for
    x = 0, 0.1, .., 4.9; both with mean ``2f - 1``. Linear: ``f_k = k/50`` for k = 1..50, and means
    evenly spaced from -1 to 1. So Table 2 comes out; its text has other exponents.
    """
    k = np.arange(1, KEYS + 1)
    match name:
        case "Gaussian":
            shares = np.exp(-((k - 25) ** 2) / 200)
            means = 2 * shares - 1
        case "Power-law":
            shares = (1 + 0.01 * (k - 1)) ** -11.0
            means = 2 * shares - 1
        case "Linear":
            shares = k / KEYS
            means = np.linspace(-1, 1, KEYS)
    return KeyPopulation(
        name=name,
        keys=tuple(map(str, k.tolist())),
        shares=shares[:, np.newaxis],
        values=means[:, np.newaxis],
    )
