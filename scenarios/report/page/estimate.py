"""What a page says of the published estimate: attributes with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from markupsafe import Markup
from numpy.typing import ArrayLike

from protocol.estimators.estimate import Estimate, Keyed
from protocol.estimators.inference.laws import Interval
from protocol.estimators.inference.words import (
    Intervals,
    Shown,
    bracketed,
    figures_of,
    sentences,
)
from protocol.estimators.likelihood import Fit
from protocol.estimators.projection import Projection
from protocol.estimators.tables import Table
from protocol.surveys.records import Records
from scenarios.report.formatting import NONE, count, cut
from scenarios.report.intervals import decimal, in_percent
from scenarios.report.page import diagrams
from scenarios.report.page.diagrams import Mark
from scenarios.report.statement.parts import Grid, Section, rest

ATTRIBUTES, CATEGORIES, KEYS = 24, 20, 60
"""How many attributes have a panel, and how many categories, or keys, are drawn in one."""

LISTED = 600
"""The most rows of all tables of panels together."""

ANYWHERE = (-math.inf, math.inf)
"""The limits of what has a scale of its own."""

_BESIDE = "A short upright line marks the truth, which is known here."


class Panel(NamedTuple):
    """The estimate of one attribute: a picture, and a table that repeats it."""

    name: str
    picture: Markup
    grid: Grid
    truth: bool


class _Asked(NamedTuple):
    """What an estimate is shown with, and what was shown so far.

    Args:
        intervals: their level, and what they are about.
        projection: applied to tables.
        truth: the records that figures are shown beside.
        figures: all that are shown.
        fits: of the tables that are shown.
    """

    intervals: Intervals
    projection: Projection
    truth: Records | None
    figures: list[Shown]
    fits: list[Fit | None]

    def shown(self, values: ArrayLike, ends: Interval, most: int = CATEGORIES) -> list[Shown]:
        """The first of some figures with their intervals, to be shown."""
        found = figures_of(values, ends)[:most]
        self.figures.extend(found)
        return found

    def of(self, table: Table, most: int = CATEGORIES) -> list[Shown]:
        """The first cells of a table with their intervals, to be shown."""
        self.fits.append(table.fit)
        return self.shown(table.values, self.intervals.of(table), most)


def estimate(
    found: Estimate | None,
    intervals: Intervals,
    *,
    title: str = "The published estimate",
    projection: Projection = "none",
    truth: Records | None = None,
    notes: Iterable[str] = (),
) -> tuple[Section, dict[str, object]]:
    """What an estimate says, and what its template draws.

    Args:
        found: the estimate.
        intervals: their level, and what they are about.
        title: of the section.
        projection: applied to its tables.
        truth: the records that shares and means of attributes are shown beside.
        notes: further sentences.
    """
    if found is None:
        return Section(key="estimate", title=title, lead="There is none to show."), {}
    asked = _Asked(intervals, projection, truth, [], [])
    if found.keyed is not None:
        panels = tuple(_keys(found.keyed, asked))
        what, left = "key", rest(len(found.survey.names), KEYS, "keys, in the tables")
    else:
        panels = tuple(_means(found, asked)) or tuple(_panels(found, asked))
        what = "attribute"
        left = rest(len(found.survey.names), len(panels), "attributes in the JSON report")
    lead = f"{count(found.n, 'respondent')}, {count(len(found.survey.names), what)}."
    said = " ".join(sentences(intervals, asked.figures, projection, asked.fits))
    beside = any(panel.truth for panel in panels)
    section = Section(
        key="estimate",
        title=title,
        lead=lead,
        notes=(said, *((_BESIDE,) if beside else ()), *notes),
    )
    return section, {"panels": panels, "more": left}


def _panels(found: Estimate, asked: _Asked) -> Iterator[Panel]:
    truth = None if asked.truth is None else found.recoded(asked.truth)
    names = found.survey.names[:ATTRIBUTES]
    most = max(CATEGORIES, LISTED // len(names))
    for place, name in enumerate(names):
        try:
            table = found.table(name, projection=asked.projection)
        except ValueError:
            continue  # This result says nothing of it by itself.
        labels = table.categories[0]
        true = () if truth is None else truth.distribution([name]).tolist()
        yield _panel(
            f"marginal-{place}",
            name,
            ("Category", "Share"),
            labels,
            asked.of(table, most),
            rest(len(labels), most, "categories in the JSON report"),
            asked.intervals,
            truth=true,
            drawn=CATEGORIES,
        )


def _means(found: Estimate, asked: _Asked) -> Iterator[Panel]:
    """A panel for every mean, as each attribute has a scale of its own."""
    true = {} if asked.truth is None else found.true_means(asked.truth)
    for place, (name, mean) in enumerate(islice(found.attribute_means().items(), ATTRIBUTES)):
        yield _panel(
            f"mean-{place}",
            name,
            ("Of", "Mean"),
            ("Mean",),
            asked.shown(mean.value, asked.intervals.of(mean)),
            "",
            asked.intervals,
            limits=ANYWHERE,
            truth=(true[name],) if true else (),
        )


def _keys(found: Keyed, asked: _Asked) -> Iterator[Panel]:
    names, most = found.survey.names, LISTED // 2
    more = rest(len(names), most, "keys in the JSON report")
    for key, title, heads, values, ends in (
        (
            "shares",
            "Who holds a key",
            ("Key", "Share"),
            found.frequencies,
            found.frequency_intervals(*asked.intervals),
        ),
        (
            "means",
            "Mean of a key's values",
            ("Key", "Mean"),
            found.means,
            found.mean_intervals(*asked.intervals),
        ),
    ):
        rows = asked.shown(values, ends, most)
        limits = None if key == "shares" else (-2.0, 2.0)
        yield _panel(
            *(f"keys-{key}", title, heads, names, rows, more, asked.intervals),
            limits=limits,
            drawn=KEYS,
        )


def _panel(
    key: str,
    name: str,
    heads: tuple[str, str],
    labels: Sequence[str],
    rows: Sequence[Shown],
    more: str,
    intervals: Intervals,
    *,
    limits: tuple[float, float] | None = None,
    truth: Sequence[float] = (),
    drawn: int = CATEGORIES,
) -> Panel:
    """A picture and a table of some figures: of shares in percent, unless there are limits.

    With the truth of each, it stands beside them. The picture is of the first ``drawn`` alone.
    """
    exact, percents = all(row.exact for row in rows), limits is None
    unit, plain = (" %", in_percent(rows)) if percents else ("", decimal(rows))
    marks, cells = [], []
    beside = truth or [math.nan] * len(rows)
    for label, row, true in zip(map(cut, labels), rows, beside, strict=False):
        ends = bracketed(row, plain)
        value = f"{plain(row.value)}{unit}" if math.isfinite(row.value) else NONE
        words = value if exact or value == NONE else f"{plain(row.value)} {ends}"
        marks.append(Mark(label, row.value, row.low, row.high, words, true))
        cells.append(
            (
                label,
                *((f"{plain(true)}{unit}",) if truth else ()),
                value,
                *(() if exact else (bracketed(row, plain, unit),)),
            )
        )
    picture = diagrams.intervals(
        key, cut(name), marks[:drawn], percent=percents, limits=limits or (-0.5, 1.5)
    )
    grid = Grid(
        key=f"{key}-table",
        caption=f"{cut(name)}: {'exact shares' if exact else f'estimates, {intervals.legend}'}",
        columns=(
            heads[0],
            *(("#Truth",) if truth else ()),
            f"#{heads[1]}",
            *(() if exact else (f"#{intervals.name}",)),
        ),
        rows=tuple(cells),
        more=more,
        wide=bool(truth),
    )
    return Panel(cut(name), picture, grid, bool(truth))
