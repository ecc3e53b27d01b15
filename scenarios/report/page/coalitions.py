"""Pictures of the sums that a coalition can resolve."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from protocol.audit.coalition.finding import CoalitionFinding, Component
from scenarios.report.page.svg import element, picture, text
from scenarios.report.page.words import words
from scenarios.wording.formatting import count, rest

DRAWN = 48
"""Maximum number of parties drawn one by one, and of groups; more parties are drawn as groups."""

_WIDTH = 420


def graph(found: CoalitionFinding, key: str) -> dict[str, object]:
    """Picture of the sum that reveals most, with its legend; empty if there is nothing to draw."""
    seen = [one for one in found.sums if one.components]
    if not seen:
        return {}
    known = words()["result"]["coalition"]
    drawn = min(seen, key=lambda one: one.smallest_component or math.inf)
    groups = sorted(drawn.components, key=lambda part: len(part.parties))
    insiders = found.coalition.members
    if sum(len(part.parties) for part in groups) <= DRAWN:
        drawing = masks(key, insiders, groups, drawn.masks)
        legend = known["masks"]["legend"]
    elif len(groups) > 1:
        drawing = around(key, insiders, groups[:DRAWN], more=max(len(groups) - DRAWN, 0))
        legend = known["groups"]["legend"]
    else:
        return {}  # The lead is enough.
    return {"pictures": (drawing,), "legend": f"{legend} {known['shapes']}"}


def masks(
    key: str,
    insiders: Sequence[str],
    groups: Sequence[Component],
    pairs: Sequence[tuple[str, str]],
) -> Markup:
    """Every honest party on a circle, groups together, and the masks between them.

    Args:
        key: prefix of its ids.
        insiders: the coalition.
        groups: the honest parties.
        pairs: pairs of parties, by name, that share a mask unknown to the coalition.
    """
    parties = [(name, group) for group in groups for name in group.parties]
    # A gap between groups as wide as a party.
    slots = len(parties) + (len(groups) if len(groups) > 1 else 0)
    named = len(parties) <= 24
    radius, centre = _WIDTH * (0.33 if named else 0.45), _WIDTH / 2
    places: dict[str, tuple[float, float]] = {}
    marks: list[Markup] = []
    slot = 0
    for name, group in parties:
        slot += bool(places) and name == group.parties[0]
        angle = 2 * math.pi * slot / max(slots, 1) - math.pi / 2
        slot += 1
        x, y = centre + radius * math.cos(angle), centre + radius * math.sin(angle)
        places[name] = x, y
        marks.append(_mark(x, y, 7, determined=group.determined, alone=len(group.parties) == 1))
        if named:
            out = radius + 14
            tx, ty = centre + out * math.cos(angle), centre + out * math.sin(angle)
            side = (
                " middle" if abs(math.cos(angle)) < 0.3 else " end" if math.cos(angle) < 0 else ""
            )
            room = (_WIDTH - 2 * out) / 2 + out * (1 - abs(math.cos(angle))) - 4
            marks.append(text(tx, ty + 4, name, f"tag{side}", room=room, size=11))
    lines = [
        element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="mask")
        for a, b in pairs
        if a in places and b in places
        for (x1, y1), (x2, y2) in [(places[a], places[b])]
    ]
    known = words()["result"]["coalition"]["masks"]
    described = known["described"].format(
        parties=count(len(parties), "honest party", "honest parties"),
        groups=count(len(groups), "group"),
    )
    parts = [*lines, *marks, *_insiders(insiders, centre, _WIDTH * 0.11)]
    return picture(key, known["title"], described, (_WIDTH, _WIDTH), parts, class_="graph")


def around(key: str, insiders: Sequence[str], groups: Sequence[Component], *, more: int) -> Markup:
    """Groups of honest parties around the coalition, drawn by size.

    Args:
        key: prefix of its ids.
        insiders: the coalition.
        groups: the honest parties, the smallest group first.
        more: number of groups that are not drawn.
    """
    radius, centre = _WIDTH * 0.34, _WIDTH / 2
    largest = max((len(group.parties) for group in groups), default=1)
    parts: list[Markup] = []
    for i, group in enumerate(groups):
        size = len(group.parties)
        angle = 2 * math.pi * i / len(groups) - math.pi / 2
        x, y = centre + radius * math.cos(angle), centre + radius * math.sin(angle)
        room = min(_WIDTH * 0.11, 2.4 * radius / max(len(groups), 3))
        r = max(5.0, room * math.sqrt(size / largest))
        parts.append(element("line", x1=centre, y1=centre, x2=x, y2=y, class_="known"))
        parts.append(_mark(x, y, r, determined=group.determined, alone=size == 1))
        if len(groups) <= 12:
            label = group.parties[0] if size == 1 else f"{size:,} parties"
            below = math.sin(angle) > -0.2
            at = y + r + 14 if below else y - r - 6
            parts.append(text(x, at, label, "tag middle", room=_WIDTH * 0.26, size=11))
    known = words()["result"]["coalition"]["groups"]
    described = known["described"].format(
        groups=count(len(groups), "group"),
        more=known["more"].format(count=f"{more:,}") if more else "",
    )
    parts += _insiders(insiders, centre, _WIDTH * 0.11)
    return picture(key, known["title"], described, (_WIDTH, _WIDTH), parts, class_="graph")


def _mark(x: float, y: float, r: float, *, determined: bool, alone: bool) -> Markup:
    """A group or party; exposed ones are diamonds, to be told apart without colour."""
    if determined and alone:
        points = f"{x:.1f},{y - r - 2:.1f} {x + r + 2:.1f},{y:.1f} {x:.1f},{y + r + 2:.1f} "
        return element("polygon", points=f"{points}{x - r - 2:.1f},{y:.1f}", class_="exposed")
    return element("circle", cx=x, cy=y, r=r, class_="determined" if determined else "hidden")


def _insiders(names: Sequence[str], centre: float, r: float) -> list[Markup]:
    lines = [*filter(None, (*names[:3], rest(len(names), 3)))]
    parts = [element("circle", cx=centre, cy=centre, r=r, class_="insiders")]
    for i, line in enumerate(lines):
        y = centre + 4 + 13 * (i - (len(lines) - 1) / 2)
        parts.append(text(centre, y, line, "inside middle", room=2 * r - 8, size=11))
    return parts
