"""The intervals of an estimate as JSON has them, and as a page does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.laws import Interval
from protocol.estimators.inference.words import Intervals, Shown, decimals
from protocol.estimators.tables import Table
from scenarios.wording.formatting import signed


def in_percent(shares: Collection[Shown]) -> Callable[[float], str]:
    """Writes shares in percent, without the sign, with the decimals that their intervals need."""
    digits = decimals(shares, least=3, digits=1) - 2
    return lambda share: signed(100 * share, digits)


def decimal(figures: Collection[Shown]) -> Callable[[float], str]:
    """Writes numbers with the decimals that their intervals need."""
    digits = decimals(figures, least=0)
    return lambda value: signed(value, digits)


def interval_values(
    estimate: Estimate,
    intervals: Intervals,
    marginals: Iterable[Table],
    pairs: Iterable[Table] | None = None,
) -> dict[str, Any]:
    """Intervals as JSON has them, with their level and what they are about; null where unknown.

    Args:
        estimate: its means have intervals too.
        intervals: which ones.
        marginals: its tables of single attributes.
        pairs: those of pairs, if their intervals are wanted.
    """
    means = estimate.attribute_means()
    return {
        "level": intervals.level,
        "about": intervals.about,
        "marginals": {
            table.names[0]: _by_category(table, intervals.of(table)) for table in marginals
        },
        **(
            {}
            if pairs is None
            else {
                "pairs": [
                    {"attributes": table.names, **intervals.of(table)._asdict()} for table in pairs
                ]
            }
        ),
        **(
            {"means": {name: intervals.of(mean)._asdict() for name, mean in means.items()}}
            if means
            else {}
        ),
    }


def _by_category(table: Table, found: Interval) -> dict[str, dict[str, float]]:
    ends = zip(table.categories[0], found.low.tolist(), found.high.tolist(), strict=True)
    return {category: {"low": low, "high": high} for category, low, high in ends}
