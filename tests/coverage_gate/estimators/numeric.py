"""Means of numbers, by one bit and piecewise."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np

from protocol import Attribute, Survey
from protocol.variants import NumericMean
from protocol.variants.numeric.numeric_mean import Mechanism
from protocol.variants.oracles.attributes import AttributeTallies
from tests.coverage_gate.cases import Drawn, Estimator, Said
from tests.coverage_gate.grid import EXPECTED, Point, grid
from tests.coverage_gate.laws import Floats, drawn

SIZE = 9
NUMBERS = Survey(
    "numbers", (Attribute(name="a", categories=tuple(f"{i / 4}" for i in range(SIZE))),)
)
"""From 0 to 2."""


@functools.lru_cache(maxsize=64)
def _variant(mechanism: Mechanism, keep: float) -> NumericMean:
    return NumericMean(
        survey=NUMBERS, epsilon=math.log1p(2 * keep / (1 - keep)), mechanism=mechanism
    )


@functools.lru_cache(maxsize=64)
def _rows(mechanism: Mechanism, keep: float) -> Floats:
    [randomizer] = _variant(mechanism, keep).randomizers
    rows = np.array([[float(one) for one in randomizer.row(code)] for code in range(SIZE)])
    return rows / rows.sum(axis=1, keepdims=True)


def mean(mechanism: Mechanism, point: Point, rng: np.random.Generator) -> Iterator[Drawn]:
    """The mean of numbers of which a share is the largest, and the others are small."""
    law = np.zeros(SIZE)
    law[:3] = (1 - point.share) * np.array([0.5, 0.3, 0.2])
    law[-1] += point.share
    truth = drawn(rng, point.expected, law)
    totals = rng.multinomial(truth, _rows(mechanism, point.keep)).sum(axis=0)
    n = int(truth.sum())
    variant = _variant(mechanism, point.keep)
    result = AttributeTallies(n, np.array([n], np.uint32), totals.astype(np.uint32))
    values = np.arange(SIZE) / 4
    yield Drawn(
        Said("mean", variant.estimate(result).attribute_means()["a"]),
        float(truth @ values) / n,
        float(law @ values),
        (0.0, 2.0),
    )


POINTS = grid(expected=EXPECTED, shares=(0.01, 0.5), keeps=(0.1, 0.5, 0.9), categories=(SIZE,))

ESTIMATORS = tuple(
    Estimator(f"numeric-mean, {mechanism}", POINTS, drawn=functools.partial(mean, mechanism))
    for mechanism in ("one-bit", "piecewise")
)
