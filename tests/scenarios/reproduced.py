"""Reproductions run in a test, and their figures by name."""

from __future__ import annotations

import json
from typing import Any

from scenarios import Context, Reproduced, Row, find_scenario


def reproduce(name: str, context: Context | None = None, **given: Any) -> Reproduced:
    """A reproduction with these parameters; its result is valid JSON."""
    scenario = find_scenario(name)
    done = scenario.run(scenario.configure(given), context or Context())
    assert isinstance(done, Reproduced)
    assert done.reproduction == name
    json.dumps(done.result(), allow_nan=False)
    return done


def measured(row: Row) -> dict[str, float]:
    """A row's measured figures by name."""
    return {figure.name: figure.measured for figure in row.figures()}
