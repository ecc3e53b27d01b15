"""Pictures for ``--plot``, drawn by matplotlib, which is imported only to draw."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.estimators.inference.laws import About
from protocol.estimators.inference.words import (
    USUAL,
    Intervals,
    Shown,
    bracketed,
    figures_of,
    made_by,
)
from protocol.estimators.projection import Projection
from scenarios.errors import UsageError, printable
from scenarios.report.formatting import as_json
from scenarios.running.reproduction import Compared, Reproduced, Row
from scenarios.running.scenario import Finished

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

Plot: TypeAlias = "Callable[[Figure], None]"
"""Draws into an empty figure."""

ENDINGS = (".png", ".svg", ".pdf")

# Okabe and Ito's colours, which people who see few colours can tell apart; each has a marker of its
# own, so that a copy in grey still tells them.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "v", "P", "X", "<")
GREY = "#666666"

WHISKERS = "whiskers: one standard error over the runs"
"""What stands above the legend of figures over repeated runs."""

_DPI = 200
_MOST_PANELS, _MOST_COLUMNS = 6, 3
_MOST_TICKS = 40
_MOST_ENDS = 8
"""Up to so many attributes a map of dependences has room for intervals."""

_LOGARITHMIC = 100
"""From what ratio of largest to smallest on an axis is logarithmic."""


class DependenceEnds(msgspec.Struct, frozen=True):
    """The intervals of dependences, shape (m, m), None where they are unknown."""

    level: float
    about: About
    low: tuple[tuple[float | None, ...], ...]
    high: tuple[tuple[float | None, ...], ...]


class DependenceMap(msgspec.Struct, frozen=True):
    """What ``dependence`` in a scenario's ``extra`` holds: a symmetric matrix, shape (m, m)."""

    attributes: tuple[str, ...]
    matrix: tuple[tuple[float | None, ...], ...]
    measure: str = ""
    intervals: DependenceEnds | None = None


def check_plot(path: Path) -> None:
    """That a picture can be drawn into this file, before anything runs.

    Raises:
        UsageError: matplotlib is not installed, or no picture's name ends so.
    """
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"--plot {path}: expected a name that ends in {', '.join(ENDINGS)}")
    try:
        import matplotlib.figure  # noqa: F401  # only asked whether it is there
    except ImportError as error:
        raise UsageError("--plot needs matplotlib: pip install 'sottovoce[plots]'") from error


def rendered(plot: Plot, ending: str) -> bytes:
    """A picture as a file's content; the same from the same plot, apart from ids in an SVG.

    Args:
        plot: draws it.
        ending: one of ``ENDINGS``.
    """
    from matplotlib.figure import Figure

    kind = ending.lower().removeprefix(".")
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    figure = Figure(figsize=(8, 5))
    plot(figure)
    # Whoever cannot see the picture is told its title.
    titles = [figure.get_suptitle(), *(axes.get_title() for axes in figure.axes)]
    title = next(filter(None, titles), "").replace(r"\$", "$")
    content = io.BytesIO()
    figure.savefig(
        content, format=kind, dpi=_DPI, metadata={**undated.get(kind, {}), "Title": title}
    )
    return content.getvalue()


def plot_of(name: str, done: Finished | Reproduced, intervals: Intervals = USUAL) -> Plot:
    """What draws a run's result: a reproduction's own plot, if it has one.

    Raises:
        UsageError: there are no rows, or ``dependence`` in ``extra`` is not what ``DependenceMap``
            says.
    """
    if isinstance(done, Reproduced):
        if done.plot is None and not done.rows:
            raise UsageError(f"--plot: {name} has no rows to draw")
        shown = done.picture
        return done.plot or plot_rows(done.rows, x=shown.x, by=shown.by, title=shown.title or name)
    return done.plot or plot_finished(done, intervals, title=name)


# Measured beside printed


