"""The simulation finds each behaviour that surveys were lost by, once it is planted again."""

import pytest

from tests.system.invariants import INVARIANTS, broken_in
from tests.system.planted import PLANTS
from tests.system.schedule import Crash, Cut, Late, Schedule, drawn, shrunk
from tests.system.world import play, profile_of, setup_of
from tests.tiers import slow, thinned

SCHEDULES = 200


def breaks(name: str, schedule: Schedule) -> bool:
    plant = PLANTS[name]
    broken = broken_in(play(setup_of(plant.variant), schedule))
    return any(one.invariant == plant.invariant for one in broken)


RARE = {
    "a party does not know its receipt again": 2000,
    "a party that is started again says something else": 1000,
    "done is what was written to a socket": SCHEDULES,
    "what was acknowledged is not synced": 1000,
}
"""Found by one schedule of a hundred, or fewer; among how many."""


@pytest.mark.parametrize(
    "name", [*thinned([name for name in PLANTS if name not in RARE], 1), *map(slow, RARE)]
)
def test_it_is_found(name: str) -> None:
    profile = profile_of(PLANTS[name].variant)
    schedules = [drawn(profile, seed) for seed in range(RARE.get(name, SCHEDULES))]
    schedules.sort(key=PLANTS[name].likely, reverse=True)
    with PLANTS[name].plant():
        assert any(breaks(name, schedule) for schedule in schedules)


@pytest.mark.parametrize("variant", ["rr-independent", "secure-sum", "rrba", "privkvm"])
def test_who_is_not_counted_is_missed_without_any_fault(variant: str) -> None:
    setup = setup_of(variant)
    with PLANTS["what was acknowledged does not reach the aggregator's role"].plant():
        broken = {one.invariant for one in broken_in(play(setup, Schedule(0)))}
    invariants = {"acknowledged_is_counted", "what_heals_costs_nobody", "the_audit_accepts"}
    assert invariants <= broken


def test_every_invariant_can_be_broken() -> None:
    assert {plant.invariant for plant in PLANTS.values()} == {
        invariant.__name__ for invariant in INVARIANTS
    }


def test_what_is_found_is_made_small() -> None:
    found = Schedule(
        7,
        (
            Late("party-1", 3.0),
            Crash("aggregator", 1, 100, "power", 40.0, 17),
            Cut("party-2", 1, 0, 200, "silent"),
        ),
    )

    def fails(schedule: Schedule) -> bool:
        return any(isinstance(one, Crash) and one.moment >= 33 for one in schedule.faults)

    assert shrunk(found, fails) == Schedule(7, (Crash("aggregator", 0, 33, "kill", 1.0, 17),))
    assert shrunk(found, fails, tries=1) == Schedule(7, found.faults[1:])


@pytest.mark.slow
def test_what_is_small_fails_without_the_program_of_old_no_more() -> None:
    name = "done is what was written to a socket"
    schedule = Schedule(1, (Cut("party-1", 0, 0, 300, "silent"), Late("party-2", 1.0)))
    with PLANTS[name].plant():
        assert breaks(name, schedule)
        assert breaks(name, shrunk(schedule, lambda one: breaks(name, one), tries=5))
    assert not breaks(name, schedule)
