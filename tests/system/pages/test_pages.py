"""Pages and their server, simulated while things go wrong."""

from collections import Counter

import msgspec
import pytest

from protocol import AGGREGATOR
from protocol.transcript.checkpoints import sign_checkpoint
from tests.system.pages.invariants import (
    Look,
    broken_in,
    lies_leave_evidence,
    one_report_of_each_place,
    told_checkpoints_are_kept,
)
from tests.system.pages.schedule import Lie, Schedule, drawn, read
from tests.system.pages.world import PLACES, Course, play
from tests.tiers import thinned

SCHEDULES = 300


@pytest.mark.parametrize("seed", thinned(range(SCHEDULES), 8))
def test_whatever_goes_wrong(seed: int) -> None:
    schedule = drawn(seed)
    assert broken_in(play(schedule)) == [], schedule


def test_without_faults_everybody_is_told_what_was_sent() -> None:
    course = play(Schedule(0))
    assert broken_in(course) == []
    assert [each.state for each in course.attempts] == ["complete"]
    shown = Counter((one.state.name, one.state.counted) for one in course.last)
    assert shown == {("sent", "counted"): PLACES}


def fingerprint(course: Course) -> list[object]:
    return [course.attempts, course.stored, course.asked, course.statuses, course.showed]


def test_a_course_follows_from_its_schedule() -> None:
    for seed in (5, 6):
        schedule = drawn(seed)
        assert read(str(schedule)) == schedule
        assert fingerprint(play(schedule)) == fingerprint(play(schedule))


def test_schedules_have_all_that_may_happen() -> None:
    courses = [drawn(seed) for seed in range(SCHEDULES)]
    kinds = Counter(type(fault).__name__ for one in courses for fault in one.faults)
    assert len(kinds) == 11
    assert min(kinds.values()) >= SCHEDULES / 10
    lies = [fault.what for one in courses for fault in one.faults if isinstance(fault, Lie)]
    assert len({*lies}) == 4


def test_a_second_report_or_another_log_would_be_seen() -> None:
    """The rules of the hub and of the recorder leave no way to plant these."""
    course = play(Schedule(4))
    look = Look(course)
    first = course.where.charter.roster.parties[0]
    look.said[0][first] *= 2
    assert next(one_report_of_each_place(look), None)
    where = course.where
    signed = sign_checkpoint(
        where.identities[AGGREGATOR], session=where.charter.session, size=9, root=bytes(32)
    )
    course.notes.add(signed.note)
    assert next(told_checkpoints_are_kept(look), None)


def test_a_lie_without_evidence_would_be_seen() -> None:
    course = play(Schedule(4))
    look = Look(course)
    [kept] = course.attempts
    assert next(lies_leave_evidence(look), None) is None
    look.said[0].clear()
    assert next(lies_leave_evidence(look), None)
    assert msgspec.structs.asdict(course)["attempts"] == [kept]
