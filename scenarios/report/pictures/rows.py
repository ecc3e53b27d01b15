"""Rows of a reproduction: curves along a setting, or a line for each row; and ratios to print."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol.estimators.inference.intervals import level_text
from protocol.estimators.inference.laws import LEVEL, critical
from scenarios.report.pictures.drawing import Plot
from scenarios.report.pictures.style import (
    COLOURS,
    GREY,
    LONGEST,
    End,
    frame,
    literal,
    name_ends,
    style,
)
from scenarios.report.pictures.tables import Table, draw_table
from scenarios.running.reproduction import Compared, Picture, Row
from scenarios.wording.formatting import count, cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_PANELS, _MOST_COLUMNS = 6, 3
_MOST_SERIES = 8
"""The eighth has the first colour again, with another marker."""

_FIGURE = "figure"
"""The setting of rows that tells several figures of a paper apart: each has panels of its own."""

_MOST_LINES = 44
"""Maximum number of rows that are a line each."""

_LOGARITHMIC = 100
"""Ratio of largest to smallest value from which an axis is logarithmic."""

_DECADES = 10
"""A logarithmic axis shows so many at most: what is smaller is the round-off of a zero."""

_ASIDE = 0.006
"""Shift between the points of neighbouring curves, as a share of the axis."""

PRINTED = "printed in the paper"


class _Point(NamedTuple):
    """A figure of a row, with its place in the picture.

    Args:
        x: along the horizontal axis.
        panel: the column of panels.
        line: the row of panels: what the vertical axis is.
        series: name of the curve, which has a colour of its own.
        computed: whether it is a closed form.
    """

    x: float
    panel: str
    line: str
    series: str
    found: Compared
    computed: bool


def plot_rows(
    rows: Sequence[Row],
    picture: Picture | None = None,
    *,
    runs: int | None = None,
    level: float = LEVEL,
) -> Plot:
    """Curves of measured and printed figures along one setting; without such, a row a line.

    Rows with a setting ``figure`` have panels for each of its values, along the setting of numbers
    that has most values there; without such, a table in shades.

    Args:
        rows: rows of a reproduction, at least one.
        picture: choice of figures, and words for them.

    Raises:
        ValueError: there are no rows, or ``x`` is not a number in any.
    """
    if not rows:
        raise ValueError("expected at least one row to draw")
    shown = Picture() if picture is None else picture
    figures = shown.figures or _figure_names(rows)
    everything = rows
    rows = [row for row in rows if any(found.name in figures for found in row.figures())] or rows
    varying = _varying(rows)
    along = _longest(rows, varying) if shown.x is None else shown.x
    if shown.x is not None and not any(_is_number(row.settings.get(shown.x)) for row in rows):
        raise ValueError(f"x={shown.x!r}: expected a setting whose values are numbers")
    others = [name for name in varying if name != along] if shown.by is None else list(shown.by)

    def plot(figure: Figure) -> None:
        points = [] if along is None else _points(rows, shown, figures, along, others)
        few = len({p.series for p in points}) <= _MOST_SERIES
        notes = _Notes(runs, level)
        if _FIGURE in varying and shown.x is None:
            _draw_figures(figure, everything, shown, notes)
        elif points and few and len({p.panel for p in points}) <= _MOST_PANELS:
            _draw_curves(figure, points, everything, shown, str(along), notes)
        else:
            _draw_lines(figure, rows, shown, figures, varying, notes)

    return plot


def finding(rows: Sequence[Row]) -> str:
    """Count of printed figures that agree with the measured ones; empty if none is printed."""
    compared = [figure for row in rows for figure in row.figures() if figure.printed is not None]
    decided = [figure for figure in compared if not figure.undecided]
    agree = sum(not figure.differs for figure in decided)
    if not compared:
        return ""
    printed = count(len(compared), "printed figure")
    if not decided:
        return f"Too few runs to tell whether {printed} agree with the measured ones"
    if agree == len(compared):
        return f"All {printed} agree with the measured ones"
    rest = len(compared) - len(decided)
    more = f", too few runs to tell of {rest:,}" if rest else ""
    return f"{agree:,} of {printed} agree with the measured ones{more}"


class _Notes(NamedTuple):
    runs: int | None
    level: float

    @property
    def z(self) -> float:
        return critical(self.level)

    def of(self, picture: Picture, found: Sequence[Compared]) -> list[str]:
        notes = [picture.conditions]
        if self.runs is not None:
            notes.append(count(self.runs, "run"))
        if any(figure.standard_error and not figure.unknown for figure in found):
            over = " over the runs" if self.runs is None or self.runs > 1 else ""
            notes.append(f"whiskers: {level_text(self.level)} intervals{over}")
        return notes


# Words


def display_name(picture: Picture, name: str, otherwise: str = "measured figure") -> str:
    """Name of a setting, a figure or a value."""
    return picture.names.get(name) or name.replace("_", " ") or otherwise


def settings_words(picture: Picture, row: Row, names: Sequence[str]) -> str:
    """Settings of a row in words; numbers are preceded by their names."""
    parts = []
    for name in names:
        value = row.shown(name)
        if not value:
            continue
        own = picture.names.get(value)
        if own is not None or not _is_number(row.settings[name]):
            parts.append(own or value)
        else:
            parts.append(f"{display_name(picture, name)} = {value}")
    return ", ".join(parts)


# Curves


def _points(
    rows: Sequence[Row],
    picture: Picture,
    figures: Sequence[str],
    along: str,
    others: Sequence[str],
) -> list[_Point]:
    """Points of all figures to draw."""
    measured = [name for name in figures if name not in picture.computed]
    together = bool(picture.axis) or not measured
    paneled = len(others) > 1 or (together and len(figures) > 1)
    # A closed form belongs to the measured figure before it.
    lines, last = {}, ""
    for name in figures:
        last = name if name not in picture.computed or not measured else last
        lines[name] = last
    points = []
    for row in rows:
        if not _is_number(row.settings.get(along)):
            continue
        of_row = [name for name in others if row.shown(name)]
        panel = settings_words(picture, row, of_row[:paneled])
        series = settings_words(picture, row, of_row[paneled:])
        for found in row.figures():
            if found.name not in lines:
                continue
            words = [series]
            if together and len(figures) > 1:
                words.append(display_name(picture, found.name))
            line = picture.axis if together else display_name(picture, lines[found.name])
            points.append(
                _Point(
                    float(row.settings[along]),
                    panel,
                    line or display_name(picture, ""),
                    ", ".join(filter(None, words)),
                    found,
                    found.name in picture.computed,
                )
            )
    return points


def _draw_curves(
    figure: Figure,
    points: Sequence[_Point],
    rows: Sequence[Row],
    picture: Picture,
    along: str,
    notes: _Notes,
) -> None:
    panels, lines, series = (
        list(dict.fromkeys(getattr(p, name) for p in points))
        for name in ("panel", "line", "series")
    )
    xs = [p.x for p in points]
    logarithmic = min(xs) > 0 and max(xs) >= _LOGARITHMIC * min(xs)
    grid = figure.subplots(len(lines), len(panels), squeeze=False, sharex=True, sharey="row")
    for (i, line), (j, panel) in product(enumerate(lines), enumerate(panels)):
        axes: Axes = grid[i, j]
        for place, name in enumerate(series):
            drawn = [p for p in points if (p.panel, p.line, p.series) == (panel, line, name)]
            aside = (place - (len(series) - 1) / 2) * _ASIDE
            _draw_series(axes, drawn, place, notes.z, _Aside(aside, min(xs), max(xs), logarithmic))
        if not i:
            axes.set_title(literal(cut(panel, 40)))
        if i == len(lines) - 1:
            axes.set_xlabel(literal(display_name(picture, along)))
        if not j:
            axes.set_ylabel("\n".join(map(literal, _split_label(line))))
    _set_scales(grid, xs, points, lines, notes.z)
    direct = 1 < len(series) <= len(COLOURS) and all(
        any((p.panel, p.line, p.series) == (panels[-1], lines[i], name) for p in points)
        for i in range(len(lines))
        for name in series
    )
    high = min(2.9, (LONGEST - 1.8) / len(lines))
    width = 2.9 if len(panels) > 3 else 3.3
    handles, labels = _marks(points, [] if direct or len(series) < 2 else series)
    frame(
        figure,
        picture.title or finding(rows) or picture.subject,
        notes.of(picture, [p.found for p in points]),
        size=(max(6.5, 0.6 + width * len(panels) + 1.6 * direct), max(3.2, high * len(lines))),
        handles=handles,
        labels=labels,
    )
    if direct:
        named_ends = []
        for i, line in enumerate(lines):
            at = [p for p in points if (p.panel, p.line) == (panels[-1], line)]
            ends = []
            for place, name in enumerate(series):
                own = [p for p in at if p.series == name and math.isfinite(p.found.measured)]
                if own:
                    end = max(own, key=lambda p: p.x)
                    ends.append(End(end.x, end.found.measured, name, place))
            named_ends.append((grid[i, -1], ends))
        name_ends(named_ends)


def _split_label(text: str) -> list[str]:
    """The label of an axis, split in two lines if long."""
    if len(text) <= 34:
        return [text]
    spaces = [i for i, letter in enumerate(text) if letter == " "]
    if not spaces:
        return [cut(text, 34)]
    middle = min(spaces, key=lambda i: abs(i - len(text) / 2))
    return [cut(text[:middle], 40), cut(text[middle + 1 :], 40)]


class _Aside(NamedTuple):
    """Shift of points, so that curves do not hide each other."""

    share: float
    low: float
    high: float
    logarithmic: bool

    def of(self, x: float) -> float:
        if self.logarithmic:
            return x * math.pow(self.high / self.low, self.share)
        return x + (self.high - self.low) * self.share


def _draw_series(axes: Axes, points: Sequence[_Point], place: int, z: float, aside: _Aside) -> None:
    colour, marker = style(place)
    points = sorted(points, key=lambda point: point.x)
    measured = [point for point in points if not point.computed]
    computed = [point for point in points if point.computed]
    if measured:
        xs = [aside.of(point.x) for point in measured]
        values = _finite([point.found.measured for point in measured])
        errors = z * _finite([point.found.standard_error for point in measured])
        line = "" if computed else "-"
        axes.errorbar(xs, values, yerr=errors, fmt=f"{marker}{line}", color=colour)
        printed = _finite([point.found.printed for point in measured])
        if not np.isnan(printed).all():
            axes.plot(xs, printed, f"{marker}--", color=colour, markerfacecolor="white", alpha=0.85)
    for name in dict.fromkeys(point.found.name for point in computed):
        own = [point for point in computed if point.found.name == name]
        axes.plot([p.x for p in own], _finite([p.found.measured for p in own]), color=colour)


def _set_scales(
    grid: NDArray[Any],
    xs: Sequence[float],
    points: Sequence[_Point],
    lines: Sequence[str],
    z: float,
) -> None:
    """Use logarithmic axes where needed; points set the ends before whiskers do."""
    if min(xs) > 0 and max(xs) >= _LOGARITHMIC * min(xs):
        grid[0, 0].set_xscale("log")
    elif all(x == int(x) for x in xs) and len(set(xs)) <= 8:
        grid[0, 0].set_xticks(sorted(set(xs)))
    for axes, line in zip(grid[:, 0], lines, strict=True):
        own = [point.found for point in points if point.line == line]
        set_ends(axes.set_yscale, axes.set_ylim, own, z)


def set_ends(set_scale: Any, set_limits: Any, found: Sequence[Compared], z: float) -> None:
    """Set the scale and the ends of an axis for some figures.

    A whisker may leave the axis if it is much longer than the distances of the figures.
    """
    values = _finite([v for f in found for v in (f.measured, f.printed)])
    values = values[np.isfinite(values)]
    if not values.size:
        return
    low, high = float(values.min()), float(values.max())
    positive = values[values > 0]
    if low >= 0 and positive.size and high >= _LOGARITHMIC * float(positive.min()):
        set_scale("log")
        low = max(float(positive.min()), high * 10.0**-_DECADES)
        set_limits(low / 1.6, high * 1.6)
        return
    known = [(f.measured, z * (f.standard_error or 0.0)) for f in found if not f.unknown]
    known = [(value, whisker) for value, whisker in known if math.isfinite(value)]
    span = (high - low) or abs(high) or 1.0
    least = max(min([low, *(value - whisker for value, whisker in known)]), low - span)
    most = min(max([high, *(value + whisker for value, whisker in known)]), high + span)
    room = 0.06 * ((most - least) or 1.0)
    bottom = least - room
    if low >= 0 and bottom < 0:
        bottom = -0.02 * (most - least)
    set_limits(bottom, most + room)


def _marks(points: Sequence[_Point], series: Sequence[str]) -> tuple[list[Any], list[str]]:
    """Legend of series that are not labelled at their ends, and of kinds of marks."""
    from matplotlib.lines import Line2D

    handles: list[Any] = []
    labels: list[str] = []
    for place, name in enumerate(series):
        colour, marker = style(place)
        handles.append(Line2D([], [], color=colour, marker=marker))
        labels.append(name)
    measured = any(not p.computed for p in points)
    computed = any(p.computed for p in points)
    printed = any(p.found.printed is not None for p in points)
    if measured + computed + printed > 1:
        if measured:
            handles.append(
                Line2D([], [], color=GREY, marker="o", linestyle="" if computed else "-")
            )
            labels.append("measured")
        if computed:
            handles.append(Line2D([], [], color=GREY))
            labels.append("in closed form")
        if printed:
            handles.append(
                Line2D([], [], color=GREY, marker="o", linestyle="--", markerfacecolor="white")
            )
            labels.append(PRINTED)
    return handles, labels


# Several figures of a paper


class _Tile(NamedTuple):
    """A panel for one of a paper's figures, with curves or else a table.

    Args:
        title: above it.
        along: label of the horizontal axis.
        points: points of its curves, at least one unless it is a table.
        table: in shades.
    """

    title: str
    along: str = ""
    points: Sequence[_Point] = ()
    table: Table | None = None


def _draw_figures(figure: Figure, rows: Sequence[Row], picture: Picture, notes: _Notes) -> None:
    """Draw panels for every value of the setting ``figure``."""
    tiles = [
        tile
        for value in dict.fromkeys(row.shown(_FIGURE) for row in rows)
        for tile in _tiles([row for row in rows if row.shown(_FIGURE) == value], picture, rows)
    ]
    points = [point for tile in tiles for point in tile.points]
    series = list(dict.fromkeys(point.series for point in points))
    columns = math.ceil(math.sqrt(len(tiles)))
    lines = math.ceil(len(tiles) / columns)
    grid = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, tile in zip(grid, tiles, strict=False):
        axes.set_title(literal(cut(tile.title, 40)))
        if tile.table is not None:
            draw_table(axes, tile.table)
            continue
        axes.set_xlabel("\n".join(map(literal, _split_label(tile.along))))
        axes.set_ylabel("\n".join(map(literal, _split_label(tile.points[0].line))))
        xs = [point.x for point in tile.points]
        if min(xs) > 0 and max(xs) >= _LOGARITHMIC * min(xs):
            axes.set_xscale("log")
        aside = _Aside(0.0, min(xs), max(xs), axes.get_xscale() == "log")
        for place, name in enumerate(series):
            own = [point for point in tile.points if point.series == name]
            share = (place - (len(series) - 1) / 2) * _ASIDE
            _draw_series(axes, own, place, notes.z, aside._replace(share=share))
        set_ends(axes.set_yscale, axes.set_ylim, [p.found for p in tile.points], notes.z)
        if axes.get_yscale() == "linear":
            # A fixed number, as the layout would otherwise change the ticks.
            axes.locator_params(axis="y", nbins=5)
    for axes in grid[len(tiles) :]:
        axes.set_visible(False)
    handles, labels = _marks(points, series if len(series) > 1 else [])
    said = notes.of(picture, [point.found for point in points])
    frame(
        figure,
        picture.title or finding(rows) or picture.subject,
        said,
        size=(max(6.5, 3.2 * columns), min(2.7, (LONGEST - 1.8) / lines) * lines),
        handles=handles,
        labels=labels,
    )


def _tiles(rows: Sequence[Row], picture: Picture, everything: Sequence[Row]) -> list[_Tile]:
    """Panels for one of a paper's figures: curves, or else its largest table."""
    value = rows[0].shown(_FIGURE)
    # Texts that tell this figure from others.
    texts = [name for name in rows[0].settings if isinstance(rows[0].settings[name], str)]
    telling = [
        name
        for name in texts
        if len({row.shown(name) for row in rows}) == 1
        and len({row.shown(name) for row in everything} - {""}) > 1
    ]
    said = settings_words(picture, rows[0], telling)
    title = f"Figure {value}: {said}" if said else f"Figure {value}"
    axis = picture.names.get(f"figure {value}", picture.axis)
    drawn = [row for row in rows if any(f.name in picture.figures for f in row.figures())]
    varying = _varying(drawn or rows)
    along = _longest(drawn or rows, varying)
    if along is None:
        return [_Tile(title, table=_table(rows, picture, axis))]
    others = [name for name in varying if name != along]
    figures = (drawn and picture.figures) or _figure_names(rows)
    words = msgspec.structs.replace(picture, axis=axis)
    points = _points(drawn or rows, words, figures, along, others)
    return [
        _Tile(
            ", ".join(filter(None, (title, panel))),
            display_name(picture, along),
            [point for point in points if (point.panel, point.line) == (panel, line)],
        )
        for panel, line in dict.fromkeys((point.panel, point.line) for point in points)
    ]


