"""The crossover of OUE and GRR: which of them errs less, by domain size and epsilon.

Wang, Blocki, Li and Jha, Locally Differentially Private Protocols for Frequency Estimation, USENIX
Security 2017, section 5: GRR is better if and only if there are fewer than ``3 e**epsilon + 2``
categories. The figures are n times the variance of the estimated share of a category that nobody
has, which is the mean over many such categories.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from protocol.variants import Spl
from protocol.variants.oracles.estimate import AttributeShares
from protocol.variants.oracles.names import Oracle
from scenarios.report.plots import plot_rows
from scenarios.running.outcomes import Outcome
from scenarios.running.reproduction import Reproduced, Row, Runs
from scenarios.running.scenario import Context, Scenario
from scenarios.running.simulation import simulate

NAME = "frequency-oracles"
COMPARED: tuple[Oracle, ...] = ("grr", "oue")
EPSILONS = (0.5, 1.0, 2.0)
SIZES = (4, 8, 16, 32)
"""On either side of the crossover, which is at 6.9, 10.2 and 24.2 categories."""

PARTIES = 2
"""Over how many the respondents of a run are spread."""


class Crossover(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set."""

    runs: Runs = 40
    n: Annotated[int, Meta(ge=PARTIES, le=1_000_000, description="respondents of a run")] = 1000


def crossover(parameters: Crossover, context: Context) -> Reproduced:
    """Both oracles at every epsilon and size, each run live.

    By messages, GRR once, at the smallest epsilon and size.
    """
    if context.by_messages:
        return _by_messages(parameters, context)
    settings = [(epsilon, size) for epsilon in EPSILONS for size in SIZES]
    seeds = context.stream(NAME).integers(2**63, (len(settings), len(COMPARED), parameters.runs))
    pieces = [
        Piece(epsilon, size, oracle, parameters.n, seeds[place, number].tolist())
        for place, (epsilon, size) in enumerate(settings)
        for number, oracle in enumerate(COMPARED)
    ]
    errors = iter(context.map(errors_of, pieces))
    rows: list[Row] = []
    agreed = 0
    for epsilon, size in settings:
        found = {oracle: next(errors) for oracle in COMPARED}
        measured = min(COMPARED, key=lambda oracle: float(np.mean(found[oracle])))
        agreed += measured == better_by_rule(epsilon, size)
        rows += [_row(epsilon, size, oracle, of_it, measured) for oracle, of_it in found.items()]
    return Reproduced(
        reproduction=NAME,
        runs=parameters.runs,
        rows=tuple(rows),
        notes=(
            *_notes(),
            f"measured: the better oracle is that of the rule at {agreed} of {len(settings)} "
            "settings",
        ),
        plot=plot_rows(
            rows, x="size", by=("epsilon", "oracle"), label="n times variance", title=NAME
        ),
    )


class Piece(NamedTuple):
    """One oracle at one setting, and the seeds of its runs."""

    epsilon: float
    size: int
    oracle: Oracle
    n: int
    seeds: list[int]


def errors_of(piece: Piece) -> list[float]:
    """The error of every run."""
    records = everybody_alike(piece.size, piece.n)
    variant = Spl(survey=records.survey, epsilon=piece.epsilon, oracle=piece.oracle)
    return [
        error_of(simulate(variant, records, seed=seed, parties=PARTIES)) for seed in piece.seeds
    ]


def closed_form(oracle: Oracle, *, size: int, epsilon: float) -> float:
    """n times the variance of a category that nobody has, as the paper prints it.

    It is ``(size - 2 + e**epsilon) / (e**epsilon - 1)**2`` of GRR, and
    ``4 e**epsilon / (e**epsilon - 1)**2`` of OUE.
    """
    odds = math.exp(epsilon)
    above = {"grr": size - 2 + odds, "oue": 4 * odds}[oracle]
    return above / (odds - 1) ** 2


def better_by_rule(epsilon: float, size: int) -> Oracle:
    """GRR of fewer than ``3 e**epsilon + 2`` categories, OUE of more."""
    return "grr" if size < 3 * math.exp(epsilon) + 2 else "oue"


def everybody_alike(size: int, n: int) -> Records:
    """The answers of n respondents who are all of the first of some categories."""
    letters = Attribute(name="letter", categories=tuple(f"letter {i}" for i in range(size)))
    return Records(Survey("letters", (letters,)), np.zeros((n, 1), np.uint8))


def error_of(outcome: Outcome) -> float:
    """n times the mean squared error of the shares of categories that nobody has."""
    estimate = outcome.estimate_as(AttributeShares)
    [table] = estimate.marginals().values()
    return float(estimate.n * (table.values[1:] ** 2).mean())


def _row(epsilon: float, size: int, oracle: Oracle, errors: list[float], measured: str) -> Row:
    few = len(errors) < 2
    spread = math.nan if few else float(np.std(errors, ddof=1)) / math.sqrt(len(errors))
    return Row(
        settings={"epsilon": epsilon, "size": size, "oracle": oracle},
        measured=float(np.mean(errors)),
        standard_error=spread,
        printed=closed_form(oracle, size=size, epsilon=epsilon),
        remark=f"measured, {measured} is better; by the rule, {better_by_rule(epsilon, size)}",
    )


def _notes() -> tuple[str, ...]:
    crossings = ", ".join(f"{3 * math.exp(e) + 2:.1f} at {e:g}" for e in EPSILONS)
    return (
        "measured is n times the mean squared error; printed, n times the paper's variance",
        "every run is a survey of live roles; everybody is of the first category, and errors are "
        "those of all others",
        f"GRR is better below 3 e^epsilon + 2 categories: {crossings}",
    )


def _by_messages(parameters: Crossover, context: Context) -> Reproduced:
    epsilon, size = EPSILONS[0], SIZES[0]
    records = everybody_alike(size, parameters.n)
    oracle = better_by_rule(epsilon, size)
    variant = Spl(survey=records.survey, epsilon=epsilon, oracle=oracle)
    outcome = context.simulate(variant, records, parties=min(PARTIES, parameters.n))
    row = _row(epsilon, size, oracle, [error_of(outcome)], oracle)
    return Reproduced(
        reproduction=NAME,
        runs=1,
        rows=(msgspec.structs.replace(row, remark="the other oracle was not run"),),
        notes=(*_notes(), "one run by messages: no standard error follows from it"),
        outcome=outcome,
    )


SCENARIOS = (
    Scenario(
        name=NAME,
        summary="Wang et al. 2017: GRR or OUE is better, by domain size and epsilon.",
        parameters=Crossover,
        run=crossover,
    ),
)