def plot_rows(
    rows: Sequence[Row],
    *,
    x: str | None = None,
    by: Sequence[str] | None = None,
    label: str = "value",
    title: str = "",
) -> Plot:
    """Curves of measured and printed figures along one setting; without such, a row a line.

    Every named figure has panels of its own. The first of ``by`` tells panels apart, the others
    together tell colours apart; both are chosen among what varies if they are not given.

    Args:
        rows: of a reproduction, at least one.
        x: a setting whose values are numbers, for the horizontal axis.
        by: the other settings that vary.
        label: what a figure without a name is, with its unit.
        title: above all.

    Raises:
        ValueError: there are no rows, or ``x`` is not a number in any.
    """
    if not rows:
        raise ValueError("expected at least one row to draw")
    varying = _varying(rows)
    along = _longest(rows, varying) if x is None else x
    others = [name for name in varying if name != along] if by is None else list(by)
    if x is not None and not any(_is_number(row.settings.get(x)) for row in rows):
        raise ValueError(f"x={x!r}: expected a setting whose values are numbers")
    names = tuple(dict.fromkeys(figure.name for row in rows for figure in row.figures()))
    paneled, coloured = (others[:1], others[1:]) if len(others) > 1 else ([], others)
    panels, colours = ({_key(row, some) for row in rows} for some in (paneled, coloured))

    def plot(figure: Figure) -> None:
        figure.set_layout_engine("constrained")
        figure.suptitle(literal(title))
        if along is None or len(colours) > len(COLOURS) or len(panels) > _MOST_PANELS:
            _draw_lines(figure, rows, names, varying, label)
        else:
            _draw_curves(figure, rows, names, along, paneled, coloured, label)

    return plot


def _draw_curves(
    figure: Figure,
    rows: Sequence[Row],
    names: Sequence[str],
    x: str,
    paneled: Sequence[str],
    coloured: Sequence[str],
    label: str,
) -> None:
    rows = [row for row in rows if _is_number(row.settings.get(x))]
    panels = list(dict.fromkeys(_key(row, paneled) for row in rows))
    series = list(dict.fromkeys(_key(row, coloured) for row in rows))
    figure.set_size_inches(max(6.5, 3.6 * len(panels)), max(4.0, 3.2 * len(names)))
    grid = figure.subplots(len(names), len(panels), squeeze=False, sharex=True, sharey="row")
    for (i, name), (j, panel) in product(enumerate(names), enumerate(panels)):
        axes: Axes = grid[i, j]
        for place, one in enumerate(series):
            points = [
                (float(row.settings[x]), compared)
                for row in rows
                if _key(row, paneled) == panel and _key(row, coloured) == one
                for compared in row.figures()
                if compared.name == name
            ]
            if points:
                _draw_curve(axes, points, place, _words(coloured, one) or "measured")
        axes.set_title(_words(paneled, panel), fontsize=10)
        axes.set_xlabel(literal(x))
        if not j:
            axes.set_ylabel(literal(name or label))
        axes.grid(color="#DDDDDD", linewidth=0.5)
    printed = any(f.printed is not None for row in rows for f in row.figures())
    _set_scales(grid, [float(row.settings[x]) for row in rows])
    _legend(figure, grid[0, 0], printed=printed, several=len(series) > 1, whiskers=_whiskers(rows))


def _draw_curve(
    axes: Axes, points: Sequence[tuple[float, Compared]], place: int, label: str
) -> None:
    points = sorted(points, key=lambda point: point[0])
    xs = [x for x, _ in points]
    colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
    measured = _finite([figure.measured for _, figure in points])
    errors = _finite([figure.standard_error for _, figure in points])
    axes.errorbar(xs, measured, yerr=errors, fmt=f"{marker}-", color=colour, label=label, capsize=2)
    printed = _finite([figure.printed for _, figure in points])
    if not np.isnan(printed).all():
        axes.plot(xs, printed, f"{marker}--", color=colour, markerfacecolor="white", alpha=0.8)


