"""Score intervals: Wilson's, by his formula, and those of numbers without error."""

from __future__ import annotations

import math

import numpy as np
import pytest

from protocol import Interval
from protocol.estimators.inference.laws import Variance, critical, score_interval
from protocol.estimators.inference.products import product_interval

VALUES = np.linspace(0, 1, 401)


def test_of_a_share_it_is_wilsons() -> None:
    n, z = 40, 1.96
    middle = (VALUES + z**2 / 2 / n) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(VALUES * (1 - VALUES) / n + z**2 / 4 / n**2)
    found = score_interval(VALUES, Variance(0.0, 1 / n, -1 / n), z, least=0.0, most=1.0)
    assert np.allclose(found, (middle - half, middle + half))


def test_ends_are_where_the_error_is_z_times_its_own_size() -> None:
    """Also with a constant, and for values beside the range."""
    variance, z = Variance(0.02, 0.03, -0.001), 1.3
    values = np.array([2.0, 3.0, 4.5])
    for end in score_interval(values, variance, z, least=-9.0, most=9.0):
        assert (values - end) ** 2 == pytest.approx(z**2 * variance.at(end))


def test_a_number_without_error_is_exact_to_the_last_digit() -> None:
    low, high = score_interval(VALUES, Variance(0.0), critical(0.95), least=0.0, most=1.0)
    assert np.array_equal(low, VALUES)
    assert np.array_equal(high, VALUES)


def test_an_error_that_grows_with_the_truth_alone_is_one() -> None:
    low, high = score_interval(VALUES[100:300], Variance(0.0, 0.0, 0.01), 1.96, least=0.0, most=1.0)
    assert (low < VALUES[100:300]).all()
    assert (high > VALUES[100:300]).all()


def test_products_have_intervals_at_levels_next_to_1() -> None:
    """No share is asked for its interval at level 1, which it has none at."""
    asked: list[float] = []

    def interval(level: float) -> Interval:
        asked.append(level)
        return Interval(np.array(0.2), np.array(0.6))

    found = product_interval([np.array(0.4)] * 2, [interval] * 2, math.nextafter(1, 0))
    assert max(asked) < 1
    assert (float(found.low), float(found.high)) <= (0.2 * 0.4, 0.6 * 0.4)
