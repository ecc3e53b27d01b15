"""A statement for a terminal: what was found, the verdicts, the checks, what they rest on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table

from scenarios.report.formatting import TIMES
from scenarios.report.statement.parts import Grid, Section
from scenarios.report.statement.verdicts import SCALE, PrivacyVerdict
from scenarios.report.terminal.plain import plain
from scenarios.report.terminal.verification import checks_report, verdict_lines

if TYPE_CHECKING:
    from scenarios.report.statement.statement import Statement

_SHORT = 48
"""A table with a longer cell is printed as a line for each row."""


def statement_report(said: Statement) -> Iterator[RenderableType]:
    """What was found and the verdicts first, then what they rest on."""
    if said.found is not None:
        yield from found_report(said.found)
    yield from verdicts_report(said)
    yield plain("")
    yield from checks_report(said.checks)
    answers = {check.says for check in said.checks}
    for section in said.sections:
        if section.notes or section.reasons or section.facts or section.grids:
            yield from _section(section, answered=section.lead in answers)


def found_report(found: Grid) -> Iterator[RenderableType]:
    """The first figures of what was found, a line for each."""
    yield plain("Found: ", style="bold").append_text(plain(found.caption, style="not bold"))
    heads = [name for name, _ in found.heads[1:]]
    width = max((len(str(first)) for first, *_ in found.rows), default=0) + 2
    for first, *others in found.rows:
        named = zip(heads, others, strict=True)
        cells = (f"{cell}" if len(heads) == 1 else f"{name} {cell}" for name, cell in named)
        yield plain(f"  {first:<{width}}{'  '.join(cells)}")
    if found.more:
        yield plain(f"  {found.more}")


def verdicts_report(said: Statement) -> Iterator[RenderableType]:
    """Both verdicts, and who was counted."""
    yield from verdict_lines(said.record)
    yield from privacy_report(said.privacy)
    first, *others = said.coverage
    yield plain("Counted: ", style="bold").append_text(
        plain(f"{first.says}, for {first.of}", style="not bold")
    )
    for each in others:
        about = f" ({each.about})" if each.about else ""
        yield plain(f"  {each.of}: {each.says}{about}")


def privacy_report(verdict: PrivacyVerdict) -> Iterator[RenderableType]:
    """The verdict on privacy, and the scale that it goes by."""
    yield from verdict_lines(verdict)
    yield _scale(verdict)


def _scale(verdict: PrivacyVerdict) -> RenderableType:
    """The scale in a line, with the verdict marked."""
    steps = [f"[{step.name}]" if step.name == verdict.word else step.name for step in SCALE]
    edges = [f" {TIMES}{step.odds:,.0f} " for step in SCALE[:-1]]
    ruler = "".join(a + b for a, b in zip(steps, [*edges, ""], strict=True))
    return plain(f"  Scale, by how far odds can change: {ruler}", style="dim")


def _section(section: Section, *, answered: bool) -> Iterator[RenderableType]:
    yield plain("")
    yield plain(section.title, style="underline")
    for line in (*(() if answered else (section.lead,)), *section.notes):
        yield plain(f"  {line}")
    for reason in section.reasons:
        yield plain(f"  - {reason}")
    for name, value in section.facts:
        yield plain(f"  {name}: {value}")
    for grid in section.grids:
        yield plain(f"  {grid.caption}:")
        yield from _rows(grid)
        if grid.more:
            yield plain(f"    {grid.more}")


def _rows(grid: Grid) -> Iterator[RenderableType]:
    """A table without its bars; where a cell is long, a line for each row."""
    kept = [place for place, (_, kind) in enumerate(grid.heads) if kind != "picture"]
    heads = [grid.heads[place] for place in kept]
    rows = [[str(row[place]) for place in kept] for row in grid.rows]
    if any(len(cell) > _SHORT for row in ([name for name, _ in heads], *rows) for cell in row):
        for first, *others in rows:
            named = zip(heads[1:], others, strict=True)
            more = "; ".join(f"{name}: {cell}" for (name, _), cell in named)
            yield plain(f"    {first}" + (f"; {more}" if more else ""))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, kind in heads:
        table.add_column(plain(name), justify="right" if kind == "number" else "left")
    for row in rows:
        table.add_row(*map(plain, row))
    yield Padding(table, (0, 0, 0, 4), expand=False)
