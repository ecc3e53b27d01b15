"""The crossover of OUE and GRR: which of them errs less, by domain size and epsilon.

Wang, Blocki, Li and Jha, Locally Differentially Private Protocols for Frequency Estimation, USENIX
Security 2017, section 5: GRR is better if and only if there are fewer than ``3 e**epsilon + 2``
categories. The figures are n times the variance of the estimated share of a category that nobody
has, which is the mean over many such categories.
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from protocol.variants import Spl
from protocol.variants.oracles.names import Oracle
from scenarios.papers.driver import experiment_scenarios
from scenarios.papers.experiment import Asked, Experiment, Found, Sample, grid
from scenarios.running.outcomes import Outcome
from scenarios.running.reproduction import Picture
from scenarios.running.simulation import simulate

COMPARED: tuple[Oracle, ...] = ("grr", "oue")
EPSILONS = (0.5, 1.0, 2.0)
SIZES = (4, 8, 16, 32)
"""On either side of the crossover, which is at 6.9, 10.2 and 24.2 categories."""

PARTIES = 2
"""Over how many the respondents of a run are spread."""


class Crossover(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of the comparison."""

    n: Annotated[int, Meta(ge=PARTIES, le=1_000_000, description="respondents of a run")] = 1000


def _errors(asked: Asked[Crossover]) -> Sample:
    """Errors of all runs. Each run is live, for no law draws them faster."""
    size, epsilon, oracle = (asked.cell[name] for name in ("size", "epsilon", "oracle"))
    records = everybody_alike(size, asked.parameters.n)
    variant = Spl(survey=records.survey, epsilon=epsilon, oracle=oracle)
    if asked.live:
        outcomes = [asked.simulate(variant, records, PARTIES)]
    else:
        seeds = asked.generator().integers(2**63, size=asked.runs).tolist()
        outcomes = [simulate(variant, records, seed=seed, parties=PARTIES) for seed in seeds]
    errors = np.array([scaled_error(outcome) for outcome in outcomes])
    return Sample(drawn={"": errors}, printed={"": closed_form(oracle, size=size, epsilon=epsilon)})


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


def scaled_error(outcome: Outcome[Spl]) -> float:
    """n times the mean squared error of the shares of categories that nobody has."""
    estimate = outcome.estimate
    [table] = estimate.marginals().values()
    return float(estimate.n * (table.values[1:] ** 2).mean())


def _agreement_notes(found: Found[Crossover]) -> list[str]:
    agreed = 0
    for cell in grid(epsilon=EPSILONS, size=SIZES):
        errors = {oracle: found.value(oracle=oracle, **cell) for oracle in COMPARED}
        agreed += min(COMPARED, key=errors.__getitem__) == better_by_rule(**cell)
    settings = len(EPSILONS) * len(SIZES)
    return [f"measured: the better oracle is that of the rule at {agreed} of {settings} settings"]


_CROSSINGS = ", ".join(f"{3 * math.exp(e) + 2:.1f} at {e:g}" for e in EPSILONS)

SCENARIOS = experiment_scenarios(
    Experiment(
        name="frequency-oracles",
        summary="Wang et al. 2017: GRR or OUE is better, by domain size and epsilon.",
        cells=grid(epsilon=EPSILONS, size=SIZES, oracle=COMPARED),
        measure=_errors,
        live=True,
        runs=40,
        parameters=Crossover,
        notes=(
            "measured is n times the mean squared error; printed, n times the paper's variance",
            "every run is a survey of live roles; everybody is of the first category, and errors "
            "are those of all others",
            f"GRR is better below 3 e^epsilon + 2 categories: {_CROSSINGS}",
        ),
        observed=_agreement_notes,
        picture=Picture(
            names={"": "n times the variance", "size": "categories", "grr": "GRR", "oue": "OUE"},
        ),
    )
)
