"""The town as a survey that waits for every answer, however busy the machine is."""

from __future__ import annotations

import msgspec

from protocol import Survey
from protocol.variants import RRIndependent
from scenarios import Scenario
from scenarios.quickstart import residents

KEEP = 0.6


def patient(survey: Survey) -> RRIndependent:
    """RR-Independent without a deadline."""
    return msgspec.structs.replace(RRIndependent.with_keep(survey, KEEP), patience=None)


SCENARIOS = (
    Scenario.of(
        patient,
        name="crowd",
        summary="The town's residents, one live party each, with all the time they need.",
        records=residents,
        names=("residents",),
    ),
)
