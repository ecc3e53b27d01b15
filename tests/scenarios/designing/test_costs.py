"""What a way to ask costs beside its error: counted in protocols and runs of which all is known."""

from __future__ import annotations

import math

import msgspec
import pytest

from protocol import AGGREGATOR, SecureSum
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import make_setting
from protocol.variants import RRBA, RRIndependent, RRJoint, SecureSumVariant
from scenarios.designing.assumed import Uniform
from scenarios.designing.candidates import Wanted, variant_candidates
from scenarios.designing.costs import epsilon_at, reckon_traffic, survives_dropouts, trust_in
from scenarios.designing.targets import parse_target
from tests.scenarios.designing.surveys import survey_of

SURVEY = survey_of(3, 2)
SHARES = Uniform(SURVEY)
REPORTS = RRIndependent.with_epsilon(SURVEY, 1.0)


def sums_of(profile: str) -> SecureSumVariant:
    return SecureSumVariant(survey=SURVEY, sums=SecureSum(profile=profile))  # type: ignore[arg-type]


@pytest.mark.parametrize(("profile", "rounds"), [("literal", 4), ("sparse", 5)])
def test_rounds_of_a_sum_are_what_the_aggregator_waits_for(profile: str, rounds: int) -> None:
    """Joining, deals, values, tags, and in the sparse profile what is unmasked.

    A party says as much as it is asked, and hears the opening or the answer before each.
    """
    traffic = reckon_traffic(sums_of(profile), 4, 4, SHARES)
    assert traffic.rounds == rounds
    assert traffic.messages == rounds
    assert traffic.messages_back == 5


def test_a_report_is_one_message_and_one_question() -> None:
    """Their bits are those of the bodies, of each party, over the respondents it speaks for."""
    run = Rehearsal(make_setting(REPORTS, SHARES.records(6), seed=1, parties=2))
    _ = run.published
    asks, reports = (
        {len(one.body) for one in run.sent.values() if one.kind == kind}
        for kind in ("Ask", "Report")
    )
    traffic = reckon_traffic(REPORTS, 6, 2, SHARES)
    assert (traffic.messages, traffic.messages_back) == pytest.approx((1 / 3, 1 / 3))
    assert traffic.bits == pytest.approx(8 * sum(reports) / len(reports) / 3)
    assert traffic.bits_back == pytest.approx(8 * sum(asks) / len(asks) / 3)
    assert traffic.rounds == 1


def test_rounds_of_questions_one_by_one_and_in_blocks() -> None:
    wanted = Wanted(SURVEY, 2.0, parse_target(SURVEY, "margins"))
    [candidate] = variant_candidates(RRBA, wanted)
    assert isinstance(candidate.variant, RRBA)
    for mode, block, rounds in (("sequential", 1, 7), ("block", 3, 3), ("block", 7, 1)):
        variant = msgspec.structs.replace(candidate.variant, mode=mode, block=block)
        assert reckon_traffic(variant, 7, 7, SHARES).rounds == rounds


def test_large_parties_are_reckoned_from_small_ones() -> None:
    """As near to a whole run as a message's header goes."""
    n = 300
    run = Rehearsal(make_setting(REPORTS, SHARES.records(n), seed=1, parties=1))
    _ = run.published
    [report] = [one for one in run.sent.values() if one.kind == "Report"]
    assert reckon_traffic(REPORTS, n, 1, SHARES).bits * n == pytest.approx(
        8 * len(report.body), rel=0.01
    )


def test_sums_among_many_neighbours_are_reckoned_from_few() -> None:
    parties = 15
    variant = sums_of("sparse")
    run = Rehearsal(make_setting(variant, SHARES.records(parties), seed=1, parties=parties))
    _ = run.published
    sent = [one for one in run.sent.values() if one.sender != AGGREGATOR and one.kind != "Head"]
    back = [one for one in run.sent.values() if one.recipient in run.endings]
    found = reckon_traffic(variant, parties, parties, SHARES)
    assert (found.messages, found.messages_back, found.rounds) == pytest.approx((5, 5, 5))
    assert found.bits == pytest.approx(8 * sum(len(one.body) for one in sent) / parties, rel=0.03)
    assert found.bits_back == pytest.approx(
        8 * sum(len(one.body) for one in back) / parties, rel=0.03
    )


def test_trust() -> None:
    assert trust_in(REPORTS, 10).startswith(
        "nobody, as answers are randomized before they are sent"
    )
    assert trust_in(sums_of("literal"), 10).startswith("all other parties")
    assert "conspire" in trust_in(sums_of("sparse"), 10)


def test_an_epsilon_at_a_delta_is_no_larger() -> None:
    found = epsilon_at(RRJoint.with_epsilon(SURVEY, 1.0), 1e-6, SHARES)
    assert found == pytest.approx(1.0, rel=1e-3)
    assert found is not None
    assert found <= 1
    wide = epsilon_at(RRJoint.with_epsilon(SURVEY, 1.0), 0.2, SHARES)
    assert wide is not None
    assert wide < 0.8
    counts = epsilon_at(sums_of("sparse"), 1e-6, SHARES)
    assert counts is None or math.isinf(counts)


@pytest.mark.parametrize(
    ("profile", "dropout", "withstands", "says"),
    [
        ("", 0.4, True, "whoever vanishes is not counted"),
        ("", 0.5, True, "whoever vanishes is not counted"),
        ("", 0.6, False, "fails: 4 parties stay, and the quorum is 5"),
        ("literal", 0.0, True, "fails if one party vanishes"),
        ("literal", 0.1, False, "fails if one party vanishes"),
        ("sparse", 0.1, True, "whoever vanishes is not counted, up to 1"),
        ("sparse", 0.3, False, "fails: it is made for at most 1 party that vanishes"),
    ],
)
def test_what_vanishing_parties_end(
    profile: str, dropout: float, withstands: bool, says: str
) -> None:
    variant = sums_of(profile) if profile else REPORTS
    assert survives_dropouts(variant, 10, dropout) == (withstands, says)
