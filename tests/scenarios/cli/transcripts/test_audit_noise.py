"""Audits of sums with coins: what holds if so many are honest, and what nobody can rule out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import Attribute, Coins, Records, SecureSum, Survey
from protocol.accounting.coins import coins_epsilon
from protocol.variants import RRJoint, SecureSumVariant
from scenarios import simulate
from tests.scenarios.command import sottovoce

PARTIES = 60
SMOKES = Survey("habits", (Attribute(name="smokes", categories=("no", "yes")),))
ANSWERS = Records(SMOKES, (np.arange(PARTIES) >= 40).astype(np.uint8)[:, None])
NOISY = SecureSumVariant.with_noise(SMOKES, "coins", epsilon=1.0, parties=PARTIES)


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("noisy") / "noisy.svt.zst"
    simulate(NOISY, ANSWERS, path=path)
    return path


def audited(path: Path, *options: str) -> Any:
    return json.loads(sottovoce("audit", path, "--json", *options).out)


def figure(honest: int) -> float:
    noise = NOISY.sums.noise
    assert noise is not None
    return coins_epsilon(noise.trials, noise.chance, tables=1, honest=honest, delta=1e-6)


def test_the_verdict_goes_by_as_many_honest_as_the_sum_is_made_for(noisy: Path) -> None:
    """A third may conspire and a tenth be missing: not all who were there are counted on."""
    said = audited(noisy)["statement"]["privacy"]
    assert NOISY.sums.promised(PARTIES) == 34
    assert said["noised"] == {"honest": [34], "epsilon": pytest.approx(figure(34)), "delta": 1e-6}
    assert figure(34) <= 1
    assert said["verdict"] == "strong"
    text = sottovoce("audit", noisy).out
    # What holds anyway comes first.
    assert "If all others conspire no bound holds; if 34 parties in the sum are honest" in text
    # What the aggregator alone has learned is less; the pure figure stays infinite.
    text = sottovoce("audit", noisy, "--details").out
    assert "if at least 60 of those in the sum are honest" in " ".join(text.split())
    assert audited(noisy)["privacy"]["at_delta"]["exact"]["epsilon"] == pytest.approx(figure(60))


@pytest.mark.parametrize(("others", "word"), [(20, "strong"), (46, "moderate"), (58, "none")])
def test_of_those_who_conspire_only_the_others_coins_hide(
    noisy: Path, others: int, word: str
) -> None:
    names = ",".join(["aggregator", *(f"party-{place:02}" for place in range(1, others + 1))])
    found = audited(noisy, "--observer", names)
    left = PARTIES - others
    # Above 47 they can open what was dealt, so that nobody is in a sum.
    assert found["privacy"]["at_delta"]["exact"]["honest"] == (left if others <= 47 else 0)
    said = found["statement"]["privacy"]
    assert said["verdict"] == word
    if others <= 47:
        assert found["privacy"]["at_delta"]["exact"]["epsilon"] == pytest.approx(figure(left))


def test_nothing_bounds_a_lie_in_a_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 60 turns 40 and 20 into 0 and 60: nobody is accused, and the audit says so."""
    liar = {"party-08"}
    honest = SecureSumVariant.vector

    def vector(self: Any, me: Any, question: Any, records: Records) -> NDArray[np.uint32]:
        counts = honest(self, me, question, records)
        return counts + np.array([-40, 40]).astype(np.uint32) if me.id in liar else counts

    monkeypatch.setattr(SecureSumVariant, "vector", vector)
    path = tmp_path / "lie.svt.zst"
    run = simulate(SecureSumVariant(survey=SMOKES, sums=SecureSum()), ANSWERS, path=path)
    assert run.result.totals.tolist() == [0, 60]  # type: ignore[attr-defined]
    assert not any(run.result.accused)  # type: ignore[attr-defined]
    monkeypatch.undo()
    found = audited(path)
    assert found["verdict"] == "sound"
    assert found["result"]["false_answers"] == {"summed": True, "moves": None}
    text = " ".join(sottovoce("audit", path).out.split())
    assert "cells are checked only to be between 0 and the number of respondents" in text


def test_a_false_report_moves_a_share_as_far_as_is_said(tmp_path: Path) -> None:
    """Of 60 reports, each counts for 1 / (n p): one that is changed moves two shares by so much."""
    variant = RRJoint.with_keep(SMOKES, 0.5)
    path = tmp_path / "reports.svt.zst"
    run = simulate(variant, ANSWERS, path=path)
    moves = audited(path)["result"]["false_answers"]["moves"]
    assert moves == pytest.approx(1 / (PARTIES * 0.5))
    counts = run.result.counts.astype(np.int64)  # type: ignore[attr-defined]
    shares = []
    for moved in (0, 1):
        changed = counts + np.array([-moved, moved])
        result = type(run.result)(run.result.codes, changed.astype(run.result.counts.dtype))  # type: ignore[attr-defined]
        shares.append(variant.estimate(result).table("smokes").values)
    assert np.abs(shares[1] - shares[0]).max() == pytest.approx(moves)


def test_an_event_with_coins_is_that_of_one_party_until_others_are_counted() -> None:
    assert isinstance(NOISY.contribution_event, Coins)
