"""The announced analysis in words and as values."""

from __future__ import annotations

from collections.abc import Iterable

from protocol.estimators.analysis import Analysis
from protocol.estimators.inference.intervals import level_text
from scenarios.wording.formatting import count, cut, some

_NAMES = 8


def described(analysis: Analysis) -> str:
    """An announced analysis in a clause."""
    tables = analysis.tables
    named = some(map(table_title, tables), len(tables), _NAMES)
    return (
        f"{count(len(tables), 'table')} ({named}), intervals at {level_text(analysis.level)} about "
        f"the {analysis.about}, projection {analysis.projection}"
    )


def table_title(names: Iterable[str]) -> str:
    """A table's name: its attributes."""
    return " by ".join(map(cut, names))
