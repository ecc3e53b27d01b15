"""``sottovoce attack --active``: honest parties against a lying aggregator and services."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from parties.keeping.writing import make_folder, write_whole
from protocol.crypto.randomness import WORDS
from protocol.errors import SurveyError, UsageError
from protocol.messages import AGGREGATOR, PartyId
from protocol.simulation.setting import service_names
from protocol.surveys.survey import shown
from protocol.variants import BUILT_IN
from protocol.wire.undecoded import Undecoded
from scenarios.cli.attacks.options import ACTIVE, AttackOptions
from scenarios.cli.engines import sweeping, write_found
from scenarios.cli.options import json_text, print_json, print_statement
from scenarios.running.loading import find_variant

if TYPE_CHECKING:
    from protocol.attack.active.active import ActiveAttack
    from protocol.session.variant import Variant
    from protocol.surveys.records import Records

SCRIPT = "script-{}.json"
"""The name of a finding's script in the folder of ``--out``, by its number from 1."""

EVERY = "all"
"""Word for all built-in variants."""


class KeptScript(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A script in a file, with all that plays it again.

    Args:
        variant: the name of the variant.
        parameters: its parameters, without the survey.
        survey: the survey.
        seed, target, hostile, trials, alpha: values from the command line.
        rule, what: the rule that the script refutes, and how.
        script: the script as plain values.
    """

    variant: str
    parameters: dict[str, Any]
    survey: dict[str, Any]
    seed: int
    target: int
    hostile: tuple[str, ...] | None = None
    trials: int | None
    alpha: float
    rule: str
    what: str
    script: dict[str, Any]


def attacked_actively(options: AttackOptions) -> int:
    """Attack one variant, or with ``EVERY`` all built-in ones; returns the exit code."""
    from scenarios.statement.attacks import active_values, state_active, state_every

    text = options.variant
    if text != EVERY:
        started = time.perf_counter()
        found, written = _attack(find_variant(text), options, options.out)
        said = state_active(text, found, written, seconds=time.perf_counter() - started)
        print_statement(said, as_json=options.as_json)
        return 1 if found.accused else 0
    if options.asked.settings or options.asked.survey_file is not None or options.hostile:
        raise UsageError("--set, --survey and --hostile are for one variant, not for all")
    every = []
    for name, cls in BUILT_IN.items():
        started = time.perf_counter()
        folder = None if options.out is None else options.out / name
        found, written = _attack(cls, options, folder)
        every.append((name, found, written, time.perf_counter() - started))
    if options.as_json:
        print_json([active_values(found) for _, found, _, _ in every])
    else:
        print_statement(state_every([found for _, found, _, _ in every]))
        for name, found, written, seconds in every:
            click.echo()
            said = state_active(name, found, written, seconds=seconds)
            print_statement(said)
    return 1 if any(found.accused for _, found, _, _ in every) else 0


def _attack(
    cls: type[Variant], options: AttackOptions, folder: Path | None
) -> tuple[ActiveAttack, list[Path]]:
    """Attack, and keep the script of each finding."""
    from protocol.attack.active.active import attack_actively
    from protocol.session.variant import plain_parameters
    from scenarios.running.engines.sweep import sweep_description
    from scenarios.statement.attacks import active_values

    made, records = options.asked.make(cls)
    numbers = {"scripts": options.scripts, "trials": options.trials}
    limits: dict[str, Any] = {
        "target": check_place(options.target, records, "--target"),
        "hostile": find_hostile(options.liars, made, "--hostile"),
        "seed": options.seed,
        "alpha": options.alpha,
        **{name: number for name, number in numbers.items() if number is not None},
    }
    about = sweep_description(
        "attack --active",
        cls,
        variant=made.name,
        parameters=plain_parameters(made),
        survey=msgspec.to_builtins(made.survey),
        **limits,
    )
    result = None if folder is None else folder / ACTIVE
    with sweeping(made.name, options.engine, result, about, silent=options.as_json) as sweep:
        found = attack_actively(made, records, **limits, carried=sweep)
        written = []
        if result is not None and folder is not None:
            written = _write_scripts(folder, made, found, options)
            write_found(sweep, result, json_text(active_values(found)))
    return found, written


def find_hostile(
    names: Collection[str] | None, made: Variant, where: str
) -> tuple[PartyId, ...] | None:
    """The hostile members, checked; None for the aggregator and all services."""
    serving = (AGGREGATOR, *service_names(made.roles))
    for name in names or ():
        if name not in serving:
            raise UsageError(f"{where} {shown(name)}: expected some of {', '.join(serving)}")
    return None if names is None else tuple(name for name in serving if name in names)


def check_place(number: int, records: Records, where: str) -> int:
    """The target's place, from the number of its party."""
    if not 1 <= number <= len(records):
        raise UsageError(f"{where} {number}: expected 1 to {len(records)}")
    return number - 1


def _write_scripts(
    folder: Path, made: Variant, found: ActiveAttack, options: AttackOptions
) -> list[Path]:
    from protocol.session.variant import plain_parameters

    written = []
    for number, finding in enumerate(found.findings, 1):
        kept = KeptScript(
            variant=made.name,
            parameters=plain_parameters(made),
            survey=msgspec.to_builtins(made.survey),
            seed=options.seed,
            target=options.target,
            hostile=options.liars,
            trials=options.trials,
            alpha=options.alpha,
            rule=finding.rule,
            what=finding.what,
            script=msgspec.to_builtins(finding.script),
        )
        path = folder / SCRIPT.format(number)
        make_folder(folder)
        write_whole(path, json_text(msgspec.to_builtins(kept)) + "\n", private=True)
        written.append(path)
    return written


def replayed(text: str, path: Path, *, as_json: bool) -> int:
    """Play a script of a file again; returns the exit code.

    Args:
        text: the variant as a person names it.
    """
    from protocol.attack.active.active import replay_script
    from protocol.attack.active.script import Script
    from protocol.session.variant import build
    from scenarios.cli.example_variants import varied_respondents
    from scenarios.statement.attacks import finding_values, state_replayed

    cls, kept = find_variant(text), read_script(path)
    if kept.variant != cls.name:
        raise UsageError(f"{path}: a script for {kept.variant!r}, not for {cls.name!r}")
    try:
        script = msgspec.convert(kept.script, Script)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: not a script: {Undecoded.of(error)}") from error
    try:
        made = build(cls, parameters=kept.parameters, survey=kept.survey)
        records = varied_respondents(made.survey)
    except SurveyError as error:
        raise UsageError(f"{path}: {error}") from error
    if not 0 <= kept.seed < WORDS:
        raise UsageError(f"{path}: seed {kept.seed}: expected 0 to 2**64 - 1")
    target = check_place(kept.target, records, f"{path}: target")
    found = replay_script(
        made,
        records,
        script,
        target=target,
        hostile=find_hostile(kept.hostile, made, f"{path}: hostile"),
        seed=kept.seed,
        trials=kept.trials,
        alpha=kept.alpha,
    )
    if as_json:
        print_json([finding_values(one) for one in found])
    else:
        print_statement(state_replayed(script, found))
    return 1 if found else 0


def read_script(path: Path) -> KeptScript:
    """The script in a file.

    Raises:
        UsageError: the file is not a script; the message says where.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=KeptScript)
    except msgspec.MsgspecError as error:
        raise UsageError(f"{path}: not a script of an attack: {Undecoded.of(error)}") from error