def _set_scales(grid: NDArray[Any], xs: Sequence[float]) -> None:
    if min(xs) > 0 and max(xs) >= _LOGARITHMIC * min(xs):
        grid[0, 0].set_xscale("log")
    for panels in grid:
        lines = [line for axes in panels for line in axes.get_lines()]
        drawn = [np.asarray(line.get_ydata(), np.float64) for line in lines]
        values = np.concatenate([*drawn, np.zeros(0)])
        values = values[np.isfinite(values)]
        if values.size and values.min() > 0 and values.max() >= _LOGARITHMIC * values.min():
            panels[0].set_yscale("log")


def _whiskers(rows: Sequence[Row]) -> str | None:
    """What whiskers are, if there are any."""
    errors = (figure.standard_error for row in rows for figure in row.figures())
    return WHISKERS if any(error and math.isfinite(error) for error in errors) else None


def _legend(
    figure: Figure, axes: Axes, *, printed: bool, several: bool, whiskers: str | None
) -> None:
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    if printed:
        if several:
            handles.append(Line2D([], [], color=GREY, marker="o"))
            labels.append("measured")
        handles.append(
            Line2D([], [], color=GREY, marker="o", linestyle="--", markerfacecolor="white")
        )
        labels.append("printed")
    columns = min(5, len(handles)) or 1
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, fontsize=9, title=whiskers
    )


def _draw_lines(
    figure: Figure,
    rows: Sequence[Row],
    names: Sequence[str],
    varying: Sequence[str],
    label: str,
) -> None:
    """Every row a line, with its measured and its printed figure on it."""
    columns = min(_MOST_COLUMNS, len(names))
    high = math.ceil(len(names) / columns)
    height = min(200.0, 1.0 + high * (1.0 + 0.28 * len(rows)))
    figure.set_size_inches(max(7.0, 3.0 + 3.2 * columns), height)
    grid = figure.subplots(high, columns, squeeze=False, sharey=True)
    panels = grid.ravel()
    for axes, name in zip(panels, names, strict=False):
        found = [(i, f) for i, row in enumerate(rows) for f in row.figures() if f.name == name]
        places = [i for i, _ in found]
        measured = _finite([f.measured for _, f in found])
        errors = _finite([f.standard_error for _, f in found])
        printed = _finite([f.printed for _, f in found])
        axes.errorbar(measured, places, xerr=errors, fmt="o", color=COLOURS[0], capsize=2)
        axes.plot(printed, places, "D", color=COLOURS[1], markerfacecolor="none", markersize=8)
        axes.set_xlabel(literal(name or label))
        axes.locator_params(axis="x", nbins=5)
        axes.tick_params(axis="y", labelsize=8)
        axes.grid(axis="y", color="#DDDDDD", linewidth=0.5)
    keys = [_words(varying, _key(row, varying)) for row in rows]
    panels[0].set_yticks(range(len(rows)), keys)
    for axes in grid[:, 0]:
        axes.set_ylabel("setting")
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    marks = [*panels[0].containers, panels[0].get_lines()[-1]]
    figure.legend(
        marks,
        ("measured", "printed"),
        loc="outside lower center",
        ncols=2,
        fontsize=9,
        title=_whiskers(rows),
    )


def _varying(rows: Sequence[Row]) -> list[str]:
    names = dict.fromkeys(name for row in rows for name in row.settings)
    return [name for name in names if len({_key(row, [name]) for row in rows}) > 1]


def _longest(rows: Sequence[Row], varying: Sequence[str]) -> str | None:
    """The setting of numbers, in every row, that has the most values; else None."""
    found = {
        name: len({_key(row, [name]) for row in rows})
        for name in varying
        if all(_is_number(row.settings.get(name)) for row in rows)
    }
    return max(found, key=lambda name: found[name]) if found else None


def _is_number(value: object) -> bool:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return number and math.isfinite(value)  # type: ignore[arg-type]  # it is a number


