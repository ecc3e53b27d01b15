"""Search for scripts with findings, guided by new behaviours of the target."""

from __future__ import annotations

import math

import msgspec

from protocol.attack.active.choosing import Choice
from protocol.attack.active.findings import Charged, Charges, Finding, Rule
from protocol.attack.active.moves import smallest
from protocol.attack.active.outcomes import Task, honest_run, play_once, play_scripts
from protocol.attack.active.script import Script
from protocol.attack.active.worlds import Library, Study, make_library
from protocol.crypto.randomness import Stream, secret_of
from protocol.simulation.mapping import Map, chunks

BATCH = 48
"""Number of scripts that are played before the useful ones are followed."""

CHUNK = 12
"""Number of scripts in a task."""

SHRINKS = 300
"""The most scripts that are played to shrink one."""


class Searched(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a search.

    Args:
        tried: number of scripts played.
        behaviours: all behaviours of the target.
        findings: with their scripts, not yet shrunk.
        charged: differences that are rightly charged.
        worth: scripts by their excess over the charge in a pilot, the best first.
    """

    tried: int
    behaviours: frozenset[str]
    findings: tuple[Finding, ...]
    charged: tuple[Charged, ...]
    worth: tuple[tuple[float, Script], ...]


def search(study: Study, *, scripts: int, carried: Map) -> Searched:
    """Try at most so many scripts, and stop at the first findings."""
    library = make_library(study)
    task = _task(study, library)
    stream = Stream(secret_of(study.seed)).derive("active attack, search")
    choice = Choice(study, library, scripts=scripts, stream=stream)
    behaviours: set[str] = set()
    charges = Charges()
    findings: dict[tuple[Rule, tuple[str, ...]], Finding] = {}
    worth: list[tuple[float, Script]] = []
    known: set[str] = set()
    tried = 0
    while tried < scripts and not findings:
        batch = choice.batch(min(BATCH, scripts - tried))
        if not batch:
            break
        tried += len(batch)
        tasks = [
            msgspec.structs.replace(
                task,
                scripts=tuple(batch[part]),
                known=frozenset(known),
                behaviours=frozenset(behaviours),
            )
            for part in chunks(len(batch), CHUNK)
        ]
        outcomes = [one for some in carried(play_scripts, tasks) for one in some]
        for script, outcome in zip(batch, outcomes, strict=True):
            choice.tried(
                script, new=not behaviours.issuperset(outcome.behaviours), excess=outcome.excess
            )
            behaviours.update(outcome.behaviours)
            known.add(outcome.key)
            if math.isfinite(outcome.excess):
                worth.append((outcome.excess, script))
            for charged in outcome.charged:
                charges.add(charged)
            for found in outcome.findings:
                findings.setdefault(found.about, found)
    worth.sort(key=lambda one: -one[0])
    return Searched(
        tried=tried,
        behaviours=frozenset(behaviours),
        findings=tuple(findings.values()),
        charged=charges.all(),
        worth=tuple(worth),
    )


def shrunk(study: Study, library: Library, found: Finding) -> Finding:
    """The same finding with the smallest script that shows it."""
    task = _task(study, library)
    shown = {found.script: found}

    def shows(script: Script) -> bool:
        findings = play_once(task, script).findings
        shown.update((script, one) for one in findings if one.about == found.about)
        return script in shown

    return shown[smallest(found.script, shows, most=SHRINKS)]


def shown_by(study: Study, library: Library, script: Script) -> tuple[Finding, ...]:
    """Findings of one script by all rules but ``charge``."""
    return play_once(_task(study, library), script).findings


def _task(study: Study, library: Library) -> Task:
    return Task(study=study, library=library, honest=honest_run(study, library), scripts=())
