"""The statistical tests' common level and statistics; each test has a power arm beside it.

A test that samples asserts that the right law is not rejected at ``ALPHA`` and that a law with a
parameter that is wrong by 10 % is. Seeds are fixed, so the outcome of a test never changes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from protocol import MeanRandomizer

ALPHA = 1e-9
"""The level of every statistical assertion."""

WRONG = 1.1
"""The factor by which the power arm's parameter is wrong."""

_LEAST_EXPECTED = 10.0


def chi_square_p_value(observed: ArrayLike, probabilities: ArrayLike) -> float:
    """Pearson's goodness of fit: the p-value of counts under a law, both of the same shape.

    The last axis is one sample each: its probabilities sum to 1. Raises ValueError if an expected
    count is too small for the approximation.
    """
    counts = np.atleast_2d(np.asarray(observed, np.float64))
    law = np.broadcast_to(np.asarray(probabilities, np.float64), counts.shape)
    if not np.allclose(law.sum(axis=-1), 1.0, rtol=0, atol=1e-12):
        raise ValueError("the probabilities of a sample do not sum to 1")
    expected = law * counts.sum(axis=-1, keepdims=True)
    if np.any(expected < _LEAST_EXPECTED):
        raise ValueError("an expected count is too small")
    statistic = float(np.sum((counts - expected) ** 2 / expected))
    freedom = math.prod(counts.shape[:-1]) * (counts.shape[-1] - 1)
    return float(stats.chi2.sf(statistic, freedom))


def mean_p_value(values: ArrayLike, expected: float) -> float:
    """The two-sided p-value of many independent values under a mean, by the normal law."""
    sample = np.asarray(values, np.float64)
    if sample.size < 100:
        raise ValueError("too few values for the normal law")
    z = (sample.mean() - expected) / (sample.std(ddof=1) / math.sqrt(sample.size))
    return float(2 * stats.norm.sf(abs(z)))


def score_variance(randomizer: MeanRandomizer, code: int) -> float:
    """The variance of one report's score given an input, by the randomizer's law."""
    row, scores = randomizer.row(code), randomizer.scores
    mean = sum(p * s for p, s in zip(row, scores, strict=True))
    return float(sum(p * (s - mean) ** 2 for p, s in zip(row, scores, strict=True)))
