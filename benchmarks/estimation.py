"""Benchmarks of what is computed from reports on Adult, against the same in plain numpy."""

from __future__ import annotations

import functools
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import Benchmark, Side, elapsed
from protocol import (
    AdjustedEstimate,
    Block,
    Counts,
    JointReports,
    LinearEstimate,
    Records,
    Stream,
    Table,
    randomize_columns,
    secret_of,
)
from protocol.estimators.dependence.dependence import raw_dependences
from protocol.estimators.likelihood import GAP, STEPS
from protocol.variants.clusters.clustering import cluster, matched_blocks
from protocol.variants.reports.reports import block_cells, cells_to_codes
from scenarios import adult

KEEP = 0.7
LOW_KEEP = 0.3
TV, TD = 50, 0.1
SWEEPS = 20
SEED = 1

Codes = NDArray[np.unsignedinteger]


@functools.cache
def _records() -> Records:
    return adult(None)


def _stream() -> Stream:
    return Stream(secret_of(SEED)).derive("benchmark")


def _single_blocks(p: float = KEEP) -> tuple[Block, ...]:
    survey = _records().survey
    return matched_blocks(survey, [(name,) for name in survey.names], p=p)


def _randomized(blocks: tuple[Block, ...], stream: Stream) -> Codes:
    """Reports as codes of the survey's attributes."""
    records = _records()
    cells = block_cells(records, blocks)
    drawn = randomize_columns(tuple(block.randomizer for block in blocks), cells, stream)
    return cells_to_codes(records.survey, blocks, drawn)


def _plain_keep(codes: Codes, size: int, generator: np.random.Generator) -> NDArray[np.int64]:
    kept = generator.random(len(codes)) < KEEP
    return np.where(kept, codes, generator.integers(0, size, len(codes)))


def _plain_pair(codes: Codes, i: int, j: int, sizes: tuple[int, ...]) -> NDArray[np.float64]:
    joint = codes[:, i].astype(np.int64) * sizes[j] + codes[:, j]
    table = np.bincount(joint, minlength=sizes[i] * sizes[j]).reshape(sizes[i], sizes[j])
    return table / len(codes)


