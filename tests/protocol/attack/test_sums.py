"""Sums with coins, attacked by those who conspire against the rest: at a delta, among h honest."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from protocol import (
    AGGREGATOR,
    Coalition,
    Coins,
    ExactAccountant,
    KeepUniform,
    Merged,
    Noise,
    PartyId,
    Randomized,
    Records,
    SecureSum,
    Stream,
    Survey,
    secret_of,
)
from protocol.accounting.coins import coins_epsilon
from protocol.attack.attack import Attack, attack
from protocol.attack.probes import Probe, strongest_probe
from protocol.attack.sums import log_ratio, summed_over, sums_of_honest
from protocol.attack.trials import Pair, Study
from protocol.randomizers.coins import FAIR, SIDES
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import make_setting
from protocol.variants import PairRR, SecureSumVariant
from tests.protocol.leaks import ONE, TWO, some

NOISE = Noise(trials=16, chance=SIDES // 32)
"""Coins that hide little, so that few trials show that some are missing."""

DELTA, ALPHA = 0.4, 1e-4

WITH_TWO = Coalition((AGGREGATOR, PartyId("party-3"), PartyId("party-4")))
"""All but two of four parties."""


def counted(noise: Noise | None, survey: Survey = ONE, **options: Any) -> SecureSumVariant:
    return SecureSumVariant(survey=survey, sums=SecureSum(noise=noise, **options))


def rehearsed(variant: SecureSumVariant, parties: int) -> Rehearsal:
    return Rehearsal(make_setting(variant, some(variant.survey, parties), seed=3))


def tried(variant: SecureSumVariant | PairRR, **options: Any) -> Attack:
    options = {"observer": WITH_TWO, "delta": DELTA, "alpha": ALPHA, "runs": 2, **options}
    return attack(variant, some(variant.survey, 4), **options)


# What those who conspire compute


@pytest.mark.parametrize("own", [(0,), (1, 3), (0, 1, 2, 3, 4)])
def test_the_sum_over_some_is_what_they_put_in(own: Sequence[int]) -> None:
    run = rehearsed(counted(None, TWO), 5)
    names = run.charter.roster.parties
    variant = run.charter.variant
    assert isinstance(variant, SecureSumVariant)
    records = Records(TWO, some(TWO, 5).codes[list(own)])
    expected = variant.layout.counted(variant.layout.table_cells(records))
    found = summed_over(run, [names[place] for place in own])
    assert found.tolist() == expected.tolist()


def test_coins_stay_in_it() -> None:
    run = rehearsed(counted(Noise(trials=40), TWO), 4)
    names = run.charter.roster.parties
    exact = summed_over(rehearsed(counted(None, TWO), 4), names[:2])
    coins = summed_over(run, names[:2]) - exact
    assert ((coins >= 0) & (coins <= 80)).all()
    assert len(set(coins.tolist())) > 1


@pytest.mark.parametrize("options", [{"opening": "withheld"}, {"profile": "literal"}])
def test_what_takes_the_masks_off_may_not_be_on_record(options: dict[str, Any]) -> None:
    run = rehearsed(counted(None, **options), 4)
    with pytest.raises(ValueError, match="no sum on record whose masks can be taken off"):
        summed_over(run, run.charter.roster.parties[:2])


def test_the_ratio_is_that_of_the_two_laws() -> None:
    """Over all sums: both laws add up to 1, and their divergence is the accountant's delta."""
    event, honest = Coins(3, SIDES // 8, (("smokes",),)), 2
    coins, chance = 6, 1 / 8
    known, first, second = np.array([4, 7]), np.array([0]), np.array([1])
    law = [math.comb(coins, y) * chance**y * (1 - chance) ** (coins - y) for y in range(coins + 1)]
    law += [0.0]
    excess, epsilon = 0.0, 0.7
    for zero in range(coins + 2):
        for one in range(coins + 2):
            sums = known + np.array([zero, one])
            p, q = law[zero - 1] * law[one], law[zero] * law[one - 1]
            excess += max(0.0, q - math.exp(epsilon) * p)
            found = log_ratio(sums, event, honest, known, ONE, (first, second))
            if p and q:
                assert found == pytest.approx(math.log(q / p))
            elif p or q:
                assert found == (math.inf if q else -math.inf)
    expected = ExactAccountant(excess).judge([Merged(event, honest)])
    assert expected.epsilon == pytest.approx(epsilon, rel=2e-3)


# The figure to exceed


def test_coins_have_a_figure_to_exceed_at_a_delta() -> None:
    """That of the parties who are left: of one table, or of both that hold the record."""
    noise, delta = Noise(trials=40), 0.01
    found = tried(counted(noise, TWO), trials=6, delta=delta)
    alone, both = (
        coins_epsilon(noise.trials, noise.chance, tables=tables, honest=2, delta=delta)
        for tables in (1, 2)
    )
    assert [probe.bound for probe in found.probes[:3]] == [alone, alone, both]
    assert [probe.honest for probe in found.probes[:3]] == [2, 2, 2]
    sorts = [(one.views, one.honest) for one in found.probes[0].tried]
    assert sorts == [("whole runs", 2), ("sums over the honest", 2)]
    assert not found.accused
    # Two who exchange their records leave the sum as it was.
    assert [(probe.bound, probe.honest) for probe in found.probes[3:]] == [(0.0, 0)] * 3


def test_without_a_delta_there_is_none() -> None:
    found = tried(counted(NOISE), trials=6, delta=0.0)
    assert [math.isinf(probe.bound) for probe in found.probes] == [True, False]


def test_an_exact_sum_has_none_at_any_delta() -> None:
    found = tried(counted(None), trials=6)
    assert [math.isinf(probe.bound) for probe in found.probes] == [True, False]


def test_reports_in_a_sum_are_held_against_the_sum() -> None:
    """Less than their own epsilon, which is what holds if all others conspire."""
    delta = 0.05
    found = tried(PairRR.with_keep(TWO, 0.5), trials=6, delta=delta)
    drawn = Randomized(KeepUniform.with_keep(4, p=0.5), TWO.names)
    expected = ExactAccountant(delta).judge([Merged(drawn, 2)]).epsilon
    assert found.probes[0].bound == pytest.approx(expected)
    assert found.probes[0].honest == 2
    assert found.probes[0].bound < drawn.randomizer.epsilon
    assert not found.accused


# Planted faults


@contextlib.contextmanager
def drawing(fault: str) -> Iterator[None]:
    """Parties whose coins are not what they say."""
    honest = Noise.draw

    def draw(self: Noise, stream: Stream, cells: int) -> NDArray[np.uint32]:
        match fault:
            case "half of them are missing":
                self = msgspec.structs.replace(self, trials=self.trials // 2)
            case "of half the chance":
                self = msgspec.structs.replace(self, chance=self.chance // 2)
            case "of no session":
                stream = Stream(bytes(32))
        return honest(self, stream, cells)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Noise, "draw", draw)
        yield


def probed(noise: Noise, delta: float, trials: int) -> Probe:
    """What sums over two of four parties tell of one of them."""
    study = Study(
        variant=counted(noise),
        records=some(ONE, 4),
        target=0,
        mate=None,
        observer=WITH_TWO,
        stream=Stream(secret_of(1)),
        delta=delta,
    )
    pair = Pair("smokes", ("smokes",), (np.array([0]), np.array([1])))
    sums = sums_of_honest(study, pair, trials, honest=2)
    return strongest_probe(pair, [sums], level=ALPHA, delta=delta)


@pytest.mark.parametrize("fault", ["", "of no session"])
def test_coins_that_are_of_no_session_hide_nothing(fault: str) -> None:
    with drawing(fault):
        found = probed(Noise(trials=40), 0.01, 120)
    assert found.bound == coins_epsilon(40, FAIR, tables=1, honest=2, delta=0.01)
    assert found.accused == bool(fault)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["", "half of them are missing", "of half the chance"])
def test_fewer_coins_than_said_are_found(fault: str) -> None:
    with drawing(fault):
        found = probed(NOISE, DELTA, 1000)
    assert found.bound == coins_epsilon(NOISE.trials, NOISE.chance, tables=1, honest=2, delta=DELTA)
    assert found.honest == 2
    assert found.accused == bool(fault)
    assert not fault or "declared likelihood ratio at the ledger's figure" in found.event
