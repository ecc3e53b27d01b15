"""``python -m tests.system``: whole surveys while things go wrong, and what does not hold then.

A failure is made small and printed as a schedule: ``--replay FILE`` (or ``-``) plays it again.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.system.invariants import broken_in
from tests.system.planted import PLANTS
from tests.system.schedule import Schedule, drawn, read, shrunk
from tests.system.world import play, profile_of, setup_of, variants

CHUNK = 25
"""How many schedules a job takes at once."""

SHOWN = 5
"""How many failures of a variant are made small and printed."""


def failures_of(name: str, first: int, count: int) -> list[tuple[int, list[str]]]:
    """What does not hold under some schedules, by seed."""
    setup, profile = setup_of(name), profile_of(name)
    found = []
    for seed in range(first, first + count):
        broken = [str(one) for one in broken_in(play(setup, drawn(profile, seed)))]
        if broken:
            found.append((seed, broken))
    return found


def smallest(name: str, seed: int) -> Schedule:
    """The smallest schedule that breaks one of the invariants that the drawn one breaks."""
    setup = setup_of(name)
    schedule = drawn(profile_of(name), seed)
    names = {one.invariant for one in broken_in(play(setup, schedule))}

    def fails(candidate: Schedule) -> bool:
        return any(one.invariant in names for one in broken_in(play(setup, candidate)))

    return shrunk(schedule, fails)


def tried(
    name: str, given: argparse.Namespace, pool: concurrent.futures.Executor
) -> Iterator[tuple[int, list[str]]]:
    """Try a variant's schedules, in jobs."""
    starts = range(given.seed, given.seed + given.schedules, CHUNK)
    ends = given.seed + given.schedules
    jobs = [pool.submit(failures_of, name, start, min(CHUNK, ends - start)) for start in starts]
    for job in jobs:
        yield from job.result()


def replay(name: str, path: str) -> int:
    """Play a schedule, and say what became of everybody."""
    schedule = read(sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes())
    course = play(setup_of(name), schedule)
    print(*course.lives, sep="\n")
    broken = broken_in(course)
    print(*broken, sep="\n")
    return 1 if broken else 0


def main() -> int:
    """Try, and print a line for each variant and each failure."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.system")
    parser.add_argument("--variant", default="all", help="its name, or 'all'")
    parser.add_argument("--schedules", type=int, default=200, help="how many for each variant")
    parser.add_argument("--seed", type=int, default=0, help="of the first schedule")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--replay", metavar="FILE", help="play this schedule of --variant")
    parser.add_argument("--plant", choices=PLANTS, help="with this behaviour of old")
    given = parser.parse_args()
    if given.plant is not None:
        # Jobs are forked, so they have it too.
        PLANTS[given.plant].plant().__enter__()
    if given.replay is not None:
        return replay(given.variant, given.replay)
    names = [*variants()] if given.variant == "all" else [given.variant]
    count = 0
    with concurrent.futures.ProcessPoolExecutor(given.jobs) as pool:
        for name in names:
            began = time.perf_counter()
            failed = [*tried(name, given, pool)]
            count += len(failed)
            seconds = time.perf_counter() - began
            print(f"{name}: {given.schedules} schedules, {len(failed)} failed, {seconds:.0f} s")
            for seed, broken in failed[:SHOWN]:
                print(f"  {seed}: {'; '.join(broken)}\n  {smallest(name, seed)}", flush=True)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
