"""A small town answers four questions, one of them about its health: no download, a few seconds."""

from __future__ import annotations

from protocol.surveys.records import Records
from protocol.variants import RRIndependent
from scenarios.data.town import town, town_population
from scenarios.running.parameters import Positive
from scenarios.running.scenario import Context, Scenario


def residents(context: Context, residents: Positive = 2500) -> Records:
    """Everybody who lives in the town.

    Args:
        residents: how many people live in the town.
    """
    return context.drawn(town(residents, seed=context.seed), town_population())


SCENARIOS = (
    Scenario.of(
        RRIndependent.with_keep,
        name="quickstart",
        summary="A small town with dependent attributes, made here: RR-Independent.",
        records=residents,
        names=("p", "residents", "parties"),
        p=0.25,
    ),
)

if __name__ == "__main__":
    from scenarios.cli import script

    script(__file__)
