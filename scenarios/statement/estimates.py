"""Statement of an estimate: its shares or means with their intervals, and its values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.estimators.analysis import Analysis, AnnouncedTable, Cell
from protocol.estimators.estimate import Estimate, Keyed
from protocol.estimators.inference.interval_words import bracketed, sentences
from protocol.estimators.inference.intervals import Intervals, Shown, interval_figures
from protocol.estimators.inference.laws import Interval
from protocol.estimators.likelihood import Fit
from protocol.estimators.measures import total_variation
from protocol.estimators.projection import Projection
from protocol.estimators.tables import Table
from protocol.surveys.records import Records
from scenarios.statement.statement import Grid, Panel, Place, Section
from scenarios.wording.announced import table_title
from scenarios.wording.decimals import in_percent
from scenarios.wording.formatting import NONE, count, cut, respondents_text, rest

ATTRIBUTES, KEYS = 60, 300
"""How many attributes have a panel, and how many keys have the truth beside them."""

DRAWN = 60
"""How many keys are drawn."""

TABLES, CELLS = 12, 60
"""How many announced tables are listed, and how many cells of each."""

ANYWHERE = (-math.inf, math.inf)
"""The limits of what has a scale of its own."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """Settings with which an estimate is shown, and what was shown so far.

    Args:
        estimate: the estimate.
        intervals: their level, and what they are about.
        truth: the records that figures are shown beside.
        figures: all that are shown.
        fits: of the tables that are shown.
    """

    estimate: Estimate
    intervals: Intervals
    truth: Records | None
    figures: list[Shown] = field(default_factory=list)
    fits: list[Fit | None] = field(default_factory=list)

    def panel(
        self,
        key: str,
        name: str,
        heads: tuple[str, str, str],
        labels: Sequence[str],
        values: ArrayLike,
        ends: Interval,
        **others: Any,
    ) -> Panel:
        """Some figures with their intervals, to be shown."""
        found = tuple(interval_figures(values, ends))
        self.figures.extend(found)
        return Panel(
            key=key,
            name=name,
            heads=heads,
            labels=tuple(labels),
            figures=found,
            intervals=self.intervals,
            **others,
        )


def estimated(
    found: Estimate,
    intervals: Intervals,
    *,
    title: str = "The published estimate",
    projection: Projection = "none",
    truth: Records | None = None,
    notes: Iterable[str] = (),
    place: Place = "body",
) -> Section:
    """Section on an estimate: a panel for each attribute, or for each of its figures.

    Args:
        found: the estimate.
        intervals: their level, and what they are about.
        title: of the section.
        projection: applied to its tables.
        truth: the records that shares and means of attributes are shown beside.
        notes: further sentences.
        place: where a terminal shows it.
    """
    asked = _Asked(found, intervals, truth)
    if found.keyed is not None:
        panels, what, total = tuple(_keys(found.keyed, asked)), "key", 2
    else:
        panels = tuple(_means(asked)) or tuple(_shares(asked, projection))
        what, total = "attribute", len(panels) + max(0, len(found.survey.names) - ATTRIBUTES)
    said = " ".join(sentences(intervals, asked.figures, projection, asked.fits))
    return Section(
        key="estimate",
        title=title,
        lead=f"{respondents_text(found.n, found.weighted_n)}, "
        f"{count(len(found.survey.names), what)}.",
        notes=(said, *notes),
        panels=panels,
        total=total,
        place=place,
    )


def _shares(asked: _Asked, projection: Projection) -> Iterator[Panel]:
    found = asked.estimate
    truth = None if asked.truth is None else asked.estimate.recoded(asked.truth)
    names = found.survey.names[:ATTRIBUTES]
    for place, name in enumerate(names):
        try:
            table = found.table(name, projection=projection)
        except ValueError:
            continue  # This result says nothing of it by itself.
        asked.fits.append(table.fit)
        yield asked.panel(
            f"marginal-{place}",
            name,
            ("Attribute", "Category", "Share"),
            table.categories[0],
            table.values,
            asked.intervals.of(table),
            truth=() if truth is None else tuple(truth.distribution([name]).tolist()),
        )


def _means(asked: _Asked) -> Iterator[Panel]:
    """A panel for every mean, as each attribute has a scale of its own."""
    found = asked.estimate
    true = {} if asked.truth is None else found.true_means(asked.truth)
    for place, (name, mean) in enumerate(islice(found.attribute_means().items(), ATTRIBUTES)):
        yield asked.panel(
            f"mean-{place}",
            name,
            ("Attribute", "Of", "Mean"),
            ("Mean",),
            mean.value,
            asked.intervals.of(mean),
            truth=(true[name],) if true else (),
            limits=ANYWHERE,
        )


def _keys(found: Keyed, asked: _Asked) -> Iterator[Panel]:
    names = found.survey.names
    truth = None if asked.truth is None else asked.estimate.recoded(asked.truth)
    shares = () if truth is None else (truth.distribution([name]) for name in names[:KEYS])
    held = [float(share[1]) for share in shares]
    yield asked.panel(
        "keys-shares",
        "Who holds a key",
        ("Figure", "Key", "Share"),
        names,
        found.frequencies,
        found.frequency_intervals(*asked.intervals),
        truth=tuple(held),
        drawn=DRAWN,
        each="keys",
    )
    yield asked.panel(
        "keys-means",
        "Mean of a key's values",
        ("Figure", "Key", "Mean"),
        names,
        found.means,
        found.mean_intervals(*asked.intervals),
        limits=(-2.0, 2.0),
        drawn=DRAWN,
        each="keys",
    )


def announced(analysis: Analysis | None, tables: Sequence[AnnouncedTable], lead: str) -> Section:
    """The announced tables as the published result has them.

    Args:
        analysis: as announced; None if nothing was.
        tables: as the result has them.
        lead: the answer in a sentence.
    """
    said: tuple[str, ...] = ()
    name = ""
    if analysis is not None and any(table.cells for table in tables):
        intervals = Intervals(analysis.level, analysis.about)
        cells = [Shown(*cell[1:]) for table in tables for cell in table.cells]
        said = tuple(
            sentences(intervals, cells, analysis.projection, [table.fit for table in tables])
        )
        name = f"#{intervals.name}"
    more = rest(len(tables), TABLES, "tables in the JSON report")
    return Section(
        key="analysis",
        title="The announced analysis",
        lead=lead,
        notes=(*said, *([more] if more else [])),
        reasons=tuple(
            f"{table_title(table.names)}: the result cannot give it: {cut(table.why, 400)}"
            for table in tables
            if not table.cells
        ),
        grids=tuple(
            Grid(
                key=f"announced-{place}",
                caption=f"{table_title(table.names)}, as announced",
                columns=("Categories", "#Share", name),
                rows=tuple(_announced(table.cells[:CELLS])),
                more=rest(len(table.cells), CELLS, "cells in the JSON report"),
            )
            for place, table in enumerate(tables[:TABLES])
            if table.cells
        ),
    )


def _announced(cells: Sequence[Cell]) -> Iterator[tuple[str, str, str]]:
    """The rows of an announced table, in percent."""
    shares = [Shown(*cell[1:]) for cell in cells]
    figure = in_percent(shares)
    for cell, ends in zip(cells, shares, strict=True):
        share = f"{figure(cell.value)} %" if math.isfinite(cell.value) else NONE
        yield ", ".join(map(cut, cell.categories)), share, bracketed(ends, figure, " %")


def reported_values(
    reported: Estimate,
    given: Records | None,
    projection: Projection,
    intervals: Intervals,
    *,
    respondents: int,
) -> dict[str, Any]:
    """An estimate as ``result.json`` has it, and beside it the truth where that is known.

    Args:
        reported: the estimate.
        given: the true answers.
        projection: applied to its tables.
        intervals: their level, and what they are about.
        respondents: how many it is of.
    """
    marginals = reported.marginals(projection)
    pairs = reported.pairs(projection)
    return {
        "estimate": {
            "respondents": respondents,
            **(
                {}
                if reported.weighted_n is None
                else {"effective_sample_size": reported.weighted_n}
            ),
            "projection": projection,
            "marginals": {name: _labelled(t, t.values) for name, t in marginals.items()},
            "standard_errors": {
                name: None if t.standard_errors is None else _labelled(t, t.standard_errors)
                for name, t in marginals.items()
            },
            **(
                {"population_errors": _population_errors(marginals)}
                if intervals.about == "population"
                else {}
            ),
            "intervals": interval_values(reported, intervals, marginals.values(), pairs),
            **_fit_values([*marginals.values(), *pairs]),
            "pairs": [_pair_values(table, intervals) for table in pairs],
            **({"means": means_values(reported)} if reported.attribute_means() else {}),
        },
        **({} if given is None else _compared(reported, given, marginals, pairs)),
    }


def _pair_values(table: Table, intervals: Intervals) -> dict[str, Any]:
    return {
        "attributes": table.names,
        "categories": table.categories,
        "table": table.values,
        "standard_errors": table.standard_errors,
        **(
            {"population_errors": table.population_errors}
            if intervals.about == "population"
            else {}
        ),
    }


def _fit_values(tables: Sequence[Table]) -> dict[str, Any]:
    """Values on EM in the worst of some tables; empty if none was fitted."""
    fits = [table.fit for table in tables if table.fit]
    if not fits:
        return {}
    return {
        "em": {
            "converged": all(fit.converged for fit in fits),
            "gap": max(fit.gap for fit in fits),
            "steps": max(fit.steps for fit in fits),
        }
    }


def _compared(
    reported: Estimate, given: Records, marginals: Mapping[str, Table], pairs: Sequence[Table]
) -> dict[str, Any]:
    """The true tables and means, and their distances from the estimates."""
    records, true_means = reported.recoded(given), reported.true_means(given)
    true_marginals = {name: records.distribution([name]) for name in marginals}
    true_pairs = [records.distribution(table.names) for table in pairs]
    pairs_tv = [float(total_variation(t.values, x)) for t, x in zip(pairs, true_pairs, strict=True)]
    return {
        "truth": {
            "marginals": {
                name: _labelled(marginals[name], values) for name, values in true_marginals.items()
            },
            "pairs": [
                {"attributes": t.names, "table": x} for t, x in zip(pairs, true_pairs, strict=True)
            ],
            **({"means": dict(true_means)} if true_means else {}),
        },
        "error": {
            "marginals_tv": {
                name: float(total_variation(table.values, true_marginals[name]))
                if np.isfinite(table.values).all()
                else None
                for name, table in marginals.items()
            },
            "pairs_tv": float(np.mean(pairs_tv)) if pairs_tv else None,
            **(
                {
                    "means": {
                        name: abs(found.value - true_means[name])
                        for name, found in reported.attribute_means().items()
                    }
                }
                if true_means
                else {}
            ),
        },
    }


def _population_errors(marginals: Mapping[str, Table]) -> dict[str, dict[str, float] | None]:
    return {
        name: None if t.population_errors is None else _labelled(t, t.population_errors)
        for name, t in marginals.items()
    }


def _labelled(table: Table, values: NDArray[np.float64]) -> dict[str, float]:
    return dict(zip(table.categories[0], values.tolist(), strict=True))


def interval_values(
    estimate: Estimate,
    intervals: Intervals,
    marginals: Iterable[Table],
    pairs: Iterable[Table] | None = None,
) -> dict[str, Any]:
    """Intervals as JSON has them, with their level and what they are about; null where unknown.

    Args:
        estimate: its means have intervals too.
        intervals: which ones.
        marginals: its tables of single attributes.
        pairs: those of pairs, if their intervals are wanted.
    """
    means = estimate.attribute_means()
    return {
        "level": intervals.level,
        "about": intervals.about,
        "marginals": {
            table.names[0]: _by_category(table, intervals.of(table)) for table in marginals
        },
        **(
            {}
            if pairs is None
            else {
                "pairs": [
                    {"attributes": table.names, **intervals.of(table)._asdict()} for table in pairs
                ]
            }
        ),
        **(
            {"means": {name: intervals.of(mean)._asdict() for name, mean in means.items()}}
            if means
            else {}
        ),
    }


def _by_category(table: Table, found: Interval) -> dict[str, dict[str, float]]:
    ends = zip(table.categories[0], found.low.tolist(), found.high.tolist(), strict=True)
    return {category: {"low": low, "high": high} for category, low, high in ends}


def means_values(estimate: Estimate) -> dict[str, Any]:
    """The means of attributes that are numbers; an error is None where it is unknown."""
    return {
        name: {"mean": found.value, "standard_error": found.standard_error}
        for name, found in estimate.attribute_means().items()
    }


def announced_values(
    analysis: Analysis, tables: Sequence[AnnouncedTable], estimate: Estimate | None
) -> dict[str, Any]:
    """An announced analysis beside what was published.

    Args:
        analysis: as announced.
        tables: the announced tables as the result has them.
        estimate: the result; None if there is none.
    """
    return {
        "level": analysis.level,
        "about": analysis.about,
        "projection": analysis.projection,
        "announced": analysis.tables,
        "tables": [
            {
                "attributes": table.names,
                "cells": [cell._asdict() for cell in table.cells],
                "missing": table.why or None,
                **({} if table.fit is None else {"fit": table.fit._asdict()}),
            }
            for table in tables
        ],
        "not_announced": () if estimate is None else analysis.not_announced(estimate),
    }
