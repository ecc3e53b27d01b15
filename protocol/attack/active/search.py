"""Plays scripts, and finds scripts that show something: by what a party has not done before."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from protocol.attack.active.charging import Worth, pilot
from protocol.attack.active.moves import combined, sampled, single_moves, smaller
from protocol.attack.active.script import HONEST, Script
from protocol.attack.active.second_runs import Word as SecondWord
from protocol.attack.active.second_runs import drawn_fields, repeated, words_of
from protocol.attack.active.twins import compared, conduct_of, described
from protocol.attack.active.worlds import Library, Study, library_of, play
from protocol.crypto.randomness import Stream, secret_of
from protocol.messages import ROLE_STREAM
from protocol.simulation.mapping import Map, chunks

BATCH = 48
"""How many scripts are played before those that led somewhere are looked at."""

CHUNK = 6
"""How many scripts one task plays."""

STREAMS = 3
"""With how many streams of the target each script is played; the first is the session's."""

SHARE = 0.7
"""The share of scripts that are single moves; the rest is made of those that led somewhere."""

SHRINKS = 300
"""The most scripts that are played to make one smaller."""

Rule: TypeAlias = Literal["outward", "charge", "fresh"]


class Shown(msgspec.Struct, frozen=True):
    """Something that a script has shown, as yet without it.

    Args:
        rule: which rule is broken.
        attribute: in which the records differ; empty if none do.
        what: in one line.
    """

    rule: Rule
    attribute: str
    what: str


class Excused(msgspec.Struct, frozen=True):
    """A difference that was charged."""

    kind: str
    why: str
    epsilon: float


