"""``sottovoce attack``: does a variant reveal more than its ledger says?"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from protocol.messages import AGGREGATOR, PartyId
from scenarios.cli.attack_client import attack_draws, attack_function
from scenarios.cli.completion import complete_variant, complete_variant_setting
from scenarios.cli.options import (
    FILE,
    Amount,
    json_option,
    print_json,
    seed_option,
    set_option,
)
from scenarios.running.errors import UsageError
from scenarios.running.loading import find_attackable

if TYPE_CHECKING:
    from protocol.attack.attack import Attack
    from protocol.attack.probes import Probe


@click.command()
@click.argument("variant", shell_complete=complete_variant)
@click.option(
    "--trials",
    type=click.IntRange(2, 10**8),
    help="Number of respondents for each pair of inputs.  [default: 100,000 if one party can hold "
    "many records, else 1,000 or as many as it takes to exceed the ledger]",
)
@click.option(
    "--runs",
    type=click.IntRange(2, 10**6),
    help="Number of whole runs for each pair of inputs.  [default: 200 or as many as it takes to "
    "exceed the ledger]",
)
@click.option(
    "--copies", type=click.IntRange(2, 1 << 24), help="Number of respondents who share a run."
)
@click.option(
    "--observer",
    default=AGGREGATOR,
    show_default=True,
    metavar="MEMBER",
    help="The member whose view is attacked.",
)
@set_option(complete_variant_setting)
@click.option(
    "--survey",
    "survey_file",
    type=FILE,
    help="A TOML file with the title and attributes to ask about, instead of an example.",
)
@click.option(
    "--delta",
    type=Amount(min=0, max=1, max_open=True),
    default=0.0,
    show_default=True,
    help="The probability with which epsilon may not hold; 0 is pure epsilon.",
)
@click.option(
    "--alpha",
    type=Amount(min=0, max=1, min_open=True, max_open=True),
    default=1e-9,
    show_default=True,
    help="The highest probability of a false accusation.",
)
@seed_option
@click.option(
    "--inputs",
    metavar="A,B",
    help="For a client function: the two inputs to tell apart, as JSON values or plain words.",
)
@click.option(
    "--claims",
    type=Amount(min=0),
    metavar="EPSILON",
    help="For a client function: the epsilon that is claimed for these two inputs.",
)
@json_option
@click.pass_context
def attack(
    context: click.Context,
    variant: str,
    trials: int | None,
    runs: int | None,
    copies: int | None,
    observer: str,
    settings: dict[str, str],
    survey_file: Path | None,
    delta: float,
    alpha: float,
    seed: int,
    inputs: str | None,
    claims: float | None,
    as_json: bool,
) -> int:
    """Attack VARIANT, a name or PATH.py:Class: does it reveal more than its ledger says?

    It is run many times on two neighbouring inputs, and the input is guessed from what the observer
    sees. The right guesses prove a lower bound on epsilon. Exit 1 if that exceeds the ledger of the
    same runs.

    PATH.py:function attacks a bare client of any library instead: a function from a value to its
    report. It takes --inputs and --claims, and the bound is compared with the epsilon claimed.
    PATH.py:NAME of a randomizer attacks its draws by its law, and compares with its own epsilon.
    """
    found = find_attackable(variant)
    if not isinstance(found, type):
        kind = "function" if callable(found) else "randomizer"
        for name in ("runs", "copies", "observer", "settings", "survey_file"):
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                option = {"settings": "set", "survey_file": "survey"}.get(name, name)
                raise UsageError(f"--{option} is for variants; {variant} is a {kind}")
        if not callable(found):
            if claims is not None:
                raise UsageError("--claims is for a client function; a randomizer says its epsilon")
            return attack_draws(
                variant,
                found,
                inputs=inputs,
                trials=trials,
                alpha=alpha,
                delta=delta,
                seed=seed,
                as_json=as_json,
            )
        if inputs is None or claims is None:
            raise UsageError(f"{variant} is a function: say --inputs A,B and --claims EPSILON")
        return attack_function(
            variant,
            found,
            inputs=inputs,
            claims=claims,
            trials=trials,
            alpha=alpha,
            delta=delta,
            seed=seed,
            as_json=as_json,
        )
    if inputs is not None or claims is not None:
        raise UsageError(f"--inputs and --claims are for a client function; {variant} is a variant")
    from protocol.attack.attack import attack as attacked
    from scenarios.cli.example_variants import COPIES, example, read_survey

    survey = read_survey(survey_file) if survey_file is not None else None
    made, records = example(found, settings, survey)
    started = time.perf_counter()
    try:
        result = attacked(
            made,
            records,
            observer=PartyId(observer),
            trials=trials,
            runs=runs,
            copies=copies or COPIES.get(made.name),
            alpha=alpha,
            delta=delta,
            seed=seed,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    except MemoryError as error:
        numbers = {"--trials": trials, "--runs": runs, "--copies": copies}
        given = " ".join(f"{name} {n}" for name, n in numbers.items() if n is not None)
        raise UsageError(
            f"{given or '--trials'}: takes more memory than there is; give a smaller number"
        ) from error
    if as_json:
        print_json(_values(result))
    else:
        _print(result, seconds=time.perf_counter() - started)
    return 1 if result.accused else 0


def _values(found: Attack) -> dict[str, Any]:
    """An attack as JSON: an infinite bound is null, and ``unbounded`` says why."""
    probes = []
    for probe in found.probes:
        values = msgspec.to_builtins(probe)
        values["bound"] = _finite(probe.bound)
        for event, interval in (("first", probe.first), ("second", probe.second)):
            values[event] = {"low": interval.low, "high": interval.high}
        tried = [
            {**plain, "bound": _finite(one.bound), "undecided": one.undecided}
            for one, plain in zip(probe.tried, values["tried"], strict=True)
        ]
        verdict = {"accused": probe.accused, "undecided": probe.undecided}
        probes.append({**values, **verdict, "tried": tried})
    return {
        "variant": found.variant,
        "observer": found.observer,
        "target": found.target,
        "accused": found.accused,
        "undecided": found.undecided,
        "verdict": verdict_of(found),
        "alpha": found.alpha,
        "delta": found.delta,
        "rows": list(found.rows),
        "probes": probes,
    }


def _finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None


def _print(found: Attack, *, seconds: float) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    style = "bold red" if found.accused else "bold yellow" if found.undecided else "bold green"
    console.print(Text(verdict_of(found)), style=style, soft_wrap=True)
    console.print(
        f"{found.variant}, seen by {found.observer}; {found.target}'s record differs; "
        f"probability of a false accusation at most {found.alpha:g}"
        + (f"; delta {found.delta:g}" if found.delta else ""),
        highlight=False,
        soft_wrap=True,
    )
    table = Table(
        "inputs that differ in",
        "at least",
        "ledger",
        "provable",
        "right guesses",
        "event",
        "trials",
    )
    for column in (1, 2, 3, 4, 6):
        table.columns[column].justify = "right"
    for probe in found.probes:
        table.add_row(*map(Text, _row(probe)))
    console.print(table)
    if found.rows:
        rows = ", ".join(found.rows)
        console.print(f"every row of {rows} is one respondent's", highlight=False)
    console.print(f"{seconds:.1f} s", style="dim", highlight=False)


def verdict_of(found: Attack) -> str:
    """What an attack found, in one line."""
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
        why = "; ".join(probe.unbounded)
        return probe.pair, "", "unbounded: nothing to exceed", "", "", why, ""
    trials = f"{probe.trials:,} in {probe.runs:,} run{'s' if probe.runs > 1 else ''}"
    right = f"{probe.right:,} of {probe.guesses:,}"
    event = f"{probe.event}{' (learned)' if probe.learned else ''}" or "nothing differs"
    mark = " !" if probe.accused else ""
    lower = f"{probe.lower:.4f}{mark}"
    most = f"{probe.weakest.provable:.4f}" if probe.weakest is not None else ""
    most = f"{most}: too few trials" if probe.undecided else most
    return probe.pair, lower, f"{probe.bound:.4f}", most, right, event, trials
