"""Experiments, datasets, reports and the command line."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scenarios.running.outcomes import Outcome
    from scenarios.running.simulation import EXECUTORS, simulate, simulate_async

__all__ = ["EXECUTORS", "Outcome", "simulate", "simulate_async"]

_HOMES = {
    "scenarios.running.outcomes": ("Outcome",),
    "scenarios.running.simulation": ("EXECUTORS", "simulate", "simulate_async"),
}

if not TYPE_CHECKING:  # To a type checker, a name that is not imported above is unknown.

    def __getattr__(name: str) -> object:
        for home, names in _HOMES.items():
            if name in names:
                return getattr(importlib.import_module(home), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