class Outcome(msgspec.Struct, frozen=True):
    """What has come of a script.

    Args:
        shown: what it has shown.
        excused: what differed and was charged.
        behaviours: digests of what the target did.
        key: a digest of what the target heard and heeded of it.
        excess: what a pilot says of the charge; minus infinity if there was none.
        neighbour: the record that this is about.
    """

    shown: tuple[Shown, ...]
    excused: tuple[Excused, ...]
    behaviours: tuple[str, ...]
    key: str
    excess: float = -math.inf
    neighbour: int = 0


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Some scripts to play anywhere.

    Args:
        study, library: what is attacked.
        scripts: what is tried.
        known: keys of outcomes that need no pilot.
        piloting: whether any does.
    """

    study: Study
    library: Library
    scripts: tuple[Script, ...]
    known: frozenset[str] = frozenset()
    piloting: bool = True


def outcomes_of(task: Task) -> list[Outcome]:
    """Play every script."""
    honest = _Honest(task.study, task.library)
    known = set(task.known)
    found = []
    for script in task.scripts:
        outcome = _outcome(honest, script)
        if (
            task.piloting
            and outcome.key not in known
            and any(0 < one.epsilon < math.inf for one in outcome.excused)
        ):
            known.add(outcome.key)
            worth = _piloted(honest, script)
            outcome = msgspec.structs.replace(
                outcome, excess=worth.excess, neighbour=worth.neighbour
            )
        found.append(outcome)
    return found


class _Honest:
    """The first run: what the target says if nobody attacks, and what of it is drawn."""

    def __init__(self, study: Study, library: Library) -> None:
        self.study = study
        self.library = library
        self.first = self._words(None)
        other = Stream(secret_of(study.seed)).derive("active attack, another party")
        self.drawn = drawn_fields(self.first, self._words(other))

    def _words(self, stream: Stream | None) -> dict[tuple[str, int], SecondWord]:
        study = self.study
        played = play(study, HONEST, self.library, stream=stream)
        machine = study.machine(study.record(None), stream)
        conduct = conduct_of(machine, played.heard)
        return words_of(study.charter, study.grammar, conduct, played.heard, machine.waits)


def streams_of(study: Study, many: int) -> list[Stream]:
    """The target's streams: the session's, and others."""
    own = study.setting.streams.stream(study.party, ROLE_STREAM)
    drawn = Stream(secret_of(study.seed)).derive("active attack, streams")
    return [own, *(drawn.derive(str(number)) for number in range(1, many))]


def _outcome(honest: _Honest, script: Script) -> Outcome:
    study = honest.study
    played = play(study, script, honest.library)
    shown: dict[tuple[str, str, str], Shown] = {}
    excused: dict[tuple[str, str], Excused] = {}
    behaviours: dict[str, None] = {}
    key = ""
    for number, stream in enumerate(streams_of(study, STREAMS)):
        machine = study.machine(study.record(None), stream)
        conduct = conduct_of(machine, played.heard)
        behaviours[_digest(conduct.behaviour)] = None
        if number == 0:
            words = words_of(study.charter, study.grammar, conduct, played.heard, machine.waits)
            key = _digest([word.after for word in words.values()])
            for kind, field in repeated(honest.first, words, honest.drawn):
                what = f"{kind}.{field} is the same in a second run in which {kind} follows from "
                one = Shown("fresh", "", what + "something else")
                shown.setdefault((one.rule, "", one.what), one)
        for neighbour in study.neighbours:
            twin = conduct_of(study.machine(study.record(neighbour), stream), played.heard)
            behaviours[_digest(twin.behaviour)] = None
            found = compared(conduct, twin, attribute=neighbour.attribute)
            if found.difference is not None:
                what = f"{neighbour.words}: {found.difference.what}"
                shown.setdefault(
                    ("outward", neighbour.attribute, ""),
                    Shown("outward", neighbour.attribute, what),
                )
            for excuse in found.excuses:
                why = described(excuse.event)
                before = excused.get((excuse.kind, why))
                epsilon = max(excuse.epsilon, before.epsilon if before else 0.0)
                excused[excuse.kind, why] = Excused(excuse.kind, why, epsilon)
    return Outcome(tuple(shown.values()), tuple(excused.values()), tuple(behaviours), key)


def _piloted(honest: _Honest, script: Script) -> Worth:
    return pilot(honest.study, play(honest.study, script, honest.library).heard)


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


class Found(msgspec.Struct, frozen=True):
    """A script, and what it has shown."""

    script: Script
    shown: Shown


class Searched(msgspec.Struct, frozen=True, kw_only=True):
    """What a search has come to.

    Args:
        tried: how many scripts were played.
        behaviours: what the target did, all told.
        found: what was shown, with the scripts; not yet shrunk.
        excused: what differed and was charged.
        worth: scripts by what a pilot says of their charge, the best first, with the neighbour.
    """

    tried: int
    behaviours: frozenset[str]
    found: tuple[Found, ...]
    excused: tuple[Excused, ...]
    worth: tuple[tuple[float, Script, int], ...]


def search(study: Study, *, scripts: int, carried: Map) -> Searched:
    """Try so many scripts, and stop after those that show something."""
    library = library_of(study)
    drawn = Stream(secret_of(study.seed)).derive("active attack, search")
    singles = single_moves(study, library)
    plan = [HONEST, *sampled(study, library, most=math.ceil(SHARE * scripts), stream=drawn)]
    corpus: list[tuple[float, Script]] = []
    behaviours: dict[str, None] = {}
    excused: dict[tuple[str, str], Excused] = {}
    found: dict[tuple[str, str], Found] = {}
    worth: list[tuple[float, Script, int]] = []
    known: set[str] = set()
    played: set[Script] = set()
    tried = 0
    while tried < scripts and not found:
        batch: list[Script] = []
        turn = 0
        while len(batch) < min(BATCH, scripts - tried) and turn < 20 * BATCH:
            turn += 1
            if plan:
                script = plan.pop(0)
            else:
                best = [one for _, one in sorted(corpus, key=lambda pair: -pair[0])]
                script = combined(best, singles, drawn.derive(f"turn {tried} {turn}"))
            if script not in played:
                played.add(script)
                batch.append(script)
        if not batch:
            break
        for script, outcome in zip(
            batch, _played(study, library, batch, known, carried), strict=True
        ):
            tried += 1
            new = [one for one in outcome.behaviours if one not in behaviours]
            behaviours.update(dict.fromkeys(new))
            known.add(outcome.key)
            if math.isfinite(outcome.excess):
                worth.append((outcome.excess, script, outcome.neighbour))
            if new or outcome.excess > 0:
                corpus.append((max(outcome.excess, 0.0), script))
            for one in outcome.excused:
                before = excused.get((one.kind, one.why))
                if before is None or one.epsilon > before.epsilon:
                    excused[one.kind, one.why] = one
            for shown in outcome.shown:
                found.setdefault((shown.rule, shown.attribute), Found(script, shown))
    worth.sort(key=lambda one: -one[0])
    return Searched(
        tried=tried,
        behaviours=frozenset(behaviours),
        found=tuple(found.values()),
        excused=tuple(excused.values()),
        worth=tuple(worth),
    )


def _played(
    study: Study, library: Library, batch: Sequence[Script], known: set[str], carried: Map
) -> list[Outcome]:
    tasks = [
        Task(study=study, library=library, scripts=tuple(batch[part]), known=frozenset(known))
        for part in chunks(len(batch), CHUNK)
    ]
    return [outcome for outcomes in carried(outcomes_of, tasks) for outcome in outcomes]


def shrunk(study: Study, library: Library, found: Found) -> Found:
    """The smallest script, as far as single steps lead, that shows the same."""
    honest = _Honest(study, library)
    best, left = found, SHRINKS
    while left > 0:
        for script in smaller(best.script):
            left -= 1
            shown = _same(_outcome(honest, script).shown, found.shown)
            if shown is not None:
                best = Found(script, shown)
                break
            if left <= 0:
                break
        else:
            return best
    return best


def _same(shown: Sequence[Shown], wanted: Shown) -> Shown | None:
    for one in shown:
        if (one.rule, one.attribute) == (wanted.rule, wanted.attribute):
            return one
    return None


def shown_by(study: Study, library: Library, script: Script) -> tuple[Shown, ...]:
    """What one script shows, but for the charge."""
    return _outcome(_Honest(study, library), script).shown
