"""Experiments, datasets, reports and the command line.

What a user needs who runs protocols or writes scenarios is imported from here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.errors import UsageError
    from protocol.estimators.inference.intervals import Intervals
    from scenarios.cli import script
    from scenarios.data import DatasetError
    from scenarios.data.adult import adult, adult_with_age
    from scenarios.data.correlated import correlated
    from scenarios.data.key_populations import synthetic
    from scenarios.data.networks import alarm_network, child_network, survey_network
    from scenarios.data.own_tables.plan_text import plan_text
    from scenarios.data.own_tables.proposing import propose
    from scenarios.data.ratings import movielens
    from scenarios.data.taxi import taxi, taxi_distribution, taxi_trips
    from scenarios.data.town import town, town_distribution
    from scenarios.files.transcripts import Transcript, open_transcript
    from scenarios.report.audited import EXECUTORS, AuditedRun
    from scenarios.report.page.page import statement_page
    from scenarios.report.terminal.statement import statement_text
    from scenarios.report.values import statement_values
    from scenarios.running.engines.opening import open_engine
    from scenarios.running.loading import find_scenario, find_variant
    from scenarios.running.outcomes import Outcome
    from scenarios.running.parameters import (
        Part,
        Positive,
        Share,
        made,
        parameters_checked,
        settable,
    )
    from scenarios.running.reproduction import Reproduced, Row, Runs
    from scenarios.running.scenario import Context, Finished, Scenario
    from scenarios.running.simulation import simulate, simulate_async
    from scenarios.running.tabulating import Tabulated, tabulate
    from scenarios.statement.runs import state_run
    from scenarios.statement.statement import Check, Grid, Panel, Section, Statement, Verdict
    from scenarios.statement.tabulations import state_tabulation
    from scenarios.surveys.respondents import read_records
    from scenarios.surveys.survey_plan import read_plan
    from transports.faults import Fault, crash, cut, delay, drop, duplicate

__all__ = [
    "EXECUTORS",
    "AuditedRun",
    "Check",
    "Context",
    "DatasetError",
    "Fault",
    "Finished",
    "Grid",
    "Intervals",
    "Outcome",
    "Panel",
    "Part",
    "Positive",
    "Reproduced",
    "Row",
    "Runs",
    "Scenario",
    "Section",
    "Share",
    "Statement",
    "Tabulated",
    "Transcript",
    "UsageError",
    "Verdict",
    "adult",
    "adult_with_age",
    "alarm_network",
    "child_network",
    "correlated",
    "crash",
    "cut",
    "delay",
    "drop",
    "duplicate",
    "find_scenario",
    "find_variant",
    "made",
    "movielens",
    "open_engine",
    "open_transcript",
    "parameters_checked",
    "plan_text",
    "propose",
    "read_plan",
    "read_records",
    "script",
    "settable",
    "simulate",
    "simulate_async",
    "state_run",
    "state_tabulation",
    "statement_page",
    "statement_text",
    "statement_values",
    "survey_network",
    "synthetic",
    "tabulate",
    "taxi",
    "taxi_distribution",
    "taxi_trips",
    "town",
    "town_distribution",
]

_HOMES = {
    "protocol.estimators.inference.intervals": ("Intervals",),
    "scenarios.cli": ("script",),
    "scenarios.data": ("DatasetError",),
    "scenarios.data.adult": ("adult", "adult_with_age"),
    "scenarios.data.correlated": ("correlated",),
    "scenarios.data.key_populations": ("synthetic",),
    "scenarios.data.networks": ("alarm_network", "child_network", "survey_network"),
    "scenarios.data.ratings": ("movielens",),
    "scenarios.data.taxi": ("taxi", "taxi_distribution", "taxi_trips"),
    "scenarios.data.town": ("town", "town_distribution"),
    "scenarios.surveys.respondents": ("read_records",),
    "scenarios.surveys.survey_plan": ("read_plan",),
    "scenarios.running.engines.opening": ("open_engine",),
    "scenarios.files.transcripts": ("Transcript", "open_transcript"),
    "protocol.errors": ("UsageError",),
    "scenarios.data.own_tables.plan_text": ("plan_text",),
    "scenarios.data.own_tables.proposing": ("propose",),
    "scenarios.report.audited": ("EXECUTORS", "AuditedRun"),
    "scenarios.report.page.page": ("statement_page",),
    "scenarios.report.terminal.statement": ("statement_text",),
    "scenarios.report.values": ("statement_values",),
    "scenarios.statement.runs": ("state_run",),
    "scenarios.statement.tabulations": ("state_tabulation",),
    "scenarios.statement.statement": (
        "Check",
        "Grid",
        "Panel",
        "Section",
        "Statement",
        "Verdict",
    ),
    "scenarios.running.loading": ("find_scenario", "find_variant"),
    "scenarios.running.outcomes": ("Outcome",),
    "scenarios.running.reproduction": ("Reproduced", "Row", "Runs"),
    "scenarios.running.parameters": (
        "Part",
        "Positive",
        "Share",
        "made",
        "parameters_checked",
        "settable",
    ),
    "scenarios.running.scenario": ("Context", "Finished", "Scenario"),
    "scenarios.running.simulation": ("simulate", "simulate_async"),
    "scenarios.running.tabulating": ("Tabulated", "tabulate"),
    "transports.faults": ("Fault", "crash", "cut", "delay", "drop", "duplicate"),
}
"""Where each name is defined. Its module is imported when the name is first asked for."""

if not TYPE_CHECKING:  # To a type checker, a name that is not imported above is unknown.

    def __getattr__(name: str) -> object:
        for home, names in _HOMES.items():
            if name in names:
                from scenarios.files.shadows import file_in_the_way

                in_the_way = file_in_the_way()
                if in_the_way is not None:
                    raise ImportError(in_the_way)
                found = globals()[name] = getattr(importlib.import_module(home), name)
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
