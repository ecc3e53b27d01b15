"""Coverage, by exact sums over counts or by runs."""

from __future__ import annotations

import itertools
import math
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from protocol.estimators.inference.laws import About
from tests.coverage_gate.cases import ABOUT, Counted, Estimator, Reader, read
from tests.coverage_gate.grid import Point
from tests.coverage_gate.laws import Law

OFF_BOUNDARY = 2.0
"""How many standard deviations off either end the truth is, where it is off the boundary."""

_LEVELS = (1e-6, 1e-3, 0.01, 0.02, 0.03, 0.05, 0.2)
_FEW = 20
"""The most counts that are all gone through."""


class Row(NamedTuple):
    """What was measured of one number at one point.

    Args:
        estimator: its name.
        target: which of its numbers.
        about: whose.
        point: of the grid.
        covered: the chance that the interval holds the truth, where one is given.
        below: that the interval is below the truth.
        above: that it is above.
        unknown: the chance that none is given.
        runs: the number of runs in which one was given; 0 if the chances are exact.
        inside: whether the truth is off the boundary.
        variance: by how many of its own standard errors the mean of the squared errors differs
            from that of the squared standard errors; NaN where that was not measured.
    """

    estimator: str
    target: str
    about: About
    point: Point
    covered: float
    below: float
    above: float
    unknown: float
    runs: int
    inside: bool
    variance: float = math.nan


def measured(
    estimator: Estimator,
    point: Point,
    *,
    seed: int,
    runs: int,
    reader: Reader = read,
    numbers: str = "",
) -> list[Row]:
    """Numbers of an estimator at one point: those whose names have a pattern in them."""

    def wanted(target: str) -> bool:
        return re.search(numbers, target) is not None

    if estimator.counted is not None:
        return [
            row
            for case in estimator.counted(point)
            for row in _summed(estimator.name, point, case, reader)
            if wanted(row.target)
        ]
    return list(_drawn(estimator, point, seed, runs, reader, wanted))


# By exact sums


def _summed(name: str, point: Point, case: Counted, reader: Reader) -> Iterator[Row]:
    known: dict[int, dict[str, str]] = {}

    def fates(count: int) -> dict[str, str]:
        if count not in known:
            known[count] = {
                said.target: fate(said.ends(reader, case.about), case.truth[said.target])
                for said in case.said(count)
                if said.target in case.truth
            }
        return known[count]

    for target, truth in case.truth.items():
        chances = _chances(case.law, lambda count, of=target: fates(count)[of])
        deviation = abs(case.slope[target]) * case.law.deviation
        inside = off_boundary(truth, deviation, case.bounds[target])
        yield _row(name, target, case.about, point, chances, 0, inside)


def fate(ends: tuple[float, float], truth: float) -> str:
    """What became of an interval."""
    low, high = ends
    if math.isnan(low) or math.isnan(high):
        return "unknown"
    # A rounding of the last digits decides nothing.
    slack = 1e-12 * max(1.0, abs(truth))
    if low > high + slack:
        raise AssertionError(f"an interval from {low} to {high}")
    return "above" if low > truth + slack else "below" if high < truth - slack else "covered"


def off_boundary(truth: float, deviation: float, bounds: tuple[float, float]) -> bool:
    """Whether the truth is far from its bounds, and not exactly known."""
    least, most = bounds
    known = deviation <= 1e-9 * (most - least)
    return not known and OFF_BOUNDARY * deviation < min(truth - least, most - truth)


def _chances(law: Law, fate_of: Callable[[int], str]) -> dict[str, float]:
    """The chance of each fate.

    Fates are looked up at some counts, more of them in the tails; between two of one fate all have
    it, between two of different fates the change is found by halving.
    """
    size = len(law.chances)
    cumulative = np.cumsum(law.chances)
    if size <= _FEW:
        places = list(range(size))
    else:
        levels = [*_LEVELS, 0.5, *(1 - level for level in _LEVELS)]
        at = np.searchsorted(cumulative, np.array(levels) * cumulative[-1])
        places = sorted({0, size - 1, *np.minimum(at, size - 1).tolist()})
    found: dict[str, float] = defaultdict(float)
    total = float(cumulative[-1])

    def mass(start: int, stop: int) -> float:
        return float(cumulative[stop - 1] - (cumulative[start - 1] if start else 0.0)) / total

    def between(start: int, stop: int) -> None:
        one, other = fate_of(law.first + start), fate_of(law.first + stop)
        if one == other or stop == start + 1:
            found[one] += mass(start, stop)
            return
        middle = (start + stop) // 2
        between(start, middle)
        between(middle, stop)

    for start, stop in itertools.pairwise(places):
        between(start, stop)
    found[fate_of(law.first + places[-1])] += mass(places[-1], places[-1] + 1)
    return found


# By runs


def _drawn(
    estimator: Estimator,
    point: Point,
    seed: int,
    runs: int,
    reader: Reader,
    wanted: Callable[[str], bool],
) -> Iterator[Row]:
    assert estimator.drawn is not None
    stream = zlib.crc32(f"{estimator.name} {point}".encode())
    rng = np.random.default_rng([seed, stream])
    fates: dict[tuple[str, About], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    errors: dict[tuple[str, About], list[float]] = defaultdict(list)
    stated: dict[tuple[str, About], list[float]] = defaultdict(list)
    truths: dict[tuple[str, About], tuple[float, tuple[float, float]]] = {}
    for _ in range(runs):
        for one in estimator.drawn(point, rng):
            if not wanted(one.said.target):
                continue
            for about in ABOUT:
                key = one.said.target, about
                truth = one.respondents if about == "respondents" else one.population
                if math.isnan(truth):
                    continue
                fates[key][fate(one.said.ends(reader, about), truth)] += 1
                errors[key].append(one.said.value - truth)
                stated[key].append(one.said.error(about))
                truths[key] = one.population, one.bounds
    for key, found in fates.items():
        truth, bounds = truths[key]
        total = sum(found.values())
        chances = {name: many / total for name, many in found.items()}
        known = total - found["unknown"]
        known_errors = np.array(errors[key])[~np.isnan(errors[key])]
        deviation = float(known_errors.std()) if len(known_errors) else 0.0
        inside = off_boundary(truth, deviation, bounds)
        row = _row(estimator.name, *key, point, chances, known, inside)
        yield row._replace(variance=_excess(errors[key], stated[key]))


def _excess(errors: list[float], stated: list[float]) -> float:
    """How far the squares of errors are, on average, from what is stated, in standard errors."""
    differences = np.square(errors) - np.square(stated)
    # The squares of few errors may happen to be alike: they vary at least as normal errors do.
    spread = max(float(np.std(differences)), math.sqrt(2) * float(np.mean(np.square(stated))))
    # What is exact is off by a rounding.
    if math.isnan(spread) or spread < 1e-24:
        return math.nan
    return float(differences.mean()) / (spread / math.sqrt(len(differences)))


def _row(
    name: str,
    target: str,
    about: About,
    point: Point,
    chances: dict[str, float],
    runs: int,
    inside: bool,
) -> Row:
    unknown = chances.get("unknown", 0.0)
    known = 1 - unknown

    def share(fate: str) -> float:
        return chances.get(fate, 0.0) / known if known > 1e-9 else math.nan

    covered, below, above = map(share, ("covered", "below", "above"))
    return Row(name, target, about, point, covered, below, above, unknown, runs, inside)
