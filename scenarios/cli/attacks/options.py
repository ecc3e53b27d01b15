"""The options of ``sottovoce attack``, for each of the ways to attack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from protocol.audit.coalition.coalition import observer_named
from protocol.messages import PartyId
from scenarios.cli.completion import complete_variant
from scenarios.cli.engines import EngineChoice
from scenarios.cli.example_variants import ExampleOptions
from scenarios.cli.numbers import Amount, Whole
from scenarios.cli.options import json_option, refuse, seed_option
from scenarios.cli.paths import READ_FILE, TEXT_WITH_FILE, WrittenFolder
from scenarios.cli.values import frozen_options, option, part, shared
from scenarios.files.pieces import PIECES

ATTACK = "attack.json"
"""The name of an attack's result in the folder of ``--out``."""

ACTIVE = "active.json"
"""The name of an active attack's result there."""

VARIANTS_ALONE = ("--target", "--runs", "--copies", "--observer", "--set", "--survey")
"""The options that are of no use for a bare client or a randomizer."""

_PASSIVE_ALONE = ("--runs", "--copies", "--observer", "--delta", "--inputs", "--claims")
_ACTIVE_ALONE = ("--hostile", "--scripts", "--replay")
_PLAYED = (
    "--hostile",
    "--scripts",
    "--target",
    "--trials",
    "--alpha",
    "--seed",
    "--set",
    "--survey",
)
_CARRIED = ("--out", "--engine", "--jobs", "--address")


class _Party(Whole):
    """The number of a party, from 1."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if not str(value).lstrip("-").isdecimal():
            self.fail(f"{value!r}: expected the number of a party that holds records.", param, ctx)
        number: int = super().convert(value, param, ctx)
        return number


@frozen_options
class AttackOptions:
    """Target and options of ``sottovoce attack``."""

    variant: str = shared(
        click.argument("variant", type=TEXT_WITH_FILE, shell_complete=complete_variant)
    )
    active: bool = option(
        "--active",
        is_flag=True,
        help="The aggregator and services lie: they rewrite, drop, repeat, hold back and make up "
        "what they send to a party, and what the party does is compared for two records. VARIANT "
        "may be all.",
    )
    hostile: str | None = option(
        "--hostile",
        metavar="A,B,C",
        help="With --active: the members who lie.  [default: all who hold no records]",
    )
    scripts: int | None = option(
        "--scripts",
        type=Whole(1, 10**7),
        help="With --active: number of scripts to play.  [default: 400]",
    )
    target: int = option(
        "--target",
        type=_Party(min=1),
        default=1,
        show_default=True,
        help="Number of the party whose record is at stake.",
    )
    replay: Path | None = option(
        "--replay",
        type=READ_FILE,
        help="With --active: a script of a finding, from the folder of --out, to be played again.",
    )
    trials: int | None = option(
        "--trials",
        type=Whole(2, 10**8),
        help="Number of respondents for each pair of inputs.  [default: 100,000 if one party can "
        "hold many records, else 1,000 or as many as it takes to exceed the ledger]  With "
        "--active: how often a script that seems to tell too much is played.  [default: 8,000]",
    )
    runs: int | None = option(
        "--runs",
        type=Whole(2, 10**6),
        help="Number of whole runs for each pair of inputs.  [default: 200 or as many as it takes "
        "to exceed the ledger]",
    )
    copies: int | None = option(
        "--copies", type=Whole(2, 1 << 24), help="Number of respondents who share a run."
    )
    observer: str | None = option(
        "--observer",
        metavar="A,B,C",
        help="The members whose view is attacked.  [default: all who hold no records]",
    )
    asked: ExampleOptions = part(ExampleOptions)
    delta: float = option(
        "--delta",
        type=Amount(min=0, max=1, max_open=True),
        default=0.0,
        show_default=True,
        help="The probability with which epsilon may not hold; 0 is pure epsilon.",
    )
    alpha: float = option(
        "--alpha",
        type=Amount(min=0, max=1, min_open=True, max_open=True),
        default=1e-9,
        show_default=True,
        help="The highest probability of a false accusation.",
    )
    seed: int = shared(seed_option)
    inputs: str | None = option(
        "--inputs",
        metavar="A,B",
        help="For a client function: the two inputs to tell apart, as JSON values or plain words.",
    )
    claims: float | None = option(
        "--claims",
        type=Amount(min=0),
        metavar="EPSILON",
        help="For a client function: the epsilon that is claimed for these two inputs.",
    )
    out: Path | None = option(
        "--out",
        type=WrittenFolder(ATTACK, ACTIVE, PIECES),
        help=f"The folder for {ATTACK}; with --active, for {ACTIVE} and the scripts of findings. "
        "If the attack is ended midway, the same command does the rest.",
    )
    engine: EngineChoice = part(EngineChoice)
    as_json: bool = shared(json_option)

    def check(self) -> None:
        """Refuse options that would have no effect, actively or not.

        Raises:
            UsageError: one is given.
        """
        if not self.active:
            refuse(_ACTIVE_ALONE, " is for --active")
            return
        refuse(_PASSIVE_ALONE, " is not for --active")
        if self.replay is not None:
            refuse((*_PLAYED, *_CARRIED), " is not for --replay")

    @property
    def liars(self) -> tuple[PartyId, ...] | None:
        """Members that lie in an active attack, as the command line has it; None by default."""
        return None if self.hostile is None else observer_named(self.hostile).members

    @property
    def limits(self) -> dict[str, Any]:
        """The arguments that all attacks but the active one have."""
        found: dict[str, Any] = {"alpha": self.alpha, "delta": self.delta, "seed": self.seed}
        return found if self.trials is None else {**found, "trials": self.trials}
