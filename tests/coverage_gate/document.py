"""The coverage of intervals, as a page of the documentation and a table beside it."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tests.coverage_gate.estimators.registry import ESTIMATORS
from tests.coverage_gate.grid import EXPECTED
from tests.coverage_gate.known import UNCOVERED, UNKNOWN, VARIANCES
from tests.coverage_gate.measuring import Row
from tests.coverage_gate.verdict import summary_of, unknown

HEAD = """# Coverage of the intervals

The share of nominal 95 % intervals that hold the truth, for every estimator of every variant: about
the respondents, and about the population that they are a random sample of. A pilot and the final
release count together. `python -m tests.coverage_gate` measures it and writes this page and its
table.
"""

GRID = """
## How it is measured

| coordinate of a point | values |
|---|---|
| reports expected to count for the cell | 1, 3, 10, 30, 100, 1,000, 10,000, 1,000,000 |
| share of the cell | .001, .01, .1, .5 |
| keep probability p | .1, .3, .5, .7, .9 |
| categories r | 2, 3, 10, 50 |

A randomizer that takes an epsilon has that of keeping with probability p. With coins, p is the part
of sampling in the variance of a cell; for clusters from counts with coins, the variance of a cell's
coins equals the expected reports.

- **Exact**: where an interval follows from one count, coverage is the sum over its law, on all of
  the grid that applies.
- **Drawn**: else the gate draws surveys by its own laws: people from a population, their reports,
  and for RR-Clusters the clusters anew in each run. It takes a part of the grid: every number of
  reports with every share, keep probabilities and categories in turns. A figure is rejected if its
  chance under the demand is below one in a thousand (Clopper and Pearson).

The demands:

- at least 93 % everywhere;
- at most 97 % from 30 expected reports on, if the truth is more than two standard deviations from
  the ends of its range, such as 0 and 1;
- unknown in more than 5 % of the cases at no more than 5 % of the points, listed beforehand in
  `tests/coverage_gate/known.py`; coverage is that of the given intervals;
- where surveys are drawn, from 100 expected reports on: the means of squared standard errors and of
  squared errors agree within five standard errors of their difference.

Beside a cell, `set` is a query of a set of cells, `scores` one of weights of many values, `count` a
count. *Comparisons* are of two cells of a table of two attributes (difference and ratio) and of
four (odds ratio). *All cells* is how often simultaneous intervals hold all cells of such a table;
it may exceed 97 %. *Calibrated* estimates have a known margin of one of the two attributes, and are
about the population alone; if post-stratified, half of the margin's categories are half as likely
to respond.

