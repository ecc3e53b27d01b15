"""Draws of the counts of reports without making the reports, to repeat an experiment many times.

The generator is numpy's, which protects nobody: what is drawn here is an experiment on known
records, never a report of a person. Records are randomized in ``protocol``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray


def reported_counts(
    true_counts: ArrayLike, keep: float, generator: np.random.Generator, *, runs: int
) -> NDArray[np.int64]:
    """Numbers of reports of each category, in independent runs of a keep mechanism.

    The draws have exactly the law of the counts of per-record reports. Respondents keep their
    answers with probability ``keep``, independently of each other: of the n_v respondents in cell
    v, Binomial(n_v, keep) keep it. All others report a uniform draw over the same K cells, so their
    counts are Multinomial(their number, 1/K each). Reports are counted together, so who kept and
    who drew does not matter.

    Counts of two domains (two clusters of attributes of the same respondents) may be drawn by two
    calls: given the true records, a respondent's randomizations are independent.

    Args:
        true_counts: shape (..., K), K at least 1: the number of respondents in every cell of one
            domain of K cells per leading index. Different leading indices are different people.
        keep: the keep probability, 0 to 1.
        generator: decides all draws.
        runs: the number of repetitions.

    Returns:
        Shape (runs, ..., K); the totals over the last axis are the true ones.
    """
    counts = np.asarray(true_counts)
    return report_once(np.broadcast_to(counts, (runs, *counts.shape)), keep, generator)


def report_once(
    true_counts: ArrayLike, keep: float, generator: np.random.Generator
) -> NDArray[np.int64]:
    """One draw of ``reported_counts`` for every leading index, of the same shape."""
    counts = np.asarray(true_counts, np.int64)
    cells = counts.shape[-1]
    return report_block(counts, keep, np.full(cells, 1 / cells), generator)


def report_block(
    true_counts: NDArray[np.int64],
    keeps: float | NDArray[np.float64],
    tables: NDArray[np.float64],
    generator: np.random.Generator,
) -> NDArray[np.int64]:
    """One draw of the counts of reports whose fakes come from any tables.

    Args:
        true_counts: (..., K).
        keeps: the keep probabilities, one or (..., 1).
        tables: what fakes are drawn from, (K,) or (..., K).
        generator: decides all draws.
    """
    kept = generator.binomial(true_counts, keeps).astype(np.int64, copy=False)
    others = true_counts.sum(axis=-1) - kept.sum(axis=-1)
    kept += generator.multinomial(others, tables)
    return kept


def reported_pairs(
    true_counts: ArrayLike,
    keeps: tuple[float, float],
    generator: np.random.Generator,
    *,
    runs: int,
) -> NDArray[np.int64]:
    """The counts of pairs of reports on two attributes that are randomized independently.

    Exact as well. The respondents with one answer to the second attribute are a group, and
    ``reported_counts`` counts their reports on the first. Then the same is done for the second
    attribute, among those with one report on the first.

    Args:
        true_counts: shape (r_1, r_2).
        keeps: the keep probability of each attribute.
        generator: decides all draws.
        runs: the number of repetitions.

    Returns:
        Shape (runs, r_1, r_2).
    """
    counts = np.asarray(true_counts)
    first = reported_counts(counts.T, keeps[0], generator, runs=runs)
    return report_once(first.transpose(0, 2, 1), keeps[1], generator)


def expected_inverse(n: int, share: float) -> float:
    """``E[1/N]`` of a binomial N with n trials of this probability, given that it is not 0."""
    counts = np.arange(1, n + 1)
    # Each chance by the one before it, up to a factor.
    ratios = np.log((n - counts[:-1]) / counts[1:]) + math.log(share) - math.log1p(-share)
    logs = np.concatenate([[0.0], np.cumsum(ratios)])
    chances = np.exp(logs - logs.max())
    return float((chances / counts).sum() / chances.sum())
