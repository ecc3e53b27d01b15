"""Whole surveys, simulated while things go wrong: a schedule of every variant, or ten."""

import os
import subprocess
import sys
from random import Random

import pytest

from parties.keeping.record_names import PARTIAL, TRANSCRIPT
from parties.session import LINGER
from protocol import AGGREGATOR
from protocol.variants import BUILT_IN
from scenarios import Finished
from scenarios.statement.runs import run_values
from tests.scenarios.command import ROOT
from tests.system import disk
from tests.system.__main__ import failures_of
from tests.system.disk import Disk
from tests.system.hosts import HOST
from tests.system.invariants import broken_in
from tests.system.network import is_length
from tests.system.schedule import (
    Crash,
    Cut,
    Full,
    Jump,
    Late,
    Part,
    Schedule,
    Slow,
    Stop,
    drawn,
    read,
)
from tests.system.world import PARTIES, Course, after, play, profile_of, setup_of, variants
from tests.tiers import slow, thinned


@pytest.mark.slow
@pytest.mark.parametrize("schedules", [1, slow(10)])
@pytest.mark.parametrize("name", [*variants()])
def test_a_survey_survives(name: str, schedules: int) -> None:
    assert failures_of(name, 0, schedules) == []


@pytest.mark.parametrize("name", thinned([*variants()], 2))
def test_without_faults_everybody_is_counted(name: str) -> None:
    course = play(setup_of(name), Schedule(0))
    assert broken_in(course) == []
    [life] = course.lives_of("aggregator")
    assert life.outcome is not None
    assert run_values(Finished(outcome=life.outcome))["counted"] == PARTIES
    assert {one.said for one in course.lives} == {"done", "published"}


def test_who_comes_too_late_is_named_as_not_counted() -> None:
    course = play(setup_of("rr-independent"), Schedule(1, (Late("party-4", 35.0),)))
    assert broken_in(course) == []
    outcome = course.lives_of("aggregator")[0].outcome
    assert outcome is not None
    assert (outcome.counted, outcome.trouble) == (PARTIES - 1, {"never came": 1})


def test_it_is_all_variants() -> None:
    assert {*variants()} == {*BUILT_IN}


def fingerprint(course: Course) -> list[object]:
    lives = [(one.member, one.number, one.ended, one.moments) for one in course.lives]
    return [lives, [(one.member, one.payload) for one in course.said]]


@pytest.mark.slow
def test_a_course_follows_from_its_schedule() -> None:
    setup, profile = setup_of("secure-sum"), profile_of("secure-sum")
    schedules = [drawn(profile, seed) for seed in range(6)]
    schedules = [schedule for schedule in schedules if not schedule.secured]
    assert len(schedules) >= 3
    courses = [fingerprint(play(setup, schedule)) for schedule in schedules]
    assert courses == [fingerprint(play(setup, schedule)) for schedule in schedules]
    assert all(course != courses[0] for course in courses[1:])


def test_a_schedule_is_read_as_it_is_printed() -> None:
    profile = profile_of("rr-independent")
    schedules = [drawn(profile, seed) for seed in range(200)]
    assert [read(str(schedule).encode()) for schedule in schedules] == schedules
    kinds = {type(fault) for schedule in schedules for fault in schedule.faults}
    assert kinds == {Crash, Cut, Full, Jump, Late, Part, Slow, Stop}


@pytest.mark.slow
def test_a_crash_ends_a_life_and_another_one_begins() -> None:
    setup = setup_of("rr-independent")
    for how in ("kill", "power"):
        crash = Crash("party-1", 0, 20, how, 1.0)  # type: ignore[arg-type]
        lives = play(setup, Schedule(1, (crash,))).lives_of("party-1")
        assert [(one.crashed, one.moments) for one in lives][:1] == [(True, 20)]
        assert lives[1].began >= (lives[0].ended or 0.0) + 1.0
        assert lives[1].said == "done"


@pytest.mark.slow
def test_an_aggregator_that_is_stopped_goes_on() -> None:
    """At whatever moment; before it heeds signals one ends it at once, at the end it publishes."""
    setup = setup_of("rr-independent")
    ends = set()
    for moment in range(5, profile_of("rr-independent").moments["aggregator"], 15):
        course = play(setup, Schedule(1, (Stop(0, moment, 2.0),)))
        assert broken_in(course) == []
        first, last = (course.lives_of("aggregator")[place] for place in (0, -1))
        ends.add("killed" if first.crashed else first.said.partition(":")[0])
        assert (last.said, last.outcome and last.outcome.counted) == ("published", PARTIES)
        assert {life.said for life in course.lives if life.member != "aggregator"} == {"done"}
    assert ends == {"killed", "StoppedError", "published"}


TROUBLE = (
    Crash("party-1", 0, 60, "power", 5.0),
    Stop(0, 120, 5.0),
    Cut("party-2", 0, 0, 600, "deaf"),
)


