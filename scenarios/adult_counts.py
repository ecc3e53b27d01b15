"""Secure sums on Adult: exact counts of attributes or pairs, or sums of randomized pairs."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from protocol.estimators.projection import Projection
from protocol.sharing.sums import Profile, SecureSum
from protocol.variants import PairCounts, PairRR, SecureSumVariant
from protocol.variants.sums.tallies import Tallied
from scenarios.adult_reports import DEFAULT_P, Keep, Positive, adult_records
from scenarios.running.scenario import Context, Finished, Scenario, parameters_checked
from transports.faults import crash

Counted = Literal["attributes", "pairs", "randomized-pairs"]
"""The variants ``secure-sum``, ``pair-counts`` and ``pair-rr``."""

LAST_WORDS = {"literal": "Partial", "sparse": "Upload"}
"""Before what a party vanishes, by profile: its contribution."""


class Parameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set."""

    counted: Annotated[Counted, Meta(description="attributes, pairs or randomized-pairs")] = (
        "attributes"
    )
    p: Annotated[Keep, Meta(description="of keeping a pair, if pairs are randomized")] = DEFAULT_P
    profile: Annotated[Profile, Meta(description="sparse or literal")] = "sparse"
    everyone: Annotated[bool, Meta(description="every party gets the total and checks it")] = False
    corrupt: Annotated[float, Meta(ge=0, lt=1, description="share that may be corrupt")] = 0.05
    dropped: Annotated[float, Meta(ge=0, lt=1, description="share that may vanish")] = 0.1
    security: Annotated[int, Meta(ge=2, le=256, description="bits of the bound")] = 40
    parties: Annotated[Positive, Meta(description="over how many the records are spread")] = 100
    records: Annotated[Positive | None, Meta(description="how many to take; all by default")] = None
    drop: Annotated[
        float, Meta(ge=0, lt=1, description="share of parties that vanish before they contribute")
    ] = 0.0
    project: Annotated[
        Projection, Meta(description="of the tables reported: none, clip or simplex")
    ] = "none"


def run(parameters: Parameters, context: Context) -> Finished:
    """Sum the tables of all parties."""
    records = adult_records(context, records=parameters.records, parties=parameters.parties)
    sums = SecureSum(
        profile=parameters.profile,
        corrupt=parameters.corrupt,
        dropped=parameters.dropped,
        security=parameters.security,
    )
    variant: Tallied
    with parameters_checked():
        degree = sums.degree(parameters.parties)
        match parameters.counted:
            case "attributes":
                variant = SecureSumVariant(
                    survey=records.survey, sums=sums, everyone=parameters.everyone
                )
            case "pairs":
                variant = PairCounts(survey=records.survey, sums=sums, everyone=parameters.everyone)
            case "randomized-pairs":
                variant = PairRR.with_keep(records.survey, parameters.p, sums=sums)
                variant = msgspec.structs.replace(variant, everyone=parameters.everyone)
    kind = LAST_WORDS[parameters.profile]
    rules = (crash(parameters.drop, kind=kind),) if parameters.drop else ()
    outcome = context.simulate(variant, records, parties=parameters.parties, rules=rules)
    return Finished(
        outcome=outcome,
        projection=parameters.project,
        notes=(
            f"{variant.layout.cells:,} cells; every party has {degree.neighbours} neighbours, of "
            f"whom {degree.threshold} are needed to unmask.",
        ),
    )


SCENARIOS = (
    Scenario(
        name="adult-counts",
        summary="Adult, secure sums: exact counts of attributes or pairs, or of randomized pairs.",
        parameters=Parameters,
        run=run,
        joint=False,
    ),
)

if __name__ == "__main__":
    from scenarios.cli import script

    script(__file__)
