"""Charts of a page: estimates of each attribute with their tables, and privacy losses."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain, repeat
from typing import Any, NamedTuple

from markupsafe import Markup

from protocol.audit.ledger import Ledger
from protocol.estimators.inference.interval_words import bracketed
from protocol.messages import AGGREGATOR
from scenarios.report.page import diagrams
from scenarios.report.page.diagrams import Mark
from scenarios.report.page.words import words
from scenarios.statement.privacy_verdict import sure
from scenarios.statement.statement import Grid, Panel, Section
from scenarios.wording.decimals import decimal, in_percent, legend_text
from scenarios.wording.formatting import NONE, cut, rest

PANELS = 24
"""Maximum number of drawn panels of a section."""

LISTED = 600
"""Maximum number of rows in the tables of panels that are not drawn."""

FIRST = 6
"""Maximum number of charts on a page that are not folded."""

LEARNED = 8
"""Maximum number of attributes in the chart of what was learned."""

_ALMOST = 9.2
"""Loss in nats beyond which an answer is almost sure: to more than 99.99 %."""


class Drawn(NamedTuple):
    """A panel as a picture, and as a table."""

    name: str
    picture: Markup
    grid: Grid


def legend(sections: Iterable[Section], *, disguised: bool) -> list[tuple[str, str]]:
    """The kinds of mark in the charts of estimates, each with its meaning.

    Args:
        sections: sections of a page.
        disguised: whether all answers were randomized before they were sent.
    """
    shown = [panel for section in sections for panel in section.panels[:PANELS]]
    known = words()["result"]["legend"]
    shares = any(panel.limits is None for panel in shown)
    noisy = next((p for p in shown if any(each.low < each.high for each in p.figures)), None)
    exact = all(each.exact for panel in shown for each in panel.figures)
    value = "exact" if exact else "disguised" if disguised else "estimate"
    marks = [("share" if shares else "dot", known[value])]
    if noisy is not None:
        many = f"{100 * noisy.intervals.level:.6g}"
        name = known["interval"].format(interval=noisy.intervals.name, many=many)
        marks.append(("whisker", name))
    if any(panel.truth for panel in shown):
        marks.append(("truth", known["truth"]))
    return marks


def learned_chart(ledger: Ledger, who: str, *, least: bool) -> dict[str, object]:
    """Chart of privacy losses: the certainty about an answer that was a 50:50 guess before.

    Args:
        ledger: the ledger of the observer.
        who: name of the observer.
        least: whether more may have been told than is on record.

    Returns:
        What the template takes; empty if nothing was learned, or nothing bounds it.
    """
    losses, known = ledger.attribute_epsilon, words()["result"]["learned"]
    if not ledger.record_epsilon or all(map(math.isinf, losses.values())):
        return {}
    if len(losses) > LEARNED and len(set(losses.values())) == 1:
        rows = [(known["each"].format(count=f"{len(losses):,}"), *set(losses.values()))]
    else:
        rows = sorted(losses.items(), key=lambda item: -item[1])[:LEARNED]
    if len(losses) > 1:
        rows.append((known["together"], ledger.record_epsilon))
    marks = [
        Mark(cut(name), _certainty(loss), math.nan, math.nan, _sure_words(loss))
        for name, loss in rows
    ]
    others = rest(len(losses), LEARNED, known["attributes"]) if len(rows) > LEARNED else ""
    others = f"{others}." if others else ""
    collects = known["collects"] if AGGREGATOR in ledger.observer.split(", ") else ""
    return {
        "title": known["title"].format(who=who),
        "about": known["least" if least else "most"].format(who=who),
        "more": " ".join(filter(None, (others, collects))),
        "picture": diagrams.intervals(
            "learned",
            known["title"].format(who=who),
            marks,
            limits=(0.5, 1.0),
            whole=True,
            description=known["described"],
        ),
    }


def _certainty(loss: float) -> float:
    """The largest posterior probability of one of two answers that were equally likely."""
    return loss if math.isinf(loss) else 1 / (1 + math.exp(-loss))


def _sure_words(loss: float) -> str:
    known = words()["result"]["learned"]
    if math.isinf(loss):
        return str(known["unbounded"])
    return str(known["almost"]) if loss > _ALMOST else sure(loss)


def panels(section: Section) -> dict[str, Any]:
    """Drawing of a section that has panels."""
    shown = section.panels[:PANELS]
    total = max(section.total, len(section.panels))
    return {
        "panels": tuple(_draw(panel, most=LISTED // len(shown)) for panel in shown),
        "more": rest(total, len(shown), words()["result"]["panels"]["more"]),
    }


def _draw(panel: Panel, *, most: int) -> Drawn:
    """Picture and table of a panel's figures, next to the truth if known."""
    most = max(panel.drawn, most)
    rows, percents = panel.figures[:most], panel.limits is None
    exact = all(row.exact for row in rows)
    unit, plain = (" %", in_percent(rows)) if percents else ("", decimal(rows))
    marks, cells = [], []
    truth = chain(panel.truth, repeat(math.nan))
    for label, row, true in zip(map(cut, panel.labels), rows, truth, strict=False):
        ends = bracketed(row, plain)
        value = f"{plain(row.value)}{unit}" if math.isfinite(row.value) else NONE
        shown = value if exact or value == NONE else f"{plain(row.value)} {ends}"
        marks.append(Mark(label, row.value, row.low, row.high, shown, true))
        cells.append(
            (
                label,
                *((f"{plain(true)}{unit}",) if panel.truth else ()),
                value,
                *(() if exact else (bracketed(row, plain, unit),)),
            )
        )
    name, (_, head, figure) = cut(panel.name), panel.heads
    known = words()["result"]["panels"]
    about = known["exact"] if exact else known["noisy"].format(about=legend_text(panel.intervals))
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
            caption=f"{name}: {about}",
            columns=(
                head,
                *((f"#{known['truth']}",) if panel.truth else ()),
                f"#{figure}",
                *(() if exact else (f"#{panel.intervals.name}",)),
            ),
            rows=tuple(cells),
            more=rest(len(panel.figures), most, known["rows"].format(each=panel.each)),
            wide=bool(panel.truth),
        ),
    )
