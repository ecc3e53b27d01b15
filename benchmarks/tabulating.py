"""Benchmarks of people by law: what the driver adds to the kernel."""

from __future__ import annotations

import numpy as np

from benchmarks.timing import Benchmark, Side, elapsed
from protocol import Attribute, Population, Resampled, Survey, TableLaw, Variant
from protocol.simulation.populations.cohorts import Job, count_cohort
from protocol.variants import RRIndependent
from scenarios import adult, tabulate

COHORT = 1_000_000
SEED = 1
CATEGORIES = 16


def sixteen() -> Benchmark:
    """Ten cohorts of one attribute of 16 categories."""
    names = tuple(map(str, range(CATEGORIES)))
    survey = Survey("Sixteen", (Attribute(name="answer", categories=names),))
    law = TableLaw(survey, np.arange(1, CATEGORIES + 1) / np.arange(1, CATEGORIES + 1).sum())
    return _beside_the_kernel(RRIndependent.with_keep(survey, 0.6), law, cohorts=10)


def eight_attributes() -> Benchmark:
    """Ten cohorts of Adult's 8 attributes, 1.8 million combinations."""
    records = adult(None)
    variant = RRIndependent.with_keep(records.survey, 0.7)
    return _beside_the_kernel(variant, Resampled(records), cohorts=10)


def _beside_the_kernel(variant: Variant, population: Population, *, cohorts: int) -> Benchmark:
    """The floor is the kernel alone: its counts are neither packed, hashed, added nor estimated."""
    job = Job(variant, population, SEED)
    stage = next(job.variant.stages(COHORT * cohorts))

    def product() -> object:
        return tabulate(variant, population, n=COHORT * cohorts, cohort=COHORT, seed=SEED)

    def kernel() -> None:
        for cohort in range(cohorts):
            count_cohort(job, stage, cohort, COHORT)

    return Benchmark(
        title=f"{cohorts} cohorts of {COHORT:,} people by {variant.name}, "
        f"{len(variant.survey.names)} attributes, against the kernel alone",
        unit="person",
        units=COHORT * cohorts,
        product=Side(name="tabulate", run=lambda: elapsed(product)),
        floors=(Side(name="count_cohort", run=lambda: elapsed(kernel)),),
        aim=0.95,
    )
