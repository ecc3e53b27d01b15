"""Benchmarks of live parties over workers, against the same survey in one process."""

from __future__ import annotations

import msgspec

from benchmarks.timing import Benchmark, Side, elapsed
from protocol import Records, SecureSum, Variant
from protocol.variants import RRBA, PairCounts, RRIndependent
from scenarios import open_engine, simulate, town
from scenarios.running.engines.engine import EngineName
from scenarios.running.engines.processes import processors

KEEP = 0.7
SEED = 1
PATIENCE = 3600.0
BLOCKS = 20


def independent(respondents: int, engine: EngineName = "processes") -> Benchmark:
    """RR-Independent, one live party each."""
    records = town(respondents, seed=SEED)
    variant = RRIndependent.with_keep(records.survey, KEEP)
    return _beside_one_process(variant, records, engine)


def blocks(respondents: int, engine: EngineName = "processes") -> Benchmark:
    """RRBA in 20 blocks, one live party each."""
    records = town(respondents, seed=SEED)
    block = max(1, respondents // BLOCKS)
    variant = RRBA(survey=records.survey, p=KEEP, block=block)
    return _beside_one_process(variant, records, engine)


def sums(respondents: int, engine: EngineName = "processes") -> Benchmark:
    """A sparse secure sum of all pairs, one live party each."""
    records = town(respondents, seed=SEED)
    sums = SecureSum(profile="sparse")
    variant = PairCounts(survey=records.survey, sums=sums)
    return _beside_one_process(variant, records, engine)


def _beside_one_process(variant: Variant, records: Records, engine: EngineName) -> Benchmark:
    """``simulate`` from records to digest by as many workers as there are processors.

    Nobody is counted out because the machine is busy. The floor is the same over memory, in one
    process, so the ratio is the speed-up. The workers' start is timed too. Both must have one
    digest.
    """
    workers = processors()
    variant = msgspec.structs.replace(variant, patience=PATIENCE)
    digests: set[bytes] = set()

    def over_workers() -> None:
        with open_engine(engine, jobs=workers) as opened:
            done = simulate(variant, records, seed=SEED, workers=workers, engine=opened)
        digests.add(done.digest)

    def in_one() -> None:
        digests.add(simulate(variant, records, seed=SEED, transport="memory").digest)
        if len(digests) != 1:
            raise RuntimeError("two digests of one seed")

    return Benchmark(
        title=f"{len(records):,} parties of {variant.name}, {workers} workers of {engine!r}, "
        "against one process",
        unit="party",
        units=len(records),
        product=Side(name=f"{workers} workers", run=lambda: elapsed(over_workers)),
        floors=(Side(name="one process", run=lambda: elapsed(in_one)),),
        repeats=2,
    )
