"""Linear calibration is the dense regression estimator on unmixed reports, and its errors hold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol.estimators.calibration.linear import CalibratedEstimate
from protocol.estimators.calibration.margins import Margin
from protocol.estimators.counts import Counts
from protocol.estimators.joint import Block, JointEstimate
from protocol.randomizers import KeepUniform
from protocol.surveys.survey import Attribute, Survey

Floats = NDArray[np.float64]

SURVEY = Survey(
    "three",
    tuple(
        Attribute(name=name, categories=tuple(f"{name}{code}" for code in range(size)))
        for name, size in (("a", 2), ("b", 3), ("c", 4))
    ),
)
SIZES = SURVEY.sizes
CELLS = 24
BLOCKS = ((("b",), 0.6), (("c", "a"), 0.7))
NEARLY = 1 - 1e-12
LAW = np.random.default_rng(5).dirichlet(np.full(CELLS, 1.5)).reshape(SIZES)


def margin_of(*names: str, law: Floats = LAW) -> Margin:
    dropped = tuple(place for place, name in enumerate(SURVEY.names) if name not in names)
    kept = [name for name in SURVEY.names if name in names]
    return Margin(names, law.sum(axis=dropped).transpose([kept.index(name) for name in names]))


def blocks(keep: bool = False) -> tuple[Block, ...]:
    return tuple(
        Block(names, KeepUniform.with_keep(SURVEY.project(names).cells, p=NEARLY if keep else p))
        for names, p in BLOCKS
    )


def matrix(keep: bool = False) -> Floats:
    """The law of a report given a record, both in row-major order of a, b, c; made by hand."""
    whole = np.empty((CELLS, CELLS))
    for x in range(CELLS):
        a, b, c = np.unravel_index(x, SIZES)
        for y in range(CELLS):
            d, e, f = np.unravel_index(y, SIZES)
            p, q = (1.0, 1.0) if keep else (0.6, 0.7)
            one = p * (b == e) + (1 - p) / 3
            two = q * ((c, a) == (f, d)) + (1 - q) / 8
            whole[x, y] = one * two
    return whole


def joint_of(table: NDArray[np.int64], keep: bool = False) -> JointEstimate:
    return JointEstimate(SURVEY, blocks(keep), Counts.from_table(table.reshape(SIZES)))


def tally(law: Floats, n: int, seed: int, keep: bool = False) -> NDArray[np.int64]:
    reports = law.reshape(-1) @ matrix(keep)
    return np.random.default_rng(seed).multinomial(n, reports)


class Dense(NamedTuple):
    """The regression estimator, report by report."""

    weights: Floats
    values: Floats
    errors: Floats


def dense(table: NDArray[np.int64], margins: list[Margin], names: tuple[str, ...]) -> Dense:
    """By least squares, of one row for each report."""
    unmix = np.linalg.inv(matrix())
    rows = unmix[np.repeat(np.arange(CELLS), table)].reshape(-1, *SIZES)
    n = len(rows)

    def columns(of: tuple[str, ...]) -> Floats:
        dropped = tuple(1 + i for i, name in enumerate(SURVEY.names) if name not in of)
        kept = [name for name in SURVEY.names if name in of]
        summed = rows.sum(axis=dropped)
        return summed.transpose(0, *(1 + kept.index(name) for name in of)).reshape(n, -1)

    x = np.concatenate([columns(m.names) for m in margins], axis=1)
    known = np.concatenate([m.shares.ravel() for m in margins])
    y = columns(names)
    design = np.column_stack([np.ones(n), x])
    slopes = np.linalg.lstsq(design, y, rcond=1e-9)[0]
    residuals = y - design @ slopes
    rank = np.linalg.matrix_rank(design, tol=1e-6) - 1
    values = y.mean(axis=0) + (known - x.mean(axis=0)) @ slopes[1:]
    errors = np.sqrt((residuals**2).sum(axis=0) / n / (n - rank))
    centred = x - x.mean(axis=0)
    change = np.linalg.lstsq(centred.T @ centred / n, known - x.mean(axis=0), rcond=1e-9)[0]
    return Dense((1 + centred @ change) / n, values, errors)


MARGINS = [
    [margin_of("a")],
    [margin_of("b"), margin_of("a")],
    [margin_of("c", "b")],
    [margin_of("a", "b"), margin_of("c", "b")],
]


@pytest.mark.parametrize("margins", MARGINS, ids=repr)
@pytest.mark.parametrize("names", [("a",), ("c",), ("b", "c"), ("c", "a", "b")])
def test_it_is_the_regression_estimator(margins: list[Margin], names: tuple[str, ...]) -> None:
    table = tally(LAW, 900, 1)
    oracle = dense(table, margins, names)
    found = CalibratedEstimate.of(joint_of(table), margins)
    cells = found.table(*names)
    np.testing.assert_allclose(cells.values.ravel(), oracle.values, atol=1e-9)
    assert cells.standard_errors is None
    assert cells.population_errors is not None
    np.testing.assert_allclose(cells.population_errors.ravel(), oracle.errors, atol=1e-7)
    kish = oracle.weights.sum() ** 2 / (oracle.weights**2).sum()
    assert found.effective_n == pytest.approx(kish)
    for margin in margins:
        np.testing.assert_allclose(found.table(*margin.names).values, margin.shares, atol=1e-9)
