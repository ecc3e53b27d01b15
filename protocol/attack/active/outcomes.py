"""Outcome of a script: the target and its twins receive it, and are compared."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence

import msgspec

from protocol.attack.active.charging import Ledgers, pilot
from protocol.attack.active.findings import Charged, Charges, Finding, Rule
from protocol.attack.active.script import HONEST, Script
from protocol.attack.active.second_runs import Slot, Word, drawn_fields, repeated, words_sent
from protocol.attack.active.target import Heard
from protocol.attack.active.twins import (
    Conduct,
    Difference,
    compared,
    described,
    first_difference,
    play_conduct,
)
from protocol.attack.active.worlds import (
    Library,
    Neighbour,
    Played,
    Study,
    make_library,
    play,
)
from protocol.crypto.randomness import Stream, secret_of

STREAMS = 3
"""Number of streams of the target for each script; the first is the session's."""

MORE_STREAMS = 12
"""The same for a script with a new behaviour of the target."""


class Outcome(msgspec.Struct, frozen=True):
    """Outcome of a script.

    Args:
        findings: by all rules but ``charge``.
        charged: differences that are rightly charged.
        behaviours: digests of the target's behaviours.
        key: a digest of the messages that the target used, and of its charges.
        excess: over the charge, by a pilot; minus infinity without a pilot.
    """

    findings: tuple[Finding, ...]
    charged: tuple[Charged, ...]
    behaviours: tuple[str, ...]
    key: str
    excess: float = -math.inf


class Honest(msgspec.Struct, frozen=True):
    """The honest run: the target's messages, and the fields in them that are drawn."""

    first: dict[Slot, Word]
    drawn: frozenset[tuple[Slot, str]]


def honest_run(study: Study, library: Library) -> Honest:
    """The honest run."""
    first = _honest_words(study, library, None)
    other = Stream(secret_of(study.seed)).derive("active attack, another party")
    return Honest(first, drawn_fields(first, _honest_words(study, library, other)))


