"""Statement of an estimate: shares or means with intervals, and values for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

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
"""Maximum number of attributes with a panel, and of keys shown with the truth."""

DRAWN = 60
"""Maximum number of keys in a picture."""

TABLES, CELLS = 12, 60
"""Maximum number of announced tables, and of cells in each."""

ANYWHERE = (-math.inf, math.inf)
"""Limits of figures on a scale of their own."""


@dataclass(frozen=True, slots=True)
class _Panels:
    """Makes the panels of an estimate, and collects their figures.

    Args:
        estimate: the estimate.
        intervals: level and subject of the intervals.
        truth: true records to show next to the estimate, if known.
        figures: all figures in panels so far.
        fits: fits of all tables in panels so far.
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
        """A panel of figures with their intervals."""
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
    """Section on an estimate, with a panel for each attribute or mean, or two for keys.

    Args:
        truth: true records to show next to the estimate.
        notes: further sentences.
    """
    made = _Panels(found, intervals, truth)
    if found.keyed is not None:
        panels, what, total = tuple(_keys(found.keyed, made)), "key", 2
    else:
        panels = tuple(_means(made)) or tuple(_shares(made, projection))
        what, total = "attribute", len(panels) + max(0, len(found.survey.names) - ATTRIBUTES)
    said = " ".join(sentences(intervals, made.figures, projection, made.fits))
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


def _shares(made: _Panels, projection: Projection) -> Iterator[Panel]:
    found = made.estimate
    truth = None if made.truth is None else found.recoded(made.truth)
    names = found.survey.names[:ATTRIBUTES]
    for place, name in enumerate(names):
        try:
            table = found.table(name, projection=projection)
        except ValueError:
            continue  # The result has no table of this attribute.
        made.fits.append(table.fit)
        yield made.panel(
            f"marginal-{place}",
            name,
            ("Attribute", "Category", "Share"),
            table.categories[0],
            table.values,
            made.intervals.of(table),
            truth=() if truth is None else tuple(truth.distribution([name]).tolist()),
        )


def _means(made: _Panels) -> Iterator[Panel]:
    """A panel for every mean, as each attribute has a scale of its own."""
    found = made.estimate
    true = {} if made.truth is None else found.true_means(made.truth)
    for place, (name, mean) in enumerate(islice(found.attribute_means().items(), ATTRIBUTES)):
        yield made.panel(
            f"mean-{place}",
            name,
            ("Attribute", "Of", "Mean"),
            ("Mean",),
            mean.value,
            made.intervals.of(mean),
            truth=(true[name],) if true else (),
            limits=ANYWHERE,
        )


def _keys(found: Keyed, made: _Panels) -> Iterator[Panel]:
    names = found.survey.names
    truth = None if made.truth is None else made.estimate.recoded(made.truth)
    shares = () if truth is None else (truth.distribution([name]) for name in names[:KEYS])
    held = [float(share[1]) for share in shares]
    yield made.panel(
        "keys-shares",
        "Who holds a key",
        ("Figure", "Key", "Share"),
        names,
        found.frequencies,
        found.frequency_intervals(*made.intervals),
        truth=tuple(held),
        drawn=DRAWN,
        each="keys",
    )
    yield made.panel(
        "keys-means",
        "Mean of a key's values",
        ("Figure", "Key", "Mean"),
        names,
        found.means,
        found.mean_intervals(*made.intervals),
        limits=(-2.0, 2.0),
        drawn=DRAWN,
        each="keys",
    )


