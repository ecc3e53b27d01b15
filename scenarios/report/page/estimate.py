"""What a page says of the published estimate: marginals with error bars, and pairs as heat."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import combinations, islice, starmap
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from protocol.audit.audit import Audit
from protocol.estimators.estimate import Estimate
from protocol.estimators.tables import Table
from protocol.estimators.tabulated import ExactEstimate
from protocol.variants.keyvalue.estimate import KeyValueTables
from scenarios.report.formatting import NONE, count, cut, percent, signed
from scenarios.report.page import diagrams
from scenarios.report.page.diagrams import Mark
from scenarios.report.statement.parts import Grid, Section, rest

ATTRIBUTES, CATEGORIES = 24, 20
PAIRS, TRIED, CELLS = 4, 28, 100
"""Of the first ``TRIED`` pairs, ``PAIRS`` are shown, of at most so many cells each."""

WHISKER = 1.96
"""Standard errors on each side: about 95 % where the estimate is about normal."""

ANYWHERE = (-math.inf, math.inf)
"""The limits of what has a scale of its own."""

UNKNOWN = "unknown"

_SHADES = 7
_TITLE = "The published estimate"


class Panel(NamedTuple):
    """The estimate of one attribute: a picture, and the table that repeats it."""

    name: str
    picture: Markup
    grid: Grid


class Heat(NamedTuple):
    """A table of two attributes; each cell has its share, its error and a shade from 0."""

    key: str
    names: list[str]
    columns: list[str]
    rows: list[tuple[str, list[tuple[str, str, int]]]]


def estimate(audit: Audit) -> tuple[Section, dict[str, object]]:
    """What the published result says, and what its template draws."""
    found = audit.estimate
    if found is None:
        return Section(key="estimate", title=_TITLE, lead="There is none to show."), {}
    heats: tuple[Heat, ...] = ()
    pairs = ""
    exact = isinstance(found, ExactEstimate)
    said = (
        f"Every ± and every whisker is {WHISKER} standard errors. Estimates are raw: they may lie "
        "below 0 or above 100 %."
    )
    if isinstance(found, KeyValueTables):
        panels = tuple(_keys(found))
        said += " The errors take in who was asked for which key."
        what, left = "key", rest(len(found.survey.names), CATEGORIES, "keys")
    else:
        means = tuple(_means(found))
        panels = means or tuple(_panels(found, exact=exact))
        heats, pairs = _heats(found, exact=exact)
        if means:
            said = f"Every ± and every whisker is {WHISKER} standard errors of the mean."
        elif exact:
            said = "These are exact shares of the respondents: nothing was randomized."
        else:
            said += " The errors are those of randomization alone, given the answers."
        what = "attribute"
        left = rest(len(found.survey.names), len(panels), "attributes in the JSON report")
    if any(UNKNOWN in row for panel in panels for row in panel.grid.rows):
        said += (
            f" An error is {UNKNOWN} where reports are too few, or too much alike, to estimate it."
        )
    lead = f"{count(found.n, 'respondent')}, {count(len(found.survey.names), what)}."
    section = Section(key="estimate", title=_TITLE, lead=lead, notes=(said,))
    return section, {"panels": panels, "more": left, "heats": heats, "pairs": pairs}


def _panels(found: Estimate, *, exact: bool) -> Iterator[Panel]:
    for place, name in enumerate(found.survey.names[:ATTRIBUTES]):
        try:
            table = found.table(name)
        except ValueError:
            continue  # This result says nothing of it by itself.
        rows = list(zip(table.categories[0], table.values.tolist(), _errors(table), strict=True))
        more, heads = rest(len(rows), CATEGORIES, "categories"), ("Category", "Share")
        shown = rows[:CATEGORIES]
        yield _panel(f"marginal-{place}", name, heads, shown, more, exact=exact)


def _means(found: Estimate) -> Iterator[Panel]:
    """A panel for every mean, as each attribute has a scale of its own."""
    for place, (name, mean) in enumerate(islice(found.attribute_means().items(), ATTRIBUTES)):
        error = math.nan if mean.standard_error is None else mean.standard_error
        rows = [("Mean", mean.value, error)]
        yield _panel(f"mean-{place}", name, ("Of", "Mean"), rows, "", limits=ANYWHERE)


def _keys(found: KeyValueTables) -> Iterator[Panel]:
    names = found.survey.names
    more = rest(len(names), CATEGORIES, "keys")
    for key, title, heads, values, errors in (
        ("shares", "Who holds a key", ("Key", "Share"), found.frequencies, found.frequency_errors),
        ("means", "Mean of a key's values", ("Key", "Mean"), found.means, found.mean_errors),
    ):
        rows = list(zip(names[:CATEGORIES], values.tolist(), errors.tolist(), strict=False))
        yield _panel(f"keys-{key}", title, heads, rows, more, percents=key == "shares")


def _panel(
    key: str,
    name: str,
    heads: tuple[str, str],
    rows: Iterable[tuple[str, float, float]],
    more: str,
    *,
    percents: bool = True,
    exact: bool = False,
    limits: tuple[float, float] | None = None,
) -> Panel:
    percents = percents and limits is None
    marks, cells = [], []
    shown = percent if percents else signed
    for label, value, error in rows:
        reach = WHISKER * error if math.isfinite(error) and not exact else None
        if reach is None:
            half = UNKNOWN if math.isfinite(value) else NONE
            words = shown(value) if exact or half == NONE else f"{shown(value)} ± {half}"
        else:
            half = shown(reach)
            words = percent(value, reach) if percents else f"{shown(value)} ± {half}"
        marks.append(Mark(cut(label), value, reach, words))
        cells.append((cut(label), shown(value)) if exact else (cut(label), shown(value), half))
    if limits is None:
        limits = (-0.5, 1.5) if percents else (-2.0, 2.0)
    drawn = diagrams.intervals(key, cut(name), marks, percent=percents, limits=limits)
    grid = Grid(
        key=f"{key}-table",
        caption=f"{cut(name)}: {'exact shares' if exact else 'estimates'}",
        columns=(heads[0], f"#{heads[1]}", *(() if exact else ("#Whisker, ±",))),
        rows=tuple(cells),
        more=more,
        wide=False,
    )
    return Panel(cut(name), drawn, grid)


def _heats(found: Estimate, *, exact: bool) -> tuple[tuple[Heat, ...], str]:
    """The pairs that lie farthest from independence among those that are small enough."""
    names, sizes = found.survey.names, found.survey.sizes
    size_of = dict(zip(names, sizes, strict=True))
    small = ((a, b) for a, b in combinations(names, 2) if size_of[a] * size_of[b] <= CELLS)
    tables = []
    for pair in islice(small, TRIED):
        try:
            table = found.table(*pair)
        except ValueError:
            continue  # This result says nothing of the two together.
        if np.isfinite(table.values).all():
            tables.append(table)
    tables.sort(key=_dependence, reverse=True)
    shown = tables[:PAIRS]
    said = ""
    if shown:
        said = (
            f"Of {count(len(tables), 'pair')} of attributes, the {len(shown)} whose "
            f"{'shares' if exact else 'estimates'} lie farthest from independence"
            f"{'' if exact else ', noise included'}. Cells are in percent of all respondents; "
            "the stronger the colour, the larger the share."
        )
    return tuple(_heat(table, place, exact=exact) for place, table in enumerate(shown)), said


def _dependence(table: Table) -> float:
    """Total variation from the product of the margins; of raw estimates, so noise counts too."""
    product = np.multiply.outer(table.values.sum(axis=1), table.values.sum(axis=0))
    return float(np.abs(table.values - product).sum() / 2)


def _heat(table: Table, place: int, *, exact: bool) -> Heat:
    largest = float(table.values.max(initial=0.0)) or 1.0
    shades = np.clip(np.floor(table.values / largest * _SHADES), 0, _SHADES - 1).astype(int)

    def cell(value: float, error: float, shade: int) -> tuple[str, str, int]:
        known = signed(100 * WHISKER * error, 1) if math.isfinite(error) else f" {UNKNOWN}"
        return signed(100 * value, 1), "" if exact else f"±{known}", shade

    heads, columns = ([cut(name, 24) for name in names] for names in table.categories)
    lines = zip(heads, table.values.tolist(), _errors(table), shades.tolist(), strict=True)
    rows = [(head, list(starmap(cell, zip(*line, strict=True)))) for head, *line in lines]
    return Heat(f"pair-{place}", [*map(cut, table.names)], columns, rows)


def _errors(table: Table) -> list[Any]:
    """The standard errors in the shape of the table, NaN where they are not known."""
    unknown = np.full(table.values.shape, np.nan)
    found: list[Any] = (
        unknown if table.standard_errors is None else table.standard_errors
    ).tolist()
    return found
