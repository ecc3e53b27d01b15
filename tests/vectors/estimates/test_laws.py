"""Laws of every estimate: of tables, queries, errors, intervals and what is refused."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from protocol import SurveyError, UnsupportedEventError
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.laws import SIDES
from protocol.estimators.tables import Table
from tests.vectors.estimates.figures import audited
from tests.vectors.estimates.test_estimates import CASES, log_in

LOGS = {case["name"]: log_in(case) for case in CASES}
EVERY = pytest.mark.parametrize("name", LOGS)

SEVERAL = ("pair-rr", "rr-clusters", "rr-independent, weights")
"""Estimates from several releases or strata: the law of a query is not that of a cell."""
CHANGING = ("rrba", "rr-independent, weights")
"""Estimates with errors of cells that a mean over all reports does not have."""


@functools.cache
def estimated(name: str) -> Estimate:
    """The estimate of a small record; there is at least one of every variant."""
    found = audited(LOGS[name]).estimate
    assert found is not None
    return found


def tables_of(name: str) -> Iterator[Table]:
    """All tables of one attribute and of two."""
    yield from estimated(name).marginals().values()
    yield from estimated(name).pairs()


@EVERY
def test_a_query_of_a_cell_is_that_of_the_table(name: str) -> None:
    for table in tables_of(name):
        for cell in np.ndindex(table.values.shape):
            weights = np.zeros(table.values.shape)
            weights[cell] = 1
            found = estimated(name).query(table.names, weights)
            assert_allclose(found.value, table.values[cell], atol=1e-9)
            error, errors = found.standard_error, table.standard_errors
            if error is not None and errors is not None and not name.startswith(CHANGING):
                assert math.isnan(errors[cell]) or error == pytest.approx(errors[cell], abs=1e-7)
            if name.startswith(SEVERAL):
                continue
            twice = estimated(name).query(table.names, 2 * weights + 1)
            rest = estimated(name).query(table.names, 1 - weights)
            for about in SIDES:
                ends = np.array([side[cell] for side in table.interval(0.9, about)])
                assert_allclose(found.interval(0.9, about), ends, atol=1e-6)
                # Encoded attributes have cells of no category, which no weight is about; of
                # hashes it is not known how they go together.
                if "encoded" not in name and not name.endswith(("olh", "blh")):
                    assert_allclose(twice.interval(0.9, about), 1 + 2 * ends, atol=1e-6)
                    assert_allclose(rest.interval(0.9, about), 1 - ends[::-1], atol=1e-6)


@EVERY
def test_the_order_of_attributes_changes_nothing(name: str) -> None:
    for table in estimated(name).pairs():
        other = estimated(name).table(*table.names[::-1])
        assert_allclose(other.values, table.values.T, atol=1e-9)
        for about in SIDES:
            ends = zip(table.interval(0.9, about), other.interval(0.9, about), strict=True)
            for one, two in ends:
                assert_allclose(two, one.T, atol=1e-6)


@EVERY
def test_covariances_have_the_squares_of_the_errors(name: str) -> None:
    for table in tables_of(name):
        for about, errors in zip(
            SIDES, (table.standard_errors, table.population_errors), strict=True
        ):
            with contextlib.suppress(UnsupportedEventError, ValueError):  # It is not known.
                found = table.covariance(about)
                assert errors is not None
                assert_allclose(found, found.T, atol=1e-12)
                each = np.where(np.isnan(errors.ravel()), found.diagonal(), errors.ravel() ** 2)
                if not name.startswith(CHANGING):
                    assert_allclose(found.diagonal(), each, atol=1e-9)


@EVERY
def test_projections_are_shares_and_keep_errors_and_intervals(name: str) -> None:
    for table in tables_of(name):
        if (table.values > 0).any():
            for projection in ("clip", "simplex"):
                made = estimated(name).table(*table.names, projection=projection)
                assert made.values.min() >= 0
                assert made.values.sum() == pytest.approx(1)
                assert_array_equal(made.standard_errors, table.standard_errors)
                assert_array_equal(made.interval(), table.interval())


@EVERY
def test_other_questions_are_refused(name: str) -> None:
    estimate = estimated(name)
    one, *_ = estimate.survey.names
    cells = np.ones(estimate.survey.attribute(one).size)
    for weights in (cells[:-1], cells[None], cells * math.nan, cells * math.inf):
        with pytest.raises(ValueError, match=r"shape|not finite"):
            estimate.query([one], weights)
    with pytest.raises(SurveyError, match="text"):
        estimate.query(one, cells)
    with pytest.raises(SurveyError, match="no attribute 'none'"):
        estimate.table("none")
    with pytest.raises(SurveyError, match="twice"):
        estimate.table(one, one)
    with pytest.raises(ValueError, match=r"expected|no attribute"):
        estimate.table()
