"""``sottovoce attack``: does a variant reveal more than its ledger says?"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
import numpy as np

from protocol.errors import UnsupportedEventError, UsageError
from protocol.messages import AGGREGATOR, PartyId
from protocol.surveys.survey import shown
from scenarios.cli.attacks.active import ACTIVE, Options, attacked_actively, replayed
from scenarios.cli.completion import complete_variant, complete_variant_setting
from scenarios.cli.engines import EngineChoice, engine_options, sweeping, write_found
from scenarios.cli.numbers import Amount
from scenarios.cli.options import (
    json_option,
    json_text,
    print_statement,
    refuse,
    seed_option,
    set_option,
    survey_option,
)
from scenarios.cli.paths import READ_FILE, TEXT_WITH_FILE, WrittenFolder
from scenarios.files.pieces import PIECES
from scenarios.running.loading import find_attackable

if TYPE_CHECKING:
    from protocol.attack.attack import Attack
    from protocol.attack.client import ClientAttack
    from protocol.randomizers import Randomizer
    from protocol.session.variant import Variant

ATTACK = "attack.json"
"""The name of an attack's result in the folder of ``--out``."""

_VARIANTS_ALONE = ("runs", "copies", "observer", "settings", "survey_file")
_PASSIVE_ALONE = ("runs", "copies", "observer", "delta", "inputs", "claims")
_ACTIVE_ALONE = ("scripts", "target", "replay")
_PLAYED = ("scripts", "target", "trials", "alpha", "seed", "settings", "survey_file")
_CARRIED = ("out", "engine", "jobs", "address")


@click.command()
@click.argument("variant", type=TEXT_WITH_FILE, shell_complete=complete_variant)
@click.option(
    "--active",
    is_flag=True,
    help="The aggregator lies: it rewrites, drops, repeats, holds back and makes up what it sends "
    "to a party, and what the party does is compared for two records. VARIANT may be all.",
)
@click.option(
    "--scripts",
    type=click.IntRange(1, 10**7),
    help="With --active: number of scripts to play.  [default: 400]",
)
@click.option(
    "--target",
    type=click.IntRange(min=1),
    help="With --active: number of the party that is lied to.  [default: 1]",
)
@click.option(
    "--replay",
    type=READ_FILE,
    help="With --active: a script of a finding, from the folder of --out, to be played again.",
)
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
@survey_option
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
@click.option(
    "--out",
    type=WrittenFolder(ATTACK, ACTIVE, PIECES),
    help=f"The folder for {ATTACK}. If the attack is ended midway, the same command does the rest.",
)
@engine_options
@json_option
def attack(
    variant: str,
    active: bool,
    scripts: int | None,
    target: int | None,
    replay: Path | None,
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
    out: Path | None,
    engine: EngineChoice,
    as_json: bool,
) -> int:
    """Attack VARIANT, a name or PATH.py:Class: does it reveal more than its ledger says?

    It is run many times on two neighbouring inputs, and the input is guessed from what the observer
    sees. The right guesses prove a lower bound on epsilon. Exit 1 if that exceeds the ledger of the
    same runs.

    PATH.py:function attacks a bare client of any library instead: a function from a value to its
    report. It takes --inputs and --claims, and the bound is compared with the epsilon claimed.
    PATH.py:NAME of a randomizer attacks its draws by its law, and compares with its own epsilon.

    With --active the aggregator is hostile. Whatever a party does outwardly must be the same for
    two records that differ in one answer, or be charged. Exit 1 if it is not.
    """

    if active:
        refuse(_PASSIVE_ALONE, " is not for --active")
        if replay is not None:
            refuse((*_PLAYED, *_CARRIED), " is not for --replay")
            return replayed(variant, replay, as_json=as_json)
        numbers = {"scripts": scripts, "trials": trials}
        options = Options(
            settings=settings,
            survey_file=survey_file,
            target=target or 1,
            seed=seed,
            limits={"alpha": alpha, **{k: v for k, v in numbers.items() if v is not None}},
            engine=engine,
            out=out,
            as_json=as_json,
        )
        return attacked_actively(variant, options)
    refuse(_ACTIVE_ALONE, " is for --active")
    found = find_attackable(variant)
    limits: dict[str, Any] = {"alpha": alpha, "delta": delta, "seed": seed}
    if trials is not None:
        limits["trials"] = trials
    started = time.perf_counter()
    result: Attack | ClientAttack
    try:
        if isinstance(found, type):
            if inputs is not None or claims is not None:
                raise UsageError(
                    f"--inputs and --claims are for a client function; {variant} is a variant"
                )
            limits |= {"observer": PartyId(observer), "runs": runs, "copies": copies}
            result = _variant_attacked(
                found, settings, survey_file, limits, engine, out, silent=as_json
            )
        else:
            kind = "function" if callable(found) else "randomizer"
            if engine.chosen or out is not None:
                raise UsageError(
                    f"--engine, --jobs and --out are for variants; {variant} is a {kind}, which "
                    "is attacked in one piece"
                )
            refuse(_VARIANTS_ALONE, f" is for variants; {variant} is a {kind}")
            if not callable(found):
                if claims is not None:
                    raise UsageError(
                        "--claims is for a client function; a randomizer says its epsilon"
                    )
                result = _draws_attacked(found, inputs, limits)
            elif inputs is None or claims is None:
                raise UsageError(f"{variant} is a function: say --inputs A,B and --claims EPSILON")
            else:
                result = _client_attacked(found, inputs, claims, limits)
    except ValueError as error:
        raise UsageError(str(error)) from error
    except MemoryError as error:
        numbers = {"--trials": trials, "--runs": runs, "--copies": copies}
        given = " ".join(f"{name} {n}" for name, n in numbers.items() if n is not None)
        raise UsageError(
            f"{given or '--trials'}: takes more memory than there is; give a smaller number"
        ) from error
    from scenarios.statement.attacks import state_attack

    said = state_attack(variant, result, seconds=time.perf_counter() - started)
    print_statement(said, as_json=as_json)
    return 1 if result.accused else 0


