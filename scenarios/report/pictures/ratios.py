"""Picture of measured figures divided by printed ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from protocol.estimators.inference.intervals import level_text
from protocol.estimators.inference.laws import LEVEL, critical
from scenarios.report.pictures.drawing import Plot
from scenarios.report.pictures.rows import display_name, finding
from scenarios.report.pictures.style import COLOURS, GREY, frame, style
from scenarios.running.reproduction import Compared, Picture, Row
from scenarios.wording.formatting import count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LOGARITHMIC = 5
"""Ratio of largest to smallest value from which the axis is logarithmic."""


_PALE = 0.3
"""Opacity of a mark for a figure with unknown agreement."""


def plot_ratios(rows: Sequence[Row], picture: Picture, *, runs: int | None = None) -> Plot:
    """Every printed figure as measured divided by printed, with its interval and a line at 1.

    Args:
        rows: rows of a reproduction.
        picture: names of its figures.

    Raises:
        ValueError: nothing is printed, or only 0.
    """
    compared = [found for row in rows for found in row.figures() if found.printed is not None]
    drawn = [(found, ratio) for found in compared for ratio in [found.ratio] if ratio is not None]
    if not drawn:
        raise ValueError("expected at least one printed figure that is not 0")
    names = list(dict.fromkeys(found.name for found, _ in drawn))
    coloured = 1 < len(names) <= len(COLOURS)
    z = critical(LEVEL)

    def plot(figure: Figure) -> None:
        from matplotlib.lines import Line2D

        axes = figure.subplots()
        axes.axhline(1.0, color=GREY, linewidth=1.0)
        for x, (found, ratio) in enumerate(drawn, start=1):
            colour, marker = style(names.index(found.name) if coloured else 0)
            error = z * (found.standard_error or 0.0) / abs(found.printed or 1.0)
            axes.errorbar(
                x,
                ratio,
                yerr=0.0 if math.isnan(error) else error,
                fmt=marker,
                color=colour,
                markerfacecolor="white" if found.differs else colour,
                markersize=4.0,
                capsize=0.0,
                alpha=_PALE if found.undecided else 1.0,
            )
        ratios = [ratio for _, ratio in drawn]
        low, high = min(1.0, *ratios), max(1.0, *ratios)
        if low > 0 and high >= _LOGARITHMIC * low:
            axes.set_yscale("log")
            axes.set_ylim(low / 1.3, high * 1.3)
        else:
            room = max(0.02, 0.15 * (high - low))
            axes.set_ylim(low - room, high + room)
        axes.grid(axis="x", visible=False)
        axes.locator_params(axis="x", integer=True)
        axes.set_xlim(0.2, len(drawn) + 0.8)
        axes.set_xlabel("printed figures, in the order of the rows")
        axes.set_ylabel("measured / printed")
        handles, labels = _marks([found for found, _ in drawn], names if coloured else [], picture)
        frame(
            figure,
            finding(rows),
            _notes(compared, len(drawn), runs, LEVEL),
            size=(7.0, 2.6),
            handles=[Line2D([], [], linestyle="", **mark) for mark in handles],
            labels=labels,
        )

    return plot


def _notes(
    compared: Sequence[Compared], drawn: int, runs: int | None, level: float
) -> tuple[str, ...]:
    """Notes below the title."""
    over = any(found.standard_error and not found.unknown for found in compared)
    return (
        "" if runs is None else count(runs, "run"),
        f"whiskers: {level_text(level)} intervals" if over else "",
        f"{len(compared) - drawn:,} printed as 0 left out" if drawn < len(compared) else "",
    )


def _marks(
    found: Sequence[Compared], names: Sequence[str], picture: Picture
) -> tuple[list[dict[str, Any]], list[str]]:
    """Legend: the colours, and the meaning of a hollow mark."""
    marks: list[dict[str, Any]] = []
    for place in range(len(names)):
        colour, marker = style(place)
        marks.append({"color": colour, "marker": marker})
    labels = [display_name(picture, name) for name in names]
    if any(one.differs for one in found):
        marks.append({"color": GREY, "marker": "o", "markerfacecolor": "white"})
        labels.append("hollow: differs by more than chance and rounding")
    if any(one.undecided for one in found):
        marks.append({"color": GREY, "marker": "o", "alpha": _PALE})
        labels.append("pale: too few runs to tell")
    return marks, labels