def _table(rows: Sequence[Row], picture: Picture, unit: str) -> Table:
    """Table of the rows that share the most common set of figures."""
    alike = max(
        ([r for r in rows if _figure_names([r]) == _figure_names([o])] for o in rows), key=len
    )
    names = _figure_names(alike)
    # A word that all names begin with is used once.
    starts = {name.partition(" ")[0] if " " in name else "" for name in names}
    start = starts.pop() if len(starts) == 1 else ""
    varying = _varying(alike)
    return Table(
        rows=tuple(settings_words(picture, row, varying) for row in alike),
        columns=tuple(name.removeprefix(start).strip() for name in names),
        along=display_name(picture, start, "figure"),
        across=", ".join(display_name(picture, name) for name in varying),
        values=np.stack([_finite([f.measured for f in row.figures()]) for row in alike]),
        unit=unit or display_name(picture, ""),
    )


def _figure_names(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found.name for row in rows for found in row.figures()))


# Lines


def _draw_lines(
    figure: Figure,
    rows: Sequence[Row],
    picture: Picture,
    figures: Sequence[str],
    varying: Sequence[str],
    notes: _Notes,
) -> None:
    """Draw every row as a line with its measured and its printed figure."""
    drawn = rows[:_MOST_LINES]
    columns = min(_MOST_COLUMNS, len(figures))
    high = math.ceil(len(figures) / columns)
    fits = max(1, int((LONGEST - 1.6 - 0.6 * high) / 0.19 / high))
    drawn = drawn[:fits]
    grid = figure.subplots(high, columns, squeeze=False, sharey=True)
    panels = grid.ravel()
    everything = []
    for axes, name in zip(panels, figures, strict=False):
        found = [(i, f) for i, row in enumerate(drawn) for f in row.figures() if f.name == name]
        everything += [f for _, f in found]
        draw_compared(axes, found, notes.z)
        axes.set_xlabel("\n".join(map(literal, _split_label(display_name(picture, name)))))
        axes.grid(axis="y", visible=False)
    keys = [cut(settings_words(picture, row, varying), 60) for row in drawn]
    panels[0].set_yticks(range(len(drawn)), list(map(literal, keys)))
    panels[0].set_ylim(len(drawn) - 0.5, -0.5)
    for axes in panels[len(figures) :]:
        axes.set_visible(False)
    said = notes.of(picture, everything)
    if len(drawn) < len(rows):
        said.append(f"the first {len(drawn):,} of {count(len(rows), 'row')}")
    handles, labels = compared_marks(everything)
    letters = max(map(len, keys), default=0)
    frame(
        figure,
        picture.title or finding(rows) or picture.subject,
        said,
        size=(
            max(6.5, 0.4 + 0.068 * letters + (2.6 if columns > 1 else 4.5) * columns),
            high * max(1.1, 0.6 + 0.19 * len(drawn)),
        ),
        handles=handles,
        labels=labels,
    )


