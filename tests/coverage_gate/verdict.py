"""The demands on intervals, and the test that rejects what does not meet them.

Coverage is demanded to be at least 93 % everywhere, and at most 97 % from 30 expected reports on
where the truth is off the boundary. What was measured by runs is rejected if it would have a chance
of less than one in a thousand, were the demand met: if the upper bound of Clopper and Pearson at
99.9 % is below 93 %, or the lower one above 97 %. What was summed exactly is compared as it is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy import stats

from tests.coverage_gate.known import UNCOVERED, UNKNOWN, VARIANCES, Known
from tests.coverage_gate.measuring import Row

LEAST, MOST = 0.93, 0.97
MOST_FROM = 30
"""From so many expected reports on, intervals must not be too wide."""

DOUBT = 0.001
"""The chance that a figure is rejected that just meets a demand."""

SELDOM = 0.05
"""A point is unknown where an interval is missing more often than this."""

MOST_UNKNOWN = 0.05
"""The most points of the grid that may be unknown."""

VARIANCE, VARIANCE_FROM = 5.0, 100
"""So many of its standard errors a variance may be off, from so many expected reports on."""

_EXACT = 1e-6


class Finding(NamedTuple):
    """What is wrong with a row."""

    row: Row
    what: str

    def __str__(self) -> str:
        row = self.row
        return (
            f"{row.estimator}, {row.target}, about the {row.about}, {row.point}: {self.what} "
            f"(covered {row.covered:.4f}, interval below the truth {row.below:.4f}, above it "
            f"{row.above:.4f}, unknown {row.unknown:.3f}, "
            f"{f'{row.runs} runs' if row.runs else 'exact'})"
        )


def column_bounds(row: Row) -> tuple[float, float]:
    """What the coverage is at least and at most, each but for a chance of ``DOUBT``."""
    if not row.runs:
        return row.covered - _EXACT, row.covered + _EXACT
    hits = round(row.covered * row.runs)
    misses = row.runs - hits
    low = float(stats.beta.ppf(DOUBT, hits, misses + 1)) if hits else 0.0
    high = float(stats.beta.isf(DOUBT, hits + 1, misses)) if misses else 1.0
    return low, high


def unknown(row: Row) -> bool:
    """Whether the point counts as unknown."""
    return row.unknown > SELDOM


def judged(row: Row) -> str | None:
    """What is wrong with a row; None if nothing is."""
    if abs(row.variance) > VARIANCE and row.point.expected >= VARIANCE_FROM:
        return f"variance off by {row.variance:.1f} standard errors"
    if math.isnan(row.covered):
        return None
    low, high = column_bounds(row)
    if high < LEAST:
        return "too low"
    if low > MOST and row.inside and row.point.expected >= MOST_FROM:
        return "too high"
    return None


def findings(rows: list[Row]) -> list[Finding]:
    """All that is wrong with the coverage of some rows."""
    return [Finding(row, what) for row in rows if (what := judged(row)) is not None]


class Summary(NamedTuple):
    """How many figures there are, and how many of them are not as demanded."""

    rows: int
    unknown: int
    low: int
    high: int
    variance: int


def summary_of(rows: list[Row]) -> Summary:
    """Count what is not as demanded."""
    found = [finding.what for finding in findings(rows)]
    missing = sum(map(unknown, rows))
    return Summary(
        len(rows),
        missing,
        found.count("too low"),
        found.count("too high"),
        sum(what.startswith("variance") for what in found),
    )


def _listed(what: str) -> tuple[Known, ...]:
    return VARIANCES if what.startswith("variance") else UNCOVERED


def outdated(rows: list[Row]) -> list[str]:
    """What is listed beforehand and not borne out by any of all rows."""
    found = findings(rows)
    wrong = [
        known
        for listed in (UNCOVERED, VARIANCES)
        for known in listed
        if not any(known.has(one.row) and known in _listed(one.what) for one in found)
    ]
    wrong += [
        known for known in UNKNOWN if not any(unknown(row) and known.has(row) for row in rows)
    ]
    return [f"listed, and not found: {known}" for known in wrong]


def failures(rows: list[Row]) -> list[str]:
    """Why the gate rejects some rows: what is not listed beforehand, or too much of it."""
    failed = [
        str(finding)
        for finding in findings(rows)
        if not any(known.has(finding.row) for known in _listed(finding.what))
    ]
    failed += [
        f"unknown, and not listed: {row.estimator}, {row.target}, about the {row.about}, "
        f"{row.point}: {row.unknown:.1%}"
        for row in rows
        if unknown(row) and not any(known.has(row) for known in UNKNOWN)
    ]
    missing = sum(map(unknown, rows))
    if missing > MOST_UNKNOWN * len(rows):
        failed.append(f"{missing} of {len(rows)} figures are unknown: expected at most 5 %")
    return failed
