"""Random count queries: what is drawn and what is measured."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from scenarios.running.queries import (
    Pair,
    draw_pairs,
    draw_sets,
    evaluate,
    query_errors,
    set_size,
)
from tests.statistical import ALPHA, WRONG, chi_square_p_value

Floats = NDArray[np.float64]


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_a_set_has_the_rounded_share_of_the_combinations_and_at_least_one() -> None:
    assert [set_size(4, 0.1), set_size(240, 0.1), set_size(35, 0.1)] == [1, 24, 4]
    assert set_size(6, 1.0) == 6


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_sets_have_the_size_asked_for(data: st.DataObject) -> None:
    cells = data.draw(st.integers(1, 40))
    size = data.draw(st.integers(1, cells))
    sets = draw_sets(cells, size, 7, generator(data.draw(st.integers(0, 99))))
    assert sets.shape == (7, cells)
    assert np.all(sets.sum(axis=1) == size)


def test_every_pair_and_every_set_is_as_likely() -> None:
    pairs = draw_pairs(4, 20_000, generator())
    assert np.all(pairs[:, 0] < pairs[:, 1])
    counts = [int((pairs == pair).all(axis=1).sum()) for pair in combinations(range(4), 2)]
    assert sum(counts) == 20_000
    assert chi_square_p_value(counts, np.full(6, 1 / 6)) > ALPHA
    sets = draw_sets(5, 2, 20_000, generator())
    codes = sets @ (1 << np.arange(5))
    found = np.bincount(codes, minlength=32)
    possible = [sum(1 << cell for cell in chosen) for chosen in combinations(range(5), 2)]
    assert chi_square_p_value(found[possible], np.full(10, 0.1)) > ALPHA
    wrong = np.full(10, 0.1)
    wrong[0], wrong[1:] = 0.1 * WRONG, (1 - 0.1 * WRONG) / 9
    many = np.bincount(draw_sets(5, 2, 400_000, generator()) @ (1 << np.arange(5)), minlength=32)
    assert chi_square_p_value(many[possible], wrong) < ALPHA


def test_errors_by_hand() -> None:
    sets = np.array([[True, True, False], [False, False, True], [True, False, True]])
    errors = query_errors(sets, true=[10, 5, 0], estimated=[12.5, 4.0, -3.0])
    np.testing.assert_allclose(errors.absolute, [1.5, 3.0, 0.5])
    np.testing.assert_array_equal(errors.relative, [0.1, math.inf, 0.05])


def test_an_empty_set_counts_as_infinite_even_where_the_estimate_is_right() -> None:
    errors = query_errors(np.array([[True]]), true=[0], estimated=[0.0])
    assert errors.absolute.tolist() == [0.0]
    assert errors.relative.tolist() == [math.inf]


def test_every_run_asks_about_its_own_pair_with_its_own_estimate() -> None:
    """Estimates that are 10 % too high in every cell have a relative error of 0.1 in every run."""
    sizes = (2, 3, 4)
    asked: list[tuple[Pair, int]] = []

    def true(pair: Pair) -> NDArray[np.int64]:
        shape = (sizes[pair[0]], sizes[pair[1]])
        return np.arange(1, 1 + math.prod(shape)).reshape(shape) * (1 + sum(pair))

    def estimated(pair: Pair, runs: int) -> Floats:
        asked.append((pair, runs))
        return np.broadcast_to(1.1 * true(pair), (runs, *true(pair).shape))

    errors = evaluate(sizes, true, estimated, sigma=0.3, runs=200, generator=generator())
    assert [pair for pair, _ in asked] == list(combinations(range(3), 2))
    assert sum(runs for _, runs in asked) == 200
    np.testing.assert_allclose(errors.relative, 0.1)
    assert np.unique(errors.absolute).size > 20
    again = evaluate(sizes, true, estimated, sigma=0.3, runs=200, generator=generator())
    np.testing.assert_array_equal(again.absolute, errors.absolute)
    other = evaluate(sizes, true, estimated, sigma=0.3, runs=200, generator=generator(2))
    assert not np.array_equal(other.absolute, errors.absolute)


def test_loosely_a_pair_may_be_of_one_attribute_and_nothing_of_nothing_is_no_error() -> None:
    assert [set_size(25, 0.1, loosely=True), set_size(30, 0.1, loosely=True)] == [3, 3]
    pairs = draw_pairs(4, 20_000, generator(), loosely=True)
    assert np.all(pairs[:, 0] <= pairs[:, 1])
    assert chi_square_p_value(np.bincount(np.diff(pairs)[:, 0] == 0), [3 / 4, 1 / 4]) > ALPHA
    empty = query_errors(np.array([[True]]), true=[0], estimated=[[0.0], [0.5]], loosely=True)
    assert empty.relative.tolist() == [0.0, math.inf]
