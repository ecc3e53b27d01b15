"""The law of the counts of reports: exact moments and laws, and the reports themselves."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from protocol import CodeRandomizer, KeepUniform, Stream
from scenarios.papers.laws import report_once, reported_counts, reported_pairs
from tests.statistical import ALPHA, WRONG, chi_square_p_value, mean_p_value

TRUE = np.array([3, 0, 1])
KEEP = 0.4
RUNS = 20_000
LEAST = 40.0
"""The smallest expected number of runs with an outcome that is judged by itself."""


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def law_of_counts(matrix: NDArray[np.float64]) -> dict[tuple[int, ...], float]:
    """The probability of every possible table of counts, from every sequence of reports."""
    answers = np.repeat(np.arange(len(TRUE)), TRUE).tolist()
    law: Counter[tuple[int, ...]] = Counter()
    for reports in itertools.product(range(len(TRUE)), repeat=len(answers)):
        probability = math.prod(matrix[x, y] for x, y in zip(answers, reports, strict=True))
        law[tuple(np.bincount(reports, minlength=len(TRUE)).tolist())] += probability
    return dict(law)


def outcome_p_value(tables: NDArray[np.integer], law: dict[tuple[int, ...], float]) -> float:
    """Goodness of fit of whole tables of counts; rare ones are judged together."""
    found = Counter(map(tuple, tables.tolist()))
    assert set(found) <= set(law)
    common = [table for table, p in law.items() if p * len(tables) >= LEAST]
    observed = [found[table] for table in common]
    probabilities = [law[table] for table in common]
    if 1 - sum(probabilities) > LEAST / len(tables):
        observed.append(len(tables) - sum(observed))
        probabilities.append(1 - sum(probabilities))
    share = sum(probabilities)
    return chi_square_p_value(observed, [p / share for p in probabilities])


def check_law(randomized: Callable[[float], CodeRandomizer], drawn: NDArray[np.integer]) -> None:
    """Counts that are drawn and those of real reports have the law of all sequences of reports."""
    answers = np.tile(np.repeat(np.arange(3, dtype=np.uint8), TRUE), RUNS)
    reports = randomized(KEEP).randomize(answers, Stream(bytes(32))).reshape(RUNS, -1)
    real = np.stack([(reports == v).sum(axis=1) for v in range(3)], axis=1)
    right, wrong = (law_of_counts(randomized(keep).matrix()) for keep in (KEEP, KEEP * WRONG))
    for tables in (drawn, real):
        assert outcome_p_value(tables, right) > ALPHA
        # The power arm.
        assert outcome_p_value(tables, wrong) < ALPHA


def test_whole_tables_of_counts_have_the_law_of_per_record_reports() -> None:
    drawn = reported_counts(TRUE, KEEP, generator(), runs=RUNS)
    check_law(lambda keep: KeepUniform.with_keep(3, p=keep), drawn)


def spread(true: NDArray[np.int64], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The covariance of the counts: one report of row p has ``diag(p) - p p^T``."""
    each = [np.diag(row) - np.outer(row, row) for row in rows]
    return np.asarray(np.einsum("u,uvw->vw", true.astype(np.float64), np.stack(each)), np.float64)


def moments(true: NDArray[np.int64], keep: float) -> tuple[NDArray[np.float64], ...]:
    """Mean and covariance of the counts: sums over respondents of those of one report."""
    matrix = KeepUniform.with_keep(len(true), p=keep).matrix()
    return true @ matrix, spread(true, matrix)


def test_means_variances_and_covariances_are_those_of_sums_of_reports() -> None:
    true = np.array([400, 0, 37, 120])
    drawn = reported_counts(true, KEEP, generator(2), runs=RUNS)
    assert np.all(drawn.sum(axis=1) == true.sum())
    mean, covariance = moments(true, KEEP)
    wrong_mean, wrong_covariance = moments(true, KEEP * WRONG)
    centred = drawn - mean
    for v in range(4):
        assert mean_p_value(drawn[:, v], mean[v]) > ALPHA
        assert mean_p_value(drawn[:, v], wrong_mean[v]) < ALPHA
        for w in range(4):
            product = centred[:, v] * centred[:, w]
            assert mean_p_value(product, covariance[v, w]) > ALPHA
    largest = centred[:, 0] ** 2
    assert mean_p_value(largest, WRONG * covariance[0, 0]) < ALPHA
    assert wrong_covariance[0, 0] != covariance[0, 0]


def test_pairs_of_reports_have_the_kronecker_law() -> None:
    true = np.array([[40, 3, 0], [0, 25, 12]])
    keeps = (0.3, 0.6)
    drawn = reported_pairs(true, keeps, generator(3), runs=RUNS)
    assert drawn.shape == (RUNS, 2, 3)

    def law(first: float, second: float) -> NDArray[np.float64]:
        left, right = KeepUniform.with_keep(2, p=first), KeepUniform.with_keep(3, p=second)
        return np.asarray(np.kron(left.matrix(), right.matrix()), np.float64)

    rows = law(*keeps)
    flat = true.reshape(-1)
    mean = flat @ rows
    wrong = flat @ law(keeps[0], keeps[1] * WRONG)
    covariance = spread(flat, rows)
    cells = drawn.reshape(RUNS, -1)
    centred = cells - mean
    for v in range(6):
        assert mean_p_value(cells[:, v], mean[v]) > ALPHA
        for w in range(6):
            assert mean_p_value(centred[:, v] * centred[:, w], covariance[v, w]) > ALPHA
    assert min(mean_p_value(cells[:, v], wrong[v]) for v in range(6)) < ALPHA


def test_leading_indices_are_people_of_their_own() -> None:
    true = np.array([[5, 0], [0, 7], [2, 2]])
    drawn = reported_counts(true, 0.5, generator(), runs=11)
    assert drawn.shape == (11, 3, 2)
    assert drawn.dtype == np.int64
    assert np.all(drawn.sum(axis=-1) == true.sum(axis=-1))
    again = reported_counts(true, 0.5, generator(), runs=11)
    np.testing.assert_array_equal(drawn, again)


def test_the_ends_of_the_scale() -> None:
    true = np.array([[5, 0, 9]])
    np.testing.assert_array_equal(report_once(true, 1.0, generator()), true)
    spread = report_once(np.array([30_000, 0, 0]), 0.0, generator())
    assert chi_square_p_value(spread, [1 / 3] * 3) > ALPHA
