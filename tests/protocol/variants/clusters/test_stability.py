"""How stable clusters are: against what repeated pilots lead to, and the true clusters of Adult."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from protocol import Records
from protocol.variants.clusters.negotiation import Dependence, Negotiation
from protocol.variants.clusters.stability import stability
from protocol.variants.sums.tallies import all_pairs
from scenarios import adult
from tests.enumeration import survey_of
from tests.tiers import thinned

SURVEY = survey_of(3, 4, 2)
N = 4000
# a and b depend on each other, and b and c as much, or nearly.
CHAIN = np.einsum(
    "ab,bc->abc",
    0.35 * np.eye(3, 4) / 3 + 0.65 / 12,
    0.33 * np.array([[1, 0], [0, 1], [1, 0], [0, 1]]) + 0.67 / 2,
)


def negotiation_of(dependence: Dependence, p: float = 0.7, tv: int = 12) -> Negotiation:
    return Negotiation(
        survey=SURVEY, dependence=dependence, p=p, tv=tv, td=0.05, measure="cramers-v"
    )


def pilot(made: np.random.Generator, dependence: Dependence, p: float = 0.7) -> np.ndarray:
    """The counts of all pairs among the reports of a fresh sample."""
    cells = made.choice(CHAIN.size, N, p=CHAIN.ravel() / CHAIN.sum())
    codes = np.stack(np.unravel_index(cells, CHAIN.shape), axis=1).astype(np.uint8)

    def redrawn(answers: np.ndarray, size: int) -> np.ndarray:
        fresh = made.random(len(answers)) >= p
        return np.where(fresh, made.integers(0, size, len(answers)), answers).astype(np.uint8)

    if dependence in ("rr", "rr-debiased"):
        codes = np.stack(
            [redrawn(codes[:, axis], size) for axis, size in enumerate(SURVEY.sizes)], axis=1
        )
    counts = []
    for i, j in combinations(range(3), 2):
        size = SURVEY.sizes[i] * SURVEY.sizes[j]
        pair = codes[:, i].astype(int) * SURVEY.sizes[j] + codes[:, j]
        if dependence == "pair-rr":
            pair = redrawn(pair, size).astype(int)
        counts.append(np.bincount(pair, minlength=size))
    return np.concatenate(counts).astype(np.uint32)


@pytest.mark.slow
@pytest.mark.parametrize("dependence", thinned(["rr", "rr-debiased", "pair-rr"], 1))
def test_shares_are_about_those_of_repeated_pilots(dependence: Dependence) -> None:
    made = np.random.default_rng(4)
    negotiation = negotiation_of(dependence)
    pilots = [pilot(made, dependence) for _ in range(100)]
    together = np.mean(
        [
            any({"a", "b"} <= set(part) for part in negotiation.from_totals(counts).clusters)
            for counts in pilots
        ]
    )
    found = [stability(negotiation, counts, made.multinomial, redraws=50) for counts in pilots[:20]]
    redrawn = np.mean([one.together[0, 1] for one in found])
    assert abs(redrawn - together) < 0.2
    for one in found:
        assert one.redraws == 50
        assert one.together[0, 1] == one.together[1, 0]
        assert (np.diag(one.together) == 1).all()
        assert one.same <= min(share for _, share in one.clusters)
        assert dict(one.clusters).keys() <= {
            ("a", "b"),
            ("b", "c"),
            ("a",),
            ("b",),
            ("c",),
            ("a", "c"),
        }


def test_what_noise_put_together_is_seldom_put_together_again() -> None:
    """Independent attributes: without less noise in the law, redraws would depend twice as much."""
    made = np.random.default_rng(1)
    negotiation = negotiation_of("rr-debiased")
    apart = np.multiply.outer(np.multiply.outer([2, 1, 1], [1, 2, 1, 1]), [1, 1]) / 40
    law = np.einsum("abc,ax,by,cz->xyz", apart, *(0.7 * np.eye(s) + 0.3 / s for s in SURVEY.sizes))
    shares = []
    for _ in range(40):
        drawn = made.multinomial(N, law.ravel()).reshape(law.shape)
        counts = [drawn.sum(axis=axis).ravel() for axis in (2, 1, 0)]
        found = stability(negotiation, np.concatenate(counts), made.multinomial, redraws=40)
        shares.append(found.together[0, 1])
    assert np.mean(shares) < 0.13


def test_clusters_of_exact_counts_are_certain() -> None:
    codes = np.random.default_rng(0).integers(0, 2, (50, 3)).astype(np.uint8)
    records = Records(SURVEY, codes)
    totals = np.concatenate([records.counts(pair).ravel() for pair in all_pairs(SURVEY)])
    negotiation = negotiation_of("secure-sum")
    found = stability(negotiation, totals, np.random.default_rng(0).multinomial)
    assert (found.redraws, found.same) == (0, 1)
    assert [part for part, _ in found.clusters] == list(negotiation.from_totals(totals).clusters)
    assert set(np.unique(found.together)) <= {0, 1}
    with pytest.raises(ValueError, match="0 redraws"):
        stability(negotiation, totals, np.random.default_rng(0).multinomial, redraws=0)


def on_adult(dependence: Dependence, p: float, tv: int, runs: int) -> int:
    """How many pilots on Adult lead to the clusters of exact counts."""
    records = adult(None)
    survey = records.survey
    negotiation = Negotiation(
        survey=survey, dependence=dependence, p=p, tv=tv, td=0.1, measure="auto"
    )
    pairs = all_pairs(survey)
    exact = np.concatenate([records.counts(pair).ravel() for pair in pairs])
    true = Negotiation(
        survey=survey, dependence="secure-sum", p=p, tv=tv, td=0.1, measure="auto"
    ).from_totals(exact)
    found = 0
    for run in range(runs):
        made = np.random.default_rng(run)
        columns = []
        for axis, size in enumerate(survey.sizes):
            fresh = made.random(len(records)) >= p
            drawn = made.integers(0, size, len(records))
            columns.append(np.where(fresh, drawn, records.codes[:, axis]))
        reports = Records(survey, np.stack(columns, axis=1).astype(np.uint8))
        totals = np.concatenate([reports.counts(pair).ravel() for pair in pairs])
        found += negotiation.from_totals(totals).clusters == true.clusters
    return found


@pytest.mark.slow
def test_debiased_dependences_lead_to_the_true_clusters_of_adult() -> None:
    assert on_adult("rr-debiased", p=0.7, tv=100, runs=40) >= 30
    assert on_adult("rr-debiased", p=0.3, tv=300, runs=40) >= 20
    # As the paper prints it, the bias decides.
    assert on_adult("rr", p=0.7, tv=100, runs=10) <= 2