def _plain_unmixed(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    for axis in (0, 1):
        r = shares.shape[axis]
        shares = (shares - (1 - KEEP) / r * shares.sum(axis=axis, keepdims=True)) / KEEP
    return shares


def pairs() -> Benchmark:
    """The tables of all 28 pairs with their standard errors, from reports. Aim: 10 ms."""
    survey = _records().survey
    blocks = _single_blocks()
    codes = _randomized(blocks, _stream())

    def product() -> object:
        return LinearEstimate(JointReports(survey, blocks, Counts.of(codes, survey.sizes))).pairs()

    def floor() -> object:
        # Estimates alone: the floor has no standard errors.
        return [
            _plain_unmixed(_plain_pair(codes, i, j, survey.sizes))
            for i, j in combinations(range(len(survey.sizes)), 2)
        ]

    return Benchmark(
        title=f"28 pair tables with standard errors from {len(codes):,} reports (aim: 10 ms)",
        unit="pair",
        units=28,
        product=Side(name="LinearEstimate.pairs", run=lambda: elapsed(product)),
        floors=(Side(name="numpy, without errors", run=lambda: elapsed(floor)),),
        repeats=15,
    )


def likeliest_pairs() -> Benchmark:
    """All 28 pairs by EM, to 0.01 of the largest log-likelihood, from reports. Aim: 1 s.

    The floor is plain EM by a dense matrix for each pair, with the same rule and the same limit of
    steps, which some pairs reach.
    """
    survey = _records().survey
    blocks = _single_blocks(LOW_KEEP)
    codes = _randomized(blocks, _stream())
    laws = [block.randomizer.matrix() for block in blocks]

    def product() -> list[Table]:
        return LinearEstimate(JointReports(survey, blocks, Counts.of(codes, survey.sizes))).pairs(
            "em"
        )

    def floor() -> object:
        found = []
        for i, j in combinations(range(len(laws)), 2):
            law = np.kron(laws[i], laws[j])
            reported = _plain_pair(codes, i, j, survey.sizes).reshape(-1)
            shares = np.full(len(law), 1 / len(law))
            for _ in range(STEPS):
                slopes = law @ (reported / (shares @ law))
                if len(codes) * (slopes.max() - 1) <= GAP:
                    break
                shares = shares * slopes
            found.append(shares)
        return found

    fits = [table.fit for table in product()]
    steps = sum(fit.steps for fit in fits if fit is not None and fit.converged)
    return Benchmark(
        title=f"28 pair tables by EM at p = {LOW_KEEP:g}, {steps:,} steps (aim: 1 s)",
        unit="pair",
        units=28,
        product=Side(name="LinearEstimate.pairs('em')", run=lambda: elapsed(product)),
        floors=(Side(name="numpy, dense, not accelerated", run=lambda: elapsed(floor)),),
        repeats=3,
    )


def adjustment() -> Benchmark:
    """RR-Adjustment on records to a margin error of 1e-6. Aim: 50 ms."""
    survey = _records().survey
    blocks = _single_blocks()
    codes = _randomized(blocks, _stream())
    joint = LinearEstimate(JointReports(survey, blocks, Counts.of(codes, survey.sizes)))
    made = AdjustedEstimate.of(joint)
    targets = [joint.table(name, projection="clip").values for name in survey.names]
    columns = [codes[:, place].astype(np.intp) for place in range(len(survey.sizes))]

    def floor() -> object:
        weights = np.full(len(codes), 1 / len(codes))
        for _ in range(made.adjusted.sweeps):
            for column, target in zip(columns, targets, strict=True):
                current = np.bincount(column, weights=weights, minlength=len(target))
                weights *= (target / np.maximum(current, 1e-300))[column]
        return weights

    return Benchmark(
        title=f"RR-Adjustment of {len(codes):,} reports to 1e-6, {made.adjusted.sweeps} sweeps "
        "(aim: 50 ms)",
        unit="sweep",
        units=made.adjusted.sweeps,
        product=Side(
            name="AdjustedEstimate.of", run=lambda: elapsed(lambda: AdjustedEstimate.of(joint))
        ),
        floors=(Side(name="numpy, record by record", run=lambda: elapsed(floor)),),
        repeats=15,
    )


def clusters() -> Benchmark:
    """RR-Clusters' mathematics from end to end. Aim: 60 ms.

    Randomize every attribute, learn dependences from the reports, cluster, randomize the clusters,
    estimate, 20 sweeps of RR-Adjustment. The floor randomizes twice, counts all pairs once and
    sweeps 20 times, in plain numpy.
    """
    survey = _records().survey
    singles = _single_blocks()
    stream = _stream()
    generator = np.random.default_rng(SEED)
    codes = _records().codes

    def product() -> object:
        pilot = Counts.of(_randomized(singles, stream), survey.sizes)
        learned = raw_dependences(LinearEstimate(JointReports(survey, singles, pilot)))
        found = cluster(learned, survey, tv=TV, td=TD)
        blocks = matched_blocks(survey, found, p=KEEP)
        counts = Counts.of(_randomized(blocks, stream), survey.sizes)
        joint = LinearEstimate(JointReports(survey, blocks, counts))
        return AdjustedEstimate.of(joint, sweeps=SWEEPS, tolerance=0.0)

    def floor() -> object:
        for _ in range(2):
            drawn = [
                _plain_keep(codes[:, place], size, generator)
                for place, size in enumerate(survey.sizes)
            ]
        randomized = np.stack(drawn, axis=1).astype(np.uint8)
        for i, j in combinations(range(len(survey.sizes)), 2):
            _plain_pair(randomized, i, j, survey.sizes)
        weights = np.full(len(codes), 1 / len(codes))
        for _ in range(SWEEPS):
            for column, size in zip(drawn, survey.sizes, strict=True):
                current = np.bincount(column, weights=weights, minlength=size)
                weights *= (1 / size / np.maximum(current, 1e-300))[column]
        return weights

    return Benchmark(
        title=f"RR-Clusters' mathematics on {len(codes):,} records, {SWEEPS} sweeps (aim: 60 ms)",
        unit="record",
        units=len(codes),
        product=Side(name="from randomize to adjust", run=lambda: elapsed(product)),
        floors=(Side(name="numpy", run=lambda: elapsed(floor)),),
        repeats=15,
    )
