"""Bars and estimates as inline SVG for a page.

Colours come from the page's style sheet, by class, so that a picture follows light and dark. Every
text is escaped, and every picture has a title and a description.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import NamedTuple

from markupsafe import Markup

from protocol.estimators.usefulness import GRADES, ORDER, even_guess, least_exact
from scenarios.report.page.svg import element, picture, text, text_width
from scenarios.report.page.words import words
from scenarios.statement.privacy_verdict import SCALE, PrivacyVerdict, sure
from scenarios.statement.statement import Verdict
from scenarios.statement.usefulness.verdict import UsefulnessVerdict
from scenarios.wording.formatting import MINUS, count

_SCALE = 100.0
"""Minimum width of a scale between labels and words."""


def bars(shares: Sequence[float | None]) -> Markup:
    """Bars for a table's cell, hidden from screen readers, which read the numbers.

    Args:
        shares: lengths from 0 to 1; an infinite bar has an open end, and None has no bar. Of two
            bars, the first is the claim.
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


class Ruler(NamedTuple):
    """The scale of a verdict, to be drawn.

    Args:
        of: subject of the scale.
        measures: the measured quantity, in a clause.
        steps: names, the best first.
        edges: labels of the ends, the first at the left end of the scale.
        place: place of the verdict from 0 (best) to 1; None if unknown.
    """

    of: str
    measures: str
    steps: tuple[str, ...]
    edges: tuple[str, ...] = ()
    place: float | None = None

    @property
    def named(self) -> tuple[tuple[str, str], ...]:
        """Every step with the edge that it ends at; empty edges if there are none."""
        return tuple(zip_longest(self.steps, self.edges[1:], fillvalue=""))


def ruler(verdict: Verdict) -> Markup:
    """The scale of a verdict, its step filled and its place marked; empty if it has none."""
    scale = _scale(verdict)
    if scale is None:
        return Markup()
    width, height, top = 340.0, 22.0, 12.0
    step_width = width / len(scale.steps)
    parts = []
    for place, step in enumerate(scale.steps):
        x, here = place * step_width, step == verdict.word
        room = step_width - 2
        class_ = verdict.state if here else None
        parts.append(element("rect", x=x, y=top, width=room, height=height, rx=3, class_=class_))
        parts.append(text(x + room / 2, top + 15.5, step, "here middle" if here else "middle"))
    for place, edge in enumerate(scale.edges):
        side = " end" if place == len(scale.steps) else " middle" if place else ""
        parts.append(text(place * step_width, top + height + 14, edge, f"tick{side}"))
    bottom = top + height + (29 if scale.edges else 14)
    parts.append(text(0, bottom, scale.measures, "tick"))
    if scale.place is not None:
        x = scale.place * width
        points = f"{x:.1f},{top - 1:.1f} {x - 6:.1f},{top - 11:.1f} {x + 6:.1f},{top - 11:.1f}"
        parts.append(element("polygon", points=points))
    known = words()["result"]["ruler"]
    steps = [f"{step} ({edge})" if edge else step for step, edge in scale.named]
    described = known["scale"].format(
        steps=", ".join(steps), measures=scale.measures, word=verdict.word
    )
    size = (width, bottom + 4)
    title = known["title"].format(of=scale.of)
    return picture(f"ruler-{verdict.key}", title, described, size, parts, class_="ruler")


def _scale(verdict: Verdict) -> Ruler | None:
    """Ruler of a verdict; None if the page has no scale for it."""
    known = words()["result"]["ruler"]
    if (scale := verdict.scale) is not None:
        names = tuple(step.name for step in scale.steps)
        if isinstance(verdict, PrivacyVerdict) and verdict.by_sums:
            crowds = ("", "", *(f"{step.crowd:g}" for step in SCALE[1:]))
            return Ruler(scale.of, known["sums"], names, crowds, scale.place)
        sureness = (sure(math.log(step.edge)) for step in scale.steps[:-1])
        edges = known["guess"], *sureness, known["certain"]
        return Ruler(scale.of, known["sureness"], names, edges, scale.place)
    if isinstance(verdict, UsefulnessVerdict):
        worst = least_exact(verdict.of)
        ends = [*(grade.edge(worst.cells) for grade in GRADES), even_guess(worst.cells)]
        points = (f"{100 * end:.3g}" for end in ends[:-1])
        names = tuple(word for word in ORDER if word != "unknown")
        at = _place_among(worst.margin, ends)
        return Ruler(
            known["usefulness"],
            known["margins"][worst.of],
            names,
            (known["exact"], *points, known["guess"], ""),
            None if at is None else at / len(names),
        )
    if verdict.about == "Record":
        middle = verdict.word if verdict.word not in ("sound", "broken") else known["undecided"]
        names = ("sound", middle, "broken")
        place = (names.index(verdict.word) + 0.5) / len(names)
        return Ruler(known["record"], known["trust"], names, place=place)
    return None


def _place_among(margin: float, ends: Sequence[float]) -> float | None:
    """Place of a margin of error among steps with these ends; None if unknown."""
    if math.isnan(margin):
        return None
    for place, (low, high) in enumerate(pairwise((0.0, *ends))):
        if margin <= high:
            return place + min(max((margin - low) / (high - low), 0.04), 0.96)
    return len(ends) + 0.5


