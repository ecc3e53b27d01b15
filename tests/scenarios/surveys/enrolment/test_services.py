"""Where services do not run yet is said before anything starts."""

from __future__ import annotations

import pytest

from protocol.errors import UsageError
from protocol.messages import PartyId
from scenarios import simulate
from scenarios.surveys.enrolment.agreed import check_parties
from tests.protocol.other_shapes import HOMEPAGES, records, shapes


def test_no_workers_are_started_for_a_variant_with_services() -> None:
    with pytest.raises(UsageError, match="'shuffled' has services, which live with the aggregator"):
        simulate(shapes()["shuffler"], records(HOMEPAGES, 4), workers=2)


def test_no_keys_are_made_for_a_survey_with_services() -> None:
    with pytest.raises(UsageError, match=r"has services \(server, server\): expected one without"):
        check_parties(shapes()["two_servers"], [PartyId("p1"), PartyId("p2")])
