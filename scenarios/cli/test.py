"""``sottovoce test``: the contract of a variant, also under faults."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from protocol.errors import UsageError
from scenarios.cli.completion import complete_variant
from scenarios.cli.engines import EngineChoice, sweeping, write_found
from scenarios.cli.example_variants import ExampleOptions
from scenarios.cli.numbers import Whole
from scenarios.cli.options import json_option, json_text, print_json, seed_option
from scenarios.cli.paths import TEXT_WITH_FILE, WrittenFolder
from scenarios.cli.values import takes
from scenarios.files.pieces import PIECES
from scenarios.running.loading import find_variant

if TYPE_CHECKING:
    from protocol.testing.contracts import Executor

TEST = "test.json"
"""The name of a test's result in the folder of ``--out``."""

RESPONDENTS = 10


@click.command()
@click.argument("variant", type=TEXT_WITH_FILE, shell_complete=complete_variant)
@click.option(
    "--schedules",
    type=Whole(1, 10**6),
    default=20,
    show_default=True,
    help="Number of fault schedules, each worse than the one before of its kind.",
)
@click.option(
    "--parties",
    type=Whole(1, RESPONDENTS),
    help=f"Number of parties that the {RESPONDENTS} records are spread over.  [default: one each]",
)
@click.option(
    "--rare",
    multiple=True,
    metavar="KIND",
    help="A kind of message that is sent only because of a fault; repeat for each.",
)
@takes(ExampleOptions, "asked")
@seed_option
@click.option(
    "--out",
    type=WrittenFolder(TEST, PIECES),
    help=f"The folder for {TEST}. If the test is ended midway, the same command does the rest.",
)
@takes(EngineChoice, "engine")
@json_option
def test(
    variant: str,
    schedules: int,
    parties: int | None,
    rare: tuple[str, ...],
    asked: ExampleOptions,
    seed: int,
    out: Path | None,
    engine: EngineChoice,
    as_json: bool,
) -> int:
    """Test VARIANT, a name or PATH.py:Class: its contract, and seeded fault schedules.

    These are the checks of protocol.testing that its author runs in her own tests: contract, in
    this process, and under_faults, whose runs are spread over the engine. Exit 1 if something does
    not hold: the first failure is printed, and the same command finds it again.
    """
    from protocol.session.variant import plain_parameters
    from protocol.testing import check_under_faults, check_variant
    from scenarios.report.audited import EXECUTORS
    from scenarios.running.engines.sweep import sweep_description

    cls = find_variant(variant)
    made, records = asked.make(cls, respondents=RESPONDENTS)
    kinds = {kind.name: kind.message for kind in made.kinds(parties or len(records))}
    for name in rare:
        if name not in kinds:
            raise UsageError(f"--rare {name}: expected one of {', '.join(kinds)}")
    values = {
        "variant": made.name,
        "parameters": plain_parameters(made),
        "respondents": len(records),
        "parties": parties or len(records),
        "schedules": schedules,
        "seed": seed,
    }
    failed, failure = None, None
    unseen: tuple[str, ...] = ()
    about = sweep_description("test", cls, survey=made.survey.digest.hex(), **values)
    result = None if out is None else out / TEST
    with sweeping(made.name, engine, result, about, silent=as_json) as sweep:
        checked = "contract"
        try:
            unseen = check_variant(
                made,
                records,
                # The contract names audits without types.
                executors=cast("Mapping[str, Executor]", EXECUTORS),
                parties=parties,
                rare=[kinds[name] for name in rare],
                seed=seed,
            )
            checked = "faults"
            check_under_faults(
                made, records, schedules=schedules, parties=parties, seed=seed, carried=sweep
            )
        except AssertionError as error:
            failed, failure = checked, str(error)
        found = {
            **values,
            "holds": failure is None,
            "failed": failed,
            "failure": failure,
            "unseen": unseen,
        }
        if result is not None:
            write_found(sweep, result, json_text(found))
    if as_json:
        print_json(found)
    elif failure is None:
        click.echo(
            f"{made.name} holds: its contract with {len(records)} respondents, and {schedules} "
            f"fault schedules; seed {seed}"
        )
        for why in unseen:
            click.echo(f"  not looked at: {why}")
    else:
        where = "its contract" if failed == "contract" else "a fault schedule"
        click.echo(f"{made.name} fails {where}: {failure}; seed {seed}")
    return 0 if failure is None else 1