The gate must reject planted wrong intervals: standard errors times .8, Wald's interval, the
population taken for the respondents, weights from the estimated table.
"""


POINTS = {estimator.name: len(estimator.points) for estimator in ESTIMATORS}
"""How many points of the grid each estimator has."""

_NOTED = ("figures", "unknown", "too low", "too high")


class Line(NamedTuple):
    """A line of the table: a number of an estimator, at all points where it was measured.

    Args:
        name: of the estimator.
        target: the number.
        about: whom.
        how: it was measured.
        cells: one for each number of expected reports.
        noted: how many figures there are, and how many of them are unknown, too low and too high.
    """

    name: str
    target: str
    about: str
    how: str
    cells: tuple[str, ...]
    noted: tuple[int, ...]

    @property
    def number(self) -> tuple[str, str, str]:
        """Of what it is."""
        return self.name, self.target, self.about

    @property
    def points(self) -> int:
        """How many points of the grid were measured."""
        return int(_POINTS.findall(self.how)[0])

    @property
    def fields(self) -> list[str]:
        """The line as fields of a table."""
        return [*self[:4], *self.cells, *map(str, self.noted)]


_POINTS = re.compile(r"(\d+) of \d+ points")


def lines_of(rows: Iterable[Row]) -> list[Line]:
    """The lines of some figures."""
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.estimator, row.target, row.about].append(row)
    found = []
    for number, some in groups.items():
        runs, points = max(row.runs for row in some), len({row.point for row in some})
        how = f"{f'{runs:,} runs' if runs else 'exact'}, {points} of {POINTS[number[0]]} points"
        cells = tuple(_cell([row for row in some if _column(row) == at]) for at in EXPECTED)
        summary = summary_of(some)
        noted = (summary.rows, summary.unknown, summary.low, summary.high)
        found.append(Line(*number, how, cells, noted))
    return found


def lines_in(text: str) -> list[Line]:
    """The lines of a table, of estimators that there still are."""
    first, last = 4, 4 + len(EXPECTED)
    return [
        Line(*parts[:first], tuple(parts[first:last]), tuple(map(int, parts[last:])))
        for parts in csv.reader(io.StringIO(text))
        if parts[0] in POINTS
    ]


def merged(lines: Iterable[Line], kept: Iterable[Line]) -> list[Line]:
    """Lines, and those of other numbers that are kept, estimator by estimator."""
    by_number = {line.number: line for line in kept} | {line.number: line for line in lines}
    order = list(POINTS)
    return sorted(by_number.values(), key=lambda line: order.index(line.name))


def page(lines: Sequence[Line], *, seed: int) -> str:
    """The page."""
    text = [
        HEAD,
        *_known(lines),
        *_missing(lines),
        GRID,
        f"The seed is {seed}, or another for figures of an earlier run.\n",
    ]
    text += ["## By estimator\n", *_by_estimator(lines)]
    return "\n".join(text).rstrip() + "\n"


def _known(lines: Sequence[Line]) -> Iterator[str]:
    figures, unknown_, low, high = (
        sum(noted) for noted in zip(*(line.noted for line in lines), strict=True)
    )
    yield "## What is unknown, and what is not covered\n"
    yield (
        f"Of {figures:,} figures {unknown_:,} are unknown ({unknown_ / max(figures, 1):.1%}), "
        f"{low:,} too low and {high:,} too high.\n"
    )
    yield (
        "Tables by `em`, `clip` and `simplex` and weighted records (RR-Adjustment, raking) are "
        "point estimates, with the intervals of the raw shares or none.\n"
    )
    yield (
        "Not measured: RRBA one by one, with a stopping rule, or in groups of three and more; "
        "strata and own designs, whose intervals follow from those below; means by other weights.\n"
    )
    for title, known in (
        ("Unknown", UNKNOWN),
        ("Not as demanded, at points (expected reports, share, p, r)", UNCOVERED),
        ("Standard errors of more than the distance from the truth", VARIANCES),
    ):
        if known:
            yield f"{title}:\n"
            yield from (f"- {one}" for one in known)
            yield ""


def _missing(lines: Sequence[Line]) -> Iterator[str]:
    measured = {line.name for line in lines}
    missing = [name for name in POINTS if name not in measured]
    if missing:
        yield f"Not measured yet: {'; '.join(missing)}.\n"
    points = {name: max(line.points for line in lines if line.name == name) for name in measured}
    total = sum(POINTS[name] for name in measured)
    if sum(points.values()) < total:
        yield (
            f"Measured: {sum(points.values()):,} of {total:,} points. Drawn surveys may have few "
            "runs: with a hundred, a coverage of 83 % is rejected half of the time.\n"
        )


def table(lines: Iterable[Line]) -> str:
    """The table, as CSV."""
    text = io.StringIO()
    counts = [f"{expected:,}" for expected in EXPECTED]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["estimator", "number", "about", "measured", *counts, *_NOTED])
    writer.writerows(line.fields for line in lines)
    return text.getvalue()


def _by_estimator(lines: Iterable[Line]) -> Iterator[str]:
    yield (
        "[coverage.csv](coverage.csv) has all figures: the lowest and, where the truth is off the "
        "boundary, the highest coverage in percent, by expected reports; `?` where no interval is "
        "given. By variant:\n"
    )
    groups: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        groups[line.name.split(",")[0]].append(line)
    sums = {
        name: [sum(noted) for noted in zip(*(line.noted for line in some), strict=True)]
        for name, some in groups.items()
    }
    # A column or row of zeros says no more than the sums above.
    shown = [at for at in range(len(_NOTED)) if any(noted[at] for noted in sums.values())]
    yield f"| variant | {' | '.join(_NOTED[at] for at in shown)} |"
    yield f"|---|{'---|' * len(shown)}"
    for name, noted in sums.items():
        if any(noted[1:]):
            yield f"| {name} | {' | '.join(f'{noted[at]:,}' for at in shown)} |"
    good = [f"{name} ({noted[0]:,})" for name, noted in sums.items() if not any(noted[1:])]
    if good:
        yield f"\nAll figures are known and as demanded: {', '.join(good)}."


def _column(row: Row) -> int:
    """The column that a row is shown in: the largest number that it reaches."""
    return max(at for at in EXPECTED if at <= row.point.expected)


def _cell(rows: Sequence[Row]) -> str:
    known = [row for row in rows if not unknown(row) and not math.isnan(row.covered)]
    if not known:
        return "?" if rows else ""
    low = min(row.covered for row in known)
    off = [row.covered for row in known if row.inside]
    text = f"{100 * low:.1f}" + (f" to {100 * max(off):.1f}" if off else "")
    return text + (" ?" if len(known) < len(rows) else "")
