"""Clusters from counts with coins: learned without what the coins add to a dependence."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from protocol import (
    Attribute,
    Coins,
    LinearEstimate,
    Masked,
    Noise,
    NoisyTables,
    Records,
    SecureSum,
    Seen,
    Stream,
    Survey,
    secret_of,
)
from protocol.audit.audit import audit
from protocol.sharing import messages as kinds
from protocol.variants import RRClusters
from protocol.variants.clusters.clustering import Clusters
from protocol.variants.clusters.stability import stability
from protocol.variants.reports.reports import randomized
from protocol.variants.sums.tallies import all_pairs
from tests.recorded.runs import recorded

FOUR = Survey(
    "four",
    tuple(Attribute(name=name, categories=("no", "yes", "maybe")) for name in "abcd"),
)
NOISY = SecureSum(noise=Noise(trials=40))


def variant_of(dependence: str = "secure-sum", sums: SecureSum = NOISY) -> RRClusters:
    return RRClusters(survey=FOUR, p=0.8, tv=9, td=0.3, dependence=dependence, sums=sums)  # type: ignore[arg-type]


def answers(n: int) -> Records:
    """Two pairs that go together, and have nothing to do with each other."""
    draw = np.random.default_rng(5)
    first, second = draw.integers(0, 3, (2, n))
    other = draw.random((2, n)) < 0.1
    codes = [first, np.where(other[0], 2 - first, first), second, np.where(other[1], 0, second)]
    return Records(FOUR, np.stack(codes, axis=1).astype(np.uint8))


def test_clusters_of_noisy_counts_are_those_of_the_answers() -> None:
    done = recorded(variant_of(), answers(3000), parties=12)
    clusters = variant_of().negotiated(done.published).clusters
    assert set(clusters) == {("a", "b"), ("c", "d")}
    found = audit(lambda: [done.content], RRClusters)
    assert found.verdict == "sound"
    assert found.estimate is not None
    assert found.estimate.table("a", "b").values.sum() == pytest.approx(1)


def test_coins_alone_make_no_dependence() -> None:
    """Of a few respondents much noise is taken off, where raw tables look dependent."""
    n, parties = 100, 30
    negotiation = variant_of(sums=SecureSum(noise=Noise(trials=200))).negotiation
    draw = np.random.default_rng(1)
    raw = []
    found = []
    for _ in range(40):
        codes = draw.integers(0, 3, (n, 4)).astype(np.uint8)
        layout = negotiation.layout
        counts = layout.counted(layout.table_cells(Records(FOUR, codes)))
        totals = counts + draw.binomial(200 * parties, 0.5, layout.cells)
        matrix = negotiation.from_totals(totals, n, parties).dependences.matrix
        found.append(matrix[np.triu_indices(4, 1)])
        table = totals[:9].reshape(3, 3) - 100 * parties
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
        raw.append(np.abs(((table - expected) ** 2 / np.abs(expected)).sum() / table.sum() / 2))
    assert np.mean(np.square(found)) < np.mean(raw) / 2


def test_redrawn_coins_lead_to_clusters_as_often_as_the_coins_themselves() -> None:
    """The respondents stay the same: only their coins are others."""
    n, parties, trials = 400, 30, 12
    variant = replace(variant_of(sums=SecureSum(noise=Noise(trials=trials))), td=0.85)
    negotiation = variant.negotiation
    made, layout = np.random.default_rng(2), negotiation.layout
    counts = layout.counted(layout.table_cells(answers(n))).astype(np.int64)

    def together(clusters: Clusters) -> bool:
        return any({"a", "b"} <= set(part) for part in clusters)

    coins = made.binomial(trials * parties, 0.5, (100, layout.cells))
    found = [negotiation.from_totals(counts + one, n, parties).clusters for one in coins]
    redrawn = []
    for one in coins[:20]:
        what = stability(
            negotiation, counts + one, made.multinomial, respondents=n, parties=parties, redraws=50
        )
        assert what.redraws == 50
        redrawn.append(what.together[0, 1])
    often = np.mean([together(one) for one in found])
    assert 0.3 < often < 0.8
    assert abs(np.mean(redrawn) - often) < 0.15


def test_many_respondents_make_stable_clusters() -> None:
    done = recorded(variant_of(), answers(3000), parties=12)
    found = variant_of().stability(done.published, np.random.default_rng(1).multinomial, redraws=20)
    assert (found.redraws, found.same) == (20, 1)


def test_only_true_counts_take_coins() -> None:
    for dependence in ("rr", "rr-debiased", "pair-rr"):
        with pytest.raises(ValueError, match="randomized already"):
            variant_of(dependence)
    upload = kinds.Upload(np.zeros(54, np.uint16), np.zeros(2, np.uint8))
    event = Masked(Coins(40, 2**15, all_pairs(FOUR)))
    assert variant_of().reveals(upload, Seen()) == event


def test_counts_with_coins_are_a_part_of_the_estimate() -> None:
    """Both say something of a pair, and what is made of them is off by less than either."""
    records, parties, draw = answers(600), 30, np.random.default_rng(7)
    variant = variant_of(sums=SecureSum(noise=Noise(trials=20)))
    layout = variant.negotiation.layout
    counts = layout.counted(layout.table_cells(records)).astype(np.int64)
    true = records.distribution(("a", "b"))
    missed = []
    for seed in range(60):
        totals = counts + draw.binomial(20 * parties, 0.5, layout.cells)
        negotiated = variant.negotiation.from_totals(totals, 600, parties)
        result = variant.clustered(
            negotiated,
            [randomized(records, negotiated.blocks, Stream(secret_of(seed)))],
            learned=600,
            parties=parties,
            totals=totals.astype(np.uint32),
            accused=b"",
        )
        [learned] = variant.negotiation.releases(totals, 600, parties)
        assert isinstance(learned, NoisyTables)
        alone = LinearEstimate(learned), variant.final(result)
        table = variant.estimate(result).table("a", "b")
        missed.append([np.square(one.table("a", "b").values - true).mean() for one in alone])
        missed[-1] += [
            np.square(table.values - true).mean(),
            np.square(table.standard_errors).mean(),
        ]
    counted, reported, both, stated = np.mean(missed, axis=0)
    assert both < min(counted, reported)
    assert both == pytest.approx(stated, rel=0.25)
