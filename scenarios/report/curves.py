"""Errors over epsilon, overlaid in one picture: lines for predicted ones, points for measured."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from scenarios.report.plots import COLOURS, GREY, MARKERS, WHISKERS, Plot, literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_APART = 0.045
"""How far apart two names are at least, as a share of the axis."""

_ASIDE = 0.003
"""How far aside of each other measured points of neighbouring curves are, as such a share."""

_NARROW = 5
"""Up to what ratio of largest to smallest error every tick is written."""


class Point(NamedTuple):
    """An error that was measured, and its standard error over the runs; NaN if that is unknown."""

    epsilon: float
    error: float
    spread: float = math.nan


class Curve(NamedTuple):
    """What is drawn of one variant.

    Args:
        name: written beside it.
        line: predicted errors, (epsilon, error) each.
        points: measured errors.
    """

    name: str
    line: Sequence[tuple[float, float]] = ()
    points: Sequence[Point] = ()


def plot_curves(curves: Sequence[Curve], *, title: str, label: str) -> Plot:
    """All curves on one pair of logarithmic axes, each named at its right end.

    What is 0 or unknown has no place on such an axis: a curve with nothing else is named below.

    Args:
        curves: in the order of their colours.
        title: above all.
        label: what the errors are.
    """

    def plot(figure: Figure) -> None:
        figure.set_layout_engine("constrained")
        figure.set_size_inches(8.0, 5.0)
        axes = figure.subplots()
        axes.set_title(literal(title))
        axes.set_xscale("log")
        axes.set_yscale("log")
        left, right = _set_ticks(axes, curves)
        ends: list[tuple[float, int]] = []
        absent = []
        for place, curve in enumerate(curves):
            aside = (place - (len(curves) - 1) / 2) * _ASIDE
            drawn = _draw(axes, curve, place, aside=(right / left) ** aside)
            if drawn:
                ends.append((max(drawn)[1], place))
            else:
                absent.append(curve.name)
        low, high = axes.get_ylim()
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(functools.partial(_tick, narrow=high < _NARROW * low))
        axes.set_ylabel(literal(label))
        below = (literal(f"{name}: no error to draw") for name in absent)
        axes.set_xlabel("\n".join(("epsilon", *below)))
        axes.grid(color="#DDDDDD", linewidth=0.5)
        _name(axes, curves, ends)
        _legend(figure, curves)

    return plot


def _style(place: int) -> tuple[str, str]:
    """The colour and the marker of a curve; where a colour comes again, the marker is another."""
    marker = MARKERS[(place + place // len(COLOURS)) % len(MARKERS)]
    return COLOURS[place % len(COLOURS)], marker


def _draw(axes: Axes, curve: Curve, place: int, *, aside: float) -> list[tuple[float, float]]:
    """Draw a curve, its points a little aside of those of others; returns what was drawn."""
    colour, marker = _style(place)
    line = sorted((epsilon, error) for epsilon, error in curve.line if _is_shown(error))
    points = sorted(point for point in curve.points if _is_shown(point.error))
    if len(line) == 1:
        axes.plot(*zip(*line, strict=True), marker="_", markersize=24, color=colour)
    elif line:
        axes.plot(*zip(*line, strict=True), "-", color=colour, linewidth=1.2)
    if points:
        axes.errorbar(
            [point.epsilon * aside for point in points],
            [point.error for point in points],
            yerr=[point.spread if math.isfinite(point.spread) else 0.0 for point in points],
            fmt=marker,
            color=colour,
            markersize=5,
            capsize=3,
        )
    return line + [(point.epsilon, point.error) for point in points]


def _is_shown(error: float) -> bool:
    return math.isfinite(error) and error > 0


def _set_ticks(axes: Axes, curves: Sequence[Curve]) -> tuple[float, float]:
    """A tick at every epsilon, written as a person writes it, as long as they do not overlap.

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
    """What stands at a tick between powers of ten."""
    return f"{error:g}" if narrow or f"{error:.0e}"[0] in "25" else ""


def _name(axes: Axes, curves: Sequence[Curve], ends: Sequence[tuple[float, int]]) -> None:
    """Write each name at the height of its curve's end, moved up where another is too near."""
    low, high = axes.get_ylim()
    last = -math.inf
    for end, place in sorted(ends):
        height = math.log(end / low) / math.log(high / low)
        last = max(height, last + _APART)
        colour, marker = _style(place)
        axes.annotate(
            literal(curves[place].name),
            (1.0, last),
            xycoords="axes fraction",
            xytext=(16, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            fontsize=9,
            annotation_clip=False,
        )
        if curves[place].points:
            axes.plot(
                [1.015],
                [last],
                marker,
                color=colour,
                markersize=5,
                transform=axes.transAxes,
                clip_on=False,
            )
    axes.set_ylim(low, high)


def _legend(figure: Figure, curves: Sequence[Curve]) -> None:
    from matplotlib.lines import Line2D

    handles, labels = [], []
    if any(curve.points for curve in curves):
        handles.append(Line2D([], [], color=GREY, marker="o", linestyle=""))
        labels.append("measured")
    if any(curve.line for curve in curves):
        handles.append(Line2D([], [], color=GREY))
        labels.append("predicted")
    spread = any(math.isfinite(p.spread) for curve in curves for p in curve.points)
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=2,
        fontsize=9,
        title=WHISKERS if spread else None,
    )
