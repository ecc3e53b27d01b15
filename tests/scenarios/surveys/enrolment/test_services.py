"""Surveys with services: what an audit says of them, and where they do not run yet."""

from __future__ import annotations

import json

import pytest

from protocol import Coalition, PartyId
from protocol.errors import UsageError
from scenarios import EXECUTORS, simulate
from scenarios.surveys.enrolment.agreed import check_parties
from tests.protocol.other_shapes import HOMEPAGES, records, shapes


def test_no_workers_are_started_for_a_variant_with_services() -> None:
    with pytest.raises(UsageError, match="'shuffled' has services, which live with the aggregator"):
        simulate(shapes()["shuffler"], records(HOMEPAGES, 4), workers=2)


def test_no_keys_are_made_for_a_survey_with_services() -> None:
    with pytest.raises(UsageError, match=r"has services \(server, server\): expected one without"):
        check_parties(shapes()["two_servers"], [PartyId("p1"), PartyId("p2")])


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        # What the aggregator opened takes its key to make again; servers add up in the open.
        ("shuffler", "unchecked"),
        ("two_servers", "sound"),
    ],
)
def test_without_keys_an_audit_says_that_nobody_looked_inside(name: str, verdict: str) -> None:
    variant = shapes()[name]
    run = EXECUTORS["local"](variant, records(HOMEPAGES, 4), seed=1, withheld=True)
    audit = run.outcome.transcript.audit(type(variant))
    assert audit.verdict == verdict
    assert {each.opened for each in audit.sealed} == {None}
    assert "not opened" in run.audit_reports(forms=("text",))["text"]


def test_an_audit_leads_with_all_who_hold_no_records_and_lists_some_of_them() -> None:
    run = EXECUTORS["local"](shapes()["two_servers"], records(HOMEPAGES, 4), seed=1)
    said = run.audit_reports(forms=("text", "json"))
    text = said["text"]
    assert "What aggregator, server-1 and server-2 together learned" in text
    assert "8 messages sealed" not in text
    assert "4 messages sealed for server-1: 4 opened." in text
    assert "server-1; ε: ∞; What they learned: sums or reports in random order, of 4 honest" in text
    assert "server-1, server-2; ε: ∞; What they learned: something of a party by itself" in text
    privacy = json.loads(said["json"])["privacy"]
    assert privacy["observer"] == "aggregator, server-1, server-2"
    assert [(each["observer"], each["honest"]) for each in privacy["apart"]] == [
        ("aggregator", 4),
        ("server-1", 4),
        ("server-2", 4),
        ("aggregator, server-1", 4),
        ("aggregator, server-2", 4),
        ("server-1, server-2", 0),
    ]
    assert [each["reader"] for each in privacy["sealed"]] == ["server-1", "server-2"]


def test_a_coalition_s_parties_are_told_apart_from_those_that_are_merged() -> None:
    """A tap on both wires of one party, with both servers' keys; another party is a member."""
    run = EXECUTORS["local"](shapes()["two_servers"], records(HOMEPAGES, 5), seed=1)
    one, servers = PartyId("party-1"), (PartyId("server-1"), PartyId("server-2"))
    taps = tuple((one, server) for server in servers)
    coalition = Coalition((PartyId("party-5"),), taps, servers)
    text = run.audit_reports(forms=("text",), observer=coalition)["text"]
    assert "Of party-1 by itself; of all others in sums or in random order, of 3 honest" in text
    text = run.audit_reports(forms=("text",), observer=Coalition(servers[:1]))["text"]
    assert "Of nobody by itself: in sums or in random order, of 5 honest parties at least" in text
