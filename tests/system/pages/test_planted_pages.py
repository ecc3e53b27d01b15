"""The simulation finds each fault of a page or a server, once it is planted."""

import functools
import itertools
from collections.abc import Iterator

import pytest

from tests.system.pages.invariants import INVARIANTS, Look, broken_in
from tests.system.pages.planted import PLANTS, AsksNoState, Plant
from tests.system.pages.schedule import Cleared, Elsewhere, Killed, Schedule, drawn, shrunk
from tests.system.pages.world import play
from tests.tiers import slow

BY_NAME = {invariant.__name__: invariant for invariant in INVARIANTS}
SOON = {plant.invariant: name for name, plant in reversed(PLANTS.items()) if plant.within <= 20}
"""By each invariant the first plant that does not take many schedules."""


def breaks(plant: Plant, schedule: Schedule) -> bool:
    course = plant.play(schedule)
    return next(BY_NAME[plant.invariant](Look(course, plant.play)), None) is not None


def schedules(plant: Plant) -> Iterator[Schedule]:
    """Those that may show it, as many as it takes at most."""
    return itertools.islice(filter(plant.likely, map(drawn, itertools.count())), plant.within)


@functools.cache
def broken_without(schedule: Schedule) -> frozenset[str]:
    """The invariants that a schedule breaks where nothing is planted."""
    return frozenset(one.invariant for one in broken_in(play(schedule, variant=0)))


@pytest.mark.parametrize("name", [name if name in SOON.values() else slow(name) for name in PLANTS])
def test_it_is_found(name: str) -> None:
    plant = PLANTS[name]
    found = next((one for one in schedules(plant) if breaks(plant, one)), None)
    assert found is not None
    # It is the fault that breaks it.
    assert plant.invariant not in broken_without(found)


def test_who_asks_no_state_is_stopped_by_the_server() -> None:
    """A page that does not remember draws again; nobody is charged for what is not taken."""
    plant = Plant("one_report_of_each_place", 40, page=AsksNoState, shown_by=(Cleared, Elsewhere))
    refused = 0
    for schedule in schedules(plant):
        course = plant.play(schedule)
        look = Look(course, plant.play)
        for name in ("one_report_of_each_place", "nobody_is_charged_more", "records_are_sound"):
            assert next(BY_NAME[name](look), None) is None, schedule
        refused += course.statuses.count(("answer", 409))
        if refused >= 3:
            return
    raise AssertionError("nobody draws a second time")


def test_what_is_found_is_made_small() -> None:
    found = Schedule(7, (Killed(1, 1, True, 3.0), Elsewhere(2, 9.0), Cleared(1, 5.0, True)))

    def fails(schedule: Schedule) -> bool:
        return any(isinstance(one, Elsewhere) for one in schedule.faults)

    assert shrunk(found, fails) == Schedule(7, (Elsewhere(2, 9.0),))
