"""A comparison of variants for a terminal: measured errors beside predicted ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from scenarios.comparing.comparison import Comparison, Figure, Measured
from scenarios.wording.formatting import NONE, count
from scenarios.wording.plain import plain


def comparison_report(done: Comparison) -> Iterator[RenderableType]:
    """The table, what was not run, and the notes."""
    people = count(done.respondents, "respondent")
    runs = count(max(each.runs for each in done.measured), "run")
    yield plain(
        f"{done.title}: {people}, target {done.target.says}, {runs} of each", style="italic"
    )
    ran = [each for each in done.measured if not each.why]
    if ran:
        yield _table(ran, done.setup.projection)
    for words, names in _left_out(done.measured).items():
        yield plain(f"{', '.join(names)} not run: {words}")
    for note in done.notes:
        yield plain(note)


def _table(ran: Sequence[Measured], projection: str) -> Table:
    """The variants under each epsilon."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("variant", no_wrap=True)
    heads = ["measured", "predicted", "ratio", "held"]
    if projection != "none":
        heads.insert(3, projection)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for epsilon in dict.fromkeys(each.epsilon for each in ran):
        table.add_row(Text(f"epsilon {epsilon:g}", style="bold"))
        for each in ran:
            if each.epsilon == epsilon:
                name = Padding(plain(each.variant), (0, 0, 0, 2))
                table.add_row(name, *_cells(each, projected=projection != "none"))
    return table


def _cells(each: Measured, *, projected: bool) -> list[Text]:
    style, mark = ("bold red", "*") if each.differs else ("", " ")
    cells = [
        Text(_with_error(each.raw) + mark, style=style),
        Text(NONE if each.predicted is None else f"{each.predicted:.3g}"),
        Text("" if each.ratio is None else f"{each.ratio:.3f}"),
    ]
    if projected:
        cells.append(Text(_with_error(each.projected)))
    return [*cells, Text(NONE if each.held is None else f"{each.held.value:.0%}")]


def _with_error(figure: Figure | None) -> str:
    if figure is None:
        return NONE
    if math.isnan(figure.error):
        return f"{figure.value:.3g}"
    return f"{figure.value:.3g} ± {figure.error:.1g}"


def _left_out(measured: Sequence[Measured]) -> dict[str, list[str]]:
    """What was not run, by the reason; at several epsilons it is named once."""
    found: dict[str, list[str]] = {}
    for each in measured:
        if each.why:
            names = found.setdefault(each.why, [])
            if each.variant not in names:
                names.append(each.variant)
    return found
