"""What an active attack found, as lines for a terminal and as values for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.text import Text

from protocol.attack.active.active import ActiveAttack
from protocol.attack.active.findings import Finding
from protocol.attack.active.script import Script
from scenarios.wording.formatting import count, epsilon

NOT_ALL = "this does not show that nothing leaks"


def active_values(found: ActiveAttack) -> dict[str, Any]:
    """An active attack for JSON."""
    return {
        "variant": found.variant,
        "target": found.target,
        "accused": found.accused,
        "verdict": verdict(found),
        "scripts": found.tried,
        "behaviours": found.covered,
        "findings": [finding_values(one) for one in found.findings],
        "charged": [msgspec.structs.asdict(one) for one in found.charged],
    }


def finding_values(found: Finding) -> dict[str, Any]:
    """A finding for JSON, with its script."""
    values: dict[str, Any] = msgspec.to_builtins(found)
    return values


def verdict(found: ActiveAttack) -> str:
    """The first line."""
    if found.accused:
        first = found.findings[0]
        more = len(found.findings) - 1
        besides = f" (and {more} more)" if more else ""
        return f"Accused: {first.what}{besides}."
    return (
        f"Not accused: whatever {found.target} was sent, it did nothing that its ledger does not "
        f"charge; {NOT_ALL}."
    )


def every_verdict(every: Sequence[ActiveAttack]) -> Text:
    """The first line about several variants."""
    accused = [found.variant for found in every if found.accused]
    scripts = count(sum(found.tried for found in every), "script")
    if accused:
        said = f"Accused: {', '.join(accused)}; {len(every)} variants, {scripts}."
        return Text(said, style="bold red")
    said = f"Not accused: {len(every)} variants, {scripts}; {NOT_ALL}."
    return Text(said, style="bold green")


def active_report(
    name: str, found: ActiveAttack, written: Sequence[Path], *, seconds: float
) -> Iterator[Text]:
    """The verdict, each finding with its script, and what is rightly charged.

    Args:
        name: of the variant, as a person gave it.
        found: what was found.
        written: the files of the scripts; empty if there are none.
        seconds: how long it took.
    """
    yield Text(verdict(found), style="bold red" if found.accused else "bold green")
    scripts, behaviours = count(found.tried, "script"), count(found.covered, "behaviour")
    yield Text(f"{found.variant}; {found.target}'s record differs; {scripts}, {behaviours}")
    for number, one in enumerate(found.findings, 1):
        yield Text(f"{number}. {one.rule}: {one.what}", style="red")
        yield from _moves(one.script)
        if written:
            path = written[number - 1]
            yield Text(f"   sottovoce attack {name} --active --replay {path}")
    if found.findings and not written:
        yield Text("   --out DIR writes these scripts, for --replay")
    for charged in found.charged:
        yield Text(f"charged: {charged.kind}, epsilon {epsilon(charged.epsilon)}: {charged.why}")
    yield Text(f"{seconds:.1f} s", style="dim")


def replay_report(script: Script, found: Sequence[Finding]) -> Iterator[Text]:
    """What comes of a script that is played again."""
    if found:
        yield Text(f"Accused: {found[0].what}.", style="bold red")
    else:
        yield Text("Not accused: this script brings nothing out any more.", style="bold green")
    yield from _moves(script)
    for one in found:
        yield Text(f"{one.rule}: {one.what}", style="red")


def _moves(script: Script) -> Iterator[Text]:
    for line in str(script).splitlines():
        yield Text(f"   {line}")
