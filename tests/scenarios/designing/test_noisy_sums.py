"""The scenario of sums with noise: its errors by law and by messages, its rows and picture."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from protocol import Estimate, Records, Stream, secret_of
from protocol.variants import PairCounts
from scenarios import noisy_sums, simulate, town, town_distribution
from scenarios.data.town import TOWN
from scenarios.designing.candidates import Wanted
from scenarios.designing.targets import Target, parse_target
from scenarios.noisy_sums import (
    Case,
    How,
    Town,
    best_local,
    draw_estimate,
    list_cases,
    measure_errors,
)
from tests.scenarios.command import sottovoce
from tests.tiers import thinned

DELTA = 1e-6


def case_of(how: How, tables: str, n: int, epsilon: float) -> Case:
    found = list_cases(parse_target(TOWN, tables), DELTA, n, epsilon)
    return next(case for case in found if case.how == how)


def rmse(estimate: Estimate, records: Records, target: Target) -> float:
    off = [
        np.square(estimate.table(*names).values - records.distribution(names)).reshape(-1)
        for names in target.tables
    ]
    return math.sqrt(float(np.concatenate(off).mean()))


@pytest.mark.parametrize(
    ("tables", "fair", "kept"),
    [("margins", 573, 9 / 13), ("pairs", 858, 38 / 62)],
)
def test_the_errors_of_coins_are_those_that_were_reckoned(
    tables: str, fair: int, kept: float
) -> None:
    """Of 20,000, sized for a quarter who conspire and a tenth who are missing.

    So many fair coins make epsilon 1 of 4 tables, or of 6, and all have them over 0.65; the fit
    keeps the part of the variance that free components have.
    """
    n, target = 20_000, parse_target(TOWN, tables)
    reckoned = math.sqrt(fair / 4 / 0.65 * kept) / n
    case = case_of("coins", tables, n, 1.0)
    runs = 150
    found, around = measure_errors(case, target, runs=runs, stream=Stream(secret_of(1)))
    assert found.predicted == pytest.approx(reckoned, rel=0.02)
    assert found.measured == pytest.approx(reckoned, rel=0.05)
    assert abs(found.measured - found.predicted) < 4 * found.spread < 0.15 * reckoned
    # About the town the same people vary by their sample too, which is what is predicted.
    assert abs(around.measured - around.predicted) < 4 * around.spread < 0.3 * around.predicted
    assert around.measured > 2 * found.measured


def test_the_error_of_coins_by_messages() -> None:
    """Of three surveys with 62 cells each, as near to the formula as chance leaves them."""
    target, n, parties = parse_target(TOWN, "pairs"), 240, 12
    variant = PairCounts.with_noise(TOWN, epsilon=2.0, delta=DELTA, parties=parties)
    noise = variant.sums.noise
    assert noise is not None
    chance = noise.chance / 2**16
    square = parties * noise.trials * chance * (1 - chance) * 38 / 62 / n**2
    squares = []
    for seed in (1, 2, 3):
        records = town(n, seed)
        outcome = simulate(variant, records, parties=parties, seed=seed)
        squares.append(rmse(outcome.estimate, records, target) ** 2)
    # Of 38 free components in each of three: four standard errors.
    assert float(np.mean(squares)) == pytest.approx(square, rel=4 * math.sqrt(2 / (3 * 38)))


@pytest.mark.parametrize(
    ("how", "tables"),
    thinned([("summed RR", "pairs"), ("local", "margins"), ("local", "pairs")], 2),
)
def test_what_is_drawn_errs_as_predicted(how: How, tables: str) -> None:
    target = parse_target(TOWN, tables)
    case = case_of(how, tables, 600, 4.0)
    for error in measure_errors(case, target, runs=60, stream=Stream(secret_of(2))):
        assert abs(error.measured - error.predicted) < 4 * error.spread < 0.4 * error.predicted


def test_exact_sums_err_about_the_town_alone() -> None:
    target = parse_target(TOWN, "pairs")
    case = case_of("exact", "pairs", 500, 1.0)
    assert math.isnan(case.epsilon)
    within, around = measure_errors(case, target, runs=80, stream=Stream(secret_of(3)))
    assert within.measured == within.predicted == 0
    assert abs(around.measured - around.predicted) < 4 * around.spread


def test_one_seed_draws_one_survey() -> None:
    case, records = case_of("coins", "pairs", 300, 1.0), town(300, 1)
    one, again, other = (
        draw_estimate(case.variant, records, parties=300, seed=seed).table("age", "smokes").values
        for seed in (1, 1, 2)
    )
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_the_best_local_protocol_holds_whoever_conspires() -> None:
    target = parse_target(TOWN, "pairs")
    found = best_local(Wanted(TOWN, 1.0, target, 1000, delta=DELTA), 1000)
    assert found.among is None
    assert found.variant is not None
    assert found.variant.most() <= 1
    assert found.family == "rrba"


def test_margins_of_the_town() -> None:
    joint = town_distribution()
    assert Town().margin(("clinic", "district")) == pytest.approx(joint.sum(axis=(1, 2)).T)
    assert Town().margin(("age",)) == pytest.approx(joint.sum(axis=(0, 2, 3)))


@pytest.mark.parametrize("tables", thinned(["pairs", "margins"], 1))
def test_rows_notes_and_the_picture(
    tables: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noisy_sums, "NUMBERS", (300,))
    monkeypatch.setattr(noisy_sums, "EPSILONS", (2.0,))
    out, plot = tmp_path / "out", tmp_path / "sums.svg"
    given = ("residents=60", "parties=12", "surveys=2", f"tables={tables}")
    settings = [part for setting in given for part in ("--set", setting)]
    said = sottovoce("run", "noisy-sums", *settings, "--out", out, "--plot", plot)
    assert said.code == 0, said.err
    text = " ".join(said.out.split())
    ways = ["exact", "coins", "summed RR"] if tables == "pairs" else ["exact", "coins"]
    for way in ways:
        assert f" {way} " in text
    assert "local: " in text
    assert "conspire, and to 1 in" in text
    assert "If all others conspire, nothing bounds what coins tell." in text
    assert "if at least 7 of the 12 parties are honest and stay" in text
    drawing = plot.read_text(encoding="utf-8")
    assert "coins, 300" in drawing
    assert "if enough others are honest" in drawing
