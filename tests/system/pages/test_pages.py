"""Pages and their server, simulated while things go wrong."""

import pytest

from protocol.messages import PartyId
from tests.system.pages.invariants import INVARIANTS, Look, broken_in, one_report_of_each_place
from tests.system.pages.schedule import Schedule, drawn, read, shrunk
from tests.system.pages.world import PLACES, Course, play
from tests.tiers import thinned

SCHEDULES = 300


@pytest.mark.parametrize("seed", thinned(range(SCHEDULES), 30))
def test_whatever_goes_wrong(seed: int) -> None:
    schedule = drawn(seed)
    broken = broken_in(play(schedule))
    assert broken == [], schedule
