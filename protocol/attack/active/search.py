"""Plays scripts, and finds scripts that show something: by what a party has not done before."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from protocol.attack.active.charging import Ledgers, Worth, pilot
from protocol.attack.active.moves import (
    combined,
    followed,
    sampled,
    single_moves,
    smaller,
)
from protocol.attack.active.script import HONEST, Script
from protocol.attack.active.second_runs import Word, drawn_fields, repeated, words_of
from protocol.attack.active.twins import (
    Conduct,
    Difference,
    compared,
    conduct_of,
    described,
    first_difference,
)
from protocol.attack.active.worlds import (
    Heard,
    Library,
    Neighbour,
    Played,
    Study,
    library_of,
    play,
)
from protocol.crypto.randomness import Stream, secret_of
from protocol.messages import ROLE_STREAM
from protocol.simulation.mapping import Map, chunks

BATCH = 48
"""How many scripts are played before those that led somewhere are looked at."""

CHUNK = 12
"""How many scripts one task plays."""

STREAMS = 3
"""With how many streams of the target each script is played; the first is the session's."""

MORE_STREAMS = 12
"""The same of a script that makes the target do what it has not done before."""

SHARE = 0.5
"""The share of scripts that are single moves; the rest is made of those that led somewhere."""

FOLLOWED = 30
"""How many moves are tried at first after a script that led somewhere."""

STALE = 150
"""After how many scripts that bring nothing new the search ends, once the plan is done."""

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
        key: a digest of what the target heeded, and of what it is charged.
        excess: what a pilot says of the charge; minus infinity if there was none.
    """

    shown: tuple[Shown, ...]
    excused: tuple[Excused, ...]
    behaviours: tuple[str, ...]
    key: str
    excess: float = -math.inf


class Honest(msgspec.Struct, frozen=True):
    """The first run: what the target says if nobody attacks, and what of it is drawn."""

    first: dict[tuple[str, int], Word]
    drawn: frozenset[tuple[tuple[str, int], str]]


def honest_of(study: Study, library: Library) -> Honest:
    """The honest run."""
    first = _honest_words(study, library, None)
    other = Stream(secret_of(study.seed)).derive("active attack, another party")
    return Honest(first, drawn_fields(first, _honest_words(study, library, other)))


def _honest_words(
    study: Study, library: Library, stream: Stream | None
) -> dict[tuple[str, int], Word]:
    played = play(study, HONEST, library, stream=stream)
    machine = study.machine(study.record(None), stream)
    conduct = conduct_of(machine, played.heard)
    return words_of(study.charter, study.grammar, conduct, played.heard, machine.waits)


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Some scripts to play anywhere.

    Args:
        study, library: what is attacked.
        honest: the honest run.
        scripts: what is tried.
        known: keys of outcomes that need no pilot.
        behaviours: those that the target has shown before.
        piloting: whether any does.
    """

    study: Study
    library: Library
    honest: Honest
    scripts: tuple[Script, ...]
    known: frozenset[str] = frozenset()
    behaviours: frozenset[str] = frozenset()
    piloting: bool = True


def outcomes_of(task: Task) -> list[Outcome]:
    """Play every script."""
    known = set(task.known)
    found = []
    for script in task.scripts:
        outcome = _outcome(task, script)
        if (
            task.piloting
            and outcome.key not in known
            and any(0 < one.epsilon < math.inf for one in outcome.excused)
        ):
            known.add(outcome.key)
            worth = _piloted(task, script)
            outcome = msgspec.structs.replace(outcome, excess=worth.excess)
        found.append(outcome)
    return found


def streams_of(study: Study, many: int) -> list[Stream]:
    """The target's streams: the session's, and others."""
    own = study.setting.streams.stream(study.party, ROLE_STREAM)
    drawn = Stream(secret_of(study.seed)).derive("active attack, streams")
    return [own, *(drawn.derive(str(number)) for number in range(1, many))]


