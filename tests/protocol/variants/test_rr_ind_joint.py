"""RR-Ind-Joint: independent reports, a joint estimate; with known clusters as without."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    RECORD,
    Attribute,
    JointReports,
    PrivacyError,
    Records,
    Survey,
    SurveyError,
)
from protocol.session.exchange import Exchange
from protocol.session.fates import Fate, Verdict
from protocol.session.local import run_locally
from protocol.session.variant import build, plain_parameters
from protocol.simulation.setting import make_setting
from protocol.testing import contract
from protocol.variants import RRIndependent, RRIndJoint
from protocol.variants.clusters.clustering import matched_blocks
from protocol.variants.reports.reports import Ask, Pooled
from scenarios import EXECUTORS
from tests.protocol.sessions import (
    SURVEY,
    answers,
    charter_of,
    envelope,
    everywhere,
    holdings_of,
    machine_of,
    words_sent,
)
from tests.recorded.runs import fate_of
from tests.statistical import ALPHA, WRONG, mean_p_value

BOTH = ("smokes", "drinks")
TOGETHER = RRIndJoint(survey=SURVEY, p=0.6, clusters=(BOTH,))

test_reports = contract(RRIndJoint.with_keep(SURVEY, 0.6), answers(SURVEY, 6), executors=EXECUTORS)
test_reports_by_cluster = contract(TOGETHER, answers(SURVEY, 6), executors=EXECUTORS, parties=3)


def run(variant: RRIndJoint | RRIndependent, respondents: int, seed: int = 5) -> Pooled:
    charter = charter_of(msgspec.structs.replace(variant, max_records=respondents), 2)
    records = answers(SURVEY, respondents, seed)
    result = everywhere(charter, holdings_of(charter, records)).published
    assert isinstance(result, Pooled)
    return result


def test_reports_are_those_of_rr_independent() -> None:
    """The same reports and the same cost; what differs is what is made of them."""
    joint, independent = (c.with_keep(SURVEY, 0.6) for c in (RRIndJoint, RRIndependent))
    assert joint.blocks == independent.blocks
    first, second = run(joint, 40), run(independent, 40)
    assert np.array_equal(first.codes, second.codes)
    assert np.array_equal(first.counts, second.counts)


def test_the_estimate_is_the_composed_inverse() -> None:
    """Algorithm 3 with matrices written out: the table of reports times both inverses."""
    variant = RRIndJoint.with_keep(SURVEY, 0.6)
    pooled = run(variant, 200)
    estimate = variant.estimate(pooled)
    assert isinstance(estimate.source, JointReports)
    reported = np.zeros((2, 3))
    reported[tuple(pooled.codes.T)] = pooled.counts / 200
    inverses = [np.linalg.inv(0.6 * np.eye(r) + 0.4 / r) for r in (2, 3)]
    expected = inverses[0].T @ reported @ inverses[1]
    assert np.allclose(estimate.table(*BOTH).values, expected, atol=1e-9)


def test_clusters_get_the_matched_epsilon() -> None:
    single = math.log1p(2 * 0.6 / 0.4) + math.log1p(3 * 0.6 / 0.4)
    for variant in (TOGETHER, RRIndJoint.with_keep(SURVEY, 0.6)):
        [claim] = variant.claims()
        assert claim.epsilon == pytest.approx(single, abs=1e-9)
        charter = charter_of(variant, 4)
        outcome = everywhere(charter, holdings_of(charter, answers(SURVEY, 4)))
        for observer in (AGGREGATOR, RECORD):
            ledger = outcome.ledger(observer)
            assert ledger.record_epsilon == claim.epsilon
        assert outcome.follows()
    assert TOGETHER.blocks == matched_blocks(SURVEY, (BOTH,), p=0.6)
    [block] = TOGETHER.blocks
    assert math.exp(block.randomizer.epsilon) == pytest.approx(4 * 5.5, abs=1e-9)


@pytest.mark.parametrize("clusters", [(), (BOTH,), (BOTH[::-1],), (("drinks",), ("smokes",))])
def test_almost_no_noise_gives_the_answers_back(clusters: tuple[tuple[str, ...], ...]) -> None:
    variant = RRIndJoint(survey=SURVEY, p=1 - 2**-40, clusters=clusters)
    records = answers(SURVEY, 40)
    estimate = variant.estimate(run(variant, 40))
    for names in (BOTH, BOTH[::-1], ("drinks",)):
        assert np.allclose(estimate.table(*names).values, records.distribution(names), atol=1e-9)


@pytest.mark.slow
def test_the_estimate_needs_no_independence() -> None:
    """Of answers that depend on each other the pair is estimated without bias, in many runs."""
    codes = answers(SURVEY, 400).codes.copy()
    codes[:, 1] = 2 * codes[:, 0]
    records = Records(SURVEY, codes)
    variant = RRIndJoint.with_keep(SURVEY, 0.7)
    found = []
    for seed in range(200):
        setting = make_setting(variant, records, seed=seed, parties=2)
        run_ = run_locally(Exchange(setting.charter), setting.streams, setting.holdings)
        found.append(float(variant.estimate(run_.result).table(*BOTH).values[0, 0]))
    truth = float(records.distribution(BOTH)[0, 0])
    assert mean_p_value(found, truth) > ALPHA
    assert mean_p_value(found, truth * WRONG) < ALPHA


@pytest.mark.parametrize(
    "change",
    [
        {"p": 0.0},
        {"p": 1.0},
        {"clusters": [["smokes"]]},
        {"clusters": [["smokes", "drinks"], ["smokes"]]},
        {"clusters": [["smokes", "weight"]]},
        {"quorum": 0},
    ],
    ids=str,
)
def test_headers_of_no_variant_are_refused(change: dict[str, object]) -> None:
    survey = msgspec.to_builtins(SURVEY)
    assert build(RRIndJoint, parameters=plain_parameters(TOGETHER), survey=survey) == TOGETHER
    with pytest.raises(SurveyError):
        build(RRIndJoint, parameters={**plain_parameters(TOGETHER), **change}, survey=survey)


def test_who_vanishes_is_counted_out() -> None:
    variant = RRIndJoint.with_keep(SURVEY, 1 - 2**-40)
    charter = charter_of(variant, 5)
    records = answers(SURVEY, 5)

    crash = fate_of(Fate(Verdict.CRASH), "party-2")
    result = everywhere(charter, holdings_of(charter, records), fate=crash).published
    assert isinstance(result, Pooled)
    rows, counts = np.unique(np.delete(records.codes, 1, axis=0), axis=0, return_counts=True)
    assert (result.codes.tolist(), result.counts.tolist()) == (rows.tolist(), counts.tolist())


@pytest.mark.parametrize("clusters", [(BOTH,), ()])
def test_other_clusters_or_a_larger_cost_are_refused(clusters: tuple[tuple[str, ...], ...]) -> None:
    variant = RRIndJoint(survey=SURVEY, p=0.6, clusters=clusters)
    other = RRIndJoint(survey=SURVEY, p=0.6, clusters=() if clusters else (BOTH,))
    dearer = msgspec.structs.replace(variant, p=0.61)
    for asked in (other, dearer):
        machine = machine_of(charter_of(variant), "party-1")
        machine.start(0.0)
        ask = Ask(SURVEY.digest, asked.blocks)
        machine.receive(envelope(machine.charter, AGGREGATOR, 0, ask, to="party-1"), 0.0)
        assert [e.kind for e in words_sent(machine)] == ["Declined"]
        assert isinstance(machine.failure, PrivacyError)


def test_a_survey_of_many_attributes_is_estimated_in_part() -> None:
    """The cost is that of the attributes asked for, not of the whole survey."""
    attributes = tuple(
        Attribute(name=f"a{i:02}", categories=("no", "yes", "maybe")) for i in range(40)
    )
    survey = Survey("long", attributes)
    variant = RRIndJoint(survey=survey, p=0.9, max_records=30)
    charter = charter_of(variant, 2)
    outcome = everywhere(charter, holdings_of(charter, answers(survey, 60)))
    table = variant.estimate(outcome.published).table("a00", "a17", "a39")
    assert table.values.shape == (3, 3, 3)
    assert float(table.values.sum()) == pytest.approx(1.0, abs=1e-9)
