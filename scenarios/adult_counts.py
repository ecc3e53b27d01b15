"""Secure sums on Adult: exact counts of attributes or pairs, or sums of randomized pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from protocol.session.variant import Probability
from protocol.sharing.sums import SecureSum
from protocol.variants import PairCounts, PairRR, SecureSumVariant
from protocol.variants.sums.tallies import Tallied
from scenarios.adult_reports import DEFAULT_P, OnAdult, adult_records
from scenarios.running.parameters import Positive, made, parameters_checked, settable
from scenarios.running.scenario import Context, Finished, Scenario

Counted = Literal["attributes", "pairs", "randomized-pairs"]
"""The variants ``secure-sum``, ``pair-counts`` and ``pair-rr``."""

MAKERS: Mapping[Counted, Callable[..., Tallied]] = {
    "attributes": SecureSumVariant,
    "pairs": PairCounts,
    "randomized-pairs": PairRR.with_keep,
}
"""What counts what."""

NAMES = ("counted", "p", "profile", "everyone", "corrupt", "dropped", "security", "parties")


class Parameters(OnAdult, frozen=True, kw_only=True):
    """What can be set.

    Args:
        counted: attributes, pairs or randomized-pairs.
        p: of keeping a pair, if pairs are randomized.
        parties: over how many the records are spread.
        drop: share of parties that vanish before they contribute.
    """

    counted: Counted = "attributes"
    p: Probability = DEFAULT_P
    parties: Positive = 100


def run(parameters: Parameters, context: Context) -> Finished:
    """Sum the tables of all parties."""
    records = adult_records(context, parameters)
    sums = made(SecureSum, parameters)
    with parameters_checked():
        degree = sums.degree(parameters.parties)
    variant = made(MAKERS[parameters.counted], parameters, survey=records.survey, sums=sums)
    outcome = context.simulate(variant, records, parties=parameters.parties, drop=parameters.drop)
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
        parameters=settable(
            Parameters, Tallied, SecureSum, names=(*NAMES, "records", "drop", "project")
        ),
        run=run,
        joint=False,
    ),
)

if __name__ == "__main__":
    from scenarios.cli import script

    script(__file__)
