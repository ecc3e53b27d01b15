"""RR-Clusters: the whole protocol, with clusters that are chosen anew in every run."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from protocol import Counts as Histogram
from protocol import Noise, SecureSum
from protocol.variants import RRClusters
from protocol.variants.clusters.negotiation import Dependence
from protocol.variants.clusters.rr_clusters import Clustered
from tests.coverage_gate.cases import Drawn, Estimator
from tests.coverage_gate.estimators.surveys import first_cell, numbers, survey_of
from tests.coverage_gate.grid import Point, fraction
from tests.coverage_gate.laws import Counts, drawn, kept_apart, kept_else, kept_together, uneven

PARTIES = 10
"""Who add coins."""


@functools.lru_cache(maxsize=256)
def _variant(dependence: Dependence, r: int, p: float, trials: int) -> RRClusters:
    sums = SecureSum(noise=Noise(trials=trials) if trials else None)
    return RRClusters(
        survey=survey_of((r, r, 2)), p=p, tv=2 * r * r, td=0.1, dependence=dependence, sums=sums
    )


def surveyed(variant: RRClusters, truth: Counts, rng: np.random.Generator) -> Clustered:
    """What is published of some respondents: learned, clustered, reported."""
    negotiation = variant.negotiation
    pairs = ((2,), (1,), (0,))
    if variant.by_reports:
        pilot = kept_apart(rng, truth, variant.p)
        tables = [pilot.sum(axis=rest) for rest in pairs]
    else:
        tables = [truth.sum(axis=rest) for rest in pairs]
        if variant.dependence == "pair-rr":
            tables = [kept_together(rng, table, variant.p) for table in tables]
    totals = np.concatenate([table.reshape(-1) for table in tables])
    n = parties = int(truth.sum())
    if variant.sums.noise is not None:
        # All coins are those of ten parties.
        parties = PARTIES
        totals = totals + rng.binomial(PARTIES * variant.sums.noise.trials, 0.5, len(totals))
    negotiated = negotiation.from_totals(totals, n, parties)
    reports = truth
    for block in negotiated.blocks:
        axes = variant.survey.axes(block.attributes)
        moved = np.moveaxis(reports, axes, range(truth.ndim - len(axes), truth.ndim))
        flat = moved.reshape(*moved.shape[: truth.ndim - len(axes)], -1)
        size = flat.shape[-1]
        # A report is kept with the diagonal less what fakes add to it.
        keep = (block.randomizer.diagonal - 1 / size) / (1 - 1 / size)
        found = kept_else(rng, flat, flat.ndim - 1, keep, np.full(size, 1 / size))
        reports = np.moveaxis(
            found.reshape(moved.shape), range(truth.ndim - len(axes), truth.ndim), axes
        )
    counts = Histogram.from_table(np.ascontiguousarray(reports))
    return Clustered(
        negotiated.clusters,
        counts.codes,
        counts.counts.astype(np.uint32),
        n,
        parties,
        totals.astype(np.uint32),
        b"",
    )


def tables(
    dependence: Dependence, point: Point, rng: np.random.Generator, *, coins: bool = False
) -> Iterator[Drawn]:
    """A table of two attributes, which may be in one cluster or not, and one attribute.

    Coins have about as much variance in a cell as the reports that are expected there.
    """
    r, p = point.categories, point.keep
    trials = max(1, round(4 * point.expected / PARTIES)) if coins else 0
    variant, law = _variant(dependence, r, p, trials), uneven((r, r, 2), point.share)
    pair = law.sum(axis=2)
    spread = np.full((r, r), (1 - p) / r) + p * np.eye(r)
    truth = drawn(rng, point.respondents(float((spread.T @ pair @ spread)[0, 0])), law)
    estimate = variant.estimate(surveyed(variant, truth, rng))
    yield from numbers(estimate, ("a", "b"), truth.sum(axis=2), pair, prefix="pair: ")
    yield from first_cell(estimate, "a", truth.sum(axis=(1, 2)), pair.sum(axis=1))


WAYS: tuple[Dependence, ...] = ("rr", "rr-debiased", "secure-sum", "pair-rr")

ESTIMATORS = (
    *(
        Estimator(f"rr-clusters, {way}", fraction((2, 3)), drawn=functools.partial(tables, way))
        for way in WAYS
    ),
    Estimator(
        "rr-clusters, coins",
        fraction((2, 3)),
        drawn=functools.partial(tables, "secure-sum", coins=True),
    ),
)
