"""``python -m tests.system.pages``: pages and their server, and what does not hold then.

A failure is made small and printed as a schedule: ``--replay FILE`` plays it again.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.system.pages.driven import Driven
from tests.system.pages.invariants import broken_in
from tests.system.pages.schedule import Schedule, drawn, read, shrunk
from tests.system.pages.world import Course, play


def replay(schedule: Schedule, again: Callable[..., Course]) -> int:
    """Play a schedule, and say what every page showed."""
    course = again(schedule)
    for showed in course.showed:
        print(f"{showed.device}, page {showed.tab}: {showed.state}")
    print(*(f"attempt {each.charter.attempt}: {each.state}" for each in course.attempts), sep="\n")
    broken = broken_in(course, again)
    print(*broken, sep="\n")
    return 1 if broken else 0


def main() -> int:
    """Try, and print each failure."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.system.pages")
    parser.add_argument("--schedules", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the first schedule")
    parser.add_argument("--script", action="store_true", help="the page's own, by node")
    parser.add_argument("--no-locks", action="store_true", help="in a browser without Web Locks")
    parser.add_argument("--replay", metavar="FILE", type=Path, help="play this schedule")
    given = parser.parse_args()
    page = functools.partial(Driven, locks=not given.no_locks)
    again = functools.partial(play, page=page) if given.script else play
    if given.replay is not None:
        return replay(read(given.replay.read_text()), again)
    began, failed = time.perf_counter(), 0
    for seed in range(given.seed, given.seed + given.schedules):
        broken = broken_in(again(drawn(seed)), again)
        if broken:
            failed += 1
            names = {one.invariant for one in broken}

            def fails(candidate: Schedule, names: set[str] = names) -> bool:
                found = broken_in(again(candidate), again)
                return any(one.invariant in names for one in found)

            print(f"{seed}: {broken}\n  {shrunk(drawn(seed), fails)}", flush=True)
    seconds = time.perf_counter() - began
    print(f"{given.schedules} schedules, {failed} failed, {seconds:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
