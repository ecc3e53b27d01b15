"""What RR-Clusters gains by all that it charges for, on Adult: by design, and as drawn."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import (
    Block,
    CombinedReleases,
    Counts,
    Estimate,
    JointReports,
    LinearEstimate,
    Records,
    Release,
)
from protocol.estimators.dependence.dependence import dependences
from protocol.estimators.releases.release import block_groups
from protocol.variants.clusters.clustering import cluster, matched_blocks
from protocol.variants.clusters.negotiation import Negotiation
from scenarios import adult
from scenarios.data.adult import ADULT

TV, TD = 300, 0.1
KEEPS = (0.1, 0.3, 0.5, 0.7, 0.9)
PAIRS = tuple(combinations(ADULT.names, 2))


def by_design(blocks: tuple[Block, ...]) -> Release:
    """One report of every kind: as many in all tables, and uniform."""
    n = math.lcm(*(math.prod(ADULT.sizes[axis] for axis in ADULT.axes(pair)) for pair in PAIRS))
    sizes = [tuple(ADULT.sizes[axis] for axis in ADULT.axes(pair)) for pair in PAIRS]
    tables = {
        pair: np.full(shape, n // math.prod(shape))
        for pair, shape in zip(PAIRS, sizes, strict=True)
    }
    return Release.of_tables(block_groups(blocks), tables)


def mean_variance(*releases: Release) -> float:
    """Over the cells of all pairs. It is the same whatever the answers are."""
    estimate = LinearEstimate(CombinedReleases(ADULT, releases))
    squares = []
    for table in estimate.pairs():
        assert table.standard_errors is not None
        squares.append(float(np.mean(table.standard_errors**2)))
    return float(np.mean(squares))


@pytest.mark.parametrize("p", KEEPS)
def test_the_error_by_design_falls(p: float) -> None:
    """With the clusters of the true dependences; docs/corrections.md has what each p gains."""
    records = adult(None)
    learned = dependences(
        [records.counts(pair) for pair in PAIRS],
        ADULT,
        measure="cramers-v",
        method="exact",
        epsilon=math.inf,
    )
    clusters = cluster(learned, ADULT, tv=TV, td=TD)
    assert any(len(names) > 1 for names in clusters)
    alone = matched_blocks(ADULT, [(name,) for name in ADULT.names], p=p)
    pilot, final = by_design(alone), by_design(matched_blocks(ADULT, clusters, p=p))
    both = mean_variance(pilot, final)
    assert both < min(mean_variance(pilot), mean_variance(final))
    if p == 0.3:
        assert mean_variance(final) / both > 2.5


def randomized(
    records: Records, blocks: tuple[Block, ...], generator: np.random.Generator
) -> NDArray[np.uint8]:
    """Reports by their law, of numpy's generator."""
    codes = np.empty(records.codes.shape, np.uint8)
    for block in blocks:
        axes = ADULT.axes(block.attributes)
        sizes = [ADULT.sizes[axis] for axis in axes]
        cells = np.ravel_multi_index([records.codes[:, axis].astype(int) for axis in axes], sizes)
        keep = block.randomizer.uniform_keep
        assert keep is not None
        kept = generator.random(len(cells)) < keep
        reported = np.where(kept, cells, generator.integers(0, math.prod(sizes), len(cells)))
        codes[:, axes] = np.stack(np.unravel_index(reported, sizes), axis=1)
    return codes


@pytest.mark.slow
@pytest.mark.parametrize("p", KEEPS)
def test_the_error_falls(p: float) -> None:
    """Pilot, clusters that follow from it and final reports, drawn anew in every run."""
    runs, records, generator = 30, adult(None), np.random.default_rng(round(10 * p))
    negotiation = Negotiation(
        survey=ADULT, dependence="rr-debiased", p=p, tv=TV, td=TD, measure="cramers-v"
    )
    truth = {pair: records.distribution(pair) for pair in PAIRS}

    def error(estimate: Estimate) -> float:
        squares = [(table.values - truth[pair_of(table.names)]) ** 2 for table in estimate.pairs()]
        return float(np.mean([square.mean() for square in squares]))

    found = []
    for _ in range(runs):
        reported = Records(ADULT, randomized(records, negotiation.pilot, generator))
        layout = negotiation.layout
        totals = layout.counted(layout.table_cells(reported))
        blocks = negotiation.from_totals(totals).blocks
        counts = Counts.of(randomized(records, blocks, generator), ADULT.sizes)
        final = LinearEstimate(JointReports(ADULT, blocks, counts))
        releases = (*negotiation.releases(totals), Release.of_reports(final.source))
        found.append(
            (error(final), error(LinearEstimate(CombinedReleases(ADULT, releases, final.source))))
        )
    before, after = np.array(found).T
    worse = after - before
    assert worse.mean() < 3 * worse.std(ddof=1) / math.sqrt(runs)
    if p == 0.3:
        assert before.mean() / after.mean() > 2.5


def pair_of(names: tuple[str, ...]) -> tuple[str, str]:
    first, second = names
    return first, second