def _variant_attacked(
    cls: type[Variant],
    settings: dict[str, str],
    survey_file: Path | None,
    limits: dict[str, Any],
    engine: EngineChoice,
    out: Path | None,
    *,
    silent: bool,
) -> Attack:
    from protocol.attack.attack import attack
    from protocol.session.variant import parameters_of
    from scenarios.cli.example_variants import COPIES, example, read_survey
    from scenarios.running.engines.sweep import about_of
    from scenarios.statement.attacks import attack_values

    survey = read_survey(survey_file) if survey_file is not None else None
    made, records = example(cls, settings, survey)
    limits["copies"] = limits["copies"] or COPIES.get(made.name)
    about = about_of(
        "attack",
        cls,
        variant=made.name,
        parameters=parameters_of(made),
        survey=msgspec.to_builtins(made.survey),
        **limits,
    )
    result = None if out is None else out / ATTACK
    with sweeping(made.name, engine, result, about, silent=silent) as sweep:
        found = attack(made, records, **limits, carried=sweep, progress=sweep.stage)
        if result is not None:
            write_found(sweep, result, json_text(attack_values(made.name, found)))
    return found


def _client_attacked(
    client: Callable[[object], object], inputs: str, claims: float, limits: dict[str, Any]
) -> ClientAttack:
    from protocol.attack.client import attack_client

    # Clients that draw from these two say the same for the same seed; others may not.
    random.seed(limits["seed"])
    np.random.seed(limits["seed"] & 0xFFFFFFFF)  # noqa: NPY002  # what others' clients draw from
    return attack_client(client, _two(inputs), claims=claims, **limits)


def _draws_attacked(
    randomizer: Randomizer, inputs: str | None, limits: dict[str, Any]
) -> ClientAttack:
    from protocol.attack.client import ClientAttack
    from protocol.attack.draws import attack_randomizer

    codes = None if inputs is None else _codes(inputs)
    try:
        probe = attack_randomizer(randomizer, codes, **limits)
    except UnsupportedEventError as error:
        raise UsageError(str(error)) from error
    alpha, delta = limits["alpha"], limits["delta"]
    return ClientAttack(claims=probe.bound, alpha=alpha, delta=delta, probe=probe)


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