def _outcome(task: Task, script: Script) -> Outcome:
    study, honest = task.study, task.honest
    played = play(study, script, task.library)
    shown: dict[tuple[str, str], Shown] = {}
    excused: dict[tuple[str, str], Excused] = {}
    behaviours: dict[str, None] = {}
    key = ""
    own: Conduct | None = None
    for number, stream in enumerate(streams_of(study, MORE_STREAMS)):
        if number == 1 and own and not _goes_on(study, played.heard, stream, own):
            break  # What was heard was for the session's stream.
        if number >= STREAMS and behaviours.keys() <= task.behaviours:
            break
        machine = study.machine(study.record(None), stream)
        conduct = conduct_of(machine, played.heard)
        behaviours[_digest(conduct.behaviour)] = None
        if number == 0:
            own = conduct
            words = words_of(study.charter, study.grammar, conduct, played.heard, machine.waits)
            ledgers = Ledgers(study, played.heard)
            charges = [ledgers.charged(conduct, name) for name in study.records.survey.names]
            key = _digest(([word.after for word in words.values()], charges))
            for kind, field in repeated(honest.first, words, honest.drawn):
                what = (
                    f"{kind}.{field} is the same in a second run, where it follows from other words"
                )
                shown.setdefault(("fresh", ""), Shown("fresh", "", what))
        for neighbour in study.neighbours:
            twin = conduct_of(study.machine(study.record(neighbour), stream), played.heard)
            behaviours[_digest(twin.behaviour)] = None
            found = compared(conduct, twin, attribute=neighbour.attribute)
            different, words_ = found.difference, neighbour.words
            if found.hidden and (different is not None or not _is_done(conduct)):
                different = None
                if number == 0:
                    different = _exchanged(task, script, played, conduct, neighbour)
                words_ = f"{words_}, exchanged with another respondent"
            if different is not None:
                shown.setdefault(
                    ("outward", neighbour.attribute),
                    Shown("outward", neighbour.attribute, f"{words_}: {different.what}"),
                )
            for excuse in found.excuses:
                why = described(excuse.event)
                before = excused.get((excuse.kind, why))
                epsilon = max(excuse.epsilon, before.epsilon if before else 0.0)
                excused[excuse.kind, why] = Excused(excuse.kind, why, epsilon)
    return Outcome(tuple(shown.values()), tuple(excused.values()), tuple(behaviours), key)


def _goes_on(study: Study, heard: Sequence[Heard], stream: Stream, own: Conduct) -> bool:
    """Whether the target says as much with another stream."""
    conduct = conduct_of(study.machine(study.record(None), stream), heard)
    return len(conduct.said) >= len(own.said)


def _exchanged(
    task: Task, script: Script, played: Played, own: Conduct, neighbour: Neighbour
) -> Difference | None:
    """What the target does otherwise if it has exchanged its record with another party.

    All sums are as they were, so nothing follows from these. What is compared are whole sessions,
    as long as the target hears the same in both, or what sums to the same.
    """
    study, beside = task.study, task.study.exchanged(neighbour)
    if beside is None:
        return None
    # What is said of another world follows from what is said there.
    other = play(beside, script, _library(beside, script))
    twin_conduct = conduct_of(beside.machine(beside.record(None)), other.heard)
    said = _arrays(study, own), _arrays(study, twin_conduct)
    alike = 0
    for one, twin in zip(played.heard, other.heard, strict=False):
        if not _alike(study, one, twin, said):
            break
        alike += 1
    return first_difference(own, twin_conduct, acts=alike)


def _library(study: Study, script: Script) -> Library:
    """What a script takes from worlds."""
    if not script.takes:
        return Library((), {})
    worlds = script.worlds
    if worlds not in study.libraries:
        study.libraries[worlds] = library_of(study, worlds)
    return study.libraries[worlds]


def _is_done(conduct: Conduct) -> bool:
    return bool(conduct.acts) and conduct.acts[-1].ended != "failed"


def _arrays(study: Study, conduct: Conduct) -> frozenset[bytes]:
    """What a party has said, field by field."""
    fields = (study.grammar.octets(said.kind, said.body).values() for said in conduct.said)
    return frozenset(octets for values in fields for octets in values)


