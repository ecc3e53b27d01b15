"""Statement of a reproduction: measured and printed figures, with footnotes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from scenarios.running.reproduction import TOLERANCE, Compared, Reproduced, Row
from scenarios.statement.pivots import MOST_LINES, largest_error, pivots
from scenarios.statement.statement import Grid, Section, Statement

MARK = "*"
"""Stands beside a figure that differs from the printed one."""


def state_reproduction(done: Reproduced, *, seconds: float) -> Statement:
    """Statement of a reproduction: table, footnotes, notes, and running time."""
    names = dict.fromkeys(name for row in done.rows for name in row.settings)
    varying = [name for name in names if len({row.shown(name) for row in done.rows}) > 1]
    common = _words(done.rows[0], [n for n in names if n not in varying]) if done.rows else ""
    figures = [figure for row in done.rows for figure in row.figures()]
    named = any(figure.name for figure in figures)
    many = len(figures) + 2 * len(done.rows) * named > MOST_LINES
    said = (row.remark if many else row.words for row in done.rows)
    remarks = {words: place for place, words in enumerate(dict.fromkeys(filter(None, said)), 1)}
    if many:
        grids = tuple(pivots(done.rows, _short))
    else:
        make = _stacked_grid if named else _column_grid
        grids = (make(done.rows, varying, remarks),)
    return Statement(
        title=done.reproduction + (f": {common}" if common else ""),
        sections=(
            Section(
                key="figures",
                title="Measured and printed",
                notes=(
                    *_notes(done, remarks, figures, many=many),
                    *done.notes,
                    f"{'once' if done.runs == 1 else f'{done.runs:,} runs each'}, "
                    f"in {seconds:.1f} s",
                    *_by_messages(done),
                ),
                grids=grids,
                place="result",
            ),
        ),
        values=done.result(),
    )


def _notes(
    done: Reproduced, remarks: dict[str, int], figures: Sequence[Compared], *, many: bool
) -> Iterator[str]:
    """Footnotes, and the meaning of the figures."""
    if many:
        error = largest_error(done.rows)
        known = "" if math.isnan(error) else f", with standard errors of up to {error:.0%}"
        yield f"measured (printed){known}; --json and --csv have all that is known of each"
    for words, number in remarks.items():
        yield f"[{number}] {words}"
    if any(figure.differs for figure in figures):
        yield (
            f"{MARK} further apart than rounding and chance explain; by chance, measured and "
            f"printed are up to {TOLERANCE} standard errors (s.e.) apart, those of both counted"
        )


def _by_messages(done: Reproduced) -> Iterator[str]:
    outcome = done.outcome
    if outcome is not None:
        yield (
            f"by messages: estimated from {outcome.counted:,} of {outcome.charter.parties:,} "
            f"parties, over {outcome.transport}; {outcome.messages:,} messages, "
            f"{outcome.bytes:,} bytes"
        )
        yield f"digest {outcome.digest.hex()}"


def _short(figure: Compared) -> str:
    """A figure of three digits, with the printed one."""
    mark = MARK if figure.differs else ""
    printed = "" if figure.printed is None else f" ({figure.printed:.3g})"
    return _number(figure.measured, digits=3) + mark + printed


_COLUMNS = ("#measured", "#s.e.", "#printed", "#ratio", "remark")


def _column_grid(rows: Sequence[Row], settings: Sequence[str], remarks: dict[str, int]) -> Grid:
    """Table with a column per setting, for rows with one figure."""
    return Grid(
        key="measured",
        caption="Figures by setting",
        columns=(*settings, *_COLUMNS),
        rows=tuple(
            (*(row.shown(name) for name in settings), *_cells(figure), _footnote(row, remarks))
            for row in rows
            for figure in row.figures()
        ),
    )


def _stacked_grid(rows: Sequence[Row], settings: Sequence[str], remarks: dict[str, int]) -> Grid:
    """Table with each row's settings on a line, and its figures below."""
    lines: list[tuple[str, ...]] = []
    for row in rows:
        lines.append((_words(row, settings), *[""] * 4, _footnote(row, remarks)))
        lines += ((f"  {figure.name}", *_cells(figure), "") for figure in row.figures())
    return Grid(
        key="measured",
        caption="Figures by setting",
        columns=("figure", *_COLUMNS),
        rows=tuple(lines),
    )


def _footnote(row: Row, remarks: dict[str, int]) -> str:
    """The number of a row's remark; equal remarks share a number."""
    return f"[{remarks[row.words]}]" if row.words else ""


def _cells(figure: Compared) -> tuple[str, ...]:
    error, printed, ratio = figure.standard_error, figure.printed, figure.ratio
    return (
        _number(figure.measured) + (MARK if figure.differs else " "),
        "unknown" if figure.unknown else "" if error is None else _number(error, digits=2),
        # Printed figures keep all of their digits.
        "" if printed is None else f"{printed:.7g}",
        "" if ratio is None else _number(ratio, digits=3),
    )


def _words(row: Row, names: Sequence[str]) -> str:
    """Settings in words, as far as this row has them."""
    return ", ".join(f"{name} = {row.shown(name)}" for name in names if row.shown(name))


def _number(value: float, digits: int = 4) -> str:
    if not math.isfinite(value):
        return "no number" if math.isnan(value) else "infinite"
    if value.is_integer() and 10**digits <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:#.{digits}g}".removesuffix(".")
