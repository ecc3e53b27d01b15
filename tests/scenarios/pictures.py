"""What is wrong with a picture: ink at an edge, labels over labels, its size, internal names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from scenarios.report.pictures.drawing import Plot, draw_figure
from scenarios.report.pictures.style import STYLE

MOST_PIXELS = 2_000
MARGIN = 3
"""So many pixels at every edge are empty."""

OVERLAP = 1.5
"""Labels share at most so many pixels in one direction."""

INTERNAL = re.compile(r"(?<![\w$])[a-z]{2,}(_[a-z0-9]+)+(?!\w)")
"""A name of the code, such as ``standard_error``."""

BARE = frozenset({"raw", "tv", "td", "setting", "measured figure", "value", "simplex", "em"})
"""What no reader knows the meaning of, as an axis or a whole label."""


def faults(plot: Plot, *names: str) -> list[str]:
    """What is wrong with a picture.

    Args:
        plot: draws it.
        names: those of scenarios, which are no title and no label.
    """
    figure = draw_figure(plot)
    with rc_context(STYLE):
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
    return [
        *_size_and_edges(figure, canvas),
        *_overlaps(figure),
        *_names(figure, names),
    ]


def _size_and_edges(figure: Figure, canvas: FigureCanvasAgg) -> Iterator[str]:
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]
    height, width, _ = pixels.shape
    if max(height, width) > MOST_PIXELS:
        yield f"{width} x {height} pixels"
    blank = (pixels >= 250).all(axis=2)
    edges = {
        "top": blank[:MARGIN],
        "bottom": blank[-MARGIN:],
        "left": blank[:, :MARGIN],
        "right": blank[:, -MARGIN:],
    }
    for edge, empty in edges.items():
        if not empty.all():
            yield f"ink at the {edge} edge"
    whole = Bbox.from_extents(0, 0, width, height)
    for text, box in _boxes(figure):
        if box.x0 < 0 or box.y0 < 0 or box.x1 > whole.x1 or box.y1 > whole.y1:
            yield f"{text!r} leaves the picture"


def _overlaps(figure: Figure) -> Iterator[str]:
    for (one, first), (other, second) in combinations(_boxes(figure), 2):
        wide = min(first.x1, second.x1) - max(first.x0, second.x0)
        high = min(first.y1, second.y1) - max(first.y0, second.y0)
        if wide > OVERLAP and high > OVERLAP:
            yield f"{one!r} and {other!r} overlap"


def _names(figure: Figure, names: tuple[str, ...]) -> Iterator[str]:
    title = figure.get_suptitle()
    if len(title.split()) < 3:
        yield f"title {title!r}"
    texts = {text for text, _ in _boxes(figure)}
    for text in texts:
        if INTERNAL.search(text) or text in BARE or text in names:
            yield f"internal name {text!r}"
    for axes in figure.axes:
        if axes.get_visible() and axes.axison and not axes.get_xlabel():
            below = [other for other in figure.axes if other.get_xlabel()]
            if not any(other.get_position().x0 == axes.get_position().x0 for other in below):
                yield "an axis without a label"


def _boxes(figure: Figure) -> list[tuple[str, Bbox]]:
    """Every text that is drawn, and where."""
    hidden = {id(text) for axes in figure.axes for text in _hidden(axes)}
    return [
        # Of an annotation the text alone, without its line.
        (text.get_text(), Text.get_window_extent(text))
        for text in figure.findobj(Text)
        if isinstance(text, Text)
        and text.get_text().strip()
        and text.get_visible()
        and id(text) not in hidden
    ]


def _hidden(axes: Axes) -> Iterator[Text]:
    """The texts of axes that matplotlib does not draw: all, or those of ticks out of view."""
    if not axes.get_visible():
        yield from (text for text in axes.findobj(Text) if isinstance(text, Text))
        return
    for axis in (axes.xaxis, axes.yaxis):
        shown = axis._update_ticks() if axes.axison else []  # type: ignore[attr-defined]
        for tick in (*axis.majorTicks, *axis.minorTicks):
            if tick not in shown:
                yield from (tick.label1, tick.label2)
        if not axes.axison:
            yield axis.label