def _alike(
    study: Study,
    one: Heard,
    other: Heard,
    said: tuple[frozenset[bytes], frozenset[bytes]],
) -> bool:
    first, second = one.envelope, other.envelope
    if first is None or second is None:
        return one == other
    return (one.what, one.now, first.sender, first.kind) == (
        other.what,
        other.now,
        second.sender,
        second.kind,
    ) and study.grammar.same_words(first.kind, first.body, second.body, said)


def _piloted(task: Task, script: Script) -> Worth:
    return pilot(task.study, play(task.study, script, task.library).heard)


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
        worth: scripts by what a pilot says of their charge, the best first.
    """

    tried: int
    behaviours: frozenset[str]
    found: tuple[Found, ...]
    excused: tuple[Excused, ...]
    worth: tuple[tuple[float, Script], ...]


def search(study: Study, *, scripts: int, carried: Map) -> Searched:
    """Try so many scripts, and stop after those that show something."""
    library = library_of(study)
    honest = honest_of(study, library)
    drawn = Stream(secret_of(study.seed)).derive("active attack, search")
    singles = single_moves(study, library)
    plan = [HONEST, *sampled(study, library, most=math.ceil(SHARE * scripts), stream=drawn)]
    corpus: list[tuple[float, Script]] = []
    behaviours: dict[str, None] = {}
    excused: dict[tuple[str, str], Excused] = {}
    found: dict[tuple[str, str], Found] = {}
    worth: list[tuple[float, Script]] = []
    known: set[str] = set()
    played: set[Script] = set()
    following: list[list[Script]] = []
    tried = stale = 0
    while tried < scripts and not found:
        batch: list[Script] = []
        turn = 0
        while len(batch) < min(BATCH, scripts - tried) and turn < 20 * BATCH:
            turn += 1
            if plan:
                script = plan.pop(0)
            elif following:
                # One after each of those that led somewhere, in turn.
                scripts_after = following.pop(0)
                script = scripts_after.pop(0)
                if scripts_after:
                    following.append(scripts_after)
            elif stale >= STALE:
                break
            else:
                best = [one for _, one in sorted(corpus, key=lambda pair: -pair[0])]
                script = combined(best, singles, drawn.derive(f"turn {tried} {turn}"))
            if script not in played:
                played.add(script)
                batch.append(script)
        if not batch:
            break
        for script, outcome in zip(
            batch,
            _played(study, library, honest, batch, known, behaviours, carried),
            strict=True,
        ):
            tried += 1
            new = [one for one in outcome.behaviours if one not in behaviours]
            behaviours.update(dict.fromkeys(new))
            known.add(outcome.key)
            if math.isfinite(outcome.excess):
                worth.append((outcome.excess, script))
            stale = 0 if new else stale + 1
            if new or outcome.excess > 0:
                corpus.append((max(outcome.excess, 0.0), script))
                turns = drawn.derive(f"after {tried}")
                after = followed(script, study, library, stream=turns)
                order = turns.permutation(len(after)).tolist()
                if after:
                    following.append([after[place] for place in order[:FOLLOWED]])
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
    study: Study,
    library: Library,
    honest: Honest,
    batch: Sequence[Script],
    known: set[str],
    behaviours: Iterable[str],
    carried: Map,
) -> list[Outcome]:
    tasks = [
        Task(
            study=study,
            library=library,
            honest=honest,
            scripts=tuple(batch[part]),
            known=frozenset(known),
            behaviours=frozenset(behaviours),
        )
        for part in chunks(len(batch), CHUNK)
    ]
    return [outcome for outcomes in carried(outcomes_of, tasks) for outcome in outcomes]


def shrunk(study: Study, library: Library, found: Found) -> Found:
    """The smallest script, as far as single steps lead, that shows the same."""
    task = Task(study=study, library=library, honest=honest_of(study, library), scripts=())
    best, left = found, SHRINKS
    while left > 0:
        for script in smaller(best.script):
            left -= 1
            shown = _same(_outcome(task, script).shown, found.shown)
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
    task = Task(study=study, library=library, honest=honest_of(study, library), scripts=())
    return _outcome(task, script).shown
