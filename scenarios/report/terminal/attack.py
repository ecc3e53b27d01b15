"""What an attack found, as lines for a terminal and as values for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from msgspec.structs import asdict
from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from protocol.attack.attack import Attack
from protocol.attack.client import ClientAttack
from protocol.attack.probes import Probe
from scenarios.wording.formatting import count

_COLUMNS = ("inputs that differ in", "told at least", "ledger at most", "could be shown")
_LEGEND = (
    "Figures are epsilons, in nats. Told at least: what the right guesses prove. Could be shown: "
    "what they would prove if every guess were right; where that is below the ledger's figure, "
    "there are too few trials."
)


def attack_values(name: str, found: Attack | ClientAttack) -> dict[str, Any]:
    """An attack for JSON.

    Args:
        name: of what was attacked, if that is not a variant.
        found: what was found.
    """
    verdict = {
        "accused": found.accused,
        "undecided": found.undecided,
        "verdict": _verdict(found),
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


def attack_report(name: str, found: Attack | ClientAttack) -> Iterator[Text]:
    """The verdict, and what it is about.

    Args:
        name: of what was attacked, if that is not a variant.
        found: what was found.
    """
    style = "bold red" if found.accused else "bold yellow" if found.undecided else "bold green"
    yield Text(_verdict(found), style=style)
    chance = f"probability of a false accusation at most {found.alpha:g}"
    chance += f"; delta {found.delta:g}" if found.delta else ""
    if isinstance(found, ClientAttack):
        yield Text(f"{name}; {chance}")
        probe = found.probe
        yield Text(f"event: {probe.event or 'nothing differs'}")
        yield Text(
            f"right guesses: {probe.right:,} of {probe.guesses:,}, on {probe.trials:,} reports"
        )
        yield Text(
            f"seen for the one input with probability {probe.first.low:.4f} to "
            f"{probe.first.high:.4f}, for the other {probe.second.low:.4f} to "
            f"{probe.second.high:.4f}"
        )
    else:
        who = f"{found.variant}, seen by {found.observer}; {found.target}'s record differs"
        yield Text(f"{who}; {chance}")


def figures_report(found: Attack | ClientAttack, *, seconds: float) -> Iterator[RenderableType]:
    """The figures of every pair of inputs, and how many seconds it took."""
    if isinstance(found, Attack):
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for place, name in enumerate(_COLUMNS):
            table.add_column(name, justify="right" if place else "left", no_wrap=place > 0)
        for probe in found.probes:
            table.add_row(*map(Text, _row(probe)))
        yield table
        yield Text(_LEGEND)
        yield Text("How the two were told apart:")
        for probe in found.probes:
            yield Text(f"  {probe.pair}: {_how(probe)}")
        if found.rows:
            yield Text(f"every row of {', '.join(found.rows)} is one respondent's")
    yield Text(f"{seconds:.1f} s", style="dim")


def _verdict(found: Attack | ClientAttack) -> str:
    if isinstance(found, ClientAttack):
        return _verdict_on_client(found)
    return _verdict_on_variant(found)


def _verdict_on_client(found: ClientAttack) -> str:
    probe = found.probe
    if found.accused:
        return (
            f"Accused: the reports tell at least epsilon {probe.lower:.4f} of {probe.pair}, "
            f"and {found.claims:.4f} is claimed."
        )
    if found.undecided:
        most = probe.tried[0].provable
        return (
            f"Undecided: the claimed {found.claims:.4f} could not be exceeded with so few trials: "
            f"at most epsilon {most:.4f} can be proved."
        )
    return (
        f"Not accused: nothing that was tried exceeds the claimed {found.claims:.4f}; "
        f"at least epsilon {probe.lower:.4f} is revealed about {probe.pair}."
    )


def _verdict_on_variant(found: Attack) -> str:
    worst = found.worst
    if found.accused:
        return (
            f"Accused: the view tells at least epsilon {worst.lower:.4f} of {worst.pair}, "
            f"and the ledger says at most {worst.bound:.4f}."
        )
    if all(math.isinf(probe.bound) for probe in found.probes):
        return "Unbounded: the ledger says that there is no protection, so nothing can exceed it."
    short = [
        (probe, probe.weakest)
        for probe in found.probes
        if probe.undecided and probe.weakest is not None
    ]
    if short:
        probe, weakest = max(short, key=lambda one: one[1].bound - one[1].provable)
        more = f" (and {len(short) - 1} more)" if len(short) > 1 else ""
        return (
            f"Undecided: of {probe.pair}{more}, the ledger's {weakest.bound:.4f} could not be "
            f"exceeded with so few trials: at most epsilon {weakest.provable:.4f} can be proved "
            f"in {weakest.views}."
        )
    return (
        f"Not accused: nothing that was tried exceeds the ledger; {worst.pair} comes nearest to it."
    )


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
