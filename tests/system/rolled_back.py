"""Surveys whose aggregator goes on with an older copy of its folder and record.

``python -m tests.system.rolled_back --schedules 50`` tries drawn ones.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from random import Random
from typing import Literal

import msgspec

from protocol import AGGREGATOR, ProtocolError
from protocol.errors import UsageError
from protocol.transcript.entries import Restored
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.receipts import COUNTED
from tests.system.invariants import finished_of, word_of
from tests.system.schedule import Crash, Profile, Rollback, Schedule
from tests.system.world import Course, play, profile_of, remembering, setup_of

VARIANTS = ("rr-independent", "secure-sum", "rrba", "privkvm")

How = Literal["plain", "restore"]

STOPPED = "stopped by name"
"""How a survey ends in which nothing is published, and everybody who asks is told why."""

PUBLISHED = "published"

FAILED = "failed"
"""How one has ended whose protocol failed, for example without a quorum: nothing is published."""

NAMED = "published, and the record names whom it went on without"


class Ended(msgspec.Struct, frozen=True):
    """How a survey that was rolled back has ended.

    Args:
        how: in a word or two.
        lost: who holds a receipt and is not counted in what was published, without being named.
        unknowable: who of them never came again, after a plain copy that nobody showed to be old.
    """

    how: str
    lost: tuple[str, ...] = ()
    unknowable: tuple[str, ...] = ()


def drawn(profile: Profile, seed: int, how: How | None = None) -> Schedule:
    """A schedule with one rollback; after half of them the aggregator's machine crashes, too.

    Args:
        how: the copy is made; by default drawn.
    """
    random = Random(seed)
    most = profile.moments[AGGREGATOR]
    moment = random.randint(most // 4, most)
    back = Rollback(
        random.randint(10, moment),
        moment,
        round(random.uniform(0.1, 5.0), 3),
        how or random.choice(("plain", "restore")),
        tuple(name for name in sorted(profile.sent) if random.random() < 0.15),
    )
    if random.random() < 0.5:
        return Schedule(seed, (back,))
    power = random.choice(("kill", "power"))
    crash = Crash(AGGREGATOR, 1, random.randint(1, most), power, 1.0, seed)  # type: ignore[arg-type]
    return Schedule(seed, (back, crash))


def ended(course: Course) -> Ended:
    """How a survey has ended for those who hold receipts."""
    back = _rollback_in(course.schedule)
    holders = sorted({life.member for life in course.lives if holds(life.answered)})
    last = course.lives_of(AGGREGATOR)[-1]
    finished = finished_of(course)
    if last.outcome is None or finished is None:
        older = isinstance(last.error, UsageError) and "is older than what" in last.said
        failed = isinstance(last.error, ProtocolError)
        return Ended(STOPPED if older else FAILED if failed else last.said)
    with remembering():
        uncounted = [name for name in holders if word_of(course, finished, name) != COUNTED]
    without = {
        name
        for entry in TranscriptReader(finished.content)
        if isinstance(entry, Restored)
        for name in entry.without
    }
    if uncounted and {*uncounted} <= without:
        return Ended(NAMED)
    if back.how == "plain" and {*uncounted} <= {*back.gone}:
        return Ended(PUBLISHED, (), tuple(uncounted))
    return Ended(PUBLISHED, tuple(uncounted))


def _rollback_in(schedule: Schedule) -> Rollback:
    return next(one for one in schedule.faults if isinstance(one, Rollback))


def holds(answered: object) -> bool:
    """Whether a party was told that it is done."""
    return getattr(answered, "code", None) == 0


def main() -> int:
    """Try, and print what was lost."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.system.rolled_back")
    parser.add_argument("--schedules", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    ends: Counter[str] = Counter()
    losses = 0
    for seed in range(given.seed, given.seed + given.schedules):
        name = VARIANTS[seed % len(VARIANTS)]
        schedule = drawn(profile_of(name), seed)
        course = play(setup_of(name), schedule)
        found = ended(course)
        ends[f"{_rollback_in(schedule).how}: {found.how}"] += 1
        if found.lost or found.how not in (PUBLISHED, STOPPED, FAILED, NAMED):
            losses += 1
            print(f"{name} {seed}: {found}\n  {schedule}", *course.lives, sep="\n  ", flush=True)
        elif found.unknowable:
            ends["unknowable"] += 1
    print(dict(ends), f"{losses} with losses")
    return 1 if losses else 0


if __name__ == "__main__":
    sys.exit(main())
