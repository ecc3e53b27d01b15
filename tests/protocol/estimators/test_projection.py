"""Projections of raw estimates, by their defining properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol.estimators.projection import clip_and_rescale, project, project_simplex

finite = st.floats(-10, 10)


@settings(deadline=None, max_examples=200)
@given(st.lists(finite, min_size=1, max_size=12))
@example([1.004, 0.0])
def test_simplex_projection_is_the_nearest_point(values: list[float]) -> None:
    given_values = np.array(values)
    projected = project_simplex(given_values)
    assert projected.min() >= 0
    assert projected.sum() == pytest.approx(1, abs=1e-12)
    # The conditions of optimality: one theta, taken from the positive entries, bounds the others.
    taken = given_values - projected
    theta = taken[projected > 0]
    assert np.ptp(theta) < 1e-12
    assert np.all(taken[projected == 0] <= theta[0] + 1e-12)


@settings(deadline=None, max_examples=100)
@given(st.lists(finite, min_size=1, max_size=12).filter(lambda v: max(v) > 1e-300))
def test_clipping_keeps_the_shares_of_the_positive_entries(values: list[float]) -> None:
    given_values = np.array(values)
    projected = clip_and_rescale(given_values)
    assert projected.sum() == pytest.approx(1, abs=1e-12)
    assert np.all(projected[given_values <= 0] == 0)
    largest = int(np.argmax(given_values))
    shares = np.maximum(given_values, 0) / given_values[largest]
    np.testing.assert_allclose(projected / projected[largest], shares, atol=1e-12)


def test_the_two_projections_differ() -> None:
    values = np.array([[0.6, 0.5], [-0.1, 0.0]])
    np.testing.assert_allclose(project_simplex(values), [[0.55, 0.45], [0, 0]], atol=1e-15)
    np.testing.assert_allclose(clip_and_rescale(values), [[6 / 11, 5 / 11], [0, 0]], atol=1e-15)
    assert project(values, "none") is values


@pytest.mark.parametrize("values", [[0.0, -1.0], [math.nan, 1.0], [math.inf, 1.0], []])
def test_clipping_refuses_what_has_no_shares(values: list[float]) -> None:
    with pytest.raises(ValueError, match="entry"):
        clip_and_rescale(np.array(values))


def test_simplex_projection_takes_any_finite_table() -> None:
    np.testing.assert_allclose(project_simplex(np.array([-3.0, -3.0])), [0.5, 0.5])
    np.testing.assert_allclose(project_simplex(np.array([1e15, 1e15 - 1])), [1, 0])
    for values in ([], [math.nan]):
        with pytest.raises(ValueError, match="entry"):
            project_simplex(np.array(values))
