"""Ways to ask, what is assumed, and what is said of them as values."""

from __future__ import annotations

import numpy as np
import pytest

from protocol.variants import RRIndependent, RRIndJoint, RRJoint
from scenarios.designing.assumed import Uniform, Worst
from scenarios.designing.candidates import Wanted, own_candidate, variant_candidates
from scenarios.designing.designing import Setup, make_row
from scenarios.designing.targets import parse_target
from scenarios.statement.designs.values import row_values
from tests.scenarios.designing.surveys import survey_of

SURVEY = survey_of(3, 2, 2)


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("q0,q1", ["rr-ind-joint", "rr-ind-joint:together"]),
        ("q0", ["rr-ind-joint"]),
        ("margins", ["rr-ind-joint"]),
        ("pairs", ["rr-ind-joint"]),
    ],
)
def test_attributes_of_one_table_can_be_asked_together(target: str, names: list[str]) -> None:
    found = variant_candidates(RRIndJoint, Wanted(SURVEY, 1.0, parse_target(SURVEY, target)))
    assert [each.name for each in found] == names


def test_halves_are_alike_at_the_two_ends() -> None:
    *_, halves = Worst(SURVEY).cases
    expected = np.zeros((3, 2))
    expected[0, 0] = expected[2, 1] = 0.5
    assert np.array_equal(halves.margin(("q0", "q1")), expected)


def test_parameters_of_a_plan_are_kept_but_for_what_the_epsilon_decides() -> None:
    wanted = Wanted(SURVEY, 1.0, parse_target(SURVEY, "margins"))
    given = {"max_records": 7, "epsilon": 3.0, "unknown": 1}
    found = own_candidate(RRJoint, given, wanted)
    assert found.variant is not None, found.why
    assert found.variant.max_records == 7
    assert found.variant.most() == pytest.approx(1.0, rel=1e-6)


def test_what_could_not_be_tried_has_no_traffic() -> None:
    target = parse_target(SURVEY, "margins")
    setup = Setup(SURVEY, target, 100, 100, Uniform(SURVEY))
    [candidate] = variant_candidates(RRIndependent, Wanted(SURVEY, 1.0, target))
    row = make_row(setup, 1.0, candidate)
    names = ("messages", "bits", "messages_back", "bits_back", "rounds")
    assert row.traffic is not None
    assert tuple(row_values(row)[name] for name in names) == tuple(row.traffic)
    values = row_values(row._replace(traffic=None))
    assert [values[name] for name in names] == [None] * 5
