"""A trial: the survey of a plan on a person's own records, run here as a scenario is."""

from __future__ import annotations

import functools
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from protocol.errors import UsageError
from protocol.surveys.records import Records
from scenarios.running.loading import find_scenario
from scenarios.running.parameters import Spread
from scenarios.running.scenario import Context, Finished, Scenario

if TYPE_CHECKING:
    from scenarios.surveys.survey_plan import Plan

LIVE = 100
"""Over how many parties records are spread, if nothing else is asked for."""

MANY = 5_000
"""Number of live parties from which their cost is announced."""

_TABLES = (".csv", ".tsv", ".txt", ".parquet")
"""Suffixes of tables."""

_SECONDS, _BYTES = 0.5e-3, 14e3
"""Minimum cost of a live party, measured with eight attributes and one report each."""


class OnOwnRecords(Spread, frozen=True, kw_only=True):
    """Setup of a trial.

    Args:
        parties: over how many the records are spread; 100, or one each where there are fewer.
        drop: share of parties that vanish.
        project: of the tables reported: none, clip, simplex or em.
    """


def make_trial(plan: Plan, name: str, records: Path) -> Scenario[OnOwnRecords]:
    """The survey of a plan on the records of a file.

    Args:
        plan: says what is asked, how, and how the file is read.
        name: what the trial is called.
        records: the file; it is read once.
    """

    @functools.cache
    def read() -> tuple[Records, list[str] | None]:
        return plan.records_by_stratum(records)

    def run(parameters: OnOwnRecords, context: Context) -> Finished:
        held, strata = read()
        parties = parameters.parties or min(LIVE, len(held))
        outcome = context.simulate(
            plan.variant,
            held,
            parties=parties,
            drop=parameters.drop,
            analysis=plan.analysis,
            strata=strata,
        )
        return Finished(outcome=outcome, projection=parameters.project)

    return Scenario(
        name=name,
        summary=f"A trial of {name} on {records}.",
        parameters=OnOwnRecords,
        run=run,
        fixed="; what the plan fixes is changed in the plan",
    )


def scenario_or_trial(name: str, records: Path | None) -> Scenario[Any]:
    """The scenario of this name, or a trial of a plan.

    Args:
        name: of the scenario, or the path of the plan, which ends in ``.toml``.
        records: the file that a plan is tried on.

    Raises:
        UsageError: there is no such scenario, the plan cannot be read, or records are given for a
            scenario or none for a plan.
    """
    if Path(name).suffix.lower() in _TABLES:
        raise UsageError(
            f"{name}: a table; expected a plan, with the table as --records "
            f"('sottovoce plan --from {shlex.quote(name)}' proposes one)"
        )
    if not name.endswith(".toml"):
        if records is not None:
            raise UsageError(f"{name}: expected a plan, .toml, that is tried on --records")
        return find_scenario(name)
    if records is None:
        raise UsageError(f"{name}: a plan; expected --records too, the answers to try it on")
    from scenarios.surveys.survey_plan import read_plan

    return make_trial(read_plan(name), Path(name).stem, records)


def trial_cost(parties: int) -> str | None:
    """Sentence on the cost of so many live parties; None for a few."""
    if parties < MANY:
        return None
    seconds, gigabytes = parties * _SECONDS, parties * _BYTES / 1e9
    return (
        f"{parties:,} live parties take {seconds:,.0f} s and {gigabytes:.1f} GB or more; with "
        "fewer parties each holds more answers"
    )
