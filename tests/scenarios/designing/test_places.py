"""Simulated runs of a variant without a formula: as many as its rank takes to be certain."""

from __future__ import annotations

import math

import pytest

from protocol import Estimate, Message
from protocol.variants import RRBA, RRIndependent, RRIndJoint, RRJoint
from scenarios.designing import candidates
from scenarios.designing.assumed import Uniform
from scenarios.designing.candidates import Candidate, Wanted
from scenarios.designing.designing import Designed, Row, Setup, rank_designs
from scenarios.designing.simulating import RUNS, Simulation
from scenarios.designing.targets import parse_target
from tests.scenarios.designing.surveys import survey_of

SURVEY = survey_of(2, 3)
N, MOST = 400, 24


class Own(RRJoint, frozen=True):
    """RR-Joint, with an estimate of its own that has no formula."""

    name = "own"

    def estimate(self, result: Message) -> Estimate:
        return super().estimate(result)


@pytest.fixture(autouse=True)
def joint_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """RR-Joint is the only built-in variant, so that all places are between it and a person's."""
    monkeypatch.setattr(candidates, "BUILT_IN", {RRJoint.name: RRJoint})


class Apart(RRIndependent, frozen=True):
    """RR-Independent, with an estimate of its own that has no formula."""

    name = "own"

    def estimate(self, result: Message) -> Estimate:
        return super().estimate(result)


def found(
    factor: float, most: int = MOST, cls: type[Own | Apart] = Own, epsilon: float = 2.0
) -> Designed:
    """A variant of a person's own beside others, with an epsilon so many times as large."""
    setup = Setup(SURVEY, parse_target(SURVEY, "pairs"), N, N, Uniform(SURVEY), runs=most)

    def own(wanted: Wanted) -> Candidate:
        return Candidate(cls.with_epsilon(SURVEY, factor * wanted.epsilon), cls.name, "own")

    return rank_designs(setup, [epsilon], own=own)


def own_row(of: Designed) -> Row:
    [one] = [row for row in of.rows if row.candidate.chosen == "own"]
    return one


def test_a_near_tie_takes_more_runs_than_a_clear_place() -> None:
    clear, near, same = (own_row(found(factor)) for factor in (1.6, 1.2, 1.0))
    assert clear.prediction.runs < near.prediction.runs <= same.prediction.runs == MOST
    assert clear.certain
    assert not same.certain


def test_a_place_that_cannot_matter_takes_few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be better than RR-Independent, and three others are far better than both."""
    better = (RRJoint, RRBA, RRIndJoint)
    every = {cls.name: cls for cls in (*better, RRIndependent)}
    monkeypatch.setattr(candidates, "BUILT_IN", every)
    own = own_row(found(1.0, cls=Apart, epsilon=0.1))
    assert own.prediction.runs < MOST / 2
    assert not own.certain
    # Among fewer, its place may matter.
    monkeypatch.setattr(candidates, "BUILT_IN", {RRIndependent.name: RRIndependent})
    assert own_row(found(1.0, cls=Apart, epsilon=0.1)).prediction.runs == MOST


@pytest.mark.parametrize("factor", [0.5, 0.7, 1.2, 1.6])
def test_a_certain_place_is_that_with_all_runs(factor: float) -> None:
    ranked = found(factor)
    own = own_row(ranked)
    assert own.certain
    [other] = [row for row in ranked.rows if row is not own]
    assert own.candidate.variant is not None
    setup = ranked.setup
    whole = Simulation(own.candidate.variant, N, setup.target, setup.shares).run(4 * MOST)
    before = own.prediction.rmse < other.prediction.rmse
    assert before == (whole.rmse < other.prediction.rmse) == (factor > 1)


def test_runs_are_those_of_one_long_simulation() -> None:
    """However they were added, and each time."""
    first, again = (own_row(found(1.0)).prediction for _ in range(2))
    variant, target = Own.with_epsilon(SURVEY, 2.0), parse_target(SURVEY, "pairs")
    at_once = Simulation(variant, N, target, Uniform(SURVEY)).run(MOST)
    assert first == again == at_once
    assert first.tables.keys() == {("q0", "q1")}
    assert math.isclose(first.tables["q0", "q1"], first.rmse)


def test_no_more_runs_than_are_allowed() -> None:
    assert own_row(found(1.0, most=2)).prediction.runs == 2


def test_a_variant_whose_code_fails_in_a_later_run_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results: list[Message] = []

    def fails(self: Own, result: Message) -> Estimate:
        results.append(result)
        if len(results) > RUNS:
            raise KeyError(7)
        return super(Own, self).estimate(result)

    monkeypatch.setattr(Own, "estimate", fails)
    ranked = found(1.0)
    assert [row.candidate.name for row in ranked.rows] == [RRJoint.name]
    assert ranked.refused[2.0, Own.name] == "its code fails: KeyError: 7"
