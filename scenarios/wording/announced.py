"""The announced analysis in words and as values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from protocol.estimators.analysis import Analysis, AnnouncedTable
from protocol.estimators.estimate import Estimate
from protocol.estimators.inference.words import level_text
from scenarios.wording.formatting import count, cut, some

_NAMES = 8


def described(analysis: Analysis) -> str:
    """An announced analysis in a clause."""
    tables = analysis.tables
    named = some(map(title_of, tables), len(tables), _NAMES)
    return (
        f"{count(len(tables), 'table')} ({named}), intervals at {level_text(analysis.level)} about "
        f"the {analysis.about}, projection {analysis.projection}"
    )


def title_of(names: Iterable[str]) -> str:
    """A table's name: its attributes."""
    return " by ".join(map(cut, names))


def announced_values(
    analysis: Analysis, tables: Sequence[AnnouncedTable], estimate: Estimate | None
) -> dict[str, Any]:
    """An announced analysis beside what was published.

    Args:
        analysis: as announced.
        tables: the announced tables as the result has them.
        estimate: the result; None if there is none.
    """
    return {
        "level": analysis.level,
        "about": analysis.about,
        "projection": analysis.projection,
        "announced": analysis.tables,
        "tables": [
            {
                "attributes": table.names,
                "cells": [cell._asdict() for cell in table.cells],
                "missing": table.why or None,
                **({} if table.fit is None else {"fit": table.fit._asdict()}),
            }
            for table in tables
        ],
        "not_announced": () if estimate is None else analysis.not_announced(estimate),
    }
