"""Statement of requested tables, counts and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from numpy.typing import NDArray

from protocol.estimators.inference.interval_words import bracketed, sentences
from protocol.estimators.inference.intervals import Intervals, interval_figures
from protocol.estimators.inference.laws import Interval
from protocol.estimators.projection import Projection
from protocol.estimators.tables import FIGURES
from scenarios.statement.statement import Grid, Section, Statement, Verdict
from scenarios.statement.usefulness.verdict import usefulness_values
from scenarios.wording.decimals import decimals
from scenarios.wording.formatting import rest

Columns: TypeAlias = dict[str, NDArray[Any]]
"""Arrays of one length: of texts, None where there is none, or numbers, NaN where unknown."""

ROWS = 200
"""Maximum number of listed rows."""

_MADE = {
    "simulation": "The record is of a simulation and protects nobody: its seed is in it.",
    "trial": "The record is of a trial: one program held all answers.",
}


def state_table(
    columns: Columns,
    intervals: Intervals,
    projection: Projection,
    about: Mapping[str, Any],
    notes: Sequence[str],
    verdicts: tuple[Verdict, ...] = (),
) -> Statement:
    """Estimates with their intervals.

    Args:
        columns: columns that identify rows, and ``FIGURES``.
        about: facts about all rows, by names in JSON.
        notes: further sentences.
        verdicts: on their usefulness.
    """
    figures = interval_figures(columns["value"], Interval(columns["low"], columns["high"]))
    # One decimal is enough for people.
    digits = decimals(figures, least=1 if max(abs(cell.value) for cell in figures) > 1 else 4)
    named = [name for name in columns if name not in FIGURES]
    texts = zip(*(columns[name].tolist() for name in named), strict=True)

    def figure(value: float) -> str:
        return f"{value:.{digits}f}"

    return _make_statement(
        Grid(
            key="estimates",
            caption=f"Estimates from {about['respondents']:,} respondents",
            columns=(*named, "#estimate", f"#{intervals.name}"),
            rows=tuple(
                (*(text or "" for text in row), figure(cell.value), bracketed(cell, figure))
                for row, cell in islice(zip(texts, figures, strict=True), ROWS)
            ),
            more=rest(len(figures), ROWS, "rows: --out FILE has all"),
        ),
        (*notes, *sentences(intervals, figures, projection)),
        columns,
        about,
        verdicts,
    )


def state_tests(columns: Columns, about: Mapping[str, Any]) -> Statement:
    """Statement of tests of independence; arguments as for ``state_table``."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    heads = "first", "second", "test", "#statistic", "#degrees", "#p-value", "#p-value, Holm"
    return _make_statement(
        Grid(
            key="tests",
            caption=f"Tests from {about['respondents']:,} respondents",
            columns=heads,
            rows=tuple(
                tuple(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row)
                for row in rows
            ),
        ),
        (
            "A small p-value says that the two attributes depend on each other in the population; "
            "the tests know of the randomization. Holm's is corrected for all pairs that were "
            "asked for.",
        ),
        columns,
        about,
    )


def _make_statement(
    grid: Grid,
    notes: Sequence[str],
    columns: Columns,
    about: Mapping[str, Any],
    verdicts: tuple[Verdict, ...] = (),
) -> Statement:
    made = (_MADE[about["source"]],) if about["source"] in _MADE else ()
    section = Section(
        key="asked",
        title="What was asked for",
        notes=(*notes, *made),
        grids=(grid,),
        place="result",
    )
    return Statement(
        verdicts=verdicts,
        sections=(section,),
        values={**rows_values(columns, about), **usefulness_values(verdicts)},
    )


def rows_values(columns: Columns, about: Mapping[str, Any]) -> dict[str, Any]:
    """Values that hold of all rows, and every row by the names of the columns."""
    cells = zip(*(column.tolist() for column in columns.values()), strict=True)
    return {**about, "rows": [dict(zip(columns, row, strict=True)) for row in cells]}
