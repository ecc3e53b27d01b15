"""Reproductions run in a test, and their figures by name."""

from __future__ import annotations

import json
from typing import Any

from scenarios.running.loading import find_scenario
from scenarios.running.reproduction import Reproduced, Row
from scenarios.running.scenario import Context


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
