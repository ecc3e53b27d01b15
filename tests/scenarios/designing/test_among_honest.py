"""Counts with coins and sums of reports: what is predicted of them, charged, and needed."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from protocol import ExactAccountant, Merged, SecureSum
from protocol.estimators.inference.laws import About
from protocol.variants import PairCounts, PairRR, SecureSumVariant
from protocol.variants.sums.tallies import Counted
from scenarios.designing.assumed import Given, Uniform
from scenarios.designing.candidates import Wanted, variant_candidates
from scenarios.designing.costs import trust_in
from scenarios.designing.designing import Setup, make_row, predict_error
from scenarios.designing.needing import coins_needed, epsilon_needed, half_width, list_ways
from scenarios.designing.predicting import predict
from scenarios.designing.summing import AmongHonest, keep_in_sum, told_in_sum
from scenarios.designing.targets import parse_target
from scenarios.wording.formatting import epsilon as figure
from tests.scenarios.designing.surveys import answers, survey_of

SIZES = (3, 4, 2)
SURVEY = survey_of(*SIZES)
DELTA = 1e-6


def kept_by_the_fit(pairs: bool) -> float:
    """Which part of a raw cell's variance the fit leaves, in the mean over all cells.

    Each table has as many free components as these dimensions say, and noise is alike in all.
    """
    margins = sum(size - 1 for size in SIZES)
    if not pairs:
        return margins / sum(SIZES)
    both = [*combinations(SIZES, 2)]
    return (margins + sum((a - 1) * (b - 1) for a, b in both)) / sum(a * b for a, b in both)


@pytest.mark.parametrize(("cls", "says"), [(SecureSumVariant, "margins"), (PairCounts, "pairs")])
@pytest.mark.parametrize(("n", "parties", "answering"), [(900, 900, 800), (9000, 20, 19)])
@pytest.mark.parametrize("about", ["respondents", "population"])
def test_the_predicted_error_of_coins(
    cls: type[Counted], says: str, n: int, parties: int, answering: int, about: About
) -> None:
    """As worked out by hand, of those who answered and with what a sample varies by."""
    target, shares = parse_target(SURVEY, says), Given(answers(4500, *SIZES))
    [coins, _] = variant_candidates(cls, Wanted(SURVEY, 1.0, target, parties, delta=DELTA))
    assert isinstance(coins.variant, Counted)
    noise = coins.variant.sums.noise
    assert noise is not None
    chance = noise.chance / 2**16
    square = answering * noise.trials * chance * (1 - chance) / n**2
    square *= kept_by_the_fit(says == "pairs")
    if about == "population":
        true = np.concatenate([shares.margin(names).reshape(-1) for names in target.tables])
        square += float(np.mean(true * (1 - true))) / n
    found = predict(coins.variant, n, target, shares, about=about, parties=answering)
    assert found is not None
    assert found.rmse == pytest.approx(math.sqrt(square), rel=1e-9)


def test_one_party_each_is_usual() -> None:
    target = parse_target(SURVEY, "margins")
    [coins, _] = variant_candidates(SecureSumVariant, Wanted(SURVEY, 1.0, target, 400, delta=DELTA))
    assert coins.variant is not None
    usual = predict(coins.variant, 400, target, Uniform(SURVEY))
    assert usual == predict(coins.variant, 400, target, Uniform(SURVEY), parties=400)


@pytest.mark.parametrize("parties", [40, 1000])
def test_a_candidate_says_what_it_rests_on(parties: int) -> None:
    """All who are not missing and not corrupt; without a delta, nothing rests on others."""
    target = parse_target(SURVEY, "pairs")
    wanted = Wanted(SURVEY, 1.0, target, parties, delta=DELTA)
    honest = wanted.sums.promised(parties)
    spare = 0.0 if parties < 256 else 2.0**-40
    for cls in (SecureSumVariant, PairCounts, PairRR):
        found = variant_candidates(cls, wanted)
        [among] = [each for each in found if each.among is not None]
        assert among.variant is not None
        assert among.among is not None
        assert among.among[1:] == (DELTA, honest, parties)
        event = Merged(among.variant.contribution_event, honest)  # type: ignore[attr-defined]
        assert among.among.epsilon == ExactAccountant(DELTA - spare).judge([event]).epsilon
        assert 0.7 < among.among.epsilon <= 1
        assert all(
            each.among is None for each in variant_candidates(cls, wanted._replace(delta=None))
        )


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 6.0])
def test_reports_in_a_sum_keep_far_more(epsilon: float) -> None:
    """About as much as is allowed there, and no more than that."""
    made = keep_in_sum(lambda p: PairRR.with_keep(SURVEY, p), epsilon, 1000, DELTA)
    assert 0.9 * epsilon < told_in_sum(made, 1000, DELTA).epsilon <= epsilon
    assert made.most() > 1.5 * epsilon


def test_too_many_coins_are_refused_with_the_reason() -> None:
    wanted = Wanted(SURVEY, 1e-5, parse_target(SURVEY, "margins"), 40, delta=DELTA)
    coins, exact = variant_candidates(SecureSumVariant, wanted)
    assert coins.variant is None
    assert "needs more than" in coins.why
    assert exact.variant is not None


def test_who_must_not_conspire() -> None:
    wanted = Wanted(SURVEY, 1.0, parse_target(SURVEY, "pairs"), 100, delta=DELTA)
    among = AmongHonest(0.998, DELTA, 57, 100)
    coins = PairCounts.with_noise(SURVEY, parties=100)
    said = "(epsilon 0.998, delta 1e-06) if at most 33 of them conspire with the aggregator"
    assert said in trust_in(coins, 100, among)
    end = "at least 57 are honest and stay; no bound if all others do"
    assert trust_in(coins, 100, among).endswith(end)
    withheld = PairCounts.with_noise(SURVEY, parties=100, sums=SecureSum(opening="withheld"))
    assert "reader" in trust_in(coins, 100, among)
    assert "reader" not in trust_in(withheld, 100, among)
    local, summed = variant_candidates(PairRR, wanted)
    assert local.variant is not None
    assert summed.variant is not None
    assert trust_in(local.variant, 100).startswith("nobody")
    alone = f"epsilon {figure(summed.variant.most())} if all others do"
    assert trust_in(summed.variant, 100, summed.among).endswith(alone)


@pytest.mark.parametrize("parties", [0, 50])
def test_the_respondents_that_coins_take(parties: int) -> None:
    """No more than a little above the fewest, be they one party each or held by a few."""
    target = parse_target(SURVEY, "pairs")
    setup = Setup(SURVEY, target, 2, parties or 2, Uniform(SURVEY), delta=DELTA)
    found = coins_needed(setup, PairCounts, 1.0, 0.01, 0.95)
    assert found is not None
    assert found.candidate.among is not None
    assert found.candidate.among.parties == (parties or found.respondents)

    def width(respondents: int) -> float:
        there = setup._replace(respondents=respondents, parties=parties or respondents)
        [made] = [each for each in list_ways(there, PairCounts)(1.0) if each.among is not None]
        assert made.variant is not None
        half = half_width(there, made.variant, 0.95)
        assert half is not None
        return half

    assert width(found.respondents) <= 0.01 < width(round(0.98 * found.respondents))


def test_the_epsilon_that_coins_take() -> None:
    target = parse_target(SURVEY, "margins")
    setup = Setup(SURVEY, target, 2000, 2000, Uniform(SURVEY), delta=DELTA)
    found = epsilon_needed(setup, list_ways(setup, SecureSumVariant), 0.01, 0.95)
    assert found is not None
    assert found.candidate.among is not None
    assert found.candidate.variant is not None
    half = half_width(setup, found.candidate.variant, 0.95)
    assert half is not None
    assert half <= 0.01
    assert found.candidate.among.epsilon <= found.epsilon
    coarser = epsilon_needed(setup, list_ways(setup, SecureSumVariant), 0.02, 0.95)
    assert coarser is not None
    assert coarser.epsilon < found.epsilon


def test_an_error_that_coins_do_not_reach() -> None:
    """About a population, by a fixed number of parties that is too small to sum."""
    target = parse_target(SURVEY, "margins")
    setup = Setup(SURVEY, target, 2, 1, Uniform(SURVEY), delta=DELTA)
    assert coins_needed(setup, SecureSumVariant, 1.0, 0.01, 0.95) is None


def test_a_design_predicts_by_the_coins_of_those_who_stay() -> None:
    """Of few parties with many respondents each, some of which vanish."""
    target = parse_target(SURVEY, "margins")
    setup = Setup(SURVEY, target, 2000, 20, Uniform(SURVEY), 0.1, delta=DELTA)
    [coins, _] = variant_candidates(SecureSumVariant, Wanted(SURVEY, 1.0, target, 20, 0.1, DELTA))
    assert coins.variant is not None
    by_hand = predict(coins.variant, 1800, target, setup.shares, parties=18)
    assert predict_error(setup, coins.variant) == (by_hand, None)
    assert make_row(setup, 1.0, coins).prediction == by_hand
