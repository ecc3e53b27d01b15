"""Benchmarks of surveys in blocks, simulated by counts and by records, against plain numpy."""

from __future__ import annotations

import numpy as np

from benchmarks.timing import Benchmark, Side, elapsed
from protocol import KeepElseTable, KeepUniform, Stream, secret_of
from protocol.crypto.randomness import WORDS
from protocol.variants import RRBA
from protocol.variants.rrba.blocks import Cells, Running, integer_weights
from scenarios import alarm_network, simulate
from scenarios.papers.rrba.block_laws import Trials, sampled_blocks

BLOCKS = 200
BLOCK = 8_000
CELLS = 16
KEEP = 0.5
MIX = 0.1
SEED = 1
CLIENTS = 4_000

_LAW = np.arange(1, CELLS + 1) / np.arange(1, CELLS + 1).sum()


def by_counts() -> Benchmark:
    """200 blocks of 8,000 clients on one table of 16 cells, their reports drawn as counts.

    The floor draws the same counts with numpy and updates nothing. Aim: 1.6 million clients within
    0.3 s.
    """

    def product() -> object:
        generator = np.random.default_rng(SEED)
        trials = Trials((1,), CELLS, keep=KEEP, mix=MIX, generator=generator)
        for true in sampled_blocks(_LAW[np.newaxis], BLOCK, generator, blocks=BLOCKS):
            trials.ask(true)
        return trials.raw()

    def floor() -> object:
        generator = np.random.default_rng(SEED)
        total = np.zeros(CELLS, np.int64)
        for _ in range(BLOCKS):
            kept = generator.binomial(generator.multinomial(BLOCK, _LAW), KEEP)
            total += kept + generator.multinomial(BLOCK - kept.sum(), _LAW)
        return total

    return Benchmark(
        title=f"{BLOCKS} blocks of {BLOCK:,} clients by counts, {CELLS} cells (aim: 0.3 s in all), "
        "against numpy's draws alone",
        unit="client",
        units=BLOCKS * BLOCK,
        product=Side(name="Trials.ask", run=lambda: elapsed(product)),
        floors=(Side(name="numpy's draws", run=lambda: elapsed(floor)),),
        repeats=15,
    )


def by_records() -> Benchmark:
    """The same clients with their randomizer and its keystream, record by record.

    The floor is the textbook way with numpy's own generator and the same updates, which has no
    exact probabilities and is not cryptographic. Aim: half of its rate.
    """
    generator = np.random.default_rng(SEED)
    codes = generator.choice(CELLS, (BLOCKS, BLOCK), p=_LAW).astype(np.uint8)
    cells, keeps = Cells.of((CELLS,)), np.array([KEEP])
    threshold = KeepUniform.with_keep(CELLS, p=KEEP).threshold

    def product() -> object:
        stream = Stream(secret_of(SEED)).derive("benchmark")
        running = Running(cells, keeps)
        for block in codes:
            weights = integer_weights(cells, running.tables(MIX))
            randomizer = KeepElseTable(threshold=threshold, weights=tuple(weights.tolist()))
            reports = randomizer.randomize(block, stream)
            running.add(np.bincount(reports, minlength=CELLS), weights / WORDS)
        return running.raw()

    def floor() -> object:
        drawing = np.random.default_rng(SEED)
        running = Running(cells, keeps)
        for block in codes:
            tables = running.tables(MIX)
            fakes = np.searchsorted(np.cumsum(tables[:-1]), drawing.random(BLOCK), side="right")
            reports = np.where(drawing.random(BLOCK) < KEEP, block, fakes)
            running.add(np.bincount(reports, minlength=CELLS), tables)
        return running.raw()

    return Benchmark(
        title=f"{BLOCKS} blocks of {BLOCK:,} clients by records, {CELLS} cells, "
        "against plain numpy",
        unit="client",
        units=BLOCKS * BLOCK,
        product=Side(name="KeepElseTable, Running", run=lambda: elapsed(product)),
        floors=(Side(name="numpy.random, Running", run=lambda: elapsed(floor)),),
        aim=1 / 2,
        repeats=7,
    )


def alarm() -> Benchmark:
    """RRBA on the Alarm network by messages, every client live and answering a whole view.

    The floor randomizes as many codes in one call, without a message. Aim: 40,000 reports a second.
    """
    records = alarm_network(None).sample(CLIENTS, Stream(secret_of(SEED)).derive("network"))
    variant = RRBA(survey=records.survey, p=0.5, groups="view")
    reports = sum(group.n for group in simulate(variant, records).estimate.source.groups)
    keep = KeepUniform.with_keep(4, p=0.5)
    codes = np.zeros(reports, np.uint8)
    stream = Stream(secret_of(SEED)).derive("benchmark")

    return Benchmark(
        title=f"RRBA on Alarm, {CLIENTS:,} live clients over memory (aim: 40,000 reports a second)",
        unit="report",
        units=reports,
        product=Side(
            name="simulate",
            run=lambda: elapsed(lambda: simulate(variant, records, transport="memory")),
        ),
        floors=(
            Side(
                name="randomize alone", run=lambda: elapsed(lambda: keep.randomize(codes, stream))
            ),
        ),
        repeats=3,
    )
