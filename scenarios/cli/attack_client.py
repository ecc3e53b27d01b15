"""``sottovoce attack PATH.py:NAME``: does a client or a randomizer tell more than is claimed?"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from protocol.errors import UnsupportedEventError
from protocol.surveys.survey import shown
from scenarios.cli.options import print_json
from scenarios.running.errors import UsageError

if TYPE_CHECKING:
    from protocol.attack.client import ClientAttack
    from protocol.randomizers import Randomizer


def attack_function(
    name: str,
    client: Callable[[object], object],
    *,
    inputs: str,
    claims: float,
    trials: int | None,
    alpha: float,
    delta: float,
    seed: int,
    as_json: bool,
) -> int:
    """Attack a client function and print what was found; 1 if the client is accused."""
    from protocol.attack.client import TRIALS, attack_client

    # Clients that draw from these two say the same for the same seed; others may not.
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)  # noqa: NPY002
    started = time.perf_counter()
    try:
        found = attack_client(
            client,
            _two(inputs),
            claims=claims,
            trials=TRIALS if trials is None else trials,
            alpha=alpha,
            delta=delta,
            seed=seed,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    return _said(name, found, started=started, as_json=as_json)


def attack_draws(
    name: str,
    randomizer: Randomizer,
    *,
    inputs: str | None,
    trials: int | None,
    alpha: float,
    delta: float,
    seed: int,
    as_json: bool,
) -> int:
    """Attack a randomizer's draws by its law and print what was found; 1 if it is accused."""
    from protocol.attack.client import ClientAttack
    from protocol.attack.draws import TRIALS, attack_randomizer

    started = time.perf_counter()
    try:
        probe = attack_randomizer(
            randomizer,
            _codes(inputs) if inputs is not None else None,
            trials=TRIALS if trials is None else trials,
            alpha=alpha,
            delta=delta,
            seed=seed,
        )
    except (ValueError, UnsupportedEventError) as error:
        raise UsageError(str(error)) from error
    found = ClientAttack(claims=probe.bound, alpha=alpha, delta=delta, probe=probe)
    return _said(name, found, started=started, as_json=as_json)


def _said(name: str, found: ClientAttack, *, started: float, as_json: bool) -> int:
    if as_json:
        print_json(_values(name, found))
    else:
        _print(name, found, seconds=time.perf_counter() - started)
    return 1 if found.accused else 0


def _codes(text: str) -> tuple[int, int]:
    first, second = _two(text)
    if not isinstance(first, int) or not isinstance(second, int):
        raise UsageError(f"--inputs {shown(text)}: expected two codes of the randomizer's domain")
    return first, second


def _two(text: str) -> tuple[object, object]:
    """Two JSON values, or two plain words, with a comma between them."""
    try:
        values = json.loads(f"[{text}]")
    except ValueError:
        values = [word.strip() for word in text.split(",")]
    if len(values) != 2:
        raise UsageError(f"--inputs {shown(text)}: expected two inputs A,B, got {len(values)}")
    return values[0], values[1]


def _verdict(found: ClientAttack) -> str:
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


def _values(name: str, found: ClientAttack) -> dict[str, Any]:
    probe = found.probe
    ends = {
        event: {"low": interval.low, "high": interval.high}
        for event, interval in (("first", probe.first), ("second", probe.second))
    }
    values = {k: v for k, v in msgspec.to_builtins(probe).items() if k not in ("runs", "unbounded")}
    return {
        "client": name,
        "claims": found.claims,
        "accused": found.accused,
        "undecided": found.undecided,
        "verdict": _verdict(found),
        "alpha": found.alpha,
        "delta": found.delta,
        "probe": {**values, **ends, "provable": probe.tried[0].provable},
    }


def _print(name: str, found: ClientAttack, *, seconds: float) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    style = "bold red" if found.accused else "bold yellow" if found.undecided else "bold green"
    console.print(Text(_verdict(found)), style=style, soft_wrap=True)
    probe = found.probe
    lines = [
        f"{name}; probability of a false accusation at most {found.alpha:g}"
        + (f"; delta {found.delta:g}" if found.delta else ""),
        f"event: {probe.event or 'nothing differs'}",
        f"right guesses: {probe.right:,} of {probe.guesses:,}, on {probe.trials:,} reports",
        f"seen for the one input with probability {probe.first.low:.4f} to {probe.first.high:.4f}, "
        f"for the other {probe.second.low:.4f} to {probe.second.high:.4f}",
    ]
    for line in lines:
        console.print(Text(line), highlight=False, soft_wrap=True)
    console.print(f"{seconds:.1f} s", style="dim", highlight=False)
