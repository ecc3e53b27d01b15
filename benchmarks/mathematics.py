"""Benchmarks of randomizing, counting and estimating, against plain numpy."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.timing import Benchmark, Side, elapsed
from protocol import Counts, JointReports, KeepUniform, LinearEstimate, Stream, secret_of
from protocol.variants import RRJoint
from scenarios.data.adult import ADULT

REPORTS = 1_000_000
SIZE = 16
KEEP = 0.7
RESPONDENTS = 32_561
SEED = 1


def randomize() -> Benchmark:
    """Randomize a million codes and count the reports.

    The floor is the textbook way with numpy's own generator, which has no exact probabilities and
    is not cryptographic. Aim: half of its rate.
    """
    generator = np.random.default_rng(SEED)
    codes = generator.integers(0, SIZE, REPORTS, dtype=np.uint8)
    randomizer = KeepUniform.with_keep(SIZE, p=KEEP)
    stream = Stream(secret_of(SEED)).derive("benchmark")

    def product() -> object:
        return np.bincount(randomizer.randomize(codes, stream), minlength=SIZE)

    def floor() -> object:
        kept = generator.random(REPORTS) < KEEP
        drawn = generator.integers(0, SIZE, REPORTS, dtype=np.uint8)
        return np.bincount(np.where(kept, codes, drawn), minlength=SIZE)

    return Benchmark(
        title=f"KeepUniform.randomize and bincount, {SIZE} categories, against plain numpy",
        unit="report",
        units=REPORTS,
        product=Side(name="randomize and count", run=lambda: elapsed(product)),
        floors=(Side(name="numpy.random and count", run=lambda: elapsed(floor)),),
        aim=1 / 2,
        repeats=15,
    )


def joint() -> Benchmark:
    """The full table of RR-Joint on Adult's domain, with both kinds of standard error.

    The floor is one pass of numpy over as many float64: read, add, write. The records are
    uniform, for the time depends on their number alone.
    """
    generator = np.random.default_rng(SEED)
    codes = generator.integers(0, ADULT.sizes, (RESPONDENTS, len(ADULT.sizes)), dtype=np.uint8)
    variant = RRJoint.with_keep(ADULT, KEEP)
    estimate = LinearEstimate(
        JointReports(ADULT, variant.blocks, Counts.of(codes.astype(ADULT.dtype), ADULT.sizes))
    )
    cells = math.prod(ADULT.sizes)
    once, sums = np.ones(cells), np.empty(cells)

    return Benchmark(
        title=f"RR-Joint, the table of all {cells:,} cells, against one pass over as many float64",
        unit="cell",
        units=cells,
        product=Side(
            name="LinearEstimate.table",
            run=lambda: elapsed(lambda: estimate.table(*ADULT.names)),
        ),
        floors=(
            Side(name="one pass of numpy", run=lambda: elapsed(lambda: np.add(once, 1.0, sums))),
        ),
        repeats=15,
    )
