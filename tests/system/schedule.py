"""What goes wrong in a survey, and when: drawn from a seed, written down, and made smaller."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random
from typing import Literal, TypeAlias

import msgspec

AGGREGATOR = "aggregator"

MOST = 4
"""How many faults a drawn schedule has at most."""

GENTLE = 0.25
"""How many of the drawn schedules soon heal."""

ALONE = 0.5
"""In how many of them one party has all the trouble."""


class Fault(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """One thing that goes wrong."""


class Crash(Fault, frozen=True):
    """A member's program ends at once, and is started again.

    Args:
        member: whose.
        life: which of its lives, from 0.
        moment: at which step of a task, or call about a file, of that life, from 1.
        how: only the program is killed, or its machine loses power: what was not synced may be
            gone, and nobody is told that its connections are.
        away: after how many seconds it is started again.
        torn: draws what is left of what was not synced.
        then: whether an aggregator goes on with its attempt, or declares that it does not.
    """

    member: str
    life: int
    moment: int
    how: Literal["kill", "power"]
    away: float
    torn: int = 0
    then: Literal["resume", "anew"] = "resume"


class Stop(Fault, frozen=True):
    """The aggregator's program is asked to stop by SIGTERM, and is started again once it has.

    Args:
        life: which of its lives, from 0.
        moment: as of a crash.
        away: after how many seconds it is started again.
    """

    life: int
    moment: int
    away: float


class Cut(Fault, frozen=True):
    """A connection breaks.

    Args:
        member: the party.
        connection: which of its connections, from 0.
        side: whose bytes are counted: 0 the party's, 1 the aggregator's.
        byte: at which byte of that direction, from 0.
        how: both ends are told, neither is, that direction alone is lost, or a bit is flipped.
    """

    member: str
    connection: int
    side: Literal[0, 1]
    byte: int
    how: Literal["reset", "silent", "deaf", "flip"]

    def befalls(self, member: str, connection: int) -> bool:
        """Whether it is about this connection."""
        return (self.member, self.connection) == (member, connection)


class Part(Fault, frozen=True):
    """A member is out of reach from a time on, for so many seconds."""

    member: str
    at: float
    seconds: float


class Full(Fault, frozen=True):
    """A member's disk is full: so many calls about files fail, from a moment of a life on."""

    member: str
    life: int
    moment: int
    calls: int


class Slow(Fault, frozen=True):
    """Every sync of the aggregator's record takes so many seconds, from a time on, for some."""

    at: float
    seconds: float
    takes: float


class Jump(Fault, frozen=True):
    """The clock of all jumps ahead at a time: their machines have slept."""

    at: float
    seconds: float


class Late(Fault, frozen=True):
    """A member's program is started so many seconds after the others."""

    member: str
    seconds: float


class Rollback(Fault, frozen=True):
    """An older copy of the aggregator's folder and record takes their place, and all come again.

    Whoever owns the aggregator's program has it stopped at once, and starts it with ``--resume``;
    once more if it says that somebody is missing, and then without the missing. Who owns a party's
    program starts it again, whatever it had said.

    Args:
        copied: at which moment of the aggregator's first life the copy is made.
        moment: at which it takes the place; the life is over then.
        away: after how many seconds the aggregator is started.
        how: the copy is a plain one, or was made by ``backup`` and is put there by ``restore``.
        gone: the parties that never come again.
    """

    copied: int
    moment: int
    away: float
    how: Literal["plain", "restore"]
    gone: tuple[str, ...] = ()


Any: TypeAlias = Crash | Stop | Cut | Part | Full | Slow | Jump | Late | Rollback