def announced(analysis: Analysis | None, tables: Sequence[AnnouncedTable], lead: str) -> Section:
    """Section on the announced tables.

    Args:
        analysis: the announced analysis; None without one.
        tables: the announced tables from the result.
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
                rows=tuple(_announced_rows(table.cells[:CELLS])),
                more=rest(len(table.cells), CELLS, "cells in the JSON report"),
            )
            for place, table in enumerate(tables[:TABLES])
            if table.cells
        ),
    )


def _announced_rows(cells: Sequence[Cell]) -> Iterator[tuple[str, str, str]]:
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
    """An estimate for ``result.json``, with the truth and the errors where they are known.

    Args:
        reported: the estimate.
        given: the true answers, if known.
    """
    marginals = reported.marginals(projection)
    pairs = reported.pairs(projection)
    values: dict[str, Any] = {"respondents": respondents}
    if reported.weighted_n is not None:
        values["effective_sample_size"] = reported.weighted_n
    values |= {
        "projection": projection,
        "marginals": {name: _by_label(t, t.values) for name, t in marginals.items()},
        "standard_errors": _errors(marginals, "standard_errors"),
    }
    if intervals.about == "population":
        values["population_errors"] = _errors(marginals, "population_errors")
    values |= {
        "intervals": interval_values(reported, intervals, marginals.values(), pairs),
        **_fit_values([*marginals.values(), *pairs]),
        "pairs": [_pair_values(table, intervals) for table in pairs],
    }
    if reported.attribute_means():
        values["means"] = means_values(reported)
    compared = {} if given is None else _comparison_values(reported, given, marginals, pairs)
    return {"estimate": values, **compared}


def _pair_values(table: Table, intervals: Intervals) -> dict[str, Any]:
    values = {
        "attributes": table.names,
        "categories": table.categories,
        "table": table.values,
        "standard_errors": table.standard_errors,
    }
    if intervals.about == "population":
        values["population_errors"] = table.population_errors
    return values


def _fit_values(tables: Sequence[Table]) -> dict[str, Any]:
    """The worst convergence of EM among some tables; empty if none was fitted."""
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


def _comparison_values(
    reported: Estimate, given: Records, marginals: Mapping[str, Table], pairs: Sequence[Table]
) -> dict[str, Any]:
    """True tables and means, with their distances from the estimates."""
    records, true_means = reported.recoded(given), reported.true_means(given)
    true_marginals = {name: records.distribution([name]) for name in marginals}
    true_pairs = [records.distribution(table.names) for table in pairs]
    pairs_tv = [float(total_variation(t.values, x)) for t, x in zip(pairs, true_pairs, strict=True)]
    return {
        "truth": {
            "marginals": {
                name: _by_label(marginals[name], values) for name, values in true_marginals.items()
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


def _errors(
    marginals: Mapping[str, Table], kind: Literal["standard_errors", "population_errors"]
) -> dict[str, dict[str, float] | None]:
    errors = {name: getattr(table, kind) for name, table in marginals.items()}
    return {
        name: None if values is None else _by_label(marginals[name], values)
        for name, values in errors.items()
    }


def _by_label(table: Table, values: NDArray[np.float64]) -> dict[str, float]:
    return dict(zip(table.categories[0], values.tolist(), strict=True))


def interval_values(
    estimate: Estimate,
    intervals: Intervals,
    marginals: Iterable[Table],
    pairs: Iterable[Table] | None = None,
) -> dict[str, Any]:
    """Intervals for JSON; null where unknown.

    Args:
        estimate: the estimate, for the intervals of its means.
        marginals: its tables of single attributes.
        pairs: its tables of pairs, if their intervals are wanted.
    """
    values: dict[str, Any] = {
        "level": intervals.level,
        "about": intervals.about,
        "marginals": {
            table.names[0]: _by_category(table, intervals.of(table)) for table in marginals
        },
    }
    if pairs is not None:
        values["pairs"] = [
            {"attributes": table.names, **intervals.of(table)._asdict()} for table in pairs
        ]
    if means := estimate.attribute_means():
        values["means"] = {name: intervals.of(mean)._asdict() for name, mean in means.items()}
    return values


def _by_category(table: Table, found: Interval) -> dict[str, dict[str, float]]:
    ends = zip(table.categories[0], found.low.tolist(), found.high.tolist(), strict=True)
    return {category: {"low": low, "high": high} for category, low, high in ends}


def means_values(estimate: Estimate) -> dict[str, Any]:
    """Means of numeric attributes; an unknown error is None."""
    return {
        name: {"mean": found.value, "standard_error": found.standard_error}
        for name, found in estimate.attribute_means().items()
    }


def announced_values(
    analysis: Analysis, tables: Sequence[AnnouncedTable], estimate: Estimate | None
) -> dict[str, Any]:
    """An announced analysis with its results.

    Args:
        tables: the announced tables from the result.
        estimate: the estimate; None without one.
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
