"""Section 4.3 of RRBA: by how much tables disagree, and what making them agree does to errors.

Randomized Response Block Aggregation (RRBA), section 4.3. The paper has no figure of it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from protocol.estimators.measures import l2_distance
from protocol.estimators.projection import project_simplex
from protocol.randomizers.exact import Floats
from protocol.variants import RRBA
from protocol.variants.rrba.grouped import Group, GroupedEstimate
from scenarios.datasets.networks import Network
from scenarios.reproductions.driver import scenarios_of
from scenarios.reproductions.experiment import Asked, Experiment, Found, Sample, grid
from scenarios.reproductions.laws import report_once
from scenarios.reproductions.rrba.shared import network, run_rrba, sample
from scenarios.running.outcomes import Outcome
from scenarios.running.reproduction import Picture
from scenarios.running.scenario import Context


class Clients(msgspec.Struct, frozen=True, kw_only=True):
    """How many are asked."""

    n: Annotated[int, Meta(ge=100, le=10_000_000, description="clients")] = 8000


def _measured(estimate: GroupedEstimate, source: Network) -> dict[str, float]:
    """Before and after; distances are means over all tables."""
    agreed = estimate.consistent()
    distances = {
        name: [
            float(l2_distance(table, source.distribution(list(names))))
            for names, table in tables.items()
        ]
        for name, tables in (
            ("l2, each table projected", _projected(estimate)),
            ("l2, tables that agree", agreed.tables()),
        )
    }
    return {
        "disagreement": estimate.disagreement(),
        "disagreement afterwards": agreed.disagreement(),
        **{name: float(np.mean(values)) for name, values in distances.items()},
    }


def _projected(estimate: GroupedEstimate) -> dict[tuple[str, ...], Floats]:
    return {names: project_simplex(table) for names, table in estimate.tables().items()}


def _agreed(asked: Asked[Clients]) -> list[Sample]:
    """All groups of one run: who is asked about which is drawn, as are the clients of each."""
    source, generator = network(asked.cell["network"], asked.data), asked.generator()
    survey = sample(source, 1, asked.seed).survey
    variant = RRBA(survey=survey, k=2, p=asked.cell["p"])
    plan, runs = variant.plan, []
    for _ in range(asked.runs):
        people = generator.multinomial(
            asked.parameters.n, np.full(len(plan.group_names), 1 / len(plan.group_names))
        )
        groups = [
            _group(names, source, int(n), asked.cell["p"], generator)
            for names, n in zip(plan.group_names, people, strict=True)
        ]
        runs.append(_measured(GroupedEstimate(survey, tuple(groups), asked.parameters.n), source))
    return [Sample(drawn={name: np.array([run[name] for run in runs]) for name in runs[0]})]


def _group(
    names: tuple[str, ...], source: Network, n: int, p: float, generator: np.random.Generator
) -> Group:
    law = source.distribution(list(names))
    true = generator.multinomial(n, law.ravel() / law.sum())
    reported = report_once(true, p, generator).reshape(law.shape) / max(n, 1)
    uniform = np.full(law.shape, 1 / law.size)
    raw = (reported - (1 - p) * uniform) / p
    errors = np.sqrt(reported * (1 - reported) / max(n, 1)) / p
    return Group(
        names=names,
        shares=raw,
        errors=errors,
        reported=reported,
        raw=raw,
        fakes=uniform,
        fakes_squared=uniform**2,
        expected=reported,
        keep=p,
        n=n,
        worth=float(n),
    )


def _live(asked: Asked[Clients], context: Context) -> tuple[Outcome, list[Sample]]:
    source = network(asked.cell["network"], asked.data)
    records = sample(source, asked.parameters.n, context.seed)
    outcome, estimate = run_rrba(context, records, k=2, p=asked.cell["p"])
    found = _measured(estimate, source)
    return outcome, [Sample(drawn={name: np.array([value]) for name, value in found.items()})]


def _gained(found: Found[Clients]) -> list[str]:
    notes = []
    for name in ("survey", "child"):
        before, after = (
            found.value(figure, network=name, p=0.5)
            for figure in ("l2, each table projected", "l2, tables that agree")
        )
        notes.append(f"{name}, p = 0.5: tables that agree are {before / after:.2f} times nearer")
    return notes


EXPERIMENTS = (
    Experiment(
        paper="RRBA",
        item="Section 4.3",
        name="rrba-consistency",
        summary="RRBA, 4.3: how far tables disagree, and their errors before and after agreeing.",
        cells=grid(network=("survey", "child"), p=(0.3, 0.5, 0.7)),
        law=_agreed,
        live=_live,
        live_cell={"network": "survey", "p": 0.5},
        runs=10,
        at_once=2,
        parameters=Clients,
        notes=(
            "one group of two attributes for each client, fakes from the uniform table; "
            "disagreement: the largest difference of two tables' shares of one attribute; l2: the "
            "mean distance of a pair's shares from those of the network",
        ),
        observed=_gained,
        picture=Picture(
            x="p",
            by=("network",),
            figures=("l2, each table projected", "l2, tables that agree"),
            title="Tables that agree are nearer to the truth",
            axis="mean l2 distance of a pair's shares",
            names={"p": "keep probability p"},
        ),
    ),
)
SCENARIOS = scenarios_of(*EXPERIMENTS)
