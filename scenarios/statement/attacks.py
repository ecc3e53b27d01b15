"""Statements of attacks: passive ones on variants and clients, and active ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict

from protocol.accounting.spending import assumed
from protocol.attack.active.active import ActiveAttack
from protocol.attack.active.findings import Finding
from protocol.attack.active.script import Script
from protocol.attack.attack import Attack
from protocol.attack.client import ClientAttack
from protocol.attack.probes import Probe, Tried
from scenarios.statement.statement import Grid, Section, Statement, Verdict
from scenarios.wording.formatting import count, epsilon, rest

_LEGEND = (
    "Figures are epsilons, in nats. Told at least: what the right guesses prove. Could be shown: "
    "what they would prove if every guess were right; where that is below the ledger's figure, "
    "there are too few trials."
)
_NOT_ALL = "this does not show that nothing leaks"


def state_attack(name: str, found: Attack | ClientAttack, *, seconds: float) -> Statement:
    """Statement of an attack: verdict, subject, and figures of every pair of inputs.

    Args:
        name: name of the attacked code, if it is not a variant.
    """
    chance = f"probability of a false accusation at most {found.alpha:g}"
    chance += f"; delta {found.delta:g}" if found.delta else ""
    took = f"{seconds:.1f} s"
    apart: tuple[Section, ...] = ()
    if isinstance(found, ClientAttack):
        probe = found.probe
        section = Section(
            key="attack",
            title="The attack",
            lead=f"{name}; {chance}",
            notes=(
                f"event: {probe.event or 'nothing differs'}",
                f"right guesses: {probe.right:,} of {probe.guesses:,}, on {probe.trials:,} reports",
                f"seen for the one input with probability {probe.first.low:.4f} to "
                f"{probe.first.high:.4f}, for the other {probe.second.low:.4f} to "
                f"{probe.second.high:.4f}",
                took,
            ),
        )
    else:
        rows = f"every row of {', '.join(found.rows)} is one respondent's" if found.rows else ""
        section = Section(
            key="attack",
            title="The attack",
            lead=f"{found.variant}, seen by {found.observer}; {found.target}'s record differs; "
            f"{chance}",
            notes=(_LEGEND, *((rows,) if rows else ()), took),
            grids=(
                Grid(
                    key="probes",
                    caption="Epsilon that was revealed, and that could be shown",
                    columns=(
                        "inputs that differ in",
                        "#revealed at least",
                        "#ledger at most",
                        "#could be shown",
                    ),
                    rows=tuple(map(_row, found.probes)),
                ),
            ),
        )
        apart = (
            Section(
                key="apart",
                title="How the two inputs were distinguished",
                facts=tuple((probe.pair, _how(probe)) for probe in found.probes),
            ),
        )
    return Statement(
        verdicts=(_verdict(found),),
        sections=(section, *apart),
        values=attack_values(name, found),
    )


def attack_values(name: str, found: Attack | ClientAttack) -> dict[str, Any]:
    """An attack for JSON; arguments as for ``state_attack``."""
    verdict = {
        "accused": found.accused,
        "undecided": found.undecided,
        "verdict": _in_a_line(_verdict(found)),
        "alpha": found.alpha,
        "delta": found.delta,
    }
    if isinstance(found, ClientAttack):
        probe = _probe_values(found.probe)
        values = {k: v for k, v in probe.items() if k not in ("runs", "unbounded")}
        values["provable"] = found.probe.tried[0].provable
        return {"client": name, "claims": found.claims, **verdict, "probe": values}
    probes = []
    for one in found.probes:
        tried = [{**asdict(views), "undecided": views.undecided} for views in one.tried]
        judged = {"accused": one.accused, "undecided": one.undecided, "tried": tried}
        probes.append({**_probe_values(one), **judged})
    about = {"variant": found.variant, "observer": found.observer, "target": found.target}
    return {**about, **verdict, "rows": found.rows, "probes": probes}


def _probe_values(probe: Probe) -> dict[str, Any]:
    ends = {"first": probe.first._asdict(), "second": probe.second._asdict()}
    return {**asdict(probe), **ends}


def state_active(
    name: str, found: ActiveAttack, written: Sequence[Path], *, seconds: float
) -> Statement:
    """Statement of an active attack: verdict, findings with scripts, and charged losses.

    Args:
        name: the variant's name as given.
        written: the files of the scripts; empty if there are none.
    """
    scripts, behaviours = count(found.tried, "script"), count(found.covered, "behaviour")
    charged = (
        f"charged: {one.kind}, epsilon {epsilon(one.epsilon)}: {one.why}" for one in found.charged
    )
    hint = "--out DIR writes these scripts, for --replay"
    return Statement(
        verdicts=(_on_active(found),),
        sections=(
            Section(
                key="attack",
                title="The attack",
                lead=f"{found.variant}; hostile: {', '.join(found.hostile)}; {found.target}'s "
                f"record differs; {scripts}, {behaviours}",
                notes=(
                    *charged,
                    *((hint,) if found.findings and not written else ()),
                    f"{seconds:.1f} s",
                ),
            ),
            *(
                Section(
                    key=f"finding-{place}",
                    title=f"{place + 1}. {one.rule}: {one.what}",
                    code=(
                        *str(one.script).splitlines(),
                        *(
                            (f"sottovoce attack {name} --active --replay {written[place]}",)
                            if written
                            else ()
                        ),
                    ),
                )
                for place, one in enumerate(found.findings)
            ),
        ),
        values=active_values(found),
    )


def state_every(every: Sequence[ActiveAttack]) -> Statement:
    """State the outcome of attacks on several variants, in a verdict."""
    accused = [found.variant for found in every if found.accused]
    scripts = count(sum(found.tried for found in every), "script")
    if accused:
        verdict = _accusing_verdict(f"{', '.join(accused)}; {len(every)} variants, {scripts}.")
    else:
        verdict = _acquitting_verdict(f"{len(every)} variants, {scripts}; {_NOT_ALL}.")
    return Statement(verdicts=(verdict,))


def state_replayed(script: Script, found: Sequence[Finding]) -> Statement:
    """State the outcome of a script that is played again."""
    return Statement(
        verdicts=(
            _accusing_verdict(f"{found[0].what}.")
            if found
            else _acquitting_verdict("this script brings nothing out any more."),
        ),
        sections=(
            Section(
                key="script",
                title="The script",
                notes=tuple(f"{one.rule}: {one.what}" for one in found),
                code=tuple(str(script).splitlines()),
            ),
        ),
    )


def active_values(found: ActiveAttack) -> dict[str, Any]:
    """An active attack for JSON."""
    return {
        "variant": found.variant,
        "target": found.target,
        "hostile": found.hostile,
        "accused": found.accused,
        "verdict": _in_a_line(_on_active(found)),
        "scripts": found.tried,
        "behaviours": found.covered,
        "findings": [finding_values(one) for one in found.findings],
        "charged": [asdict(one) for one in found.charged],
    }


def finding_values(found: Finding) -> dict[str, Any]:
    """A finding for JSON, with its script."""
    values: dict[str, Any] = msgspec.to_builtins(found)
    return values


def _on_active(found: ActiveAttack) -> Verdict:
    if found.accused:
        first = found.findings[0]
        besides = f" ({more})" if (more := rest(len(found.findings), 1)) else ""
        return _accusing_verdict(f"{first.what}{besides}.")
    return _acquitting_verdict(
        f"{found.target} revealed nothing that its ledger does not charge, in any script "
        f"that was played; {_NOT_ALL}."
    )


def _in_a_line(verdict: Verdict) -> str:
    return f"{verdict.word}: {verdict.says}"


def _verdict(found: Attack | ClientAttack) -> Verdict:
    if isinstance(found, ClientAttack):
        return _verdict_on_client(found)
    return _verdict_on_variant(found)


def _verdict_on_client(found: ClientAttack) -> Verdict:
    probe = found.probe
    if found.accused:
        return _accusing_verdict(
            f"the reports reveal at least epsilon {probe.lower:.4f} about {probe.pair}, "
            f"and {found.claims:.4f} is claimed."
        )
    if found.undecided:
        most = probe.tried[0].provable
        return _undecided_verdict(
            f"the claimed {found.claims:.4f} could not be exceeded with so few trials: "
            f"at most epsilon {most:.4f} can be proved."
        )
    return _acquitting_verdict(
        f"nothing that was tried exceeds the claimed {found.claims:.4f}; "
        f"at least epsilon {probe.lower:.4f} is revealed about {probe.pair}."
    )


def _verdict_on_variant(found: Attack) -> Verdict:
    worst = found.worst
    if found.accused:
        return _accusing_verdict(
            f"the view reveals at least epsilon {worst.lower:.4f} about {worst.pair}, "
            f"and the ledger says at most {worst.bound:.4f}{_assumption(worst)}."
        )
    if all(math.isinf(probe.bound) for probe in found.probes):
        return Verdict(
            word="Unbounded",
            state="open",
            says="the ledger says that there is no protection, so nothing can exceed it.",
        )
    short = [
        (probe, probe.weakest)
        for probe in found.probes
        if probe.undecided and probe.weakest is not None
    ]
    if short:
        probe, weakest = max(short, key=lambda one: one[1].bound - one[1].provable)
        more = f" ({others})" if (others := rest(len(short), 1)) else ""
        return _undecided_verdict(
            f"of {probe.pair}{more}, the ledger's {weakest.bound:.4f}{_assumption(weakest)} could "
            f"not be exceeded with so few trials: at most epsilon {weakest.provable:.4f} can be "
            f"proved in {weakest.views}."
        )
    return _acquitting_verdict(
        f"nothing that was tried exceeds the ledger{_assumption(worst)}; {worst.pair} comes "
        "nearest to it."
    )


def _assumption(found: Probe | Tried) -> str:
    """The assumption behind the ledger's figure, to be appended to it."""
    return assumed((found.honest,)) if found.honest else ""