def draw_compared(axes: Axes, found: Sequence[tuple[int, Compared]], z: float) -> None:
    """Measured figures with their intervals and printed ones, each on its line."""
    places = [i for i, _ in found]
    measured = _finite([f.measured for _, f in found])
    errors = z * _finite([f.standard_error for _, f in found])
    printed = _finite([f.printed for _, f in found])
    set_ends(axes.set_xscale, axes.set_xlim, [f for _, f in found], z)
    if axes.get_xscale() == "linear":
        axes.locator_params(axis="x", nbins=4)
    if not np.isnan(printed).all():
        axes.plot(printed, places, "D", color=COLOURS[1], markerfacecolor="none", markersize=7.5)
    axes.errorbar(measured, places, xerr=errors, fmt="o", color=COLOURS[0])


def compared_marks(found: Sequence[Compared]) -> tuple[list[Any], list[str]]:
    """The legend of ``draw_compared``, if anything is printed."""
    from matplotlib.lines import Line2D

    if all(figure.printed is None for figure in found):
        return [], []
    measured = Line2D([], [], color=COLOURS[0], marker="o", linestyle="")
    printed = Line2D([], [], color=COLOURS[1], marker="D", linestyle="", markerfacecolor="none")
    return [measured, printed], ["measured", PRINTED]


# Settings


def _varying(rows: Sequence[Row]) -> list[str]:
    names = dict.fromkeys(name for row in rows for name in row.settings)
    return [name for name in names if len({row.shown(name) for row in rows}) > 1]


def _longest(rows: Sequence[Row], varying: Sequence[str]) -> str | None:
    """The numeric setting present in every row with the most values; None if there is none."""
    found = {
        name: len({row.shown(name) for row in rows})
        for name in varying
        if all(_is_number(row.settings.get(name)) for row in rows)
    }
    return max(found, key=lambda name: found[name]) if found else None


def _is_number(value: object) -> bool:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return number and math.isfinite(value)  # type: ignore[arg-type]  # it is a number


def _finite(values: Sequence[float | None]) -> NDArray[np.float64]:
    """Numbers to draw, with NaN for missing ones."""
    return np.array([v if v is not None and math.isfinite(v) else np.nan for v in values], float)
