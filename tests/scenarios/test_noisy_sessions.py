"""Sums with coins over TLS, with parties that vanish: the coins of those who stay, by law."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from protocol.messages import PartyId
from protocol.sharing.sums import SecureSum
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from protocol.variants.sums.pair_counts import PairCounts
from protocol.variants.sums.tallies import Tally
from scenarios import simulate
from transports.faults import crash

SURVEY = Survey(
    "habits",
    (
        Attribute(name="smokes", categories=("no", "yes")),
        Attribute(name="drinks", categories=("never", "seldom", "often")),
        Attribute(name="sleeps", categories=("badly", "well")),
    ),
)
PARTIES, SESSIONS = 20, 10


@pytest.mark.slow
def test_sessions_over_tls_with_dropouts_fit_the_law() -> None:
    """The sum of all coins by cell, over so many sessions, is binomial at a level of 1e-4."""
    draw = np.random.default_rng(7)
    codes = np.stack([draw.integers(0, size, PARTIES) for size in SURVEY.sizes], axis=1)
    records = Records(SURVEY, codes.astype(np.uint8))
    variant = PairCounts.with_noise(
        SURVEY, "coins", epsilon=2.0, parties=PARTIES, sums=SecureSum(corrupt=0.2, dropped=0.35)
    )
    noise = variant.sums.noise
    assert noise is not None
    scores, gone = [], 0
    for seed in range(SESSIONS):
        run = simulate(
            variant, records, seed=seed, transport="tls", rules=(crash(0.06, kind="Upload"),)
        )
        tally = run.result
        assert isinstance(tally, Tally)
        stay = run.charter.roster.members_in(tally.survivors)
        rows = [run.charter.roster.position[PartyId(name)] - 1 for name in stay]
        gone += PARTIES - len(rows)
        held = variant.layout.cells_of(Records(SURVEY, records.codes[rows]))
        coins = tally.totals.astype(np.int64) - variant.layout.counted(held)
        trials, chance = noise.trials * len(rows), noise.chance / 2**16
        assert ((coins >= 0) & (coins <= trials)).all()
        deviation = (trials * chance * (1 - chance)) ** 0.5
        scores.append((coins - trials * chance) / deviation)
        assert abs(run.estimate.table("smokes", "drinks").values.sum() - 1) < 1e-9
    assert gone > 0
    scored = np.concatenate(scores)
    assert len(scored) == SESSIONS * variant.layout.cells
    assert stats.chi2.sf(float((scored**2).sum()), len(scored)) > 1e-4
    assert stats.chi2.cdf(float((scored**2).sum()), len(scored)) > 1e-4
    assert abs(scored.mean()) < 4 / len(scored) ** 0.5
