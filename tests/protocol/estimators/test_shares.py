"""Shares from tallies: large domains, and sums of shares with their errors."""

from __future__ import annotations

import time

import numpy as np
import pytest

from protocol import (
    HadamardResponse,
    KeepUniform,
    LinearEstimate,
    LocalHashing,
    Randomizer,
    Stream,
    SubsetSelection,
    Tallies,
    UnaryEncoding,
    secret_of,
)
from tests.enumeration import survey_of

SIZES = (3, 2, 4)
SURVEY = survey_of(*SIZES)
RANDOMIZERS = (
    KeepUniform.with_epsilon(24, epsilon=1.0),
    UnaryEncoding.optimized(24, epsilon=1.0),
    SubsetSelection.with_epsilon(24, epsilon=1.0),
    HadamardResponse.with_epsilon(24, epsilon=1.0),
)


def estimated(randomizer: Randomizer, n: int = 2000) -> LinearEstimate[Tallies]:
    stream = Stream(secret_of(3))
    codes = (stream.integers(24, n) // np.uint64(2)).astype(np.uint8)
    totals = randomizer.tally(randomizer.randomize(codes, stream))
    return LinearEstimate(Tallies(SURVEY, ("a", "b", "c"), randomizer, totals, n))


@pytest.mark.parametrize("randomizer", RANDOMIZERS, ids=lambda one: type(one).__name__)
def test_tables_and_means_have_the_errors_of_the_covariance(randomizer: Randomizer) -> None:
    estimate = estimated(randomizer)
    shares = randomizer.shares(estimate.source.totals, estimate.n)
    covariance = randomizer.covariance(shares, estimate.n).reshape(SIZES * 2)
    by_table = shares.reshape(SIZES)
    for names, kept in (("c", "k"), ("ca", "ki"), ("bca", "jki"), ("abc", "ijk")):
        table = estimate.table(*names)
        np.testing.assert_allclose(table.values, np.einsum(f"ijk->{kept}", by_table), atol=1e-12)
        both = kept + kept.upper()
        spread = np.einsum(f"ijkIJK->{both}", covariance).reshape(table.values.size, -1)
        expected = np.sqrt(spread.diagonal()).reshape(table.values.shape)
        assert table.standard_errors is not None
        np.testing.assert_allclose(table.standard_errors, expected, rtol=1e-9)
    weights = np.arange(12.0).reshape(4, 3) ** 1.5
    mean = estimate.query(["c", "a"], weights)
    per_cell = np.broadcast_to(weights.T[:, None, :], SIZES).reshape(-1)
    assert mean.value == pytest.approx(float(shares @ per_cell))
    flat = covariance.reshape(24, 24)
    assert mean.standard_error == pytest.approx(float(per_cell @ flat @ per_cell) ** 0.5)


def test_what_is_not_known_is_missing() -> None:
    estimate = estimated(LocalHashing.optimized(24, epsilon=1.0))
    assert estimate.table("a", "b", "c").standard_errors is not None
    assert estimate.table("a", "b").standard_errors is None
    assert estimate.query(["a"], [0.0, 1.0, 2.0]).standard_error is None


def test_a_mean_of_what_all_have_alike_has_no_error() -> None:
    assert estimated(RANDOMIZERS[0]).query(["a"], [2.0, 2.0, 2.0]).standard_error == 0


def test_a_domain_of_65536_takes_no_table_of_its_square() -> None:
    survey = survey_of(256, 256)
    stream = Stream(secret_of(5))
    for randomizer in (
        KeepUniform.with_epsilon(2**16, epsilon=3.0),
        UnaryEncoding.optimized(2**16, epsilon=3.0),
        HadamardResponse.with_epsilon(2**16, epsilon=3.0),
    ):
        codes = stream.integers(2**16, 200).astype(np.uint16)
        totals = randomizer.tally(randomizer.randomize(codes, stream))
        started = time.perf_counter()
        estimate = LinearEstimate(Tallies(survey, ("a", "b"), randomizer, totals, 200))
        assert estimate.table("b").standard_errors is not None
        assert estimate.table("b", "a").standard_errors is not None
        assert estimate.query(["a"], np.arange(256.0)).standard_error is not None
        assert time.perf_counter() - started < 20
