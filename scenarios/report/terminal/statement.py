"""A statement for a terminal: findings, verdicts, checks and their basis."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal

import numpy as np
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table

from scenarios.statement.statement import (
    WORDS,
    Check,
    Coverage,
    Grid,
    Panel,
    Section,
    State,
    Statement,
    Verdict,
)
from scenarios.wording.formatting import TIMES, rest
from scenarios.wording.plain import plain, printed

_STYLES: dict[State, str] = {"good": "green", "bad": "bold red", "care": "yellow"}
_WARNS: tuple[State, ...] = ("bad", "care")
_SHORT = 48
"""A table with a longer cell is printed as a line for each row."""

PANELS = 60
"""Maximum number of panels of a section in a table."""

CATEGORIES, LARGEST = 40, 20
"""Maximum number of figures of a panel; of more, the largest are listed."""


def statement_report(said: Statement, *, details: bool = True) -> Iterator[RenderableType]:
    """Results or findings first, then the verdicts and their basis.

    Args:
        details: False to leave out what only bears out a verdict; all that is bad is left in, and a
            verdict that warns stands before the tables.
    """
    if said.title:
        yield plain(said.title, style="bold")
    results = [section for section in said.sections if section.place == "result"]
    first = results and not details
    warnings = [each for each in said.verdicts if first and each.state in _WARNS]
    for verdict in warnings:
        yield from _verdict_briefly(verdict)
    for section in results:
        yield from _result(section, titled=len(results) > 1)
    if said.found is not None and not results:
        yield from _found_lines(said.found)
    if not details:
        yield from _briefly(said, [each for each in said.verdicts if each not in warnings])
        return
    for verdict in said.verdicts:
        yield from verdict_lines(verdict)
    if said.coverage:
        yield from _coverage(said.coverage)
    for fact in said.facts:
        yield plain(f"{fact.name}: {fact.value}{f' ({fact.note})' if fact.note else ''}")
    if said.checks:
        yield plain("")
        yield from _checks(said.checks)
    answers = {check.says for check in said.checks}
    for section in said.sections:
        if section.place == "body":
            yield from _section(section, answered=section.lead in answers)


def _briefly(said: Statement, verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    """Print who was counted, the other verdicts in a line each, and all problems."""
    of_record = [verdict for verdict in verdicts if verdict.key == "record"]
    for verdict in of_record:
        yield from _verdict_briefly(verdict)
    if said.coverage:
        yield from _coverage_briefly(said.coverage)
    for verdict in verdicts:
        if verdict not in of_record:
            yield from _verdict_briefly(verdict)
    care = [check for check in said.checks if check.state not in ("good", "note")]
    yield from _checks(care)
    answers = {check.says for check in care}
    for section in said.sections:
        if section.place == "body" and section.brief is None:
            yield from _section(section, answered=section.lead in answers)
        elif section.place == "body":
            yield from map(plain, section.brief or ())
    if said.verdicts:
        yield plain("--details prints what this rests on.", style="dim")


def statement_text(said: Statement, *, width: int = 100) -> str:
    """A statement as a terminal without colours shows it."""
    return printed(statement_report(said), width=width)


def _found_lines(found: Grid) -> Iterator[RenderableType]:
    """The first figures found, one per line."""
    yield plain("Found: ", style="bold").append_text(plain(found.caption, style="not bold"))
    heads = [name for name, _ in found.heads[1:]]
    width = max((len(str(first)) for first, *_ in found.rows), default=0) + 2
    for first, *others in found.rows:
        named = zip(heads, others, strict=True)
        cells = (f"{cell}" if len(heads) == 1 else f"{name} {cell}" for name, cell in named)
        yield plain(f"  {first:<{width}}{'  '.join(cells)}")
    if found.more:
        yield plain(f"  {found.more}")


def verdict_lines(verdict: Verdict) -> Iterator[RenderableType]:
    """A verdict with its reasons, and the scale that it goes by."""
    yield _verdict_line(verdict, verdict.title, verdict.says)
    yield from _because(verdict, verdict.reasons)
    if (scale := verdict.scale) is not None:
        steps = [f"[{name}]" if name == verdict.word else name for name, _ in scale.steps]
        edges = [f" {TIMES}{edge:,.0f} " for _, edge in scale.steps[:-1]]
        ruler = "".join(a + b for a, b in zip(steps, [*edges, ""], strict=True))
        yield plain(f"  Scale, {scale.goes_by}: {ruler}", style="dim")


def _verdict_briefly(verdict: Verdict) -> Iterator[RenderableType]:
    says, *more = (verdict.says, *verdict.reasons) if verdict.brief is None else verdict.brief
    yield _verdict_line(verdict, verdict.about, says)
    yield from _because(verdict, more)


def _verdict_line(verdict: Verdict, title: str, says: str) -> RenderableType:
    style = _STYLES.get(verdict.state, "")
    line = plain(f"{title}: " if title else "", style="bold")
    line.append_text(plain(verdict.word, style=f"bold {style}".removeprefix("bold bold")))
    return line.append_text(plain(f"{'.' if title else ':'} {says}", style="not bold default"))


def _because(verdict: Verdict, reasons: Iterable[str]) -> Iterator[RenderableType]:
    """Caveat and reasons of a verdict."""
    if verdict.caveat:
        yield plain(f"  {verdict.caveat}", style=_STYLES["care"])
    for reason in reasons:
        yield plain(f"  {reason}")


def _coverage_briefly(coverage: Sequence[Coverage]) -> Iterator[RenderableType]:
    """The counted parties, and the waits in which a party was not counted."""
    if all(each.counted == each.awaited for each in coverage):
        everybody = coverage[0]
        yield plain("Counted: ", style="bold").append_text(
            plain(f"all {everybody.awaited:,} who were asked.", style="not bold")
        )
        return
    first, *waits = coverage
    yield from _coverage((first, *(each for each in waits if each.counted != each.awaited)))


def _coverage(coverage: Sequence[Coverage]) -> Iterator[RenderableType]:
    first, *others = coverage
    yield plain("Counted: ", style="bold").append_text(
        plain(f"{first.says}, for {first.of}", style="not bold")
    )
    for each in others:
        about = f" ({each.about})" if each.about else ""
        yield plain(f"  {each.of}: {each.says}{about}")


def _checks(checks: Iterable[Check]) -> Iterator[RenderableType]:
    """One line per check."""
    for check in checks:
        line = plain(f"  {WORDS[check.state]:<9}", style=_STYLES.get(check.state, ""))
        yield line.append_text(plain(f"{check.about}. {check.says}", style="not bold default"))


def _result(section: Section, *, titled: bool) -> Iterator[RenderableType]:
    """A section as the first thing on the terminal: tables, then sentences."""
    if titled:
        yield plain("")
        yield plain(section.title, style="bold")
    yield from panels_report(section)
    for grid in section.grids:
        if not titled:
            yield plain(f"{grid.caption}:")
        yield _table(grid, fold=True)
        if grid.more:
            yield plain(grid.more)
    yield from map(plain, section.notes)
    yield from _code(section)
    yield from _reasons(section)


def _reasons(section: Section) -> Iterator[RenderableType]:
    for reason in section.reasons:
        yield plain(f"  - {reason}")
    for name, value in section.facts:
        yield plain(f"  {name}: {value}")


def _section(section: Section, *, answered: bool) -> Iterator[RenderableType]:
    found = section.notes, section.reasons, section.facts, section.grids, section.panels
    if not any(found) and answered:
        return
    yield plain("")
    yield plain(section.title, style="underline")
    for line in (*(() if answered or not section.lead else (section.lead,)), *section.notes):
        yield plain(f"  {line}")
    yield from _code(section)
    yield from _reasons(section)
    yield from panels_report(section)
    for grid in section.grids:
        yield plain(f"  {grid.caption}:")
        yield from _rows(grid)
        if grid.more:
            yield plain(f"    {grid.more}")


def panels_report(section: Section) -> Iterator[RenderableType]:
    """One table for neighbouring panels of a kind, with the number of further panels."""
    shown = section.panels[:PANELS]
    for _, alike in groupby(shown, key=lambda panel: (panel.heads, bool(panel.truth))):
        yield _panels(tuple(alike))
    if more := rest(max(section.total, len(section.panels)), len(shown)):
        yield plain(f"{more}, in the JSON report")


def _panels(panels: Sequence[Panel]) -> RenderableType:
    """Figures next to the truth; of many figures, the largest."""
    # Imported late: verifying prints no estimate.
    from protocol.estimators.inference.interval_words import bracketed
    from scenarios.wording.decimals import decimals

    (name, label, head), intervals = panels[0].heads, panels[0].intervals
    labelled = any(len(panel.labels) > 1 for panel in panels)
    table = Table()
    for column in (name.lower(), *((label.lower(),) if labelled else ())):
        table.add_column(column)
    beside = bool(panels[0].truth)
    for column in (*(("truth", "estimate") if beside else (head.lower(),)), intervals.name):
        table.add_column(column, justify="right")
    for panel in panels:
        shares = panel.limits is None
        digits = decimals(panel.figures, **({} if shares else {"least": 0, "digits": 3}))
        figure = functools.partial(_figure, digits=digits)
        places = list(range(len(panel.figures)))
        if len(places) > CATEGORIES:
            values = [each.value for each in panel.figures]
            order = np.argsort(-np.nan_to_num(values, nan=-math.inf), kind="stable")
            places = order[:LARGEST].tolist()
        name = panel.name
        for place in places:
            found = panel.figures[place]
            true = panel.truth[place] if place < len(panel.truth) else math.nan
            table.add_row(
                plain(name),
                *((plain(panel.labels[place]),) if labelled else ()),
                *((figure(true),) if beside else ()),
                figure(found.value),
                bracketed(found, figure),
            )
            name = ""
        if more := rest(len(panel.figures), len(places)):
            table.add_row("", plain(f"{more}, all smaller"))
        if labelled:
            table.add_section()
    return table


def _figure(value: float, digits: int = 4) -> str:
    """Format to so many decimals; empty if there is no estimate."""
    return f"{value:.{digits}f}" if math.isfinite(value) else ""


def _code(section: Section) -> Iterator[RenderableType]:
    for content in section.code:
        whole = plain(f"  {content}")
        whole.no_wrap, whole.overflow = True, "ignore"
        yield whole


def _rows(grid: Grid) -> Iterator[RenderableType]:
    """A table; if any cell is long, a line of text for each row."""
    heads, rows = _without_bars(grid)
    if any(len(cell) > _SHORT for row in ([name for name, _ in heads], *rows) for cell in row):
        for first, *others in rows:
            named = zip(heads[1:], others, strict=True)
            more = "; ".join(f"{name}: {cell}" for (name, _), cell in named)
            yield plain(f"    {first}" + (f"; {more}" if more else ""))
        return
    yield Padding(_table(grid), (0, 0, 0, 4), expand=False)


def _table(grid: Grid, *, fold: bool = False) -> Table:
    """A table without bars; long texts are folded, except in the first column."""
    heads, rows = _without_bars(grid)
    short = all(len(row[0]) <= _SHORT // 2 for row in rows)
    table = Table(box=None, pad_edge=False, padding=(0, 2 - fold, 0, 0))
    for place, (name, kind) in enumerate(heads):
        justify: Literal["right", "left"] = "right" if kind == "number" else "left"
        table.add_column(
            plain(name),
            justify=justify,
            overflow="fold",
            no_wrap=fold and ((place == 0 and short) or kind == "number"),
        )
    for row in rows:
        table.add_row(*map(plain, row))
    return table


def _without_bars(grid: Grid) -> tuple[list[tuple[str, str]], list[list[str]]]:
    """Heads and rows of a table without its columns of bars."""
    kept = [place for place, (_, kind) in enumerate(grid.heads) if kind != "picture"]
    heads = [grid.heads[place] for place in kept]
    return heads, [[str(row[place]) for place in kept] for row in grid.rows]
