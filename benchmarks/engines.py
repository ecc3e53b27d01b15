"""Benchmarks of engines: what a start and a task cost, against the kernel alone."""

from __future__ import annotations

import atexit
import subprocess
import sys
from collections.abc import Callable

import numpy as np

from benchmarks.timing import Benchmark, Side, elapsed
from protocol import KeepUniform, Stream, secret_of
from scenarios import open_engine
from scenarios.running.engines.engine import Engine, EngineName, in_order

TASKS = 500
COHORTS = 20
COHORT = 1_000_000
SIZE = 16
KEEP = 0.7
SEED = 1


def nothing(number: int) -> int:
    """A kernel that does nothing."""
    return number


def cohort(number: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A million respondents of one attribute, drawn, randomized and counted."""
    stream = Stream(secret_of(SEED)).derive(f"cohort {number}")
    codes = stream.integers(np.array([SIZE]), (COHORT, 1))[:, 0]
    reports = KeepUniform.with_keep(SIZE, p=KEEP).randomize(codes, stream)
    return np.bincount(reports, minlength=SIZE)


def start(name: EngineName) -> Benchmark:
    """Open an engine, have one task done, close it; the floor is to start Python with numpy."""

    def product() -> None:
        with open_engine(name) as engine:
            in_order(engine, nothing, [1])

    def floor() -> None:
        subprocess.run([sys.executable, "-c", "import numpy"], check=True)

    return Benchmark(
        title=f"{name}: open it, one task, close it, against a process that imports numpy",
        unit="start",
        units=1,
        product=Side(name=f"engine {name}", run=lambda: elapsed(product)),
        floors=(Side(name="python", run=lambda: elapsed(floor)),),
        repeats=5,
    )


def tasks(name: EngineName) -> Benchmark:
    """Tasks that do nothing, of one worker; the floor calls the kernel."""
    return _carried(name, nothing, TASKS, "task", f"{TASKS} tasks that do nothing", jobs=1)


def cohorts(name: EngineName) -> Benchmark:
    """Cohorts of a million by one worker; the floor calls the kernel, in this process."""
    title = f"{COHORTS} cohorts of {COHORT:,} respondents, one worker"
    return _carried(name, cohort, COHORTS, "cohort", title, jobs=1, aim=0.95)


def speed(name: EngineName) -> Benchmark:
    """The same by a worker for each processor."""
    title = f"{COHORTS} cohorts of {COHORT:,} respondents, a worker for each processor"
    return _carried(name, cohort, COHORTS, "cohort", title, jobs=None)


def _carried(
    name: EngineName,
    kernel: Callable[[int], object],
    many: int,
    unit: str,
    title: str,
    *,
    jobs: int | None,
    aim: float | None = None,
) -> Benchmark:
    opened: list[Engine] = []

    def product() -> float:
        # Opened by the first run, and closed by the last: Ray is one in a process.
        if not opened:
            opened.append(open_engine(name, jobs=jobs))
            atexit.register(opened[0].close)
            in_order(opened[0], kernel, range(2 * opened[0].jobs))
        return elapsed(lambda: in_order(opened[0], kernel, range(many)))

    def floor() -> object:
        return [kernel(number) for number in range(many)]

    return Benchmark(
        title=f"{name}: {title}, against the bare kernel",
        unit=unit,
        units=many,
        product=Side(name=f"engine {name}", run=product),
        floors=(Side(name="bare kernel", run=lambda: elapsed(floor)),),
        aim=aim,
    )
