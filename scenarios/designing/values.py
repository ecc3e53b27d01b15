"""What a design says, as plain values: for JSON, and as the rows of a CSV file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from protocol.session.variant import parameters_of
from scenarios.designing.assumed import Given
from scenarios.designing.designing import Designed, Row, Setup
from scenarios.designing.needing import Needed
from scenarios.designing.planned import plan_lines

Values = dict[str, Any]

REVEALS = (
    "The errors were predicted from the records given, so they reveal something of them, and so "
    "does a choice that is made by them."
)
"""What is said where the shares of records are assumed."""


def setup_values(setup: Setup) -> Values:
    """What a design is for."""
    return {
        "target": setup.target.says,
        "tables": len(setup.target.tables),
        "respondents": setup.respondents,
        "parties": setup.parties,
        "dropout": setup.dropout,
        "answering": setup.answering,
        "assumed": setup.shares.says,
        "about": setup.about,
        "delta": setup.delta,
        **({"reveals": REVEALS} if isinstance(setup.shares, Given) else {}),
    }


def designed_values(found: Designed) -> Values:
    """Everything that was found."""
    return {
        **setup_values(found.setup),
        "designs": [
            {
                **row_values(row),
                "parameters": _parameters(row),
                "tables": [
                    {"attributes": names, "rmse": error}
                    for names, error in row.prediction.tables.items()
                ],
            }
            for row in found.rows
        ],
        "not_applicable": [
            {"epsilon": epsilon, "variant": name, "why": why}
            for (epsilon, name), why in found.refused.items()
        ],
    }


def row_values(row: Row) -> Values:
    """One way to ask, without its parameters."""
    traffic = row.traffic
    return {
        "epsilon": row.epsilon,
        "variant": row.candidate.family,
        "name": row.candidate.name,
        "chosen": row.candidate.chosen,
        "rmse": row.prediction.rmse,
        "simulated_runs": row.prediction.runs,
        "monte_carlo_error": row.prediction.monte_carlo,
        "largest_standard_error": row.prediction.largest,
        "record_epsilon": row.spent,
        "epsilon_at_delta": row.at_delta,
        "messages": None if traffic is None else traffic.messages,
        "bits": None if traffic is None else traffic.bits,
        "messages_back": None if traffic is None else traffic.messages_back,
        "bits_back": None if traffic is None else traffic.bits_back,
        "rounds": None if traffic is None else traffic.rounds,
        "trusted": row.trusted,
        "withstands_dropouts": row.dropouts.withstands,
        "dropouts": row.dropouts.says,
        "best_of_variant": row.best,
        "plan": _plan(row),
    }


def needed_values(setup: Setup, error: float, level: float, needed: Sequence[Needed]) -> Values:
    """What an error takes."""
    return {
        **setup_values(setup),
        "error": error,
        "level": level,
        "needed": [
            {
                "variant": one.candidate.family,
                "name": one.candidate.name,
                "chosen": one.candidate.chosen,
                "epsilon": one.epsilon,
                "respondents": one.respondents,
                "plan": _plan(one),
            }
            for one in needed
        ],
    }


def _plan(one: Row | Needed) -> str | None:
    """What a plan says for it, a line for each parameter; None for a variant of a person's own."""
    assert one.candidate.variant is not None
    return "\n".join(plan_lines(one.candidate.variant, one.epsilon)) or None


def _parameters(row: Row) -> Values | None:
    return None if row.candidate.variant is None else parameters_of(row.candidate.variant)
