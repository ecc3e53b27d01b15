"""Many rows of a reproduction as tables of two sides, so that a figure fits a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence

from scenarios.running.reproduction import Compared, Row
from scenarios.statement.statement import Grid

MOST_LINES = 60
"""More lines of rows than these are shown as pivots."""

WIDTH = 78
"""Maximum width of a pivot in characters; a wider one continues below."""

_FIGURE = ""
"""Stands for the name of a figure, among the names of settings."""


def pivots(rows: Sequence[Row], shown: Callable[[Compared], str]) -> Iterator[Grid]:
    """One table for all rows with the same settings and figures.

    Args:
        rows: at least one.
        shown: a figure in a cell.
    """
    groups: dict[Hashable, list[Row]] = {}
    for row in rows:
        names = tuple(figure.name for figure in row.figures())
        key = (tuple(row.settings), names, row.settings.get("figure"))
        groups.setdefault(key, []).append(row)
    for place, group in enumerate(groups.values()):
        yield from _pivot(f"pivot-{place}", group, shown, alone=len(groups) == 1)


def _pivot(
    key: str, rows: Sequence[Row], shown: Callable[[Compared], str], *, alone: bool
) -> Iterator[Grid]:
    names = _telling(rows)
    points = [
        ({**{name: row.shown(name) for name in names}, _FIGURE: figure.name}, figure)
        for row in rows
        for figure in row.figures()
    ]
    sides = [*names, _FIGURE]

    texts = {id(figure): shown(figure) for _, figure in points}

    def values(side: str) -> list[str]:
        return list(dict.fromkeys(at[side] for at, _ in points))

    def down(side: str) -> list[str]:
        left = [name for name in sides if name != side]
        return [name for name in left if name or len(values(name)) > 1]

    def width(name: str) -> int:
        return 2 + max(len(name or "figure"), *(len(value) for value in values(name)))

    def fitting(side: str) -> int:
        """Number of columns that fit next to those that name the rows."""
        widest = max(len(text) for text in texts.values())
        column = 3 + max(widest, *(len(value) for value in values(side)))
        return max(1, (WIDTH - sum(map(width, down(side)))) // column)

    def lines(side: str) -> int:
        found = len({tuple(at[name] for name in down(side)) for at, _ in points})
        return (found + 4) * math.ceil(len(values(side)) / fitting(side))

    across = min((side for side in sides if len(values(side)) > 1), key=lines, default=_FIGURE)
    named = {name: common_setting(rows, name) for name in rows[0].settings if name not in names}
    words = ", ".join(f"{name} = {value}" for name, value in named.items() if value)
    heads, step = values(across), fitting(across)
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for at, figure in points:
        line = tuple(at[name] for name in down(across))
        cells.setdefault(line, {})[at[across]] = texts[id(figure)]
    for start in range(0, len(heads), step):
        some = heads[start : start + step]
        yield Grid(
            key=f"{key}-{start}",
            caption="measured (printed)" if alone else words or "other figures",
            columns=(
                *(name or "figure" for name in down(across)),
                *(
                    f"#{across} {head}" if across and not place else f"#{head or 'measured'}"
                    for place, head in enumerate(some)
                ),
            ),
            rows=tuple(
                (*line, *(of_line.get(head, "") for head in some))
                for line, of_line in cells.items()
            ),
        )


def common_setting(rows: Sequence[Row], name: str) -> str:
    """A setting that all rows have alike; empty if they do not."""
    values = {row.shown(name) for row in rows}
    return values.pop() if len(values) == 1 else ""


def _telling(rows: Sequence[Row]) -> list[str]:
    """Settings that distinguish rows, without those that follow from earlier ones."""
    kept: list[str] = []
    for name in rows[0].settings:
        before = {tuple(row.shown(one) for one in kept) for row in rows}
        after = {tuple(row.shown(one) for one in (*kept, name)) for row in rows}
        if len(after) > len(before):
            kept.append(name)
    return kept


def largest_error(rows: Sequence[Row]) -> float:
    """The largest standard error, as a share of its figure."""
    shares = [
        abs(figure.standard_error / figure.measured)
        for row in rows
        for figure in row.figures()
        if figure.standard_error and figure.measured
    ]
    return max((share for share in shares if math.isfinite(share)), default=math.nan)
