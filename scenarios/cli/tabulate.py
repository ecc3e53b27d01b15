"""``sottovoce tabulate``: many people by law, on an engine."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import click

from parties.keeping.record_names import RECORD_FILES, RESULT, TRANSCRIPT
from parties.keeping.records import write_result
from parties.keeping.writing import make_folder
from protocol.errors import CannotTabulateError, UsageError
from protocol.estimators.inference.words import Intervals
from protocol.estimators.projection import Projection
from scenarios.cli.completion import complete_scenario, complete_scenario_setting
from scenarios.cli.engines import EngineChoice, engine_options, going_on_from
from scenarios.cli.estimates import calibration_options, interval_options
from scenarios.cli.numbers import Count
from scenarios.cli.options import (
    clear,
    config_option,
    data_option,
    force_option,
    json_option,
    json_text,
    print_statement,
    records_option,
    set_option,
    trial_seed_option,
    values_in,
)
from scenarios.cli.paths import TEXT_WITH_FILE, WrittenFolder
from scenarios.files.cohorts_done import COHORTS, remove_snapshot, seed_in
from scenarios.running.calibrating import Calibration
from scenarios.running.scenario import Context, Scenario
from scenarios.running.tabulating import (
    COHORT,
    MAX_COHORT,
    MAX_PEOPLE,
    Surveyed,
    surveyed,
    tabulate,
)
from scenarios.surveys.trial import scenario_or_trial
from scenarios.surveys.watching.bars import ongoing
from scenarios.wording.formatting import count


@click.command("tabulate")
@click.argument("scenario", type=TEXT_WITH_FILE, shell_complete=complete_scenario)
@click.option("--n", type=Count(MAX_PEOPLE), required=True, help="How many people; 1e9 will do.")
@click.option(
    "--cohort",
    type=Count(MAX_COHORT),
    default=COHORT,
    show_default=True,
    help="Of how many people one task is. The digest depends on it.",
)
@engine_options
@set_option(complete_scenario_setting)
@config_option
@data_option
@records_option
@trial_seed_option
@click.option(
    "--out",
    type=WrittenFolder(*RECORD_FILES, COHORTS),
    help=f"The folder for {RESULT}, and while the work is under way for {COHORTS}: the same "
    "command goes on from there if it was interrupted. An earlier simulation there "
    f"is replaced, its {TRANSCRIPT} too. By default nothing is written.",
)
@force_option
@calibration_options
@interval_options("population")
@json_option
def tabulate_(
    scenario: str,
    n: int,
    cohort: int,
    engine: EngineChoice,
    settings: dict[str, str],
    config: Path | None,
    data: Path | None,
    records: Path | None,
    seed: int | None,
    out: Path | None,
    force: bool,
    calibration: Calibration,
    intervals: Intervals,
    as_json: bool,
) -> None:
    """Ask many people by law what SCENARIO asks: a name from 'sottovoce list', or PATH.py:NAME; or
    what a plan asks, PATH.toml, of people like those in --records.

    People are drawn from the scenario's law, or from its records with replacement, in cohorts;
    their reports are drawn and counted as in 'run'. Nobody is live and nothing is recorded. It is
    for variants whose reports follow from the question and the respondent's own record.
    """
    found, withheld = scenario_or_trial(scenario, records), records is not None and seed is None
    file = None if out is None else out / COHORTS
    if seed is None:
        # What was interrupted goes on with the seed that was drawn for it.
        known = seed_in(file) if withheld and file is not None else None
        seed = known if known is not None else secrets.randbits(64) if withheld else 1
    given = (values_in(config) if config else {}) | settings
    parameters = found.configure(given)
    context = Context(seed=seed, data=data)
    asked = surveyed(found, parameters, context)
    calibration.check(asked.variant.survey)
    projection = _projection(parameters)
    _check_heard(found, given, context, asked)
    if force and out is None:
        raise UsageError("--force: expected --out too")
    if out is not None:
        make_folder(out)
        clear(out, force=force)
    try:
        with (
            going_on_from(file),
            engine.open() as opened,
            ongoing(found.name, silent=as_json, each="people") as progress,
        ):
            cohorts = -(-n // cohort)
            if cohorts < opened.jobs:
                click.echo(
                    f"{count(cohorts, 'cohort')} for {opened.jobs} workers: a smaller --cohort "
                    "occupies all of them, and gives another digest",
                    err=True,
                )
            done = tabulate(
                asked.variant,
                asked.population,
                n=n,
                cohort=cohort,
                seed=seed,
                engine=opened,
                path=file,
                keep=True,
                progress=progress,
            )
    except CannotTabulateError as error:
        raise UsageError(str(error)) from error
    done = replace(done, calibration=calibration, withheld=withheld)
    from scenarios.statement.tabulations import state_tabulation

    said = state_tabulation(found.name, done, projection, intervals)
    text = json_text({"scenario": found.name, "parameters": parameters, **said.values})
    if out is not None:
        write_result(out / TRANSCRIPT, text + "\n", recorded=False)
        remove_snapshot(out / COHORTS)
    if as_json:
        click.echo(text)
        return
    print_statement(said)
    if out is not None:
        click.echo(f"written: {out / RESULT}")


def _projection(parameters: Any) -> Projection:
    """The projection that a scenario's own parameter asks for."""
    asked: Any = getattr(parameters, "project", "none")
    if asked not in get_args(Projection):
        known = ", ".join(get_args(Projection))
        raise UsageError(f"parameter 'project' = {asked!r}: expected one of {known} by law")
    projection: Projection = asked
    return projection


def _check_heard(
    scenario: Scenario[Any], given: dict[str, Any], context: Context, asked: Surveyed
) -> None:
    """Refuse a parameter that changes neither the variant nor the population.

    Raises:
        UsageError: names it.
    """

    def is_heard(others: dict[str, Any]) -> bool:
        try:
            other = surveyed(scenario, scenario.configure(others), context)
        except UsageError:
            return True
        own = asked.variant, asked.population.digest
        return (other.variant, other.population.digest) != own

    for name, value in given.items():
        rest = {other: kept for other, kept in given.items() if other != name}
        if name == "project" or is_heard(rest):
            continue
        if scenario.configure(rest) == scenario.configure(given):
            continue
        # What it is by default may follow from others.
        if not any(is_heard({**rest, name: near}) for near in _near(value)):
            raise UsageError(
                f"parameter {name!r} has no effect on people by law: what they are asked and whom "
                "they are drawn from stay the same; leave it out"
            )


def _near(value: Any) -> tuple[int | float, ...]:
    """Another value of a parameter that is a number; none of another one."""
    text = str(value)
    with contextlib.suppress(ValueError):
        return (int(text) + 1,)
    with contextlib.suppress(ValueError):
        return (float(text) * 0.9,)
    return ()