def _key(row: Row, names: Sequence[str]) -> tuple[str, ...]:
    """The values of some settings as texts, since not all of them can be hashed."""
    return tuple(row.shown(name) for name in names)


def _words(names: Sequence[str], values: Sequence[str]) -> str:
    return literal(", ".join(f"{n} = {v}" for n, v in zip(names, values, strict=True) if v))


def literal(text: str) -> str:
    """A text that is drawn as it is: matplotlib takes what stands between dollars for formulas."""
    return printable(text).replace("$", r"\$")


def _finite(values: Sequence[float | None]) -> NDArray[np.float64]:
    """Numbers to draw, with gaps where there are none."""
    return np.array([v if v is not None and math.isfinite(v) else np.nan for v in values], float)


# An ordinary scenario


def plot_finished(finished: Finished, intervals: Intervals = USUAL, *, title: str = "") -> Plot:
    """Every attribute's estimated shares with their intervals, beside the true ones.

    Raises:
        UsageError: ``dependence`` in ``extra`` is not what ``DependenceMap`` says.
    """
    dependence = _dependence(finished.extra)

    def plot(figure: Figure) -> None:
        figure.set_layout_engine("constrained")
        survey = finished.outcome.variant.survey
        figure.suptitle(literal(f"{title}: {survey.title}" if title else survey.title))
        if finished.reported.attribute_means():
            _draw_means(figure, finished, intervals)
            return
        if dependence is None:
            _draw_marginals(figure, figure, finished, intervals)
            return
        marginals, matrix = figure.subfigures(1, 2, squeeze=False, width_ratios=(3, 2))[0]
        _draw_marginals(figure, marginals, finished, intervals)
        _draw_dependence(matrix, dependence)
        figure.set_size_inches(figure.get_figwidth() * 5 / 3, max(5.0, figure.get_figheight()))

    return plot


def _draw_means(figure: Figure, finished: Finished, intervals: Intervals) -> None:
    """Each mean on an axis of its own, as every attribute has a scale of its own."""
    means, records = finished.reported.attribute_means(), finished.outcome.records
    true = {} if records is None else finished.reported.true_means(records)
    drawn = list(means.items())[:_MOST_TICKS]
    figure.set_size_inches(6.0, 1.5 + 0.8 * len(drawn))
    for axes, (name, mean) in zip(
        figure.subplots(len(drawn), 1, squeeze=False).ravel(), drawn, strict=True
    ):
        if true:
            axes.plot([true[name]], [0], "|", color="#999999", markersize=18, label="truth")
        found = figures_of(mean.value, intervals.of(mean))
        draw_intervals(axes, [0], found, intervals, what="estimated mean")
        axes.set_yticks([0], [literal(name)], fontsize=8)
        axes.margins(x=0.3)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9)


def _draw_marginals(
    figure: Figure, where: Figure | SubFigure, finished: Finished, intervals: Intervals
) -> None:
    records = finished.outcome.records
    if records is not None:
        records = finished.reported.recoded(records)
    marginals = finished.reported.marginals(finished.projection)
    columns = min(2, len(marginals))
    lines = math.ceil(len(marginals) / columns)
    sizes = [len(table.categories[0]) for table in marginals.values()]
    heights = [min(_MOST_TICKS, max(sizes[i * columns : (i + 1) * columns])) for i in range(lines)]
    figure.set_size_inches(4.5 * columns, max(4.0, 1.0 + 0.8 * lines + 0.25 * sum(heights)))
    grid = where.subplots(
        lines, columns, squeeze=False, gridspec_kw={"height_ratios": [h + 2 for h in heights]}
    ).ravel()
    for axes, (name, table) in zip(grid, marginals.items(), strict=False):
        places = np.arange(len(table.categories[0]))
        if records is not None:
            true = records.distribution([name])
            axes.barh(places, true, 0.8, color="#BBBBBB", label="truth")
        found = figures_of(table.values, intervals.of(table))
        draw_intervals(axes, places, found, intervals, finished.projection)
        step = math.ceil(len(places) / _MOST_TICKS)
        labels = [literal(category) for category in table.categories[0][::step]]
        axes.set_yticks(places[::step], labels, fontsize=8)
        axes.invert_yaxis()
        axes.set_ylabel(literal(name))
        axes.set_xlabel(f"share of {intervals.about}")
        axes.axvline(0, color=GREY, linewidth=0.5)
    for axes in grid[len(marginals) :]:
        axes.set_visible(False)
    handles, labels = grid[0].get_legend_handles_labels()
    where.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9)


