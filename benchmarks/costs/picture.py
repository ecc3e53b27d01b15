"""The picture of costs: time and memory by the number of respondents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from benchmarks.costs.measuring import Taken
from scenarios.report.pictures.drawing import Plot
from scenarios.report.pictures.style import PALE, End, frame, name_ends, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = (("live, every message recorded", ("run", "verify", "audit")), ("by law", ("tabulate",)))
ROWS: Sequence[tuple[str, Callable[[Taken], float]]] = (
    ("processor seconds", lambda taken: taken.computing),
    ("peak memory, MB", lambda taken: taken.memory / 1e6),
)


def plot_costs(costs: Mapping[str, Mapping[int, Taken]]) -> Plot:
    """Processor seconds and memory of each command, on logarithmic axes.

    Args:
        costs: of each command, by the number of respondents.
    """

    def plot(figure: Figure) -> None:
        shares = [0.57, 0.43]
        grid = figure.subplots(2, 2, sharex="col", sharey="row", width_ratios=shares)
        ends: list[tuple[Axes, list[End]]] = []
        place = 0
        for column, (title, names) in enumerate(COLUMNS):
            drawn = {name: costs[name] for name in names if costs.get(name)}
            for row, (label, amount) in enumerate(ROWS):
                axes = grid[row][column]
                axes.set_xscale("log")
                axes.set_yscale("log")
                ends.append((axes, _draw(axes, drawn, amount, place)))
                if not column:
                    axes.set_ylabel(label)
            grid[0][column].set_title(title)
            grid[1][column].set_xlabel("respondents")
            place += len(names)
        for axes in grid.flat:
            _slopes(axes)
        frame(
            figure,
            "What a survey costs by its number of respondents",
            (
                "all processes of each command together, run with 2 workers",
                "along a dashed line the cost is proportional to the number",
            ),
            size=(9.0, 6.0),
        )
        name_ends(ends)

    return plot


def _draw(
    axes: Axes,
    costs: Mapping[str, Mapping[int, Taken]],
    amount: Callable[[Taken], float],
    first: int,
) -> list[End]:
    """Draw a curve for each command; returns where the curves end."""
    ends = []
    for place, (name, of) in enumerate(costs.items(), first):
        colour, marker = style(place)
        points = sorted((n, amount(taken)) for n, taken in of.items())
        axes.plot(*zip(*points, strict=True), color=colour, marker=marker)
        ends.append(End(*points[-1], name, place))
    return ends


def _slopes(axes: Axes) -> None:
    """Lines of slope one, a decade apart, that leave the limits as they are."""
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlim(axes.get_xlim())
    axes.set_ylim(axes.get_ylim())
    for exponent in range(-12, 4):
        start, end = 10.0**exponent, 10.0 ** (exponent + 1)
        axes.axline((1.0, start), (10.0, end), color=PALE, linestyle="--", linewidth=0.7)
