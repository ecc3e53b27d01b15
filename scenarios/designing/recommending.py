"""The ways to ask that are recommended of all that apply, by one rule."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from scenarios.designing.designing import Row

ALIKE = 1.05
"""Errors up to this multiple of the least count as equal."""

RULE = (
    "Recommended is the least epsilon that is good and holds whoever conspires; if none is good, "
    "the least error that such an epsilon allows. The most private is the least such epsilon that "
    "is fair. The most exact is the least error that any epsilon bounds, even if that rests on "
    "honest others. Of errors within 5 % of the least, that one wins which rests on nobody else, "
    "then the one of less epsilon, by a page link, in fewer rounds, with fewer bytes. "
    "Designs that end without a result if parties vanish, and exact counts, are left out."
)
"""The rule, in sentences."""

PICKS = ("recommended", "most_private", "most_exact")
"""The names of the picks, as in JSON."""


class Recommendation(NamedTuple):
    """Picks from all ways to ask, by ``RULE``.

    Args:
        recommended: None if no way that rests on nobody else is likely to end with a result.
        most_private: None if no such way is known to be fair or better.
        most_exact: None if nothing that an epsilon bounds is likely to end with a result.
    """

    recommended: Row | None
    most_private: Row | None
    most_exact: Row | None

    def named(self, row: Row) -> tuple[str, ...]:
        """The names of the picks that a row is."""
        return tuple(name for name, one in zip(PICKS, self, strict=True) if one is row)


def recommend(rows: Iterable[Row]) -> Recommendation:
    """Pick one way to ask from all, and two alternatives.

    A way that rests on honest others is never recommended, and never called the most private, as
    its epsilon is not comparable with one that holds whoever conspires.

    Args:
        rows: the ways, at one epsilon or several, in any order.
    """
    ending = [row for row in rows if row.dropouts.withstands and row.rests_on != "no bound"]
    alone = [row for row in ending if row.rests_on == "nothing"]
    good = [row for row in alone if row.usefulness == "good"]
    useful = [row for row in alone if row.usefulness in ("good", "fair")]
    known = [row for row in ending if row.certain or not row.prediction.runs]
    return Recommendation(
        _most_exact(_least_cost(good) or alone),
        _most_exact(_least_cost(useful)),
        _most_exact(known or ending),
    )


def _least_cost(rows: Sequence[Row]) -> list[Row]:
    least = min((row.cost for row in rows), default=0.0)
    return [row for row in rows if row.cost == least]


def _most_exact(rows: Sequence[Row]) -> Row | None:
    """The row with the least error; among similar ones, the row that asks least of people."""
    least = min((row.prediction.rmse for row in rows), default=0.0)
    alike = [row for row in rows if row.prediction.rmse <= ALIKE * least]
    return min(alike, key=_asks, default=None)


def _asks(row: Row) -> tuple[bool, float, bool, float, float]:
    """Sort key by how much a way asks of people."""
    traffic = row.traffic
    rounds, bits = (math.inf, 0.0) if traffic is None else (traffic.rounds, traffic.bits)
    return row.rests_on != "nothing", row.cost, not row.by_page, rounds, bits
