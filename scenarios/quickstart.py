"""A small town answers four questions, one of them about its health: no download, a few seconds."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from protocol.variants import RRIndependent
from scenarios.datasets.town import town
from scenarios.running.scenario import Context, Finished, Scenario, parameters_checked


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set."""

    p: Annotated[float, Meta(gt=0, lt=1, description="probability of keeping an answer")] = 0.6
    residents: Annotated[
        int, Meta(ge=1, le=10_000_000, description="how many people live in the town")
    ] = 2000
    parties: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="over how many they are spread; one each"),
    ] = None


def run(parameters: Parameters, context: Context) -> Finished:
    """Every resident is a party with one record, unless ``parties`` says otherwise."""
    records = town(parameters.residents, seed=context.seed)
    with parameters_checked():
        variant = RRIndependent.with_keep(records.survey, parameters.p)
    return Finished(outcome=context.simulate(variant, records, parties=parameters.parties))


SCENARIOS = (
    Scenario(
        name="quickstart",
        summary="A small town with dependent attributes, made here: RR-Independent.",
        parameters=Parameters,
        run=run,
    ),
)

if __name__ == "__main__":
    from scenarios.cli import script

    script(__file__)
