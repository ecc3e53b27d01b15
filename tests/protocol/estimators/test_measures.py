"""Error measures of tables: values by hand, their properties, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol.estimators.measures import (
    jensen_shannon_distance,
    l2_distance,
    shares,
    squared_error,
    table_axes,
    total_variation,
)

LEFT = np.array([[0.5, 0.25], [0.25, 0.0]])
RIGHT = np.array([[0.25, 0.25], [0.0, 0.5]])

MEASURES = (
    total_variation,
    squared_error,
    l2_distance,
    jensen_shannon_distance,
)
weights = st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 1)), min_size=4, max_size=4)
tables = weights.filter(any).map(lambda w: np.array(w).reshape(2, 2) / sum(w))


def test_values_by_hand() -> None:
    assert total_variation(LEFT, RIGHT) == 0.5
    assert squared_error(LEFT, RIGHT) == 0.375
    assert l2_distance(LEFT, RIGHT) == pytest.approx(math.sqrt(0.375), rel=1e-15)
    # Of the four cells: .5 against .375, .25 against .25, .25 against .125, 0 against .25; back.
    one = 0.5 * math.log(0.5 / 0.375) + 0.25 * math.log(2)
    other = 0.25 * math.log(0.25 / 0.375) + 0.5 * math.log(2)
    root = math.sqrt((one + other) / 2)
    assert jensen_shannon_distance(LEFT, RIGHT) == pytest.approx(root, rel=1e-14)


def test_rounding_leaves_a_root() -> None:
    one = [0.39546198954297845, 0.5930180594914135, 0.011519950965607977]
    other = [0.39546198969203294, 0.59301805933506, 0.0115199509729071]
    assert jensen_shannon_distance(one, other) == 0


def test_disjoint_tables_are_as_far_as_can_be() -> None:
    one, other = np.array([0.5, 0.5, 0, 0]), np.array([0, 0, 0.1, 0.9])
    assert total_variation(one, other) == 1
    assert jensen_shannon_distance(one, other) ** 2 == pytest.approx(math.log(2), rel=1e-15)


@settings(deadline=None, max_examples=60)
@given(tables, tables, tables)
def test_distances_are_metrics(
    first: NDArray[np.float64], second: NDArray[np.float64], third: NDArray[np.float64]
) -> None:
    for measure in (total_variation, l2_distance, jensen_shannon_distance):
        direct = measure(first, third)
        assert measure(first, first) == 0
        assert measure(third, first) == pytest.approx(float(direct), abs=1e-12)
        assert direct <= measure(first, second) + measure(second, third) + 1e-7
    # Pinsker's inequality for the divergence, and its bound by total variation.
    variation = float(total_variation(first, second))
    divergence = float(jensen_shannon_distance(first, second)) ** 2
    assert variation**2 / 2 - 1e-12 <= divergence <= variation * math.log(2) + 1e-12


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(tables, tables), min_size=1, max_size=4))
def test_many_pairs_of_tables_are_measured_one_by_one(
    pairs: list[tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> None:
    first, second = np.stack([p[0] for p in pairs]), np.stack([p[1] for p in pairs])
    for measure in MEASURES:
        together = measure(first, second, ways=2)
        assert together.shape == (len(pairs),)
        np.testing.assert_allclose(together, [measure(*pair) for pair in pairs], rtol=1e-12)
    # One true table beside many estimates.
    np.testing.assert_array_equal(
        squared_error(first, second[0], ways=2),
        [squared_error(one, second[0]) for one in first],
    )
    np.testing.assert_array_equal(
        squared_error(second[0], first), [squared_error(second[0], one) for one in first]
    )


def test_counts_become_shares() -> None:
    np.testing.assert_array_equal(shares([[1, 2], [0, 5]]), [[0.125, 0.25], [0, 0.625]])
    np.testing.assert_array_equal(shares([[1, 3], [-1, 2]], ways=1), [[0.25, 0.75], [-1, 2]])
    assert table_axes(np.zeros((2, 3, 4)), 2) == (-2, -1)
    for empty in ([0.0, 0.0], [1.0, -2.0]):
        with pytest.raises(ValueError, match="total is not positive"):
            shares(empty)


def test_the_divergence_takes_shares_only() -> None:
    with pytest.raises(ValueError, match="project the estimate"):
        jensen_shannon_distance(np.array([1.1, -0.1]), np.array([0.5, 0.5]))
    with pytest.raises(ValueError, match="turn counts into shares"):
        jensen_shannon_distance(np.array([0.5, 0.5]), np.array([5, 5]))


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("left", "right", "ways", "message"),
    [
        ([0.5, 0.5], [0.5, 0.25, 0.25], None, "shapes"),
        ([0.5, 0.5], [[0.5, 0.5]], 2, "2 ways"),
        ([0.5, 0.5], [0.5, 0.5], 0, "0 ways"),
        ([0.5, math.nan], [0.5, 0.5], None, "finite"),
        ([0.5, 0.5], [0.5, math.inf], None, "finite"),
        ([], [], None, "at least one cell"),
        (1.0, 1.0, None, "0 ways"),
    ],
)
def test_what_are_no_tables_is_refused(
    measure: type, left: object, right: object, ways: int | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        measure(left, right, ways=ways)