def draw_intervals(
    axes: Axes,
    places: Sequence[float] | NDArray[Any],
    figures: Sequence[Shown],
    intervals: Intervals,
    projection: Projection = "none",
    *,
    what: str = "estimate",
) -> None:
    """Estimates as points, each with its interval, which may lie beside it.

    Args:
        axes: values go along, lines across.
        places: the line of each estimate.
        figures: the estimates and the ends of their intervals; unknown ones are not drawn.
        intervals: what the legend says of them.
        projection: what was done to the estimates, but not to the intervals.
        what: what the legend calls the estimates.
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
        capsize=3,
        label=intervals.legend if raw else f"{intervals.legend}, of the raw estimate",
    )


def _dependence(extra: Mapping[str, Any]) -> DependenceMap | None:
    if "dependence" not in extra:
        return None
    try:
        found = msgspec.convert(as_json(extra["dependence"]), DependenceMap)
    except msgspec.ValidationError as error:
        raise UsageError(f"--plot: the scenario's key 'dependence': {error}") from error
    ends = () if found.intervals is None else (found.intervals.low, found.intervals.high)
    lengths = {len(rows) for rows in (found.matrix, *ends)}
    lengths |= {len(row) for rows in (found.matrix, *ends) for row in rows}
    if {len(found.attributes)} != lengths:
        raise UsageError("--plot: the scenario's key 'dependence': expected a square matrix")
    return found


def _draw_dependence(figure: SubFigure, dependence: DependenceMap) -> None:
    axes = figure.subplots()
    matrix = np.array(dependence.matrix, np.float64)
    # 1 is complete dependence; a covariance may be larger.
    largest = max(1.0, float(matrix.max()))
    mesh = axes.imshow(matrix, cmap="cividis", vmin=0, vmax=largest)
    names = [literal(name) for name in dependence.attributes]
    places = range(len(names))
    axes.set_xticks(places, names, rotation=45, ha="right", fontsize=8)
    axes.set_yticks(places, names, fontsize=8)
    axes.set_xlabel("attribute")
    axes.set_ylabel("attribute")
    measure = literal(f" ({dependence.measure})" if dependence.measure else "")
    label = f"dependence{measure}"
    below = _ends_of(dependence)
    if below and dependence.intervals is not None:
        intervals = Intervals(dependence.intervals.level, dependence.intervals.about)
        label = f"{label},\nwith its {intervals.legend}"
    figure.colorbar(mesh, ax=axes, label=label, location="bottom", shrink=0.8)
    if len(places) <= 12:
        for i, j in product(places, places):
            colour = "black" if matrix[i, j] > largest / 2 else "white"
            words = f"{matrix[i, j]:.2f}{below.get((i, j), '')}"
            axes.text(j, i, words, ha="center", va="center", color=colour, size=5 if below else 7)


def _ends_of(dependence: DependenceMap) -> dict[tuple[int, int], str]:
    """The lines below the values of pairs: the intervals, where there is room."""
    ends, m = dependence.intervals, len(dependence.attributes)
    if ends is None or m > _MOST_ENDS:
        return {}
    low, high = (np.array(rows, np.float64) for rows in (ends.low, ends.high))
    return {
        (i, j): "\n" + bracketed(Shown(0.0, low[i, j], high[i, j]), "{:.2f}".format)
        for i, j in product(range(m), repeat=2)
        if i != j
    }