def _accusing_verdict(says: str) -> Verdict:
    return Verdict(word="Accused", state="bad", says=says)


def _undecided_verdict(says: str) -> Verdict:
    return Verdict(word="Undecided", state="care", says=says)


def _acquitting_verdict(says: str) -> Verdict:
    return Verdict(word="Not accused", state="good", says=says)


def _row(probe: Probe) -> tuple[str, ...]:
    if math.isinf(probe.bound):
        return probe.pair, "", "unbounded", ""
    mark = " !" if probe.accused else ""
    lower = f"{probe.lower:.4f}{mark}"
    most = f"{probe.weakest.provable:.4f}" if probe.weakest is not None else ""
    most = f"{most}: too few trials" if probe.undecided else most
    return probe.pair, lower, f"{probe.bound:.4f}", most


def _how(probe: Probe) -> str:
    """The event, and how often it led to the right guess."""
    if math.isinf(probe.bound):
        return f"unbounded: nothing to exceed: {'; '.join(probe.unbounded)}"
    event = f"{probe.event}{' (learned)' if probe.learned else ''}" or "nothing differs"
    return (
        f"{event}; {probe.right:,} of {count(probe.guesses, 'guess', 'guesses')} right, in "
        f"{count(probe.trials, 'trial')} in {count(probe.runs, 'run')}"
    )
