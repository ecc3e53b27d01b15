"""Errors over epsilon, overlaid in one picture: lines for predicted ones, points for measured."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from protocol.estimators.inference.intervals import level_text
from protocol.estimators.inference.laws import LEVEL, critical
from scenarios.report.pictures.drawing import Plot
from scenarios.report.pictures.style import GREY, End, frame, literal, name_ends, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ASIDE = 0.003
"""Shift between the points of neighbouring curves, as a share of the axis."""

_NARROW = 5
"""Largest ratio of errors at which every tick has a label."""


class Point(NamedTuple):
    """An error that was measured, and its standard error over the runs; NaN if that is unknown."""

    epsilon: float
    error: float
    spread: float = math.nan


class Curve(NamedTuple):
    """Curve of one variant.

    Args:
        name: written beside it.
        line: predicted errors, (epsilon, error) each.
        points: measured errors.
    """

    name: str
    line: Sequence[tuple[float, float]] = ()
    points: Sequence[Point] = ()


def plot_curves(
    curves: Sequence[Curve], *, title: str, label: str, notes: Sequence[str] = ()
) -> Plot:
    """All curves on one pair of logarithmic axes, each named at its right end.

    Errors of 0 and unknown errors have no place on such an axis: a curve without others is only
    named above.

    Args:
        curves: in the order of their colours.
        title: above all.
        label: name of the errors.
        notes: further notes.
    """

    def plot(figure: Figure) -> None:
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.set_yscale("log")
        left, right = _set_ticks(axes, curves)
        ends: list[End] = []
        absent = []
        for place, curve in enumerate(curves):
            aside = (place - (len(curves) - 1) / 2) * _ASIDE
            drawn = _draw(axes, curve, place, aside=(right / left) ** aside)
            if drawn:
                ends.append(End(*max(drawn), curve.name, place))
            else:
                absent.append(curve.name)
        low, high = axes.get_ylim()
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(functools.partial(_tick, narrow=high < _NARROW * low))
        axes.set_ylabel(literal(label))
        axes.set_xlabel("ε per respondent")
        handles, labels = _marks(curves)
        spread = any(math.isfinite(p.spread) for curve in curves for p in curve.points)
        frame(
            figure,
            title,
            (
                *notes,
                f"whiskers: {level_text(LEVEL)} intervals over the runs" if spread else "",
                *(f"{name}: no error to draw" for name in absent),
            ),
            size=(8.0, 4.4),
            handles=handles,
            labels=labels,
        )
        name_ends([(axes, ends)])

    return plot


def leader(curves: Sequence[Curve]) -> str:
    """Name of the curve that is lowest most often, with the number of epsilons."""
    errors: dict[float, dict[str, float]] = {}
    for curve in curves:
        shown = [(point.epsilon, point.error) for point in curve.points] or curve.line
        for epsilon, error in shown:
            if math.isfinite(error):
                errors.setdefault(epsilon, {})[curve.name] = error
    firsts = [min(of, key=lambda name, of=of: of[name]) for of in errors.values()]  # type: ignore[misc]
    if not firsts:
        return "no errors to compare"
    best = max(dict.fromkeys(firsts), key=firsts.count)
    where = "every" if len(set(firsts)) == 1 else f"{firsts.count(best)} of {len(firsts)}"
    return f"{best} has the smallest error at {where} ε"


def _draw(axes: Axes, curve: Curve, place: int, *, aside: float) -> list[tuple[float, float]]:
    """Draw a curve, shifted slightly against the others; return the points drawn."""
    colour, marker = style(place)
    z = critical(LEVEL)
    line = sorted((epsilon, error) for epsilon, error in curve.line if _is_shown(error))
    points = sorted(point for point in curve.points if _is_shown(point.error))
    if len(line) == 1:
        axes.plot(*zip(*line, strict=True), marker="_", markersize=24, color=colour)
    elif line:
        axes.plot(*zip(*line, strict=True), "-", color=colour)
    if points:
        axes.errorbar(
            [point.epsilon * aside for point in points],
            [point.error for point in points],
            yerr=[z * point.spread if math.isfinite(point.spread) else 0.0 for point in points],
            fmt=marker,
            color=colour,
        )
    return line + [(point.epsilon, point.error) for point in points]


def _is_shown(error: float) -> bool:
    return math.isfinite(error) and error > 0


def _set_ticks(axes: Axes, curves: Sequence[Curve]) -> tuple[float, float]:
    """Label every epsilon with a tick as long as labels do not overlap.

    Returns:
        The ends of the axis.
    """
    found = {epsilon for curve in curves for epsilon, _ in curve.line}
    found |= {point.epsilon for curve in curves for point in curve.points}
    epsilons = sorted(found) or [1.0]
    least, most = epsilons[0], epsilons[-1]
    room = 1.15 * (most / least) ** 0.05
    axes.set_xlim(least / room, most * room)
    ticks: list[float] = []
    for epsilon in epsilons:
        if not ticks or math.log(epsilon / ticks[-1]) > 0.04 * math.log(most / least):
            ticks.append(epsilon)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    return axes.get_xlim()


def _tick(error: float, place: int | None, *, narrow: bool) -> str:
    """Label of a tick between powers of ten."""
    return f"{error:g}" if narrow or f"{error:.0e}"[0] in "25" else ""


def _marks(curves: Sequence[Curve]) -> tuple[list[Any], list[str]]:
    from matplotlib.lines import Line2D

    handles, labels = [], []
    if any(curve.points for curve in curves):
        handles.append(Line2D([], [], color=GREY, marker="o", linestyle=""))
        labels.append("measured")
    if any(curve.line for curve in curves):
        handles.append(Line2D([], [], color=GREY))
        labels.append("predicted")
    return handles, labels
