"""Formulas of RRBA, and its section 4.3: tables that disagree, and made to agree.

Randomized Response Block Aggregation (RRBA), sections 1.1, 3.2.1, 4, 4.3 and 6. The paper has no
figure of 4.3.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from protocol.estimators.linear import LinearEstimate
from protocol.estimators.measures import jensen_shannon_distance, l2_distance
from protocol.estimators.projection import project_simplex
from protocol.randomizers.exact import Floats
from protocol.simulation.populations.everybody import ask_everybody
from protocol.variants import RRBA
from protocol.variants.rrba.grouped import GroupTables
from protocol.variants.rrba.views import design_views, lower_bound
from scenarios.data.networks import Network
from scenarios.papers.driver import experiment_scenarios
from scenarios.papers.experiment import Asked, Experiment, Found, Nothing, grid
from scenarios.papers.rrba.shared import People, network, run_rrba, sample
from scenarios.running.reproduction import Picture


def _views(asked: Asked[Nothing]) -> dict[str, Any]:
    """Section 4: the number of views, and the frequency of each group in them."""
    d, k = asked.cell["attributes"], asked.cell["k"]
    views = design_views(d, k)
    groups = [group for view in views for group in view]
    often = [groups.count(group) for group in combinations(range(d), k)]
    return {
        "views": len(views),
        "fewest possible": lower_bound(d, k),
        "groups of the largest view": max(map(len, views)),
        "times that a group occurs, at least": min(often),
        "times that a group occurs, at most": max(often),
    }


def _measure_bias(asked: Asked[Nothing]) -> dict[str, Any]:
    """Section 1.1 (two fair coins) and Equation 4: bias of the estimates."""
    p = asked.cell["p"]
    truth, fakes, other = asked.generator().dirichlet(np.ones(asked.cell["cells"]), size=3)
    reported = p * truth + (1 - p) * fakes
    yes = 0.5 * truth[0] + 0.25
    return {
        "2 (q - 1/4), less the share": 2 * (yes - 0.25) - truth[0],
        "Equation 4 with the table of the reports": np.abs(
            (reported - (1 - p) * fakes) / p - truth
        ).max(),
        "with another table": np.abs((reported - (1 - p) * other) / p - truth).max(),
    }


def _nearest(asked: Asked[Nothing]) -> dict[str, Any]:
    """Equation 7: objective of other tables near the projection, compared with its own."""
    gamma, cells = asked.cell["gamma"], asked.cell["cells"]
    generator, gains, moved = asked.generator(), [], []
    for _ in range(asked.runs):
        noisy = generator.dirichlet(np.ones(cells)) + generator.normal(0, 0.5 / cells, cells)
        best = project_simplex(noisy)
        steps = generator.dirichlet(np.ones(cells), size=200) - best
        tried = best + generator.random((200, 1)) ** 4 * steps
        apart = np.abs(np.vstack([best, tried]) - noisy)
        objective = gamma * apart.sum(axis=1) + (1 - gamma) * (apart**2).sum(axis=1)
        gains.append(objective[1:].min() - objective[0])
        moved.append(np.abs(best - noisy).max())
    return {"better table found": np.array(gains) < -1e-12, "moved": np.array(moved)}


def _divergence(asked: Asked[Nothing]) -> dict[str, Any]:
    """Equation 2, and its square root, which the tables print."""
    off = asked.cell["moved"]
    table = np.array([0.4, 0.3, 0.2, 0.1])
    other = table + off * np.array([1, -1, 0, 0])
    middle = (table + other) / 2
    divergence = sum(float((one * np.log(one / middle)).sum()) for one in (table, other)) / 2
    return {
        "divergence, Equation 2 in nats": divergence,
        "its square root": divergence**0.5,
        "as measured": jensen_shannon_distance(table, other),
    }


# Section 4.3


def _measure_agreement(asked: Asked[People]) -> dict[str, Floats]:
    """All groups of one run; group and client are drawn for every respondent."""
    source, n = network(asked.cell["network"], asked.data), asked.parameters.n
    if asked.live:
        records = sample(source, n, asked.context.seed)
        found = [_disagreement(run_rrba(asked, records, k=2, p=asked.cell["p"]), source)]
    else:
        found = []
        for seed in asked.generator().integers(2**63, size=asked.runs).tolist():
            records = sample(source, n, seed)
            variant = RRBA(survey=records.survey, k=2, p=asked.cell["p"])
            answers = ask_everybody(variant, records, seed=seed)
            found.append(_disagreement(variant.estimate(answers), source))
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def _disagreement(estimate: LinearEstimate[GroupTables], source: Network) -> dict[str, float]:
    """Disagreement and mean distance over all tables, before and after they are made to agree."""
    agreed, tables = estimate.consistent(), estimate.source.tables()
    projected = {names: project_simplex(table) for names, table in tables.items()}
    before, after = (
        np.mean([l2_distance(table, source.distribution(names)) for names, table in of.items()])
        for of in (projected, agreed.source.tables())
    )
    return {
        "disagreement": estimate.source.disagreement(),
        "disagreement afterwards": agreed.source.disagreement(),
        "l2, each table projected": float(before),
        "l2, tables that agree": float(after),
    }


def _gain_notes(found: Found[People]) -> list[str]:
    notes = []
    for name in ("survey", "child"):
        before, after = (
            found.value(figure, network=name, p=0.5)
            for figure in ("l2, each table projected", "l2, tables that agree")
        )
        notes.append(f"{name}, p = 0.5: tables that agree are {before / after:.2f} times nearer")
    return notes


SCENARIOS = experiment_scenarios(
    Experiment(
        name="rrba-views",
        summary="RRBA, section 4: views of d attributes, and how often they have each group.",
        cells=(
            *grid(attributes=(5, 6, 20, 37), k=(2,)),
            *grid(attributes=(6, 7, 9), k=(3,)),
            *grid(attributes=(8,), k=(4,)),
        ),
        measure=_views,
        picture=Picture(
            title="There are as few views as can be",
            figures=("views", "fewest possible"),
            axis="views",
            names={"attributes": "attributes d", "k": "attributes of a group"},
        ),
    ),
    Experiment(
        name="rrba-equation-4",
        summary="RRBA, section 1.1 and Equation 4: the bias of estimates, exactly.",
        cells=grid(p=(0.1, 0.5, 0.9), cells=(2, 4, 16)),
        measure=_measure_bias,
        notes=("expected shares of reports, with a truth and tables that are drawn once a cell",),
        picture=Picture(
            title="An estimate needs the table that its reports were drawn with",
            figures=("with another table",),
            axis="bias of an estimate",
            names={"with another table": "bias with another table"},
        ),
    ),
    Experiment(
        name="rrba-equation-2",
        summary="RRBA, Equation 2: the Jensen-Shannon divergence and the distance that is printed.",
        cells=grid(moved=(0.001, 0.01, 0.1)),
        measure=_divergence,
        notes=("of (.4, .3, .2, .1) and the table with so much moved to its first cell",),
        picture=Picture(
            title="What the tables print is the root of the divergence",
            figures=("divergence, Equation 2 in nats", "its square root"),
            axis="distance of two tables",
            names={"moved": "share moved"},
        ),
    ),
    Experiment(
        name="rrba-equation-7",
        summary="RRBA, Equation 7: no table is better by the elastic net than the projection.",
        cells=grid(gamma=(0.01, 0.5, 0.99), cells=(4, 16)),
        measure=_nearest,
        runs=100,
        notes=("each run tries 200 tables of the same total beside the projection of a noisy one",),
        picture=Picture(
            title="No table is better by the elastic net than the projection",
            figures=("better table found",),
            names={"better table found": "share of runs with a better table"},
        ),
    ),
    Experiment(
        name="rrba-consistency",
        summary="RRBA, 4.3: how far tables disagree, and their errors before and after agreeing.",
        cells=grid(network=("survey", "child"), p=(0.3, 0.5, 0.7)),
        measure=_measure_agreement,
        live=True,
        live_cell={"network": "survey", "p": 0.5},
        runs=10,
        at_once=2,
        parameters=People,
        notes=(
            "one group of two attributes for each client, fakes from the uniform table; "
            "disagreement: the largest difference of two tables' shares of one attribute; l2: the "
            "mean distance of a pair's shares from those of the network",
        ),
        observed=_gain_notes,
        picture=Picture(
            figures=("l2, each table projected", "l2, tables that agree"),
            title="Tables that agree are nearer to the truth",
            axis="mean l2 distance of a pair's shares",
        ),
    ),
)
