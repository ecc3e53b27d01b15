"""What goes wrong between pages and their server, and when: drawn from a seed, written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Literal, TypeAlias

import msgspec

PLACES = 6
CLOSES = 90.0
"""After how many seconds an attempt closes."""

MOST = 7
"""How many faults a drawn schedule has at most."""


class Fault(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """One thing that goes wrong."""


class Lost(Fault, frozen=True):
    """A request of a place's devices never arrives, or its reply does not.

    Args:
        place: which, from 0.
        request: of its requests, from 1.
        what: does not arrive.
    """

    place: int
    request: int
    what: Literal["request", "reply"]


class Slow(Fault, frozen=True):
    """A request takes so many seconds more, half of them before it arrives."""

    place: int
    request: int
    seconds: float


class Killed(Fault, frozen=True):
    """A page ends at a change of its storage, and is opened again.

    Args:
        place: which, from 0.
        change: of its devices' storage, from 1.
        stored: whether the change is made.
        away: after how many seconds it is opened again; None if it is not.
    """

    place: int
    change: int
    stored: bool
    away: float | None


class Reloaded(Fault, frozen=True):
    """All pages of a place's first device are opened again at a time."""

    place: int
    at: float


class Twice(Fault, frozen=True):
    """A person opens the link again, in another tab.

    Args:
        place: which, from 0.
        after: how many seconds after the first time.
        together: *Send* is pressed in both at once.
    """

    place: int
    after: float
    together: bool


class Hasty(Fault, frozen=True):
    """A person presses *Send* twice."""

    place: int


class Cleared(Fault, frozen=True):
    """The storage of a place's first device is cleared at a time, its pages perhaps reloaded."""

    place: int
    at: float
    reloaded: bool


class Elsewhere(Fault, frozen=True):
    """A person opens the link on another device at a time."""

    place: int
    at: float


class Down(Fault, frozen=True):
    """The server ends at once, and is started again.

    Args:
        at: in seconds since an attempt began; or with ``sync`` at the first sync after that.
        sync: whether it is before or after a sync.
        power: what was not synced is lost from a drawn byte on, and not only the program.
        torn: draws that byte.
        away: after how many seconds it is started again.
        then: whether it goes on with the attempt, or gives it up and begins the next.
    """

    at: float
    sync: Literal["before", "after"] | None
    power: bool
    torn: int
    away: float
    then: Literal["resume", "anew"]


class Withdrawn(Fault, frozen=True):
    """The organiser withdraws a place at a time."""

    place: int
    at: float


class Lie(Fault, frozen=True):
    """The server lies from a time on.

    Args:
        what: it says of everybody that nothing was answered; or with a quarter of the replies is an
            error, or garbage that looks well; or it drops the end of what it has acknowledged.
    """

    at: float
    what: Literal["unanswered", "errors", "garbage", "forgets"]


Any: TypeAlias = (
    Lost | Slow | Killed | Reloaded | Twice | Hasty | Cleared | Elsewhere | Down | Withdrawn | Lie
)


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A survey from its first question to the last look at a receipt.

    Args:
        seed: decides all that is not in the faults: who comes when, latencies, draws.
        faults: what goes wrong.
    """

    seed: int
    faults: tuple[Any, ...] = ()

    @property
    def honest(self) -> bool:
        """Whether the server does not lie."""
        return not any(isinstance(one, Lie) for one in self.faults)

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()


def read(content: str) -> Schedule:
    """A schedule as it is printed."""
    return msgspec.json.decode(content, type=Schedule)


def drawn(seed: int) -> Schedule:
    """The schedule of a seed; every seventh has a server that lies."""
    random = Random(seed)
    # Mostly it befalls a few: one fault alone is seldom enough.
    places = random.sample(range(PLACES), random.randint(1, 3))
    makers = random.choices(_KINDS, k=random.randint(1, MOST))
    faults = [make(random, random.choice(places)) for make in makers]
    if seed % 7 == 6:
        whats: tuple[Literal["unanswered", "errors", "garbage", "forgets"], ...] = (
            "unanswered",
            "errors",
            "garbage",
            "forgets",
        )
        faults.append(Lie(_time(random), random.choice(whats)))
    return Schedule(seed, tuple(faults))


def _time(random: Random) -> float:
    return round(random.uniform(0.0, 1.1 * CLOSES), 3)


def _seconds(random: Random, most: float) -> float:
    """Mostly short ones."""
    return round(most ** random.random(), 3)


def _lost(random: Random, place: int) -> Any:
    return Lost(place, random.randint(1, 9), random.choice(("request", "reply", "reply")))


def _slow(random: Random, place: int) -> Any:
    return Slow(place, random.randint(1, 9), _seconds(random, 60.0))


def _killed(random: Random, place: int) -> Any:
    away = None if random.random() < 0.2 else _seconds(random, 60.0)
    return Killed(place, random.randint(1, 4), random.random() < 0.5, away)


def _down(random: Random, place: int) -> Any:
    return Down(
        _time(random) if random.random() < 0.5 else _time(random) / 3,
        random.choice((None, "before", "before", "after")),
        random.random() < 0.7,
        random.randrange(10**6),
        _seconds(random, 30.0),
        "anew" if random.random() < 0.3 else "resume",
    )


_KINDS: tuple[Callable[[Random, int], Any], ...] = (
    _lost,
    _lost,
    _slow,
    _killed,
    _killed,
    _down,
    _down,
    lambda random, place: Reloaded(place, _time(random)),
    lambda random, place: Twice(place, _seconds(random, 60.0), False),
    lambda random, place: Twice(place, round(random.random(), 3), random.random() < 0.7),
    lambda random, place: Hasty(place),
    lambda random, place: Cleared(place, _time(random), random.random() < 0.7),
    lambda random, place: Elsewhere(place, _time(random)),
    lambda random, place: Withdrawn(place, _time(random)),
)


def smaller(schedule: Schedule) -> Iterator[Schedule]:
    """Schedules with a fault less."""
    for place in range(len(schedule.faults)):
        yield Schedule(schedule.seed, schedule.faults[:place] + schedule.faults[place + 1 :])


def shrunk(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """The same with as few faults as still make it fail."""
    while True:
        found = next(filter(fails, smaller(schedule)), None)
        if found is None:
            return schedule
        schedule = found
