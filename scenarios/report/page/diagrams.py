"""Pictures as inline SVG for a page: rounds, bars, estimates, coalitions. No styles, no numbers.

Colours come from the page's style sheet, by class, so that a picture follows light and dark. Every
text is escaped, and every picture has a title and a description.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from scenarios.report.formatting import MINUS, count
from scenarios.report.page.svg import element, picture, text, width_of

_SCALE = 110.0
"""The least width of a scale between labels and words."""

# Rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """Messages of one kind from one side to another.

    Args:
        start, end: the place of a side among the lifelines.
        kind, count: the words above and below the arrow.
        lost: some were not delivered.
    """

    start: int
    end: int
    kind: str
    count: str
    lost: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One round, several that are alike, or (without arrows) rounds that are left out."""

    name: str
    arrows: tuple[Arrow, ...]
    note: str = ""


def sequence(key: str, lifelines: Sequence[str], steps: Sequence[Step], *, width: int) -> Markup:
    """Who said what to whom, from top to bottom.

    Args:
        key: what its ids begin with.
        lifelines: the sides, from left to right; two or more.
        steps: the rounds.
        width: of the picture; it is as tall as it needs to be.
    """
    margin = min(64.0, width * 0.14)
    spread = (width - 2 * margin) / (len(lifelines) - 1)
    xs = [margin + spread * i for i in range(len(lifelines))]
    parts: list[Markup] = []
    y = 46.0
    for step in steps:
        parts.append(element("line", x1=0, x2=width, y1=y, y2=y, class_="band"))
        parts.append(text(8, y + 17, step.name, "round", room=width * 0.5))
        if step.note:
            parts.append(text(width - 8, y + 17, step.note, "note end", room=width * 0.48))
        y += 26
        for arrow in step.arrows:
            y += 20
            parts += _arrow(arrow, xs, y)
            y += 20
        y += 10
    lines = []
    for x, name in zip(xs, lifelines, strict=True):
        lines.append(element("line", x1=x, x2=x, y1=34, y2=y, class_="life"))
        box = 2 * margin - 2
        lines.append(element("rect", x=x - box / 2, y=4, width=box, height=28, rx=4, class_="side"))
        lines.append(text(x, 23, name, "who middle", room=box - 6))
    title = "Sequence diagram"
    description = (
        "Arrows between " + ", ".join(lifelines) + ", round by round from top to bottom. "
        "The table below it holds the same."
    )
    return picture(key, title, description, (width, y + 4), [*lines, *parts], class_="sequence")


def _arrow(arrow: Arrow, xs: Sequence[float], y: float) -> list[Markup]:
    start, end = xs[arrow.start], xs[arrow.end]
    lost = " lost" if arrow.lost else ""
    below = f"{arrow.count}, {arrow.lost}" if arrow.lost else arrow.count
    if arrow.start == arrow.end:
        # Among themselves: out and back on the one side that has room.
        out = 26.0 if start < xs[-1] else -26.0
        path = f"M{start:.1f} {y - 7:.1f}h{out:.0f}v12h{-out + math.copysign(6, out):.0f}"
        head = start, y + 5, -math.copysign(1, out)
        room = abs(xs[-1] - xs[0]) / (len(xs) - 1) - 34
        at, middle = start + out + math.copysign(6, out), "" if out > 0 else " end"
    else:
        side = math.copysign(1, end - start)
        path = f"M{start:.1f} {y:.1f}H{end - 6 * side:.1f}"
        head = end, y, side
        room, at, middle = abs(end - start) - 6, (start + end) / 2, " middle"
    x, tip, way = head
    points = f"{x:.1f},{tip:.1f} {x - 8 * way:.1f},{tip - 4:.1f} {x - 8 * way:.1f},{tip + 4:.1f}"
    return [
        element("path", d=path, class_=f"arrow{lost}"),
        element("polygon", points=points, class_=f"head{lost}"),
        text(at, y - 5, arrow.kind, f"kind{middle}", room=room),
        text(at, y + 14, below, f"count{middle}{lost}", room=room, size=11),
    ]


# Figures beside figures


def bars(shares: Sequence[float | None]) -> Markup:
    """Bars for a table's cell, hidden from those who read the cells beside it.

    Args:
        shares: how long each is, 0 to 1; infinite ones have no end, and None has no bar. Of two,
            the first is what is claimed.
    """
    kinds, height = (("fill",), 8) if len(shares) == 1 else (("claim", "fill"), 7)
    parts = []
    for place, (share, kind) in enumerate(zip(shares, kinds, strict=True)):
        y = place * (height + 2)
        parts.append(element("rect", x=0, y=y, width=100, height=height, class_="rail"))
        if share is not None and math.isinf(share):
            parts.append(_endless(y, height))
        elif share:
            long = 100 * min(max(share, 0.006), 1.0)
            parts.append(element("rect", x=0, y=y, width=long, height=height, class_=kind))
    return element(
        "svg",
        *parts,
        viewBox=f"0 0 100 {height if len(kinds) == 1 else 16}",
        preserveAspectRatio="none",
        aria_hidden="true",
        focusable="false",
        class_="bar" if len(kinds) == 1 else "bar two",
    )


