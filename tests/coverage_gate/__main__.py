"""``python -m tests.coverage_gate``: measure the coverage of all intervals, and judge it.

Takes about an hour on two quiet cores, and a few minutes with ``--every 4 --runs 100``.
``--out docs/coverage.md`` writes the page, and the table beside it. What was measured takes the
place of its lines there, and all others stay: ``--only rrba --numbers scores --out
docs/coverage.md`` renews a few lines.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.coverage_gate.document import lines_in, lines_of, merged, page, table
from tests.coverage_gate.estimators.registry import ESTIMATORS
from tests.coverage_gate.grid import Point
from tests.coverage_gate.measuring import Row, measured
from tests.coverage_gate.planted import PLANTS
from tests.coverage_gate.verdict import failures, findings, outdated, summary_of

CHUNK = 4
"""How many points a job takes at once."""

_BY_NAME = {estimator.name: estimator for estimator in ESTIMATORS}


def measured_at(
    name: str, points: tuple[Point, ...], seed: int, runs: int, numbers: str
) -> list[Row]:
    """Numbers of an estimator at some points."""
    return [
        row
        for point in points
        for row in measured(_BY_NAME[name], point, seed=seed, runs=runs, numbers=numbers)
    ]


def rows_in(path: Path) -> Iterator[Row]:
    """The figures in a file."""
    for line in path.read_text(encoding="utf-8").splitlines():
        row = Row(*json.loads(line))
        yield row._replace(point=Point(*row.point))


def all_rows(given: argparse.Namespace) -> Iterator[Row]:
    """Measure, in jobs, estimator by estimator."""
    kept = list(rows_in(given.rows)) if given.rows is not None and given.rows.exists() else []
    yield from kept
    done = {row.estimator for row in kept}
    with concurrent.futures.ProcessPoolExecutor(given.jobs) as pool:
        for name, estimator in _BY_NAME.items():
            if name in done or not re.search(given.only, name):
                continue
            began, points = time.perf_counter(), estimator.points[:: given.every]
            jobs = [
                pool.submit(
                    measured_at,
                    name,
                    points[at : at + CHUNK],
                    given.seed,
                    given.runs,
                    given.numbers,
                )
                for at in range(0, len(points), CHUNK)
            ]
            rows = [row for job in jobs for row in job.result()]
            found = summary_of(rows)
            print(
                f"{name}: {len(points)} points, {found.rows} figures, {found.low} too low, "
                f"{found.high} too high, {found.variance} variances off, {found.unknown} unknown, "
                f"{time.perf_counter() - began:.0f} s",
                flush=True,
            )
            if given.rows is not None:
                with given.rows.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(row) + "\n" for row in rows)
            yield from rows


def main() -> int:
    """Measure, print what fails, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.coverage_gate")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--runs", type=int, default=400, help="where surveys are drawn")
    parser.add_argument("--only", default="", metavar="REGEX", help="the estimators so named")
    parser.add_argument("--numbers", default="", metavar="REGEX", help="those of them so named")
    parser.add_argument("--every", type=int, default=1, help="of so many points one")
    parser.add_argument("--shown", type=int, default=50, help="how many failures are printed")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the page; lines of other numbers stay"
    )
    parser.add_argument(
        "--rows",
        type=Path,
        metavar="FILE",
        help="figures are kept in it, as JSON lines, and those in it are not measured again",
    )
    given = parser.parse_args()
    rows = list(all_rows(given))
    missed = [
        what
        for what, plant in PLANTS.items()
        if not findings(
            [
                row
                for point in plant.points
                for row in measured(
                    plant.estimator, point, seed=given.seed, runs=given.runs, reader=plant.reader
                )
            ]
        )
    ]
    failed = failures(rows)
    if given.every == 1 and not given.only and not given.numbers:
        failed += outdated(rows)
    failed += [f"planted and not rejected: {what}" for what in missed]
    print(*failed[: given.shown], sep="\n")
    if len(failed) > given.shown:
        print(f"and {len(failed) - given.shown:,} more")
    if given.out is not None:
        beside = given.out.with_suffix(".csv")
        before = beside.read_text(encoding="utf-8") if beside.exists() else ""
        lines = merged(lines_of(rows), lines_in(before))
        beside.write_text(table(lines), encoding="utf-8")
        given.out.write_text(page(lines, seed=given.seed), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
