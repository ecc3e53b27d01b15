"""How benchmarks are timed and summed up; what is timed stands elsewhere."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the things that are timed.

    Args:
        name: for the report.
        run: does it once and returns how many seconds the part that counts took.
        weight: what its seconds count in the floor.
    """

    name: str
    run: Callable[[], float]
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A product, its floor and what is aimed for.

    The ratio is ``sum(weight * seconds of each floor) / seconds of the product``, so it is the
    product's rate as a share of the floor's, and more is better.

    Args:
        title: what is compared, in one line.
        unit: what there are ``units`` of in one run, such as messages.
        product: this program.
        floors: what it is held against.
        aim: the least ratio that is aimed for; None if it is only to be known.
        repeats: how often all sides run by default.
    """

    title: str
    unit: str
    units: int
    product: Side
    floors: tuple[Side, ...]
    aim: float | None = None
    repeats: int = 7


class Spread(NamedTuple):
    """A median, and the quartiles around it."""

    low: float
    median: float
    high: float


class Measured(NamedTuple):
    """The seconds of one run of each side, the product first, and the ratio."""

    seconds: tuple[Spread, ...]
    ratio: Spread


def spread_of(values: Sequence[float]) -> Spread:
    """The quartiles of at least two values."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(low, median, high)


def elapsed(action: Callable[[], object]) -> float:
    """How many seconds a call takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def measure(benchmark: Benchmark, *, repeats: int) -> Measured:
    """Run the product, then each floor, and all of that again.

    The ratio is taken within each repeat, whose runs are neighbours in time, so that a load that
    comes and goes weighs on both sides alike; of these ratios the median counts.

    Args:
        repeats: how often, at least 2.
    """
    sides = (benchmark.product, *benchmark.floors)
    rounds = [[_run(side) for side in sides] for _ in range(repeats)]
    ratios = [
        sum(side.weight * spent for side, spent in zip(benchmark.floors, floors, strict=True))
        / product
        for product, *floors in rounds
    ]
    return Measured(
        tuple(spread_of(column) for column in zip(*rounds, strict=True)), spread_of(ratios)
    )


def _run(side: Side) -> float:
    """One run without the garbage of the last one, and without a collection in the middle."""
    gc.collect()
    gc.disable()
    try:
        return side.run()
    finally:
        gc.enable()


def report(benchmark: Benchmark, measured: Measured) -> list[str]:
    """The lines that say what was measured."""
    lines = [f"  {benchmark.title}"]
    sides = (benchmark.product, *benchmark.floors)
    width = max(len(side.name) for side in sides)
    for role, side, spread in zip(
        ("product", *("floor" for _ in benchmark.floors)), sides, measured.seconds, strict=True
    ):
        each = Spread(*(seconds / benchmark.units for seconds in spread))
        weight = f"  x {side.weight:g}" if side.weight != 1.0 else ""
        lines.append(
            f"    {role:8}{side.name:{width}}  {_time(spread.median):>8}"
            f"  {_time(each.median):>8}/{benchmark.unit}"
            f" ({_time(each.low)} to {_time(each.high)})"
            f"  {1 / each.median:>13,.0f}/s{weight}"
        )
    low, median, high = measured.ratio
    wanted = "no aim" if benchmark.aim is None else f"aim: at least {benchmark.aim:.2f}"
    short = benchmark.aim is not None and median < benchmark.aim
    lines.append(
        f"    ratio   {median:.3g} of the floor's rate ({low:.3g} to {high:.3g}), {wanted}"
        f"{' - SHORT OF IT' if short else ''}"
    )
    return lines


def _time(seconds: float) -> str:
    for factor, name in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"
