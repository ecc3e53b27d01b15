"""What is said of several cells together: contrasts, and all cells of a table at once."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from protocol import (
    CombinedReleases,
    Contrast,
    Estimate,
    Interval,
    JointReports,
    LinearEstimate,
    Release,
    Table,
    difference,
    odds_ratio,
    ratio,
)
from protocol import Counts as Histogram
from protocol.estimators.inference.laws import About
from protocol.variants import RRIndJoint
from tests.coverage_gate.cases import Drawn, Estimator, Said
from tests.coverage_gate.estimators.reports import chance_apart
from tests.coverage_gate.estimators.surveys import survey_of
from tests.coverage_gate.grid import Point, fraction
from tests.coverage_gate.laws import Counts, Floats, drawn, kept_apart, uneven

NAMES = ("a", "b")

# Ratios have no largest value; whatever is far above all that occur will do.
_MOST_RATIO = 1e6


@dataclass(frozen=True)
class Compared:
    """A contrast as a number, asked for anew at each level.

    Args:
        table: of the cells.
        compare: by level, and whom it is about.
    """

    table: Table
    compare: Callable[[Table, float, About], Contrast]

    @property
    def value(self) -> float:
        """The contrast."""
        return self.compare(self.table, 0.5, "respondents").value

    @property
    def standard_error(self) -> None:
        """Contrasts have none of their own."""
        return None

    def interval(self, level: float, about: About) -> Interval:
        """Its interval."""
        found = self.compare(self.table, level, about)
        return Interval(np.asarray(found.low), np.asarray(found.high))


@dataclass(frozen=True)
class AllCells:
    """Whether the simultaneous intervals of a table hold all of its cells: 0 then, else above 0.

    Args:
        table: the estimate.
        truths: about whom.
    """

    table: Table
    truths: dict[About, Floats]
    value: float = 0.0
    standard_error: float | None = None

    def interval(self, level: float, about: About) -> Interval:
        """Around 0 if all cells are held, above it if one is not; NaN if one is unknown."""
        low, high = self.table.interval(level, about, simultaneous=True)
        truth = self.truths[about]
        if np.isnan(low).any():
            return Interval(np.asarray(math.nan), np.asarray(math.nan))
        held = bool(((low <= truth + 1e-12) & (truth <= high + 1e-12)).all())
        return Interval(np.asarray(0.0 if held else 1.0), np.asarray(1.0))


def _cells(shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    first, second = np.zeros(shape), np.zeros(shape)
    first[0, 0], second[0, 1] = 1.0, 1.0
    return first, second


def _difference(table: Table, level: float, about: About) -> Contrast:
    return difference(table, *_cells(table.values.shape), level=level, about=about)


def _ratio(table: Table, level: float, about: About) -> Contrast:
    return ratio(table, *_cells(table.values.shape), level=level, about=about)


def _odds_ratio(table: Table, level: float, about: About) -> Contrast:
    return odds_ratio(table, (0, 1), (0, 1), level=level, about=about)


def _odds(shares: Floats) -> float:
    below = float(shares[0, 1] * shares[1, 0])
    return float(shares[0, 0] * shares[1, 1]) / below if below else math.nan


def compared(table: Table, truth: Counts, law: Floats) -> Iterator[Drawn]:
    """Contrasts of the first cells, and all cells at once, with the truth about them."""
    shares = truth / truth.sum()

    def both(of: Callable[[Floats], float]) -> tuple[float, float]:
        return of(shares), of(law)

    for target, compare, of, bounds in (
        ("difference", _difference, lambda s: float(s[0, 0] - s[0, 1]), (-1.0, 1.0)),
        (
            "ratio",
            _ratio,
            lambda s: float(s[0, 0] / s[0, 1]) if s[0, 1] else math.nan,
            (0.0, _MOST_RATIO),
        ),
        ("odds ratio", _odds_ratio, _odds, (0.0, _MOST_RATIO)),
    ):
        said = Said(target, Compared(table, compare), unbiased=False)
        yield Drawn(said, *both(of), bounds)
    truths: dict[About, Floats] = {"respondents": shares, "population": law}
    yield Drawn(Said("all cells", AllCells(table, truths), unbiased=False), 0.0, 0.0, (0.0, 0.0))


def _reports(
    point: Point, rng: np.random.Generator
) -> tuple[LinearEstimate[JointReports], Counts, Floats]:
    r, p = point.categories, point.keep
    survey, law = survey_of((r, r)), uneven((r, r), point.share)
    truth = drawn(rng, point.respondents(chance_apart(point)), law)
    counts = Histogram.from_table(kept_apart(rng, truth, p))
    return (
        LinearEstimate(JointReports(survey, RRIndJoint.with_keep(survey, p).blocks, counts)),
        truth,
        law,
    )


def of_reports(point: Point, rng: np.random.Generator) -> Iterator[Drawn]:
    """Two attributes that were randomized by themselves."""
    estimate, truth, law = _reports(point, rng)
    yield from compared(estimate.table(*NAMES), truth, law)


def of_releases(point: Point, rng: np.random.Generator) -> Iterator[Drawn]:
    """Two releases of the same answers."""
    estimate, truth, law = _reports(point, rng)
    counts = Histogram.from_table(kept_apart(rng, truth, point.keep))
    other = LinearEstimate(JointReports(estimate.survey, estimate.source.blocks, counts))
    both: Estimate = LinearEstimate(
        CombinedReleases(
            estimate.survey,
            (Release.of_reports(estimate.source), Release.of_reports(other.source)),
            estimate.source,
        )
    )
    yield from compared(both.table(*NAMES), truth, law)


ESTIMATORS = tuple(
    Estimator(f"comparisons, {name}", fraction((2, 3)), drawn=functools.partial(case))
    for name, case in (("reports", of_reports), ("releases", of_releases))
)