class Schedule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run of a whole survey.

    Args:
        seed: decides all that is not in the faults: in which order tasks go on, latencies, secrets.
        faults: what goes wrong.
    """

    seed: int
    faults: tuple[Any, ...] = ()

    @property
    def secured(self) -> bool:
        """Whether links are over TLS: where bits are flipped. Else it would only take time."""
        return any(isinstance(one, Cut) and one.how == "flip" for one in self.faults)

    @property
    def lasts(self) -> float:
        """How many seconds its faults take, at most, if one comes after the other."""
        lasts = 0.0
        for one in self.faults:
            match one:
                case Crash() | Stop() | Rollback():
                    lasts += one.away
                case Part() | Slow() | Jump():
                    lasts += one.at + one.seconds
                case Late():
                    lasts += one.seconds
        return lasts

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()


def read(content: bytes) -> Schedule:
    """A schedule as it is printed."""
    return msgspec.json.decode(content, type=Schedule)


class Profile(msgspec.Struct, frozen=True):
    """How a survey goes without faults, to draw places from.

    Args:
        moments: of each member.
        sent: the bytes of each party's connection, its own and the aggregator's.
        seconds: how long it takes.
    """

    moments: dict[str, int]
    sent: dict[str, tuple[int, int]]
    seconds: float


def drawn(profile: Profile, seed: int) -> Schedule:
    """A schedule for a survey that goes like this: every fourth is one that soon heals."""
    random = Random(seed)
    count = random.randint(1, MOST)
    if random.random() < ALONE:
        # What goes wrong goes wrong for one party, and the aggregator.
        alone = random.choice(sorted(profile.sent))
        profile = msgspec.structs.replace(profile, sent={alone: profile.sent[alone]})
    if random.random() < GENTLE:
        return Schedule(seed, tuple(_gentle(profile, random) for _ in range(count)))
    kinds: tuple[Callable[[Profile, Random], Any], ...] = (
        _crash,
        _crash,
        _crash,
        _stop,
        _cut,
        _cut,
        _part,
        _full,
        _slow,
        _jump,
        _late,
    )
    return Schedule(seed, tuple(random.choice(kinds)(profile, random) for _ in range(count)))


def _gentle(profile: Profile, random: Random) -> Any:
    """A fault that lasts some seconds, and of which everybody is told."""
    party = random.choice(sorted(profile.sent))
    seconds = round(random.uniform(0.0, 2.5), 3)
    match random.randrange(5):
        case 0:
            who = _member(profile, random)
            return Crash(who, 0, _moment(profile, who, random), "kill", seconds)
        case 1:
            side: Literal[0, 1] = 1 if random.random() < 0.5 else 0
            return Cut(party, 0, side, random.randrange(profile.sent[party][side]), "reset")
        case 2:
            at = round(random.uniform(0.0, profile.seconds), 3)
            return Part(_member(profile, random), at, seconds)
        case 3:
            return Stop(0, _moment(profile, AGGREGATOR, random), seconds)
        case _:
            return Late(_member(profile, random), seconds)


def _member(profile: Profile, random: Random) -> str:
    parties = sorted(profile.sent)
    return AGGREGATOR if random.random() < 0.5 else random.choice(parties)


def _moment(profile: Profile, member: str, random: Random) -> int:
    return random.randint(1, math.ceil(1.1 * profile.moments[member]))


def _seconds(random: Random, most: float) -> float:
    """Mostly short ones."""
    return round(most ** random.random(), 3)


def _crash(profile: Profile, random: Random) -> Crash:
    member = _member(profile, random)
    return Crash(
        member,
        int(random.random() < 0.2),
        _moment(profile, member, random),
        random.choice(("kill", "power")),
        _seconds(random, 60.0),
        random.randrange(1000),
        "anew" if random.random() < 0.2 else "resume",
    )


def _stop(profile: Profile, random: Random) -> Stop:
    life = int(random.random() < 0.2)
    return Stop(life, _moment(profile, AGGREGATOR, random), _seconds(random, 60.0))


def _cut(profile: Profile, random: Random) -> Cut:
    member = random.choice(sorted(profile.sent))
    side: Literal[0, 1] = 1 if random.random() < 0.5 else 0
    how = random.choice(("reset", "reset", "silent", "silent", "deaf", "deaf", "flip"))
    byte = random.randrange(profile.sent[member][side])
    return Cut(member, int(random.random() < 0.3), side, byte, how)  # type: ignore[arg-type]


def _part(profile: Profile, random: Random) -> Part:
    at = round(random.uniform(0.0, profile.seconds), 3)
    return Part(_member(profile, random), at, _seconds(random, 200.0))


def _full(profile: Profile, random: Random) -> Full:
    member = _member(profile, random)
    return Full(
        member,
        int(random.random() < 0.2),
        _moment(profile, member, random),
        random.randint(1, 5),
    )


def _slow(profile: Profile, random: Random) -> Slow:
    at = round(random.uniform(0.0, profile.seconds), 3)
    return Slow(at, _seconds(random, 100.0), _seconds(random, 30.0))


def _jump(profile: Profile, random: Random) -> Jump:
    return Jump(round(random.uniform(0.0, profile.seconds), 3), _seconds(random, 3600.0))


def _late(profile: Profile, random: Random) -> Late:
    return Late(_member(profile, random), _seconds(random, 100.0))


def smaller(schedule: Schedule) -> Iterator[Schedule]:
    """Schedules with a fault less, then with one that is less of the same kind."""
    faults = schedule.faults
    for place in range(len(faults)):
        yield Schedule(schedule.seed, faults[:place] + faults[place + 1 :])
    for place, fault in enumerate(faults):
        for less in _lesser(fault):
            yield Schedule(schedule.seed, (*faults[:place], less, *faults[place + 1 :]))


def _lesser(fault: Any) -> Iterator[Any]:
    plain = {"how": {Crash: "kill", Cut: "reset"}.get(type(fault)), "life": 0, "connection": 0}
    for name in fault.__struct_fields__:
        value = getattr(fault, name)
        if name in plain:
            if value != plain[name]:
                yield msgspec.structs.replace(fault, **{name: plain[name]})
        elif isinstance(value, float) and value > 1.0:
            yield msgspec.structs.replace(fault, **{name: float(int(value / 2) or 1)})
        elif isinstance(value, int) and name in ("moment", "calls", "byte") and value > 1:
            yield msgspec.structs.replace(fault, **{name: value // 2})
            yield msgspec.structs.replace(fault, **{name: value - 1})


def shrunk(schedule: Schedule, fails: Callable[[Schedule], bool], *, tries: int = 200) -> Schedule:
    """The smallest schedule that still fails, as far as single steps lead.

    Args:
        fails: whether a schedule fails in the same way.
        tries: how many are run at most.
    """
    best = schedule
    while True:
        for candidate in smaller(best):
            if tries <= 0:
                return best
            tries -= 1
            if fails(candidate):
                best = candidate
                break
        else:
            return best