def _endless(y: int, height: int) -> Markup:
    teeth = "".join(
        f"M{x} {y + height}l{height} -{height}h5l-{height} {height}z" for x in range(0, 100, 13)
    )
    return element("path", d=teeth, class_="endless")


@dataclass(frozen=True, slots=True)
class Mark:
    """A point with its whisker; ``reach`` is half the whisker, None where none is known."""

    label: str
    value: float
    reach: float | None
    words: str


def intervals(
    key: str,
    title: str,
    marks: Sequence[Mark],
    *,
    percent: bool = True,
    limits: tuple[float, float] = (-0.5, 1.5),
) -> Markup:
    """Points with whiskers, one below the other, and what they are in words.

    Args:
        key: what its ids begin with.
        title: what the points are of.
        marks: the points; a value that is not finite is left blank.
        percent: whether the axis is in percent.
        limits: beyond them nothing is drawn, however long a whisker is.
    """
    width, row = 340.0, 22.0
    # As much room as the longest words and the longest label take, so that a scale stays between.
    right = _room([mark.words for mark in marks], 11.5, 40.0, 100.0) + 12
    left = _room([mark.label for mark in marks], 12.5, 60.0, width - right - _SCALE) + 12
    low, high, ticks = _axis(marks, limits)
    plot = width - left - right

    def x(value: float) -> float:
        return left + plot * (min(max(value, low), high) - low) / (high - low)

    bottom = 6 + row * len(marks)
    parts = []
    for tick in ticks:
        line = "zero" if tick == 0 else "grid"
        parts.append(element("line", x1=x(tick), x2=x(tick), y1=2, y2=bottom, class_=line))
        shown = f"{100 * tick:.4g}%" if percent else f"{tick:.4g}"
        parts.append(text(x(tick), bottom + 14, shown.replace("-", MINUS), "tick middle"))
    for i, mark in enumerate(marks):
        y = 6 + row * (i + 0.5)
        parts.append(text(left - 10, y + 4, mark.label, "label end", room=left - 10))
        parts.append(text(width - 2, y + 4, mark.words, "words end", room=right - 10, size=11.5))
        if not math.isfinite(mark.value):
            continue
        if mark.reach is not None and mark.reach > 0:
            ends = x(mark.value - mark.reach), x(mark.value + mark.reach)
            parts.append(element("line", x1=ends[0], x2=ends[1], y1=y, y2=y, class_="whisker"))
        if low <= mark.value <= high:
            parts.append(element("circle", cx=x(mark.value), cy=y, r=3.6, class_="dot"))
    what = count(len(marks), "estimate")
    whiskers = " with whiskers" if any(mark.reach is not None for mark in marks) else ""
    description = f"{what}{whiskers}. The table below it holds the same."
    return picture(key, title, description, (width, bottom + 20), parts, class_="intervals")


def _room(texts: Sequence[str], size: float, least: float, most: float) -> float:
    """How wide the longest of some texts is, within bounds."""
    return min(max([least, *(width_of(shown, size) + 1 for shown in texts)]), most)


def _axis(
    marks: Sequence[Mark], limits: tuple[float, float]
) -> tuple[float, float, tuple[float, ...]]:
    ends = [0.0]
    for mark in marks:
        if math.isfinite(mark.value):
            reach = mark.reach if mark.reach is not None and math.isfinite(mark.reach) else 0.0
            ends += (mark.value - reach, mark.value + reach)
    low, high = max(min(ends), limits[0]), min(max(ends), limits[1])
    if high - low < 1e-9:
        high = low + 1.0
    raw = (high - low) / 4
    scale = 10.0 ** math.floor(math.log10(raw))
    step = scale * next(factor for factor in (1, 2, 5, 10) if factor * scale >= raw)
    # A little room beside the last mark; ticks where they are round.
    room = (high - low) / 30
    low, high = low - room * (low < 0), high + room
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return low, high, tuple(round(step * i, 12) for i in range(first, last + 1))


# Coalitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """A party, its group, and whether the group's sum is determined."""

    name: str
    group: int
    determined: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A group of parties that are not drawn one by one."""

    label: str
    size: int
    determined: bool


def masks(
    key: str,
    insiders: Sequence[str],
    parties: Sequence[Party],
    pairs: Sequence[tuple[str, str]],
    *,
    width: int,
) -> Markup:
    """Every honest party on a circle, groups together, and the masks between them.

    Args:
        key: what its ids begin with.
        insiders: who conspires.
        parties: the honest ones, group by group.
        pairs: by name, of parties that share a mask which the coalition does not know.
        width: of the picture.
    """
    groups = Counter(party.group for party in parties)
    # A gap between groups as wide as a party.
    slots = len(parties) + (len(groups) if len(groups) > 1 else 0)
    named = len(parties) <= 24
    radius, centre = width * (0.33 if named else 0.45), width / 2
    places: dict[str, tuple[float, float]] = {}
    marks: list[Markup] = []
    slot = 0
    for i, party in enumerate(parties):
        slot += i > 0 and party.group != parties[i - 1].group
        angle = 2 * math.pi * slot / max(slots, 1) - math.pi / 2
        slot += 1
        x, y = centre + radius * math.cos(angle), centre + radius * math.sin(angle)
        places[party.name] = x, y
        marks.append(_dot(x, y, 7, determined=party.determined, alone=groups[party.group] == 1))
        if named:
            out = radius + 14
            tx, ty = centre + out * math.cos(angle), centre + out * math.sin(angle)
            side = (
                " middle" if abs(math.cos(angle)) < 0.3 else " end" if math.cos(angle) < 0 else ""
            )
            room = (width - 2 * out) / 2 + out * (1 - abs(math.cos(angle))) - 4
            marks.append(text(tx, ty + 4, party.name, f"tag{side}", room=room, size=11))
    lines = [
        element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="mask")
        for a, b in pairs
        if a in places and b in places
        for (x1, y1), (x2, y2) in [(places[a], places[b])]
    ]
    description = (
        f"{count(len(parties), 'honest party', 'honest parties')} in "
        f"{count(len(groups), 'group')} on a circle, a line between "
        "two that share a mask which the coalition does not know. Tables below hold the same."
    )
    parts = [*lines, *marks, *_insiders(insiders, centre, width * 0.11)]
    title = "Masks that the coalition does not know"
    return picture(key, title, description, (width, width), parts, class_="graph")


def coalition(
    key: str, insiders: Sequence[str], components: Sequence[Component], *, more: int, width: int
) -> Markup:
    """Groups of honest parties around the coalition, as large as they are.

    Args:
        key: what its ids begin with.
        insiders: who conspires.
        components: the groups, the smallest first.
        more: how many groups are not drawn.
        width: of the picture.
    """
    radius, centre = width * 0.34, width / 2
    largest = max((c.size for c in components), default=1)
    parts: list[Markup] = []
    for i, component in enumerate(components):
        angle = 2 * math.pi * i / max(len(components), 1) - math.pi / 2
        x, y = centre + radius * math.cos(angle), centre + radius * math.sin(angle)
        room = min(width * 0.11, 2.4 * radius / max(len(components), 3))
        r = max(5.0, room * math.sqrt(component.size / largest))
        parts.append(element("line", x1=centre, y1=centre, x2=x, y2=y, class_="known"))
        parts.append(_dot(x, y, r, determined=component.determined, alone=component.size == 1))
        if len(components) <= 12:
            below = math.sin(angle) > -0.2
            at = y + r + 14 if below else y - r - 6
            parts.append(text(x, at, component.label, "tag middle", room=width * 0.26, size=11))
    description = (
        f"{count(len(components), 'group')} of honest parties around the coalition"
        + (f", {more:,} more not drawn" if more else "")
        + ". Tables below hold the same."
    )
    parts += _insiders(insiders, centre, width * 0.11)
    title = "Groups whose masks hang together"
    return picture(key, title, description, (width, width), parts, class_="graph")


def _dot(x: float, y: float, r: float, *, determined: bool, alone: bool) -> Markup:
    """A group or party: exposed ones are diamonds, so that colour is not all that tells them."""
    if determined and alone:
        points = f"{x:.1f},{y - r - 2:.1f} {x + r + 2:.1f},{y:.1f} {x:.1f},{y + r + 2:.1f} "
        return element("polygon", points=f"{points}{x - r - 2:.1f},{y:.1f}", class_="exposed")
    return element("circle", cx=x, cy=y, r=r, class_="determined" if determined else "hidden")


def _insiders(names: Sequence[str], centre: float, r: float) -> list[Markup]:
    more = len(names) - 3
    lines = [*names[:3], *([f"and {more} more"] if more > 0 else [])]
    parts = [element("circle", cx=centre, cy=centre, r=r, class_="insiders")]
    for i, line in enumerate(lines):
        y = centre + 4 + 13 * (i - (len(lines) - 1) / 2)
        parts.append(text(centre, y, line, "inside middle", room=2 * r - 8, size=11))
    return parts