@pytest.mark.slow
def test_who_is_asked_again_under_new_keys_pays_from_the_same_purse() -> None:
    setup, other = setup_of("rr-independent"), setup_of("rr-independent", "others")
    assert setup.charter.survey_id != other.charter.survey_id
    cost = setup.charter.variant.most()
    first = play(setup, Schedule(1))
    second = play(after(first, other, budget=2.1 * cost), Schedule(1, TROUBLE))
    assert [*map(str, broken_in(second))] == []
    assert len({life.member for life in second.lives if life.number > 0}) == 2
    sessions = {setup.charter.again(1).session, other.charter.again(1).session}
    for paid in second.paid.values():
        assert paid == dict.fromkeys(sessions, pytest.approx(cost))
    # With nothing left for it nobody says a word, whatever goes wrong.
    third = play(after(first, other, budget=1.9 * cost), Schedule(1, TROUBLE))
    assert third.paid == first.paid
    assert {one.member for one in third.said} == set()
    for party in setup.records:
        assert "this purse has too little left" in third.lives_of(party)[-1].said


def test_faults_take_virtual_time() -> None:
    course = play(setup_of("rr-independent"), Schedule(1, (Part("aggregator", 0.0, 25.0),)))
    assert 25.0 < course.seconds < 60.0
    assert all(one.said in ("done", "published") for one in course.lives)


def test_bits_are_flipped_under_tls() -> None:
    flip = Schedule(1, (Cut("party-1", 0, 0, 1200, "flip"),))
    assert flip.secured
    course = play(setup_of("rr-independent"), flip)
    assert all(one.said in ("done", "published") for one in course.lives)
    assert course.sent["party-1"] != profile_of("rr-independent").sent["party-1"]


def test_a_full_disk_is_named() -> None:
    course = play(setup_of("rr-independent"), Schedule(1, (Full("party-2", 0, 1, 1),)))
    first, second = course.lives_of("party-2")
    assert "the disk is full" in first.said
    assert second.said == "done"


@pytest.mark.slow
def test_an_attempt_begins_on_a_disk_that_is_full_for_a_moment() -> None:
    setup = setup_of("rr-independent")
    for moment in range(20, 40):
        course = play(setup, Schedule(1, (Full("aggregator", 0, moment, 1),)))
        assert broken_in(course) == []
        assert course.lives_of("aggregator")[-1].said == "published"


@pytest.mark.slow
def test_who_is_cut_off_after_its_last_words_is_waited_for_by_who_resumes() -> None:
    setup = setup_of("rr-independent")
    cut = Cut("party-4", 0, 1, 489, "reset")
    for moment in range(204, 216):
        killed = Crash("aggregator", 0, moment, "kill", 2.0)
        course = play(setup, Schedule(500_905, (cut, killed)))
        assert broken_in(course) == []
        assert course.lives_of("party-4")[0].said == "done"


