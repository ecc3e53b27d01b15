"""Randomizers that are made by their epsilon: none exceeds it, and bad parameters are refused."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from protocol import (
    HadamardResponse,
    LocalHashing,
    OneBitMean,
    PiecewiseMean,
    Randomizer,
    Stream,
    SubsetSelection,
    secret_of,
)
from protocol.crypto.randomness import WORDS

MADE: tuple[Any, ...] = (SubsetSelection, HadamardResponse, OneBitMean, PiecewiseMean)
EPSILONS = (0.01, 0.5, 1.0, 3.0, 8.0, 50.0, 1000.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(
    ("cls", "size"),
    [
        *((SubsetSelection, size) for size in (2, 3, 100, 2**16)),
        (HadamardResponse, 100),
        *((cls, size) for cls in (OneBitMean, PiecewiseMean) for size in (2, 11, 2**16)),
    ],
)
def test_epsilon_is_not_exceeded(cls: Any, size: int, epsilon: float) -> None:
    randomizer = cls.with_epsilon(size, epsilon=epsilon)
    assert randomizer.epsilon <= epsilon
    if epsilon < 20:
        within = 1e-6 if cls in (OneBitMean, PiecewiseMean) else 1e-9
        assert randomizer.epsilon == pytest.approx(epsilon, rel=within)


@pytest.mark.parametrize("cls", MADE)
@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_bad_epsilon(cls: Any, epsilon: float) -> None:
    with pytest.raises(ValueError, match="expected a positive finite number"):
        cls.with_epsilon(5, epsilon=epsilon)


@pytest.mark.parametrize("cls", MADE)
def test_too_small_an_epsilon(cls: Any) -> None:
    with pytest.raises(ValueError, match="threshold" if cls is SubsetSelection else "too small"):
        cls.with_epsilon(5, epsilon=1e-25)


@pytest.mark.parametrize(
    ("cls", "fields", "why"),
    [
        (SubsetSelection, (1, 1, WORDS // 2), "size 1"),
        (SubsetSelection, (2**16 + 1, 1, WORDS // 2), "size 65537"),
        (SubsetSelection, (5, 0, WORDS // 2), "chosen 0: expected 1 to 4"),
        (SubsetSelection, (5, 5, WORDS // 2), "chosen 5: expected 1 to 4"),
        (
            *(SubsetSelection, (4, 2, WORDS // 2)),
            "threshold 9223372036854775808: expected more than",
        ),
        (SubsetSelection, (4, 2, WORDS), "less than 2"),
        (HadamardResponse, (1, WORDS - 1), "size 1"),
        (HadamardResponse, (2**22 + 1, WORDS - 1), "size 4194305"),
        (HadamardResponse, (5, WORDS // 2), "threshold 9223372036854775808"),
        (HadamardResponse, (5, WORDS), "threshold 18446744073709551616"),
        (LocalHashing, (1, 2, 5), "size 1: expected 2 to 2**32"),
        (LocalHashing, (9, 1, 5), "groups 1: expected 2 to 2**16"),
        (LocalHashing, (9, 2, 0), "threshold 0"),
        (LocalHashing, (2**32, 256, 5), "fewer than 2**63 reports"),
        (OneBitMean, (1, 1), "size 1"),
        (OneBitMean, (2**16 + 1, 1), "size 65537"),
        (OneBitMean, (3, 0), "step 0 of 3 values"),
        (OneBitMean, (3, 2**62), "step 4611686018427387904 of 3 values"),
        (PiecewiseMean, (1, 1, 1, 1), "size 1"),
        (PiecewiseMean, (2, 0, 1, 1), "step 0, window 1"),
        (PiecewiseMean, (2, 1, 0, 1), "step 1, window 0"),
        (PiecewiseMean, (2, 1, 2**18, 1), "not 262,145"),
        (PiecewiseMean, (2, 1, 1, 0), "threshold 0"),
        (PiecewiseMean, (2, 1, 1, WORDS), "threshold 18446744073709551616"),
    ],
)
def test_bad_parameters(cls: Any, fields: tuple[int, ...], why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        cls(*fields)


@pytest.mark.parametrize(
    ("randomizer", "why"),
    [
        (HadamardResponse.with_epsilon(5, epsilon=1.0), "expected unsigned numbers below 8"),
        (LocalHashing.binary(5, epsilon=1.0), "expected unsigned numbers below 32"),
        *((cls.with_epsilon(2, epsilon=1.0), "expected") for cls in (OneBitMean, PiecewiseMean)),
    ],
)
def test_what_is_not_a_report(randomizer: Randomizer, why: str) -> None:
    high = np.array([randomizer.report.high], np.uint16)
    for bad in (high, np.array([1]), np.array([-1]), np.zeros((2, 1), np.uint8)):
        with pytest.raises(ValueError, match=why):
            randomizer.tally(bad)


@pytest.mark.parametrize("cls", [OneBitMean, PiecewiseMean])
def test_what_is_not_a_number(cls: Any) -> None:
    randomizer = cls.with_epsilon(2, epsilon=1.0)
    for bad in (np.array([2], np.uint16), np.array([-1]), np.zeros((2, 1))):
        with pytest.raises(ValueError, match="expected"):
            randomizer.randomize(bad, Stream(secret_of(1)))
