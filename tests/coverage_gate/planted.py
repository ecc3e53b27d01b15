"""Wrong intervals that the gate must reject: what makes sure that it could."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from protocol import Interval, Table
from protocol.estimators.inference.laws import About
from tests.coverage_gate.cases import Answer, Drawn, Estimator, Reader, Said, read
from tests.coverage_gate.estimators import reports
from tests.coverage_gate.grid import Point

Z = float(special.ndtri(0.975))


def _value(answer: Answer) -> Any:
    return answer.values if isinstance(answer, Table) else answer.value


def narrow(answer: Answer, about: About) -> Interval:
    """Standard errors times 0.8."""
    low, high = read(answer, about)
    value = _value(answer)
    return Interval(value + 0.8 * (low - value), value + 0.8 * (high - value))


def wald(answer: Answer, about: About) -> Interval:
    """The estimate and 1.96 estimated standard errors to either side."""
    if isinstance(answer, Table):
        errors = answer.standard_errors if about == "respondents" else answer.population_errors
    else:
        errors = answer.standard_error
    half = Z * (math.nan if errors is None else errors)
    return Interval(_value(answer) - half, _value(answer) + half)


def of_respondents(answer: Answer, about: About) -> Interval:
    """The interval about the respondents, whoever is asked about."""
    return read(answer, "respondents")


# Weights from the estimated table

KEEP, RELEASES = 0.9, 8


@dataclass(frozen=True)
class Combined:
    """A share by releases to as many people each, weighted by inverse estimated variances.

    Its interval is the score interval that would be right, had the weights been fixed.

    Args:
        reported: of each release, the share of the reports that count for the cell.
        n: the number of reports of each.
    """

    reported: tuple[float, ...]
    n: int

    @property
    def _weights(self) -> NDArray[np.float64]:
        rates = (np.array(self.reported) * self.n + 1) / (self.n + 2)
        weights: NDArray[np.float64] = 1 / (rates * (1 - rates))
        return weights / weights.sum()

    @property
    def standard_error(self) -> None:
        """Unknown."""
        return None

    @property
    def value(self) -> float:
        """The share."""
        return (float(self._weights @ self.reported) - (1 - KEEP) / 2) / KEEP

    def interval(self, level: float, about: About) -> Interval:
        """The shares that the value does not contradict."""
        shares = np.linspace(0, 1, 2001)
        rates = KEEP * shares + (1 - KEEP) / 2
        if about == "population":
            variances = rates * (1 - rates)
        else:
            variances = rates * (1 - rates) - KEEP**2 * shares * (1 - shares)
        errors = np.sqrt(variances * float(self._weights @ self._weights) / self.n) / KEEP
        inside = shares[np.abs(self.value - shares) <= Z * errors]
        return Interval(inside.min(initial=1.0), inside.max(initial=0.0))


def combined(point: Point, rng: np.random.Generator) -> Iterator[Drawn]:
    """Releases of one attribute of two categories, each to its own people."""
    other = (1 - KEEP) / 2
    n = point.respondents(KEEP * point.share + other)
    holders = rng.binomial(n, point.share, RELEASES)
    counts = rng.binomial(holders, KEEP + other) + rng.binomial(n - holders, other)
    said: Any = Combined(tuple((counts / n).tolist()), n)
    yield Drawn(Said("cell", said), float(holders.sum() / n / RELEASES), point.share)


class Plant(NamedTuple):
    """A fault, and where it is looked for.

    Args:
        estimator: that has it.
        points: of the grid.
        reader: by which intervals are asked for.
    """

    estimator: Estimator
    points: tuple[Point, ...]
    reader: Reader = read


_ONE = Estimator("rr-independent, an attribute", (), counted=reports.one_attribute)

PLANTS: Mapping[str, Plant] = {
    "standard errors times 0.8": Plant(_ONE, (Point(1_000, 0.1, 0.5, 3),), narrow),
    "Wald's interval": Plant(_ONE, (Point(10, 0.01, 0.9, 10), Point(3, 0.1, 0.5, 10)), wald),
    "the population taken for the respondents": Plant(
        _ONE, (Point(1_000, 0.5, 0.9, 2),), of_respondents
    ),
    "weights from the estimated table": Plant(
        Estimator("releases", (), drawn=combined), (Point(10, 0.1, 0.9, 2),)
    ),
}
"""The faults, by what they are."""
