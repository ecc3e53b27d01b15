"""A statement as values of JSON."""

from __future__ import annotations

from typing import Any

from scenarios.statement.statement import Statement, Verdict
from scenarios.wording.formatting import as_json


def statement_values(said: Statement) -> dict[str, Any]:
    """Values of a statement: its words, then the figures, without the sections."""
    plain: dict[str, Any] = as_json({"statement": _in_words(said), **said.values})
    return plain


def _in_words(said: Statement) -> dict[str, Any]:
    """Text of a statement: findings, verdicts, coverage, and checks."""
    grid = said.found
    return {
        "found": None
        if grid is None
        else [
            {name: cell for (name, _), cell in zip(grid.heads, row, strict=True)}
            for row in grid.rows
        ],
        **{verdict.key: _verdict_values(verdict) for verdict in said.verdicts},
        "coverage": [
            {
                "of": each.of,
                "about": each.about,
                "counted": each.counted,
                "awaited": each.awaited,
            }
            for each in said.coverage
        ],
        "checks": [
            {"about": check.about, "state": check.state, "says": check.says}
            for check in said.checks
        ],
    }


def _verdict_values(verdict: Verdict) -> dict[str, Any]:
    return {
        "verdict": verdict.word,
        "says": verdict.says,
        "reasons": verdict.reasons,
        **verdict.values,
    }
