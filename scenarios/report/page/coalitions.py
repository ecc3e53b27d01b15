"""The picture of what a coalition can take apart."""

from __future__ import annotations

import math

from protocol.audit.coalition.finding import CoalitionFinding
from scenarios.report.page import diagrams

DRAWN = 48
"""Up to so many parties are drawn one by one, more as groups; and so many groups at most."""

_WIDTH = 420
_SHAPES = (
    "Filled: the group's exact sum follows. Hollow: it does not. A diamond is a party by itself, "
    "whose own figures follow."
)


def graph(found: CoalitionFinding, key: str) -> dict[str, object]:
    """A picture of the sum that gives most away, and how to read it; empty if it shows nothing."""
    seen = [one for one in found.sums if one.components]
    if not seen:
        return {}
    drawn = min(seen, key=lambda one: one.smallest_component or math.inf)
    groups = sorted(drawn.components, key=lambda part: len(part.parties))
    insiders = found.coalition.members
    if sum(len(part.parties) for part in groups) <= DRAWN:
        parties = [
            diagrams.Party(name=name, group=place, determined=part.determined)
            for place, part in enumerate(groups)
            for name in part.parties
        ]
        legend = (
            "A line is a mask that it does not know; parties that lines connect are one group. "
            f"{_SHAPES}"
        )
        picture = diagrams.masks(key, insiders, parties, drawn.masks, width=_WIDTH)
        return {"pictures": (picture,), "legend": legend}
    shown = [
        diagrams.Component(
            label=part.parties[0] if len(part.parties) == 1 else f"{len(part.parties):,} parties",
            size=len(part.parties),
            determined=part.determined,
        )
        for part in groups[:DRAWN]
    ]
    if len(groups) == 1:
        return {}  # The lead says it all.
    more = len(groups) - len(shown)
    legend = (
        "Around it are the groups of parties whose masks hang together, the larger the more of "
        f"them. {_SHAPES}"
    )
    picture = diagrams.coalition(key, insiders, shown, more=more, width=_WIDTH)
    return {"pictures": (picture,), "legend": legend}
