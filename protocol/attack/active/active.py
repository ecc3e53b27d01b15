"""The active attack: a party reveals only what is charged, whatever hostile members send.

Scripts of the aggregator and of services are played in whole sessions. Three rules are checked, for
the common view and the ledger of these members:

- *outward*: the target's conduct depends on what it receives, and on its record only in bytes that
  are charged.
- *charge*: the ledger's charge covers all that the target's conduct reveals.
- *fresh*: masking values are drawn anew when the target is started again and receives something
  else.

No variant needs code of its own for it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import msgspec

from protocol.attack.active.charging import (
    MORE_PILOTS,
    TRIALS,
    Worth,
    pilot,
    tried,
)
from protocol.attack.active.findings import Charged, Finding
from protocol.attack.active.moves import smallest
from protocol.attack.active.script import Script
from protocol.attack.active.search import search, shown_by, shrunk
from protocol.attack.active.worlds import Library, Study, make_library, play
from protocol.attack.attack import ALPHA
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.variant import Variant
from protocol.simulation.mapping import Map, one_by_one
from protocol.simulation.setting import service_names
from protocol.surveys.records import Records

SCRIPTS = 400
"""Default number of scripts."""

PILOTED = 4
"""Number of scripts with a second pilot of the charge: the best by the first pilot."""

PROBES = 2
"""Number of these scripts with full trials."""

PROMISING = 0.0
"""The least excess over the charge in the first pilot."""

SEEMING = 0.1
"""The least excess over the charge in the second pilot, for full trials."""

SHRINKS = 24
"""The most scripts that are played to shrink one that reveals more than is charged."""


class ActiveAttack(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an active attack.

    Args:
        variant: the variant's name.
        target: the party under attack.
        hostile: the members that kept to scripts.
        tried: number of scripts played.
        covered: number of different behaviours of the target.
        findings: violations of the rules.
        charged: differences that are rightly charged.
    """

    variant: str
    target: PartyId
    hostile: tuple[PartyId, ...]
    tried: int
    covered: int
    findings: tuple[Finding, ...]
    charged: tuple[Charged, ...]

    @property
    def accused(self) -> bool:
        """True if the party reveals something that is not charged."""
        return bool(self.findings)


def attack_actively(
    variant: Variant,
    records: Records,
    *,
    target: int = 0,
    hostile: Collection[PartyId] | None = None,
    scripts: int = SCRIPTS,
    seed: int = 1,
    trials: int | None = None,
    carried: Map = one_by_one,
    alpha: float = ALPHA,
) -> ActiveAttack:
    """Attack a party with a hostile aggregator, hostile services, or some of them together.

    Args:
        variant: the variant with its parameters.
        records: a respondent per party; as few as the variant runs with.
        target: place of the party under attack.
        hostile: members without records that keep to a script; by default all of them.
        scripts: the most scripts. The search stops at the first findings.
        seed: decides everything.
        trials: number of trials of a script for the rule ``charge``; by default ``TRIALS``.
        carried: carries out the sessions, here or by workers; the result is the same.
        alpha: the probability of a false accusation by the rule ``charge``; the other rules have
            none.

    Raises:
        ValueError: numbers out of range.
        ProtocolError: the variant does not run.
    """
    if scripts < 1 or (trials is not None and trials < 2):
        raise ValueError("expected at least 1 script and 2 trials")
    study = _study(variant, records, target, hostile, seed)
    searched = search(study, scripts=scripts, carried=carried)
    library = make_library(study)
    findings = [shrunk(study, library, found) for found in searched.findings]
    if not findings:
        findings += _undercharged(study, library, searched.worth, trials=trials, alpha=alpha)
    return ActiveAttack(
        variant=variant.name,
        target=study.party,
        hostile=study.hostile,
        tried=searched.tried,
        covered=len(searched.behaviours),
        findings=tuple(findings),
        charged=searched.charged,
    )


def replay_script(
    variant: Variant,
    records: Records,
    script: Script,
    *,
    target: int = 0,
    hostile: Collection[PartyId] | None = None,
    seed: int = 1,
    trials: int | None = None,
    alpha: float = ALPHA,
) -> tuple[Finding, ...]:
    """Findings of one script, played as by ``attack_actively`` and with its arguments."""
    study = _study(variant, records, target, hostile, seed)
    library = make_library(study)
    shown = shown_by(study, library, script)
    if shown:
        return shown
    worth = [(math.inf, script)]
    return tuple(_undercharged(study, library, worth, trials=trials, alpha=alpha, shrinking=False))


def _study(
    variant: Variant,
    records: Records,
    target: int,
    hostile: Collection[PartyId] | None,
    seed: int,
) -> Study:
    if not 0 <= target < len(records):
        raise ValueError(f"target {target}: expected 0 to {len(records) - 1}")
    serving = (AGGREGATOR, *service_names(variant.roles))
    if hostile is not None and not (hostile and set(hostile) <= set(serving)):
        raise ValueError(f"hostile {[*hostile]}: expected some of {', '.join(serving)}")
    chosen = tuple(name for name in serving if hostile is None or name in hostile)
    study = Study(variant=variant, records=records, target=target, seed=seed, hostile=chosen)
    honest = play(study, Script(), Library((), {}))
    if honest.failure is not None:
        raise honest.failure
    return study


def _undercharged(
    study: Study,
    library: Library,
    worth: Sequence[tuple[float, Script]],
    *,
    trials: int | None,
    alpha: float,
    shrinking: bool = True,
) -> list[Finding]:
    """A script that makes the target reveal more than is charged; empty if none is found."""
    promising = [script for excess, script in worth if excess > PROMISING][:PILOTED]
    piloted = [(script, _worth(study, library, script)) for script in promising]
    piloted.sort(key=lambda one: -one[1].excess)
    for number, (script, rough) in enumerate(piloted[:PROBES]):
        if rough.excess <= SEEMING:
            break
        if shrinking:
            script = _shrunk(study, library, script, rough)
        neighbour = study.neighbours[rough.neighbour]
        probe = tried(
            study,
            play(study, script, library).heard,
            neighbour,
            purpose=str(number),
            level=alpha / (2 * PROBES),
            trials=trials or TRIALS,
        )
        if probe.accused:
            what = (
                f"{neighbour.words}: what it does tells at least epsilon {probe.lower:.3f}, and "
                f"the ledger charges {probe.bound:.3f}: {probe.right} of {probe.guesses} guesses "
                f"were right that went by {probe.event}"
            )
            return [
                Finding(
                    rule="charge",
                    attributes=(neighbour.attribute,),
                    what=what,
                    script=script,
                    probe=probe,
                )
            ]
    return []


def _worth(study: Study, library: Library, script: Script, only: int | None = None) -> Worth:
    return pilot(study, play(study, script, library).heard, MORE_PILOTS, only=only)


def _shrunk(study: Study, library: Library, script: Script, rough: Worth) -> Script:
    """A smaller script that seems to reveal at least half as much beyond the charge."""

    def suffices(one: Script) -> bool:
        return _worth(study, library, one, rough.neighbour).excess > rough.excess / 2

    return smallest(script, suffices, most=SHRINKS)
