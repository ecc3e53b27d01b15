"""Picture of a survey's result: shares and means with intervals, next to the truth if known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from protocol.estimators.dependence.glance import glance
from protocol.estimators.inference.interval_words import made_by
from protocol.estimators.inference.intervals import USUAL, Intervals, Shown, level_text
from protocol.estimators.projection import Projection
from protocol.session.variant import Variant
from scenarios.report.pictures.drawing import Plot
from scenarios.report.pictures.style import COLOURS, GREY, LONGEST, PALE, frame, literal
from scenarios.report.pictures.triangle import draw_triangle, triangle_notes, triangle_width
from scenarios.running.outcomes import Outcome
from scenarios.running.scenario import Finished
from scenarios.statement.estimates import estimated
from scenarios.statement.statement import Panel, Section
from scenarios.wording.decimals import legend_text
from scenarios.wording.formatting import MINUS, count, cut, epsilon

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CATEGORIES = 20
"""Maximum number of drawn categories of an attribute."""

_MOST_MEANS = 14
_COLUMN = 56
"""Maximum number of lines in a column."""

_SHORT = 24
"""Columns that are no longer are not split."""

_GAP = 1.7
"""Lines that the name of an attribute takes."""

_HIGH = 0.19
"""Inches of a line."""

_VANISHES = 0.012
"""Half an interval below this part of the axis can hardly be seen."""


def plot_finished(finished: Finished, intervals: Intervals = USUAL) -> Plot:
    """Estimated shares or means with intervals, next to the true ones.

    If intervals of shares are too short to see, a second column has the estimates minus the truth.
    """

    def plot(figure: Figure) -> None:
        section = estimated(
            finished.reported,
            intervals,
            projection=finished.projection,
            truth=finished.outcome.records,
        )
        shares = [panel for panel in section.panels if panel.limits is None]
        if shares:
            _draw_shares(figure, finished, shares, section.total)
        else:
            _draw_means(figure, finished, section)

    return plot


def _draw_shares(figure: Figure, finished: Finished, panels: Sequence[Panel], total: int) -> None:
    survey, intervals = finished.outcome.variant.survey, panels[0].intervals
    blocks = [
        replace(
            panel,
            labels=panel.labels[:CATEGORIES],
            figures=panel.figures[:CATEGORIES],
            truth=panel.truth[:CATEGORIES],
        )
        for panel in panels
    ]
    seen = glance(finished.reported)
    pairs = seen is not None and len(seen.names) > 2 and bool(seen.pairs) and not seen.too_noisy
    low, high, vanish = _ends(blocks)
    beside = vanish and bool(blocks[0].truth)
    columns = list(_columns(blocks, 2 if beside or pairs else 3))
    shown = [block for column in columns for block in column]
    figures = [found for block in shown for found in block.figures]
    trues = [true for block in shown for true in block.truth]
    lines = [sum(len(block.labels) + _GAP for block in column) for column in columns]
    more = triangle_width(seen) if seen is not None and pairs else 0.0
    wide = (4.3 if len(columns) > 1 else 5.5) + 1.6 * beside
    wide = min(wide, (LONGEST - more) / len(columns))
    widths = [0.64 * wide, 0.36 * wide] if beside else [wide]
    grid: Any = figure.subplots(
        1,
        len(columns) * (1 + beside) + pairs,
        squeeze=False,
        width_ratios=widths * len(columns) + [more] * pairs,
    )[0]
    if seen is not None and pairs:
        draw_triangle(grid[-1], seen)
    for place, column in enumerate(columns):
        own = grid[place * (1 + beside) : (place + 1) * (1 + beside)]
        _draw_column(own, column, max(lines), (low, high), finished.projection, intervals)
    if beside:
        differences = grid[1 : 2 * len(columns) : 2]
        ends = [axes.get_xlim() for axes in differences]
        for axes in differences:
            axes.set_xlim(min(end[0] for end in ends), max(end[1] for end in ends))
    said = [
        *conditions(finished.outcome),
        "" if len(shown) == len(blocks) else f"the first {len(shown)} of {total} attributes",
        f"at most {CATEGORIES} categories each"
        if any(len(panel.labels) > CATEGORIES for panel in panels)
        else "",
        *([] if seen is None else triangle_notes(seen)),
    ]
    handles, labels = grid[0].get_legend_handles_labels()
    frame(
        figure,
        _title(survey.title, figures, trues, intervals, "share"),
        said,
        size=(max(7.0, wide * len(columns) + more), max(2.6, 0.5 + _HIGH * max(lines))),
        handles=handles,
        labels=labels,
    )


def _ends(blocks: Sequence[Panel]) -> tuple[float, float, bool]:
    """Ends of the share axis, and whether intervals are too narrow to see on it."""
    figures = [found for block in blocks for found in block.figures]
    trues = [true for block in blocks for true in block.truth]
    ends = np.array([[found.low, found.high] for found in figures])
    high = float(np.nanmax([1e-6, *trues, *(f.value for f in figures), *ends[:, 1]]))
    low = float(np.nanmin([0.0, *(f.value for f in figures), *ends[:, 0]]))
    halves = (ends[:, 1] - ends[:, 0]) / 2
    halves = halves[np.isfinite(halves) & (halves > 0)]
    return low, high, bool(halves.size and np.median(halves) < _VANISHES * (high - low))


def _columns(blocks: Sequence[Panel], most: int) -> Iterator[list[Panel]]:
    """Attributes by column, in order and of nearly equal length, as far as they fit."""
    total = sum(len(block.labels) + _GAP for block in blocks)
    number = min(most, max(1, math.ceil(total / _SHORT)), len(blocks))
    goal = min(_COLUMN, total / number)
    column: list[Panel] = []
    lines = 0.0
    done = 0
    for block in blocks:
        size = len(block.labels) + _GAP
        # Over the goal by more than what is missing without it.
        if column and (lines + size / 2 > goal or lines + size > _COLUMN):
            if done + 1 < number:
                yield column
                column, lines, done = [], 0.0, done + 1
            elif lines + size > _COLUMN:
                break
        column.append(block)
        lines += size
    if column:
        yield column


def _draw_column(
    grid: Sequence[Axes],
    blocks: Sequence[Panel],
    lines: float,
    ends: tuple[float, float],
    projection: Projection,
    intervals: Intervals,
) -> None:
    """Draw attributes below each other; a second pair of axes has errors against the truth."""
    axes = grid[0]
    places: list[float] = []
    labels: list[str] = []
    y = 0.0
    for block in blocks:
        for each in grid:
            words = literal(cut(block.name, 40)) if each is axes else ""
            each.text(
                0.0,
                y + _GAP / 2 - 0.1,
                words,
                transform=each.get_yaxis_transform(),
                fontweight="bold",
                va="center",
                fontsize=8.5,
            )
        y += _GAP
        places += [y + i for i in range(len(block.labels))]
        labels += [cut(label, 30) for label in block.labels]
        y += len(block.labels)
    figures = [found for block in blocks for found in block.figures]
    trues = [true for block in blocks for true in block.truth]
    if trues:
        axes.barh(places, 100 * np.array(trues), 0.8, color=PALE, label="truth")
    draw_intervals(axes, places, _in_points(figures), intervals, projection)
    room = 0.04 * (ends[1] - ends[0])
    axes.set_xlim(100 * (ends[0] - room * (ends[0] < 0)), 100 * (ends[1] + room))
    axes.set_yticks(places, list(map(literal, labels)))
    axes.set_ylim(lines - 0.4, -0.1)
    axes.set_xlabel(f"share of {intervals.about} (%)")
    axes.axvline(0, color=GREY, linewidth=0.6)
    for each in grid:
        each.grid(axis="y", visible=False)
        each.tick_params(axis="y", length=0)
    if len(grid) > 1:
        less = [
            Shown(*(value - true for value in found))
            for found, true in zip(figures, trues, strict=True)
        ]
        grid[1].axvline(0, color=GREY, linewidth=0.8)
        draw_intervals(grid[1], places, _in_points(less), intervals, projection)
        grid[1].set_yticks(places, [])
        grid[1].set_ylim(*axes.get_ylim())
        grid[1].locator_params(axis="x", nbins=4)
        grid[1].set_xlabel(f"estimate {MINUS} truth\n(points)")


def _in_points(figures: Sequence[Shown]) -> list[Shown]:
    return [Shown(*(100 * value for value in found)) for found in figures]


def _draw_means(figure: Figure, finished: Finished, section: Section) -> None:
    """Draw each mean on an axis of its own, as scales differ."""
    shown = section.panels[:_MOST_MEANS]
    intervals = shown[0].intervals
    grid = figure.subplots(len(shown), 1, squeeze=False).ravel()
    for axes, panel in zip(grid, shown, strict=True):
        if panel.truth:
            axes.plot(panel.truth, [0], "|", color=GREY, markersize=18, label="truth")
        draw_intervals(axes, [0], panel.figures, intervals, what="estimated mean")
        axes.set_yticks([0], [literal(cut(panel.name, 40))])
        axes.margins(x=0.3)
        axes.grid(axis="y", visible=False)
    grid[-1].set_xlabel(f"mean of the {intervals.about}, each attribute on its own scale")
    handles, labels = grid[0].get_legend_handles_labels()
    said = conditions(finished.outcome)
    if len(shown) < section.total:
        said.append(f"the first {len(shown)} of {section.total} attributes")
    title = finished.outcome.variant.survey.title
    figures = [found for panel in shown for found in panel.figures]
    trues = [true for panel in shown for true in panel.truth]
    frame(
        figure,
        _title(title, figures, trues, intervals, "mean"),
        said,
        size=(7.5, 0.4 + 0.75 * len(shown)),
        handles=handles,
        labels=labels,
    )


def _title(
    survey: str, figures: Sequence[Shown], trues: Sequence[float], intervals: Intervals, what: str
) -> str:
    """Title, with the number of intervals that contain the truth if it is known."""
    known = [
        (found, true)
        for found, true in zip(figures, trues, strict=False)
        if not math.isnan(found.low + found.high)
    ]
    if not known:
        return f"{survey}: {count(len(figures), f'estimated {what}')}"
    if all(found.exact for found, _ in known):
        return f"{survey}: {count(len(known), f'exact {what}')}"
    held = sum(found.low <= true <= found.high for found, true in known)
    return (
        f"{survey}: {held:,} of {count(len(known), 'interval')} of {level_text(intervals.level)} "
        f"{'hold' if held != 1 else 'holds'} the true {what}"
    )


def conditions(outcome: Outcome[Variant]) -> list[str]:
    """Words on the number of respondents and their cost."""
    loss = outcome.ledger.record_epsilon
    return [
        count(outcome.estimate.n, "respondent"),
        f"ε {epsilon(loss)} per respondent" if math.isfinite(loss) else "no bound on ε",
        "one run",
    ]


def draw_intervals(
    axes: Axes,
    places: Sequence[float] | NDArray[Any],
    figures: Sequence[Shown],
    intervals: Intervals,
    projection: Projection = "none",
    *,
    what: str = "estimate",
) -> None:
    """Draw estimates as points, each with its interval.

    Args:
        axes: values go along, lines across.
        places: the line of each estimate.
        figures: the estimates and the ends of their intervals; unknown ones are not drawn.
        intervals: name of the intervals in the legend.
        projection: projection of the estimates, which leaves the intervals unchanged.
        what: name of the estimates in the legend.
    """
    raw = projection == "none"
    values, low, high = np.array(figures, np.float64).reshape(-1, 3).T
    axes.plot(
        values,
        places,
        "o",
        markersize=4,
        color=COLOURS[0],
        label=what if raw else f"{what}, {made_by(projection)}",
    )
    axes.errorbar(
        (low + high) / 2,
        places,
        xerr=(high - low) / 2,
        fmt="none",
        ecolor=COLOURS[0],
        label=legend_text(intervals) if raw else f"{legend_text(intervals)}, of the raw estimate",
    )
