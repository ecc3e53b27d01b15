"""A reproduction for a terminal: measured beside printed, remarks as numbered footnotes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from scenarios.report.terminal.pivot import MOST_LINES, largest_error, pivots
from scenarios.running.reproduction import TOLERANCE, Compared, Reproduced, Row
from scenarios.wording.plain import plain

MARK = "*"
"""Stands beside a figure that differs from the printed one, for terminals without colours too."""


def reproduction_report(done: Reproduced, *, seconds: float) -> Iterator[RenderableType]:
    """The table, its footnotes, the notes, and what it took."""
    names = dict.fromkeys(name for row in done.rows for name in row.settings)
    varying = [name for name in names if len({row.shown(name) for row in done.rows}) > 1]
    common = _words(done.rows[0], [n for n in names if n not in varying]) if done.rows else ""
    yield plain(done.reproduction + (f": {common}" if common else ""), style="italic")
    remarks: dict[str, int] = {}
    figures = [figure for row in done.rows for figure in row.figures()]
    named = any(figure.name for figure in figures)
    if len(figures) + 2 * len(done.rows) * named > MOST_LINES:
        yield from pivots(done.rows, _short)
        error = largest_error(done.rows)
        known = "" if math.isnan(error) else f", with standard errors of up to {error:.0%}"
        yield plain(f"measured (printed){known}; --json and --csv have all that is known of each")
        remarks = dict.fromkeys((row.remark for row in done.rows if row.remark), 0)
        remarks = {words: number for number, words in enumerate(remarks, 1)}
    elif named:
        yield _stacked(done.rows, varying, remarks)
    else:
        yield _columned(done.rows, varying, remarks)
    for words, number in remarks.items():
        yield _hanging(f"[{number}] ", words)
    if any(figure.differs for figure in figures):
        yield plain(
            f"{MARK} further apart than rounding and chance explain; by chance, measured and "
            f"printed are up to {TOLERANCE} standard errors (s.e.) apart, those of both counted"
        )
    for note in done.notes:
        yield plain(note)
    times = "once" if done.runs == 1 else f"{done.runs:,} runs each"
    yield plain(f"{times}, in {seconds:.1f} s")
    outcome = done.outcome
    if outcome is not None:
        yield plain(
            f"by messages: estimated from {outcome.counted:,} of {len(outcome.endings):,} parties, "
            f"over {outcome.transport}; {outcome.messages:,} messages, {outcome.bytes:,} bytes"
        )
        yield plain(f"digest {outcome.digest.hex()}")


def _short(figure: Compared) -> Text:
    """A figure in a pivot, three digits of it, and the printed one."""
    style, mark = ("bold red", MARK) if figure.differs else ("", "")
    printed = "" if figure.printed is None else f" ({figure.printed:.3g})"
    return Text(_number(figure.measured, digits=3) + mark + printed, style=style)


def _columned(rows: Sequence[Row], settings: Sequence[str], remarks: dict[str, int]) -> Table:
    """Every setting a column; for rows of one figure."""
    table = Table()
    for name in settings:
        table.add_column(plain(name), overflow="fold")
    _add_columns(table)
    for row in rows:
        for figure in row.figures():
            shown = (plain(row.shown(name)) for name in settings)
            table.add_row(*shown, *_cells(figure), _footnote(row, remarks))
    return table


def _stacked(rows: Sequence[Row], settings: Sequence[str], remarks: dict[str, int]) -> Table:
    """Every row's settings on a line of their own, its figures below."""
    table = Table()
    table.add_column("figure", overflow="fold")
    _add_columns(table)
    for row in rows:
        words = plain(_words(row, settings), style="bold")
        table.add_row(words, *[""] * 4, _footnote(row, remarks))
        for figure in row.figures():
            name = Padding(plain(figure.name), (0, 0, 0, 2))
            table.add_row(name, *_cells(figure), "")
        table.add_section()
    return table


def _add_columns(table: Table) -> None:
    for name in ("measured", "s.e.", "printed", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)


def _footnote(row: Row, remarks: dict[str, int]) -> Text:
    """The number of a row's remark; equal remarks have one number."""
    words = row.words
    return Text(f"[{remarks.setdefault(words, len(remarks) + 1)}]" if words else "")


def _cells(figure: Compared) -> list[Text]:
    style, mark = ("bold red", MARK) if figure.differs else ("", " ")
    error, printed, ratio = figure.standard_error, figure.printed, figure.ratio
    return [
        Text(_number(figure.measured) + mark, style=style),
        Text("unknown" if figure.unknown else "" if error is None else _number(error, digits=2)),
        # As the paper has it, with all of its digits.
        Text("" if printed is None else f"{printed:.7g}"),
        Text("" if ratio is None else _number(ratio, digits=3)),
    ]


def _words(row: Row, names: Sequence[str]) -> str:
    """Settings in words, without those that this row does not have."""
    return ", ".join(f"{name} = {row.shown(name)}" for name in names if row.shown(name))


def _number(value: float, digits: int = 4) -> str:
    if not math.isfinite(value):
        return "no number" if math.isnan(value) else "infinite"
    if value.is_integer() and 10**digits <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:#.{digits}g}".removesuffix(".")


def _hanging(mark: str, words: str) -> RenderableType:
    """A paragraph whose later lines are indented."""
    table = Table.grid()
    table.add_column(width=len(mark), no_wrap=True)
    table.add_column()
    table.add_row(Text(mark), plain(words))
    return table
