"""``sottovoce tabulate``: many people by law, on an engine."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import click

from parties.keeping.record_names import RECORD_FILES, RESULT, TRANSCRIPT
from parties.keeping.records import write_result
from parties.keeping.writing import make_folder
from protocol.errors import CannotTabulateError, UsageError
from protocol.estimators.inference.intervals import Intervals
from protocol.estimators.projection import Projection
from protocol.sharing.sums import find_secure_sum
from scenarios.cli.engines import EngineChoice, going_on_from
from scenarios.cli.estimates import calibration_options, interval_options
from scenarios.cli.numbers import Count
from scenarios.cli.options import (
    clear,
    details_option,
    force_option,
    json_option,
    json_text,
    print_statement,
)
from scenarios.cli.paths import WrittenFolder
from scenarios.cli.scenario import ScenarioOptions
from scenarios.cli.values import frozen_options, option, part, shared, takes
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
from scenarios.surveys.watching.bars import ongoing
from scenarios.wording.formatting import count


@frozen_options
class TabulateOptions:
    """The options of ``sottovoce tabulate``."""

    n: int = option(
        "--n", type=Count(MAX_PEOPLE), required=True, help="How many people; 1e9 will do."
    )
    cohort: int = option(
        "--cohort",
        type=Count(MAX_COHORT),
        default=COHORT,
        show_default=True,
        help="Number of respondents in one task. The digest depends on it.",
    )
    engine: EngineChoice = part(EngineChoice)
    asked: ScenarioOptions = part(ScenarioOptions)
    out: Path | None = option(
        "--out",
        type=WrittenFolder(*RECORD_FILES, COHORTS),
        help=f"The folder for {RESULT}, and while the work is under way for {COHORTS}: the same "
        "command goes on from there if it was interrupted. An earlier simulation there "
        f"is replaced, its {TRANSCRIPT} too. By default nothing is written.",
    )
    force: bool = shared(force_option)
    calibration: Calibration = shared(calibration_options)
    intervals: Intervals = shared(interval_options("population"))
    as_json: bool = shared(json_option)
    details: bool = shared(details_option)

    @property
    def unfinished(self) -> Path | None:
        """The file of finished cohorts."""
        return None if self.out is None else self.out / COHORTS

    def known_seed(self) -> int:
        """The seed; an interrupted tabulation keeps its own."""
        known = None
        if self.asked.withheld and self.unfinished is not None:
            known = seed_in(self.unfinished)
        return self.asked.drawn_seed() if known is None else known

    def check(self, scenario: Scenario[Any], context: Context, surveyed: Surveyed) -> None:
        """Check the options against the scenario and each other, before anything runs.

        Raises:
            UsageError: options that do not fit the scenario or each other, or a parameter that has
                no effect.
        """
        self.calibration.check(surveyed.variant.survey)
        _check_heard(scenario, self.asked.parameters(), context, surveyed)
        if self.force and self.out is None:
            raise UsageError("--force: expected --out too")


@click.command("tabulate")
@takes(TabulateOptions)
def tabulate_(options: TabulateOptions) -> None:
    """Ask many people by law what SCENARIO asks: a name from 'sottovoce list', or PATH.py:NAME; or
    what a plan asks, PATH.toml, of people like those in --records.

    People are drawn from the scenario's law, or from its records with replacement, in cohorts;
    their reports are drawn and counted as in 'run'. Nobody is live and nothing is recorded. It is
    for variants whose reports follow from the question and the respondent's own record.
    """
    found, out, n = options.asked.load(), options.out, options.n
    seed = options.known_seed()
    parameters = found.configure(options.asked.parameters())
    context = Context(seed=seed, data=options.asked.data)
    asked = surveyed(found, parameters, context)
    projection = _projection(parameters)
    options.check(found, context, asked)
    if out is not None:
        make_folder(out)
        clear(out, force=options.force)
    try:
        with (
            going_on_from(options.unfinished),
            options.engine.open() as opened,
            ongoing(found.name, silent=options.as_json, each="people") as progress,
        ):
            cohorts = -(-n // options.cohort)
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
                cohort=options.cohort,
                seed=seed,
                engine=opened,
                parties=asked.parties if find_secure_sum(asked.variant) else None,
                path=options.unfinished,
                keep=True,
                progress=progress,
            )
    except CannotTabulateError as error:
        raise UsageError(str(error)) from error
    done = replace(done, calibration=options.calibration, withheld=options.asked.withheld)
    from scenarios.statement.tabulations import state_tabulation

    said = state_tabulation(found.name, done, projection, options.intervals)
    text = json_text({"scenario": found.name, "parameters": parameters, **said.values})
    if out is not None:
        write_result(out / TRANSCRIPT, text + "\n", recorded=False)
        remove_snapshot(out / COHORTS)
    if options.as_json:
        click.echo(text)
        return
    print_statement(said, details=options.details)
    if out is not None:
        click.echo(f"written: {out / RESULT}")


def _projection(parameters: Any) -> Projection:
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
        # Its default may depend on other parameters.
        if not any(is_heard({**rest, name: near}) for near in _near(value)):
            raise UsageError(
                f"parameter {name!r} has no effect here: neither the questions nor the population "
                "depend on it; leave it out"
            )


def _near(value: Any) -> tuple[int | float, ...]:
    """Other values of a numeric parameter to try; empty for other parameters."""
    text = str(value)
    with contextlib.suppress(ValueError):
        return (int(text) + 1,)
    with contextlib.suppress(ValueError):
        return (float(text) * 0.9,)
    return ()