def _endless(y: int, height: int) -> Markup:
    teeth = "".join(
        f"M{x} {y + height}l{height} -{height}h5l-{height} {height}z" for x in range(0, 100, 13)
    )
    return element("path", d=teeth, class_="endless")


@dataclass(frozen=True, slots=True)
class Mark:
    """A point with its interval and the truth; NaN where unknown."""

    label: str
    value: float
    low: float
    high: float
    words: str
    truth: float = math.nan

    @property
    def wide(self) -> bool:
        """True if there is an interval to draw: known, and of some width."""
        return self.low < self.high


def intervals(
    key: str,
    title: str,
    marks: Sequence[Mark],
    *,
    percent: bool = True,
    limits: tuple[float, float] = (-0.5, 1.5),
    whole: bool = False,
    description: str = "",
) -> Markup:
    """Bars or points with their intervals, one below the other, with their numbers.

    Args:
        key: prefix of its ids.
        title: title of the picture.
        marks: the points; a value that is not finite is left blank.
        percent: whether the axis is in percent, and bars lead to the points.
        limits: beyond them nothing is drawn, however wide an interval is.
        whole: whether the axis goes from limit to limit, and bars begin at its left end.
        description: description; by default the number of estimates.
    """
    width, row = 360.0, 22.0
    # As much room as the longest words and the longest label take, so that a scale stays between.
    right = _longest_width([mark.words for mark in marks], 11.5, 40.0, 136.0) + 12
    left = _longest_width([mark.label for mark in marks], 12.5, 60.0, width - right - _SCALE) + 12
    low, high, places = _unit_axis(limits) if whole else axis(marks, limits)
    plot = width - left - right

    def x(value: float) -> float:
        return left + plot * (min(max(value, low), high) - low) / (high - low)

    bottom = 6 + row * len(marks)
    parts = ticks(places, x, bottom, percent=percent)
    origin = x(low if whole else 0.0)
    for i, mark in enumerate(marks):
        y = 6 + row * (i + 0.5)
        parts.append(text(left - 10, y + 4, mark.label, "label end", room=left - 10))
        parts.append(text(width - 2, y + 4, mark.words, "words end", room=right - 10, size=11.5))
        if percent and not math.isnan(mark.value):
            start, end = sorted((origin, x(mark.value)))
            kind = "endless" if math.isinf(mark.value) else "share"
            parts.append(
                element("rect", x=start, y=y - 6, width=end - start, height=12, class_=kind)
            )
        if low <= mark.truth <= high:
            at = x(mark.truth)
            parts.append(element("line", x1=at, x2=at, y1=y - 9, y2=y + 9, class_="truth"))
        if not math.isfinite(mark.value):
            continue
        if mark.wide:
            ends = x(mark.low), x(mark.high)
            parts.append(element("line", x1=ends[0], x2=ends[1], y1=y, y2=y, class_="whisker"))
        if low <= mark.value <= high and not whole:
            parts.append(element("circle", cx=x(mark.value), cy=y, r=3.6, class_="dot"))
    what = count(len(marks), "estimate")
    with_intervals = " with intervals" if any(mark.wide for mark in marks) else ""
    beside = " beside the truth" if any(math.isfinite(mark.truth) for mark in marks) else ""
    description = description or f"{what}{with_intervals}{beside}. A table below holds the same."
    return picture(key, title, description, (width, bottom + 20), parts, class_="intervals")


def _unit_axis(limits: tuple[float, float]) -> tuple[float, float, tuple[float, ...]]:
    """An axis between two limits, with ticks in tenths."""
    low, high = limits
    tenths = range(round(10 * low), round(10 * high) + 1)
    return low, high, tuple(tenth / 10 for tenth in tenths)


def swatch(kind: str) -> Markup:
    """A mark as charts have it, 28 by 16, for their key."""
    if kind == "share":
        return element("rect", x=2, y=2, width=16, height=12, class_=kind) + element(
            "circle", cx=18, cy=8, r=3.6, class_="dot"
        )
    if kind == "truth":
        return element("line", x1=14, x2=14, y1=0, y2=16, class_=kind)
    if kind == "dot":
        return element("circle", cx=14, cy=8, r=3.6, class_=kind)
    return element("line", x1=2, x2=26, y1=8, y2=8, class_=kind)


def ticks(
    places: Sequence[float], x: Callable[[float], float], bottom: float, *, percent: bool
) -> list[Markup]:
    """The lines of an axis and their numbers.

    Args:
        places: places of the ticks.
        x: horizontal place of a value.
        bottom: end of the lines.
        percent: whether the axis is in percent.
    """
    parts = []
    for tick in places:
        line = "zero" if tick == 0 else "grid"
        parts.append(element("line", x1=x(tick), x2=x(tick), y1=2, y2=bottom, class_=line))
        shown = f"{100 * tick:.4g}%" if percent else f"{tick:.4g}"
        parts.append(text(x(tick), bottom + 14, shown.replace("-", MINUS), "tick middle"))
    return parts


def _longest_width(texts: Sequence[str], size: float, least: float, most: float) -> float:
    return min(max([least, *(text_width(shown, size) + 1 for shown in texts)]), most)


def axis(
    marks: Sequence[Mark], limits: tuple[float, float]
) -> tuple[float, float, tuple[float, ...]]:
    """Ends and ticks of a scale for all marks; limits as for ``intervals``."""
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