def _honest_words(study: Study, library: Library, stream: Stream | None) -> dict[Slot, Word]:
    played = play(study, HONEST, library, stream=stream)
    machine = study.machine(study.record(None), stream)
    conduct = play_conduct(machine, played.heard)
    return words_sent(study, conduct, played.heard, machine.waits)


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Some scripts to play, here or by workers.

    Args:
        study, library: of the attack.
        honest: the honest run.
        scripts: the scripts to play.
        known: keys of outcomes that need no pilot.
        behaviours: the behaviours that the target has shown before.
    """

    study: Study
    library: Library
    honest: Honest
    scripts: tuple[Script, ...]
    known: frozenset[str] = frozenset()
    behaviours: frozenset[str] = frozenset()


def play_scripts(task: Task) -> list[Outcome]:
    """Play every script."""
    known = set(task.known)
    found = []
    for script in task.scripts:
        outcome = play_once(task, script)
        charged = any(one.epsilon < math.inf for one in outcome.charged)
        if charged and outcome.key not in known:
            known.add(outcome.key)
            heard = play(task.study, script, task.library).heard
            outcome = msgspec.structs.replace(outcome, excess=pilot(task.study, heard).excess)
        found.append(outcome)
    return found


def target_streams(study: Study, many: int) -> list[Stream]:
    """The target's streams: the session's, and others."""
    drawn = Stream(secret_of(study.seed)).derive("active attack, streams")
    return [
        study.own_stream,
        *(study.redrawn(drawn.derive(str(number))) for number in range(1, many)),
    ]


def play_once(task: Task, script: Script) -> Outcome:
    """Play one script, without a pilot of the charge."""
    study = task.study
    played = play(study, script, task.library)
    ledgers = Ledgers(study, played.heard)
    findings: dict[tuple[Rule, tuple[str, ...]], Finding] = {}
    charges = Charges()
    behaviours: dict[str, None] = {}
    key = ""
    own: Conduct | None = None
    for number, stream in enumerate(target_streams(study, MORE_STREAMS)):
        if number == 1 and own and not _goes_on(study, played.heard, stream, own):
            break  # The script depends on the session's stream.
        if number >= STREAMS and behaviours.keys() <= task.behaviours:
            break
        machine = study.machine(study.record(None), stream)
        conduct = play_conduct(machine, played.heard)
        behaviours[_digest(conduct.behaviour)] = None
        if number == 0:
            own = conduct
            words = words_sent(study, conduct, played.heard, machine.waits)
            losses = [ledgers.charged(conduct, name) for name in study.records.survey.names]
            key = _digest(([word.after for word in words.values()], losses))
            for found in _repeated(task, script, words):
                findings.setdefault(found.about, found)
        for neighbour in study.neighbours:
            twin = play_conduct(study.machine(study.record(neighbour), stream), played.heard)
            behaviours[_digest(twin.behaviour)] = None
            charged = ledgers.charged(conduct, neighbour.attribute)
            both = compared(conduct, twin, attribute=neighbour.attribute, charged=charged)
            difference, what = both.difference, neighbour.words
            if both.hidden and (difference is not None or not _is_done(conduct)):
                difference = None
                if number == 0:
                    difference = _exchanged(task, script, played, conduct, neighbour)
                what = f"{what}, exchanged with another respondent"
            if difference is not None:
                found = _outward(script, neighbour, f"{what}: {difference.what}")
                findings.setdefault(found.about, found)
            for excuse in both.excuses:
                why = described(excuse.event)
                charges.add(Charged(kind=excuse.kind, why=why, epsilon=excuse.epsilon))
    return Outcome(tuple(findings.values()), charges.all(), tuple(behaviours), key)


def _outward(script: Script, neighbour: Neighbour, what: str) -> Finding:
    return Finding(rule="outward", attributes=(neighbour.attribute,), what=what, script=script)


def _repeated(task: Task, script: Script, words: dict[Slot, Word]) -> Iterator[Finding]:
    """Findings of masking values that equal those of the honest run."""
    for kind, field in repeated(task.honest.first, words, task.honest.drawn):
        what = f"{kind}.{field} is the same in a second run, where it follows from other words"
        yield Finding(rule="fresh", attributes=(), what=what, script=script)


def _goes_on(study: Study, heard: Sequence[Heard], stream: Stream, own: Conduct) -> bool:
    """True if the target sends as much with another stream."""
    conduct = play_conduct(study.machine(study.record(None), stream), heard)
    return len(conduct.said) >= len(own.said)


def _exchanged(
    task: Task, script: Script, played: Played, own: Conduct, neighbour: Neighbour
) -> Difference | None:
    """Difference in the target's conduct if it has exchanged its record with another party.

    All sums are the same, so the target's messages may follow from them alone. Whole sessions are
    compared while the target receives equal messages in both, or messages of equal sums.
    """
    study, beside = task.study, task.study.exchanged(neighbour)
    if beside is None:
        return None
    # Messages that are taken from other worlds follow from the exchanged records too.
    other = play(beside, script, _library(beside, script))
    twin_conduct = play_conduct(beside.machine(beside.record(None)), other.heard)
    said = _arrays(study, own), _arrays(study, twin_conduct)
    alike = 0
    for one, twin in zip(played.heard, other.heard, strict=False):
        if not _alike(study, one, twin, said):
            break
        alike += 1
    return first_difference(own, twin_conduct, acts=alike)


def _library(study: Study, script: Script) -> Library:
    """Messages that a script takes from other worlds."""
    if not script.takes:
        return Library((), {})
    worlds = script.worlds
    if worlds not in study.libraries:
        study.libraries[worlds] = make_library(study, worlds)
    return study.libraries[worlds]


def _is_done(conduct: Conduct) -> bool:
    return bool(conduct.acts) and conduct.acts[-1].ended != "failed"


def _arrays(study: Study, conduct: Conduct) -> frozenset[bytes]:
    octets = study.grammar.octets
    fields = (octets(said.kind, study.content(said)).values() for said in conduct.said)
    return frozenset(value for values in fields for value in values)


def _alike(
    study: Study,
    one: Heard,
    other: Heard,
    said: tuple[frozenset[bytes], frozenset[bytes]],
) -> bool:
    first, second = one.envelope, other.envelope
    if first is None or second is None:
        return one == other
    if (one.what, one.now) != (other.what, other.now):
        return False
    if (first.sender, first.kind) != (second.sender, second.kind):
        return False
    bodies = study.content(first), study.content(second)
    return study.grammar.same_words(first.kind, *bodies, said)


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]
