"""Bars and estimates as inline SVG for a page.

Colours come from the page's style sheet, by class, so that a picture follows light and dark. Every
text is escaped, and every picture has a title and a description.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from scenarios.report.page.svg import element, picture, text, width_of
from scenarios.statement.statement import Verdict
from scenarios.wording.formatting import MINUS, TIMES, count

_SCALE = 100.0
"""The least width of a scale between labels and words."""


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


def ruler(verdict: Verdict) -> Markup:
    """Its scale as a ruler, the verdict's step filled, and a mark where it stands."""
    scale = verdict.scale
    if scale is None:
        return Markup()
    width, height, top = 400.0, 22.0, 12.0
    step_width = width / len(scale.steps)
    parts = []
    for place, step in enumerate(scale.steps):
        x, here = place * step_width, step.name == verdict.word
        room = step_width - 2
        class_ = verdict.state if here else None
        parts.append(element("rect", x=x, y=top, width=room, height=height, rx=3, class_=class_))
        middle = x + room / 2
        parts.append(text(middle, top + 15.5, step.name, "here middle" if here else "middle"))
        if place + 1 < len(scale.steps):
            edge = f"{TIMES}{step.edge:,.0f}"
            parts.append(text(x + step_width - 1, top + height + 14, edge, "tick middle"))
    parts.append(text(0, top + height + 14, scale.measure, "tick"))
    parts.append(text(width, top + height + 14, "no limit", "tick end"))
    if scale.place is not None:
        x = scale.place * width
        points = f"{x:.1f},{top - 1:.1f} {x - 6:.1f},{top - 11:.1f} {x + 6:.1f},{top - 11:.1f}"
        parts.append(element("polygon", points=points))
    steps = ", ".join(
        f"{step.name} up to {step.edge:,.0f}" if math.isfinite(step.edge) else f"{step.name} beyond"
        for step in scale.steps
    )
    description = f"The scale, {scale.goes_by}: {steps}. The verdict: {verdict.word}."
    title = f"Where this stands on the scale of {scale.of}"
    return picture("ruler", title, description, (width, top + height + 18), parts, class_="ruler")


def _endless(y: int, height: int) -> Markup:
    teeth = "".join(
        f"M{x} {y + height}l{height} -{height}h5l-{height} {height}z" for x in range(0, 100, 13)
    )
    return element("path", d=teeth, class_="endless")


@dataclass(frozen=True, slots=True)
class Mark:
    """A point with its interval, and the truth; NaN stands for what is unknown."""

    label: str
    value: float
    low: float
    high: float
    words: str
    truth: float = math.nan

    @property
    def wide(self) -> bool:
        """Whether there is an interval to draw: known, and of some width."""
        return self.low < self.high


def intervals(
    key: str,
    title: str,
    marks: Sequence[Mark],
    *,
    percent: bool = True,
    limits: tuple[float, float] = (-0.5, 1.5),
) -> Markup:
    """Points on their intervals, one below the other, and what they are in words.

    Args:
        key: what its ids begin with.
        title: what the points are of.
        marks: the points; a value that is not finite is left blank.
        percent: whether the axis is in percent.
        limits: beyond them nothing is drawn, however wide an interval is.
    """
    width, row = 360.0, 22.0
    # As much room as the longest words and the longest label take, so that a scale stays between.
    right = _room([mark.words for mark in marks], 11.5, 40.0, 136.0) + 12
    left = _room([mark.label for mark in marks], 12.5, 60.0, width - right - _SCALE) + 12
    low, high, places = axis(marks, limits)
    plot = width - left - right

    def x(value: float) -> float:
        return left + plot * (min(max(value, low), high) - low) / (high - low)

    bottom = 6 + row * len(marks)
    parts = ticks(places, x, bottom, percent=percent)
    for i, mark in enumerate(marks):
        y = 6 + row * (i + 0.5)
        parts.append(text(left - 10, y + 4, mark.label, "label end", room=left - 10))
        parts.append(text(width - 2, y + 4, mark.words, "words end", room=right - 10, size=11.5))
        if low <= mark.truth <= high:
            at = x(mark.truth)
            parts.append(element("line", x1=at, x2=at, y1=y - 7, y2=y + 7, class_="truth"))
        if not math.isfinite(mark.value):
            continue
        if mark.wide:
            ends = x(mark.low), x(mark.high)
            parts.append(element("line", x1=ends[0], x2=ends[1], y1=y, y2=y, class_="whisker"))
        if low <= mark.value <= high:
            parts.append(element("circle", cx=x(mark.value), cy=y, r=3.6, class_="dot"))
    what = count(len(marks), "estimate")
    with_intervals = " with intervals" if any(mark.wide for mark in marks) else ""
    beside = " beside the truth" if any(math.isfinite(mark.truth) for mark in marks) else ""
    description = f"{what}{with_intervals}{beside}. The table below it holds the same."
    return picture(key, title, description, (width, bottom + 20), parts, class_="intervals")


def ticks(
    places: Sequence[float], x: Callable[[float], float], bottom: float, *, percent: bool
) -> list[Markup]:
    """The lines of an axis and their numbers.

    Args:
        places: of the ticks.
        x: where a value stands.
        bottom: where the lines end.
        percent: whether the axis is in percent.
    """
    parts = []
    for tick in places:
        line = "zero" if tick == 0 else "grid"
        parts.append(element("line", x1=x(tick), x2=x(tick), y1=2, y2=bottom, class_=line))
        shown = f"{100 * tick:.4g}%" if percent else f"{tick:.4g}"
        parts.append(text(x(tick), bottom + 14, shown.replace("-", MINUS), "tick middle"))
    return parts


def _room(texts: Sequence[str], size: float, least: float, most: float) -> float:
    """How wide the longest of some texts is, within bounds."""
    return min(max([least, *(width_of(shown, size) + 1 for shown in texts)]), most)


def axis(
    marks: Sequence[Mark], limits: tuple[float, float]
) -> tuple[float, float, tuple[float, ...]]:
    """Where a scale for all marks begins and ends, and its ticks; limits as for ``intervals``."""
    ends = [0.0]
    for mark in marks:
        if math.isfinite(mark.truth):
            ends.append(mark.truth)
        if math.isfinite(mark.value):
            ends += (mark.value, *((mark.low, mark.high) if mark.wide else ()))
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
