"""Operators by components, against dense matrices."""

from __future__ import annotations

import functools
import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.estimators.releases.components import (
    applied,
    coefficients_to_entries,
    component_subsets,
    entries_to_coefficients,
    meeting,
    spread,
)
from tests.enumeration import Floats

sizes = st.lists(st.integers(2, 4), min_size=1, max_size=3).map(tuple)


def projections(shape: tuple[int, ...]) -> dict[tuple[int, ...], Floats]:
    """The matrix that takes a table to each of its components."""
    mean = [np.full((size, size), 1 / size) for size in shape]
    found = {}
    for inside in itertools.product((0, 1), repeat=len(shape)):
        parts = [
            np.eye(len(even)) - even if one else even
            for even, one in zip(mean, inside, strict=True)
        ]
        found[inside] = functools.reduce(np.kron, parts)
    return found


def dense(coefficients: Floats, shape: tuple[int, ...]) -> Floats:
    """The operator's matrix."""
    parts = projections(shape)
    total: Floats = sum(
        (coefficients[inside] * part for inside, part in parts.items()), np.zeros(())
    )
    return total


@settings(deadline=None, max_examples=40)
@given(sizes, st.integers(0, 100))
def test_components_are_projections(shape: tuple[int, ...], seed: int) -> None:
    generator = np.random.default_rng(seed)
    # Some are 0 or alike, for which there are short cuts.
    coefficients = generator.choice([0.0, 1.0, 2.5, -1.0], (2,) * len(shape))
    table = generator.random(shape)
    expected = dense(coefficients, shape) @ table.reshape(-1)
    assert np.allclose(applied(coefficients, table).reshape(-1), expected, atol=1e-12)


@settings(deadline=None, max_examples=40)
@given(sizes, st.integers(0, 100))
def test_entries_follow_from_where_row_and_column_agree(shape: tuple[int, ...], seed: int) -> None:
    several = np.random.default_rng(seed).normal(size=(3, *(2,) * len(shape)))
    cells = list(np.ndindex(*shape))
    for coefficients, entries in zip(several, coefficients_to_entries(several, shape), strict=True):
        found = [
            [entries[tuple(int(a == b) for a, b in zip(x, y, strict=True))] for y in cells]
            for x in cells
        ]
        assert np.allclose(found, dense(coefficients, shape), atol=1e-12)
    assert np.allclose(
        entries_to_coefficients(coefficients_to_entries(several, shape), shape), several, atol=1e-12
    )


def test_components_by_the_attributes_in_them() -> None:
    factor = np.ones((2, 2, 2)) * meeting([True, False, True], 1.0, 0.3)
    for inside in itertools.product((0, 1), repeat=3):
        assert factor[inside] == (0.3 if inside[0] or inside[2] else 1.0)
    known = np.zeros((2, 2, 2))
    known[component_subsets([True, False, True])] = 1
    assert {place for place in itertools.product((0, 1), repeat=3) if known[place]} == {
        (0, 0, 0),
        (1, 0, 0),
        (0, 0, 1),
        (1, 0, 1),
    }
    part = np.arange(6.0).reshape(2, 3)
    whole = np.zeros((2, 4, 3)) + spread(part, [True, False, True], (2, 4, 3))
    assert np.array_equal(whole.sum(axis=1), part)
    assert np.array_equal(whole[:, 0], whole[:, 3])
