"""The panels of a section for a page: a picture of each, and a table that repeats it."""

from __future__ import annotations

import math
from itertools import chain, repeat
from typing import NamedTuple

from markupsafe import Markup

from protocol.estimators.inference.words import bracketed
from scenarios.report.page import diagrams
from scenarios.report.page.diagrams import Mark
from scenarios.statement.statement import Grid, Panel, Section
from scenarios.wording.decimals import decimal, in_percent, legend_text
from scenarios.wording.formatting import NONE, cut, rest

PANELS = 24
"""The most panels of a section that are drawn."""

LISTED = 600
"""The most rows of all tables of panels together, but for what is drawn."""

_BESIDE = "A short upright line marks the truth, which is known here."


class Drawn(NamedTuple):
    """A panel as a picture, and as a table."""

    name: str
    picture: Markup
    grid: Grid


def panels(section: Section) -> dict[str, object]:
    """What the template draws of a section that has panels."""
    shown = section.panels[:PANELS]
    total = max(section.total, len(section.panels))
    return {
        "panels": tuple(_drawn(panel, most=LISTED // len(shown)) for panel in shown),
        "beside": _BESIDE if any(panel.truth for panel in shown) else "",
        "more": rest(total, len(shown), "attributes in the JSON report"),
    }


def _drawn(panel: Panel, *, most: int) -> Drawn:
    """A picture and a table of figures; with the truth, it stands beside them."""
    most = max(panel.drawn, most)
    rows, percents = panel.figures[:most], panel.limits is None
    exact = all(row.exact for row in rows)
    unit, plain = (" %", in_percent(rows)) if percents else ("", decimal(rows))
    marks, cells = [], []
    truth = chain(panel.truth, repeat(math.nan))
    for label, row, true in zip(map(cut, panel.labels), rows, truth, strict=False):
        ends = bracketed(row, plain)
        value = f"{plain(row.value)}{unit}" if math.isfinite(row.value) else NONE
        words = value if exact or value == NONE else f"{plain(row.value)} {ends}"
        marks.append(Mark(label, row.value, row.low, row.high, words, true))
        cells.append(
            (
                label,
                *((f"{plain(true)}{unit}",) if panel.truth else ()),
                value,
                *(() if exact else (bracketed(row, plain, unit),)),
            )
        )
    name, (_, head, figure) = cut(panel.name), panel.heads
    legend = "exact shares" if exact else f"estimates, {legend_text(panel.intervals)}"
    return Drawn(
        name,
        diagrams.intervals(
            panel.key,
            name,
            marks[: panel.drawn],
            percent=percents,
            limits=panel.limits or (-0.5, 1.5),
        ),
        Grid(
            key=f"{panel.key}-table",
            caption=f"{name}: {legend}",
            columns=(
                head,
                *(("#Truth",) if panel.truth else ()),
                f"#{figure}",
                *(() if exact else (f"#{panel.intervals.name}",)),
            ),
            rows=tuple(cells),
            more=rest(len(panel.figures), most, f"{panel.each} in the JSON report"),
            wide=bool(panel.truth),
        ),
    )
