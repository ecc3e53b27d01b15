"""Experiments, datasets, reports and the command line."""

from __future__ import annotations

from scenarios.running.outcomes import Outcome
from scenarios.running.simulation import EXECUTORS, simulate, simulate_async

__all__ = ["EXECUTORS", "Outcome", "simulate", "simulate_async"]
