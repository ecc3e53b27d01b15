"""A run as one page: its estimates beside the truth, what they cost, and what was said."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from protocol.estimators.inference.words import USUAL, Intervals
from scenarios.report.formatting import NONE, count, cut, signed
from scenarios.report.judging import judge
from scenarios.report.page.association import association
from scenarios.report.page.estimate import estimate
from scenarios.report.page.page import kind_of, report
from scenarios.report.page.rounds import traffic
from scenarios.report.page.terms import terms
from scenarios.report.statement.found import found
from scenarios.report.statement.of_file import OF_THE_FILE
from scenarios.report.statement.parts import Grid, Section, rest
from scenarios.report.statement.statement import statement
from scenarios.running.scenario import Finished

ROWS = 60

_FIRST, _LAST = ("findings", "analysis", "ledger", "claims"), ("members",)
"""The sections of a statement that stand before what was said, and after it."""


def run_page(name: str, finished: Finished, intervals: Intervals = USUAL) -> str:
    """A run as a page: estimates first, then privacy, traffic and terms.

    Its record is judged as in an audit, and what that says is on the page.

    Args:
        name: of the scenario or the plan.
        finished: the run.
        intervals: of the estimates: their level, and what they are about.
    """
    outcome = finished.outcome
    path = outcome.transcript.path
    judged, rounds = judge(
        outcome.transcript,
        type(outcome.variant),
        file="not kept" if path is None else path.name,
        digest=outcome.digest,
        intervals=intervals,
        with_rounds=True,
    )
    stated = replace(
        statement(judged),
        found=found(finished.reported, intervals, projection=finished.projection),
    )
    by_key = {section.key: section for section in stated.sections}
    estimated, drawn = estimate(
        finished.reported,
        intervals,
        title="The estimates",
        projection=finished.projection,
        truth=outcome.records,
        notes=() if finished.rows else finished.notes,
    )
    together = association(finished.reported, intervals)
    said, flows = traffic(judged.audit, rounds)
    if outcome.charter.analysis is None:
        by_key.pop("analysis")
    if not judged.audit.checks:
        by_key.pop("claims")
    if not judged.audit.findings:
        by_key.pop("findings")
    sections = [
        estimated,
        *(together or ())[:1],
        *_rows(finished),
        *(by_key[key] for key in _FIRST if key in by_key),
        said,
        *(by_key[key] for key in _LAST),
        terms(judged.header, outcome.variant.survey),
        by_key["integrity"],
    ]
    kind = kind_of(judged.audit)
    called = {"A trial": "Plan", "A simulation": "Scenario"}
    there = {section.key for section in sections}
    return report(
        "run.html",
        judged,
        stated,
        rounds,
        sections,
        {
            said.key: flows,
            estimated.key: drawn,
            **({} if together is None else {"association": together[1]}),
        },
        name=cut(name),
        lead=f"{count(outcome.estimate.n, 'respondent')} in "
        f"{count(len(outcome.endings), 'party', 'parties')}, over {outcome.transport}, "
        f"in {outcome.seconds:.1f} s.",
        checks=[
            check
            for check in stated.checks
            if check.state == "bad" or (check.about not in OF_THE_FILE and check.link in there)
        ],
        source=(
            ("Variant", cut(outcome.variant.name)),
            *(((called[kind], cut(name)),) if kind in called else ()),
            ("File", cut(judged.file, 120)),
        ),
    )


def _rows(finished: Finished) -> Iterator[Section]:
    """What a scenario shows in place of a table for each attribute."""
    rows = finished.rows
    if rows:
        yield Section(
            key="rows",
            title="One by one",
            lead=f"{count(len(rows), 'row')} of figures.",
            notes=finished.notes,
            grids=(
                Grid(
                    key="figures",
                    caption="What the scenario reports",
                    columns=tuple(
                        name if isinstance(cell, str) else f"#{name}"
                        for name, cell in rows[0].items()
                    ),
                    rows=tuple(tuple(map(_cell, row.values())) for row in rows[:ROWS]),
                    more=rest(len(rows), ROWS, "rows in the JSON report"),
                ),
            ),
        )


def _cell(value: str | float | None) -> str:
    if isinstance(value, str):
        return cut(value)
    if value is None or not math.isfinite(value):
        return NONE
    return f"{value:,}" if isinstance(value, int) else signed(value, 4)