@pytest.mark.slow
def test_the_command_replays_a_schedule(tmp_path: object) -> None:
    schedule = str(Schedule(1, (Crash("party-1", 0, 20, "kill", 1.0),)))
    command = [sys.executable, "-m", "tests.system", "--variant", "rr-independent", "--replay", "-"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        command, input=schedule, capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert ran.returncode == 0, ran.stderr
    assert "party-1 0: 0.000 to" in ran.stdout
    assert "crashed" in ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", [*variants()])
def test_a_survey_survives_many(name: str) -> None:
    assert failures_of(name, 0, 10_000) == []


def test_the_length_of_a_record_is_found() -> None:
    said = b"\x16\x03\x03\x00\x02ab" + b"\x17\x03\x03\x01\x00" + bytes(256) + b"\x17\x03"
    assert [place for place in range(len(said)) if is_length(said, place)] == [3, 4, 10, 11]


@pytest.mark.slow
def test_only_a_bit_in_the_length_of_a_record_is_like_silence() -> None:
    setup, stalled = setup_of("secure-sum"), 0
    for byte in range(1330, 1380):
        course = play(setup, Schedule(20002629, (Cut("party-2", 0, 0, byte, "flip"),)))
        assert broken_in(course) == []
        stalled += len(course.stalled)
    assert 0 < stalled < 5


ABANDONED_AFTER_ONE = """{"seed":20002016,"faults":[{"type":"Crash","member":"aggregator","life":0,
"moment":122,"how":"kill","away":1.0,"torn":54,"then":"anew"},{"type":"Jump","at":0.061,"seconds":227.0}]}"""


@pytest.mark.slow
def test_one_who_is_done_before_an_attempt_is_abandoned_is_on_its_record() -> None:
    course = play(setup_of("rr-joint"), read(ABANDONED_AFTER_ONE.encode()))
    assert [*map(str, broken_in(course))] == []
    (done,) = course.lives_of("party-1")
    assert (done.said, done.answered and done.answered.attempt) == ("done", 1)
    assert "published" in course.lives_of("aggregator")[-1].said


@pytest.mark.parametrize(("byte", "waits"), [(200, True), (10_000, False)])
def test_one_who_is_out_of_reach_keeps_nobody_but_the_aggregator(byte: int, waits: bool) -> None:
    """Silent before its report, or after it; the other parties are done when their words are."""
    setup = setup_of("rr-independent")
    gone = (Cut("party-1", 0, 0, byte, "silent"), Part("party-1", 0.23, 500.0))
    course = play(setup, Schedule(1, gone))
    assert broken_in(course) == []
    for name in ("party-2", "party-3", "party-4"):
        (life,) = course.lives_of(name)
        assert (life.said, life.ended is not None and life.ended < 1.0) == ("done", True)
    (aggregator,) = course.lives_of("aggregator")
    assert aggregator.said == "published"
    assert aggregator.ended is not None
    least = LINGER + (setup.charter.variant.patience if waits else 0.0)
    assert least <= aggregator.ended < least + 1.0


AWAY = 30.0
"""Longer than the aggregator waits for a round of answers, and shorter than a link is lost by."""


@pytest.mark.parametrize(
    ("name", "at", "code", "word", "counted"),
    thinned(
        [
            pytest.param("rr-independent", 0.14, 75, "late", 3, id="one report"),
            pytest.param("rrba", 0.16, 75, "late", 3, id="its block"),
            pytest.param("privkvm", 0.14, 75, "late", 3, id="the first round"),
            pytest.param("privkvm", 0.26, 75, "late", 4, id="the second round alone"),
            pytest.param("secure-sum", 0.6, 0, "counted", 4, id="only what opens the sum"),
            pytest.param("secure-sum", 0.42, 1, None, 3, id="its masked counts"),
        ],
        4,
    ),
)
def test_one_who_is_away_for_too_long_is_told(
    name: str, at: float, code: int, word: str | None, counted: int
) -> None:
    course = play(setup_of(name), Schedule(1, (Part("party-1", at, AWAY),)))
    assert [*map(str, broken_in(course))] == []
    (life,) = course.lives_of("party-1")
    assert life.answered is not None
    receipt = life.answered.receipt
    assert (life.answered.code, receipt and receipt.word) == (code, word)
    # It stays charged.
    assert life.answered.spent.epsilon > 0.0
    assert course.spent["party-1"][1] == life.answered.spent.epsilon
    outcome = course.lives_of("aggregator")[0].outcome
    assert outcome is not None
    assert outcome.counted == counted


@pytest.mark.slow
def test_one_who_was_killed_after_its_late_note_is_late_though_all_is_over() -> None:
    """It is started again when nobody is there; and before it has its note, it does not know."""
    setup, found = setup_of("rr-independent"), []
    for moment in range(60, 130, 5):
        faults = (
            Part("party-1", 0.14, AWAY),
            Crash("party-1", 0, moment, "kill", 60.0),
        )
        course = play(setup, Schedule(1, faults))
        assert [*map(str, broken_in(course))] == []
        last = course.lives_of("party-1")[-1]
        if len(course.lives_of("party-1")) > 1 and last.answered is not None:
            found.append((last.answered.code, last.answered.earlier))
    assert (75, True) in found
    assert all(code != 0 for code, _ in found)


@pytest.mark.slow
def test_one_who_was_killed_with_its_receipt_is_done_though_all_is_over() -> None:
    setup, done = setup_of("rr-independent"), []
    for moment in range(84, 106, 3):
        course = play(setup, Schedule(1, (Crash("party-1", 0, moment, "kill", 60.0),)))
        assert broken_in(course) == []
        done.append(course.lives_of("party-1")[-1].said == "done")
    # Without its receipt it finds nobody who could tell it.
    assert done[0] is False
    assert done[3:] == [True] * 5


@pytest.mark.slow
def test_zeros_that_a_loss_of_power_leaves_in_a_record_are_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The aggregator's machine loses power as it syncs its record, whichever time it is."""
    setup, moments, zeros = setup_of("rr-independent"), list[int](), list[int]()
    sync, zeroed = Disk.sync, disk._zeroed

    def synced(self: Disk, descriptor: int, path: str) -> None:
        host = HOST.get()
        if host is not None and host.name == AGGREGATOR and path.endswith(TRANSCRIPT + PARTIAL):
            moments.append(host.moments)
        sync(self, descriptor, path)

    def left(synced: bytes, content: bytes, random: Random) -> bytes:
        found = zeroed(synced, content, random)
        if len(synced) > 1000 and found != content:
            zeros.append(len(found))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Disk, "sync", synced)
        play(setup, Schedule(1, ()))
    monkeypatch.setattr(disk, "_zeroed", left)
    assert len(moments) > 5
    for moment in moments:
        for seed in range(2):
            crash = Crash(AGGREGATOR, 0, moment, "power", 2.0, 31 * moment + seed)
            course = play(setup, Schedule(1, (crash,)))
            assert broken_in(course) == []
            assert course.lives_of(AGGREGATOR)[-1].said == "published"
    assert len(zeros) > 3
