"""Dependence of all pairs of attributes, as a triangle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from protocol.estimators.dependence.glance import CELLS, Glance
from scenarios.report.pictures.style import COLOURS, GREY, literal
from scenarios.wording.formatting import count, cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WRITTEN = 12
"""Maximum number of attributes for which cells have their values."""

_LETTERS = 16
"""Maximum number of letters of a name."""


def triangle_width(seen: Glance) -> float:
    """Inches that a triangle needs: a square for each attribute, and the last name."""
    size = 0.36 if len(seen.names) <= _WRITTEN else 0.2
    letters = max(len(cut(name, _LETTERS)) for name in seen.names)
    return max(2.0, size * len(seen.names) + 0.085 * letters + 0.2)


def triangle_notes(seen: Glance) -> list[str]:
    """Notes on a triangle."""
    unseen = [f"not looked at: {what}" for what in left_out(seen)]
    if not seen.pairs:
        return unseen
    if seen.too_noisy:
        return ["how attributes depend on each other is too noisy to show", *unseen]
    noisy = [f"crossed out: too noisy to tell ({seen.noisy})"] if seen.noisy else []
    found = ["triangle: Cramer's V without what noise adds, blank where no dependence is found"]
    edges = ["framed: the Chow-Liu tree"] if seen.edges else []
    clusters = ["outlined: clusters"] if seen.clusters else []
    return [*found, *noisy, *edges, *clusters, *unseen]


def left_out(seen: Glance) -> list[str]:
    """Pairs that were not looked at, each in a few words."""
    large, missing, beyond = seen.large, seen.missing, seen.beyond
    found = [
        f"{count(large, 'pair')} of more than {CELLS} cells" if large else "",
        f"{count(missing, 'pair')} without a table" if missing else "",
        f"the last {count(beyond, 'attribute')}" if beyond else "",
    ]
    return [part for part in found if part]


def draw_triangle(axes: Axes, seen: Glance) -> None:
    """A row and a column for each attribute; its name stands where they meet."""
    from matplotlib.patches import Polygon, Rectangle

    names, m = seen.names, len(seen.names)
    edges = {frozenset(edge) for edge in seen.edges}
    framed: list[Rectangle] = []
    for i, row in enumerate(names):
        axes.text(i + 0.15, i + 0.5, literal(cut(row, _LETTERS)), va="center", fontsize=8)
        for j, column in enumerate(names[:i]):
            pair = seen.pairs.get(frozenset((row, column)))
            if pair is None:
                continue
            shown = pair.judged == "dependent"
            strength = min(1.0, 0.12 + 1.25 * pair.strength) if shown else 0.0
            cell = Rectangle((j + 0.04, i + 0.04), 0.92, 0.92, edgecolor="#CCCCCC", linewidth=0.5)
            cell.set_facecolor(mixed(COLOURS[0], strength))
            axes.add_patch(cell)
            if pair.judged == "too noisy":
                axes.plot([j + 0.2, j + 0.8], [i + 0.8, i + 0.2], color=GREY, linewidth=0.6)
            if shown and m <= _WRITTEN:
                axes.text(
                    j + 0.5,
                    i + 0.5,
                    f"{pair.strength:.2f}".removeprefix("0"),
                    ha="center",
                    va="center",
                    fontsize=7.5,
                    color="white" if strength > 0.85 else "black",
                )
            if frozenset((row, column)) in edges:
                framed.append(Rectangle((j + 0.05, i + 0.05), 0.9, 0.9, fill=False))
    for frame in framed:
        frame.set(edgecolor=COLOURS[1], linewidth=1.6)
        axes.add_patch(frame)
    for cluster in seen.clusters:
        corners = outline(names.index(cluster[0]), len(cluster))
        axes.add_patch(Polygon(corners, fill=False, edgecolor="black", linewidth=1.2))
    letters = max(len(cut(name, _LETTERS)) for name in names[-3:])
    size = 0.36 if m <= _WRITTEN else 0.2
    axes.set_xlim(-0.1, m - 1 + (0.085 * letters + 0.1) / size)
    axes.set_ylim(m + 0.1, -0.1)
    axes.set_aspect("equal", anchor="NW")
    axes.set_axis_off()


def outline(start: int, size: int) -> Sequence[tuple[int, int]]:
    """The corners around the cells of attributes that stand together, in steps along the names."""
    end = start + size
    corners = [(start, start + 1), (start, end), (end - 1, end)]
    for place in range(end - 1, start, -1):
        corners += [(place, place), (place - 1, place)]
    return corners


def mixed(colour: str, share: float) -> tuple[float, float, float]:
    """A colour on white."""
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return (
        1 - share * (1 - red),
        1 - share * (1 - green),
        1 - share * (1 - blue),
    )
