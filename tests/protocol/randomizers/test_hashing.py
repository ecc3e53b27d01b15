"""Local hashing: the family is exactly 2-universal, counts are right, epsilon is kept."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from protocol import KeepUniform, LocalHashing, Stream, UnsupportedEventError, secret_of
from protocol.randomizers.oracles import hashing
from protocol.testing import check_randomizer
from tests.tiers import thinned

SMALL = (
    LocalHashing.binary(5, epsilon=1.0),
    LocalHashing.optimized(9, epsilon=1.0),  # 4 values: digits of base 2
    LocalHashing.optimized(6, epsilon=0.5),  # 3 values: digits of base 3
    LocalHashing(10, 9, 2**63),  # digits of base 3, numbers modulo 9
    LocalHashing(2, 2, 2**63),
)


def hashed(randomizer: LocalHashing, code: int, function: int) -> int:
    """The hash as the class describes it."""
    total, function = function % randomizer.groups, function // randomizer.groups
    while code:
        total += function % randomizer.groups * (code % randomizer.base)
        code, function = code // randomizer.base, function // randomizer.groups
    return total % randomizer.groups


@pytest.mark.parametrize("randomizer", SMALL, ids=str)
def test_two_hashes_are_uniform_and_independent(randomizer: LocalHashing) -> None:
    table = [
        [hashed(randomizer, code, function) for function in range(randomizer.functions)]
        for code in range(randomizer.size)
    ]
    each = randomizer.functions // randomizer.groups**2
    for one, other in itertools.combinations(table, 2):
        pairs = np.array(one) * randomizer.groups + np.array(other)
        assert np.bincount(pairs, minlength=randomizer.groups**2).tolist() == (
            [each] * randomizer.groups**2
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "randomizer",
    thinned([pytest.param(one, marks=[pytest.mark.slow] * (one.groups == 9)) for one in SMALL], 1),
    ids=str,
)
def test_contract(randomizer: LocalHashing) -> None:
    check_randomizer(randomizer, without=("covariance",))


@pytest.mark.parametrize(
    ("size", "epsilon"), [(2, 0.3), (9, 1.0), (30, 2.0), (40, 3.0), (70, 5.0), (700, 2.0)]
)
@pytest.mark.parametrize("limit", [0, 2**22])
def test_counts_are_those_of_the_reports(
    size: int, epsilon: float, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashing, "_MOST_FUNCTIONS", limit)
    randomizer = LocalHashing.optimized(size, epsilon=epsilon)
    stream = Stream(secret_of(4))
    codes = stream.integers(size, 60).astype(np.uint16)
    reports = randomizer.randomize(codes, stream)
    expected = [
        sum(
            hashed(randomizer, code, int(report) // randomizer.groups)
            == int(report) % randomizer.groups
            for report in reports
        )
        for code in range(size)
    ]
    assert randomizer.tally(reports).tolist() == expected


def test_all_is_kept_but_the_rest() -> None:
    randomizer = LocalHashing(700, 8, 2**64 - 1)
    codes = np.arange(700, dtype=np.uint16)
    reports = randomizer.randomize(codes, Stream(secret_of(1)))
    for code, report in zip(codes.tolist(), reports.tolist(), strict=True):
        assert hashed(randomizer, code, report // 8) == report % 8


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 3.0, 5.0, 9.0, 20.0])
@pytest.mark.parametrize("size", [2, 100, 2**16, 2**32])
def test_epsilon_is_not_exceeded(size: int, epsilon: float) -> None:
    randomizer = LocalHashing.optimized(size, epsilon=epsilon)
    assert randomizer.epsilon <= epsilon * (1 + 1e-15)
    assert randomizer.epsilon == KeepUniform(randomizer.groups, randomizer.threshold).epsilon
    assert randomizer.bits <= 64


@pytest.mark.parametrize(("epsilon", "groups"), [(0.1, 2), (1.0, 4), (2.0, 8), (3.0, 21)])
def test_the_number_of_values_is_the_optimal_one(epsilon: float, groups: int) -> None:
    assert LocalHashing.optimized(100, epsilon=epsilon).groups == groups


@pytest.mark.parametrize(
    ("size", "epsilon", "groups"),
    [
        # Codes of 14 digits of base 2: of twenty values there are too many reports.
        (2**14, math.log(19), 19),
        (2**14, math.log(25), 23),
        # Of codes of three digits there are fewer than 2**63 reports up to the fifth root of that.
        (2**32, 9.0, 6203),
        (2, 20.0, 65521),
    ],
)
def test_where_reports_would_be_too_many_the_nearest_prime_is_taken(
    size: int, epsilon: float, groups: int
) -> None:
    wanted = min(2**16, round(math.exp(epsilon))) + 1
    assert LocalHashing.optimized(size, epsilon=epsilon).groups == groups
    with pytest.raises(ValueError, match="expected"):
        LocalHashing(size, wanted, 1)
    closer = range(wanted - abs(wanted - groups) + 1, wanted + abs(wanted - groups))
    for number in set(closer) & {p for p in range(2, 2**16) if all(p % d for d in range(2, 256))}:
        with pytest.raises(ValueError, match="expected fewer than"):
            LocalHashing(size, number, 1)


def test_the_variance_is_the_papers() -> None:
    # Section 5: (e**eps - 1 + g)**2 / (n (e**eps - 1)**2 (g - 1)) for a share near 0.
    n, odds = 1000, math.e
    randomizer = LocalHashing.optimized(100, epsilon=1.0)
    expected = (odds - 1 + 4) ** 2 / (n * (odds - 1) ** 2 * 3)
    assert randomizer.variances(np.zeros(1), n)[0] == pytest.approx(expected, rel=1e-12)


def test_three_codes_are_not_independent() -> None:
    with pytest.raises(UnsupportedEventError, match="counts for two inputs is not known"):
        SMALL[0].covariance(np.full(5, 0.2), 100)
