"""Everything that was found of designs, by its names in JSON."""

from __future__ import annotations

from protocol.session.variant import plain_parameters
from scenarios.designing.designing import Designed, Row
from scenarios.designing.needing import Needed
from scenarios.designing.planned import plan_lines
from scenarios.designing.summing import among_values
from scenarios.statement.designs.setting import Values, setup_values


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
        "usefulness": row.usefulness,
        "record_epsilon": row.spent,
        "epsilon_at_delta": row.at_delta,
        "rests_on": row.rests_on,
        **among_values(row.candidate.among),
        "messages": None if traffic is None else traffic.messages,
        "bits": None if traffic is None else traffic.bits,
        "messages_back": None if traffic is None else traffic.messages_back,
        "bits_back": None if traffic is None else traffic.bits_back,
        "rounds": None if traffic is None else traffic.rounds,
        "trusted": row.trusted,
        "withstands_dropouts": row.dropouts.withstands,
        "dropouts": row.dropouts.says,
        "best_of_variant": row.best,
        "plan": "\n".join(row_lines(row)) or None,
    }


def row_lines(one: Row | Needed) -> tuple[str, ...]:
    """Lines of a plan for a way to ask; none for a user's own variant."""
    variant = one.candidate.variant
    assert variant is not None
    return plan_lines(variant, one.epsilon, one.candidate.among)


def _parameters(row: Row) -> Values | None:
    return None if row.candidate.variant is None else plain_parameters(row.candidate.variant)
