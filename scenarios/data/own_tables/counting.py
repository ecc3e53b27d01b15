"""Counts of each cell in the columns of a table, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from protocol.surveys.dataframes import Cell
from scenarios.data.own_tables.sheets import Sheet
from scenarios.files.collecting import collector_paused

_MOST_CELLS = 1_500_000
"""Maximum number of distinct cells counted at a time. A column may have more."""

_SAMPLE = 50
"""Number of blocks in a sample."""


def count_answers(sheet: Sheet) -> Iterator[tuple[str, Counter[Cell]]]:
    """Count each cell, column by column.

    The table is read once, and again for columns with too many distinct cells.

    Yields:
        The name of a column and its cells as they are written. The counter may be changed.

    Raises:
        UsageError: as ``Sheet.blocks``.
    """
    waiting = list(sheet.names)
    while waiting:
        counters: dict[str, Counter[Cell]] = {name: Counter() for name in waiting}
        with collector_paused():
            for block in sheet.blocks(waiting):
                for name, cells in zip(waiting, block, strict=True):
                    if name in counters:
                        counters[name].update(cells)
                while len(counters) > 1 and sum(map(len, counters.values())) > _MOST_CELLS:
                    del counters[max(counters, key=lambda name: len(counters[name]))]
        done = set(counters)
        for name in [*counters]:
            yield name, counters.pop(name)
        waiting = [name for name in waiting if name not in done]


def sampled(sheet: Sheet) -> list[Counter[str]]:
    """The texts in each column near the beginning; numbers that are not text are left out.

    Raises:
        UsageError: as ``Sheet.blocks``.
    """
    counters: list[Counter[str]] = [Counter() for _ in sheet.names]
    for _, block in zip(range(_SAMPLE), sheet.blocks(sheet.names), strict=False):
        for counter, cells in zip(counters, block, strict=True):
            counter.update(cell for cell in cells if isinstance(cell, str))
    return counters
