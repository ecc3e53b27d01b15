"""Style of all pictures: colours, sizes, titles, legends, and names at the ends of curves."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from scenarios.errors import printable
from scenarios.wording.formatting import cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which people who see few colours can tell apart."""

MARKERS = ("o", "s", "^", "v", "P", "X", "<")
"""Each colour has a marker of its own, so that a copy in grey still tells them apart."""

GREY, PALE = "#666666", "#C4C4C4"

DPI = 150
"""Pixels of a picture per inch."""

LONGEST = 13.2
"""Maximum length of a side in inches: below 2,000 pixels."""

STYLE: Any = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "lines.markersize": 5.0,
    "lines.linewidth": 1.3,
    "errorbar.capsize": 2.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    # The same picture is the same file.
    "svg.hashsalt": "sottovoce",
}
"""Settings of matplotlib while a picture is drawn."""

_EDGE = 0.12
"""Inches between what is written and the edge."""

_TITLE, _NOTE = 12.0, 8.5
"""Sizes of the title and of what stands below it, in points."""

_BOLD, _PLAIN = 0.62, 0.56
"""The width of a letter, in sizes of its font."""

_LINE = 1.35
"""The height of a line, in sizes of its font."""

_NAME = 8.5
"""The size of names at the ends of curves, in points."""

_APART = 1.3
"""Minimum distance of two names, in font sizes."""

_CUT = 90
"""Maximum number of letters of a label in a legend."""


def style(place: int) -> tuple[str, str]:
    """Colour and marker of a series; a repeated colour has another marker."""
    marker = MARKERS[(place + place // len(COLOURS)) % len(MARKERS)]
    return COLOURS[place % len(COLOURS)], marker


def literal(text: str) -> str:
    """A text without formulas: matplotlib interprets text between dollar signs."""
    return printable(text).replace("$", r"\$")


def frame(
    figure: Figure,
    title: str,
    notes: Sequence[str] = (),
    *,
    size: tuple[float, float],
    handles: Sequence[Any] = (),
    labels: Sequence[str] = (),
) -> None:
    """Set a picture's size, write its title and notes above, and its legend below.

    Args:
        figure: with its axes, which are laid out between the two.
        title: the picture's finding, as a sentence.
        notes: notes such as numbers, and the meaning of whiskers.
        size: inches of the picture's width, and of the height that the axes have.
        handles, labels: entries of the legend, if there are any.
    """
    width, body = min(size[0], LONGEST), size[1]
    titles = _wrap(title, width, _TITLE, _BOLD)
    below = _wrap("; ".join(filter(None, notes)), width, _NOTE, _PLAIN)
    head = _EDGE + (len(titles) * _TITLE + len(below) * _NOTE) * _LINE / 72
    foot = _legend(figure, handles, labels, width)
    height = min(body + head + foot, LONGEST)
    figure.set_size_inches(width, height)
    left, top = _EDGE / width, 1 - _EDGE / height
    words = figure.suptitle(
        "\n".join(map(literal, titles)),
        x=left,
        y=top,
        ha="left",
        va="top",
        fontsize=_TITLE,
        fontweight="bold",
        linespacing=_LINE - 0.15,
    )
    words.set_in_layout(False)
    if below:
        said = figure.text(
            left,
            top - len(titles) * _TITLE * _LINE / 72 / height,
            "\n".join(map(literal, below)),
            ha="left",
            va="top",
            fontsize=_NOTE,
            color=GREY,
            linespacing=_LINE - 0.15,
        )
        said.set_in_layout(False)
    bottom = foot / height
    figure.set_layout_engine(
        "constrained",
        rect=(left / 2, bottom, 1 - left, 1 - bottom - head / height - _EDGE / 2 / height),
    )


def _wrap(text: str, width: float, size: float, letter: float) -> list[str]:
    return textwrap.wrap(text, max(10, int((width - 2 * _EDGE) * 72 / size / letter)))


def _legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str], width: float) -> float:
    """Draw the legend in as many columns as fit; return its height in inches."""
    if not handles:
        return _EDGE / 2
    words = [literal(cut(label, _CUT)) for label in labels]
    for columns in range(min(len(words), 6), 0, -1):
        legend = figure.legend(
            handles, words, loc="lower left", bbox_to_anchor=(0.0, 0.0), ncols=columns
        )
        legend.set_in_layout(False)
        box = legend.get_window_extent()
        if columns == 1 or box.width / figure.dpi <= width - _EDGE:
            break
        legend.remove()
    return float(box.height / figure.dpi)


class End(NamedTuple):
    """The end of a curve, where its name is written.

    Args:
        x, y: in the units of the axes.
        name: the curve's name.
        place: among the curves, for its colour.
    """

    x: float
    y: float
    name: str
    place: int


def name_ends(named: Sequence[tuple[Axes, Sequence[End]]]) -> None:
    """Write the names of curves right of their axes, each as near to its end as the others allow.

    The scales and the figure's frame must be set before.

    Args:
        named: axes with the ends of their curves.
    """
    for place, (axes, ends) in enumerate(named):
        figure = axes.get_figure(root=True)
        engine = figure and figure.get_layout_engine()
        if figure and engine and not place:
            engine.execute(figure)  # Names take width, not height: now that is known.
        points = axes.get_window_extent().height * 72 / (figure.dpi if figure else DPI)
        heights = []
        low, high = axes.get_ylim()
        for end in ends:
            if axes.get_yscale() == "log":
                heights.append(math.log(end.y / low) / math.log(high / low))
            else:
                heights.append((end.y - low) / (high - low))
        for index, height in spread(heights, _APART * _NAME / points).items():
            end = ends[index]
            colour, _ = style(end.place)
            axes.annotate(
                literal(cut(end.name, 40)),
                (end.x, end.y),
                xytext=(1.03, height),
                textcoords="axes fraction",
                color=colour,
                va="center",
                fontsize=_NAME,
                annotation_clip=False,
                arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "alpha": 0.6},
            )


def spread(heights: Sequence[float], gap: float) -> dict[int, float]:
    """Places at least so far apart, as near to some heights from 0 to 1 as they can be.

    Returns:
        The place of each by its index, from the lowest up.
    """
    order = sorted(range(len(heights)), key=lambda place: heights[place])
    found: dict[int, float] = {}
    last = -math.inf
    for place in order:
        last = max(heights[place], last + gap, gap / 2)
        found[place] = last
    last = max(1.0 - gap / 2, gap * (len(order) - 1)) + gap
    for place in reversed(order):
        last = min(found[place], last - gap)
        found[place] = last
    return found
