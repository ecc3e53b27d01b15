"""How benchmarks are timed and summed up; what is timed stands elsewhere."""

from __future__ import annotations

import gc
import operator
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
        beside: other floors, each with a ratio of its own.
        aim: the least ratio that is aimed for; None if it is only to be known.
        repeats: how often all sides run by default.
        against: what the floors are, for the report.
    """

    title: str
    unit: str
    units: int
    product: Side
    floors: tuple[Side, ...]
    beside: tuple[Side, ...] = ()
    aim: float | None = None
    repeats: int = 7
    against: str = "floor"


class Spread(NamedTuple):
    """A median, and the quartiles around it."""

    low: float
    median: float
    high: float


class Measured(NamedTuple):
    """The seconds of one run of each side, the product first, and the ratios.

    Args:
        ratio: to the floors together.
        beside: to each floor beside them.
    """

    seconds: tuple[Spread, ...]
    ratio: Spread
    beside: tuple[Spread, ...] = ()


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
    count = len(benchmark.floors)
    weights = [side.weight for side in benchmark.floors]
    ratios, beside = [], []
    rounds = [[_run(side) for side in _sides(benchmark)] for _ in range(repeats)]
    for product, *others in rounds:
        floor = sum(map(operator.mul, weights, others[:count]))
        ratios.append(floor / product)
        beside.append([spent / product for spent in others[count:]])
    return Measured(
        tuple(spread_of(column) for column in zip(*rounds, strict=True)),
        spread_of(ratios),
        tuple(spread_of(column) for column in zip(*beside, strict=True)),
    )


def _sides(benchmark: Benchmark) -> tuple[Side, ...]:
    return (benchmark.product, *benchmark.floors, *benchmark.beside)


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
    sides = _sides(benchmark)
    width = max(len(side.name) for side in sides)
    roles = ("product", *(benchmark.against for _ in sides[1:]))
    for role, side, spread in zip(roles, sides, measured.seconds, strict=True):
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
        f"    ratio   {median:.3g} of the {benchmark.against}'s rate "
        f"({low:.3g} to {high:.3g}), {wanted}{' - SHORT OF IT' if short else ''}"
    )
    for side, ratio in zip(benchmark.beside, measured.beside, strict=True):
        lines.append(
            f"    ratio   {ratio.median:.3g} of the rate of {side.name} "
            f"({ratio.low:.3g} to {ratio.high:.3g})"
        )
    return lines


def _time(seconds: float) -> str:
    for factor, name in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"
