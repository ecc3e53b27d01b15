"""Sums with coins over TLS, with parties that vanish: the coins of those who stay, by law."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from parties.keeping.record_names import TRANSCRIPT
from protocol import Attribute, PartyId, Records, SecureSum, Survey
from protocol.accounting.coins import coins_epsilon
from protocol.randomizers.coins import FAIR
from protocol.transcript.entries import Sent
from protocol.transcript.header import read_charter
from protocol.variants import PairCounts, SecureSumVariant
from protocol.variants.sums.tallies import Tally
from protocol.wire.codec import decode_envelope
from scenarios import open_transcript, simulate
from scenarios.wording.formatting import epsilon as shown
from tests.scenarios.command import python, sottovoce
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import COINS, aggregating, plan_file, table
from transports.faults import crash
from transports.testing import HANGS

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
        held = variant.layout.table_cells(Records(SURVEY, records.codes[rows]))
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


# Ends a party where it is told who has uploaded: after its own upload, and before it unmasks.
KILLED = """
import os, signal, sys
import protocol.sharing.sparse as sparse

def killed(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)

sparse.survivors_among = killed
from scenarios.cli import main
main(sys.argv[1:])
"""
PEOPLE = ("anna", "bert", "carl", "dora")
TRIALS = 400


def of_four(folder: Path, title: str) -> Path:
    """The folders of a survey with coins among four, of whom one may be missing."""
    plan = COINS.replace('title = "secure-sum"', f'title = "{title}"')
    plan = plan.replace("[sums.noise]", "[sums]\ncorrupt = 0.2\ndropped = 0.25\n\n[sums.noise]")
    folder.mkdir()
    out = folder / "keys"
    parties = [option for name in PEOPLE for option in ("--party", name)]
    said = sottovoce("keys", plan_file(folder, plan), *parties, "--out", out)
    assert said.code == 0, said.err
    return out


@pytest.mark.slow
def test_a_party_that_is_killed_after_its_upload_is_counted_and_has_paid(tmp_path: Path) -> None:
    """Her neighbours take her own mask off, so what she was charged for is in the total."""
    keys, out, purse = of_four(tmp_path / "one", "Health"), tmp_path / "out", tmp_path / "purse"
    records = table(tmp_path / "r.csv", "yes,old")
    consent = ("--budget", 5, "--honest", 2)
    with aggregating(keys, out) as (aggregator, where, _):
        reached = ("--connect", where, "--records", records)
        others = [
            Program("answer", keys / name, *reached, *consent, "--purse", tmp_path / name)
            for name in PEOPLE[1:]
        ]
        killed = python("-c", KILLED, "answer", keys / "anna", *reached, *consent, "--purse", purse)
        assert killed.code == -signal.SIGKILL, killed.err
        for other in others:
            said = other.communicate(HANGS)
            assert other.returncode == 0, said
        assert aggregator.wait(HANGS) == 0
    # The total has her answer, and all of her coins.
    totals = published(out / TRANSCRIPT).totals.astype(np.int64)
    answered = np.array([0, 4, 0, 0, 4])
    assert (abs(totals - answered - 4 * TRIALS / 2) < 7 * (4 * TRIALS / 4) ** 0.5).all()
    # Another survey's preflight says what her purse has spent.
    cost = coins_epsilon(TRIALS, FAIR, tables=2, honest=2, delta=1e-6)
    other = of_four(tmp_path / "two", "Another")
    said = sottovoce("preflight", other / "anna", "--purse", purse).out
    assert f"ε {shown(cost)} and δ 1e-06 spent on other surveys if at least 2 of those" in said
    # The record is whole, and has her among four whose coins add up.
    found = sottovoce("audit", out / TRANSCRIPT, "--json")
    assert found.code == 0
    privacy = found.json["privacy"]
    [account] = privacy["accounts"]
    assert set(account["examples"]) == set(PEOPLE)
    among = coins_epsilon(TRIALS, FAIR, tables=2, honest=4, delta=1e-6)
    exact = privacy["at_delta"]["exact"]
    assert (exact["epsilon"], exact["honest"]) == (pytest.approx(among), 4)
    # Whoever is let have Bert's folder and records takes off what he put in.
    given = ("--member", keys / "bert", "--records", f"bert={records}")
    found = sottovoce("audit", out / TRANSCRIPT, "--json", *given)
    assert found.code == 0, found.err
    assert found.json["privacy"]["at_delta"]["exact"]["honest"] == 3
    assert found.json["statement"]["privacy"]["noised"]["honest"] == [2]
    said = sottovoce("audit", out / TRANSCRIPT, *given).out
    assert "Whoever holds what bert disclosed subtracts it from the sum" in " ".join(said.split())


def published(path: Path) -> Tally:
    """The result on record."""
    reader = open_transcript(path).entries()
    charter = read_charter(reader.header, SecureSumVariant)
    said = [decode_envelope(entry.envelope) for entry in reader if isinstance(entry, Sent)]
    [result] = [each for each in said if each.kind == Tally.kind()]
    found = charter.codec.decode(result.kind, result.body)
    assert isinstance(found, Tally)
    return found
