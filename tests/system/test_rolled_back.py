"""Whoever goes on with an older copy of a record loses no acknowledged answer silently."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Generator
from typing import NamedTuple
from unittest import mock

import pytest
from msgspec.structs import replace

from parties.keeping.receipts import EARLIER, held_in
from protocol import AGGREGATOR, PartyId
from protocol.audit.audit import RESTORED, audit
from protocol.messages import DONE
from protocol.transcript.checkpoints import read_note
from scenarios.surveys import answering
from scenarios.surveys.answering import Sitting
from scenarios.surveys.holding.restored import Owing
from tests.system.invariants import finished_of
from tests.system.rolled_back import (
    FAILED,
    NAMED,
    PUBLISHED,
    STOPPED,
    VARIANTS,
    Ended,
    How,
    drawn,
    ended,
)
from tests.system.schedule import Part, Rollback, Schedule
from tests.system.world import KEYS, PARTIES, Course, play, profile_of, setup_of
from tests.tiers import slow
from transports.lasting.hub import LastingHub, Line

ENDS = {PUBLISHED, STOPPED, FAILED, NAMED}


def tried(name: str, seed: int, how: How) -> Ended:
    """How a drawn rollback ends."""
    return ended(play(setup_of(name), drawn(profile_of(name), seed, how)))


@pytest.mark.parametrize("how", ["plain", "restore"])
@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("seeds", [1, slow(7)])
def test_nobody_with_a_receipt_is_uncounted(name: str, how: How, seeds: int) -> None:
    for seed in range(seeds):
        end = tried(name, seed, how)
        assert (end.lost, end.how in ENDS) == ((), True), (seed, end)


BACK = Rollback(85, 145, 0.421, "plain")


class Found(NamedTuple):
    """A schedule of which one party alone holds a receipt when all is rolled back, and who."""

    seed: int
    holder: str
    other: str


def away(holder: str, other: str) -> tuple[Part, Part]:
    """One comes again when it was given up, and the wait for reports is open for the other."""
    return Part(holder, 1.0, 38.0), Part(other, 25.0, 20.0)


@functools.cache
def found(*, parted: bool) -> Found:
    """The first schedule like that, without or with two parties that are out of reach later."""
    faults = away("party-1", "party-2") if parted else ()
    for seed in range(100):
        course = play(setup_of("rr-independent"), Schedule(seed, (BACK, *faults)))
        ended = course.lives_of(AGGREGATOR)[0].ended
        assert ended is not None
        names = course.setup.charter.roster.parties
        first = {name: course.lives_of(name)[0] for name in names}
        done = [name for name, one in first.items() if one.said == DONE]
        if len(done) == 1 and (first[done[0]].ended or 0.0) < ended:
            return Found(seed, done[0], next(name for name in names if name not in done))
    raise AssertionError("no schedule is like that")


def rolled(how: How, *, gone: bool = False, parted: bool = False) -> Course:
    """A survey that goes on with a copy that is older than what its holder was acknowledged at."""
    seed, holder, other = found(parted=parted)
    back = replace(BACK, how=how, gone=(holder,) if gone else ())
    faults = away(holder, other) if parted else ()
    return play(setup_of("rr-independent"), Schedule(seed, (back, *faults)))


@contextlib.contextmanager
def unheeded() -> Generator[None]:
    """Nobody compares what it holds with what there is: the program of old."""
    with (
        mock.patch.object(Line, "older_than", return_value=None),
        mock.patch.object(answering, "missing_from", return_value=None),
    ):
        yield


def test_the_program_of_old_has_lost_an_answer() -> None:
    """Whoever had it came again, and was turned away; nobody else was told."""
    with unheeded():
        course = rolled("plain", parted=True)
    assert ended(course) == Ended(PUBLISHED, (found(parted=True).holder,))
    assert ended(rolled("plain", parted=True)).how == STOPPED
    assert ended(rolled("restore", parted=True)) == Ended(PUBLISHED)


def test_of_whom_nobody_hears_again_nothing_is_known() -> None:
    """A plain copy, and a party that holds a receipt and never comes again."""
    course = rolled("plain", gone=True)
    assert ended(course) == Ended(PUBLISHED, (), (found(parted=False).holder,))


def test_both_sides_end_by_name_and_keep_what_shows_it() -> None:
    course, holder = rolled("plain"), found(parted=False).holder
    assert ended(course).how == STOPPED
    said = course.lives_of(AGGREGATOR)[-1].said
    assert f"this record is older than what {holder!r} holds: " in said
    [party] = [life for life in course.lives_of(holder) if "is older" in life.said][:1]
    assert "the aggregator's record is older than what this party was acknowledged at" in party.said
    session = course.setup.charter.session.hex()
    own, theirs = course.disks[AGGREGATOR], course.disks[holder]

    def checkpoint(files: object, what: str) -> object:
        return read_note(files[f"{KEYS}/{what}-{session}"].content.decode())  # type: ignore[index]

    held, older = checkpoint(theirs, "checkpoint"), checkpoint(theirs, "older-checkpoint")
    assert checkpoint(own, "newer-checkpoint") == held
    assert checkpoint(own, "older-checkpoint") == older
    assert held.size > older.size  # type: ignore[attr-defined]
    assert held.valid  # type: ignore[attr-defined]
    assert older.valid  # type: ignore[attr-defined]


def test_it_does_not_go_on_before_it_is_another_record() -> None:
    """Also if nobody comes any more: it keeps what a party has shown."""
    setup = setup_of("rr-independent")
    first = rolled("plain")
    own = {
        path.removeprefix(f"{KEYS}/"): file.content
        for path, file in first.disks[AGGREGATOR].items()
        if path.startswith(f"{KEYS}/newer-")
    }
    assert own
    folders = {**setup.folders, AGGREGATOR: {**setup.folders[AGGREGATOR], **own}}
    again = play(replace(setup, folders=folders), Schedule(found(parted=False).seed))
    [life] = again.lives_of(AGGREGATOR)
    assert "this record is older than what a party holds, by " in life.said


def test_who_is_restored_asks_for_what_it_lacks() -> None:
    course, holder = rolled("restore"), found(parted=False).holder
    assert ended(course) == Ended(PUBLISHED)
    last = course.lives_of(AGGREGATOR)[-1]
    assert last.outcome is not None
    assert last.outcome.counted == PARTIES
    assert course.lives_of(holder)[-1].said == DONE
    # Its receipt is one of this record, and the earlier one stays beside it.
    session = course.setup.charter.session.hex()
    there = course.disks[holder]
    assert {f"{KEYS}/{name}-{session}" for name in EARLIER} <= there.keys()
    finished = finished_of(course)
    assert finished is not None
    judged = audit(lambda: [finished.content], type(course.setup.charter.variant))
    assert [remark.text for remark in judged.remarks] == [RESTORED]
    assert judged.verdict == "sound"
    held = read_note(there[f"{KEYS}/checkpoint-{session}"].content.decode())
    checked = audit(lambda: [finished.content], type(course.setup.charter.variant), checkpoint=held)
    assert checked.verification.extends is True


def test_nothing_is_published_without_who_holds_a_receipt() -> None:
    """Twice it waits; then whoever runs it has it go on, and the record says so."""
    course, holder = rolled("restore", gone=True), found(parted=False).holder
    first, second, last = course.lives_of(AGGREGATOR)[1:]
    for life in (first, second):
        assert f"may hold receipts of what it lacks: {holder};" in life.said
    assert ended(course).how == NAMED
    assert last.outcome is not None
    assert last.outcome.counted == PARTIES - 1
    finished = finished_of(course)
    assert finished is not None
    judged = audit(lambda: [finished.content], type(course.setup.charter.variant))
    assert [remark.party for remark in judged.remarks] == [None, PartyId(holder)]


@contextlib.contextmanager
def impatient() -> Generator[None]:
    """A restored aggregator waits for nobody, and leaves out whom it likes."""

    async def returned(hub: LastingHub, within: float) -> list[PartyId]:
        return []

    with (
        mock.patch.object(LastingHub, "returned", returned),
        mock.patch.object(Owing, "_check"),
    ):
        yield


def test_without_that_an_answer_is_lost() -> None:
    with impatient():
        course = rolled("restore", gone=True)
    assert ended(course) == Ended(PUBLISHED, (found(parted=False).holder,))


def test_who_would_say_something_else_is_not_left_out() -> None:
    """A party whose words are others by now is owed to be counted all the same."""
    real = Sitting.open

    def opened(sitting: Sitting, attempt: int) -> None:
        real(sitting, attempt)
        if held_in(sitting.member.folder, sitting.member.charter) is not None:
            assert sitting.attempt is not None
            sitting.attempt.said._known[:] = bytes(len(sitting.attempt.said._known))

    with mock.patch.object(Sitting, "open", opened):
        course = rolled("restore")
    holder = found(parted=False).holder
    assert "would say something else" in course.lives_of(holder)[-1].said
    refused = course.lives_of(AGGREGATOR)[1]
    assert f"may hold receipts of what it lacks: {holder};" in refused.said
    assert ended(course).how == NAMED
