"""A statement for a terminal: the verdict, the checks, then what they rest on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table

from protocol.transcript.verification import Verification
from scenarios.report.formatting import count
from scenarios.report.statement.checks import checks_of_file, verdict_of_file
from scenarios.report.statement.parts import WORDS, Check, Grid, Section, State
from scenarios.report.statement.statement import Statement
from scenarios.report.terminal.plain import plain

_STYLES: dict[State, str] = {"good": "green", "bad": "bold red", "care": "yellow"}
_FAULTS = 50
_SHORT = 48
"""A table with a longer cell is printed as a line for each row."""


def statement_report(said: Statement) -> Iterator[RenderableType]:
    """The verdict first, then what it rests on."""
    style = "bold green" if said.accepted else "bold red"
    yield plain(said.title, style=style)
    yield plain(said.says)
    yield from checks_report(said.checks)
    answers = {check.says for check in said.checks}
    for section in said.sections:
        if section.notes or section.reasons or section.facts or section.grids:
            yield from _section(section, answered=section.lead in answers)


def checks_report(checks: Iterable[Check]) -> Iterator[RenderableType]:
    """Every check in a line."""
    for check in checks:
        line = plain(f"  {WORDS[check.state]:<9}", style=_STYLES.get(check.state, ""))
        yield line.append_text(plain(f"{check.about}. {check.says}", style="not bold default"))


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


def verification_report(verification: Verification) -> Iterator[RenderableType]:
    """Whether a transcript is intact, and every fault."""
    for fault in verification.faults[:_FAULTS]:
        yield plain(f"fault: {fault}", style="red")
    more = len(verification.faults) - _FAULTS + verification.faults_left_out
    if more > 0:
        yield plain(f"and {more:,} more faults; --json lists them", style="red")
    if verification.digest is not None:
        so_far = "" if verification.read_whole else "so far as it could be read: "
        yield plain(
            f"{so_far}{count(verification.entries, 'entry', 'entries')}, "
            f"{count(verification.messages, 'message')} sent, "
            f"{verification.undelivered:,} of them never delivered"
        )
        about = "" if verification.read_whole else "of what was read "
        yield plain(f"digest {about}{verification.digest.hex()}")
    yield from checks_report(checks_of_file(verification))
    style = "bold green" if verification.intact else "bold red"
    yield plain(verdict_of_file(verification), style)
