"""``sottovoce attack``: search for more privacy loss than the ledger shows."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
import msgspec
import numpy as np

from protocol.errors import UnsupportedEventError, UsageError
from protocol.surveys.survey import shown
from scenarios.cli.attacks.active import attacked_actively, check_place, replayed
from scenarios.cli.attacks.options import ATTACK, VARIANTS_ALONE, AttackOptions
from scenarios.cli.engines import sweeping, write_found
from scenarios.cli.options import json_text, print_statement, refuse
from scenarios.cli.values import takes
from scenarios.running.loading import find_attackable

if TYPE_CHECKING:
    from protocol.attack.attack import Attack
    from protocol.attack.client import ClientAttack
    from protocol.randomizers import Randomizer
    from protocol.session.variant import Variant


@click.command()
@takes(AttackOptions)
def attack(options: AttackOptions) -> int:
    """Attack VARIANT, a name or PATH.py:Class: does it reveal more than its ledger says?

    It is run many times on two neighbouring inputs, and the input is guessed from what the observer
    sees. The right guesses prove a lower bound on epsilon. Exit 1 if that exceeds the ledger of the
    same runs.

    PATH.py:function attacks a bare client of any library instead: a function from a value to its
    report. It takes --inputs and --claims, and the bound is compared with the epsilon claimed.
    PATH.py:NAME of a randomizer attacks its draws by its law, and compares with its own epsilon.

    With --active the aggregator and services are hostile. Whatever a party does outwardly must be
    the same for two records that differ in one answer, or be charged. Exit 1 if it is not.
    """
    options.check()
    if options.replay is not None:
        return replayed(options.variant, options.replay, as_json=options.as_json)
    if options.active:
        return attacked_actively(options)
    found = find_attackable(options.variant)
    started = time.perf_counter()
    try:
        result = _attack(found, options)
    except ValueError as error:
        raise UsageError(str(error)) from error
    except MemoryError as error:
        numbers = {"--trials": options.trials, "--runs": options.runs, "--copies": options.copies}
        given = " ".join(f"{name} {n}" for name, n in numbers.items() if n is not None)
        raise UsageError(
            f"{given or '--trials'}: takes more memory than there is; give a smaller number"
        ) from error
    from scenarios.statement.attacks import state_attack

    said = state_attack(options.variant, result, seconds=time.perf_counter() - started)
    print_statement(said, as_json=options.as_json)
    return 1 if result.accused else 0


def _attack(
    found: type[Variant] | Callable[[object], object] | Randomizer, options: AttackOptions
) -> Attack | ClientAttack:
    variant, inputs, claims = options.variant, options.inputs, options.claims
    if isinstance(found, type):
        if inputs is not None or claims is not None:
            raise UsageError(
                f"--inputs and --claims are for a client function; {variant} is a variant"
            )
        return _attack_variant(found, options)
    kind = "function" if callable(found) else "randomizer"
    if options.engine.chosen or options.out is not None:
        raise UsageError(
            f"--engine, --jobs and --out are for variants; {variant} is a {kind}, which is "
            "attacked in one piece"
        )
    refuse(VARIANTS_ALONE, f" is for variants; {variant} is a {kind}")
    if not callable(found):
        if claims is not None:
            raise UsageError("--claims is for a client function; a randomizer says its epsilon")
        return _attack_draws(found, inputs, options.limits)
    if inputs is None or claims is None:
        raise UsageError(f"{variant} is a function: say --inputs A,B and --claims EPSILON")
    return _attack_client(found, inputs, claims, options.limits)


def _attack_variant(cls: type[Variant], options: AttackOptions) -> Attack:
    from protocol.attack.attack import attack
    from protocol.audit.coalition.coalition import observer_named
    from protocol.session.variant import plain_parameters
    from scenarios.cli.example_variants import COPIES
    from scenarios.running.engines.sweep import sweep_description
    from scenarios.statement.attacks import attack_values

    made, records = options.asked.make(cls)
    limits = {
        **options.limits,
        "target": check_place(options.target, records, "--target"),
        "runs": options.runs,
        "copies": options.copies or COPIES.get(made.name),
    }
    about = sweep_description(
        "attack",
        cls,
        variant=made.name,
        parameters=plain_parameters(made),
        survey=msgspec.to_builtins(made.survey),
        observer=options.observer,
        **limits,
    )
    observer = None if options.observer is None else observer_named(options.observer)
    result = None if options.out is None else options.out / ATTACK
    with sweeping(made.name, options.engine, result, about, silent=options.as_json) as sweep:
        found = attack(
            made, records, observer=observer, **limits, carried=sweep, progress=sweep.stage
        )
        if result is not None:
            write_found(sweep, result, json_text(attack_values(made.name, found)))
    return found


def _attack_client(
    client: Callable[[object], object], inputs: str, claims: float, limits: dict[str, Any]
) -> ClientAttack:
    from protocol.attack.client import attack_client

    # Clients that draw only from these two are reproducible by the seed.
    random.seed(limits["seed"])
    np.random.seed(limits["seed"] & 0xFFFFFFFF)  # noqa: NPY002  # what others' clients draw from
    return attack_client(client, _split_two(inputs), claims=claims, **limits)


def _attack_draws(
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
    first, second = _split_two(text)
    if not isinstance(first, int) or not isinstance(second, int):
        raise UsageError(f"--inputs {shown(text)}: expected two codes of the randomizer's domain")
    return first, second


def _split_two(text: str) -> tuple[object, object]:
    try:
        values = json.loads(f"[{text}]")
    except ValueError:
        values = [word.strip() for word in text.split(",")]
    if len(values) != 2:
        raise UsageError(f"--inputs {shown(text)}: expected two inputs A,B, got {len(values)}")
    return values[0], values[1]
