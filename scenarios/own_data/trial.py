"""A trial: the survey of a plan on a person's own records, run here as a scenario is."""

from __future__ import annotations

from pathlib import Path

from scenarios.deployment.survey_plan import Plan
from scenarios.running.parameters import Spread
from scenarios.running.scenario import Context, Finished, Scenario

LIVE = 100
"""Over how many parties records are spread, if nothing else is asked for."""


class OnOwnRecords(Spread, frozen=True, kw_only=True):
    """How a trial is held.

    Args:
        parties: over how many the records are spread; 100, or one each where there are fewer.
        drop: share of parties that vanish.
        project: of the tables reported: none, clip, simplex or em.
    """


def trial_of(plan: Plan, name: str, records: Path) -> Scenario[OnOwnRecords]:
    """The survey of a plan on the records of a file.

    Args:
        plan: says what is asked, how, and how the file is read.
        name: what the trial is called.
        records: the file.
    """

    def run(parameters: OnOwnRecords, context: Context) -> Finished:
        held = plan.coding.records(records)
        parties = parameters.parties or min(LIVE, len(held))
        outcome = context.simulate(
            plan.variant, held, parties=parties, drop=parameters.drop, analysis=plan.analysis
        )
        return Finished(outcome=outcome, projection=parameters.project)

    return Scenario(
        name=name,
        summary=f"A trial of {name} on {records}.",
        parameters=OnOwnRecords,
        run=run,
    )
