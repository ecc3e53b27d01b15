"""Tables of numbers in shades."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scenarios.report.pictures.style import literal
from scenarios.wording.formatting import cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LETTERS = 10
"""Maximum number of letters of a category."""

_TICKS = 12
"""Maximum number of named categories on an axis."""


class Table(NamedTuple):
    """Numbers by two settings.

    Args:
        rows, columns: labels of the rows and columns.
        along: subject of the columns.
        across: subject of the rows.
        values: shape (rows, columns); NaN is left blank.
        unit: unit of the values.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    along: str
    across: str
    values: NDArray[np.float64]
    unit: str


def draw_table(axes: Axes, table: Table) -> None:
    """A table in shades, blue above 0 and red below, with a scale of its own below it."""
    known = table.values[np.isfinite(table.values)]
    end = float(np.abs(known).max(initial=0.0)) or 1.0
    shades = axes.pcolormesh(table.values, cmap="RdBu", vmin=-end, vmax=end)
    axes.invert_yaxis()
    axes.grid(visible=False)
    for set_ticks, names in ((axes.set_xticks, table.columns), (axes.set_yticks, table.rows)):
        step = -(-len(names) // _TICKS)
        places = range(0, len(names), step)
        words = [literal(cut(names[place], _LETTERS)) for place in places]
        set_ticks([place + 0.5 for place in places], words)
    axes.set_xlabel(literal(cut(table.along, 40)))
    axes.set_ylabel(literal(cut(table.across, 40)))
    figure = axes.get_figure(root=True)
    if figure is not None:
        bar = figure.colorbar(
            shades, ax=axes, orientation="horizontal", aspect=30, use_gridspec=False
        )
        bar.ax.set_xlim(float(known.min(initial=0.0)), end)
        bar.ax.locator_params(axis="x", nbins=4)
        bar.set_label(literal(cut(table.unit, 40)))
