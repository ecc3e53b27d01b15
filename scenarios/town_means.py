"""Ages and incomes of a made-up town, on grids: and their means."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from protocol.crypto.randomness import Stream
from protocol.simulation.populations.population import Law
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from protocol.variants import NumericMean
from scenarios.running.parameters import Positive
from scenarios.running.scenario import Context, Scenario

NUMBERS = Survey(
    "Ages and incomes",
    (
        Attribute(name="age", categories=tuple(map(str, range(18, 99, 2))), ordinal=True),
        Attribute(name="income", categories=tuple(map(str, range(0, 8001, 250))), ordinal=True),
    ),
)
"""The age in years, and the income in euros a month, of a resident."""


def residents(context: Context, residents: Positive = 20_000) -> Records:
    """Everybody who lives in the town.

    Each number is the smallest of several even draws from its grid, two for the age and three for
    the income. So small numbers are more frequent.

    Args:
        residents: how many people live in the town.
    """
    law = Law(NUMBERS, "the law of the town's ages and incomes", _draw_residents)
    return context.drawn(_residents(residents, context.stream), law)


def _draw_residents(k: int, stream: Stream) -> Records:
    return _residents(k, stream.derive)


def _residents(k: int, stream: Callable[[str], Stream]) -> Records:
    columns = []
    for name, size, draws in zip(NUMBERS.names, NUMBERS.sizes, (2, 3), strict=True):
        drawn = stream(f"numbers {name}").integers(size, draws * k)
        columns.append(drawn.reshape(-1, draws).min(axis=1))
    return Records(NUMBERS, np.stack(columns, axis=1).astype(np.int64))


SCENARIOS = (
    Scenario.of(
        NumericMean,
        name="town-means",
        summary="Mean age and income of a town, made here: one bit, or the piecewise mechanism.",
        records=residents,
        names=("mechanism", "epsilon", "residents", "parties"),
        joint=False,
        epsilon=2.0,
        parties=100,
    ),
)

if __name__ == "__main__":
    from scenarios.cli import script

    script(__file__)
